# SPDX-License-Identifier: MIT OR Apache-2.0
"""Costs of what does nothing, in a guest whose clock counts instructions (--mode icount)."""

import time
import unittest
from collections.abc import Callable

import zernel

#: Calls of a batch, and batches of which the least counts.
CALLS, BATCHES = 500, 10
#: The goal for a request that does nothing.
MOST = 20_000


def cost(call: Callable[[], object]) -> int:
    """Instructions of a call: a nanosecond of such a guest is one."""
    least = None
    for _ in range(BATCHES):
        start = time.monotonic_ns()
        for _ in range(CALLS):
            call()
        took = time.monotonic_ns() - start
        least = took if least is None or took < least else least
    return least // CALLS


class Cost(unittest.TestCase):
    """Of requests and calls of tasks that are inert."""

    IS_NAMED = True

    def check(self, name: str, call: Callable[[], object]) -> None:
        """A call takes the instructions of the goal, or less."""
        found = [cost(call) for _ in range(2)]
        print(f"# {name}: {found[0]} instructions", flush=True)
        # Time that is none of instructions differs by more.
        self.assertAlmostEqual(found[0], found[1], delta=found[0] // 50)
        self.assertGreater(found[0], 100)
        self.assertLessEqual(found[0], MOST)

    def test_a_request(self) -> None:
        runtime = zernel.attach(mode="off")

        def request() -> None:
            with runtime.request(key=7) as one:
                one.ready()

        self.check("a request", request)

    def test_a_request_of_a_named_key(self) -> None:
        runtime = zernel.attach(mode="off")

        def request() -> None:
            with runtime.request(0, key="resnet50/8", expected_us=400, slo_ms=20) as one:
                one.ready()

        self.check("a request with a stream, a name and an objective", request)

    def test_a_call_of_a_task(self) -> None:
        scheduler = zernel.Scheduler(mode="off")
        self.addCleanup(scheduler.close)

        @scheduler.latency_critical(slo_ms=20)
        def answer() -> None:
            zernel.ready()

        self.check("a call of a latency-critical task", answer)
