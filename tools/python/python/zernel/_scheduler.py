# SPDX-License-Identifier: MIT OR Apache-2.0
"""The scheduler: latency-critical and best-effort functions of a program."""

import asyncio
import os
import weakref
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Literal, ParamSpec, SupportsIndex, TypeVar, overload

from . import _errors
from ._core import Core
from ._metrics import Busy, Metrics, percentile
from ._pool import Future
from ._task import Task, check_ms, level_of, plain
from ._zernel import Request, Runtime, load_config

P = ParamSpec("P")
R = TypeVar("R")


class ARequest:
    """A request for ``async with``: it begins at the begin of the block."""

    def __init__(self, begin: Callable[[], Request]) -> None:
        self._begin = begin
        self._request: Request | None = None

    async def __aenter__(self) -> Request:
        if self._request is not None:
            raise _errors.misuse("arequest() is for one block")
        self._request = self._begin()
        return self._request.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        if self._request is not None:
            self._request.__exit__(kind, error, trace)


class Scheduler:
    """Latency-critical and best-effort functions of this program, on one GPU.

    ``config_file``: a path (Documentation/runtime-config.rst), or ``None`` for the usual values.
    ``gpu_id``: the number of the device as CUDA counts them; ``None``: that of the file, usually 0.
    ``mode``: ``auto``, ``off`` or ``require`` in place of the variable ``ZERNEL``.
    """

    def __init__(self, config_file: str | os.PathLike | None = None, gpu_id: int | None = None, *,
                 mode: Literal["auto", "off", "require"] | None = None) -> None:
        path = None if config_file is None else os.fspath(config_file)
        config = load_config(path)
        gpu = config["gpu_id"] if gpu_id is None else gpu_id
        runtime = Runtime.on_device(
            gpu, mode=mode, lanes=config["lanes"], linger_us=config["linger_us"],
            bound_us=config["bound_us"], release_word=config["release_word"])
        strict = (os.environ.get("ZERNEL") if mode is None else mode) == "require"
        self._core = Core(config, runtime, strict)
        self._core.before = self._busy(runtime._gpu())
        # One that is forgotten takes no more calls; those that wait are still made.
        self._end = weakref.finalize(self, self._core.stop, False)
        self._end.atexit = False

    @property
    def runtime(self) -> Runtime:
        """The runtime of its context."""
        return self._core.runtime

    @property
    def config(self) -> dict[str, Any]:
        """The values of its configuration."""
        return dict(self._core.config)

    @overload
    def latency_critical(self, function: Callable[P, R]) -> Task[P, R]: ...

    @overload
    def latency_critical(self, *, priority: int | None = None, slo_ms: float | None = None,
                         key: int | str | None = None, expected_us: float = 0.0, stream: Any = None,
                         features: Callable[..., Iterable[SupportsIndex]] | None = None,
                         ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def latency_critical(self, function: Callable | None = None, *, priority: int | None = None,
                         slo_ms: float | None = None, key: int | str | None = None,
                         expected_us: float = 0.0, stream: Any = None,
                         features: Callable[..., Iterable[SupportsIndex]] | None = None) -> Any:
        """Makes a function a latency-critical task: each call of it is a request.

        ``priority``: a level, usually that of the configuration. ``slo_ms``: the longest time from
        ``submit()`` or the call to the result that is no violation. ``key``: stands for the causes
        of the preparation time, usually the name of the function. ``expected_us``: that time, while
        there is no history.
        ``stream``: the stream of its work, or a function that tells it: a call is done when the
        work that it put there is over. ``features``: a function of the arguments of a call, which
        tells the numbers that its preparation time depends on.
        """
        level = self._core.config["lc_level"] if priority is None else level_of(priority)
        slo = check_ms("slo_ms", slo_ms)

        def make(function: Callable) -> Task:
            task = Task(self._core, function, latency_critical=True, level=level, slo_ms=slo,
                        key=key, expected_us=expected_us, stream=stream, features=features)
            self._core.want(level, True)
            return task

        return make if function is None else make(function)

    @overload
    def best_effort(self, function: Callable[P, R]) -> Task[P, R]: ...

    @overload
    def best_effort(self, *, priority: int | None = None,
                    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def best_effort(self, function: Callable | None = None, *,
                    priority: int | None = None) -> Any:
        """Makes a function a best-effort task: its calls are no requests."""
        level = self._core.config["be_level"] if priority is None else level_of(priority)

        def make(function: Callable) -> Task:
            task = Task(self._core, function, latency_critical=False, level=level)
            self._core.want(level, False)
            return task

        return make if function is None else make(function)

    def submit(self, function: Callable[..., R], args: Iterable = (),
               kwargs: dict[str, Any] | None = None) -> Future[R]:
        """Has a thread call a task, or another function as a best-effort one. It never waits."""
        task, values = self._task(function, args)
        if task.is_coroutine:
            raise TypeError(f"{function!r} is a coroutine function: use asubmit()")
        named = dict(kwargs or {})
        core = self._core
        if core.is_child():
            raise _errors.forked()
        start = core.counts.begin()
        pool = core.pools[task.is_latency_critical]
        try:
            return pool.submit(task.level, lambda: task.run(start, values, named))
        except BaseException:
            core.counts.refuse()
            raise

    async def asubmit(self, function: Callable, args: Iterable = (),
                      kwargs: dict[str, Any] | None = None) -> Any:
        """Calls a task and waits for its result, while the event loop goes on.

        A coroutine function runs in the event loop, any other in a thread of the scheduler.
        """
        task, values = self._task(function, args)
        if task.is_coroutine:
            return await task(*values, **(kwargs or {}))
        return await asyncio.wrap_future(self.submit(task, values, kwargs))

    def _task(self, function: Callable[..., R], args: Iterable) -> tuple[Task[..., R], tuple]:
        """The task of a function or method, and all of its arguments."""
        values = tuple(args)
        task = getattr(function, "__func__", function)
        if not isinstance(task, Task):
            return plain(self._core, function, self._core.config["be_level"]), values
        if task._core is not self._core:
            raise _errors.misuse(f"{task!r} is a task of another scheduler")
        if task is not function:
            values = (function.__self__, *values)  # type: ignore[attr-defined]
        return task, values

    def request(self, stream: Any = None, *, key: int | str = 0, expected_us: float = 0.0,
                slo_ms: float = 0.0, exact: bool = False, inline: bool | None = None,
                features: Iterable[SupportsIndex] | None = None,
                admit_us: float | None = None) -> Request:
        """Begins a request, for a ``with`` block; see :class:`Runtime`."""
        if inline is None:
            inline = self._core.config["inline"] and stream is not None
        return self._core.runtime.request(stream, key=key, expected_us=expected_us, slo_ms=slo_ms,
                                          exact=exact, inline=inline, features=features,
                                          admit_us=admit_us)

    def arequest(self, stream: Any = None, **spec: Any) -> ARequest:
        """A request for an ``async with`` block, at the begin of which it begins."""
        return ARequest(lambda: self.request(stream, **spec))

    @staticmethod
    def _busy(told: tuple[int, int | None, int, int] | None) -> Busy | None:
        if told is None:
            return None
        busy_ns, at_ns, added_ns, _ = told
        return Busy(0, added_ns) if at_ns is None else Busy(busy_ns, at_ns)

    @staticmethod
    def _ask(question: Callable[[], R]) -> R | None:
        """The answer of a runtime; `None` of one that is closed, lost or the parent's."""
        try:
            return question()
        except _errors.Error:
            return None

    def get_metrics(self) -> Metrics:
        """Its metrics now."""
        core = self._core
        counts, runtime = core.counts, core.runtime
        stats, told = self._ask(runtime.stats), self._ask(runtime._gpu)
        counters = self._ask(runtime.counters) or {}
        busy, share = self._busy(told), None
        if busy is not None and core.before is not None:
            share = busy.share_since(core.before)
        if share is not None:
            core.before = busy
        done = stats if stats is not None and stats["done"] > 0 else None
        critical, other = counts.latest_us(True), counts.latest_us(False)
        return Metrics(
            submitted=counts.submitted, completed=counts.completed, failed=counts.failed,
            cancelled=counts.cancelled, running=counts.running,
            waiting=sum(pool.waiting for pool in core.pools.values()),
            p50_latency_us=percentile(critical, 0.5), p99_latency_us=percentile(critical, 0.99),
            best_effort_p50_us=percentile(other, 0.5), best_effort_p99_us=percentile(other, 0.99),
            request_p50_us=done["latency_p50_ns"] / 1e3 if done else None,
            request_p99_us=done["latency_p99_ns"] / 1e3 if done else None,
            gpu_utilization=share,
            total_preemptions=stats["triggers"] if stats else None,
            times_preempted=told[3] if told else None,
            slo_violations=counts.violations,
            requests_begun=counters.get("begun", 0),
            requests_idle=sum(counters.get(name, 0)
                              for name in ("no_lane", "refused", "lost", "forked")),
        )

    def close(self, *, cancel: bool = False) -> None:
        """Waits for the calls that run and wait, and ends its threads and its runtime.

        ``cancel``: calls that wait are cancelled in place of being made. In a signal handler that
        interrupts a call of the scheduler or of a future, and in a callback of a future, it does
        not wait: another thread comes to the end.
        """
        self._core.close(cancel)

    def __enter__(self) -> "Scheduler":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._core.closed else repr(self._core.runtime)
        return f"<zernel.Scheduler {state}>"
