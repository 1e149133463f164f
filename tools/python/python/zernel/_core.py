# SPDX-License-Identifier: MIT OR Apache-2.0
"""The parts of a scheduler that its threads and tasks use; none of them keeps the scheduler."""

import atexit
import os
import warnings
import weakref
from typing import Any

from . import _errors
from ._counts import Counts
from ._metrics import Busy
from ._pool import Pool
from ._zernel import Request, Runtime


class Core:
    """A runtime, the threads for each type of task, and the class of the context."""

    def __init__(self, config: dict[str, Any], runtime: Runtime, strict: bool) -> None:
        self.config, self.runtime, self._strict = config, runtime, strict
        self.counts = Counts(config["window"])
        self.process, self.closed = os.getpid(), False
        self._level: int | None = None
        self._told = False
        self.before: Busy | None = None
        pool = (config["workers"], config["queue"], self._prepare, self.counts.cancel)
        self.pools = {True: Pool("lc", *pool), False: Pool("be", *pool)}
        _all.add(self)

    def _prepare(self) -> None:
        """A thread begins: the context of the runtime is its own."""
        try:
            self.runtime.make_current()
        except _errors.Error as error:
            self.tell(f"a thread has no CUDA context: {error}")

    def tell(self, text: str) -> None:
        """A warning, once."""
        if not self._told:
            self._told = True
            warnings.warn(f"zernel: {text}", RuntimeWarning, stacklevel=4)

    def is_child(self) -> bool:
        """True in a child of `fork()`, which has none of it."""
        return self.process != os.getpid()

    def want(self, level: int, latency_critical: bool) -> None:
        """A task of a level is there: the context gets the class of its most urgent task."""
        if self.closed or self.is_child() or (self._level is not None and self._level <= level):
            return
        slice_us = self.config["lc_slice_us" if latency_critical else "be_slice_us"]
        try:
            self.runtime.set_level(level, timeslice_us=slice_us)
        except _errors.Error as error:
            if self._strict:
                raise
            self.tell(f"no class of level {level}: {error}")
            return
        self._level = level

    def request(self, stream: Any, **spec: Any) -> Request | None:
        """The request of a call; `None` where requests are off, or after the end."""
        if self.closed or not self.config["requests"]:
            return None
        inline = self.config["inline"] and stream is not None
        try:
            return self.runtime.request(stream, inline=inline, **spec)
        except _errors.ClosedError:
            # Closed meanwhile.
            return None

    def close(self, cancel: bool) -> None:
        """Ends all of it. What runs and, unless they are cancelled, what waits comes to its end."""
        if any(pool.is_own_thread() for pool in self.pools.values()):
            raise _errors.deadlock()
        self.stop(cancel)
        if self.is_child():
            return
        for pool in self.pools.values():
            pool.join()
        if not self.closed:
            self.closed = True
            self._end_class()
            self.runtime.close()

    def _end_class(self) -> None:
        if self._level is None:
            return
        self._level = None
        try:
            self.runtime.clear_level()
        except _errors.Error as error:
            self.tell(f"the class of the context stays: {error}")

    def stop(self, cancel: bool) -> None:
        """Takes no more calls."""
        for pool in self.pools.values():
            pool.stop(cancel)

    def forget(self) -> None:
        """In a child of `fork()`: threads and their locks are the parent's."""
        self.counts.forget()
        for pool in self.pools.values():
            pool.forget()


#: Those that are there, for the end of the program and for its children.
_all: "weakref.WeakSet[Core]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for core in list(_all):
        if not core.is_child():
            core.close(cancel=False)


def _forget_all() -> None:
    for core in list(_all):
        core.forget()


os.register_at_fork(after_in_child=_forget_all)
