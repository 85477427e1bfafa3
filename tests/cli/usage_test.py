# SPDX-License-Identifier: Apache-2.0
#
# Exit codes and messages: 2 and one line for bad use, 1 and one line for a run that failed.

import unittest

from command import TINY_INT4, CommandTest, run_any

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
            ["nonsense"],
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
            ["logits", TINY_INT4, "--ids", "1,2"],
            ["logits", TINY_INT4, "--out", "x.npy"],
            ["generate", "--ids", "1,2048"],
            ["perplexity", TINY_INT4],
            ["perplexity", TINY_INT4, "--text", "x", "--window", "1"],
            ["perplexity", TINY_INT4, "--text", "x", "--window", "8", "--stride", "9"],
            ["tokenize", TINY_INT4],
            ["detokenize", TINY_INT4],
            ["chat", "--json"],
        ]
        for arguments in cases:
            with self.subTest(arguments):
                self.run_badly(2, *arguments)

    def test_a_run_that_fails_ends_with_1_and_names_what_is_wrong(self):
        empty = self.folder / "empty"
        empty.mkdir()
        cases = [
            (["generate", "x", "--model", self.folder / "absent"], "absent"),
            (["generate", "x", "--model", empty], "empty"),
            (["inspect", self.folder / "absent"], "absent"),
            (["tokenize", empty, "x"], "empty"),
            (["tokenize", TINY_INT4, "--file", self.folder / "absent.txt"], "absent.txt"),
            (["perplexity", TINY_INT4, "--text", self.folder / "absent.txt"], "absent.txt"),
            (
                ["logits", TINY_INT4, "--ids", "1", "--out", self.folder / "absent" / "x.npy"],
                "absent",
            ),
            (["generate", "x", "--ram-budget", "1M"], "1048576"),
            (["generate", "word " * 2000], "1024"),
        ]
        for arguments, word in cases:
            with self.subTest(arguments[:3]):
                self.assertIn(word, self.run_badly(1, *arguments))

    def test_a_damaged_model_is_named_and_does_not_crash(self):
        model = self.copy_model(TINY_INT4)
        with open(model / "out-00000.safetensors", "r+b") as shard:
            shard.truncate(1_000_000)
        self.assertIn("out-00000.safetensors", self.run_badly(1, "generate", "x", "--model", model))
        (model / "config.json").write_text("{", encoding="utf-8")
        self.assertIn("config.json", self.run_badly(1, "inspect", model))

    def test_output_that_cannot_be_written_is_a_failed_run(self):
        import subprocess
        from command import COMMAND

        with open("/dev/full", "wb") as full:
            result = subprocess.run(
                [COMMAND, "inspect", str(TINY_INT4), "--json"],
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
