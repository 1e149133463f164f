# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs test cases, each in a process of its own, and reports them as KTAP."""

import os
import sys
import time
import traceback
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path

import zernel

ATTRIBUTES = Path("/sys/class/misc/zernel")
#: The longest wait for something that comes without this program's doing.
PATIENCE_S = 60


def wait_until(text: str, condition: Callable[[], bool]) -> None:
    """Waits for a condition."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"it did not come about that {text}")
        time.sleep(0.001)


def tune(name: str, value: object) -> None:
    """Sets a tunable."""
    (ATTRIBUTES / name).write_text(str(value), encoding="ascii")


def settle() -> None:
    """Nothing is left of the case before."""
    tune("lease_us", 10_000)
    wait_until("nothing is left of the case", lambda: all(
        zernel.stats()[name] == 0 for name in ("tsgs", "slots", "subscriptions", "classes")))


def cases(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """The cases of a suite."""
    for part in suite:
        if isinstance(part, unittest.TestSuite):
            yield from cases(part)
        else:
            yield part


def _child(case: unittest.TestCase) -> int:
    result = unittest.TestResult()
    try:
        case.run(result)
        for _, text in result.failures + result.errors:
            print("\n".join(f"# {line}" for line in text.splitlines()), flush=True)
        return 0 if result.wasSuccessful() else 1
    except BaseException:
        print("\n".join(f"# {line}" for line in traceback.format_exc().splitlines()), flush=True)
        return 1


def _in_child(case: unittest.TestCase) -> bool:
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = _child(case)
        sys.stdout.flush()
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def main(suite: unittest.TestSuite, only: list[str]) -> int:
    """Runs the cases whose names contain one of some texts, or all that need no name."""
    chosen = [case for case in cases(suite)
              if (any(text in case.id() for text in only) if only
                  else not getattr(case, "IS_NAMED", False))]
    print(f"KTAP version 1\n1..{len(chosen)}", flush=True)
    failed = 0
    for number, case in enumerate(chosen, 1):
        name = case.id().split(".", 1)[-1]
        passed = _in_child(case)
        try:
            settle()
        except AssertionError as error:
            print(f"# {error}: {zernel.stats()}", flush=True)
            passed = False
        failed += not passed
        print(f"{'ok' if passed else 'not ok'} {number} python.{name}", flush=True)
    return 1 if failed or not chosen else 0
