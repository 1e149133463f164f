# SPDX-License-Identifier: MIT OR Apache-2.0
"""Metrics of a scheduler."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Metrics(Mapping[str, Any]):
    """Metrics of a scheduler: attributes, and items of the same names.

    Times are in microseconds. What zernel cannot tell here is ``None``.
    """

    #: Calls that ``submit()`` or a direct call began.
    submitted: int
    #: Calls that returned.
    completed: int
    #: Calls that raised an exception.
    failed: int
    #: Calls that were cancelled before they ran.
    cancelled: int
    #: Calls that run now.
    running: int
    #: Calls that wait for a worker now.
    waiting: int
    #: Median time of the latest latency-critical calls that returned, from ``submit()`` or the
    #: direct call to the end of the function.
    p50_latency_us: float | None
    #: Their 99th percentile.
    p99_latency_us: float | None
    #: Median time of the latest best-effort calls that returned.
    best_effort_p50_us: float | None
    #: Their 99th percentile.
    best_effort_p99_us: float | None
    #: Median latency of the requests that are done, from begin to done, as zernel counts it.
    request_p50_us: float | None
    #: Their 99th percentile.
    request_p99_us: float | None
    #: Share of the time since the last metrics in which the GPU worked, for any program: 0 to 1.
    gpu_utilization: float | None
    #: Times that zernel switched the GPU to this program for a request.
    total_preemptions: int | None
    #: Times that this program was taken off the GPU while it had work there.
    times_preempted: int | None
    #: Latency-critical calls that returned later than their ``slo_ms`` says, from ``submit()`` or
    #: the direct call on.
    slo_violations: int
    #: Requests that began.
    requests_begun: int
    #: Requests that did nothing: no lane was free, or they were refused, lost or forked.
    requests_idle: int

    def __getitem__(self, name: str) -> Any:
        if name in self.__dataclass_fields__:
            return getattr(self, name)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (field.name for field in fields(self))

    def __len__(self) -> int:
        return len(fields(self))


def percentile(values: Sequence[float], share: float) -> float | None:
    """The least of some values that a share of them does not exceed; `None` of none."""
    if not values:
        return None
    return sorted(values)[max(math.ceil(share * len(values)), 1) - 1]


@dataclass(frozen=True)
class Busy:
    """The busy time of a GPU at one time, as zernel knows it."""

    busy_ns: int
    at_ns: int

    def share_since(self, before: "Busy") -> float | None:
        """The share of the time since then that it was busy."""
        time = self.at_ns - before.at_ns
        return min(max(self.busy_ns - before.busy_ns, 0) / time, 1.0) if time > 0 else None
