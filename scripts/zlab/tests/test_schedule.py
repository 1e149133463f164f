# SPDX-License-Identifier: GPL-2.0
"""Tests of the order of jobs, and of how evenly the suites fill two workers."""

import heapq
import threading
import unittest

from zlab import suites
from zlab.schedule import Job, Schedule, run
from zlab.session import Session


def job(name: str, *needs: str, minutes: float = 1, memory: int = 0, holds: str = "",
        action=lambda results: None) -> Job:
    """A job that does nothing."""
    return Job(name, action, needs, minutes, memory, holds)


def simulate(jobs: list[Job], workers: int, memory: int) -> float:
    """When all is done, if every job takes as long as it says."""
    schedule = Schedule(jobs, memory)
    now, ends = 0.0, []
    while schedule.waiting or ends:
        while len(ends) < workers and (chosen := schedule.next()):
            heapq.heappush(ends, (now + chosen.minutes, chosen.name))
        now, name = heapq.heappop(ends)
        schedule.finish(schedule.jobs[name], True)
    return now


class Order(unittest.TestCase):
    """Which job is next."""

    def test_longest_chain_first(self):
        schedule = Schedule([job("a", minutes=3), job("b"), job("c", "b", minutes=4)], 100)
        self.assertEqual([schedule.next().name, schedule.next().name], ["b", "a"])

    def test_what_is_needed_comes_first(self):
        schedule = Schedule([job("a", "b"), job("b")], 100)
        first = schedule.next()
        self.assertEqual(first.name, "b")
        self.assertIsNone(schedule.next())
        schedule.finish(first, True)
        self.assertEqual(schedule.next().name, "a")

    def test_memory_is_never_exceeded_but_alone(self):
        schedule = Schedule([job("big", minutes=9, memory=200), job("a", memory=60),
                             job("b", memory=60)], 100)
        first = schedule.next()
        self.assertEqual(first.name, "big")
        self.assertIsNone(schedule.next())
        schedule.finish(first, True)
        self.assertIsNotNone(schedule.next())
        self.assertIsNone(schedule.next())

    def test_one_holder_at_a_time(self):
        schedule = Schedule([job("a", holds="x", minutes=9), job("b", holds="x"), job("c")], 100)
        self.assertEqual([schedule.next().name, schedule.next().name], ["a", "c"])
        self.assertIsNone(schedule.next())

    def test_all_that_needs_a_failure_is_lost(self):
        schedule = Schedule([job("a"), job("b", "a"), job("c", "b"), job("d")], 100)
        first = schedule.next()
        lost = schedule.finish(first, False)
        self.assertEqual([(other.name, need) for other, need in lost], [("b", "a"), ("c", "b")])
        self.assertEqual([other.name for other in schedule.waiting], ["d"])

    def test_mistakes_are_seen(self):
        for jobs in ([job("a"), job("a")], [job("a", "b")], [job("a", "b"), job("b", "a")]):
            with self.subTest(jobs), self.assertRaises(ValueError):
                Schedule(jobs, 100)


class Run(unittest.TestCase):
    """Jobs in threads."""

    def test_results_reach_what_needs_them(self):
        seen = []
        jobs = [job("b", "a", action=lambda results: seen.append(results["a"])),
                job("a", action=lambda results: "/place")]
        run(jobs, 2, 100, self.fail)
        self.assertEqual(seen, ["/place"])

    def test_two_at_once(self):
        meeting = threading.Barrier(2, timeout=20)
        run([job(name, action=lambda results: meeting.wait()) for name in "ab"], 2, 100, self.fail)

    def test_failure_is_told_with_what_it_keeps_from_running(self):
        def fail(results):
            raise OSError("no luck")

        told = []
        run([job("a", action=fail), job("b", "a"), job("c")], 1, 100,
            lambda job, why: told.append((job.name, str(why))))
        self.assertEqual(told, [("a", "no luck"), ("b", "not run, for lack of a")])


class Plan(unittest.TestCase):
    """The suites of `make test`."""

    def plan(self, memory: int, workers: int, built: str = "") -> tuple[float, float]:
        """Minutes with so many workers, and those of an even division; `built` takes no time."""
        jobs = [Job(j.name, j.action, j.needs,
                    0.05 if built and j.name.startswith(built) else j.minutes, j.memory, j.holds)
                for j in suites.plan(Session())]
        return (simulate(jobs, workers, memory - suites.HOST_MEMORY_MB),
                sum(j.minutes for j in jobs) / workers)

    def test_workers_are_busy_to_the_end(self):
        for workers in (2, 3):
            for built in ("kernel", ""):
                took, ideal = self.plan(12000, workers, built)
                self.assertLess(took, 1.1 * ideal + 1, (workers, built))

    def test_a_small_machine_is_not_idle(self):
        took, ideal = self.plan(suites.NEEDED_MEMORY_MB, 2, "kernel")
        self.assertLess(took, 1.25 * ideal)


if __name__ == "__main__":
    unittest.main()
