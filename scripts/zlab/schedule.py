# SPDX-License-Identifier: GPL-2.0
"""Orders jobs that need each other's results, so that no worker waits while something can be done."""

import graphlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """A build or a suite."""

    name: str
    # Takes the results of all jobs that are done; an exception keeps those that need it from running.
    action: Callable[[Mapping[str, str]], str | None]
    needs: tuple[str, ...] = ()
    # The time on the two processors of a slow machine, for the order alone.
    minutes: float = 1
    memory: int = 500
    # Jobs that hold the same thing never run at once.
    holds: str = ""


class Schedule:
    """The jobs and their states; not for several threads at once."""

    def __init__(self, jobs: list[Job], memory: int) -> None:
        self.jobs = {job.name: job for job in jobs}
        if len(self.jobs) != len(jobs):
            raise ValueError("two jobs have the same name")
        order = list(graphlib.TopologicalSorter(
            {job.name: job.needs for job in jobs}).static_order())
        if unknown := set(order) - set(self.jobs):
            raise ValueError(f"no job is called {', '.join(sorted(unknown))}")
        # The time from the start of a job to the end of all that needs it.
        self.rank = {job.name: job.minutes for job in jobs}
        for name in reversed(order):
            for need in self.jobs[name].needs:
                self.rank[need] = max(self.rank[need], self.jobs[need].minutes + self.rank[name])
        self.memory = memory
        self.waiting = list(jobs)
        self.running: list[Job] = []
        self.done: set[str] = set()

    def next(self) -> Job | None:
        """Starts the job that most of the rest waits for, or none if none can start now."""
        ready = [job for job in self.waiting if self.done.issuperset(job.needs) and self._fits(job)]
        if not ready:
            return None
        job = max(ready, key=lambda job: self.rank[job.name])
        self.waiting.remove(job)
        self.running.append(job)
        return job

    def _fits(self, job: Job) -> bool:
        """True if memory is left for it. Alone, a job always fits."""
        if not self.running:
            return True
        if job.holds and any(job.holds == other.holds for other in self.running):
            return False
        return sum(other.memory for other in self.running) + job.memory <= self.memory

    def finish(self, job: Job, good: bool) -> list[tuple[Job, str]]:
        """Ends a job; returns those that can never run now, each with a job that it needs."""
        self.running.remove(job)
        if good:
            self.done.add(job.name)
            return []
        lost: list[tuple[Job, str]] = []
        gone = {job.name}
        while found := [(other, need) for other in self.waiting for need in other.needs
                        if need in gone]:
            for other, need in found:
                if other in self.waiting:
                    self.waiting.remove(other)
                    gone.add(other.name)
                    lost.append((other, need))
        return lost


def run(jobs: list[Job], workers: int, memory: int,
        broken: Callable[[Job, Exception | str], None]) -> None:
    """Runs all jobs; `broken` hears of those that raised an exception or lack what they need.

    An interrupt ends the programs that jobs run and, with this one, the workers.
    """
    schedule = Schedule(jobs, memory)
    change = threading.Condition()
    results: dict[str, str] = {}

    def work() -> None:
        while True:
            with change:
                while (job := schedule.next()) is None:
                    if not schedule.waiting:
                        return
                    change.wait()
            good = True
            try:
                result = job.action(results)
            except Exception as error:  # pylint: disable=broad-exception-caught
                # A worker must not end unseen.
                good = False
                broken(job, error)
            with change:
                if good:
                    results[job.name] = result or ""
                lost = schedule.finish(job, good)
                change.notify_all()
            for other, need in lost:
                broken(other, f"not run, for lack of {need}")

    threads = [threading.Thread(target=work, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
