# SPDX-License-Identifier: MIT OR Apache-2.0
"""Counts and times of the calls of a scheduler."""

import threading
import time
from collections import deque


class Counts:
    """Calls by their outcome, and the latest times of each type."""

    def __init__(self, window: int) -> None:
        self._window = window
        self.forget()

    def forget(self) -> None:
        """Begins anew."""
        # A signal handler that calls the scheduler may interrupt one that has it.
        self._lock = threading.RLock()
        self._direct = self._queued = self._taken = self._raised = self._dropped = 0
        self.completed = self.cancelled = self.violations = 0
        self._critical: deque[float] = deque(maxlen=self._window)
        self._other: deque[float] = deque(maxlen=self._window)

    @property
    def submitted(self) -> int:
        """Calls of all kinds."""
        with self._lock:
            return self._direct + self._queued

    @property
    def failed(self) -> int:
        """Those that got an exception."""
        with self._lock:
            return self._raised + self._dropped

    @property
    def running(self) -> int:
        """Those that run."""
        with self._lock:
            return self._direct + self._taken - self.completed - self._raised

    def begin(self) -> float:
        """One more call, which waits; returns the time."""
        with self._lock:
            self._queued += 1
        return time.monotonic()

    def begin_now(self) -> float:
        """One more call, which runs; returns the time."""
        with self._lock:
            self._direct += 1
        return time.monotonic()

    def refuse(self) -> None:
        """A call that was not taken is none."""
        with self._lock:
            self._queued -= 1

    def cancel(self) -> None:
        """A call was cancelled before it ran."""
        with self._lock:
            self.cancelled += 1

    def drop(self) -> None:
        """A call failed before it ran."""
        with self._lock:
            self._dropped += 1

    def enter(self, start: float) -> float:
        """A call that waited runs; returns the time at which it was begun."""
        with self._lock:
            self._taken += 1
        return start

    def fail(self) -> None:
        """It has raised an exception."""
        with self._lock:
            self._raised += 1

    def succeed(self, latency_critical: bool, start: float, slo_ms: float) -> None:
        """It has returned; an objective of 0 is none."""
        took_us = (time.monotonic() - start) * 1e6
        with self._lock:
            self.completed += 1
            if slo_ms and took_us > slo_ms * 1e3:
                self.violations += 1
            (self._critical if latency_critical else self._other).append(took_us)

    def latest_us(self, latency_critical: bool) -> list[float]:
        """Times of the latest calls that returned."""
        with self._lock:
            return list(self._critical if latency_critical else self._other)
