# SPDX-License-Identifier: GPL-2.0
"""Reads KTAP out of a console log and says what passed, failed or never reported."""

import re
from dataclasses import dataclass, field

TIMESTAMP = re.compile(r"^\[ *\d+\.\d+\](\[ *[TC]\d+\])? ?")
VERSION = re.compile(r"^(KTAP version 1|TAP version 1[34])\s*$")
PLAN = re.compile(r"^1\.\.(\d+)\b")
RESULT = re.compile(
    r"^(?P<not>not )?ok (?P<number>\d+)(?: (?:- )?(?P<name>.*?))?"
    r"(?:\s*# (?P<directive>[A-Z]+)\b.*)?$"
)
INDENT = 4


@dataclass
class Test:
    """One result line, with the subtests that came before it."""

    name: str
    status: str  # passed, failed or skipped
    subtests: "Block | None" = None
    problem: str = ""
    why: str = ""  # its name and what it said


@dataclass
class Block:
    """The results at one depth: a document, or the subtests of one test."""

    depth: int
    name: str = ""
    plan: int | None = None
    tests: list[Test] = field(default_factory=list)
    pending: "Block | None" = None  # subtests whose result line has not come yet

    def problems(self) -> list[str]:
        """The faults of this block, apart from failed tests."""
        found = []
        if self.plan is None and self.tests:
            found.append(f"{self.name or 'KTAP'}: no plan line")
        elif self.plan is None:
            found.append(f"{self.name or 'KTAP'}: started and reported nothing")
        elif self.plan != len(self.tests):
            found.append(
                f"{self.name or 'KTAP'}: planned {self.plan} tests, {len(self.tests)} reported"
            )
        if self.pending is not None:
            found.append(f"{self.pending.name or 'a test'}: never gave its result")
            found += self.pending.problems()
        return found


@dataclass
class Summary:
    """The leaf tests of a log."""

    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True when something reported and nothing failed."""
        return not self.failed and bool(self.passed or self.skipped)


class Reader:
    """Takes console lines one by one; several KTAP documents may follow each other."""

    def __init__(self) -> None:
        self.documents: list[Block] = []
        self.stack: list[Block] = []
        self.notes: list[str] = []  # since the last result

    def feed(self, raw: str) -> None:
        """Takes one line, with or without the kernel's time stamp."""
        line = TIMESTAMP.sub("", raw.rstrip("\r\n"))
        text = line.lstrip(" ")
        depth = (len(line) - len(text)) // INDENT
        if VERSION.match(text):
            self._open(depth)
        elif not self.stack:
            return
        elif text.startswith("# Subtest:"):
            self._name(depth, text.removeprefix("# Subtest:").strip())
        elif match := PLAN.match(text):
            self._plan(depth, int(match.group(1)))
        elif match := RESULT.match(text):
            self._result(depth, match)
            self.notes = []
        elif text.startswith("# "):
            self.notes.append(text.removeprefix("# "))

    def _open(self, depth: int) -> None:
        block = Block(depth)
        if depth == 0 or not self.stack:
            self.documents.append(block)
            self.stack = [block]
            return
        self._unwind(depth - 1)
        parent = self.stack[-1]
        if parent.pending is not None:
            parent.tests.append(_lost(parent.pending))
        parent.pending = block
        self.stack.append(block)

    def _unwind(self, depth: int) -> None:
        while len(self.stack) > 1 and self.stack[-1].depth > depth:
            self.stack.pop()

    def _at(self, depth: int) -> Block | None:
        for block in self.stack:
            if block.depth == depth:
                return block
        return None

    def _name(self, depth: int, name: str) -> None:
        block = self._at(depth)
        if block is None:
            # Subtests without a version line of their own.
            self._open(depth)
            block = self.stack[-1]
        block.name = name

    def _plan(self, depth: int, count: int) -> None:
        block = self._at(depth)
        if block is not None and block.plan is None:
            block.plan = count

    def _result(self, depth: int, match: re.Match) -> None:
        block = self._at(depth)
        if block is None:
            return
        self._unwind(depth)
        status = "failed" if match.group("not") else "passed"
        if match.group("directive") == "SKIP":
            status = "skipped"
        name = (match.group("name") or match.group("number")).strip()
        said = [note.removeprefix(f"{name}: ") for note in self.notes
                if note.startswith(f"{name}: ")]
        why = ": ".join([name, " | ".join(said)] if said else [name])
        test = Test(name, status, block.pending, why=why)
        if int(match.group("number")) != len(block.tests) + 1:
            test.status = "failed"
            test.problem = f"number {match.group('number')} out of sequence"
        block.pending = None
        block.tests.append(test)

    def summary(self) -> Summary:
        """Counts the leaf tests; every fault of the log itself counts as a failed test."""
        result = Summary()
        for document in self.documents:
            _count(document, "", result)
        return result


def _lost(block: Block) -> Test:
    return Test(block.name or "a test", "failed", block, "never gave its result")


def _count(block: Block, prefix: str, result: Summary) -> None:
    result.failed += [prefix + problem for problem in block.problems()]
    if block.pending is not None:
        _count_tests(block.pending, f"{prefix}{block.pending.name}.", result)
    _count_tests(block, prefix, result)


def _count_tests(block: Block, prefix: str, result: Summary) -> None:
    for test in block.tests:
        name = prefix + test.name
        if test.problem:
            result.failed.append(f"{name}: {test.problem}")
        if test.subtests is not None:
            before = len(result.failed)
            _count(test.subtests, name + ".", result)
            # A failed parent with passing children failed in its own right.
            if test.status == "failed" and len(result.failed) == before and not test.problem:
                result.failed.append(name)
        elif not test.problem:
            said = prefix + test.why if test.status == "failed" else name
            getattr(result, test.status).append(said)


def read(lines) -> Summary:
    """The summary of a whole log."""
    reader = Reader()
    for line in lines:
        reader.feed(line)
    return reader.summary()
