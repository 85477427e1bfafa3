# SPDX-License-Identifier: Apache-2.0
"""KV slots: the state of one sequence each."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ._library import call, library
from ._resource import Closing, Resource
from ._values import in_range, read_ids, read_sized

if TYPE_CHECKING:
    from .model import Model


class Slot(Closing):
    """Positions 0..len(slot) - 1 of one sequence; for one thread at a time."""

    _resource: Resource

    def __init__(self, model: Model) -> None:
        """Takes an empty slot from the model's pool. Raises CapacityError if all are in use."""
        with model._resource.use() as parent:
            self._begin(model, library().colibri_kv_slot_create, parent)

    def _begin(self, model: Model, create: Callable[..., int], *arguments: Any) -> None:
        self._model = model
        self._resource = Resource(
            "slot", library().colibri_kv_slot_destroy, model._resource, rank=1
        )
        self._resource.guard(self)
        self._resource.create(create, *arguments)

    def close(self) -> None:
        """Gives the slot back to the pool. Raises BusyError while rows of it wait in a batch."""
        self._resource.close()

    @property
    def model(self) -> Model:
        """The model it belongs to."""
        return self._model

    def __len__(self) -> int:
        """Positions in use."""
        with self._resource.use() as handle:
            return int(library().colibri_kv_slot_length(handle))

    def __bool__(self) -> bool:
        """True, also of an empty slot."""
        return True

    @property
    def capacity(self) -> int:
        """Positions it can hold."""
        with self._resource.use() as handle:
            return int(library().colibri_kv_slot_capacity(handle))

    @property
    def tokens(self) -> list[int]:
        """Token ids of the positions."""
        with self._resource.use() as handle:
            return read_ids(256, library().colibri_kv_slot_tokens, handle)

    def truncate(self, length: int) -> None:
        """Forgets all positions from length on. Raises ArgumentError, with nothing changed, for a
        length that reusable() says cannot be reached."""
        with self._resource.use() as handle:
            call(library().colibri_kv_slot_truncate, handle, in_range("length", length))

    def reusable(self, length: int) -> int:
        """The longest length, at most this one, that truncate() and fork() can reach: length
        itself, or 0 if layers with an attention window have overwritten what it needs."""
        result = ctypes.c_uint32()
        with self._resource.use() as handle:
            call(
                library().colibri_kv_slot_reusable,
                handle,
                in_range("length", length),
                ctypes.byref(result),
            )
        return result.value

    def fork(self, length: int | None = None) -> Slot:
        """A new slot that continues from the first length positions, or from all of them; a length
        that reusable() says cannot be reached raises ArgumentError."""
        wanted = in_range("length", len(self) if length is None else length)
        fork = Slot.__new__(Slot)
        with self._resource.use() as used:
            fork._begin(self._model, library().colibri_kv_slot_fork, used, wanted)
        return fork

    def save(self) -> bytes:
        """The state as bytes, for restore() in this or another process."""

        def make(n: int) -> ctypes.Array[ctypes.c_uint8]:
            return (ctypes.c_uint8 * n)()

        with self._resource.use() as handle:
            n_bytes = ctypes.c_size_t()
            function = library().colibri_kv_slot_save
            call(function, handle, None, 0, ctypes.byref(n_bytes))
            blob, count = read_sized(make, n_bytes.value, function, handle)
        return bytes(memoryview(blob)[:count])

    def restore(self, blob: bytes | bytearray | memoryview) -> None:
        """Replaces the state by a saved one. After MismatchError, FormatError or ContextError the
        slot is empty; after any other exception it is as before."""
        data = (ctypes.c_uint8 * len(blob)).from_buffer_copy(blob)
        with self._resource.use() as handle:
            call(library().colibri_kv_slot_restore, handle, data, len(data))
