# SPDX-License-Identifier: Apache-2.0
#
# colibri chat: single messages, conversations over a pipe, commands.

import unittest

from command import GOLDEN, TINY, TINY_PACKED, CommandTest, reference


class Chat(CommandTest):
    def test_one_message_is_answered_as_by_the_oracle(self):
        for name in ["chat_identity", "chat_arithmetic"]:
            with self.subTest(name):
                expected = reference(name)
                question = expected["messages"][0]["content"]
                self.assertIsNotNone(expected["stop_at"])
                self.assertEqual(
                    self.run_well("chat", TINY, "--once", question), expected["text"] + "\n"
                )
                result = self.run_json("chat", "--model", TINY, "--once", question, "--json")
                self.assertEqual((result["text"], result["finish"]), (expected["text"], "stop"))

    def test_a_conversation_keeps_what_was_said_until_reset(self):
        system, first, second = "Answer in short sentences.", "Hello!", "What does the cow say?"
        opening = f"[gMASK]<sop><|system|>{system}"
        alone = self.answer(f"{opening}<|user|>{first}")
        behind = self.answer(
            f"{opening}<|user|>{first}<|assistant|><think></think>{alone}<|user|>{second}"
        )
        lines = self.run_well(
            "chat", TINY, "--system", system, text=f"{first}\n{second}\n".encode()
        )
        self.assertEqual(lines, f"{alone}\n{behind}\n")
        again = self.run_well(
            "chat",
            TINY,
            "--system",
            system,
            text=f"{second}\n/reset\n\n{first}\n/quit\nx\n".encode(),
        )
        self.assertEqual(again.splitlines()[1:], [alone])

    def answer(self, conversation):
        """What the model says behind a conversation that is spelled out."""
        return self.run_json(
            "generate",
            f"{conversation}<|assistant|><think></think>",
            "--raw",
            "--special",
            "--json",
            "--model",
            TINY,
        )["text"]

    def test_the_embedded_model_talks(self):
        self.assertGreater(len(self.run_well("chat", "--once", "Hello!")), 3)

    def test_help_is_printed_and_unknown_commands_are_named(self):
        self.assertIn("/reset", self.run_well("chat", TINY_PACKED, text=b"/help\n"))

    def test_a_template_that_is_not_known_is_refused_with_the_way_around(self):
        model = self.copy_model(TINY_PACKED)
        (model / "chat_template.jinja").unlink()
        (model / "chat_template.jinja").write_text("{% for m in messages %}Q: {{ m.content }}")
        self.assertIn("--raw", self.run_badly(1, "chat", model, "--once", "x"))

    def test_a_model_without_tokenizer_is_refused(self):
        self.assertIn(
            "tokenizer", self.run_badly(1, "chat", GOLDEN / "glm_moe_dsa-sparse", "--once", "x")
        )


if __name__ == "__main__":
    unittest.main()
