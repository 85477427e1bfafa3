# SPDX-License-Identifier: Apache-2.0
#
# colibri bench: the form of its output, and that its figures fit each other. Speed itself is never
# asserted.

import os
import pty
import signal
import subprocess
import time
import unittest

from command import COMMAND, TINY_PACKED, CommandTest, start

# Of the demonstration model: layers with experts, experts of a token in each.
MOE_LAYERS = 7
EXPERTS_PER_TOKEN = 4


class Bench(CommandTest):
    def check_decoding(self, result, slots, n_tokens):
        self.assertEqual([entry["slots"] for entry in result["decode"]], slots)
        first = result["decode"][0]
        self.assertEqual(first["ratio"], 1)
        for entry in result["decode"]:
            self.assertEqual(entry["steps"], n_tokens)
            self.assertEqual(entry["tokens"], n_tokens * entry["slots"])
            rate = entry["tokens"] / entry["seconds"]
            self.assertAlmostEqual(entry["tokens_per_second"] / rate, 1)
            self.assertAlmostEqual(
                entry["ratio"], entry["tokens_per_second"] / first["tokens_per_second"]
            )
            self.assertLessEqual(entry["step_ms_p50"], entry["step_ms_p95"])
            self.assertAlmostEqual(
                entry["bytes_per_step"],
                sum(entry[kind + "_bytes_per_step"] for kind in ("dense", "expert", "kv")),
            )
            # The share is told by groups of steps; here it can only be of the same order.
            bound = entry["bytes_per_step"] / (1e9 * entry["read_gbps"])
            share = bound / (1e-3 * entry["step_ms_p50"])
            self.assertGreater(entry["share_of_byte_bound"], share / 10)
            self.assertLess(entry["share_of_byte_bound"], share * 10)
            # The untimed run before needed the same experts, and all of them fit.
            self.assertEqual((entry["expert_misses"], entry["read_bytes"]), (0, 0))
            self.assertAlmostEqual(
                entry["experts_per_step"] * entry["steps"], entry["expert_hits"]
            )
            per_row = MOE_LAYERS * EXPERTS_PER_TOKEN
            self.assertGreaterEqual(entry["experts_per_step"], per_row)
            self.assertLessEqual(entry["experts_per_step"], per_row * entry["slots"])

    def check_prefill(self, result, lengths):
        self.assertEqual([entry["prompt"] for entry in result["prefill"]], lengths)
        self.assertGreater(result["cache_gmacs"], 0)
        for entry in result["prefill"]:
            self.assertEqual(entry["tokens"], entry["prompt"])
            self.assertEqual(entry["expert_misses"], 0)
            rows = entry["experts_per_step"] * entry["steps"] * entry["rows_per_expert"]
            self.assertAlmostEqual(rows, entry["prompt"] * MOE_LAYERS * EXPERTS_PER_TOKEN)
            for rate, share in (
                ("expert_gmacs", "share_of_cache_peak"),
                ("integer_gmacs", "step_share_of_cache_peak"),
            ):
                self.assertGreater(entry[rate], 0)
                self.assertAlmostEqual(entry[share], entry[rate] / result["cache_gmacs"])
            self.assertGreater(entry["expert_time_share"], 0)
            self.assertLess(entry["expert_time_share"], 1)
            # The experts' multiply-adds are some of all, in some of the time.
            self.assertLess(
                entry["expert_gmacs"] * entry["expert_time_share"], entry["integer_gmacs"]
            )

    def test_decode_says_what_steps_read_and_how_near_they_come_to_reading_alone(self):
        result = self.run_json(
            "bench", "decode", "--model", TINY_PACKED, "--slots", "1,3", "--context", "20", "--tokens", "6",
            "--json",
        )  # fmt: skip
        self.check_decoding(result, [1, 3], 6)
        one, three = result["decode"]
        self.assertEqual(one["experts_per_step"], MOE_LAYERS * EXPERTS_PER_TOKEN)
        # Every step of either reads the dense weights once, but for rows of the embedding.
        self.assertLess(three["dense_bytes_per_step"], 1.05 * one["dense_bytes_per_step"])
        self.assertAlmostEqual(three["kv_bytes_per_step"] / one["kv_bytes_per_step"], 3)
        per_expert = one["expert_bytes_per_step"] / one["experts_per_step"]
        self.assertAlmostEqual(
            three["expert_bytes_per_step"] / three["experts_per_step"], per_expert
        )
        self.assertIn(result["kernel_set"], ["ref", "avx2", "avx512"])

    def test_prefill_has_one_entry_per_length_in_chunks_as_asked(self):
        result = self.run_json(
            "bench", "prefill", "--tokens", "40,100", "--chunk", "64", "--threads", "1", "--json"
        )
        self.check_prefill(result, [40, 100])
        self.assertEqual([entry["steps"] for entry in result["prefill"]], [1, 2])
        self.assertEqual(result["threads"], 1)

    def test_float_activations_have_no_integer_products(self):
        result = self.run_json(
            "bench", "prefill", "--tokens", "8", "--activations", "float", "--json"
        )
        entry = result["prefill"][0]
        for field in ("expert_gmacs", "share_of_cache_peak", "integer_gmacs"):
            self.assertEqual(entry[field], 0, field)
        self.assertGreater(entry["expert_time_share"], 0)

    def test_without_a_subcommand_both_are_measured(self):
        arguments = ["bench", "--slots", "1,2", "--context", "8", "--tokens", "4", "--prompt", "16"]
        result = self.run_json(*arguments, "--json")
        self.check_decoding(result, [1, 2], 4)
        self.check_prefill(result, [16])
        table = self.run_well(*arguments)
        numbers = [line.split()[0] for line in table.splitlines() if line[:1] == " "]
        self.assertEqual(numbers, ["1", "2", "16"])

    def test_an_option_before_the_subcommand_is_refused(self):
        message = self.run_badly(2, "bench", "--slots", "2", "decode")
        self.assertIn("--slots: stands before 'decode'", message)
        self.assertIn("colibri bench decode --help", message)

    def test_more_positions_than_the_model_has_are_refused(self):
        self.assertIn("context_tokens", self.run_badly(2, "bench", "decode", "--context", "100000"))


class BenchSynth(CommandTest):
    def test_a_random_model_is_measured_like_any_other(self):
        model = self.folder / "random"
        self.assertEqual(
            self.run_well(
                "bench", "synth", model, "--shape", "colibri-tiny", "--layers", "3", "--skew", "0.5", "--repeat",
                "0.6", "--seed", "7", "--threads", "2",
            ),
            "",
        )  # fmt: skip
        result = self.run_json(
            "bench", "decode", model, "--slots", "1", "--context", "16", "--tokens", "8", "--json"
        )
        entry = result["decode"][0]
        # 3 layers of experts or fewer, 4 experts of a token in each.
        self.assertIn(entry["experts_per_step"], (4, 8, 12))
        self.assertEqual(entry["tokens"], 8)

    def test_options_reach_the_weights(self):
        def write(name, *arguments):
            self.run_well("bench", "synth", self.folder / name, "--shape", "colibri-tiny", *arguments)
            return b"".join(
                path.read_bytes() for path in sorted((self.folder / name).rglob("*.safetensors"))
            )

        first = write("a", "--layers", "1")
        self.assertEqual(write("b", "--layers", "1", "--repeat", "0.4", "--skew", "0"), first)
        for number, arguments in enumerate(
            (["--seed", "2"], ["--repeat", "0.9"], ["--skew", "0.5"])
        ):
            self.assertNotEqual(write(str(number), "--layers", "1", *arguments), first, arguments)

    def test_what_cannot_be_written_is_refused(self):
        (self.folder / "there").mkdir()
        for message, arguments in (
            ("exists already", [self.folder / "there"]),
            ("lama", [self.folder / "new", "--shape", "lama"]),
            ("--repeat", [self.folder / "new", "--repeat", "0"]),
            ("repeat is 1.5", [self.folder / "new", "--repeat", "1.5"]),
            ("--layers", [self.folder / "new", "--layers", "0"]),
        ):
            self.assertIn(message, self.run_badly(2, "bench", "synth", *arguments))
        self.assertFalse((self.folder / "new").exists())

    def test_an_interrupt_ends_it_without_a_model(self):
        model = self.folder / "large"
        process = start("bench", "synth", model, "--layers", "8")
        deadline = time.monotonic() + 60
        while not (self.folder / "large.partial").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        output = process.communicate(timeout=60)
        self.assertEqual((process.returncode, output), (130, (b"", b"")))
        self.assertFalse(model.exists())


class BenchKernels(CommandTest):
    def test_an_interrupt_ends_it_at_once(self):
        reader, writer = pty.openpty()
        process = subprocess.Popen(
            [COMMAND, "bench", "kernels", "--runs", "1000"], stdout=subprocess.PIPE, stderr=writer
        )
        os.close(writer)
        self.assertIn(b"measuring takes", os.read(reader, 4096))
        process.send_signal(signal.SIGINT)
        output = process.communicate(timeout=20)
        os.close(reader)
        self.assertEqual((process.returncode, output), (130, (b"", None)))

    def run_kernels(self, *arguments):
        return self.run_json("bench", "kernels", "--runs", "1", "--memory", "2M", *arguments, "--json")

    def check(self, result, rows):
        self.assertEqual([entry["rows"] for entry in result["rows"]], rows)
        for entry in result["rows"]:
            macs = result["depth"] * result["columns"] * entry["rows"]
            self.assertAlmostEqual(entry["gmacs"] * entry["seconds"] * 1e9 / macs, 1)
            self.assertAlmostEqual(
                entry["relative_time"], entry["seconds"] / result["rows"][0]["seconds"]
            )
            roof = max(entry["gbps"] / result["read_gbps"], entry["gmacs"] / result["peak_gmacs"])
            self.assertAlmostEqual(entry["roof_share"] / roof, 1)
        self.assertGreater(result["cache_gmacs"], 0)

    def test_figures_follow_from_each_other(self):
        result = self.run_kernels("--shape", "512x256", "--rows", "1,4,33")
        self.check(result, [1, 4, 33])
        # INT4 and a BF16 scale for 64 weights: 0.5 + 2 / 64 bytes each.
        first = result["rows"][0]
        self.assertAlmostEqual(first["gbps"] * first["seconds"] * 1e9, 512 * 256 * (0.5 + 2 / 64))
        self.assertEqual((result["matrix"], result["threads"]), ("int4", 1))
        self.assertTrue(result["instruction"])

    def test_the_format_the_kernels_and_the_threads_are_those_asked_for(self):
        for matrix in ("int4", "int8", "bf16"):
            result = self.run_kernels(
                "--shape", "64x128", "--rows", "2", "--matrix", matrix, "--isa", "ref", "--threads", "2"
            )
            self.check(result, [2])
            self.assertEqual((result["matrix"], result["kernel_set"]), (matrix, "ref"))

    def test_shapes_of_known_models_have_names(self):
        for name, depth, columns in (("glm", 6144, 2048), ("qwen3", 2048, 768)):
            result = self.run_kernels("--shape", name, "--rows", "1")
            self.assertEqual((result["depth"], result["columns"]), (depth, columns))

    def test_the_table_has_a_line_per_number_of_rows(self):
        table = self.run_well(
            "bench", "kernels", "--runs", "1", "--memory", "2M", "--shape", "64x64", "--rows", "3,5"
        )
        self.assertEqual([line.split()[0] for line in table.splitlines()[-2:]], ["3", "5"])

    def test_what_is_no_shape_kernel_set_or_number_of_rows_is_refused(self):
        for shape in ("3x", "x", "0x5", "glm5", "64x2000000", "64x64x64", "-1x4"):
            self.assertIn("is no shape", self.run_badly(2, "bench", "kernels", "--shape=" + shape))
        self.assertIn("sse", self.run_badly(2, "bench", "kernels", "--isa", "sse"))
        self.assertIn("--rows", self.run_badly(2, "bench", "kernels", "--rows", "0"))
        self.assertIn("memory_bytes", self.run_badly(2, "bench", "kernels", "--memory", "1000"))


if __name__ == "__main__":
    unittest.main()
