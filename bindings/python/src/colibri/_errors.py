# SPDX-License-Identifier: Apache-2.0
"""One exception class for every status code of status.h."""

from __future__ import annotations

from typing import ClassVar


class LoadError(ImportError):
    """libcolibri was not found, or it is of another ABI than this package."""


class ColibriError(Exception):
    """A call of the library failed. Codes that have no class of their own are of this one.

    code is the status, name its name as "COLIBRI_E_IO", text what was wrong with which value.
    """

    code: int
    name: ClassVar[str] = "COLIBRI_E_UNKNOWN"
    status: ClassVar[int] = 0

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.code = self.status if code is None else code

    def __reduce__(self) -> tuple[type[ColibriError], tuple[str, int]]:
        return type(self), (self.text, self.code)


class ArgumentError(ColibriError, ValueError):
    """An argument is outside its stated range; nothing happened."""

    name, status = "COLIBRI_E_ARGUMENT", -1


class UnsupportedError(ColibriError):
    """This build or version does not offer what was asked."""

    name, status = "COLIBRI_E_UNSUPPORTED", -2


class NotFoundError(ColibriError, LookupError):
    """The named file or object does not exist."""

    name, status = "COLIBRI_E_NOT_FOUND", -3


class HandleError(ColibriError):
    """The object was closed, or is of another kind."""

    name, status = "COLIBRI_E_HANDLE", -4


class BusyError(ColibriError):
    """In use by another call; nothing happened."""

    name, status = "COLIBRI_E_BUSY", -10


class StateError(ColibriError):
    """The call does not fit the object's present state; nothing happened."""

    name, status = "COLIBRI_E_STATE", -11


class CancelledError(ColibriError):
    """A callback asked to stop."""

    name, status = "COLIBRI_E_CANCELLED", -12


class OutOfMemoryError(ColibriError, MemoryError):
    """Memory could not be allocated."""

    name, status = "COLIBRI_E_MEMORY", -20


class BudgetError(ColibriError):
    """The plan does not fit the given budget."""

    name, status = "COLIBRI_E_BUDGET", -21


class CapacityError(ColibriError):
    """Slots, rows, positions or queue places are used up."""

    name, status = "COLIBRI_E_CAPACITY", -22


class ContextError(ColibriError):
    """Prompt and requested tokens do not fit the context."""

    name, status = "COLIBRI_E_CONTEXT", -23


class FormatError(ColibriError):
    """A file does not have the form it claims."""

    name, status = "COLIBRI_E_FORMAT", -30


class IncompleteError(ColibriError):
    """A snapshot lacks files or tensors."""

    name, status = "COLIBRI_E_INCOMPLETE", -31


class MismatchError(ColibriError):
    """Saved state belongs to something else."""

    name, status = "COLIBRI_E_MISMATCH", -32


class InputOutputError(ColibriError):
    """A read or write failed."""

    name, status = "COLIBRI_E_IO", -40


class NonFiniteError(ColibriError, ArithmeticError):
    """A request's logits, or weights to convert, are not finite."""

    name, status = "COLIBRI_E_NON_FINITE", -50


class InternalError(ColibriError):
    """A defect of the library; please report it."""

    name, status = "COLIBRI_E_INTERNAL", -90


_CLASSES = {kind.status: kind for kind in ColibriError.__subclasses__()}


def error_of(code: int, text: str) -> ColibriError:
    """The exception for a failed status."""
    return _CLASSES.get(code, ColibriError)(text, code)
