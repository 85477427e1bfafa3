# SPDX-License-Identifier: Apache-2.0
#
# colibri generate: the JSON form, agreement with float32 oracles, streaming, stops, Ctrl-C,
# models without tokenizer.

import os
import select
import signal
import time
import unittest

from arrays import read_safetensors
from command import GOLDEN, TINY, TINY_PACKED, CommandTest, join, reference, start

STORY = "Once upon a time, there was a little"


class Generate(CommandTest):
    def test_json_has_the_fixed_members(self):
        result = self.run_json("generate", STORY, "--tokens", "5", "--json")
        self.assertEqual(
            list(result),
            [
                "prompt_ids",
                "ids",
                "text",
                "finish",
                "prefill_seconds",
                "decode_seconds",
                "expert_hits",
                "expert_misses",
                "read_bytes",
            ],
        )
        self.assertEqual(result["prompt_ids"], reference("story_start")["prompt_ids"])
        self.assertEqual(len(result["ids"]), 5)
        self.assertEqual(result["finish"], "length")
        self.assertGreater(result["prefill_seconds"], 0)
        self.assertGreater(result["decode_seconds"], 0)
        self.assertGreater(result["expert_misses"], 0)
        self.assertGreater(result["expert_hits"], 0)
        self.assertGreater(result["read_bytes"], 0)

    def test_greedy_text_of_the_bf16_model_is_that_of_the_oracle(self):
        for name in ["story_start", "story_lost", "chat_turns"]:
            with self.subTest(name):
                expected = reference(name)
                result = self.run_json(
                    "generate",
                    "--model",
                    TINY,
                    "--ids",
                    join(expected["prompt_ids"]),
                    "--tokens",
                    "64",
                    "--ignore-eos",
                    "--json",
                )
                self.assertEqual(result["ids"], expected["greedy_ids"])
                self.assertEqual(result["prompt_ids"], expected["prompt_ids"])

    def test_stop_tokens_end_the_text_unless_ignored(self):
        expected = reference("chat_identity")
        result = self.run_json(
            "generate", "--model", TINY, "--ids", join(expected["prompt_ids"]), "--json"
        )
        self.assertEqual(result["finish"], "stop")
        self.assertEqual(result["ids"], expected["greedy_ids"][: expected["stop_at"]])
        self.assertEqual(result["text"], expected["text"])

    def test_stop_strings_end_the_text_before_them(self):
        whole = self.run_json("generate", STORY, "--tokens", "40", "--json")["text"]
        stop = whole[10:14]
        result = self.run_json("generate", STORY, "--tokens", "40", "--stop", stop, "--json")
        self.assertEqual(result["finish"], "stop")
        self.assertEqual(result["text"], whole[: whole.index(stop)])

    def test_ids_of_golden_models_are_those_of_the_oracle(self):
        for case in ["glm_moe_dsa-sparse", "glm_moe_dsa-int4g64", "glm_moe_dsa-fp8"]:
            golden = GOLDEN / case / "golden/golden.safetensors"
            for prompt in range(4):
                with self.subTest(case=case, prompt=prompt):
                    ids = read_safetensors(golden, f"prompt.{prompt}.ids")[1]
                    result = self.run_json(
                        "generate",
                        "--model",
                        GOLDEN / case,
                        "--ids",
                        join(ids),
                        "--tokens",
                        "24",
                        "--activations",
                        "float",
                        "--latent-norm-eps",
                        "1e-6",
                        "--json",
                    )
                    self.assertEqual(
                        result["ids"], list(read_safetensors(golden, f"prompt.{prompt}.greedy")[1])
                    )
                    self.assertIsNone(result["text"])

    def test_streamed_text_is_the_json_text(self):
        text = self.run_json("generate", STORY, "--tokens", "30", "--json")["text"]
        self.assertEqual(self.run_well("generate", STORY, "--tokens", "30"), text + "\n")
        self.assertEqual(
            self.run_well("generate", STORY, "--tokens", "30", "--echo"), STORY + text + "\n"
        )
        self.assertEqual(
            self.run_well("generate", "-", "--tokens", "30", text=STORY.encode()), text + "\n"
        )

    def test_prompts_are_plain_text_unless_asked(self):
        control = "<|user|>"
        plain = self.run_json("generate", control, "--tokens", "1", "--json")["prompt_ids"]
        special = self.run_json("generate", control, "--special", "--tokens", "1", "--json")[
            "prompt_ids"
        ]
        raw = self.run_json("generate", control, "--special", "--raw", "--tokens", "1", "--json")[
            "prompt_ids"
        ]
        self.assertGreater(len(plain), 3)
        self.assertEqual(len(special), 3)
        self.assertEqual(raw, special[2:])

    def test_a_seed_decides_sampled_text(self):
        def sample(seed):
            return self.run_json(
                "generate",
                STORY,
                "--tokens",
                "30",
                "--temperature",
                "1.5",
                "--seed",
                seed,
                "--json",
            )["ids"]

        self.assertEqual(sample(1), sample(1))
        self.assertNotEqual(sample(1), sample(2))

    def test_settings_that_keep_the_bits_keep_the_text(self):
        def generate(*flags):
            return self.run_json("generate", STORY, "--tokens", "20", "--json", *flags)["ids"]

        expected = generate()
        for flags in [("--chunk", "3"), ("--threads", "1"), ("--threads", "5"), ("--isa", "ref")]:
            with self.subTest(flags):
                self.assertEqual(generate(*flags), expected)

    def test_a_model_without_tokenizer_takes_and_gives_ids(self):
        model = self.copy_model(TINY_PACKED, leave_out=("tokenizer*",))
        ids = self.run_json("generate", STORY, "--tokens", "8", "--json")
        result = self.run_json(
            "generate",
            "--model",
            model,
            "--ids",
            join(ids["prompt_ids"]),
            "--tokens",
            "8",
            "--json",
        )
        self.assertEqual(result["ids"], ids["ids"])
        self.assertIsNone(result["text"])
        printed = self.run_well(
            "generate", "--model", model, "--ids", join(ids["prompt_ids"]), "--tokens", "8"
        )
        self.assertEqual(printed, join(ids["ids"]) + "\n")
        self.assertIn("--ids", self.run_badly(1, "generate", STORY, "--model", model))

    def test_paths_may_have_spaces_and_any_letters(self):
        model = self.copy_model(TINY_PACKED, name="größe 模型")
        self.assertEqual(
            self.run_json("generate", STORY, "--model", model, "--tokens", "4", "--json")["ids"],
            self.run_json("generate", STORY, "--tokens", "4", "--json")["ids"],
        )
        self.run_json(
            "generate", STORY, "--model", model / "model-00001-of-00001.safetensors", "--tokens", "1", "--json"
        )

    def test_interrupt_ends_cleanly_with_what_was_made(self):
        process = start("generate", STORY, "--tokens", "0", "--ignore-eos", "--isa", "ref")
        first = process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        rest, message = process.communicate(timeout=60)
        self.assertEqual((process.returncode, message), (130, b""))
        self.assertEqual(first, b" ")
        self.assertTrue(rest.endswith(b"\n"))

    def test_interrupt_while_the_prompt_is_read_ends_as_any_other(self):
        reader, writer = os.pipe()
        os.write(writer, b"Once")
        process = start("generate", "-", stdin=reader)
        # The command has taken what was written, so it is reading.
        while select.select([reader], [], [], 0)[0]:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        output = process.communicate(timeout=60)
        os.close(writer)
        os.close(reader)
        self.assertEqual((process.returncode, output), (130, (b"", b"")))


if __name__ == "__main__":
    unittest.main()
