# SPDX-License-Identifier: GPL-2.0
"""Runs builds and suites, shows what they say, and keeps what they came to."""

import os
import subprocess
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .counts import Count, count_vm
from .schedule import Job

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPTS = ROOT / "scripts"
RESULTS = ROOT / "build/results"

# A guest that takes longer hangs, however slow the machine.
DEADLINE_S = "3600"


class Broken(Exception):
    """Something that suites need could not be built; the text says what and where."""


class Session:
    """One run of all suites."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.total = Count()
        self.failures: list[str] = []
        self.short: list[str] = []
        self.took: list[tuple[float, str]] = []
        self.env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}

    def say(self, line: str) -> None:
        """Prints a line as a whole."""
        with self.lock:
            print(line, flush=True)

    def suite(self, name: str, command: list[str], count: Callable[[Path], Count],
              result: Path | None = None, cwd: Path = ROOT, **env: str) -> None:
        """Runs one suite, shows what it says, and adds what it counted."""
        log = RESULTS / f"{name}.log"
        self.say(f"==> suite {name}")
        if result:
            result.unlink(missing_ok=True)
        with self._timed(name) as clock:
            status = self._run(command, log, cwd, env)
        found = count(result if result else log)
        if status != 0 and found.failed == 0:
            found.failed += 1
            found.names.append(f"{name}: exit status {status}")
        if found.passed + found.failed == 0:
            found.failed += 1
            found.names.append(f"{name}: nothing reported")
        with self.lock:
            self.total.passed += found.passed
            self.total.failed += found.failed
            if found.failed:
                self.failures.append(f"{name} (log: {log.relative_to(ROOT)})")
                self.failures += [f"    {failed}" for failed in found.names]
        self.say(f"==> suite {name}: {found.passed} passed, {found.failed} failed, "
                 f"{clock():.0f} s")

    def guest(self, name: str, kernel: str, add: list[str], command: str, *more: str) -> None:
        """Runs a suite in a guest."""
        result = RESULTS / f"{name}.json"
        arguments = [str(SCRIPTS / "vm"), "--kernel", kernel, "--ktap", name, "--result",
                     str(result), "--deadline", DEADLINE_S]
        for entry in add:
            arguments += ["--add", entry]
        self.suite(name, [*arguments, *more, "--", command], count_vm, result)

    def build(self, what: str, *command: str, **env: str) -> str:
        """Runs a script that builds something; the last line that it prints is where that is."""
        script, *arguments = command
        with self._timed(f"({what})"):
            done = subprocess.run([str(SCRIPTS / script), *arguments], cwd=ROOT,
                                  env={**self.env, **env}, stdout=subprocess.PIPE, text=True,
                                  check=False)
        if done.returncode != 0 or not done.stdout.strip():
            raise Broken(f"{what} could not be built; see the messages above")
        return done.stdout.strip().splitlines()[-1]

    def broken(self, job: Job, why: Exception | str) -> None:
        """Counts a job that could not run as one failure."""
        if isinstance(why, Exception) and not isinstance(why, Broken):
            traceback.print_exception(why)
        with self.lock:
            self.total.failed += 1
            self.failures.append(f"{job.name}: {why}")
        self.say(f"==> {job.name}: {why}")

    def report(self) -> None:
        """The times, longest first, and the tests that were cut short or failed."""
        for seconds, name in sorted(self.took, reverse=True):
            if seconds >= 1:
                print(f"{seconds:6.0f} s  {name}")
        for line in [*self.short, *(f"failed: {line}" for line in self.failures)]:
            print(line)
        print(f"{self.total.passed} passed, {self.total.failed} failed", flush=True)

    @contextmanager
    def _timed(self, name: str) -> Iterator[Callable[[], float]]:
        started = time.monotonic()
        yield lambda: time.monotonic() - started
        with self.lock:
            self.took.append((time.monotonic() - started, name))

    def _run(self, command: list[str], log: Path, cwd: Path, env: dict[str, str]) -> int:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w", encoding="utf-8") as file, subprocess.Popen(
            command, cwd=cwd, env={**self.env, **env}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        ) as process:
            for line in process.stdout or ():
                file.write(line)
                self.say(f"{log.stem}: {line.rstrip()}")
                # The line of testkit where a short run does not repeat something in full.
                if line.startswith("    # cut short: "):
                    with self.lock:
                        self.short.append(f"{log.stem}: {line.strip()[2:]}")
        return process.returncode
