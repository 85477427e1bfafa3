# SPDX-License-Identifier: Apache-2.0
#
# colibri convert and colibri verify: what they print and with which exit code they end, conversions
# that are killed or interrupted at any moment, and what the default conversion costs of perplexity.

import filecmp
import hashlib
import json
import os
import pty
import random
import signal
import subprocess
import time
import unittest

from command import COMMAND, GOLDEN, TINY, TINY_CONTAINER, TINY_PACKED, CommandTest, run_any

SECONDS_UNTIL_RECORDED = 2  # finished tensors are recorded as done that often


def hash_folder(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


class Convert(CommandTest):
    def setUp(self):
        super().setUp()
        self.packed = self.folder / "packed"
        self.partial = self.folder / "packed.partial"

    def assert_same_folder(self, left, right):
        names = sorted(os.listdir(left))
        self.assertEqual(names, sorted(os.listdir(right)))
        same, different, failed = filecmp.cmpfiles(left, right, names, shallow=False)
        self.assertEqual((different, failed), ([], []))
        self.assertGreater(len(same), 3)

    def begin(self, source=TINY, errors=subprocess.PIPE):
        """Starts a conversion and waits until it writes tensors, or has ended."""
        resume = ["--resume"] if self.partial.exists() else []
        process = subprocess.Popen(
            [COMMAND, "convert", source, self.packed, "--threads", "1", *resume],
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        shard = self.partial / "model-00001-of-00001.safetensors"
        while process.poll() is None and not shard.exists():
            time.sleep(0.002)
        return process

    def finish(self):
        resume = ["--resume"] if self.partial.exists() else []
        return self.run_json("convert", TINY, self.packed, *resume, "--json")

    def test_the_model_that_comes_with_the_command_is_what_conversion_makes_of_its_container(self):
        result = self.run_json("convert", TINY_CONTAINER, self.packed, "--json")
        self.assertEqual(result["quantised_matrices"], 0)
        self.assert_same_folder(self.packed, TINY_PACKED)
        ids = "5,700,31,1,9,1200"
        logits = []
        for model in (TINY_CONTAINER, TINY_PACKED):
            out = self.folder / "logits.npy"
            self.run_well("logits", model, "--ids", ids, "--out", out)
            logits.append(out.read_bytes())
        self.assertEqual(logits[0], logits[1])

    def test_a_float_model_is_quantised_and_described(self):
        before = hash_folder(TINY)
        result = self.run_json("convert", TINY, self.packed, "--json")
        self.assertEqual(hash_folder(TINY), before)
        self.assertFalse(self.partial.exists())
        self.assertEqual(result["destination"], str(self.packed))
        self.assertEqual((result["kept_matrices"], result["resumed_tensors"]), (0, 0))
        self.assertGreater(result["relative_error"], 0.05)
        self.assertLess(result["relative_error"], 0.12)
        self.assertLess(result["result_bytes"], 0.5 * result["source_bytes"])
        formats = self.run_json("inspect", self.packed, "--json")["tensors"]["formats"]
        self.assertEqual(result["formats"], formats)
        # 7 layers of 32 experts; 8 layers of kv_b_proj in heads of 4, two halves each.
        self.assertEqual(formats["int4-packed"]["count"], 7 * 32 * 3)
        self.assertEqual(
            result["quantised_matrices"],
            7 * 32 * 3 + formats["int8-packed"]["count"] - 8 * 4 * 2 + 8,
        )
        text = self.run_well("convert", TINY, self.folder / "again")
        self.assertIn("source                     23.5 MiB\n", text)
        self.assertRegex(text, r"\nmatrices quantised +744  relative error 0\.\d{5}\n")
        self.assertRegex(text, r"\nint4-packed +4\.2 MiB  672 matrices and vectors\n")
        self.assert_same_folder(self.packed, self.folder / "again")
        self.run_well("generate", "Once", "--tokens", "2", "--model", self.packed)

    def test_the_default_conversion_costs_less_than_0_6_percent_of_perplexity(self):
        self.run_well("convert", TINY, self.packed)

        def perplexity(model, activations):
            return self.run_json(
                "perplexity", model, "--text", TINY / "validation.txt", "--json",
                "--window", "512", "--activations", activations,
            )["perplexity"]  # fmt: skip

        exact = perplexity(TINY, "float")
        self.assertAlmostEqual(exact, 1.7678, delta=1e-3)
        self.assertLess(perplexity(self.packed, "int8"), 1.006 * exact)
        self.assertLess(perplexity(self.packed, "float"), 1.006 * exact)

    def test_a_packed_integer_model_has_the_logits_of_its_source(self):
        result = self.run_json("convert", TINY_CONTAINER, self.packed, "--json")
        self.assertEqual((result["quantised_matrices"], result["relative_error"]), (0, 0))
        self.assertEqual(result["kept_matrices"], 746)
        outputs = []
        for name, model in [("a.npy", TINY_CONTAINER), ("b.npy", self.packed)]:
            out = self.folder / name
            self.run_well("logits", model, "--ids", "411,426,7,19,1203,5", "--out", out)
            outputs.append(out.read_bytes())
        self.assertEqual(outputs[0], outputs[1])

    def test_flags_choose_formats_groups_and_scales(self):
        plain = self.run_json("convert", TINY, self.packed, "--json")
        cases = [
            (["--experts", "int8"], {"int8-packed"}, {"int4-packed"}),
            (["--experts", "keep", "--dense", "keep"], {"bf16-packed"}, {"int4-packed"}),
            (["--dense", "int4"], {"int4-packed"}, {"int8-packed"}),
            (["--dense", "bf16"], {"bf16", "int4-packed"}, {"int8-packed"}),
            (["--embedding", "int8", "--head", "bf16"], {"int8-packed"}, set()),
        ]
        for number, (flags, present, absent) in enumerate(cases):
            with self.subTest(flags):
                path = self.folder / str(number)
                result = self.run_json("convert", TINY, path, *flags, "--json")
                self.assertEqual(present - set(result["formats"]), set())
                self.assertEqual(absent & set(result["formats"]), set())
        finer = self.run_json("convert", TINY, self.folder / "g32", "--group", "32", "--json")
        self.assertLess(finer["relative_error"], plain["relative_error"])
        absmax = self.run_json("convert", TINY, self.folder / "max", "--scales", "absmax", "--json")
        self.assertLess(plain["relative_error"], absmax["relative_error"])
        self.assertEqual(plain["result_bytes"], absmax["result_bytes"])

    def test_a_conversion_killed_at_any_moment_goes_on_to_the_same_bytes(self):
        expected = self.folder / "expected"
        self.run_well("convert", TINY, expected)
        moments = random.Random(4)
        for _ in range(3):
            n_kills = 0
            for number in range(12):
                process = self.begin()
                time.sleep(moments.uniform(0, 0.05 * number))
                process.kill()
                process.communicate()
                if self.packed.exists():
                    break
                n_kills += 1
            if not self.packed.exists():
                self.finish()
            self.assertGreater(n_kills, 0)
            self.assertFalse(self.partial.exists())
            # Of a kill in the moment in which the folder got its name.
            for name in ("conversion.journal", "conversion.lock"):
                (self.packed / name).unlink(missing_ok=True)
            self.assert_same_folder(expected, self.packed)
            self.packed.rename(self.folder / f"round {random.random()}")

    def test_what_was_recorded_before_a_kill_is_not_done_again(self):
        expected = self.folder / "expected"
        self.run_well("convert", TINY, expected)
        journal = self.partial / "conversion.journal"
        process = self.begin()
        process.send_signal(signal.SIGSTOP)
        time.sleep(SECONDS_UNTIL_RECORDED + 0.1)
        process.send_signal(signal.SIGCONT)
        while process.poll() is None and journal.read_bytes().count(b"\n") < 2:
            pass
        process.kill()
        process.communicate()
        result = self.finish()
        self.assertGreater(result["resumed_tensors"], 0)
        self.assert_same_folder(expected, self.packed)

    def test_an_interrupt_ends_with_130_and_can_be_gone_on_with(self):
        process = self.begin()
        process.send_signal(signal.SIGINT)
        output = process.communicate(timeout=60)
        self.assertEqual((process.returncode, output), (130, (b"", b"")))
        self.assertFalse(self.packed.exists())
        message = self.run_badly(2, "convert", TINY, self.packed)
        self.assertIn("--resume", message)
        self.assertIn(str(self.partial), message)
        message = self.run_badly(1, "convert", TINY, self.packed, "--resume", "--group", "32")
        self.assertIn("group=64", message)
        self.finish()
        self.run_well("convert", TINY, self.folder / "expected")
        self.assert_same_folder(self.folder / "expected", self.packed)

    def test_a_terminal_sees_progress_with_rate_and_time_left(self):
        reader, writer = pty.openpty()
        process = self.begin(errors=writer)
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.6)
        process.send_signal(signal.SIGCONT)
        process.communicate()
        os.close(writer)
        shown = b""
        try:
            while piece := os.read(reader, 4096):
                shown += piece
        except OSError:  # the other end is closed and everything is read
            pass
        os.close(reader)
        self.assertEqual(process.returncode, 0)
        text = shown.decode("utf-8")
        self.assertRegex(text, r"(converting|checking) \[#*\.*\] [\d.]+ \w+ of 10\.7 MiB, \d+ MB/s, 0:\d\d left")
        self.assertTrue(text.endswith("\r\033[K"), text)

    def test_a_changed_source_is_not_gone_on_with(self):
        source = self.copy_model(TINY)
        process = self.begin(source)
        process.kill()
        process.communicate()
        os.utime(source / "model.safetensors")
        message = self.run_badly(1, "convert", source, self.packed, "--resume")
        self.assertIn("the source has changed", message)

    def test_wrong_use_ends_with_2_and_says_what_is_wrong(self):
        inside = TINY / "packed"
        self.packed.mkdir()
        cases = [
            (["convert"], "SRC is required"),
            (["convert", TINY], "DST is required"),
            (["convert", TINY, "x", "--experts", "bf16"], "--experts: bf16"),
            (["convert", TINY, "x", "--dense", "fp8"], "--dense: fp8"),
            (["convert", TINY, "x", "--embedding", "int4"], "--embedding: int4"),
            (["convert", TINY, "x", "--group", "48"], "--group: 48"),
            (["convert", TINY, "x", "--scales", "none"], "--scales: none"),
            (["convert", TINY, "x", "--threads", "0"], "--threads: '0'"),
            (["convert", TINY, inside], "lies in the source folder"),
            (["convert", TINY, self.packed], "exists already"),
            (["verify"], "SNAPSHOT is required"),
            (["verify", TINY, "--threads", "x"], "--threads: 'x'"),
        ]
        for arguments, wanted in cases:
            with self.subTest(arguments):
                self.assertIn(wanted, self.run_badly(2, *arguments))
        self.assertFalse(inside.exists())

    def test_a_run_that_fails_ends_with_1_and_says_what_to_do(self):
        absent = self.folder / "absent"
        cases = [
            (["convert", absent, self.packed], "give a folder with config.json"),
            (["convert", TINY, absent / "packed"], "absent"),
            (["convert", TINY, "/proc/packed"], "/proc"),
            (["verify", absent], str(absent)),
            (["verify", TINY], "colibri convert"),
        ]
        for arguments, wanted in cases:
            with self.subTest(arguments):
                self.assertIn(wanted, self.run_badly(1, *arguments))

    def test_a_weight_that_is_nan_is_named(self):
        source = self.copy_model(TINY)
        shard = source / "model.safetensors"
        data = shard.read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        name = "model.layers.3.mlp.experts.7.up_proj.weight"
        at = 8 + length + header[name]["data_offsets"][0] + 2 * (192 * 5 + 11)
        shard.write_bytes(data[:at] + b"\xc0\x7f" + data[at + 2 :])
        message = self.run_badly(1, "convert", source, self.packed)
        self.assertIn(f"tensor {name} is NaN in row 5, column 11", message)
        self.assertFalse(self.packed.exists())


class Verify(CommandTest):
    def setUp(self):
        super().setUp()
        self.packed = self.folder / "packed"
        self.run_well("convert", GOLDEN / "glm_moe_dsa-int4g64", self.packed)

    def test_a_sound_folder_is_said_to_be_sound(self):
        result = self.run_json("verify", self.packed, "--json")
        self.assertEqual((result["damaged"], result["first_damaged"]), (0, None))
        self.assertGreater(result["tensors"], 100)
        self.assertGreater(result["bytes"], 1_000_000)
        text = self.run_well("verify", self.packed, "--threads", "1")
        self.assertRegex(
            text, rf"^sound: {result['tensors']} tensors and {result['files']} other files, "
        )

    def test_damage_ends_with_1_and_names_the_first_part(self):
        shard = self.packed / "model-00001-of-00001.safetensors"
        data = bytearray(shard.read_bytes())
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        offsets = {name: entry["data_offsets"] for name, entry in header.items() if name[0] != "_"}
        first = min(offsets, key=offsets.get)
        data[8 + int.from_bytes(data[:8], "little") + 100] ^= 1
        shard.write_bytes(data)
        (self.packed / "config.json").write_text("{}", encoding="utf-8")
        message = self.run_badly(1, "verify", self.packed)
        self.assertIn(f"2 of {len(offsets)} tensors and ", message)
        self.assertIn(f"the first is {first};", message)
        result = run_any("verify", self.packed, "--json")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(json.loads(result.stdout)["first_damaged"], first)


if __name__ == "__main__":
    unittest.main()
