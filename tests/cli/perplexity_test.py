# SPDX-License-Identifier: Apache-2.0
#
# colibri perplexity: windows, strides, and the loss against one computed here from the logits
# command. The whole validation text, against what quantisation.json of the INT4 model says.

import json
import math
import unittest

from arrays import read_npy
from command import TINY, TINY_PACKED, CommandTest, join


class Perplexity(CommandTest):
    def setUp(self):
        super().setUp()
        self.text = self.folder / "text.txt"
        self.text.write_text(
            (TINY / "validation.txt").read_text(encoding="utf-8")[:1500], encoding="utf-8"
        )
        self.ids = self.run_json("tokenize", TINY_PACKED, "--file", self.text, "--special", "--json")[
            "ids"
        ]

    def measure(self, *flags):
        return self.run_json("perplexity", TINY_PACKED, "--text", self.text, "--json", *flags)

    def losses(self, window):
        """-log p of every token of a window but the first."""
        out = self.folder / "logits.npy"
        self.run_well("logits", TINY_PACKED, "--ids", join(window), "--out", out)
        (_, width), values = read_npy(out)
        losses = []
        for position, token in enumerate(window[1:]):
            row = values[position * width : (position + 1) * width]
            largest = max(row)
            losses.append(math.log(sum(math.exp(x - largest) for x in row)) + largest - row[token])
        return losses

    def test_windows_side_by_side_predict_all_but_their_first_token(self):
        result = self.measure("--window", "64")
        windows = [self.ids[i : i + 64] for i in range(0, len(self.ids), 64)]
        windows = [window for window in windows if len(window) > 1]
        losses = [loss for window in windows for loss in self.losses(window)]
        self.assertEqual(result["windows"], len(windows))
        self.assertEqual(result["tokens_predicted"], len(losses))
        self.assertAlmostEqual(result["loss"], sum(losses) / len(losses), places=5)
        self.assertAlmostEqual(result["perplexity"], math.exp(result["loss"]), places=6)
        self.assertGreater(result["seconds"], 0)

    def test_overlap_is_context_only(self):
        result = self.measure("--window", "64", "--stride", "48")
        losses = self.losses(self.ids[:64])
        begin = 48
        while begin + 16 < len(self.ids):
            losses += self.losses(self.ids[begin : begin + 64])[15:]
            begin += 48
        self.assertEqual(result["tokens_predicted"], len(self.ids) - 1)
        self.assertEqual(result["tokens_predicted"], len(losses))
        self.assertAlmostEqual(result["loss"], sum(losses) / len(losses), places=5)

    def test_the_result_does_not_depend_on_the_chunk(self):
        expected = self.measure("--window", "100")["loss"]
        self.assertEqual(self.measure("--window", "100", "--chunk", "7")["loss"], expected)

    def test_the_int4_model_predicts_the_validation_text_as_its_makers_measured(self):
        # They computed with float activations; those of int8 may cost half a percent.
        made = json.loads((TINY_PACKED / "quantisation.json").read_text(encoding="utf-8"))
        expected = made["perplexity_quantised"]
        for activations, tolerance in [("int8", 0.005 * expected), ("float", 1e-3)]:
            with self.subTest(activations):
                result = self.run_json(
                    "perplexity", TINY_PACKED, "--text", TINY / "validation.txt", "--json",
                    "--window", "512", "--activations", activations,
                )  # fmt: skip
                self.assertGreater(result["tokens_predicted"], 10000)
                self.assertAlmostEqual(result["perplexity"], expected, delta=tolerance)

    def test_the_text_form_says_the_same(self):
        text = self.run_well("perplexity", TINY_PACKED, "--text", self.text, "--window", "64")
        self.assertIn(f"{self.measure('--window', '64')['perplexity']:.5f}", text)


if __name__ == "__main__":
    unittest.main()
