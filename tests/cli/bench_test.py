# SPDX-License-Identifier: Apache-2.0
#
# colibri bench: the form of its output. Speed itself is never asserted.

import unittest

from command import CommandTest


class Bench(CommandTest):
    def test_json_has_one_entry_per_number_of_slots(self):
        result = self.run_json(
            "bench", "--slots", "1,3", "--tokens", "6", "--prompt", "20", "--json"
        )
        self.assertEqual([entry["slots"] for entry in result["decode"]], [1, 3])
        first, second = result["decode"]
        self.assertEqual(first["ratio"], 1)
        self.assertAlmostEqual(
            second["ratio"], second["tokens_per_second"] / first["tokens_per_second"]
        )
        self.assertEqual(second["tokens"], 3 * second["steps"])
        self.assertEqual(
            first["experts_per_token"],
            (first["expert_hits"] + first["expert_misses"]) / first["tokens"],
        )
        self.assertLessEqual(second["experts_per_token"], first["experts_per_token"])
        self.assertEqual(result["prefill"]["tokens"], 20)
        self.assertIn(result["kernel_set"], ["ref", "avx2", "avx512"])

    def test_the_table_has_a_line_per_measurement(self):
        table = self.run_well("bench", "--slots", "1,2", "--tokens", "4", "--prompt", "8")
        self.assertEqual(
            len([line for line in table.splitlines() if line.startswith(("decode", "prefill"))]), 3
        )


if __name__ == "__main__":
    unittest.main()
