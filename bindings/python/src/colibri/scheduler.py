# SPDX-License-Identifier: Apache-2.0
"""Schedulers: many requests of one model at once. The host submits, steps, and reads events."""

from __future__ import annotations

import ctypes
import enum
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from ._errors import BusyError, ColibriError, error_of
from ._library import call, library
from ._resource import Closing, Resource
from ._structs import (
    EventStruct,
    RequestOptionsStruct,
    SamplerStruct,
    SchedulerOptionsStruct,
    SchedulerStats,
    StepResult,
    sized,
)
from ._values import OpenEnum, c_ids, c_text, fill, in_range, initialised

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .model import Model

_NOWAIT = 0
_N_EVENTS = 64  # taken from the library at once
_IGNORED_KINDS_FROM = 5  # events of later versions are skipped, as the header demands


class EventKind(enum.IntEnum):
    """Kinds of events."""

    TOKEN = 1
    PREFILL = 2
    FINISHED = 3
    STARTED = 4


class Finish(OpenEnum):
    """Why a request ended."""

    NONE = 0
    STOP_TOKEN = 1
    LENGTH = 2
    STOP_STRING = 3
    STOPPED = 4
    CANCELLED = 5
    FAILED = 6


@dataclass(frozen=True)
class Sampler:
    """How the next token is chosen from logits. All fields 0: the most probable one."""

    temperature: float = 0
    top_k: int = 0
    top_p: float = 0
    min_p: float = 0
    repetition_penalty: float = 0
    repetition_window: int = 0
    seed: int = 0


class SchedulerOptions(TypedDict, total=False):
    """Options of Scheduler; 0 is the default of the library.

    n_slots         slots to take from the model's pool; default: all that are free
    row_budget      rows of one step
    prefill_chunk   prompt rows of one request in one step
    decode_reserve  rows of a step that prompts leave free while requests decode
    max_queued      requests that may wait for a slot
    """

    n_slots: int
    row_budget: int
    prefill_chunk: int
    decode_reserve: int
    max_queued: int


@dataclass(frozen=True)
class Event:
    """One thing that happened to one request. Fields as colibri_event in scheduler.h; token and
    text are None where there is none, error is set when finish is Finish.FAILED."""

    kind: EventKind
    request: int
    token: int | None
    text: str
    finish: Finish
    error: ColibriError | None
    user_data: int
    logprob: float
    n_prompt_done: int
    n_prompt: int
    n_prompt_reused: int
    n_generated: int
    prefill_ns: int
    decode_ns: int


@dataclass(frozen=True)
class Request:
    """A submitted request: its number, and max_tokens after clamping to the context."""

    id: int
    max_tokens: int


class Scheduler(Closing):
    """Continuous batching over slots of one model.

    One thread at a time steps and reads events; every other method may be called from any thread
    meanwhile. Other Python threads run during a step, and several schedulers of one model may step
    side by side.

        request = scheduler.submit(model.tokenizer.encode("Once upon a time"), max_tokens=40)
        for event in scheduler.run():
            print(event.text, end="", flush=True)
    """

    def __init__(self, model: Model, **options: Unpack[SchedulerOptions]) -> None:
        """Raises CapacityError if no engine or not enough slots are left."""
        self._model = model
        # Counts what a sleeping step must see. The sleep is Python's, for Ctrl-C ends it at once.
        self._news = threading.Condition()
        self._n_news = 0
        self._is_woken = False  # by a wake() that no step has slept over yet
        struct = initialised(
            SchedulerOptionsStruct, library().colibri_scheduler_options_init, options
        )
        # Events that the library gave, kept here until events() returns them.
        self._reading = threading.Lock()
        self._structs = (EventStruct * _N_EVENTS)()
        self._n_structs = ctypes.c_size_t()
        self._taken: list[Event] = []
        with model._resource.use() as parent:
            self._resource = Resource(
                "scheduler", library().colibri_scheduler_destroy, model._resource
            )
            self._resource.guard(self)
            self._resource.create(library().colibri_scheduler_create, parent, ctypes.byref(struct))

    def close(self) -> None:
        """Ends all requests without further events and frees everything."""
        self._resource.close()
        self._tell()

    @property
    def model(self) -> Model:
        """The model it belongs to."""
        return self._model

    def submit(
        self,
        prompt_ids: Sequence[int],
        *,
        max_tokens: int = 0,
        sampler: Sampler | None = None,
        stop_ids: Sequence[int] = (),
        stop_strings: Sequence[str] = (),
        ignore_model_stops: bool = False,
        priority: int = 0,
        user_data: int = 0,
        wants_logprobs: bool = False,
    ) -> Request:
        """Queues a request; from any thread, also during a step.

        max_tokens 0 takes what the context leaves. stop_strings are not part of the text, stop_ids
        not of the output. A request of larger priority is admitted earlier. user_data comes back
        in every event. Raises ContextError if the prompt leaves no room for one token,
        CapacityError if max_queued requests wait.
        """
        prompt, stops = c_ids("prompt_ids", prompt_ids), c_ids("stop_ids", stop_ids)
        texts = [c_text("a stop string", text) for text in stop_strings]
        strings = (ctypes.c_char_p * len(texts))(*texts)
        struct = initialised(
            RequestOptionsStruct,
            library().colibri_request_options_init,
            {
                "max_tokens": max_tokens,
                "ignore_model_stops": ignore_model_stops,
                "priority": priority,
                "user_data": user_data,
                "wants_logprobs": wants_logprobs,
            },
        )
        pointer = ctypes.POINTER(ctypes.c_int32)
        struct.prompt_ids, struct.n_prompt_ids = ctypes.cast(prompt, pointer), len(prompt)
        struct.stop_ids, struct.n_stop_ids = ctypes.cast(stops, pointer), len(stops)
        struct.stop_strings = ctypes.cast(strings, ctypes.POINTER(ctypes.c_char_p))
        struct.n_stop_strings = len(texts)
        if sampler is not None:
            struct.sampler = ctypes.pointer(_sampler(sampler))
        request, effective = ctypes.c_uint64(), ctypes.c_uint32()
        with self._resource.use() as handle:
            call(
                library().colibri_scheduler_submit,
                handle,
                ctypes.byref(struct),
                ctypes.byref(request),
                ctypes.byref(effective),
            )
        self._tell()
        return Request(request.value, effective.value)

    def step(self, *, wait: bool = False, timeout: float | None = None) -> StepResult:
        """Runs one scheduling step: at most one forward pass.

        With wait, sleeps while there is nothing to do, until a request is submitted, cancelled,
        stopped or resumed, until wake(), or for timeout seconds. Ctrl-C ends the sleep at once and
        a forward pass at its end; the scheduler stays usable and no event is lost.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            seen = self._n_news
            result = sized(StepResult)
            with self._resource.use() as handle:
                call(library().colibri_scheduler_step, handle, _NOWAIT, ctypes.byref(result))
            if not wait or result.n_rows or result.n_events:
                return result
            if not self._sleep(seen, end):
                return result
            # One more step sees what the news was; a mere wake-up then returns.
            wait = False

    def wake(self) -> None:
        """Makes a step that sleeps return, now or when it next would sleep; from any thread."""
        with self._resource.use() as handle:
            call(library().colibri_scheduler_wake, handle)
        with self._news:
            self._is_woken = True
            self._news.notify_all()

    def events(self) -> list[Event]:
        """Takes all waiting events, oldest first. Not during a step."""
        if not self._reading.acquire(blocking=False):
            raise BusyError("another thread is reading events")
        try:
            with self._resource.use() as handle:
                while self._take(handle):
                    pass
            taken, self._taken = self._taken, []
            return taken
        finally:
            self._reading.release()

    def _take(self, handle: Any) -> bool:
        """Takes one array of events; False if there are no more. Ctrl-C at any line loses none."""
        if self._n_structs.value == 0:
            call(
                library().colibri_scheduler_next_events,
                handle,
                self._structs,
                ctypes.sizeof(EventStruct),
                _N_EVENTS,
                ctypes.byref(self._n_structs),
            )
        n_structs = self._n_structs.value
        taken = [
            _event(struct)
            for struct in self._structs[:n_structs]
            if struct.kind < _IGNORED_KINDS_FROM
        ]
        self._taken += taken
        self._n_structs.value = 0
        return n_structs == _N_EVENTS

    def run(self) -> Iterator[Event]:
        """Steps until every request has ended, and gives events as they come. What is submitted
        meanwhile is run too; while every request is paused, it sleeps."""
        while True:
            self.step(wait=not self._is_empty())
            yield from self.events()
            if self._is_empty():
                return

    def _is_empty(self) -> bool:
        stats = self.stats()
        return not (stats.n_active or stats.n_queued)

    def stop(self, request: Request | int) -> None:
        """Ends a request soon, keeping what it has: Finish.STOPPED."""
        self._tell_of(library().colibri_scheduler_stop, request)

    def cancel(self, request: Request | int) -> None:
        """Abandons a request at the next step: Finish.CANCELLED. Others do not change."""
        self._tell_of(library().colibri_scheduler_cancel, request)

    def pause(self, request: Request | int) -> None:
        """Holds a request back in its slot until resume()."""
        self._tell_of(library().colibri_scheduler_pause, request)

    def resume(self, request: Request | int) -> None:
        """Ends a pause."""
        self._tell_of(library().colibri_scheduler_resume, request)

    def stats(self) -> SchedulerStats:
        """Counters; from any thread, also during a step."""
        stats = sized(SchedulerStats)
        with self._resource.use() as handle:
            call(library().colibri_scheduler_get_stats, handle, ctypes.byref(stats))
        return stats

    def _sleep(self, seen: int, end: float | None) -> bool:
        """Sleeps until there is news after the number seen; False if time ran out before."""
        with self._news:
            while self._n_news == seen and not self._is_woken:
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._news.wait(left)
            self._is_woken = False
        return True

    def _tell_of(self, function: Callable[..., int], request: Request | int) -> None:
        number = request.id if isinstance(request, Request) else request
        with self._resource.use() as handle:
            call(function, handle, in_range("request", number, ctypes.c_uint64))
        self._tell()

    def _tell(self) -> None:
        with self._news:
            self._n_news += 1
            self._news.notify_all()


def _sampler(sampler: Sampler) -> SamplerStruct:
    struct = SamplerStruct()
    library().colibri_sampler_init(ctypes.byref(struct), ctypes.sizeof(struct))
    fill(struct, asdict(sampler))
    return struct


def _event(struct: Any) -> Event:
    text = ctypes.string_at(struct.text, struct.text_bytes) if struct.text else b""
    error = None
    if struct.status != 0:
        error = error_of(struct.status, (struct.message or b"").decode("utf-8", "replace"))
    return Event(
        kind=EventKind(struct.kind),
        request=struct.request,
        token=struct.token if struct.kind == EventKind.TOKEN else None,
        text=text.decode("utf-8", "replace"),
        finish=Finish(struct.finish),
        error=error,
        user_data=struct.user_data,
        logprob=struct.logprob,
        n_prompt_done=struct.n_prompt_done,
        n_prompt=struct.n_prompt,
        n_prompt_reused=struct.n_prompt_reused,
        n_generated=struct.n_generated,
        prefill_ns=struct.prefill_ns,
        decode_ns=struct.decode_ns,
    )
