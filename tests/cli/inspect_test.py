# SPDX-License-Identifier: Apache-2.0
#
# colibri inspect and colibri plan: JSON members, tables for people, sizes with units.

import unittest

from command import GOLDEN, TINY, TINY_PACKED, CommandTest


class Inspect(CommandTest):
    def test_json_tells_config_formats_and_experts(self):
        for model in [TINY, TINY_PACKED, GOLDEN / "glm_moe_dsa-sparse"]:
            with self.subTest(model.name):
                result = self.run_json("inspect", model, "--json")
                self.assertEqual(result["model_type"], "glm_moe_dsa")
                self.assertEqual(result["config"]["hidden_act"], "silu")
                formats = result["tensors"]["formats"]
                self.assertEqual(
                    sum(part["count"] for part in formats.values()), result["tensors"]["count"]
                )
                self.assertEqual(
                    sum(part["bytes"] for part in formats.values()), result["tensors"]["bytes"]
                )
                self.assertGreater(result["experts"]["bytes"], 0)

    def test_without_model_it_shows_the_one_that_comes_with_the_command(self):
        self.assertEqual(
            self.run_json("inspect", "--json"), self.run_json("inspect", TINY_PACKED, "--json")
        )

    def test_tables_are_for_people(self):
        self.assertIn("glm_moe_dsa", self.run_well("inspect", TINY_PACKED))
        self.assertIn("MiB", self.run_well("inspect", TINY_PACKED))
        self.assertIn("experts in RAM", self.run_well("plan", TINY_PACKED))


class Plan(CommandTest):
    def plan(self, *flags):
        return self.run_json("plan", TINY_PACKED, "--json", *flags)

    def test_items_add_up_and_options_arrive(self):
        plan = self.plan(
            "--slots",
            "3",
            "--context",
            "200",
            "--ram-budget",
            "1G",
            "--threads",
            "2",
            "--chunk",
            "16",
        )
        self.assertTrue(plan["feasible"])
        self.assertEqual(plan["budget_bytes"], 1 << 30)
        self.assertEqual(sum(plan["items"].values()), plan["total_bytes"])
        options = plan["options"]
        self.assertEqual(
            (
                options["n_slots"],
                options["context_tokens"],
                options["max_rows"],
                options["n_threads"],
            ),
            (3, 200, 16, 2),
        )
        self.assertGreater(
            self.plan("--slots", "6", "--context", "200")["items"]["kv"], plan["items"]["kv"]
        )

    def test_sizes_take_units(self):
        for text, size in [
            ("123456789", 123456789),
            ("8G", 8 << 30),
            ("512M", 512 << 20),
            ("1T", 1 << 40),
            ("900000K", 900000 << 10),
        ]:
            with self.subTest(text):
                self.assertEqual(self.plan("--ram-budget", text)["budget_bytes"], size)

    def test_a_budget_that_is_too_small_is_a_plan_that_says_so(self):
        plan = self.plan("--ram-budget", "1M")
        self.assertFalse(plan["feasible"])
        self.assertGreater(plan["minimum_bytes"], 1 << 20)
        self.assertIn("too small", self.run_well("plan", TINY_PACKED, "--ram-budget", "1M"))
        self.assertTrue(self.plan("--ram-budget", plan["minimum_bytes"])["feasible"])


if __name__ == "__main__":
    unittest.main()
