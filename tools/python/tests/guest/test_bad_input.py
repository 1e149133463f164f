# SPDX-License-Identifier: MIT OR Apache-2.0
"""Bad input: each case has an exception of its own and changes nothing."""

import contextlib
import ctypes
import mmap
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import page
import zernel
from cuda import Context
from harness import PATIENCE_S, wait_until
from lab import LATE_US, TICK_NS, Case, slots

PAGE = Path(__file__).resolve().parents[2] / "runtime.rst"
TRACE = Path("/proc/sys/debug/exception-trace")
BIG = 1 << 64
CONFIG = "resources:\n  workers: 1\n  queue: 1\n"


class Attribute:
    """An object with attributes."""

    def __init__(self, **attributes: object) -> None:
        self.__dict__.update(attributes)


def with_mode(mode: str, call: Callable[[], object]) -> object:
    """Makes a call with a value of `ZERNEL`."""
    os.environ["ZERNEL"] = mode
    try:
        return call()
    finally:
        del os.environ["ZERNEL"]


def in_child(call: Callable[[], object]) -> object:
    """Makes a call in a child of `fork()`, and raises an exception of zernel that it raised."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            call()
        except zernel.Error as error:
            os.write(writer, f"{type(error).__name__} {error.errno} {error.name}".encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as file:
        said = file.read().split()
    if not said:
        raise AssertionError("the child raised nothing")
    raise getattr(zernel, said[0])(int(said[1]), "of a child", said[2])


class Table(Case):
    """The table of Documentation/runtime.rst."""

    def setUp(self) -> None:
        super().setUp()
        self.runtime = self.attach()
        self.own, self.gone = self.context.stream(), self.context.stream()
        self.captured = self.context.stream()
        self.cuda.call("cuStreamDestroy_v2", self.handle(self.gone))
        self.other = Context(self.cuda)
        self.foreign = self.other.stream()
        self.cuda.set_current(self.context)
        self.replayed, self.launched = self.graph()
        self.replayed.instantiated(self.launched)
        self.busy = self.replayed.request(expected_us=LATE_US, exact=True)
        self.recorded, _ = self.graph()
        self.closed_graph, _ = self.graph()
        self.closed_graph.close()
        self.plain, self.gone_graph = (self.graph(is_recorded=False)[1] for _ in range(2))
        self.cuda.call("cuGraphExecDestroy", self.handle(self.gone_graph))
        self.context.capture(self.captured)
        self.held = self.runtime.request(expected_us=LATE_US, exact=True)
        self.over = self.runtime.request(expected_us=LATE_US, exact=True)
        self.over.cancel()
        self.closed = zernel.attach(mode="off")
        self.closed.close()
        self.file = Path(f"/tmp/zernel-{os.getpid()}.yaml")
        self.file.write_text(CONFIG, encoding="utf-8")
        self.scheduler = zernel.Scheduler(self.file, mode="off")
        self.ended = zernel.Scheduler(mode="off")
        self.ended.close()
        self.go = threading.Event()

    def graph(self, is_recorded: bool = True) -> tuple[zernel.GraphRequests | None, int]:
        """A graph to launch, in which a request is recorded."""
        stream = self.context.stream()
        self.context.capture(stream)
        requests = self.runtime.record(stream) if is_recorded else None
        self.context.work(TICK_NS, stream)
        return requests, self.context.instantiate(self.context.end_capture(stream))

    def record_many(self) -> None:
        """A graph more than there are lanes."""
        with contextlib.ExitStack() as kept:
            while True:
                kept.enter_context(self.runtime.record(self.captured))

    def state(self) -> tuple:
        """All that a case must not change."""
        return (self.runtime.counters(), self.runtime.stats(), self.runtime._own_class(),
                zernel.stats()["slots"], zernel.stats()["classes"], self.held.is_over,
                self.cuda.current(), self.scheduler.get_metrics().submitted)

    def without_context(self) -> None:
        """Attaches in a thread that has none."""
        found = []

        def attach() -> None:
            try:
                zernel.attach()
            except zernel.Error as error:
                found.append(error)

        thread = threading.Thread(target=attach)
        thread.start()
        thread.join()
        raise found[0]

    def of_text(self, text: str) -> None:
        """A scheduler with a file."""
        self.file.write_text(text, encoding="utf-8")
        zernel.Scheduler(self.file)

    def of_full_queue(self) -> None:
        """One call runs, one waits, and this one has no room."""
        began = threading.Event()

        def wait() -> None:
            began.set()
            self.go.wait(PATIENCE_S)

        if not self.go.is_set():
            self.scheduler.submit(wait)
            began.wait(PATIENCE_S)
            self.scheduler.submit(int)
        self.scheduler.submit(int)

    def cases(self) -> dict[str, Callable[[], object]]:
        """Each by its name in the page."""
        attach, request, misc = zernel.attach, self.runtime.request, self.scheduler
        set_level, on_device = self.runtime.set_level, zernel.Runtime.on_device
        record, instantiated = self.runtime.record, self.recorded.instantiated
        nan, inf = float("nan"), float("inf")

        def generate():
            yield 1

        return {
            "an unknown mode": lambda: attach(mode="on"),
            "an unknown release word": lambda: attach(release_word="bar1"),
            "no library for a GPU's word":
                lambda: attach(release_word="gpu", mode="require", tsg=self.runtime.tsg),
            "an unknown option": lambda: attach(colour="red"),
            "too many lanes": lambda: attach(lanes=65),
            "a short bound": lambda: attach(bound_us=0.5),
            "a long linger": lambda: attach(linger_us=10_000_001),
            "a mode in the environment": lambda: with_mode("on", attach),
            "no context": self.without_context,
            "several TSGs": attach,
            "another TSG": lambda: attach(tsg=BIG - 1),
            "no runtime": lambda: zernel.Runtime.request(None),
            "an unknown flag": lambda: request(exactly=True),
            "a flag without its stream": lambda: request(inline=True),
            "a foreign stream": lambda: request(Attribute(cuda_stream=self.foreign)),
            "a destroyed stream": lambda: request(self.gone),
            "a misaligned stream": lambda: request(self.own + 1),
            "a captured stream": lambda: request(self.captured),
            "ready of an ended one": self.over.ready,
            "done of an ended one": self.over.done,
            "cancel of an ended one": self.over.cancel,
            "done in a stream of an ended one": lambda: self.over.done_in(self.own),
            "done in a foreign stream": lambda: self.held.done_in(self.foreign),
            "done in a destroyed stream": lambda: self.held.done_in(self.gone),
            "done in a captured stream": lambda: self.held.done_in(self.captured),
            "a level above 7": lambda: set_level(8),
            "a short time slice": lambda: set_level(0, timeslice_us=9),
            "no file": lambda: zernel.Scheduler("/nonexistent/zernel.yaml"),
            "a folder for a file": lambda: zernel.Scheduler("/tmp"),
            "an unknown field of a file": lambda: self.of_text("lane: 4\n"),
            "no such device": lambda: on_device(2),
            "a negative device": lambda: on_device(-1),
            "no lanes": lambda: attach(lanes=0),
            "lanes beyond 64 bits": lambda: attach(lanes=BIG),
            "a TSG beyond 64 bits": lambda: attach(tsg=BIG),
            "lanes as text": lambda: attach(lanes="4"),
            "a negative key": lambda: request(key=-1),
            "a key beyond 64 bits": lambda: request(key=BIG),
            "a key that is no whole number": lambda: request(key=1.5),
            "a key that is no text": lambda: request(key="\ud800"),
            "too many features": lambda: request(features=range(9)),
            "a feature beyond 64 bits": lambda: request(features=[BIG]),
            "a fraction for a feature": lambda: request(features=[0.5]),
            "a number for features": lambda: request(features=3),
            "a promise without a deadline": lambda: request(admit_us=1),
            "a negative time": lambda: request(expected_us=-1),
            "a time that is no number": lambda: request(slo_ms=nan),
            "a time without end": lambda: misc.latency_critical(slo_ms=inf),
            "a time as text": lambda: request(slo_ms="1"),
            "a negative stream": lambda: request(-1),
            "a stream beyond 64 bits": lambda: self.held.done_in(BIG),
            "a truth value for a stream": lambda: request(True),
            "a stream of an unknown protocol":
                lambda: request(Attribute(__cuda_stream__=lambda: (1, self.own))),
            "an object without a stream": lambda: request(object()),
            "a negative level": lambda: set_level(-1),
            "a level as text": lambda: set_level("lc"),
            "a long time slice": lambda: set_level(0, timeslice_us=10_000_001),
            "an empty name of a file": lambda: zernel.Scheduler(""),
            "an empty name of the device": lambda: attach(device="", mode="require"),
            "a device that is another file": lambda: attach(device="/dev/null", mode="require"),
            "a library that is missing":
                lambda: attach(library="/nonexistent/libcuda.so.1", mode="require"),
            "a request without a runtime": lambda: zernel.Request(),
            "a closed runtime": self.closed.request,
            "a closed scheduler": lambda: self.ended.submit(int),
            "a full queue": self.of_full_queue,
            "a close within its own call":
                lambda: self.scheduler.submit(self.scheduler.close).result(PATIENCE_S),
            "a task of another scheduler": lambda: misc.submit(self.ended.best_effort(int)),
            "a generator for a task": lambda: misc.latency_critical(generate),
            "no function for a task": lambda: misc.submit(3),
            "record outside a capture": lambda: record(self.own),
            "record in a foreign stream": lambda: record(self.foreign),
            "record in a destroyed stream": lambda: record(self.gone),
            "record without a free lane": self.record_many,
            "no graph to launch": lambda: instantiated(0),
            "a graph to launch of another": lambda: instantiated(self.plain),
            "a destroyed graph to launch": lambda: instantiated(self.gone_graph),
            "a graph with a request under way": lambda: self.replayed.instantiated(self.launched),
            "a begin before instantiation": self.recorded.request,
            "a graph without a record": lambda: zernel.GraphRequests(),
            "a graph that has ended": self.closed_graph.request,
            "a graph's request in a stream": lambda: self.replayed.request(self.own, inline=True),
            "a graph in a child of fork()": lambda: in_child(lambda: record(self.captured)),
            "a graph to launch as text": lambda: instantiated("1"),
            "a negative graph to launch": lambda: instantiated(-1),
            "a class in a child of fork()": lambda: in_child(lambda: set_level(0)),
            "a call in a child of fork()": lambda: in_child(lambda: misc.submit(int)),
        }

    def test_each_case(self) -> None:
        found, cases = page.bad_input(PAGE), self.cases()
        wanted = {name: python for name, (_, python) in found.items() if python}
        self.assertEqual(sorted(cases), sorted(wanted))
        # Calls that they make are made before.
        with self.assertRaises(zernel.Error):
            cases["a close within its own call"]()
        with self.assertRaises(zernel.QueueFullError):
            cases["a full queue"]()
        before, names = self.state(), set()
        for name, call in cases.items():
            if name == "a close within its own call":
                continue
            with self.subTest(name):
                with self.assertRaises(Exception) as caught:
                    call()
                error, (kind, *rest) = caught.exception, wanted[name]
                self.assertEqual(type(error).__name__, kind)
                if isinstance(error, zernel.Error):
                    told = rest[0] if rest else found[name][0]
                    self.assertEqual(error.name, f"ZERNEL_{told}")
                    self.assertGreater(error.errno, 0)
                    self.assertTrue(error.strerror)
                    names.add(error.name)
                self.assertEqual(self.state(), before)
        self.assertGreater(len(names), 15)
        self.go.set()
        for request in (self.held, self.busy):
            request.ready()
            request.done()
        self.context.end_capture(self.captured)
        with self.runtime.request(Attribute(__cuda_stream__=lambda: (0, self.own))) as good:
            self.assertIsNone(good.idle)
        self.scheduler.close()

    def test_a_close_within_its_own_call(self) -> None:
        self.fails(zernel.MisuseError, "ZERNEL_WOULD_DEADLOCK",
                   self.cases()["a close within its own call"])
        self.assertEqual(self.scheduler.submit(int).result(PATIENCE_S), 0)
        self.scheduler.close()


class NoErrors(Case):
    """Input that is no error, and harms nobody but the program."""

    def test_a_begin_within_a_request(self) -> None:
        runtime = self.attach(lanes=1)
        with runtime.request(exact=True) as outer:
            with runtime.request(exact=True) as inner:
                inner.ready()
            self.assertEqual((outer.idle, inner.idle), (None, "no_lane"))
            self.assertFalse(outer.is_over)
        self.assertEqual((runtime.counters()["no_lane"], runtime.counters()["begun"]), (1, 1))

    def test_two_runtimes_of_a_context(self) -> None:
        runtimes = [self.attach(lanes=2) for _ in range(2)]
        late = {"expected_us": LATE_US, "exact": True}
        requests = [[runtime.request(**late) for _ in range(2)] for runtime in runtimes]
        for runtime, own in zip(runtimes, requests):
            self.assertEqual([request.idle for request in own], [None, None])
            self.assertEqual(runtime.request(**late).idle, "no_lane")
            self.assertEqual(runtime.counters()["no_lane"], 1)
        self.assertEqual(runtimes[0].stats()["in_flight"], 4)
        runtimes[0].close()
        # The other one goes on.
        requests[1][0].cancel()
        self.assertIsNone(runtimes[1].request(**late).idle)

    def test_threads_without_a_context(self) -> None:
        runtime, found = self.attach(), []

        def serve(request: zernel.Request) -> None:
            found.append(self.cuda.current())
            with runtime.request(exact=True) as own:
                found.append(own.idle)
            # One that another thread began.
            request.ready()
            request.done()

        request = runtime.request(expected_us=LATE_US, exact=True)
        thread = threading.Thread(target=serve, args=(request,))
        thread.start()
        thread.join()
        self.assertEqual((found, request.is_over), ([None, None], True))

    def test_hostile_words(self) -> None:
        runtime, stored = self.attach(), random.Random(7)
        start, end = slots()
        self.assertGreaterEqual(end - start, mmap.PAGESIZE)
        for number in range(200):
            late = {"expected_us": LATE_US} if number % 2 else {}
            request = runtime.request(exact=True, **late)
            for word in words(start, 5 * 16):
                word.value = stored.getrandbits(32)
            request.ready()
            request.cancel() if number % 3 == 0 else request.done()
        counters = runtime.counters()
        self.assertEqual(counters["begun"] + counters["refused"] + counters["no_lane"], 200)
        self.assertEqual(runtime.stats()["begun"], counters["begun"])

    def test_a_page_that_is_unmapped(self) -> None:
        before = zernel.stats()["tsgs"]
        # The kernel tells of such ends, and the runner takes what it tells for a fault.
        told = TRACE.read_text(encoding="ascii")
        TRACE.write_text("0", encoding="ascii")
        self.addCleanup(TRACE.write_text, told, encoding="ascii")
        for call, wanted in (("munmap(start, end - start)", signal.SIGSEGV),
                             ("madvise(start, end - start, 4)", signal.SIGBUS)):
            paths = sys.path[:2]
            done = subprocess.run([sys.executable, "-c", f"""
import ctypes, sys
sys.path[:0] = {paths!r}
import zernel
from cuda import Context, Cuda
from lab import slots

context = Context(Cuda())
runtime = zernel.attach(mode="require")
held = runtime.request(exact=True)
assert held.idle is None
start, end = slots()
libc = ctypes.CDLL(None)
for name in ("munmap", "madvise"):
    getattr(libc, name).argtypes = [ctypes.c_size_t, ctypes.c_size_t] + [ctypes.c_int] * (
        name == "madvise")
assert libc.{call} == 0
request = runtime.request(exact=True)
request.ready()
print("it went on")
"""], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            self.assertEqual((done.returncode, done.stdout), (-wanted, ""), done.stderr)
            # That of this process is left alone.
            wait_until("the GPU is given back", lambda: zernel.stats()["tsgs"] == before)
            self.assertEqual(zernel.stats()["slots"], 0)


def words(start: int, count: int) -> list:
    """The words of slots."""
    return [ctypes.c_uint32.from_address(start + 4 * number) for number in range(count)]


class Ends(Case):
    """Ends of requests that fail."""

    def test_an_end_in_a_captured_stream(self) -> None:
        runtime = self.attach(lanes=1)
        stream = self.context.stream()
        with self.assertRaises(zernel.MisuseError) as caught:
            with runtime.request(stream, exact=True) as request:
                request.ready()
                self.context.capture(stream)
        self.assertEqual(caught.exception.name, "ZERNEL_CAPTURING")
        self.context.end_capture(stream)
        # It is done nevertheless, and its lane free.
        self.assertTrue(request.is_over)
        with runtime.request(exact=True) as following:
            self.assertIsNone(following.idle)
            self.assertEqual(runtime.stats()["done"], 1)
