# SPDX-License-Identifier: Apache-2.0
"""Callbacks of the user as functions that the library can call.

No exception may pass through C. What a progress function raises stops the call and is raised again
from it. A log function cannot stop anything: Ctrl-C that falls into it is raised when the call has
returned, its other exceptions go to sys.unraisablehook.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Optional

from ._resource import callback_state, end_late, interrupts_kept
from ._structs import LogFunction, ProgressFunction

if TYPE_CHECKING:
    from typing_extensions import Self

Progress = Callable[[int, int], Optional[bool]]
Log = Callable[[int, str], None]


class ProgressCall:
    """A progress function for one call of the library, also where the user has none: the library
    then comes back to Python now and then, so that Ctrl-C stops a long call."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._raised: BaseException | None = None
        self._interrupts = contextlib.ExitStack()
        self.function = ProgressFunction(self._call)

    def _call(self, _user: int | None, done_bytes: int, total_bytes: int) -> int:
        callback_state.depth += 1
        try:
            if self._raised is not None or callback_state.interrupt is not None:
                return 1
            if self._progress is None:
                return 0
            return 1 if self._progress(done_bytes, total_bytes) is False else 0
        except BaseException as raised:
            self._raised = raised
            return 1
        finally:
            callback_state.depth -= 1

    def __enter__(self) -> Self:
        self._interrupts.enter_context(interrupts_kept())
        return self

    def __exit__(self, *_error: object) -> None:
        self._interrupts.close()
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised from None
        end_late()


def log_function(log: Log) -> Any:
    """A log function; whoever hands it to the library keeps the result alive."""

    def deliver(_user: int | None, level: int, line: bytes) -> None:
        callback_state.depth += 1
        try:
            log(level, line.decode("utf-8", "replace"))
        except Exception:
            raise  # ctypes hands it to sys.unraisablehook
        except BaseException as raised:
            callback_state.interrupt = raised
        finally:
            callback_state.depth -= 1

    return LogFunction(deliver)
