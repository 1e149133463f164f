# SPDX-License-Identifier: GPL-2.0
"""Counts what a suite's log or result says passed and failed."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

LIBTEST = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed;")
LIBTEST_FAILED = re.compile(r"^test (\S.*) \.\.\. FAILED")
CHECK = re.compile(r"^(not ok|ok) - (.*)")
UNITTEST = re.compile(r"^(.*) \.\.\. (ok|FAIL|ERROR)$")


@dataclass
class Count:
    """The numbers of passed and failed tests, and the failed ones."""

    passed: int = 0
    failed: int = 0
    names: list[str] = field(default_factory=list)


def lines(path: Path) -> list[str]:
    """The lines of a log, none when it was never written."""
    return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []


def count_libtest(path: Path) -> Count:
    """cargo test: one result line per binary."""
    count = Count()
    for line in lines(path):
        if match := LIBTEST.match(line):
            count.passed += int(match.group(1))
            count.failed += int(match.group(2))
        elif match := LIBTEST_FAILED.match(line):
            count.names.append(match.group(1))
    return count


def _outcomes(path: Path, pattern: re.Pattern, name: int, word: int, good: str) -> Count:
    count = Count()
    for line in lines(path):
        if match := pattern.match(line):
            if match.group(word) == good:
                count.passed += 1
            else:
                count.failed += 1
                count.names.append(match.group(name))
    return count


def count_checks(path: Path) -> Count:
    """scripts/check: `ok - name` and `not ok - name`."""
    return _outcomes(path, CHECK, 2, 1, "ok")


def count_unittest(path: Path) -> Count:
    """python -m unittest -v."""
    return _outcomes(path, UNITTEST, 1, 2, "ok")


def count_build(path: Path) -> Count:
    """A build script, which says last where its result is: one check that it is there."""
    said = lines(path)
    if said and said[-1].startswith("/") and Path(said[-1]).is_dir():
        return Count(passed=1)
    return Count(0, 1, ["nothing was built"])


def count_vm(path: Path) -> Count:
    """The JSON that scripts/vm leaves: each problem of the run counts as one failure."""
    if not path.exists():
        return Count(0, 1, ["the guest's run left no result"])
    result = json.loads(path.read_text(encoding="utf-8"))
    names = [*result["failed"], *result["problems"]]
    return Count(len(result["passed"]), len(names), names)
