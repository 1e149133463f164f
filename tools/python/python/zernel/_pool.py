# SPDX-License-Identifier: MIT OR Apache-2.0
"""Threads that make the calls of one type of task, the most urgent first."""

import concurrent.futures
import heapq
import itertools
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from . import _errors

T = TypeVar("T")


class Future(concurrent.futures.Future[T]):
    """The outcome of a call. In a child of ``fork()`` it is an error to wait for one."""

    def __init__(self) -> None:
        super().__init__()
        self._process = os.getpid()

    def _check(self) -> None:
        if self._process != os.getpid() and not self.done():
            raise _errors.forked()

    def result(self, timeout: float | None = None) -> T:
        """The result of the call, or its exception; ``TimeoutError`` after so many seconds."""
        self._check()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The exception of the call; ``TimeoutError`` after so many seconds."""
        self._check()
        return super().exception(timeout)


class _Call:
    """A call that waits."""

    __slots__ = ("future", "queued", "run")

    def __init__(self, run: Callable[[], Any]) -> None:
        self.future: Future[Any] = Future()
        self.queued = True
        self.run = run


class Pool:
    """Up to `workers` threads, and up to `bound` calls that wait for one."""

    def __init__(self, name: str, workers: int, bound: int, prepare: Callable[[], None],
                 cancelled: Callable[[], None]) -> None:
        self._name, self._workers, self._bound = name, workers, bound
        self._prepare, self._cancelled = prepare, cancelled
        self.forget()

    def forget(self) -> None:
        """Begins anew, without threads and calls: those of a parent are not in its child."""
        self._changed = threading.Condition()
        self._calls: list[tuple[int, int, _Call]] = []
        self._numbers = itertools.count()
        self._threads: list[threading.Thread] = []
        self._waiting = self._idle = 0
        self._closing = False

    @property
    def waiting(self) -> int:
        """Calls that wait."""
        return self._waiting

    def submit(self, level: int, run: Callable[[], T]) -> Future[T]:
        """Makes a call once a thread is free. It never waits."""
        call = _Call(run)
        with self._changed:
            if self._closing:
                raise _errors.closed("the scheduler")
            if self._waiting >= self._bound:
                raise _errors.full(self._bound)
            if self._idle <= self._waiting and len(self._threads) < self._workers:
                self._start()
            heapq.heappush(self._calls, (level, next(self._numbers), call))
            self._waiting += 1
            self._changed.notify()
        call.future.add_done_callback(lambda _: self._drop(call))
        return call.future

    def _start(self) -> None:
        name = f"zernel-{self._name}-{len(self._threads)}"
        # The end of the program waits for them by close(), which runs at exit.
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _drop(self, call: _Call) -> None:
        """A call that is cancelled makes room at once."""
        if not call.future.cancelled():
            return
        with self._changed:
            was_queued, call.queued = call.queued, False
            self._waiting -= was_queued
            if len(self._calls) > 2 * self._waiting + 64:
                self._calls = [entry for entry in self._calls if entry[2].queued]
                heapq.heapify(self._calls)
        if was_queued:
            # No thread comes to it, and tells those that wait for several.
            call.future.set_running_or_notify_cancel()
        self._cancelled()

    def _next(self) -> _Call | None:
        with self._changed:
            while True:
                while self._calls:
                    call = heapq.heappop(self._calls)[2]
                    if call.queued:
                        call.queued = False
                        self._waiting -= 1
                        return call
                if self._closing:
                    return None
                self._idle += 1
                self._changed.wait()
                self._idle -= 1

    def _work(self) -> None:
        self._prepare()
        while (call := self._next()) is not None:
            if not call.future.set_running_or_notify_cancel():
                continue
            try:
                result = call.run()
            except BaseException as error:  # It is the waiter's.
                call.future.set_exception(error)
            else:
                call.future.set_result(result)
                del result
            # Nothing of a call lives as long as the thread waits for the next.
            del call

    def is_own_thread(self) -> bool:
        """True in one of its threads."""
        return threading.current_thread() in self._threads

    def stop(self, cancel: bool) -> None:
        """Takes no more calls. Those that wait are cancelled, or are still made."""
        with self._changed:
            self._closing = True
            left = [call for _, _, call in self._calls if call.queued] if cancel else []
            self._changed.notify_all()
        for call in left:
            call.future.cancel()

    def join(self) -> None:
        """Waits for its threads."""
        for thread in self._threads:
            thread.join()
