# SPDX-License-Identifier: Apache-2.0
"""Text in one call, whole and streamed."""

import contextlib

import pytest
from conftest import STORY, TINY_PACKED, greedy

import colibri
from colibri import Finish, Message, Role


def test_one_line_is_enough():
    assert str(colibri.generate(STORY, max_tokens=5))


def test_a_path_is_opened_for_the_call():
    assert colibri.generate(STORY, model=TINY_PACKED, max_tokens=5).finish is Finish.LENGTH


def test_a_completion_has_text_tokens_and_times(model, ids):
    result = model.generate(STORY, max_tokens=20, ignore_model_stops=True)
    assert result.tokens == greedy(model, ids, 20)
    assert result.text == str(result) == model.tokenizer.decode(result.tokens)
    assert result.prompt_ids == ids
    assert result.prefill_seconds > 0 and result.decode_seconds > 0


def test_a_prompt_may_be_ids(model, ids):
    assert model.generate(ids, max_tokens=5).tokens == model.generate(STORY, max_tokens=5).tokens


def test_a_chat_is_answered(model):
    answer = model.generate([Message(Role.USER, "Who are you?")])
    assert answer.text == "I am a tiny demonstration model that runs in libcolibri."
    assert answer.finish is Finish.STOP_TOKEN
    thought = model.generate([Message(Role.USER, "Who are you?")], thinking=True, max_tokens=3)
    assert thought.prompt_ids != answer.prompt_ids


def test_streamed_pieces_are_the_text(model):
    options = {"max_tokens": 30, "temperature": 1.0, "seed": 7}
    pieces = list(model.stream(STORY, **options))
    assert "".join(pieces) == model.generate(STORY, **options).text
    assert len(pieces) > 5


def test_stop_strings_are_not_part_of_the_text(model):
    text = model.generate(STORY, max_tokens=30).text
    result = model.generate(STORY, max_tokens=30, stop=[text[10:14]])
    assert result.finish is Finish.STOP_STRING
    assert result.text == text[: text.index(text[10:14])]


def test_leaving_a_stream_frees_its_engine_and_slot(model):
    with contextlib.closing(model.stream(STORY)) as pieces:
        next(pieces)
        assert model.stats().n_engines_in_use == 1
    assert (model.stats().n_engines_in_use, model.stats().n_slots_in_use) == (0, 0)
    for piece in model.stream(STORY):
        assert piece
        break
    assert model.stats().n_engines_in_use == 0


def test_a_stream_may_outlive_its_model_object():
    pieces = colibri.Model(TINY_PACKED).stream(STORY, max_tokens=5)
    assert "".join(pieces)


def test_control_tokens_are_text_unless_allowed(model):
    plain = model.generate("<|user|>", max_tokens=1).prompt_ids
    control = model.generate("<|user|>", max_tokens=1, allow_control=True).prompt_ids
    assert len(plain) > len(control) == 3


def test_prompts_can_be_encoded_without_prefix(model):
    with_prefix = colibri.encode_prompt(model.tokenizer, STORY)
    assert with_prefix[2:] == colibri.encode_prompt(model.tokenizer, STORY, prefix=False)


def test_an_empty_prompt_is_refused(model):
    for prompt in ("", []):
        with pytest.raises(colibri.ArgumentError, match="empty"):
            model.generate(prompt)
