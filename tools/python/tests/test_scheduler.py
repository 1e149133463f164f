# SPDX-License-Identifier: MIT OR Apache-2.0
"""Threads, futures and time-outs of a scheduler; its tasks."""

import concurrent.futures
import errno
import gc
import os
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from unittest import mock

import zernel
from zernel._metrics import Busy, percentile
from zernel._task import LEAST_SLO_MS

#: The longest wait for another thread, in seconds.
PATIENCE = 60


def scheduler_of(text: str = "") -> zernel.Scheduler:
    """A scheduler with a configuration file of this text."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        return zernel.Scheduler(config_file=file.name, mode="off")


class Case(unittest.TestCase):
    """With a scheduler that has one thread for each type."""

    TEXT = "resources:\n  workers: 1\n  queue: 3\n"

    def setUp(self) -> None:
        self.scheduler = scheduler_of(self.TEXT)
        self.addCleanup(self.scheduler.close)

    def block(self) -> threading.Event:
        """Has the thread for latency-critical calls wait for an event."""
        began, go = threading.Event(), threading.Event()

        @self.scheduler.latency_critical
        def wait() -> None:
            began.set()
            go.wait(PATIENCE)

        self.scheduler.submit(wait)
        self.assertTrue(began.wait(PATIENCE))
        self.addCleanup(go.set)
        return go


class Calls(Case):
    """That are submitted."""

    def test_results_and_arguments(self) -> None:
        @self.scheduler.latency_critical(slo_ms=5)
        def add(left: int, right: int = 0) -> int:
            """Adds."""
            return left + right

        self.assertEqual(self.scheduler.submit(add, (1,)).result(PATIENCE), 1)
        future = self.scheduler.submit(add, args=[1], kwargs={"right": 2})
        self.assertIsInstance(future, concurrent.futures.Future)
        self.assertEqual(future.result(timeout=PATIENCE), 3)
        self.assertEqual(add(1, right=1), 2)
        self.assertEqual((add.__name__, add.__doc__), ("add", "Adds."))
        self.assertEqual((add.is_latency_critical, add.level), (True, 0))
        self.assertIn("Calls.test_results_and_arguments.<locals>.add, latency-critical, level 0",
                      repr(add))

    def test_another_function_is_best_effort(self) -> None:
        future = self.scheduler.submit(lambda: threading.current_thread().name)
        self.assertTrue(future.result(PATIENCE).startswith("zernel-be-"))

    def test_exceptions_arrive(self) -> None:
        def fail(kind: type[BaseException]) -> None:
            raise kind("of the call")

        for kind in (KeyError, SystemExit, KeyboardInterrupt):
            future = self.scheduler.submit(fail, (kind,))
            self.assertIsInstance(future.exception(PATIENCE), kind)
        # The thread goes on.
        self.assertEqual(self.scheduler.submit(int).result(PATIENCE), 0)
        self.assertEqual(self.scheduler.get_metrics().failed, 3)

    def test_a_time_out_leaves_the_call(self) -> None:
        go = self.block()
        future = self.scheduler.submit(self.scheduler.latency_critical(lambda: 7))
        with self.assertRaises(concurrent.futures.TimeoutError):
            future.result(timeout=0)
        with self.assertRaises(concurrent.futures.TimeoutError):
            future.exception(timeout=0.001)
        go.set()
        self.assertEqual(future.result(), 7)

    def test_the_most_urgent_first(self) -> None:
        go, made = self.block(), []
        tasks = [self.scheduler.latency_critical(made.append, priority=priority)
                 for priority in (zernel.Priority.MEDIUM, zernel.Priority.CRITICAL, 1)]
        futures = [self.scheduler.submit(task, (task.level,)) for task in tasks]
        go.set()
        concurrent.futures.wait(futures, PATIENCE)
        self.assertEqual(made, [0, 1, 3])

    def test_the_queue_is_bounded(self) -> None:
        go = self.block()
        task = self.scheduler.latency_critical(lambda: 1)
        waiting = [self.scheduler.submit(task) for _ in range(3)]
        self.assertEqual(self.scheduler.get_metrics().waiting, 3)
        with self.assertRaises(zernel.QueueFullError) as caught:
            self.scheduler.submit(task)
        self.assertEqual((caught.exception.errno, caught.exception.name),
                         (errno.EAGAIN, "ZERNEL_QUEUE_FULL"))
        # Each type has a queue of its own.
        self.assertEqual(self.scheduler.submit(lambda: 2).result(PATIENCE), 2)
        # A call that is cancelled makes room at once.
        self.assertTrue(waiting[1].cancel())
        again = self.scheduler.submit(task)
        go.set()
        self.assertEqual([one.result(PATIENCE) for one in (waiting[0], waiting[2], again)],
                         [1, 1, 1])
        metrics = self.scheduler.get_metrics()
        self.assertEqual((metrics.submitted, metrics.completed, metrics.cancelled), (6, 5, 1))

    def test_cancelled_calls_take_no_memory(self) -> None:
        self.block()
        task = self.scheduler.latency_critical(lambda: 1)
        for _ in range(1_000):
            self.assertTrue(self.scheduler.submit(task).cancel())
        self.assertLess(len(self.scheduler._core.pools[True]._calls), 100)
        self.assertEqual(self.scheduler.get_metrics().waiting, 0)

    def test_latency_begins_with_submit(self) -> None:
        waits_ms = 30
        go, asked = self.block(), []
        core = self.scheduler._core

        def begin(stream: object, **spec: object) -> None:
            asked.append(spec["slo_ms"])

        with mock.patch.object(core, "begin", begin):
            late = self.scheduler.latency_critical(slo_ms=waits_ms / 2)(int)
            soon = self.scheduler.latency_critical(slo_ms=PATIENCE * 1e3)(int)
            future = self.scheduler.submit(late)
            threading.Event().wait(waits_ms / 1e3)
            go.set()
            future.result(PATIENCE)
            self.scheduler.submit(soon).result(PATIENCE)
            soon()
            self.scheduler.latency_critical(int)()
        metrics = self.scheduler.get_metrics()
        self.assertGreater(max(self.scheduler._core.counts.latest_us(True)), waits_ms * 1e3)
        self.assertEqual(metrics.slo_violations, 1)
        # The wait for a thread is a part of it: the request has what is left.
        self.assertEqual(asked[0], LEAST_SLO_MS)
        self.assertLess(asked[1], PATIENCE * 1e3)
        self.assertEqual(asked[2:], [PATIENCE * 1e3, 0])

    def test_features_are_told_of_each_call(self) -> None:
        core, told = self.scheduler._core, []

        def begin(stream: object, **spec: object) -> None:
            told.append(spec["features"])

        def count(words: str, times: int = 1) -> int:
            return len(words.split()) * times

        critical = self.scheduler.latency_critical
        task = critical(features=lambda words, times=1: [len(words), times])(count)
        with mock.patch.object(core, "begin", begin):
            self.assertEqual(task("a b", times=2), 4)
            self.assertEqual(self.scheduler.submit(task, ("c",)).result(PATIENCE), 1)
            self.assertEqual(critical(count)("d"), 1)
        self.assertEqual(told, [[3, 2], [1, 1], None])
        # A function that fails fails the call.
        broken = critical(features=lambda words: [words.size])(count)
        with self.assertRaises(AttributeError):
            broken("e")
        # So do numbers that are none.
        wide = critical(features=lambda words: range(9))(count)
        with self.assertRaises(zernel.MisuseError):
            wide("f")
        metrics = self.scheduler.get_metrics()
        self.assertEqual((metrics.completed, metrics.failed), (3, 2))

    def test_faults_of_a_submit(self) -> None:
        other = scheduler_of()
        self.addCleanup(other.close)

        async def coroutine() -> None:
            """Does nothing."""

        def generator():
            yield 1

        submit, critical = self.scheduler.submit, self.scheduler.latency_critical
        for call, kind, text in (
            (lambda: submit(other.latency_critical(int)), zernel.MisuseError, "another scheduler"),
            (lambda: submit(critical(coroutine)), TypeError, "use asubmit"),
            (lambda: submit(coroutine), TypeError, "use asubmit"),
            (lambda: submit(generator), TypeError, "is a generator"),
            (lambda: critical(generator), TypeError, "is a generator"),
            (lambda: submit(3), TypeError, "3 is no function"),
            (lambda: submit(int, 3), TypeError, "not iterable"),
            (lambda: critical("name"), TypeError, "is no function"),
            (lambda: critical(priority=8), zernel.MisuseError, "priority=8"),
            (lambda: critical(priority=-1), zernel.MisuseError, "priority=-1"),
            (lambda: critical(priority="high"), TypeError, "no zernel.Priority"),
            (lambda: critical(priority=True), TypeError, "no zernel.Priority"),
            (lambda: critical(slo_ms=-1), zernel.MisuseError, "slo_ms=-1 is no time"),
            (lambda: critical(slo_ms=float("nan")), zernel.MisuseError, "is no time"),
            (lambda: critical(int, expected_us=-1), zernel.MisuseError, "expected_us=-1"),
            (lambda: critical(int, features=[1]), TypeError, "features=[1] is no function"),
            (lambda: self.scheduler.request(features=range(9)), zernel.MisuseError, "at most 8"),
            (lambda: self.scheduler.best_effort(priority=9), zernel.MisuseError, "priority=9"),
            (lambda: self.scheduler.arequest(colour=1)._begin(), TypeError, "colour"),
        ):
            with self.subTest(text=text), self.assertRaises(kind) as caught:
                call()
            self.assertIn(text, str(caught.exception))
        metrics = self.scheduler.get_metrics()
        self.assertEqual((metrics.submitted, metrics.waiting, metrics.running), (0, 0, 0))


class Tasks(Case):
    """Functions that are called."""

    def test_ready_is_that_of_the_call(self) -> None:
        self.assertIsNone(zernel.current_request())
        zernel.ready()

        @self.scheduler.latency_critical
        def inner() -> zernel.Request:
            return zernel.current_request()

        @self.scheduler.latency_critical
        def outer() -> None:
            request = zernel.current_request()
            self.assertFalse(request.is_ready)
            # A call in a call is a part of it.
            self.assertIs(inner(), request)
            self.assertFalse(request.is_over)
            zernel.ready()
            zernel.ready()
            self.assertTrue(request.is_ready)
            request.done()
            zernel.ready()
            # With its request over, the next call begins one of its own.
            self.assertIsNot(inner(), request)

        outer()
        self.assertIsNone(zernel.current_request())

    def test_methods(self) -> None:
        scheduler = self.scheduler

        class Server:
            """With two."""

            @scheduler.latency_critical
            def answer(self, question: str) -> str:
                """Repeats it."""
                return f"{self.name}: {question}"

            @scheduler.latency_critical
            def where(self) -> str:
                """The thread."""
                return threading.current_thread().name

            @classmethod
            @scheduler.latency_critical
            def kind(cls, suffix: str) -> str:
                """The thread and the class."""
                return threading.current_thread().name + cls.__name__ + suffix

            name = "server"

        server = Server()
        self.assertEqual(server.answer("?"), "server: ?")
        self.assertEqual(scheduler.submit(Server.answer, (server, "!")).result(PATIENCE),
                         "server: !")
        self.assertIsInstance(Server.answer, zernel.Task)
        # A method of an object is the task that it is, not another function.
        self.assertEqual(server.where(), threading.current_thread().name)
        self.assertRegex(scheduler.submit(server.where).result(PATIENCE), "^zernel-lc-")
        self.assertRegex(scheduler.submit(Server.kind, ("!",)).result(PATIENCE),
                         "^zernel-lc-.*Server!$")

    def test_best_effort_has_no_request(self) -> None:
        self.assertIsNone(self.scheduler.best_effort(zernel.current_request)())

    def test_requests_can_be_switched_off(self) -> None:
        scheduler = scheduler_of("preemption:\n  enabled: false\n")
        self.addCleanup(scheduler.close)
        self.assertIsNone(scheduler.latency_critical(zernel.current_request)())

    def test_inline_goes_into_the_stream(self) -> None:
        scheduler = scheduler_of("preemption:\n  inline: true\n")
        self.addCleanup(scheduler.close)
        self.assertIsNotNone(scheduler.latency_critical(zernel.current_request, stream=7)())
        # Without one there is nothing to go into.
        self.assertIsNotNone(scheduler.latency_critical(zernel.current_request)())
        with scheduler.request(7) as request:
            request.ready()
        with self.assertRaises(TypeError):
            scheduler.latency_critical(int, stream="none")()
        self.assertEqual(scheduler.get_metrics().failed, 1)


class Ends(Case):
    """Of schedulers."""

    def test_close_makes_the_calls_that_wait(self) -> None:
        go = self.block()
        futures = [self.scheduler.submit(self.scheduler.latency_critical(int)) for _ in range(3)]
        go.set()
        self.scheduler.close()
        self.assertEqual([future.result(0) for future in futures], [0, 0, 0])
        self.scheduler.close()
        with self.assertRaises(zernel.ClosedError) as caught:
            self.scheduler.submit(int)
        self.assertEqual(caught.exception.errno, errno.ESHUTDOWN)
        self.assertEqual(repr(self.scheduler), "<zernel.Scheduler closed>")
        self.assertEqual(self.scheduler.get_metrics().completed, 4)

    def test_close_can_cancel_them(self) -> None:
        go = self.block()
        futures = [self.scheduler.submit(self.scheduler.latency_critical(int)) for _ in range(3)]
        closer = threading.Thread(target=self.scheduler.close, kwargs={"cancel": True})
        closer.start()
        done, _ = concurrent.futures.wait(futures, PATIENCE)
        self.assertEqual(len(done), 3)
        self.assertTrue(all(future.cancelled() for future in futures))
        go.set()
        closer.join(PATIENCE)
        self.assertFalse(closer.is_alive())
        self.assertEqual(self.scheduler.get_metrics().cancelled, 3)

    def test_a_task_can_be_called_afterwards(self) -> None:
        task = self.scheduler.latency_critical(zernel.current_request)
        self.scheduler.close()
        self.assertIsNone(task())

    def test_a_function_cannot_wait_for_itself(self) -> None:
        future = self.scheduler.submit(self.scheduler.close)
        error = future.exception(PATIENCE)
        self.assertIsInstance(error, zernel.MisuseError)
        self.assertEqual((error.errno, error.name), (errno.EDEADLK, "ZERNEL_WOULD_DEADLOCK"))
        self.assertEqual(self.scheduler.submit(int).result(PATIENCE), 0)

    def test_with_closes(self) -> None:
        with self.scheduler as scheduler:
            future = scheduler.submit(int)
        self.assertTrue(future.done())

    def test_a_forgotten_one_ends_its_threads(self) -> None:
        scheduler = scheduler_of()
        scheduler.submit(int).result(PATIENCE)
        threads = list(scheduler._core.pools[False]._threads)
        del scheduler
        gc.collect()
        for thread in threads:
            thread.join(PATIENCE)
            self.assertFalse(thread.is_alive())

    def test_the_end_of_a_program_waits_for_calls(self) -> None:
        text = ("import os, zernel; s = zernel.Scheduler(mode='off')\n"
                # In one call each: two threads that print share a line now and then.
                "for n in range(3): s.submit(os.write, (1, b'%d\\n' % n))")
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(sorted(done.stdout.split()), ["0", "1", "2"])

    def test_a_child_of_fork(self) -> None:
        go = self.block()
        waiting = self.scheduler.submit(self.scheduler.latency_critical(int))
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                found = []
                for call in (lambda: self.scheduler.submit(int), waiting.result):
                    try:
                        call()
                        found.append("nothing")
                    except zernel.ForkedError as error:
                        found.append(error.name)
                # A task works, as a plain function does.
                found.append(self.scheduler.latency_critical(lambda: 5)())
                found.append(self.scheduler.get_metrics().completed)
                self.scheduler.close()
                os.write(writer, repr(found).encode())
            finally:
                os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(os.read(reader, 1000).decode(),
                         repr(["ZERNEL_FORKED", "ZERNEL_FORKED", 5, 1]))
        go.set()
        self.assertEqual(waiting.result(PATIENCE), 0)


class Configurations(unittest.TestCase):
    """Files."""

    def test_values(self) -> None:
        scheduler = scheduler_of(
            "scheduler:\n  gpu_id: 2\npriorities:\n  latency_critical: 2\n  best_effort: 5\n"
            "slices:\n  best_effort_us: 100\npreemption:\n  lanes: 9\n  linger_us: 5\n"
            "  bound_us: 700\n  release_word: gpu\nresources:\n  workers: 3\n  queue: 11\nmonitoring:\n  window: 2\n"
            "policy:\n  name: rr\n")
        self.addCleanup(scheduler.close)
        self.assertEqual(scheduler.config, {
            "gpu_id": 2, "lc_level": 2, "be_level": 5, "lc_slice_us": None, "be_slice_us": 100,
            "requests": True, "lanes": 9, "linger_us": 5.0, "bound_us": 700.0,
            "release_word": "gpu", "inline": False,
            "workers": 3, "queue": 11, "policy": "rr", "window": 2})
        self.assertEqual(scheduler.latency_critical(int).level, 2)
        self.assertEqual(scheduler.best_effort(int).level, 5)
        self.assertEqual(scheduler.best_effort(int, priority=7).level, 7)
        for _ in range(5):
            scheduler.latency_critical(int)()
        self.assertEqual(len(scheduler._core.counts.latest_us(True)), 2)

    def test_a_path(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "zernel.yaml")
            path.write_text("", encoding="utf-8")
            for name in (path, str(path)):
                zernel.Scheduler(name, 0, mode="off").close()

    def test_faults(self) -> None:
        for text, name in (("lanes: 4\n", "ZERNEL_CONFIG_UNKNOWN_FIELD"),
                           ("preemption:\n  lanes: 65\n", "ZERNEL_CONFIG_OUT_OF_RANGE"),
                           ("preemption:\n  lanes: many\n", "ZERNEL_CONFIG_WRONG_TYPE"),
                           ("priorities:\n  best_effort: 8\n", "ZERNEL_CONFIG_NO_LEVEL"),
                           ("policy:\n  name: best\n", "ZERNEL_CONFIG_UNKNOWN_WORD"),
                           ("a: [\n", "ZERNEL_CONFIG_NOT_YAML")):
            with self.subTest(name=name), self.assertRaises(zernel.ConfigError) as caught:
                scheduler_of(text)
            self.assertEqual(caught.exception.name, name)
            self.assertIn(".yaml", caught.exception.strerror)
        with self.assertRaises(zernel.ConfigError) as caught:
            zernel.Scheduler("/nonexistent/zernel.yaml")
        self.assertEqual((caught.exception.errno, caught.exception.name),
                         (errno.ENOENT, "ZERNEL_CONFIG_UNREADABLE"))
        with self.assertRaises(TypeError):
            zernel.Scheduler(3)
        with self.assertRaises(zernel.MisuseError):
            zernel.Scheduler(mode="on")


class Numbers(unittest.TestCase):
    """Metrics."""

    def test_attributes_and_items(self) -> None:
        with scheduler_of() as scheduler:
            scheduler.latency_critical(int)()
            metrics = scheduler.get_metrics()
        self.assertEqual(metrics["completed"], metrics.completed)
        self.assertEqual(dict(metrics)["submitted"], 1)
        self.assertEqual(len(dict(metrics)), len(metrics))
        with self.assertRaises(KeyError):
            metrics["__init__"]
        for name in ("request_p50_us", "request_p99_us", "gpu_utilization", "total_preemptions",
                     "times_preempted", "best_effort_p99_us"):
            self.assertIsNone(metrics[name], name)
        self.assertGreater(metrics.p50_latency_us, 0)
        self.assertEqual(metrics.slo_violations, 0)

    def test_percentiles(self) -> None:
        self.assertIsNone(percentile([], 0.5))
        self.assertEqual(percentile([3], 0.99), 3)
        hundred = list(range(1, 101))
        self.assertEqual([percentile(hundred, share) for share in (0, 0.5, 0.99, 1)],
                         [1, 50, 99, 100])

    def test_the_share_of_a_busy_gpu(self) -> None:
        before = Busy(busy_ns=100, at_ns=1_000)
        self.assertEqual(Busy(600, 2_000).share_since(before), 0.5)
        self.assertEqual(Busy(9_000, 2_000).share_since(before), 1.0)
        self.assertIsNone(before.share_since(before))


if __name__ == "__main__":
    unittest.main()
