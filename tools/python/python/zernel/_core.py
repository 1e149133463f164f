# SPDX-License-Identifier: MIT OR Apache-2.0
"""The parts of a scheduler that its threads and tasks use; none of them keeps the scheduler."""

import _thread
import atexit
import concurrent.futures
import os
import sys
import threading
import warnings
import weakref
from typing import Any

from . import _classes, _counts, _errors, _pool
from ._classes import CLASSES, Want
from ._counts import Counts
from ._metrics import Busy
from ._pool import Pool
from ._zernel import Runtime


class Core:
    """A runtime, the threads for each type of task, and the class of the context."""

    def __init__(self, config: dict[str, Any], runtime: Runtime, strict: bool) -> None:
        self.config, self.runtime, self._strict = config, runtime, strict
        self.counts = Counts(config["window"])
        self.process, self.closed = os.getpid(), False
        self._ending = threading.Lock()
        self._told: set[str] = set()
        self.takes_requests, self.is_inline = config["requests"], config["inline"]
        self.begin = runtime.request
        self.before: Busy | None = None
        pool = (config["workers"], config["queue"], self._prepare, self.counts.cancel,
                self.counts.drop)
        self.pools = {True: Pool("lc", *pool), False: Pool("be", *pool)}
        self._owner = object()
        self._forgotten = weakref.finalize(self, _end_later, self._owner, runtime, os.getpid())
        self._forgotten.atexit = False
        _all.add(self)

    def _prepare(self) -> None:
        """A thread begins: the context of the runtime is its own."""
        try:
            self.runtime.make_current()
        except _errors.Error as error:
            if self._strict:
                raise
            self.tell(f"a thread has no CUDA context: {error}")

    def tell(self, text: str) -> None:
        """A warning, once for each text."""
        if text not in self._told:
            self._told.add(text)
            warnings.warn(f"zernel: {text}", RuntimeWarning, stacklevel=4)

    def is_child(self) -> bool:
        """True in a child of `fork()`, which has none of it."""
        return self.process != os.getpid()

    def want(self, level: int, latency_critical: bool) -> None:
        """A task of a level is there: the context gets the class of its most urgent task."""
        if self.closed or self.is_child():
            return
        slice_us = self.config["lc_slice_us" if latency_critical else "be_slice_us"]
        try:
            CLASSES.want(self._owner, self.runtime, Want(level, slice_us), strict=self._strict)
        except _errors.Error as error:
            if self._strict:
                raise
            self.tell(f"no class of level {level}: {error}")

    def close(self, cancel: bool) -> None:
        """Ends all of it. What runs and, unless they are cancelled, what waits comes to its end.

        One that interrupts a call with a lock that a thread may want begins the end alone.
        """
        if any(pool.is_own_thread() for pool in self.pools.values()):
            raise _errors.deadlock()
        if self.is_child():
            self.stop(cancel)
        elif _interrupts():
            for pool in self.pools.values():
                pool.closing = True
            _thread.start_new_thread(self._end, (cancel,))
        else:
            self._end(cancel)

    def _end(self, cancel: bool) -> None:
        self.stop(cancel)
        for pool in self.pools.values():
            pool.join()
        with self._ending:
            if self.closed:
                return
            self.closed = True
            self._forgotten.detach()
            try:
                CLASSES.leave(self._owner, self.runtime)
            except _errors.Error as error:
                self.tell(f"the class of the context stays: {error}")
            finally:
                self.runtime.close()

    def stop(self, cancel: bool) -> None:
        """Takes no more calls."""
        for pool in self.pools.values():
            pool.stop(cancel)

    def forget(self) -> None:
        """In a child of `fork()`: threads and their locks are the parent's."""
        self._ending = threading.Lock()
        self.counts.forget()
        for pool in self.pools.values():
            pool.forget()


#: Those that are there, for the end of the program and for its children.
_all: "weakref.WeakSet[Core]" = weakref.WeakSet()

#: Files with functions that have locks which threads of a scheduler want, too.
_LOCKING = {module.__file__ for module in (_classes, _counts, _pool, concurrent.futures._base)}


def _interrupts() -> bool:
    """True if this thread is in a function with a lock: a signal handler interrupted it, or it
    calls a callback of a future."""
    frame = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if code is Core._end.__code__:
            return True
        # A thread of another scheduler has no lock while it makes a call.
        if code.co_filename in _LOCKING and code is not Pool._work.__code__:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _end_later(owner: object, runtime: Runtime, process: int) -> None:
    """One that is forgotten ends in a thread of its own, as a collection may interrupt anything."""
    if process != os.getpid():
        return

    def end() -> None:
        try:
            CLASSES.leave(owner, runtime)
        except _errors.Error:
            # Its TSG is gone.
            pass
        runtime.close()

    try:
        _thread.start_new_thread(end, ())
    except RuntimeError:
        # The program ends, and with it its TSGs.
        pass


@atexit.register
def _close_all() -> None:
    fault = None
    tried: set[Core] = set()
    # A call that is waited for may make one more.
    while left := [core for core in set(_all) - tried if not core.closed and not core.is_child()]:
        for core in left:
            tried.add(core)
            try:
                core.close(cancel=False)
            except Exception as error:
                fault = error
    if fault is not None:
        raise fault


def _forget_all() -> None:
    CLASSES.forget()
    for core in list(_all):
        core.forget()


os.register_at_fork(after_in_child=_forget_all)
