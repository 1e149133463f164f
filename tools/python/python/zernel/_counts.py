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
        self.submitted = self.completed = self.failed = self.cancelled = self.running = 0
        self.violations = 0
        self._latest: dict[bool, deque[float]] = {
            True: deque(maxlen=self._window), False: deque(maxlen=self._window)}

    def begin(self) -> float:
        """One more call; returns the time."""
        with self._lock:
            self.submitted += 1
        return time.monotonic()

    def refuse(self) -> None:
        """A call that was not taken is none."""
        with self._lock:
            self.submitted -= 1

    def cancel(self) -> None:
        """A call was cancelled before it ran."""
        with self._lock:
            self.cancelled += 1

    def enter(self) -> None:
        """A call runs."""
        with self._lock:
            self.running += 1

    def fail(self) -> None:
        """It has raised an exception."""
        with self._lock:
            self.running -= 1
            self.failed += 1

    def drop(self) -> None:
        """A call failed before it ran."""
        with self._lock:
            self.failed += 1

    def succeed(self, latency_critical: bool, start: float, slo_ms: float) -> None:
        """It has returned; an objective of 0 is none."""
        took_us = (time.monotonic() - start) * 1e6
        with self._lock:
            self.running -= 1
            self.completed += 1
            self.violations += 0 < slo_ms * 1e3 < took_us
            self._latest[latency_critical].append(took_us)

    def latest_us(self, latency_critical: bool) -> list[float]:
        """Times of the latest calls that returned."""
        with self._lock:
            return list(self._latest[latency_critical])
