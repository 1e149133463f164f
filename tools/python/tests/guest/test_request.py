# SPDX-License-Identifier: MIT OR Apache-2.0
"""Requests of a Python program on the software GPU."""

import os
import threading
from pathlib import Path

import zernel
from cuda import Context
from harness import tune, wait_until
from lab import LATE_US, TICK_NS, Case

COUNT = 10_000


class Requests(Case):
    """From begin to done."""

    def test_a_request_goes_through(self) -> None:
        runtime = self.attach()
        self.assertIsNone(runtime.inert)
        self.assertEqual(runtime.level, 0)
        for spec, is_now in (({}, True), ({"expected_us": LATE_US}, False)):
            with runtime.request(exact=True, **spec) as request:
                self.assertIsNone(request.idle)
                self.assertIn(request.lane, range(4))
                self.assertGreater(request.number, 0)
                if is_now:
                    wait_until("it is triggered", lambda: runtime.stats()["triggers"] == 1)
                else:
                    self.assertAlmostEqual(request.predicted_us, LATE_US, delta=1)
                self.assertFalse(request.is_ready)
                request.ready()
                request.ready()
                self.assertTrue(request.is_ready)
                self.context.work(TICK_NS)
                self.context.wait()
            self.assertTrue(request.is_over)
        # A done word is seen at the next begin of its slot.
        runtime.request(expected_us=LATE_US, exact=True).cancel()
        stats = runtime.stats()
        self.assertEqual((stats["begun"], stats["done"], stats["cancelled"]), (3, 2, 1))
        counters = runtime.counters()
        self.assertEqual(counters.pop("begun"), 3)
        self.assertFalse(any(counters.values()), counters)

    def test_a_word_of_the_gpu(self) -> None:
        # The stand-in for CUDA is one for GDRCopy.
        folder = Path("/lib/x86_64-linux-gnu")
        library = folder / "libgdrapi.so.2"
        library.symlink_to(folder / "libcuda.so.1")
        self.addCleanup(library.unlink)
        runtime = self.attach(release_word="gpu")
        for number in range(10):
            late = {"expected_us": LATE_US} if number % 2 else {}
            with runtime.request(exact=True, **late) as request:
                self.assertIsNone(request.idle)
                request.ready()
                self.context.work(TICK_NS)
                self.context.wait()
        counters = runtime.counters()
        self.assertEqual((counters["begun"], counters["failed_calls"]), (10, 0))

    def test_a_deadline_is_promised(self) -> None:
        runtime = self.attach()
        promise = {"exact": True, "key": "promised", "slo_ms": 9_000, "admit_us": 3_000_000}
        other = runtime.request(**promise)
        self.assertEqual((other.idle, other.earliest_ms), ("refused", None))
        tune("order", "edf")
        self.addCleanup(tune, "order", "fifo")
        first = runtime.request(**promise)
        self.assertIsNone(first.idle)
        promise |= {"slo_ms": 2_000, "admit_us": 1_000_000}
        late = runtime.request(**promise)
        self.assertEqual(late.idle, "late")
        self.assertGreater(late.earliest_ms, 2_000)
        self.assertLess(late.earliest_ms, 9_000)
        promise["slo_ms"] = late.earliest_ms + 1
        second = runtime.request(**promise)
        self.assertEqual((second.idle, second.earliest_ms), (None, None))
        for request in (first, second):
            request.ready()
            request.done()
        self.assertEqual(runtime.stats()["done"], 2)
        self.assertEqual(runtime.counters()["refused"], 2)

    def test_none_of_many_is_lost(self) -> None:
        runtime = self.attach()
        stream = self.context.stream()
        for number in range(COUNT):
            late = {"expected_us": LATE_US} if number % 2 else {}
            given = stream if number % 3 == 0 else None
            with runtime.request(given, exact=True, key=number % 7, **late) as request:
                self.assertIsNone(request.idle)
                request.ready()
                self.context.work(10_000, stream)
                if given is None:
                    self.context.wait(stream)
        self.context.wait(stream)
        # The done words of the last ones are seen when their slots begin again, or end.
        runtime.request(expected_us=LATE_US, exact=True).cancel()
        stats = runtime.stats()
        self.assertEqual(stats["begun"], COUNT + 1)
        self.assertLessEqual(stats["in_flight"], 3)
        self.assertEqual((stats["expired"], stats["cancelled"]), (0, 1))
        self.assertEqual(stats["done"] + stats["in_flight"], COUNT)
        counters = runtime.counters()
        self.assertEqual(counters.pop("begun"), COUNT + 1)
        self.assertFalse(any(counters.values()), counters)
        self.assertGreater(zernel.stats()["slots"], 0)
        runtime.clear_level()
        runtime.close()
        wait_until("its slots are free", lambda: zernel.stats()["slots"] == 0)

    def test_done_in_a_stream(self) -> None:
        runtime = self.attach(lanes=1)
        stream = self.context.stream()
        release = self.context.hold(stream)
        with runtime.request(stream, exact=True) as request:
            request.ready()
            self.context.work(TICK_NS, stream)
        # Its lane is not free before.
        other = runtime.request(exact=True)
        self.assertEqual(other.idle, "no_lane")
        other.ready()
        other.done()
        release()
        self.context.wait(stream)
        with runtime.request(exact=True) as following:
            self.assertIsNone(following.idle)
            self.assertEqual(runtime.stats()["done"], 1)
        self.assertEqual(runtime.counters()["no_lane"], 1)

    def test_inline_in_a_stream(self) -> None:
        runtime = self.attach()
        stream = self.context.stream()
        with runtime.request(stream, inline=True, expected_us=LATE_US, exact=True) as request:
            self.context.work(TICK_NS, stream)
            self.assertFalse(self.context.is_idle(stream), "the work is behind the wait")
            request.ready()
            self.context.wait(stream)

    def test_an_exception_ends_a_request(self) -> None:
        runtime = self.attach()
        for is_ready in (False, True):
            with self.assertRaises(KeyError):
                with runtime.request(exact=True) as request:
                    if is_ready:
                        request.ready()
                    raise KeyError("of the block")
            self.assertTrue(request.is_over)
        # One that is forgotten is cancelled.
        forgotten = runtime.request(exact=True)
        del forgotten
        taken = [runtime.request(expected_us=LATE_US, exact=True) for _ in range(4)]
        stats = runtime.stats()
        self.assertEqual((stats["done"], stats["cancelled"]), (1, 2))
        for request in taken:
            self.assertIsNone(request.idle)
            request.cancel()

    def test_threads_share_lanes(self) -> None:
        runtime = self.attach(lanes=16)
        begun, failures = [], []

        def serve() -> None:
            try:
                runtime.make_current()
                stream = self.context.stream()
                for number in range(250):
                    with runtime.request(stream if number % 2 else None, exact=True) as request:
                        begun.append(request.idle is None)
                        request.ready()
                        self.context.work(10_000, stream)
                        if number % 2 == 0:
                            self.context.wait(stream)
                self.context.wait(stream)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=serve) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        counters = runtime.counters()
        self.assertEqual(counters["begun"], sum(begun))
        self.assertEqual(counters["begun"] + counters["no_lane"], 2_000)
        self.assertEqual((counters["refused"], counters["failed_calls"]), (0, 0))
        self.assertEqual(runtime.stats()["begun"], counters["begun"])


class Ends(Case):
    """Of processes, contexts and runtimes."""

    def test_a_child_does_nothing(self) -> None:
        runtime = self.attach()
        request = runtime.request(expected_us=LATE_US, exact=True)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                other = runtime.request()
                found = [runtime.inert.name, other.idle, request.idle]
                other.ready()
                other.done()
                request.ready()
                request.cancel()
                for call in (runtime.stats, runtime.make_current, lambda: runtime.level,
                             lambda: runtime.set_level(0)):
                    try:
                        call()
                        found.append("nothing")
                    except zernel.ForkedError as error:
                        found.append(error.name)
                runtime.close()
                os.write(writer, repr(found).encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(writer)
        said = os.read(reader, 4096).decode()
        self.assertEqual(said, repr(["ZERNEL_FORKED", "forked", None] + 4 * ["ZERNEL_FORKED"]))
        # The parent's is as it was.
        stats = runtime.stats()
        self.assertEqual((stats["in_flight"], stats["cancelled"]), (1, 0))
        request.ready()
        request.done()
        with runtime.request(exact=True) as following:
            self.assertIsNone(following.idle)
        self.assertEqual(runtime.counters()["forked"], 0)

    def test_a_lost_context(self) -> None:
        runtime = self.attach()
        self.context.fault()
        wait_until("the runtime sees it", lambda: runtime.request().idle in ("lost", "refused") and
                   runtime.inert is not None)
        self.assertIsInstance(runtime.inert, zernel.LostError)
        self.assertEqual(runtime.inert.name, "ZERNEL_CONTEXT_LOST")
        with runtime.request() as request:
            self.assertEqual(request.idle, "lost")
            request.ready()
        runtime.close()

    def test_a_closed_runtime_ends_its_requests(self) -> None:
        runtime = self.attach()
        request = runtime.request(expected_us=LATE_US, exact=True)
        runtime.close()
        self.fails(zernel.ClosedError, "ZERNEL_SHUT_DOWN", runtime.request)
        self.fails(zernel.ClosedError, "ZERNEL_SHUT_DOWN", runtime.stats)
        # The request keeps what it needs.
        request.ready()
        request.done()
        del request
        self.context.wait()

    def test_the_primary_context_of_a_device(self) -> None:
        self.context.destroy()
        self.assertIsNone(self.cuda.current())
        self.fails(zernel.MisuseError, "ZERNEL_NO_CONTEXT", zernel.attach)
        with zernel.Runtime.on_device(1, mode="require") as runtime:
            self.assertIsNone(self.cuda.current())
            runtime.make_current()
            self.assertIsNotNone(self.cuda.current())
            with runtime.request(exact=True) as request:
                self.assertIsNone(request.idle)
        wait_until("its TSGs are gone", lambda: zernel.stats()["tsgs"] == 0)

    def test_the_tsg_is_found_or_asked_for(self) -> None:
        first = zernel.attach(mode="require").tsg
        before = zernel.TsgsBefore()
        second = Context(self.cuda)
        error = self.fails(zernel.MisuseError, "ZERNEL_AMBIGUOUS_TSG", zernel.attach)
        self.assertIn(str(first), error.strerror)
        self.assertNotEqual(zernel.attach(mode="require", before=before).tsg, first)
        self.fails(zernel.MisuseError, "ZERNEL_WRONG_TSG", zernel.attach, tsg=1 << 60)
        self.assertEqual(zernel.attach(tsg=first).tsg, first)
        second.destroy()
