# SPDX-License-Identifier: Apache-2.0
"""Lifetime of native objects: who may call, who may end, and in which order.

A Resource owns one handle of the library. The Python object in front of it may be closed, collected
in any order, or forgotten until the interpreter ends:

- close() ends the children first, then the object; what is in use by another thread makes it fail
  with BusyError before anything has happened.
- A collected object ends when its last child has ended. Nothing is raised then.
- At exit everything is ended, children first. Only daemon threads can be inside a call then; it is
  waited for, and their next call never begins.
- In a process that was forked off nothing is ended, and every use raises StateError.

Ctrl-C may strike between any two lines. A handle is therefore recorded before it is made, forgotten
before it is destroyed, and KeyboardInterrupt out of a callback is raised when the call returns.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import ctypes
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ._errors import BusyError, ColibriError, HandleError, StateError, error_of
from ._library import call
from ._structs import ErrorStruct

if TYPE_CHECKING:
    from typing_extensions import Self

# Reentrant, for the garbage collector may end an object at any line of this file.
_lock = threading.RLock()
_live: dict[int, Resource] = {}
_late: list[Resource] = []  # abandoned inside a callback, which must not call the library
_next_key = 0
_exiting_thread: int | None = None
_NOT_CALLED = 1  # no code of the library
_hook_before: Callable[[Any], Any] = sys.__unraisablehook__


class CallbackState(threading.local):
    """What this thread's callbacks from the library have to say once the call has returned."""

    depth = 0  # callbacks that this thread is inside of
    n_keepers = 0  # interrupts_kept() that are at work
    interrupt: BaseException | None = None  # KeyboardInterrupt or SystemExit out of a callback


callback_state = CallbackState()


class Closing:
    """What is closed at the end of a with statement."""

    def close(self) -> None:
        """Each class says what it ends."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class Resource:
    """A native handle with its parent, its children, and the calls that use it now."""

    def __init__(
        self,
        kind: str,
        destroy: Callable[..., int] | None,
        parent: Resource | None = None,
        *,
        handle: int | None = None,
        rank: int = 0,
        kept: Any = None,
    ) -> None:
        """destroy is None for what belongs to the parent. Children of low rank end first. kept is
        held until the handle has been destroyed: callbacks, above all."""
        global _next_key
        self.kind = kind
        self.handle = handle
        self.parent = parent
        self.rank = rank
        self.has_callbacks: bool = kept is not None or (parent is not None and parent.has_callbacks)
        self.children: set[Resource] = set()
        self.users: list[int] = []  # threads, once for each call that is running
        self._owner: weakref.ref[Any] | None = None
        self._is_given_up = False
        self.before_close: Callable[[], None] | None = None
        self._kept = kept
        self._destroy = destroy
        self._process = os.getpid()
        with _lock:
            self.key = _next_key
            _next_key += 1
            _live[self.key] = self
            if parent is not None:
                parent.children.add(self)

    def create(self, function: Callable[..., int], *arguments: Any) -> None:
        """Calls function(*arguments, &handle, &error), which makes the handle."""
        handle = ctypes.c_void_p()
        for resource in list(_live.values()):
            if resource is not self and resource.is_abandoned and not callback_state.depth:
                resource._end_if_abandoned()
        try:
            call(function, *arguments, ctypes.byref(handle))
            self.handle = handle.value
        except BaseException:
            self.handle = handle.value  # made all the same, if Ctrl-C came after the call
            self._forget() if handle.value is None else self.abandon()
            raise

    def guard(self, owner: object) -> None:
        """Ends the resource when owner is collected."""
        self._owner = weakref.ref(owner)
        weakref.finalize(owner, self.abandon).atexit = False

    @property
    def is_abandoned(self) -> bool:
        """Whether nobody can close it any more. Ctrl-C may have kept abandon() from saying so."""
        return self._is_given_up or (self._owner is not None and self._owner() is None)

    @property
    def is_open(self) -> bool:
        return self.handle is not None

    @contextlib.contextmanager
    def use(self) -> Iterator[Any]:
        """The handle, for the length of a call. Nobody can close it meanwhile."""
        _wait_if_exiting()
        thread = threading.get_ident()
        with _lock:
            self._check()
            handle = self.handle
            self.users.append(thread)
        try:
            if self.has_callbacks:
                with interrupts_kept():
                    yield handle
            else:
                yield handle
        finally:
            with _lock:
                self.users.remove(thread)
            end_late()

    def is_in_use(self) -> bool:
        """Whether a call of another thread, or one that this callback came from, is running."""
        # Outside of a callback this thread is in no call; Ctrl-C may have left it in the list.
        thread = threading.get_ident()
        return any(user != thread or callback_state.depth for user in self.users)

    def is_foreign(self) -> bool:
        """Whether it belongs to the process that this one was forked off from."""
        return os.getpid() != self._process

    def _check(self) -> None:
        if self.is_foreign():
            raise StateError(
                f"this {self.kind} belongs to the parent process; after a fork, open the model anew"
            )
        if self.handle is None:
            raise HandleError(f"this {self.kind} is closed")

    def close(self) -> None:
        """Ends children and itself. Does nothing if that has happened already."""
        if self.handle is None or self.is_foreign():
            return
        _wait_if_exiting()
        with _lock:
            family = self._family()
            for member in family:
                if member.is_in_use():
                    raise BusyError(f"the {member.kind} is in use by a call that is running")
                if member.before_close is not None:
                    member.before_close()
            for member in family:
                member._end()
        if self.parent is not None:
            self.parent._end_if_abandoned()

    def abandon(self) -> None:
        """The Python object is gone: ends the resource, now or with its last child."""
        if self.is_foreign():
            return
        try:
            self._is_given_up = True
            if callback_state.depth:
                _late.append(self)
            else:
                self._end_if_abandoned()
        except KeyboardInterrupt:
            # The garbage collector would drop it. Another thread can raise it behind that.
            with contextlib.suppress(RuntimeError):
                _thread.start_new_thread(_interrupt_soon, ())

    def _end_if_abandoned(self) -> None:
        with _lock:
            # A slot cannot end before the batch that holds rows of it: a child that could not end
            # tries again after each of its siblings.
            for child in sorted(self.children, key=lambda child: (child.rank, child.key)):
                if child.is_abandoned:
                    child._end_quietly()
            if self.is_abandoned:
                self._end_quietly()
        if self.parent is not None and self.handle is None:
            self.parent._end_if_abandoned()

    def _end_quietly(self) -> None:
        has_children = any(child.is_open for child in self.children)
        if not has_children and not self.is_in_use() and not self.is_foreign():
            with contextlib.suppress(ColibriError):
                self._end()

    def _family(self) -> list[Resource]:
        """Descendants and itself, in the order in which they can be destroyed."""
        members: list[Resource] = []
        for child in sorted(self.children, key=lambda child: (child.rank, child.key)):
            members += child._family()
        return [*members, self]

    def _end(self) -> None:
        handle = self.handle
        # The library sets the code in any case: it tells whether Ctrl-C came before the call.
        error = ErrorStruct(ctypes.sizeof(ErrorStruct), code=_NOT_CALLED)
        try:
            self.handle = None
            if handle is not None and self._destroy is not None:
                self._destroy(handle, ctypes.byref(error))
        finally:
            if error.code != 0 and self._destroy is not None:
                self.handle = handle
        if self.handle is not None:
            raise error_of(error.code, error.message.decode("utf-8", "replace"))
        self._forget()

    def _forget(self) -> None:
        self._kept = None
        self.before_close = None
        _live.pop(self.key, None)
        if self.parent is not None:
            self.parent.children.discard(self)


@contextlib.contextmanager
def interrupts_kept() -> Iterator[None]:
    """Raises at its end what KeyboardInterrupt or SystemExit a callback came across inside.

    Ctrl-C that struck while C was running is raised at the first line of the callback, before it
    can catch anything; ctypes then gives it to sys.unraisablehook.
    """
    global _hook_before
    # Signals reach the main thread alone.
    if _is_main_thread() and sys.unraisablehook is not _keep_interrupt:
        _hook_before = sys.unraisablehook
        sys.unraisablehook = _keep_interrupt
        callback_state.interrupt = None
    callback_state.n_keepers += 1
    try:
        yield
    finally:
        callback_state.n_keepers -= 1
        if callback_state.n_keepers == 0:
            if _is_main_thread() and sys.unraisablehook is _keep_interrupt:
                sys.unraisablehook = _hook_before
            interrupt, callback_state.interrupt = callback_state.interrupt, None
            if interrupt is not None:
                raise interrupt


def _is_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


def _keep_interrupt(unraisable: Any) -> None:
    if _is_main_thread() and issubclass(unraisable.exc_type, KeyboardInterrupt):
        callback_state.interrupt = unraisable.exc_value or KeyboardInterrupt()
    else:
        _hook_before(unraisable)


def _interrupt_soon() -> None:
    time.sleep(0.001)
    _thread.interrupt_main()


def end_late() -> None:
    """Ends what callbacks of this thread have abandoned."""
    while _late and not callback_state.depth:
        _late.pop()._end_if_abandoned()


def _wait_if_exiting() -> None:
    # As the interpreter does with daemon threads that want to run while it ends.
    while _exiting_thread is not None and _exiting_thread != threading.get_ident():
        time.sleep(3600)


def _close_all() -> None:
    global _exiting_thread
    _exiting_thread = threading.get_ident()
    with _lock:
        roots = [resource for resource in _live.values() if resource.parent is None]
        roots = [resource for resource in roots if not resource.is_foreign()]
    patience = time.monotonic() + 60
    for root in roots:
        for member in root._family():
            while member.is_in_use():
                if time.monotonic() > patience:
                    return
                time.sleep(0.001)
            with contextlib.suppress(ColibriError):
                if member.before_close is not None:
                    member.before_close()
                member._end()


def _begin_child() -> None:
    # Another thread of the parent may have held the lock; here it would hold it for ever.
    global _lock
    _lock = threading.RLock()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_begin_child)
