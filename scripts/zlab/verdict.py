# SPDX-License-Identifier: GPL-2.0
"""Decides whether a guest's run was good, and says why not."""

from collections import Counter
from dataclasses import asdict, dataclass, field

from .ktap import Summary


@dataclass
class Verdict:
    """The outcome of one run."""

    name: str
    seconds: float
    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, *, name: str | None, wants_ktap: bool, status: int | None, timed_out: bool,
           deadline: float, seconds: float, last_line: str, faults: list[str],
           summaries: list[Summary]) -> "Verdict":
        """Weighs everything that is known about a run."""
        verdict = cls(name or "run", round(seconds, 1))
        for summary in summaries:
            verdict.passed += summary.passed
            verdict.failed += summary.failed
            verdict.skipped += summary.skipped
        if timed_out:
            verdict.problems.append(
                f"no end within its deadline of {deadline:.0f} s; last line: {last_line}")
        elif status is None:
            verdict.problems.append(f"the guest ended without a status; last line: {last_line}")
        elif status != 0:
            verdict.problems.append(f"the command exited with status {status}")
        verdict.problems += [f"in the log{f', {times} times' if times > 1 else ''}: {fault}"
                             for fault, times in Counter(faults).items()]
        if wants_ktap and not verdict.passed and not verdict.failed:
            verdict.problems.append("no test reported")
        return verdict

    @property
    def ok(self) -> bool:
        """True when there is nothing to complain about."""
        return not self.failed and not self.problems

    def as_dict(self) -> dict:
        """For the file that --result names."""
        return {**asdict(self), "ok": self.ok}

    def text(self) -> str:
        """A few lines for a reader."""
        lines = [f"vm: {self.name}: failed: {test}" for test in self.failed]
        lines += [f"vm: {self.name}: {problem}" for problem in self.problems]
        parts = ["ok" if self.ok else "NOT OK"]
        if self.passed or self.failed:
            parts += [f"{len(self.passed)} passed", f"{len(self.failed)} failed"]
        if self.skipped:
            parts.append(f"{len(self.skipped)} skipped")
        lines.append(f"vm: {self.name}: {', '.join(parts)}, {self.seconds:.1f} s")
        return "\n".join(lines)
