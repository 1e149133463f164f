# SPDX-License-Identifier: MIT OR Apache-2.0
"""The common part of the cases: a context, a runtime, and their errors."""

import ctypes
import unittest
from pathlib import Path

import zernel
from cuda import Context, Cuda
from harness import tune

#: A prediction that never comes true in a test, in microseconds.
LATE_US = 5_000_000
TICK_NS = 200_000


def slots() -> tuple[int, int]:
    """The addresses of the slots of this process."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        if line.endswith("/dev/zernel"):
            start, end = line.split()[0].split("-")
            return int(start, 16), int(end, 16)
    raise AssertionError("there are none")


class Case(unittest.TestCase):
    """With a context that is current."""

    def setUp(self) -> None:
        # No pause of a loaded host ends a lease.
        tune("lease_us", 5_000_000)
        self.cuda = Cuda()
        self.context = self.make_context()

    @staticmethod
    def handle(number: int) -> ctypes.c_void_p:
        """A handle of the driver."""
        return ctypes.c_void_p(number)

    def make_context(self) -> Context:
        """The context of the cases."""
        return Context(self.cuda)

    def attach(self, **options) -> zernel.Runtime:
        """A runtime of level 0."""
        runtime = zernel.attach(mode="require", **options)
        runtime.set_level(zernel.Priority.LATENCY_CRITICAL)
        return runtime

    def fails(self, kind: type[zernel.Error], name: str, call, *arguments, **named) -> zernel.Error:
        """A call fails with an exception of a class and a name."""
        with self.assertRaises(kind) as caught:
            call(*arguments, **named)
        self.assertIs(type(caught.exception), kind)
        self.assertEqual(caught.exception.name, name)
        self.assertGreater(caught.exception.errno, 0)
        return caught.exception
