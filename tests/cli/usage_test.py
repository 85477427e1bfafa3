# SPDX-License-Identifier: Apache-2.0
#
# Exit codes and messages: 2 and one line for bad use, 1 and one line for a run that failed.

import re
import unittest

from command import TINY_PACKED, CommandTest, run_any

SUBCOMMANDS = [
    "generate",
    "chat",
    "inspect",
    "plan",
    "tokenize",
    "detokenize",
    "logits",
    "perplexity",
    "bench",
    "convert",
    "verify",
]


class Usage(CommandTest):
    def test_help_and_version_are_successes_on_stdout(self):
        self.assertIn("Examples:", self.run_well("--help"))
        self.assertRegex(self.run_well("--version"), r"^colibri \d+\.\d+\.\d+\n$")
        for name in SUBCOMMANDS:
            with self.subTest(name):
                self.assertIn("--help", self.run_well(name, "--help"))

    def test_bad_use_ends_with_2_and_one_line(self):
        cases = [
            [],
            ["generate"],
            ["generate", "--nonsense", "x"],
            ["generate", "x", "--tokens", "many"],
            ["generate", "x", "--ids", "1"],
            ["generate", "--ids", "1,,2"],
            ["generate", "--ids", "a"],
            ["generate", "--ids", "-1"],
            ["generate", "--ids", ""],
            ["generate", "x", "--temperature", "-1"],
            ["generate", "x", "--threads", "0"],
            ["generate", "x", "--ram-budget", "much"],
            ["generate", "x", "--activations", "int3"],
            ["generate", "x", "--isa", "nonsense"],
            ["generate", "x", "--latent-norm-eps", "0"],
            ["generate", "x", "--chunk", "0"],
            ["logits", TINY_PACKED, "--ids", "1,2"],
            ["logits", TINY_PACKED, "--out", "x.npy"],
            ["generate", "--ids", "1,2048"],
            ["perplexity", TINY_PACKED],
            ["perplexity", TINY_PACKED, "--text", "x", "--window", "1"],
            ["perplexity", TINY_PACKED, "--text", "x", "--window", "8", "--stride", "9"],
            ["tokenize", TINY_PACKED],
            ["detokenize", TINY_PACKED],
            ["chat", "--json"],
        ]
        for arguments in cases:
            with self.subTest(arguments):
                self.run_badly(2, *arguments)

    def test_a_refused_number_is_named_with_the_values_that_are_taken(self):
        whole = "a whole number from {} to {}".format
        size = "a size from 1 to 2^64-1 bytes, such as"
        up_to_32_bits = whole(0, 2**32 - 1)
        up_to_64_bits = whole(0, 2**64 - 1)
        cases = [
            *((["generate", "x"], "--ram-budget", value, size) for value in [
                "-5", "-1", "-8G", "+8G", "0", "0.0G", "1.5", "1.G", ".5G", "1.5.5G", "8GB", "8Gi",
                "8X", "8 G", "G", "0x10", "1e9", "nan", " 8", "8G,", str(2**64), "16777216T",
                "99999999999999999999999", "17179869184.0G",
            ]),
            *((["generate", "x"], "--seed", value, up_to_64_bits) for value in [
                "-1", "+1", "1.0", "0x1", "", str(2**64), "99999999999999999999999",
            ]),
            (["generate", "x"], "--tokens", "-1", up_to_32_bits),
            (["generate", "x"], "--tokens", str(2**32), up_to_32_bits),
            (["generate", "x"], "--tokens", "--json", up_to_32_bits),
            (["generate", "x"], "--top-k", "-1", up_to_32_bits),
            (["generate", "x"], "--context", "-1", whole(1, 2**32 - 1)),
            (["generate", "x"], "--threads", "1025", whole(1, 1024)),
            (["generate", "x"], "--chunk", "0x10", whole(1, 4096)),
            (["generate", "x"], "--temperature", "-0.5", "a number from 0 to 100"),
            (["generate", "x"], "--temperature", "nan", "a number from 0 to 100"),
            (["generate", "x"], "--temperature", "0,7", "a number from 0 to 100"),
            (["generate", "x"], "--top-p", "1.1", "a number from 0 to 1"),
            (["generate", "x"], "--min-p", "-1", "a number from 0 to 1"),
            (["generate", "x"], "--repetition-penalty", "-1", "a number from 0 on"),
            (["generate", "x"], "--repetition-penalty", "inf", "a number from 0 on"),
            (["generate", "x"], "--latent-norm-eps", "0", "a number > 0;"),
            (["generate", "x"], "--latent-norm-eps", "1e-60", "a number > 0;"),
            (["generate", "x"], "--latent-norm-eps", "-1e-5", "a number > 0;"),
            (["generate"], "--ids", "-1", whole(0, 2**31 - 1)),
            (["generate"], "--ids", str(2**31), whole(0, 2**31 - 1)),
            (["plan"], "--slots", "513", whole(1, 512)),
            (["plan"], "--slots", "-1", whole(1, 512)),
            (["plan"], "--context", "0", whole(1, 2**32 - 1)),
            (["perplexity", "--text", "x"], "--window", "-2", whole(2, 2**20)),
            (["perplexity", "--text", "x"], "--stride", "0", whole(1, 2**20)),
            (["bench"], "--slots", "0", whole(1, 512)),
            (["bench"], "--tokens", "1", whole(2, 2**20)),
            (["bench"], "--prompt", "-1", whole(1, 2**20)),
        ]
        for arguments, flag, value, taken in cases:
            with self.subTest(flag=flag, value=value):
                message = self.run_badly(2, *arguments, flag, value)
                self.assertRegex(message, f"^colibri: {flag}( item 1)?: '")
                self.assertIn(f"'{value}' is not {taken}", message)
        self.assertEqual(
            self.run_badly(2, "generate", "x", "--tokens=-1"),
            self.run_badly(2, "generate", "x", "--tokens", "-1"),
        )

    def test_the_ends_of_a_range_are_taken(self):
        for seed in ["0", str(2**64 - 1)]:
            self.run_well("generate", "x", "--tokens", "1", "--seed", seed)
        self.run_well("plan", TINY_PACKED, "--slots", "512", "--context", "1", "--threads", "1024")
        plan = self.run_json("plan", TINY_PACKED, "--ram-budget", str(2**64 - 1), "--json")
        self.assertEqual(plan["budget_bytes"], 2**64 - 1)

    def test_sizes_may_have_a_fraction(self):
        for text, size in [
            ("1.5G", 3 << 29),
            ("1.5g", 3 << 29),
            ("0.5GiB", 1 << 29),
            ("2.25MiB", 9 << 18),
            ("70000kib", 70000 << 10),
            ("1TiB", 1 << 40),
            ("16777215.5T", (2**25 - 1) << 39),
        ]:
            with self.subTest(text):
                plan = self.run_json("plan", TINY_PACKED, "--ram-budget", text, "--json")
                self.assertEqual(plan["budget_bytes"], size)

    def test_a_number_that_is_given_twice_is_refused(self):
        message = self.run_badly(2, "generate", "x", "--tokens", "2", "--tokens=3")
        self.assertIn("--tokens: is given 2 times; give it once", message)

    def test_an_item_of_a_list_is_named_by_its_place(self):
        message = self.run_badly(2, "generate", "--ids", "1,x,2")
        self.assertIn("--ids item 2: 'x' is not a whole number", message)

    def test_an_id_the_tokenizer_does_not_have_is_bad_use(self):
        for value in ["2048", "999999", str(2**31 - 1)]:
            with self.subTest(value):
                message = self.run_badly(2, "detokenize", TINY_PACKED, "--ids", "1," + value)
                self.assertIn(f"--ids item 2: {value} is not an id", message)
                self.assertIn("0 to 2047", message)
        self.run_well("detokenize", TINY_PACKED, "--ids", "0,2047")

    def test_an_unknown_subcommand_is_named_with_those_that_exist(self):
        known = "the subcommands are " + ", ".join(SUBCOMMANDS)
        for arguments, reason in [
            (["nope"], "'nope' is no subcommand"),
            (["nope", "--json"], "'nope' is no subcommand"),
            (["--tokens", "3"], "'--tokens' needs a subcommand before it"),
            ([], "a subcommand is missing"),
        ]:
            with self.subTest(arguments):
                self.assertIn(f"{reason}; {known}", self.run_badly(2, *arguments))

    def test_a_missing_path_says_what_to_give(self):
        absent = self.folder / "absent"
        for arguments in [
            ["inspect", absent],
            ["plan", absent],
            ["bench", absent],
            ["generate", "x", "--model", absent],
        ]:
            with self.subTest(arguments[0]):
                message = self.run_badly(1, *arguments)
                self.assertIn(str(absent), message)
                self.assertIn("give a folder with config.json and *.safetensors files", message)
        self.assertIn("tokenizer.json", self.run_badly(1, "tokenize", absent, "x"))

    def test_a_refused_budget_names_the_flag_and_a_minimum_that_works(self):
        small = ["generate", "x", "--tokens", "1", "--context", "64", "--ram-budget"]
        message = self.run_badly(1, *small, "1M")
        least = int(re.search(r"--ram-budget must be at least (\d+) ", message).group(1))
        self.assertIn(f"at least {least} ", self.run_badly(1, *small, str(least - 1)))
        self.run_well(*small, str(least))

    def test_a_run_that_fails_ends_with_1_and_names_what_is_wrong(self):
        empty = self.folder / "empty"
        empty.mkdir()
        cases = [
            (["generate", "x", "--model", self.folder / "absent"], "absent"),
            (["generate", "x", "--model", empty], "empty"),
            (["inspect", self.folder / "absent"], "absent"),
            (["tokenize", empty, "x"], "empty"),
            (["tokenize", TINY_PACKED, "--file", self.folder / "absent.txt"], "absent.txt"),
            (["perplexity", TINY_PACKED, "--text", self.folder / "absent.txt"], "absent.txt"),
            (
                ["logits", TINY_PACKED, "--ids", "1", "--out", self.folder / "absent" / "x.npy"],
                "absent",
            ),
            (["generate", "x", "--ram-budget", "1M"], "1048576"),
            (["generate", "word " * 2000], "1024"),
        ]
        for arguments, word in cases:
            with self.subTest(arguments[:3]):
                self.assertIn(word, self.run_badly(1, *arguments))

    def test_a_damaged_model_is_named_and_does_not_crash(self):
        model = self.copy_model(TINY_PACKED)
        with open(model / "model-00001-of-00001.safetensors", "r+b") as shard:
            shard.truncate(1_000_000)
        self.assertIn("model-00001-of-00001.safetensors", self.run_badly(1, "generate", "x", "--model", model))
        (model / "config.json").write_text("{", encoding="utf-8")
        self.assertIn("config.json", self.run_badly(1, "inspect", model))

    def test_output_that_cannot_be_written_is_a_failed_run(self):
        import subprocess
        from command import COMMAND

        with open("/dev/full", "wb") as full:
            result = subprocess.run(
                [COMMAND, "inspect", str(TINY_PACKED), "--json"],
                stdout=full,
                stderr=subprocess.PIPE,
                timeout=60,
                check=False,
            )
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"standard output", result.stderr)

    def test_the_working_directory_does_not_matter(self):
        self.assertEqual(run_any("inspect", "--json").returncode, 0)


if __name__ == "__main__":
    unittest.main()
