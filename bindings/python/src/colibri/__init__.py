# SPDX-License-Identifier: Apache-2.0
"""Runs mixture-of-experts language models whose experts live on disk, in RAM, or both.

    import colibri
    print(colibri.generate("Once upon a time", max_tokens=40))

The objects of libcolibri under the same names: Model, Tokenizer, Slot, Batch, Scheduler. Each has
close() and is a context manager; children keep their model alive. A failed call raises the class of
its status code, all of them ColibriError. Other Python threads run during every call.
"""

from ._errors import (
    ArgumentError,
    BudgetError,
    BusyError,
    CancelledError,
    CapacityError,
    ColibriError,
    ContextError,
    FormatError,
    HandleError,
    IncompleteError,
    InputOutputError,
    InternalError,
    LoadError,
    MismatchError,
    NonFiniteError,
    NotFoundError,
    OutOfMemoryError,
    StateError,
    UnsupportedError,
)
from ._library import abi_version, library_path, status_name, status_text, version
from ._structs import (
    ConvertReport,
    KernelFigures,
    MachineFigures,
    ModelStats,
    Plan,
    SchedulerStats,
    StepResult,
    VerifyReport,
)
from .batch import Batch, Logits
from .convert import ConvertOptions, Scales, SynthesisOptions, Weights, convert, synthesise, verify
from .generate import Completion, GenerateOptions, encode_prompt, generate, stream
from .measure import Matrix, MeasureOptions, measure_kernels, measure_read_bandwidth
from .model import (
    Activations,
    Facts,
    KvType,
    LogLevel,
    Model,
    ModelOptions,
    default_model,
    describe,
    plan,
    plan_json,
)
from .scheduler import (
    Event,
    EventKind,
    Finish,
    Request,
    Sampler,
    Scheduler,
    SchedulerOptions,
)
from .slot import Slot
from .tokenizer import Message, Role, StreamDecoder, Tokenizer

__version__ = "0.2.0"

__all__ = [
    "Activations",
    "ArgumentError",
    "Batch",
    "BudgetError",
    "BusyError",
    "CancelledError",
    "CapacityError",
    "ColibriError",
    "Completion",
    "ContextError",
    "ConvertOptions",
    "ConvertReport",
    "Event",
    "EventKind",
    "Facts",
    "Finish",
    "FormatError",
    "GenerateOptions",
    "HandleError",
    "IncompleteError",
    "InputOutputError",
    "InternalError",
    "KernelFigures",
    "KvType",
    "LoadError",
    "LogLevel",
    "Logits",
    "MachineFigures",
    "Matrix",
    "MeasureOptions",
    "Message",
    "MismatchError",
    "Model",
    "ModelOptions",
    "ModelStats",
    "NonFiniteError",
    "NotFoundError",
    "OutOfMemoryError",
    "Plan",
    "Request",
    "Role",
    "Sampler",
    "Scales",
    "Scheduler",
    "SchedulerOptions",
    "SchedulerStats",
    "Slot",
    "StateError",
    "StepResult",
    "StreamDecoder",
    "SynthesisOptions",
    "Tokenizer",
    "UnsupportedError",
    "VerifyReport",
    "Weights",
    "abi_version",
    "convert",
    "default_model",
    "describe",
    "encode_prompt",
    "generate",
    "library_path",
    "measure_kernels",
    "measure_read_bandwidth",
    "plan",
    "plan_json",
    "status_name",
    "status_text",
    "stream",
    "synthesise",
    "verify",
    "version",
]
