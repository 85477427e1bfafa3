# SPDX-License-Identifier: Apache-2.0
"""Tokenizers: text to ids and back, with or without a model."""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ._library import call, library
from ._resource import Closing, Resource
from ._structs import ChatMessageStruct
from ._values import Path, c_ids, c_path, c_text, in_range, read_ids, read_text


class Role(enum.IntEnum):
    """Who speaks in a chat."""

    SYSTEM = 0
    USER = 1
    ASSISTANT = 2
    TOOL = 3


@dataclass(frozen=True)
class Message:
    """One message of a chat. Its text cannot open or close a turn, whatever it spells."""

    role: Role
    text: str


_NO_GENERATION_PROMPT = 1
_THINKING = 2


class Tokenizer(Closing):
    """An immutable tokenizer; several threads may use it at once."""

    _resource: Resource

    def __init__(self, path: Path) -> None:
        """Opens a tokenizer.json, or the one in a folder."""
        self._resource = Resource("tokenizer", library().colibri_tokenizer_close)
        self._resource.guard(self)
        self._resource.create(library().colibri_tokenizer_open, c_path(path))

    @classmethod
    def _of_model(cls, handle: int, model: Resource) -> Tokenizer:
        tokenizer = cls.__new__(cls)
        tokenizer._resource = Resource("tokenizer", None, model, handle=handle, rank=2)
        tokenizer._resource.guard(tokenizer)
        return tokenizer

    def close(self) -> None:
        """Frees it, its stream decoders first. One of a model stays open for the model."""
        self._resource.close()

    @property
    def is_open(self) -> bool:
        """False once it, or its model, was closed."""
        return self._resource.is_open

    @property
    def size(self) -> int:
        """Largest token id + 1."""
        with self._resource.use() as handle:
            return int(library().colibri_tokenizer_size(handle))

    def encode(self, text: str, *, allow_control: bool = False) -> list[int]:
        """Text to ids, without the prefix. Text that spells a control token as "<|user|>" becomes
        that token only if allow_control; leave it off for text from users."""
        data = text.encode("utf-8", "surrogatepass")
        with self._resource.use() as handle:
            return read_ids(
                len(data) // 2 + 16,
                library().colibri_tokenizer_encode,
                handle,
                data,
                len(data),
                int(allow_control),
            )

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """Ids to text. Unknown ids give nothing, incomplete characters U+FFFD."""
        array = c_ids("ids", ids)
        with self._resource.use() as handle:
            return read_text(
                len(array) * 8 + 16,
                library().colibri_tokenizer_decode,
                handle,
                array,
                len(array),
                int(skip_special),
            )

    def find(self, token: str) -> int:
        """Id of a token by its exact text, control tokens included. Raises NotFoundError."""
        found = ctypes.c_int32()
        with self._resource.use() as handle:
            call(
                library().colibri_tokenizer_find,
                handle,
                c_text("the token", token),
                ctypes.byref(found),
            )
        return found.value

    @property
    def prefix(self) -> list[int]:
        """Ids that a text begins with, such as BOS or [gMASK]<sop>; perhaps none. encode() does not
        add them, encode_prompt() does, encode_chat() writes what its layout says."""
        with self._resource.use() as handle:
            return read_ids(16, library().colibri_tokenizer_prefix, handle)

    @property
    def chat_layout(self) -> str:
        """Name of the layout of chats, as "glm-4.7" or "qwen3"; docs/cli.md lists them. Raises
        UnsupportedError if the chat template beside the tokenizer is none that is known."""
        name = ctypes.c_void_p()
        with self._resource.use() as handle:
            call(library().colibri_chat_layout, handle, ctypes.byref(name))
        return (ctypes.cast(name, ctypes.c_char_p).value or b"").decode("utf-8", "replace")

    def encode_chat(
        self,
        messages: Sequence[Message],
        *,
        thinking: bool = False,
        generation_prompt: bool = True,
    ) -> list[int]:
        """A conversation in the layout of chat_layout to ids, ready for the assistant's answer.
        Raises ArgumentError for a message that the layout has no place for: a role that it lacks,
        turns that do not alternate."""
        texts = [c_text("a message", message.text) for message in messages]
        array = (ChatMessageStruct * len(texts))(
            *(
                ChatMessageStruct(ctypes.sizeof(ChatMessageStruct), int(message.role), text)
                for message, text in zip(messages, texts)
            )
        )
        flags = (_THINKING if thinking else 0) | (0 if generation_prompt else _NO_GENERATION_PROMPT)
        with self._resource.use() as handle:
            return read_ids(
                sum(map(len, texts)) + 8 * len(texts) + 16,
                library().colibri_chat_encode,
                handle,
                array,
                len(texts),
                flags,
            )

    def stream_decoder(self, *, skip_special: bool = True) -> StreamDecoder:
        """A decoder for one stream of ids."""
        return StreamDecoder(self, skip_special=skip_special)

    def decode_stream(self, ids: Iterable[int], *, skip_special: bool = True) -> Iterator[str]:
        """Pieces of text, each as soon as the ids so far complete it."""
        with self.stream_decoder(skip_special=skip_special) as decoder:
            for token in ids:
                piece = decoder.push(token)
                if piece:
                    yield piece
            rest = decoder.flush()
            if rest:
                yield rest


class StreamDecoder(Closing):
    """Decodes a stream of ids into whole characters; for one thread at a time."""

    def __init__(self, tokenizer: Tokenizer, *, skip_special: bool = True) -> None:
        self._tokenizer = tokenizer
        with tokenizer._resource.use() as parent:
            self._resource = Resource(
                "stream decoder", library().colibri_stream_decoder_destroy, tokenizer._resource
            )
            self._resource.guard(self)
            self._resource.create(
                library().colibri_stream_decoder_create, parent, int(skip_special)
            )

    def push(self, token: int) -> str:
        """Adds one id; returns the characters that it completes, perhaps none."""
        return self._text(library().colibri_stream_decoder_push, in_range("token", token, _I32))

    def flush(self) -> str:
        """What is held back; then a new stream may begin."""
        return self._text(library().colibri_stream_decoder_flush)

    def _text(self, function: Callable[..., int], *arguments: Any) -> str:
        text, n_bytes = ctypes.c_void_p(), ctypes.c_size_t()
        with self._resource.use() as handle:
            call(function, handle, *arguments, ctypes.byref(text), ctypes.byref(n_bytes))
            if not text.value:
                return ""
            return ctypes.string_at(text.value, n_bytes.value).decode("utf-8", "replace")

    def close(self) -> None:
        """Frees it; what it holds back is lost."""
        self._resource.close()


_I32 = ctypes.c_int32
