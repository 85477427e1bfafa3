# SPDX-License-Identifier: Apache-2.0
"""Packed snapshots: conversion, verification, and random ones for measuring."""

from __future__ import annotations

import ctypes
import enum
from typing import TYPE_CHECKING, TypedDict

from ._callbacks import Progress, ProgressCall
from ._library import call, library
from ._structs import (
    ConvertOptionsStruct,
    ConvertReport,
    SynthesisOptionsStruct,
    VerifyReport,
    sized,
)
from ._values import Path, c_path, in_range, initialised

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Weights(enum.IntEnum):
    """Formats that matrices stored as floats or FP8 are converted to."""

    DEFAULT = 0
    KEEP = 1
    BF16 = 2
    INT8 = 3
    INT4 = 4


class Scales(enum.IntEnum):
    """How the scales of INT4 and INT8 groups are found."""

    DEFAULT = 0
    SEARCH = 1
    ABSMAX = 2


class ConvertOptions(TypedDict, total=False):
    """Options of convert(); 0 is the default of the library, see convert.h for the ranges.

    experts, dense, embedding, head   Weights
    group                             weights that share a scale: 32, 64 or 128
    scales                            Scales
    n_threads                         computing threads
    resume                            True: go on with an interrupted conversion
    max_shard_bytes                   of one result file
    progress                          called with (done_bytes, total_bytes); False stops
    """

    experts: int
    dense: int
    embedding: int
    head: int
    group: int
    scales: int
    n_threads: int
    resume: bool
    max_shard_bytes: int
    progress: Progress | None


class SynthesisOptions(TypedDict, total=False):
    """Options of synthesise(); see colibri_synthesis_options in convert.h."""

    n_layers: int
    shape: str
    skew: float
    repeat: float
    seed: int
    n_threads: int
    progress: Progress | None


def convert(source: Path, destination: Path, **options: Unpack[ConvertOptions]) -> ConvertReport:
    """Converts a snapshot to a packed one in a new folder. Stopped, also by Ctrl-C, it leaves
    DESTINATION.partial, from which resume=True goes on."""
    report = sized(ConvertReport)
    with ProgressCall(options.get("progress")) as progress:
        values = {**options, "progress": progress.function}
        struct = initialised(ConvertOptionsStruct, library().colibri_convert_options_init, values)
        call(
            library().colibri_convert,
            c_path(source),
            c_path(destination),
            ctypes.byref(struct),
            ctypes.byref(report),
        )
    return report


def verify(path: Path, *, n_threads: int = 0, progress: Progress | None = None) -> VerifyReport:
    """Compares every tensor and side file of a packed snapshot with its checksum. Damage is a
    result, not an exception."""
    report = sized(VerifyReport)
    with ProgressCall(progress) as called:
        call(
            library().colibri_snapshot_verify,
            c_path(path),
            in_range("n_threads", n_threads),
            called.function,
            None,
            ctypes.byref(report),
        )
    return report


def synthesise(destination: Path, **options: Unpack[SynthesisOptions]) -> None:
    """Writes a packed snapshot with random weights, to measure a machine with."""
    with ProgressCall(options.get("progress")) as progress:
        values = {**options, "progress": progress.function}
        struct = initialised(
            SynthesisOptionsStruct, library().colibri_synthesis_options_init, values
        )
        call(library().colibri_snapshot_synthesise, c_path(destination), ctypes.byref(struct))
