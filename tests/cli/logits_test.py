# SPDX-License-Identifier: Apache-2.0
#
# colibri logits: agreement with the golden files, and equal bytes whatever chunk, threads, kernel
# set and budget.

import json
import unittest

from arrays import largest_difference, read_npy, read_safetensors
from command import GOLDEN, TINY_PACKED, CommandTest, join, run_any

CASES = [
    "glm_moe_dsa-dense-index",
    "glm_moe_dsa-sparse",
    "glm_moe_dsa-fp8",
    "glm_moe_dsa-int4g64",
    "glm_moe_dsa-int4row",
    "glm_moe_dsa-int8row",
    "glm_moe_dsa-mtp",
]


class Logits(CommandTest):
    def write(self, model, ids, *flags):
        out = self.folder / "logits.npy"
        self.run_well("logits", model, "--ids", join(ids), "--out", out, *flags)
        return out

    def test_all_positions_are_as_the_oracle_says(self):
        for case in CASES:
            folder = GOLDEN / case / "golden"
            floor = json.loads((folder / "golden.json").read_text(encoding="utf-8"))["noise_floor"]
            tolerance = max(2e-4, 20 * floor["logits_max_abs_float32_vs_float64"])
            for prompt in [0, 2]:
                with self.subTest(case=case, prompt=prompt):
                    ids = read_safetensors(folder / "golden.safetensors", f"prompt.{prompt}.ids")[1]
                    shape, expected = read_safetensors(
                        folder / "golden.safetensors", f"prompt.{prompt}.logits"
                    )
                    out = self.write(
                        GOLDEN / case, ids, "--activations", "float", "--latent-norm-eps", "1e-6"
                    )
                    found_shape, found = read_npy(out)
                    self.assertEqual(list(found_shape), shape)
                    self.assertLess(largest_difference(found, expected), tolerance)

    def test_the_default_epsilon_is_that_of_the_config(self):
        folder = GOLDEN / "glm_moe_dsa-dense-index"
        ids = read_safetensors(folder / "golden/golden.safetensors", "prompt.2.ids")[1]
        expected = read_safetensors(
            folder / "golden/golden.safetensors", "prompt.2.logits_latent_eps"
        )[1]
        found = read_npy(self.write(folder, ids, "--activations", "float"))[1]
        self.assertLess(largest_difference(found, expected), 6e-4)

    def test_bytes_are_equal_whatever_does_not_matter(self):
        for model in [GOLDEN / "glm_moe_dsa-int4g64", TINY_PACKED]:
            ids = list(range(3, 200, 3))
            expected = self.write(model, ids).read_bytes()
            for flags in [
                ("--chunk", "1"),
                ("--chunk", "3"),
                ("--chunk", "7"),
                ("--chunk", "4096"),
                ("--threads", "1"),
                ("--threads", "2"),
                ("--threads", "5"),
                ("--isa", "ref"),
            ]:
                with self.subTest(model=model.name, flags=flags):
                    self.assertEqual(self.write(model, ids, *flags).read_bytes(), expected)

    def test_every_kernel_set_of_this_processor_gives_the_same_bytes(self):
        ids = list(range(1, 60))
        expected = self.write(TINY_PACKED, ids, "--isa", "ref").read_bytes()
        for isa in ["avx2", "avx512"]:
            out = self.folder / "isa.npy"
            result = run_any("logits", TINY_PACKED, "--ids", join(ids), "--out", out, "--isa", isa)
            with self.subTest(isa):
                if result.returncode == 1 and isa.encode() in result.stderr:
                    self.skipTest(f"this processor cannot run {isa}")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(out.read_bytes(), expected)

    def test_a_small_budget_keeps_the_bytes(self):
        ids = list(range(5, 105))
        expected = self.write(TINY_PACKED, ids, "--chunk", "16").read_bytes()
        plan = self.run_json("plan", TINY_PACKED, "--context", "100", "--chunk", "16", "--json")
        budget = plan["minimum_bytes"] + (1 << 20)
        self.assertLess(budget, plan["full_bytes"])
        self.assertEqual(
            self.write(TINY_PACKED, ids, "--chunk", "16", "--ram-budget", budget).read_bytes(),
            expected,
        )

    def test_float_activations_differ_from_int8(self):
        ids = list(range(1, 40))
        self.assertEqual(
            self.write(TINY_PACKED, ids).read_bytes(),
            self.write(TINY_PACKED, ids, "--activations", "int8").read_bytes(),
        )
        self.assertNotEqual(
            self.write(TINY_PACKED, ids).read_bytes(),
            self.write(TINY_PACKED, ids, "--activations", "float").read_bytes(),
        )

    def test_a_failed_run_leaves_no_file(self):
        out = self.folder / "x.npy"
        self.run_badly(2, "logits", TINY_PACKED, "--ids", "1,99999", "--out", out)
        self.assertFalse(out.exists())


if __name__ == "__main__":
    unittest.main()
