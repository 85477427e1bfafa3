# SPDX-License-Identifier: Apache-2.0
"""Python values to C and back, with checks where ctypes would cut a number without a word."""

from __future__ import annotations

import array
import ctypes
import enum
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, Union

from ._errors import ArgumentError, CapacityError
from ._library import call
from ._structs import Mirror

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
M = TypeVar("M", bound=Mirror)

_RANGES = {
    ctypes.c_int32: (-(2**31), 2**31 - 1),
    ctypes.c_uint32: (0, 2**32 - 1),
    ctypes.c_uint64: (0, 2**64 - 1),
    ctypes.c_size_t: (0, 2**64 - 1),
}


class OpenEnum(enum.IntEnum):
    """Constants to which a later version of the library may add some."""

    @classmethod
    def _missing_(cls, value: object) -> Any:
        if not isinstance(value, int):
            return None
        member = int.__new__(cls, value)
        member._name_, member._value_ = f"UNKNOWN_{value}", value
        return member


def in_range(name: str, value: Any, kind: Any = ctypes.c_uint32) -> int:
    """The value as an int that fits the C type."""
    number = int(value.__index__())
    low, high = _RANGES[kind]
    if not low <= number <= high:
        raise ArgumentError(f"{name} is {number}; must be {low}..{high}")
    return number


def c_text(name: str, value: str | bytes) -> bytes:
    """UTF-8 that may be NUL-terminated."""
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else bytes(value)
    if b"\0" in data:
        raise ArgumentError(f"{name} has a NUL inside")
    return data


def c_path(path: Path) -> bytes:
    """Bytes of a path."""
    return c_text("the path", os.fsencode(path))


def c_ids(name: str, ids: Iterable[int]) -> Any:
    """Token ids as an array of int32."""
    try:
        values = array.array("i", ids)
    except OverflowError as reason:
        raise ArgumentError(f"{name}: {reason}") from None
    return (ctypes.c_int32 * len(values)).from_buffer(values) if values else (ctypes.c_int32 * 0)()


def fill(struct: Mirror, options: Mapping[str, Any]) -> None:
    """Sets fields of an options struct by name. None leaves a default."""
    kinds = {field[0]: field[1] for field in struct._fields_}
    for name, value in options.items():
        if name not in kinds or name in ("struct_size", "reserved"):
            raise TypeError(f"there is no option {name!r}")
        if value is None:
            continue
        kind: Any = kinds[name]
        if kind in _RANGES:
            value = in_range(name, value, kind)
        elif kind is ctypes.c_char_p:
            value = c_text(name, value)
        setattr(struct, name, value)


def initialised(kind: type[M], initialise: Any, options: Mapping[str, Any]) -> M:
    """An options struct with defaults from the library, changed by options."""
    struct = kind()
    initialise(ctypes.byref(struct), ctypes.sizeof(struct))
    fill(struct, options)
    return struct


def read_sized(
    make: Callable[[int], Any], guess: int, function: Any, *arguments: Any
) -> tuple[Any, int]:
    """Calls function(*arguments, buffer, capacity, &count) with a buffer that is large enough.

    make(n) gives a buffer of n elements. Text is written with a NUL that count leaves out.
    """
    capacity = guess
    for _ in range(8):
        buffer = make(capacity)
        count = ctypes.c_size_t()
        try:
            call(function, *arguments, buffer, capacity, ctypes.byref(count))
        except CapacityError:
            # A text may grow between two calls; a rest that is not used costs nothing.
            capacity = count.value + count.value // 8 + 1
        else:
            return buffer, count.value
    raise CapacityError("the result grows faster than it can be read")


def read_text(guess: int, function: Any, *arguments: Any) -> str:
    buffer, count = read_sized(ctypes.create_string_buffer, guess, function, *arguments)
    return str(buffer.raw[:count].decode("utf-8", "replace"))


def read_ids(guess: int, function: Any, *arguments: Any) -> list[int]:
    buffer, count = read_sized(lambda n: (ctypes.c_int32 * n)(), guess, function, *arguments)
    return list(buffer[:count])
