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
        try:
            return super().result(timeout)
        finally:
            # An exception has this frame in its traceback, which must not have the exception.
            del self

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The exception of the call; ``TimeoutError`` after so many seconds."""
        self._check()
        return super().exception(timeout)


class _Waiting(Future[T]):
    """That of a call that may wait. It has the call until that is taken, or is cancelled."""

    def __init__(self, call: Callable[[], T]) -> None:
        super().__init__()
        self._call: Callable[[], T] | None = call

    @property
    def waits(self) -> bool:
        """True if nobody has taken the call."""
        return self._call is not None

    def take(self) -> Callable[[], T] | None:
        """The call; `None` a second time."""
        call, self._call = self._call, None
        return call


class Pool:
    """Up to `workers` threads, and up to `bound` calls that wait for one.

    `prepare` is called by a thread at its begin, and ends it by an exception. `cancelled` is told
    of a call that was cancelled, `dropped` of one that got such an exception.
    """

    def __init__(self, name: str, workers: int, bound: int, prepare: Callable[[], None],
                 cancelled: Callable[[], None], dropped: Callable[[], None]) -> None:
        self._name, self._workers, self._bound = name, workers, bound
        self._prepare, self._cancelled, self._dropped = prepare, cancelled, dropped
        self.forget()

    def forget(self) -> None:
        """Begins anew, without threads and calls: those of a parent are not in its child."""
        self._changed = threading.Condition()
        self._calls: list[tuple[int, int, _Waiting[Any]]] = []
        self._numbers = itertools.count()
        self._threads: list[threading.Thread] = []
        self._waiting = self._idle = 0
        self.closing = False

    @property
    def waiting(self) -> int:
        """Calls that wait."""
        return self._waiting

    def submit(self, level: int, call: Callable[[], T]) -> Future[T]:
        """Makes a call once a thread is free. It never waits."""
        future = _Waiting(call)
        with self._changed:
            if self.closing:
                raise _errors.closed("the scheduler")
            if self._waiting >= self._bound:
                raise _errors.full(self._bound)
            if self._idle <= self._waiting and len(self._threads) < self._workers:
                self._start_one()
            heapq.heappush(self._calls, (level, next(self._numbers), future))
            self._waiting += 1
            self._changed.notify()
        # Not a function of this call: a future that has itself is there until a collection.
        future.add_done_callback(self._drop)
        return future

    def _start_one(self) -> None:
        try:
            self._start()
        except RuntimeError:
            # As Python 3.12 refuses at the end of the program. Those that are there make the call.
            if not self._threads:
                raise

    def _start(self) -> None:
        name = f"zernel-{self._name}-{len(self._threads)}"
        # The end of the program waits for them by close(), which runs at exit.
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _drop(self, future: concurrent.futures.Future) -> None:
        """A call that is cancelled makes room at once."""
        if not future.cancelled() or not isinstance(future, _Waiting):
            return
        with self._changed:
            call = future.take()
            self._waiting -= call is not None
            if len(self._calls) > 2 * self._waiting + 64:
                self._calls = [entry for entry in self._calls if entry[2].waits]
                heapq.heapify(self._calls)
        if call is not None:
            # No thread comes to it, and tells those that wait for several.
            future.set_running_or_notify_cancel()
        self._cancelled()

    def _pop(self) -> tuple[_Waiting[Any], Callable[[], Any]] | None:
        """The most urgent call that waits, which is taken. The lock is held."""
        while self._calls:
            future = heapq.heappop(self._calls)[2]
            call = future.take()
            if call is not None:
                self._waiting -= 1
                return future, call
        return None

    def _next(self) -> tuple[_Waiting[Any], Callable[[], Any]] | None:
        with self._changed:
            while (found := self._pop()) is None and not self.closing:
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            return found

    def _work(self) -> None:
        try:
            self._prepare()
        except BaseException as error:
            self._give_up(error)
            return
        while (found := self._next()) is not None:
            future, call = found
            del found
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = call()
            except BaseException as error:  # It is the waiter's.
                del call
                future.set_exception(error)
            else:
                # Arguments end before the result is there.
                del call
                future.set_result(result)
                del result
            # Nothing of a call lives as long as the thread waits for the next.
            del future

    def _give_up(self, error: BaseException) -> None:
        """This thread makes no calls. If it was the only one, those that wait get the exception."""
        left = []
        with self._changed:
            self._threads.remove(threading.current_thread())
            while not self._threads and (found := self._pop()) is not None:
                left.append(found[0])
        for future in left:
            if future.set_running_or_notify_cancel():
                self._dropped()
                future.set_exception(error)

    def is_own_thread(self) -> bool:
        """True in one of its threads."""
        return threading.current_thread() in self._threads

    def stop(self, cancel: bool) -> None:
        """Takes no more calls. Those that wait are cancelled, or are still made."""
        with self._changed:
            self.closing = True
            left = [future for _, _, future in self._calls if future.waits] if cancel else []
            self._changed.notify_all()
        for future in left:
            future.cancel()

    def join(self) -> None:
        """Waits for its threads."""
        for thread in list(self._threads):
            thread.join()
