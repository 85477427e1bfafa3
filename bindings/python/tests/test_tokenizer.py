# SPDX-License-Identifier: Apache-2.0
"""Text to ids and back."""

import json
import shutil

import pytest
from conftest import TINY_PACKED

import colibri
from colibri import Message, Role


@pytest.fixture
def tokenizer():
    with colibri.Tokenizer(TINY_PACKED) as it:
        yield it


@pytest.mark.parametrize("text", ["", "Once upon a time", "é模型🐦", "a\0b", "x" * 5000])
def test_text_survives_the_way_to_ids_and_back(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_the_model_has_the_tokenizer_of_its_folder(tokenizer, model):
    assert model.tokenizer.size == tokenizer.size == model.facts.n_token_ids
    assert model.tokenizer.encode("A fox") == tokenizer.encode("A fox")


def test_control_tokens_are_text_unless_allowed(tokenizer):
    assert tokenizer.encode("<|user|>", allow_control=True) == [tokenizer.find("<|user|>")]
    assert len(tokenizer.encode("<|user|>")) > 1


def test_special_tokens_can_be_kept(tokenizer):
    ids = [tokenizer.find("<sop>"), *tokenizer.encode("A")]
    assert tokenizer.decode(ids) == "A"
    assert tokenizer.decode(ids, skip_special=False) == "<sop>A"


def test_lone_surrogates_are_replaced(tokenizer):
    assert "\ufffd" in tokenizer.decode(tokenizer.encode("a\ud800b"))


def test_a_token_that_is_not_there_is_not_found(tokenizer):
    with pytest.raises(colibri.NotFoundError):
        tokenizer.find("<nothing>")
    with pytest.raises(colibri.ArgumentError):
        tokenizer.find("a\0b")


def test_ids_outside_the_range_of_int32_are_refused(tokenizer):
    with pytest.raises(colibri.ArgumentError):
        tokenizer.decode([2**31])


def test_texts_begin_with_the_prefix(tokenizer):
    assert tokenizer.prefix == [tokenizer.find("[gMASK]"), tokenizer.find("<sop>")]
    assert colibri.encode_prompt(tokenizer, "A") == tokenizer.prefix + tokenizer.encode("A")
    assert colibri.encode_prompt(tokenizer, "A", prefix=False) == tokenizer.encode("A")


def test_a_tokenizer_without_a_beginning_has_an_empty_prefix(tmp_path):
    description = json.loads((TINY_PACKED / "tokenizer.json").read_text(encoding="utf-8"))
    for token in description["added_tokens"]:
        token["content"] = token["content"].replace("<sop>", "<other>")
    (tmp_path / "tokenizer.json").write_text(json.dumps(description), encoding="utf-8")
    with colibri.Tokenizer(tmp_path) as other:
        assert other.prefix == []
        assert colibri.encode_prompt(other, "A") == other.encode("A")


def test_the_layout_of_chats_has_a_name(tokenizer, model):
    assert tokenizer.chat_layout == model.tokenizer.chat_layout == "glm"


def test_a_template_that_is_not_known_is_refused(tmp_path):
    shutil.copy(TINY_PACKED / "tokenizer.json", tmp_path)
    (tmp_path / "chat_template.jinja").write_text("{{ anything }}", encoding="utf-8")
    with colibri.Tokenizer(tmp_path) as other:
        with pytest.raises(colibri.UnsupportedError):
            _ = other.chat_layout
        with pytest.raises(colibri.UnsupportedError):
            other.encode_chat([Message(Role.USER, "Who are you?")])


def test_what_a_text_spells_opens_no_turn(tokenizer):
    ids = tokenizer.encode_chat([Message(Role.USER, "<|assistant|>")], generation_prompt=False)
    assert tokenizer.find("<|assistant|>") not in ids


def test_chats_have_turns(tokenizer):
    messages = [Message(Role.SYSTEM, "Be kind."), Message(Role.USER, "Who are you?")]
    ids = tokenizer.encode_chat(messages)
    assert "Be kind." in tokenizer.decode(ids)
    assert ids[: len(ids) - 3] == tokenizer.encode_chat(messages, generation_prompt=False)
    assert tokenizer.encode_chat(messages, thinking=True) != ids
    assert tokenizer.encode_chat([])


def test_streams_give_whole_characters(tokenizer):
    text = "A bird 🐦, a model 模型."
    ids = tokenizer.encode(text)
    pieces = list(tokenizer.decode_stream(ids))
    assert "".join(pieces) == text
    with tokenizer.stream_decoder() as decoder:
        assert "".join(map(decoder.push, ids)) + decoder.flush() == text
        assert decoder.flush() == ""


def test_a_stream_that_ends_inside_a_character_is_flushed(tokenizer):
    ids = tokenizer.encode("🐦")
    assert "".join(tokenizer.decode_stream(ids[:-1])) == "\ufffd"


def test_closing_ends_decoders_first_and_decoders_keep_it_alive():
    tokenizer = colibri.Tokenizer(TINY_PACKED / "tokenizer.json")
    decoder = tokenizer.stream_decoder()
    tokenizer.close()
    for use in (
        lambda: decoder.push(1),
        lambda: tokenizer.prefix,
        lambda: tokenizer.chat_layout,
    ):
        with pytest.raises(colibri.HandleError):
            use()
    decoder = colibri.Tokenizer(TINY_PACKED).stream_decoder()
    assert isinstance(decoder.push(40), str)
