# SPDX-License-Identifier: MIT OR Apache-2.0
"""Schedulers of a Python program on the software GPU."""

import asyncio
import concurrent.futures
import os
import threading
from pathlib import Path

import zernel
from cuda import Context
from harness import wait_until
from lab import LATE_US, TICK_NS, Case

CALLS = 500
CONFIG = """
priorities:
  latency_critical: 1
  best_effort: 6
preemption:
  lanes: 8
resources:
  workers: 2
  queue: 1024
"""


class Schedulers(Case):
    """Tasks of both types."""

    def scheduler(self, text: str = CONFIG) -> zernel.Scheduler:
        """One with a file."""
        path = Path(f"/tmp/zernel-{os.getpid()}.yaml")
        path.write_text(text, encoding="utf-8")
        scheduler = zernel.Scheduler(config_file=path, gpu_id=0, mode="require")
        self.addCleanup(scheduler.close)
        return scheduler

    def test_both_types(self) -> None:
        scheduler = self.scheduler()
        threads = set()

        @scheduler.latency_critical(slo_ms=60_000)
        def answer(number: int) -> int:
            threads.add(threading.current_thread().name)
            request = zernel.current_request()
            self.assertIsNone(request.idle)
            zernel.ready()
            self.assertTrue(request.is_ready)
            self.context.work(10_000)
            self.context.wait()
            return number + 1

        @scheduler.best_effort
        def train(number: int) -> int:
            self.assertIsNone(zernel.current_request())
            self.context.work(TICK_NS)
            self.context.wait()
            return -number

        self.assertEqual(scheduler.runtime.level, 1)
        answers = [scheduler.submit(answer, args=(number,)) for number in range(CALLS)]
        trained = [scheduler.submit(train, args=(number,)) for number in range(CALLS // 10)]
        self.assertEqual([one.result(timeout=120) for one in answers], list(range(1, CALLS + 1)))
        self.assertEqual([one.result(120) for one in trained], [-n for n in range(CALLS // 10)])
        self.assertEqual(answer(41), 42)
        self.assertTrue(any(name.startswith("zernel-lc-") for name in threads))

        metrics = scheduler.get_metrics()
        self.assertEqual(metrics.submitted, CALLS + CALLS // 10 + 1)
        self.assertEqual((metrics.completed, metrics.failed), (metrics.submitted, 0))
        self.assertEqual((metrics.requests_begun, metrics.requests_idle), (CALLS + 1, 0))
        self.assertLessEqual(0, metrics.request_p50_us)
        self.assertLessEqual(metrics.request_p50_us, metrics.request_p99_us)
        self.assertGreater(metrics.total_preemptions, 0)
        self.assertGreaterEqual(metrics.times_preempted, 0)
        self.assertEqual(metrics.slo_violations, 0)

        def utilization() -> bool:
            self.context.work(TICK_NS)
            self.context.wait()
            share = scheduler.get_metrics().gpu_utilization
            return share is not None and 0 < share <= 1

        wait_until("zernel tells how busy the GPU was", utilization)
        scheduler.close()
        wait_until("the class has ended", lambda: zernel.stats()["classes"] == 0)
        # Its requests have ended, too; a task can still be called.
        self.assertEqual(scheduler.get_metrics().request_p50_us, None)

    def test_two_schedulers_of_one_context(self) -> None:
        before = zernel.attach(mode="require")
        before.set_level(5, timeslice_us=300)
        first, second = self.scheduler(), self.scheduler()
        first.latency_critical(int)
        self.assertEqual((first.runtime.level, before._own_class()), (1, (1, 300)))
        second.best_effort(int)
        self.assertEqual(first.runtime.level, 1)
        second.latency_critical(int, priority=0)
        self.assertEqual(first.runtime.level, 0)
        second.close()
        self.assertEqual(first.runtime.level, 1)
        first.close()
        # That of the program itself is back.
        self.assertEqual((before.level, before._own_class()), (5, (5, 300)))
        before.clear_level()
        self.assertEqual(before._own_class(), (None, None))

    def test_a_class_that_a_program_has_set_meanwhile(self) -> None:
        scheduler, own = self.scheduler(), zernel.attach(mode="require")
        scheduler.latency_critical(int)
        own.set_level(3)
        scheduler.close()
        self.assertEqual(own.level, 3)
        own.clear_level()

    def test_results_with_and_without_time_out(self) -> None:
        scheduler = self.scheduler()
        go = threading.Event()

        @scheduler.latency_critical(priority=zernel.Priority.CRITICAL)
        def wait_for_it() -> str:
            go.wait()
            return "there"

        future = scheduler.submit(wait_for_it)
        with self.assertRaises(concurrent.futures.TimeoutError):
            future.result(timeout=0.01)
        go.set()
        self.assertEqual(future.result(), "there")

    def test_an_exception_before_the_data_is_ready(self) -> None:
        scheduler = self.scheduler()

        @scheduler.latency_critical
        def fail() -> None:
            raise LookupError("no data")

        with self.assertRaisesRegex(LookupError, "no data"):
            scheduler.submit(fail).result()
        with self.assertRaises(LookupError):
            fail()
        stats = scheduler.runtime.stats()
        self.assertEqual((stats["cancelled"], stats["in_flight"]), (2, 0))
        self.assertEqual(scheduler.get_metrics().failed, 2)

    def test_without_a_call_of_ready(self) -> None:
        scheduler = self.scheduler()

        @scheduler.latency_critical
        def plain() -> int:
            return 1

        @scheduler.latency_critical
        def outer() -> int:
            return plain() + plain()

        self.assertEqual((plain(), outer()), (1, 2))
        # A call in a call is a part of it.
        self.assertEqual(scheduler.runtime.stats()["begun"], 2)

    def test_done_when_the_stream_is(self) -> None:
        scheduler = self.scheduler("preemption:\n  lanes: 1\n")
        stream = self.context.stream()

        @scheduler.latency_critical(stream=lambda: stream)
        def launch() -> str | None:
            zernel.ready()
            self.context.work(TICK_NS, stream)
            return zernel.current_request().idle

        release = self.context.hold(stream)
        self.assertIsNone(launch())
        self.assertEqual(launch(), "no_lane")
        release()
        self.context.wait(stream)
        self.assertIsNone(launch())
        self.assertEqual(scheduler.get_metrics().requests_idle, 1)
        self.context.wait(stream)

    def test_a_lost_context(self) -> None:
        scheduler = self.scheduler()

        @scheduler.latency_critical
        def answer() -> str | None:
            return zernel.current_request().idle

        self.assertIsNone(answer())
        self.context.fault()
        wait_until("a request sees it", lambda: answer() == "lost")
        # Functions and metrics go on.
        self.assertEqual(scheduler.submit(answer).result(120), "lost")
        metrics = scheduler.get_metrics()
        self.assertEqual((metrics.failed, metrics.running), (0, 0))
        self.assertGreater(metrics.requests_idle, 1)
        scheduler.close()

    def test_asyncio(self) -> None:
        scheduler = self.scheduler()

        @scheduler.latency_critical
        async def tokens(count: int) -> int:
            await asyncio.sleep(0)
            zernel.ready()
            return count

        @scheduler.latency_critical
        def in_a_thread() -> str:
            return threading.current_thread().name

        async def serve() -> list:
            async with scheduler.arequest(key="by hand") as request:
                await asyncio.sleep(0)
                request.ready()
            with self.assertRaises(TimeoutError):
                async with scheduler.arequest(exact=True, expected_us=LATE_US) as other:
                    raise TimeoutError
            self.assertTrue(request.is_over and other.is_over)
            return await asyncio.gather(*(scheduler.asubmit(tokens, (n,)) for n in range(3)),
                                        scheduler.asubmit(in_a_thread))

        *counts, name = asyncio.run(serve())
        self.assertEqual(counts, [0, 1, 2])
        self.assertTrue(name.startswith("zernel-lc-"))
        self.assertEqual(scheduler.runtime.counters()["begun"], 6)


class Privileges(Case):
    """Of an ordinary user, who may use the devices."""

    def make_context(self) -> Context:
        """As that user."""
        for name in ("zernel", "zernel-sim"):
            Path("/dev", name).chmod(0o666)
        os.setgroups([])
        os.setgid(1000)
        os.setuid(1000)
        return super().make_context()

    def test_a_level_that_takes_privilege(self) -> None:
        path = "/tmp/zernel-of-a-user.yaml"
        Path(path).write_text("preemption:\n  lanes: 2\n", encoding="utf-8")
        scheduler = zernel.Scheduler(path, mode="auto")
        self.addCleanup(scheduler.close)
        self.assertIsNone(scheduler.runtime.inert)
        with self.assertWarnsRegex(RuntimeWarning, "no class of level 0"):
            @scheduler.latency_critical
            def answer() -> str | None:
                return zernel.current_request().idle

        # Requests need no class.
        self.assertIsNone(answer())
        scheduler.close()
        strict = zernel.Scheduler(path, mode="require")
        self.addCleanup(strict.close)
        with self.assertRaises(zernel.Error) as caught:
            strict.latency_critical(lambda: None)
        self.assertEqual(caught.exception.name, "ZERNEL_CALL_FAILED")
        # Lowering oneself is free.
        strict.best_effort(lambda: None)
        self.assertEqual(strict.runtime.level, 7)
