# SPDX-License-Identifier: Apache-2.0
"""What this machine can do: read bandwidth, multiply-add peaks, and how near the kernels come."""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

from ._library import call, library
from ._structs import KernelFigures, MachineFigures, MeasureOptionsStruct, sized
from ._values import in_range, initialised

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Matrix(enum.IntEnum):
    """Formats of the matrix that is measured."""

    DEFAULT = 0
    INT4 = 1
    INT8 = 2
    BF16 = 3


class MeasureOptions(TypedDict, total=False):
    """Options of measure_kernels(); see colibri_measure_options in measure.h."""

    n_threads: int
    kernel_set: str | None
    matrix: int
    columns: int
    depth: int
    min_runs: int
    memory_bytes: int


def measure_kernels(
    rows: Sequence[int] = (1, 2, 4, 8), **options: Unpack[MeasureOptions]
) -> tuple[MachineFigures, list[KernelFigures]]:
    """Measures one matrix kernel as an expert layer uses it, for each number of rows. Takes
    seconds; alone on the machine, or the figures say little."""
    struct = initialised(MeasureOptionsStruct, library().colibri_measure_options_init, options)
    numbers = (ctypes.c_uint32 * len(rows))(*(in_range("rows", row) for row in rows))
    machine = sized(MachineFigures)
    figures = (KernelFigures * len(rows))()
    call(
        library().colibri_measure_kernels,
        ctypes.byref(struct),
        numbers,
        len(rows),
        ctypes.byref(machine),
        figures,
        ctypes.sizeof(KernelFigures),
    )
    return machine, list(figures)


def measure_read_bandwidth(*, n_threads: int = 1, memory_bytes: int = 0) -> float:
    """Plain read bandwidth of memory in 1e9 bytes per second."""
    gbps = ctypes.c_double()
    call(
        library().colibri_measure_read_bandwidth,
        in_range("n_threads", n_threads),
        in_range("memory_bytes", memory_bytes, ctypes.c_uint64),
        ctypes.byref(gbps),
    )
    return gbps.value
