# SPDX-License-Identifier: Apache-2.0
"""Text from a prompt in one call, whole or piece by piece."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict, Union, cast

from ._errors import ArgumentError, UnsupportedError
from ._values import Path
from .model import Model
from .scheduler import Event, EventKind, Finish, Sampler, Scheduler
from .tokenizer import Message, Tokenizer

if TYPE_CHECKING:
    from typing_extensions import Unpack

Prompt = Union[str, Sequence[int], Sequence[Message]]


class GenerateOptions(TypedDict, total=False):
    """Options of generate() and stream().

    max_tokens          tokens to generate at most; 0, the default: what the context leaves
    temperature, top_k, top_p, min_p, repetition_penalty, repetition_window, seed
                        as in Sampler; left out: the most probable token each time
    stop                texts that end the generation, not part of the text
    stop_ids            ids that end it, beside the model's own
    ignore_model_stops  True: the model's own stop ids do not end it
    allow_control       True: a prompt that spells "<|user|>" means the control token
    thinking            True: let the assistant of a chat think first
    """

    max_tokens: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    repetition_window: int
    seed: int
    stop: Sequence[str]
    stop_ids: Sequence[int]
    ignore_model_stops: bool
    allow_control: bool
    thinking: bool


@dataclass(frozen=True)
class Completion:
    """What a prompt was continued with. str() of it is the text."""

    text: str
    tokens: list[int]
    finish: Finish
    prompt_ids: list[int]
    prefill_seconds: float
    decode_seconds: float

    def __str__(self) -> str:
        return self.text


def encode_prompt(
    tokenizer: Tokenizer, text: str, *, allow_control: bool = False, prefix: bool = True
) -> list[int]:
    """A text to complete as ids. With prefix, they begin with those of Tokenizer.prefix: a model
    has only ever seen sequences that do."""
    ids = tokenizer.prefix if prefix else []
    return ids + tokenizer.encode(text, allow_control=allow_control)


def generate(
    prompt: Prompt, *, model: Model | Path | None = None, **options: Unpack[GenerateOptions]
) -> Completion:
    """Continues a prompt: a text, token ids, or messages of a chat that the assistant answers.

        print(colibri.generate("Once upon a time", max_tokens=40))

    model is an open one, or a path that is opened for this call, or None for the demonstration
    model. One of the model's slots and engines is used meanwhile. Ctrl-C ends the generation.
    """
    text: list[str] = []
    tokens: list[int] = []
    with _opened(model) as used:
        ids = _prompt_ids(used, prompt, options)
        for event in _events(used, ids, options):
            text.append(event.text)
            if event.token is not None:
                tokens.append(event.token)
    return Completion(
        text="".join(text),
        tokens=tokens,
        finish=event.finish,
        prompt_ids=ids,
        prefill_seconds=event.prefill_ns * 1e-9,
        decode_seconds=event.decode_ns * 1e-9,
    )


def stream(
    prompt: Prompt, *, model: Model | Path | None = None, **options: Unpack[GenerateOptions]
) -> Iterator[str]:
    """As generate(), but gives pieces of text as soon as they are there.

    Leaving the loop ends the generation, at the latest when the iterator is collected;
    contextlib.closing() makes that a certain moment.
    """
    with _opened(model) as used:
        if used.tokenizer is None:
            raise UnsupportedError("the model has no tokenizer; use a Scheduler, or generate()")
        for event in _events(used, _prompt_ids(used, prompt, options), options):
            if event.text:
                yield event.text


def _opened(model: Model | Path | None) -> contextlib.AbstractContextManager[Model]:
    if isinstance(model, Model):
        return contextlib.nullcontext(model)
    return Model(model)


def _prompt_ids(model: Model, prompt: Prompt, options: GenerateOptions) -> list[int]:
    if not prompt:
        raise ArgumentError("the prompt is empty; give at least one character, id or message")
    if not isinstance(prompt, str) and not isinstance(prompt[0], Message):
        return list(cast("Sequence[int]", prompt))
    tokenizer = model.tokenizer
    if tokenizer is None:
        raise UnsupportedError("the model has no tokenizer; give the prompt as ids")
    if isinstance(prompt, str):
        return encode_prompt(tokenizer, prompt, allow_control=options.get("allow_control", False))
    messages = cast("Sequence[Message]", prompt)
    return tokenizer.encode_chat(messages, thinking=options.get("thinking", False))


_SAMPLER_FIELDS = tuple(Sampler.__dataclass_fields__)


def _events(model: Model, ids: Sequence[int], options: GenerateOptions) -> Iterator[Event]:
    """Events of one request, the last of them FINISHED."""
    unknown = set(options) - set(GenerateOptions.__annotations__)
    if unknown:
        raise TypeError(f"there is no option {min(unknown)!r}")
    chosen = {name: options[name] for name in _SAMPLER_FIELDS if name in options}  # type: ignore
    with Scheduler(model, n_slots=1) as scheduler:
        scheduler.submit(
            ids,
            max_tokens=options.get("max_tokens", 0),
            sampler=Sampler(**chosen),
            stop_ids=options.get("stop_ids", ()),
            stop_strings=options.get("stop", ()),
            ignore_model_stops=options.get("ignore_model_stops", False),
        )
        while True:
            scheduler.step(wait=True)
            for event in scheduler.events():
                if event.error is not None:
                    raise event.error
                yield event
                if event.kind == EventKind.FINISHED:
                    return
