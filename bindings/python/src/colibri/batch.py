# SPDX-License-Identifier: Apache-2.0
"""Batches: rows of any slots in one forward pass, and the logits that come back."""

from __future__ import annotations

import ctypes
import enum
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ._errors import BusyError
from ._library import call, library
from ._resource import Closing, Resource
from ._values import c_ids, in_range

if TYPE_CHECKING:
    from .model import Model
    from .slot import Slot


class Logits(enum.IntEnum):
    """Which of the added rows give logits."""

    NONE = 0
    LAST = 1
    ALL = 2


class Batch(Closing):
    """Rows to decode together; for one thread at a time. A row's bits do not depend on the other
    rows.

        batch.add(slot, tokens, logits=Logits.LAST)
        batch.decode()
        row = numpy.asarray(batch.logits(len(batch) - 1))    # no copy
    """

    def __init__(self, model: Model) -> None:
        """Makes an empty batch. Raises CapacityError if n_engines are in use."""
        self._model = model
        self._slots: list[Slot] = []  # a slot cannot end while rows of it wait here
        self._views: list[weakref.ref[Any]] = []
        with model._resource.use() as parent:
            self._resource = Resource("batch", library().colibri_batch_destroy, model._resource)
            self._resource.guard(self)
            self._resource.create(library().colibri_batch_create, parent)
        views = self._views
        self._resource.before_close = lambda: _refuse_views(views)

    def close(self) -> None:
        """Frees it; rows that wait are dropped. Raises BusyError while logits are in use."""
        self._resource.close()
        self._slots.clear()

    def clear(self) -> None:
        """Drops all rows and results. Raises BusyError while logits are in use."""
        with self._resource.use() as handle:
            _refuse_views(self._views)
            call(library().colibri_batch_clear, handle)
            self._slots.clear()

    def add(self, slot: Slot, tokens: Iterable[int], logits: int = Logits.LAST) -> int:
        """Adds the next tokens of a slot; returns the number of the first added row."""
        ids = c_ids("tokens", tokens)
        first_row = ctypes.c_uint32()
        mode = in_range("logits", logits, ctypes.c_int32)
        with self._resource.use() as handle, slot._resource.use() as used:
            call(
                library().colibri_batch_add,
                handle,
                used,
                ids,
                len(ids),
                mode,
                ctypes.byref(first_row),
            )
            self._slots.append(slot)
        return first_row.value

    def decode(self) -> None:
        """Runs the forward pass. Raises InputOutputError if rows failed; check_row() says which."""
        with self._resource.use() as handle:
            call(library().colibri_batch_decode, handle)

    def __len__(self) -> int:
        """Rows in the batch."""
        with self._resource.use() as handle:
            return int(library().colibri_batch_row_count(handle))

    def __bool__(self) -> bool:
        """True, also of an empty batch."""
        return True

    def check_row(self, row: int) -> None:
        """After decode(): raises what went wrong in a row, or nothing."""
        with self._resource.use() as handle:
            call(library().colibri_batch_row_status, handle, in_range("row", row))

    def logits(self, row: int) -> memoryview[float]:
        """Logits of a row that asked for them: float32 values in the library's memory, read-only.

        numpy.asarray() of it copies nothing. While it or an array over it exists, clear() and
        close() raise BusyError; call its release(), or copy the values and forget it.
        """
        values = ctypes.POINTER(ctypes.c_float)()
        count = ctypes.c_size_t()
        number = in_range("row", row)
        with self._resource.use() as handle:
            call(
                library().colibri_batch_logits,
                handle,
                number,
                ctypes.byref(values),
                ctypes.byref(count),
            )
            address = ctypes.cast(values, ctypes.c_void_p).value
            assert address is not None
            array: Any = (ctypes.c_float * count.value).from_address(address)
            array.batch = self  # the memory lives as long as the batch
            self._views[:] = [view for view in self._views if view() is not None]
            self._views.append(weakref.ref(array))
        return memoryview(array).cast("B").cast("f").toreadonly()


def _refuse_views(views: list[weakref.ref[Any]]) -> None:
    if any(view() is not None for view in views):
        raise BusyError("logits of this batch are in use; release() them, or copy them")
