# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tasks: functions whose calls are requests of zernel, or work that waits for such."""

import contextvars
import enum
import functools
import inspect
import time
import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, SupportsIndex, TypeVar

from . import _errors
from ._zernel import Request

if TYPE_CHECKING:
    from ._core import Core

P = ParamSpec("P")
R = TypeVar("R")

#: The least objective that is one: a nanosecond.
LEAST_SLO_MS = 1e-6

#: The request of the latency-critical call that runs.
_current: contextvars.ContextVar[Request | None] = contextvars.ContextVar("zernel", default=None)


class Priority(enum.IntEnum):
    """Levels of zernel, by name. Each number from 0 (most urgent) to 7 is one, too."""

    CRITICAL = 0
    HIGH = 1
    MEDIUM = 3
    #: The rank of programs without a class.
    NORMAL = 6
    LOW = 7
    LATENCY_CRITICAL = 0
    BEST_EFFORT = 7


def current_request() -> Request | None:
    """The request of the latency-critical call that this is part of, or `None`."""
    return _current.get()


def ready() -> None:
    """Says that the data of the latency-critical call that this is part of is ready.

    Best right behind the first launch: before it the GPU goes to others, as there is no work yet,
    and at the return of the function zernel learns too long a preparation. A second time changes
    nothing. Outside of such a call it does nothing.
    """
    request = _current.get()
    if request is not None:
        try:
            request.ready()
        except _errors.MisuseError:
            # It is over.
            pass


def level_of(priority: int) -> int:
    """The level of a priority."""
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise TypeError(f"priority={priority!r} is no zernel.Priority and no int")
    if not 0 <= priority <= 7:
        raise _errors.misuse(f"priority={int(priority)}: levels are 0 (most urgent) to 7")
    return int(priority)


def check_ms(name: str, value: float | None) -> float:
    """A time as a float; 0 without one."""
    if value is None:
        return 0.0
    if not 0 <= value <= 4e12:
        raise _errors.misuse(f"{name}={value} is no time")
    return float(value)


class Task(Generic[P, R]):
    """A function with a type and a priority. It is called as the function is.

    ``level``: its level, 0 (most urgent) to 7; ``is_latency_critical``: its type.
    """

    __name__: str
    __qualname__: str

    def __init__(self, core: "Core", function: Callable[P, R], *, latency_critical: bool,
                 level: int, slo_ms: float = 0.0, key: int | str | None = None,
                 expected_us: float = 0.0, stream: Any = None,
                 features: Callable[..., Iterable[SupportsIndex]] | None = None) -> None:
        if not callable(function):
            raise TypeError(f"{function!r} is no function")
        if features is not None and not callable(features):
            raise TypeError(f"features={features!r} is no function")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{function!r} is a generator: its call returns before it works")
        functools.update_wrapper(self, function)
        self._core, self._function = core, function
        self.is_latency_critical, self.level = latency_critical, level
        self.is_coroutine = inspect.iscoroutinefunction(function)
        module = getattr(function, "__module__", None)
        name = getattr(function, "__qualname__", type(function).__qualname__)
        self._stream, self._features = stream, features
        self._key = f"{module}.{name}" if key is None else key
        self._expected_us, self._slo_ms = check_ms("expected_us", expected_us), slo_ms

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Methods can be tasks, too."""
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.is_coroutine:
            return self._await(args, kwargs)  # type: ignore[return-value]
        return self.run(None, args, kwargs)

    def run(self, asked: float | None, args: tuple, kwargs: dict) -> R:
        """Makes a call, which was asked for at a time, or is now."""
        counts = self._core.counts
        start = counts.begin_now() if asked is None else counts.enter(asked)
        try:
            request = self._request(asked, args, kwargs) if self.is_latency_critical else None
            if request is None:
                result = self._function(*args, **kwargs)
            else:
                token = _current.set(request)
                try:
                    # A block, without the cost of its begin.
                    result = self._function(*args, **kwargs)
                except BaseException as error:
                    request.__exit__(type(error), error, None)
                    raise
                else:
                    request.__exit__(None, None, None)
                finally:
                    _current.reset(token)
        except BaseException:
            counts.fail()
            raise
        counts.succeed(self.is_latency_critical, start, self._slo_ms)
        return result

    def _call(self, args: tuple, kwargs: dict) -> Any:
        return self._function(*args, **kwargs)

    async def _await(self, args: tuple, kwargs: dict) -> Any:
        counts = self._core.counts
        start = counts.begin_now()
        try:
            request = self._request(None, args, kwargs) if self.is_latency_critical else None
            if request is None:
                result = await self._call(args, kwargs)
            else:
                token = _current.set(request)
                try:
                    with request:
                        result = await self._call(args, kwargs)
                finally:
                    _current.reset(token)
        except BaseException:
            counts.fail()
            raise
        counts.succeed(self.is_latency_critical, start, self._slo_ms)
        return result

    def _request(self, asked: float | None, args: tuple, kwargs: dict) -> Request | None:
        """The request of a call; `None` if it has none of its own, or where requests are off."""
        outer, core = _current.get(), self._core
        if not core.takes_requests or (outer is not None and not outer.is_over):
            return None
        stream = self._stream
        if stream is not None and callable(stream):
            stream = stream()
        features = None if self._features is None else self._features(*args, **kwargs)
        slo_ms = self._slo_ms
        if slo_ms and asked is not None:
            # The wait for a thread was a part of it.
            slo_ms = max(slo_ms - (time.monotonic() - asked) * 1e3, LEAST_SLO_MS)
        try:
            return core.begin(stream, key=self._key, expected_us=self._expected_us, slo_ms=slo_ms,
                              inline=core.is_inline and stream is not None,
                              features=features)
        except _errors.ClosedError:
            return None

    def __repr__(self) -> str:
        kind = "latency-critical" if self.is_latency_critical else "best-effort"
        return f"<zernel.Task {self.__qualname__}, {kind}, level {self.level}>"


def plain(core: "Core", function: Callable[P, R], level: int) -> Task[P, R]:
    """A function that is no task, as a best-effort one."""
    return Task(core, function, latency_critical=False, level=level)
