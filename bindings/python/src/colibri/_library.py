# SPDX-License-Identifier: Apache-2.0
"""Finds and loads libcolibri, once, at the first use; holds the prototypes of all its functions.

The library is the file that COLIBRI_LIBRARY names; else the one inside the package, as a wheel has
it; else what the system's loader finds. ctypes lets other Python threads run during every call.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import threading
from ctypes import POINTER, c_char_p, c_double, c_float, c_int32, c_size_t, c_uint32, c_uint64
from typing import Any

from . import _structs as s
from ._errors import LoadError, error_of

ABI_VERSION = 0
LIBRARY_NAME = "libcolibri.so.0"

_handle = ctypes.c_void_p
_ids = POINTER(c_int32)
_sizes = POINTER(c_size_t)
_text_out = POINTER(_handle)  # const char **; c_char_p would stop at the first NUL
_error = POINTER(s.ErrorStruct)

# Result and arguments by name. A fallible function returns a status and takes an error at last.
PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    # version.h
    "colibri_version": (c_char_p, []),
    "colibri_abi_version": (c_uint32, []),
    # status.h
    "colibri_status_name": (c_char_p, [c_int32]),
    "colibri_status_text": (c_char_p, [c_int32]),
    # model.h
    "colibri_model_options_init": (None, [POINTER(s.ModelOptionsStruct), c_size_t]),
    "colibri_model_plan": (
        c_int32,
        [c_char_p, POINTER(s.ModelOptionsStruct), POINTER(s.Plan), _error],
    ),
    "colibri_model_plan_json": (
        c_int32,
        [c_char_p, POINTER(s.ModelOptionsStruct), c_char_p, c_size_t, _sizes, _error],
    ),
    "colibri_snapshot_describe": (c_int32, [c_char_p, c_char_p, c_size_t, _sizes, _error]),
    "colibri_model_open": (
        c_int32,
        [c_char_p, POINTER(s.ModelOptionsStruct), POINTER(_handle), _error],
    ),
    "colibri_model_close": (c_int32, [_handle, _error]),
    "colibri_model_get_facts": (c_int32, [_handle, POINTER(s.ModelFactsStruct), _error]),
    "colibri_model_describe": (c_int32, [_handle, c_char_p, c_size_t, _sizes, _error]),
    "colibri_model_stop_ids": (c_int32, [_handle, _ids, c_size_t, _sizes, _error]),
    # kv_slot.h
    "colibri_kv_slot_create": (c_int32, [_handle, POINTER(_handle), _error]),
    "colibri_kv_slot_destroy": (c_int32, [_handle, _error]),
    "colibri_kv_slot_length": (c_uint32, [_handle]),
    "colibri_kv_slot_capacity": (c_uint32, [_handle]),
    "colibri_kv_slot_truncate": (c_int32, [_handle, c_uint32, _error]),
    "colibri_kv_slot_reusable": (c_int32, [_handle, c_uint32, POINTER(c_uint32), _error]),
    "colibri_kv_slot_fork": (c_int32, [_handle, c_uint32, POINTER(_handle), _error]),
    "colibri_kv_slot_save": (
        c_int32,
        [_handle, POINTER(ctypes.c_uint8), c_size_t, _sizes, _error],
    ),
    "colibri_kv_slot_restore": (c_int32, [_handle, POINTER(ctypes.c_uint8), c_size_t, _error]),
    "colibri_kv_slot_tokens": (c_int32, [_handle, _ids, c_size_t, _sizes, _error]),
    # batch.h
    "colibri_batch_create": (c_int32, [_handle, POINTER(_handle), _error]),
    "colibri_batch_destroy": (c_int32, [_handle, _error]),
    "colibri_batch_clear": (c_int32, [_handle, _error]),
    "colibri_batch_add": (
        c_int32,
        [_handle, _handle, _ids, c_size_t, c_int32, POINTER(c_uint32), _error],
    ),
    "colibri_batch_decode": (c_int32, [_handle, _error]),
    "colibri_batch_row_count": (c_uint32, [_handle]),
    "colibri_batch_row_status": (c_int32, [_handle, c_uint32, _error]),
    "colibri_batch_logits": (
        c_int32,
        [_handle, c_uint32, POINTER(POINTER(c_float)), _sizes, _error],
    ),
    # scheduler.h
    "colibri_scheduler_options_init": (None, [POINTER(s.SchedulerOptionsStruct), c_size_t]),
    "colibri_scheduler_create": (
        c_int32,
        [_handle, POINTER(s.SchedulerOptionsStruct), POINTER(_handle), _error],
    ),
    "colibri_scheduler_destroy": (c_int32, [_handle, _error]),
    "colibri_sampler_init": (None, [POINTER(s.SamplerStruct), c_size_t]),
    "colibri_request_options_init": (None, [POINTER(s.RequestOptionsStruct), c_size_t]),
    "colibri_scheduler_submit": (
        c_int32,
        [
            _handle,
            POINTER(s.RequestOptionsStruct),
            POINTER(c_uint64),
            POINTER(c_uint32),
            _error,
        ],
    ),
    "colibri_scheduler_step": (c_int32, [_handle, c_int32, POINTER(s.StepResult), _error]),
    "colibri_scheduler_wake": (c_int32, [_handle, _error]),
    "colibri_scheduler_next_events": (
        c_int32,
        [_handle, POINTER(s.EventStruct), c_size_t, c_size_t, _sizes, _error],
    ),
    "colibri_scheduler_stop": (c_int32, [_handle, c_uint64, _error]),
    "colibri_scheduler_cancel": (c_int32, [_handle, c_uint64, _error]),
    "colibri_scheduler_pause": (c_int32, [_handle, c_uint64, _error]),
    "colibri_scheduler_resume": (c_int32, [_handle, c_uint64, _error]),
    # stats.h
    "colibri_model_get_stats": (c_int32, [_handle, POINTER(s.ModelStats), _error]),
    "colibri_scheduler_get_stats": (c_int32, [_handle, POINTER(s.SchedulerStats), _error]),
    # tokenizer.h
    "colibri_tokenizer_open": (c_int32, [c_char_p, POINTER(_handle), _error]),
    "colibri_tokenizer_close": (c_int32, [_handle, _error]),
    "colibri_model_tokenizer": (_handle, [_handle]),
    "colibri_tokenizer_size": (c_uint32, [_handle]),
    "colibri_tokenizer_encode": (
        c_int32,
        [_handle, c_char_p, c_size_t, c_int32, _ids, c_size_t, _sizes, _error],
    ),
    "colibri_tokenizer_decode": (
        c_int32,
        [_handle, _ids, c_size_t, c_int32, c_char_p, c_size_t, _sizes, _error],
    ),
    "colibri_tokenizer_find": (c_int32, [_handle, c_char_p, POINTER(c_int32), _error]),
    "colibri_tokenizer_prefix": (c_int32, [_handle, _ids, c_size_t, _sizes, _error]),
    "colibri_chat_layout": (c_int32, [_handle, _text_out, _error]),
    "colibri_chat_encode": (
        c_int32,
        [
            _handle,
            POINTER(s.ChatMessageStruct),
            c_size_t,
            c_uint32,
            _ids,
            c_size_t,
            _sizes,
            _error,
        ],
    ),
    "colibri_stream_decoder_create": (c_int32, [_handle, c_int32, POINTER(_handle), _error]),
    "colibri_stream_decoder_push": (c_int32, [_handle, c_int32, _text_out, _sizes, _error]),
    "colibri_stream_decoder_flush": (c_int32, [_handle, _text_out, _sizes, _error]),
    "colibri_stream_decoder_destroy": (c_int32, [_handle, _error]),
    # convert.h
    "colibri_convert_options_init": (None, [POINTER(s.ConvertOptionsStruct), c_size_t]),
    "colibri_convert": (
        c_int32,
        [c_char_p, c_char_p, POINTER(s.ConvertOptionsStruct), POINTER(s.ConvertReport), _error],
    ),
    "colibri_snapshot_verify": (
        c_int32,
        [
            c_char_p,
            c_uint32,
            s.ProgressFunction,
            ctypes.c_void_p,
            POINTER(s.VerifyReport),
            _error,
        ],
    ),
    "colibri_synthesis_options_init": (None, [POINTER(s.SynthesisOptionsStruct), c_size_t]),
    "colibri_snapshot_synthesise": (
        c_int32,
        [c_char_p, POINTER(s.SynthesisOptionsStruct), _error],
    ),
    # measure.h
    "colibri_measure_options_init": (None, [POINTER(s.MeasureOptionsStruct), c_size_t]),
    "colibri_measure_kernels": (
        c_int32,
        [
            POINTER(s.MeasureOptionsStruct),
            POINTER(c_uint32),
            c_size_t,
            POINTER(s.MachineFigures),
            POINTER(s.KernelFigures),
            c_size_t,
            _error,
        ],
    ),
    "colibri_measure_read_bandwidth": (
        c_int32,
        [c_uint32, c_uint64, POINTER(c_double), _error],
    ),
}

_loaded: ctypes.CDLL | None = None
_lock = threading.Lock()


def library() -> ctypes.CDLL:
    """The loaded library. Raises LoadError."""
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                _loaded = _load(_find())
    return _loaded


def _find() -> str:
    named = os.environ.get("COLIBRI_LIBRARY")
    if named:
        return named
    inside = pathlib.Path(__file__).parent / "_native" / LIBRARY_NAME
    return str(inside) if inside.is_file() else LIBRARY_NAME


def _load(name: str) -> ctypes.CDLL:
    try:
        loaded = ctypes.CDLL(name)
    except OSError as reason:
        raise LoadError(
            f"libcolibri cannot be loaded: {reason}; set COLIBRI_LIBRARY to the path of"
            f" {LIBRARY_NAME}, or install a wheel that has it inside"
        ) from None
    try:
        abi = int(loaded.colibri_abi_version())
        if abi != ABI_VERSION:
            raise LoadError(f"{name} has ABI {abi}; this package needs ABI {ABI_VERSION}")
        for function, (result, arguments) in PROTOTYPES.items():
            prototype = getattr(loaded, function)
            prototype.restype, prototype.argtypes = result, arguments
    except AttributeError as reason:
        raise LoadError(f"{name} is no libcolibri of version 0.2 or newer: {reason}") from None
    return loaded


def library_path() -> pathlib.Path | None:
    """File that the library was loaded from, links resolved; None if it cannot be found out."""

    class Place(ctypes.Structure):  # Dl_info of dlfcn.h
        _fields_ = [
            ("file", c_char_p),
            ("base", _handle),
            ("symbol", c_char_p),
            ("symbol_address", _handle),
        ]

    place = Place()
    try:
        dladdr = ctypes.CDLL(None).dladdr
    except AttributeError:
        return None
    dladdr.argtypes = [_handle, POINTER(Place)]
    function = ctypes.cast(library().colibri_version, _handle)
    if not dladdr(function, ctypes.byref(place)) or not place.file:
        return None
    return pathlib.Path(os.fsdecode(place.file)).resolve()


def call(function: Any, *arguments: Any) -> None:
    """Calls a fallible function; raises the exception of its status."""
    error = s.sized(s.ErrorStruct)
    status = function(*arguments, ctypes.byref(error))
    if status != 0:
        raise error_of(status, error.message.decode("utf-8", "replace"))


def version() -> str:
    """Version of the loaded library, "major.minor.patch"."""
    return str(library().colibri_version().decode())


def abi_version() -> int:
    """ABI number of the loaded library."""
    return int(library().colibri_abi_version())


def status_name(code: int) -> str:
    """Name of a status code, as "COLIBRI_E_IO"."""
    return str(library().colibri_status_name(code).decode())


def status_text(code: int) -> str:
    """One English sentence on what a status code means in general."""
    return str(library().colibri_status_text(code).decode())
