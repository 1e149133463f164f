# SPDX-License-Identifier: MIT OR Apache-2.0
"""Threads of a scheduler: what they keep, how they fail, and ends from anywhere."""

import concurrent.futures
import errno
import gc
import heapq
import signal
import threading
import time
import unittest
import warnings
import weakref
from unittest import mock

import zernel
from test_scheduler import PATIENCE, Case, scheduler_of
from zernel._pool import Pool


class Thing:
    """Something that is kept or not."""


class Memory(Case):
    """Nothing of a call is kept, without a collection of cycles."""

    def setUp(self) -> None:
        super().setUp()
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)

    def is_gone(self, gone: weakref.ref) -> bool:
        """The thread lets go of a call before it makes another one."""
        self.scheduler.submit(int).result(PATIENCE)
        return gone() is None

    def test_arguments_end_with_the_call(self) -> None:
        thing = Thing()
        gone = weakref.ref(thing)
        future = self.scheduler.submit(lambda value: 1, (thing,))
        del thing
        self.assertEqual(future.result(PATIENCE), 1)
        # Before the result is there.
        self.assertIsNone(gone())
        self.assertTrue(future.done())

    def test_results_end_with_the_future(self) -> None:
        future = self.scheduler.submit(Thing)
        gone = weakref.ref(future.result(PATIENCE))
        self.scheduler.submit(int).result(PATIENCE)
        self.assertIsNotNone(gone())
        del future
        self.assertTrue(self.is_gone(gone))

    def test_exceptions_end_with_the_future(self) -> None:
        def fail(thing: Thing) -> None:
            raise LookupError(thing)

        thing = Thing()
        gone = weakref.ref(thing)
        future = self.scheduler.submit(fail, (thing,))
        del thing
        # Not assertRaises(), which clears the frames that are looked at here.
        try:
            future.result(PATIENCE)
        except LookupError:
            pass
        else:
            self.fail("there is no exception")
        del future
        self.assertTrue(self.is_gone(gone))

    def test_arguments_end_when_a_call_is_cancelled(self) -> None:
        self.block()
        thing = Thing()
        gone = weakref.ref(thing)
        future = self.scheduler.submit(self.scheduler.latency_critical(id), (thing,))
        del thing
        self.assertIsNotNone(gone())
        self.assertTrue(future.cancel())
        self.assertIsNone(gone())

    def test_a_future_has_no_cycle(self) -> None:
        future = self.scheduler.submit(int)
        future.result(PATIENCE)
        gone = weakref.ref(future)
        del future
        self.assertTrue(self.is_gone(gone))


class Beginning(unittest.TestCase):
    """Threads that do not come to their first call."""

    def pool(self, workers: int, prepare) -> Pool:
        """One of so many threads; counts calls that were dropped."""
        self.dropped = []
        return Pool("test", workers, 100, prepare, lambda: None, lambda: self.dropped.append(1))

    def test_all_that_wait_get_the_exception(self) -> None:
        go, fault = threading.Event(), OSError("no context")

        def prepare() -> None:
            go.wait(PATIENCE)
            raise fault

        pool = self.pool(2, prepare)
        futures = [pool.submit(0, int) for _ in range(9)]
        self.assertTrue(futures[4].cancel())
        go.set()
        for number, future in enumerate(futures):
            if number != 4:
                self.assertIs(future.exception(PATIENCE), fault)
        pool.join()
        self.assertEqual((pool.waiting, len(self.dropped)), (0, 8))
        # The next call has another try.
        self.assertIs(pool.submit(0, int).exception(PATIENCE), fault)
        pool.stop(False)
        pool.join()

    def test_a_thread_that_is_refused(self) -> None:
        pool, go = self.pool(2, lambda: None), threading.Event()
        refused = mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("refused"))
        with refused, self.assertRaisesRegex(RuntimeError, "refused"):
            pool.submit(0, int)
        self.assertEqual((pool.waiting, pool.is_own_thread()), (0, False))
        first = pool.submit(0, lambda: go.wait(PATIENCE))
        with refused:
            # The one that is there makes it.
            second = pool.submit(0, int)
        go.set()
        self.assertEqual((first.result(PATIENCE), second.result(PATIENCE)), (True, 0))
        pool.stop(False)
        pool.join()

    def test_another_thread_makes_them(self) -> None:
        go, number = threading.Event(), iter(range(9))

        def prepare() -> None:
            if next(number) == 0:
                raise OSError("no context")
            go.wait(PATIENCE)

        pool = self.pool(2, prepare)
        with pool._changed:
            # The first thread fails when there is another one.
            futures = [pool.submit(0, int) for _ in range(9)]
            self.assertEqual(len(pool._threads), 2)
        go.set()
        self.assertEqual([future.result(PATIENCE) for future in futures], [0] * 9)
        pool.stop(False)
        pool.join()

    def test_a_warning_that_is_an_error(self) -> None:
        scheduler = scheduler_of()
        self.addCleanup(scheduler.close)
        core = scheduler._core
        lost = zernel.LostError(errno.EOWNERDEAD, "it is lost", "ZERNEL_CONTEXT_LOST")
        with mock.patch.object(core, "runtime", mock.Mock(**{"make_current.side_effect": lost})), \
                warnings.catch_warnings():
            warnings.simplefilter("error")
            error = scheduler.submit(int).exception(PATIENCE)
        self.assertIsInstance(error, RuntimeWarning)
        metrics = scheduler.get_metrics()
        self.assertEqual((metrics.submitted, metrics.failed, metrics.waiting), (1, 1, 0))


class Interrupts(Case):
    """`close()` in a signal handler that comes at a bad time."""

    def setUp(self) -> None:
        super().setUp()
        self.closed: list[bool] = []
        before = signal.signal(signal.SIGUSR1, self.handle)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)

    def handle(self, *_: object) -> None:
        """The handler. It must come back while a lock is held."""
        self.scheduler.get_metrics()
        self.scheduler.close()
        self.closed.append(self.scheduler._core.closed)

    def ends(self) -> None:
        """The end comes, by another thread."""
        end = time.monotonic() + PATIENCE
        while not self.scheduler._core.closed and time.monotonic() < end:
            time.sleep(0.001)
        self.assertTrue(self.scheduler._core.closed)
        with self.assertRaises(zernel.ClosedError):
            self.scheduler.submit(int)

    def test_in_a_submit(self) -> None:
        def push(*arguments: object) -> None:
            real(*arguments)
            signal.raise_signal(signal.SIGUSR1)

        real = heapq.heappush
        self.scheduler.submit(int).result(PATIENCE)
        with mock.patch.object(heapq, "heappush", push):
            future = self.scheduler.submit(int)
        self.assertEqual(self.closed, [False])
        self.assertEqual(future.result(PATIENCE), 0)
        self.ends()

    def test_in_a_wait_for_a_result(self) -> None:
        go = self.block()
        future = self.scheduler.submit(self.scheduler.latency_critical(lambda: 5))
        real = future._condition.wait

        def wait(timeout: float | None = None) -> bool:
            # The lock is held, which the thread needs to give the result.
            signal.raise_signal(signal.SIGUSR1)
            go.set()
            return real(timeout)

        with mock.patch.object(future._condition, "wait", wait):
            self.assertEqual(future.result(PATIENCE), 5)
        self.assertEqual(self.closed, [False])
        self.ends()

    def test_in_the_counts(self) -> None:
        class Times(list):
            """Of the latest calls."""

            def append(self, value: float) -> None:
                """Is interrupted."""
                super().append(value)
                signal.raise_signal(signal.SIGUSR1)

        task = self.scheduler.latency_critical(int)
        self.scheduler.submit(int).result(PATIENCE)
        self.scheduler._core.counts._critical = Times()
        self.assertEqual(task(), 0)
        self.assertEqual(self.closed, [False])
        self.ends()

    def test_in_another_close(self) -> None:
        core, go = self.scheduler._core, self.block()
        real = core.pools[True].join

        def join() -> None:
            if not self.closed:
                signal.raise_signal(signal.SIGUSR1)
            go.set()
            real()

        with mock.patch.object(core.pools[True], "join", join):
            self.scheduler.close()
        # The first one waits, as ever.
        self.assertEqual((self.closed, core.closed), ([False], True))

    def test_elsewhere_it_waits(self) -> None:
        future = self.scheduler.submit(lambda: 5)
        signal.raise_signal(signal.SIGUSR1)
        self.assertEqual((self.closed, future.done()), ([True], True))


class Callbacks(Case):
    """`close()` in callbacks of futures."""

    def test_in_a_thread_of_the_scheduler(self) -> None:
        go, found = threading.Event(), []

        def close(_: concurrent.futures.Future) -> None:
            try:
                self.scheduler.close()
            except zernel.MisuseError as error:
                found.append(error.name)

        future = self.scheduler.submit(go.wait, (PATIENCE,))
        future.add_done_callback(close)
        go.set()
        future.result(PATIENCE)
        self.scheduler.submit(int).result(PATIENCE)
        self.assertEqual(found, ["ZERNEL_WOULD_DEADLOCK"])

    def test_when_it_is_cancelled(self) -> None:
        go = self.block()
        future = self.scheduler.submit(self.scheduler.latency_critical(int))
        future.add_done_callback(lambda _: self.scheduler.close())
        # The callback comes back, though a call is running.
        self.assertTrue(future.cancel())
        with self.assertRaises(zernel.ClosedError):
            self.scheduler.submit(int)
        go.set()
        self.scheduler.close()
        self.assertTrue(self.scheduler._core.closed)

    def test_a_thread_of_another_scheduler_waits(self) -> None:
        other = scheduler_of()
        self.addCleanup(other.close)

        def serve() -> list[bool]:
            with scheduler_of() as inner:
                futures = [inner.submit(int) for _ in range(9)]
            return [future.done() for future in futures]

        self.assertEqual(other.submit(serve).result(PATIENCE), [True] * 9)


if __name__ == "__main__":
    unittest.main()
