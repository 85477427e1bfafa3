# SPDX-License-Identifier: Apache-2.0
#
# colibri tokenize and detokenize against the reference ids of the demonstration model's tokenizer.

import json
import unittest

from command import TINY, TINY_PACKED, CommandTest, join

CASES = json.loads((TINY / "tokenizer_cases.json").read_text(encoding="utf-8"))


class Tokenize(CommandTest):
    def test_ids_are_those_of_the_reference_both_ways(self):
        cases = [case for case in CASES["cases"] if "\0" not in case["text"]][::7]
        self.assertGreater(len(cases), 10)
        for case in cases:
            with self.subTest(case["text"]):
                ids = self.run_json("tokenize", TINY, "--special", "--json", "--", case["text"])[
                    "ids"
                ]
                self.assertEqual(ids, case["ids"])
                if ids:
                    text = self.run_json("detokenize", TINY, "--ids", join(ids), "--json")["text"]
                    self.assertEqual(text, case["text"])

    def test_text_comes_as_argument_from_a_file_or_from_stdin(self):
        text = "Once upon a time\nthere was ä fox. "
        file = self.folder / "text.txt"
        file.write_text(text, encoding="utf-8")
        expected = self.run_json("tokenize", TINY_PACKED, text, "--json")
        self.assertEqual(list(expected), ["ids"])
        self.assertEqual(
            self.run_json("tokenize", TINY_PACKED / "tokenizer.json", text, "--json"), expected
        )
        self.assertEqual(self.run_json("tokenize", TINY_PACKED, "--file", file, "--json"), expected)
        self.assertEqual(
            self.run_json("tokenize", TINY_PACKED, "--file", "-", "--json", text=text.encode()),
            expected,
        )
        self.assertEqual(self.run_json("tokenize", "--model", TINY_PACKED, text, "--json"), expected)
        self.assertEqual(self.run_well("tokenize", TINY_PACKED, text), join(expected["ids"]) + "\n")
        self.assertEqual(
            self.run_well("detokenize", TINY_PACKED, "--ids", join(expected["ids"])), text + "\n"
        )

    def test_control_tokens_are_recognised_only_when_asked(self):
        self.assertEqual(
            len(self.run_json("tokenize", TINY_PACKED, "<|user|>", "--special", "--json")["ids"]), 1
        )
        plain = self.run_json("tokenize", TINY_PACKED, "<|user|>", "--json")["ids"]
        self.assertGreater(len(plain), 1)
        self.assertEqual(self.run_well("detokenize", TINY_PACKED, "--ids", join(plain)), "<|user|>\n")

    def test_empty_text_has_no_ids(self):
        self.assertEqual(self.run_json("tokenize", TINY_PACKED, "", "--json"), {"ids": []})


if __name__ == "__main__":
    unittest.main()
