# SPDX-License-Identifier: Apache-2.0
"""Models: snapshot folders, opened."""

from __future__ import annotations

import ctypes
import enum
import json
import pathlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from ._callbacks import Log, Progress, ProgressCall, log_function
from ._errors import NotFoundError
from ._library import call, library, library_path
from ._resource import Closing, Resource
from ._structs import (
    Mirror,
    ModelFactsStruct,
    ModelOptionsStruct,
    ModelStats,
    Plan,
    sized,
)
from ._values import OpenEnum, Path, c_path, initialised, read_ids, read_text
from .tokenizer import Message, Tokenizer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .batch import Batch
    from .generate import Completion, GenerateOptions
    from .scheduler import Scheduler, SchedulerOptions
    from .slot import Slot


class Activations(OpenEnum):
    """How matrices stored as INT4 or INT8 are multiplied."""

    DEFAULT = 0
    INT8 = 1
    FLOAT = 2


class KvType(OpenEnum):
    """Number format of KV slots; BF16 and F16 take half the memory."""

    DEFAULT = 0
    F32 = 1
    BF16 = 2
    F16 = 3


class LogLevel(enum.IntEnum):
    """Levels of log lines; a larger one is more detailed."""

    ERROR = 1
    WARNING = 2
    INFO = 3
    DEBUG = 4


class ModelOptions(TypedDict, total=False):
    """Options of Model and plan(). What is left out, 0 or None is the default of the library;
    model.h has ranges and defaults.

    n_threads             computing threads
    ram_budget_bytes      for everything the model uses together
    n_slots               KV slots in the pool
    context_tokens        positions of a slot
    max_rows              rows of one forward pass
    max_logits_rows       rows of one pass that may ask for logits
    n_engines             batches and schedulers that may exist at once
    activations           Activations
    kv_type               KvType; F32 by default
    latent_norm_eps       epsilon of the latent norms of attention
    n_loader_threads      expert reads in flight
    skip_tokenizer        True: do not load tokenizer.json
    kernel_set            "ref", "avx2", "avx512"
    refuse_outside_links  True: refuse files that are links to outside of the folder
    progress              called with (done_bytes, total_bytes) during open, on the thread that
                          opens; returning False stops, which raises CancelledError
    log                   called with (level, line) until the model is closed, on threads that are
                          inside a call of the model or its children; must not call this package
    log_level             LogLevel, the most detailed one to deliver
    """

    n_threads: int
    ram_budget_bytes: int
    n_slots: int
    context_tokens: int
    max_rows: int
    max_logits_rows: int
    n_engines: int
    activations: int
    kv_type: int
    latent_norm_eps: float
    n_loader_threads: int
    skip_tokenizer: bool
    kernel_set: str | None
    refuse_outside_links: bool
    progress: Progress | None
    log: Log | None
    log_level: int


@dataclass(frozen=True)
class Facts:
    """Read-only facts of an open model; they never change."""

    vocabulary_size: int
    n_token_ids: int
    width: int
    n_layers: int
    n_experts: int
    n_experts_per_token: int
    max_positions: int
    context_tokens: int
    n_slots: int
    max_rows: int
    max_logits_rows: int
    n_engines: int
    n_threads: int
    activations: Activations
    kv_type: KvType
    latent_norm_eps: float
    has_tokenizer: bool
    kernel_set: str
    model_type: str
    identity: int
    kv_window_layers: int


DEMONSTRATION_MODEL = "colibri-tiny-packed"


def default_model() -> pathlib.Path:
    """Folder of the small demonstration model: inside the package, as a wheel has it, or beside
    the library at ../share/colibri/models, as it is installed. Raises NotFoundError."""
    folders = [pathlib.Path(__file__).parent / "models" / DEMONSTRATION_MODEL]
    loaded = library_path()
    if loaded is not None:
        # lib, lib/x86_64-linux-gnu, and the folder of the build that the library is made in.
        for prefix in list(loaded.parents)[1:4]:
            folders.append(prefix / "share/colibri/models" / DEMONSTRATION_MODEL)
    for folder in folders:
        if (folder / "config.json").is_file():
            return folder
    raise NotFoundError(
        "the demonstration model is not beside the library; name the folder of a model, tried: "
        + ", ".join(map(str, folders))
    )


def _options(options: ModelOptions, progress: ProgressCall) -> ModelOptionsStruct:
    values: dict[str, Any] = dict(options)
    log = values.pop("log", None)
    values["progress"] = progress.function
    if log is not None:
        values["log"] = log_function(log)
    return initialised(ModelOptionsStruct, library().colibri_model_options_init, values)


class Model(Closing):
    """A snapshot folder, opened: weights, expert cache, pool of KV slots.

    Several threads may use one model. close() ends its slots, batches, schedulers and decoders as
    well and frees all native memory at once; it is done by `with`, by the garbage collector, and
    at the end of the interpreter too.

        with colibri.Model("GLM-5.2", n_slots=4) as model:
            print(model.generate("Once upon a time"))
    """

    def __init__(self, path: Path | None = None, **options: Unpack[ModelOptions]) -> None:
        """Opens the snapshot at path: a folder, its index file, config.json, or any shard. Without
        a path, the demonstration model. Ctrl-C stops the opening."""
        log = options.get("log")
        with ProgressCall(options.get("progress")) as progress:
            struct = _options(options, progress)
            self._resource = Resource(
                "model", library().colibri_model_close, kept=struct if log else None
            )
            self._resource.guard(self)
            self._resource.create(
                library().colibri_model_open,
                c_path(default_model() if path is None else path),
                ctypes.byref(struct),
            )
        facts = sized(ModelFactsStruct)
        with self._resource.use() as used:
            call(library().colibri_model_get_facts, used, ctypes.byref(facts))
        self._facts = _facts_of(facts)

    def close(self) -> None:
        """Frees everything. Raises BusyError, with nothing done, while another thread uses the
        model or one of its children."""
        self._resource.close()

    @property
    def is_open(self) -> bool:
        """False once the model was closed."""
        return self._resource.is_open

    @property
    def facts(self) -> Facts:
        """Sizes and effective settings; also of a model that was closed."""
        return self._facts

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer of the snapshot, valid until the model is closed; None if it has none."""
        with self._resource.use() as handle:
            tokenizer = library().colibri_model_tokenizer(handle)
            if tokenizer is None:
                return None
            return Tokenizer._of_model(tokenizer, self._resource)

    @property
    def stop_ids(self) -> list[int]:
        """Ids that end a generation by default, ascending."""
        with self._resource.use() as handle:
            return read_ids(16, library().colibri_model_stop_ids, handle)

    def stats(self) -> ModelStats:
        """Counters of the model and its expert cache."""
        stats = sized(ModelStats)
        with self._resource.use() as handle:
            call(library().colibri_model_get_stats, handle, ctypes.byref(stats))
        return stats

    def describe(self) -> dict[str, Any]:
        """Effective configuration, plan, formats and counters."""
        with self._resource.use() as handle:
            return _object(read_text(16384, library().colibri_model_describe, handle))

    def slot(self) -> Slot:
        """An empty KV slot from the pool."""
        from .slot import Slot

        return Slot(self)

    def batch(self) -> Batch:
        """An empty batch."""
        from .batch import Batch

        return Batch(self)

    def scheduler(self, **options: Unpack[SchedulerOptions]) -> Scheduler:
        """A scheduler over free slots of the pool."""
        from .scheduler import Scheduler

        return Scheduler(self, **options)

    def generate(
        self, prompt: str | Sequence[int] | Sequence[Message], **options: Unpack[GenerateOptions]
    ) -> Completion:
        """Continues a prompt; see colibri.generate()."""
        from .generate import generate

        return generate(prompt, model=self, **options)

    def stream(
        self, prompt: str | Sequence[int] | Sequence[Message], **options: Unpack[GenerateOptions]
    ) -> Iterator[str]:
        """Continues a prompt piece by piece; see colibri.stream()."""
        from .generate import stream

        return stream(prompt, model=self, **options)

    def __repr__(self) -> str:
        state = "" if self.is_open else ", closed"
        facts = self._facts
        return f"<colibri.Model {facts.model_type}, {facts.n_layers} layers{state}>"


def _facts_of(struct: Mirror) -> Facts:
    values = {name: getattr(struct, name) for name in Facts.__dataclass_fields__}
    values["activations"] = Activations(values["activations"])
    values["kv_type"] = KvType(values["kv_type"])
    values["has_tokenizer"] = bool(values["has_tokenizer"])
    for name in ("kernel_set", "model_type"):
        values[name] = values[name].decode("utf-8", "replace")
    return Facts(**values)


def _object(text: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(text)
    return value


def plan(path: Path, **options: Unpack[ModelOptions]) -> Plan:
    """What a model would take with these options, without loading weights. A plan that does not
    fit the budget is a result with is_feasible 0."""
    result = sized(Plan)
    with ProgressCall(options.get("progress")) as progress:
        struct = _options(options, progress)
        call(library().colibri_model_plan, c_path(path), ctypes.byref(struct), ctypes.byref(result))
    return result


def plan_json(path: Path, **options: Unpack[ModelOptions]) -> dict[str, Any]:
    """The plan with its parts, tiers and effective options; model.h lists the members."""
    with ProgressCall(options.get("progress")) as progress:
        struct = _options(options, progress)
        arguments = (c_path(path), ctypes.byref(struct))
        return _object(read_text(4096, library().colibri_model_plan_json, *arguments))


def describe(path: Path) -> dict[str, Any]:
    """What a snapshot holds, without loading it; model.h lists the members."""
    return _object(read_text(16384, library().colibri_snapshot_describe, c_path(path)))
