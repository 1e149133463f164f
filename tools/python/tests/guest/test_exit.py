# SPDX-License-Identifier: MIT OR Apache-2.0
"""The end of a process with requests and calls under way: the GPU is given back."""

import subprocess
import sys
import textwrap
from pathlib import Path

import zernel
from harness import PATIENCE_S, wait_until
from lab import Case

BEGIN = """
import multiprocessing, os, signal, sys, threading
sys.path[:0] = {paths!r}
import zernel
from cuda import Context, Cuda

context = Context(Cuda())
stream = context.stream()
s = zernel.Scheduler(mode="require")
runtime = s.runtime
began, never = threading.Event(), threading.Event()

@s.latency_critical
def answer(number):
    zernel.ready()
    context.work(10_000, stream)
    context.wait(stream)
    os.write(1, b"answer\\n")
    return number

@s.latency_critical(stream=lambda: stream)
def wait():
    began.set()
    never.wait()

@s.best_effort
def train():
    context.work(10_000)
    context.wait()

# One that holds the GPU, one that waits for its trigger, and one whose data is ready.
held = runtime.request(exact=True)
late = runtime.request(exact=True, expected_us=5e6)
ready = runtime.request(exact=True)
ready.ready()
assert runtime.level == 0 and held.idle is late.idle is ready.idle is None
futures = [s.submit(answer, (number,)) for number in range(8)] + [s.submit(train)]
"""
FOLLOWING = """
held.done(); late.done(); ready.done()
assert [future.result(60) for future in futures[:8]] == list(range(8))
with runtime.request(exact=True) as request:
    assert request.idle is None
"""


class Exits(Case):
    """Of a program of its own."""

    def setUp(self) -> None:
        """No context is needed here."""
        super().setUp()
        self.context.destroy()
        wait_until("its TSGs are gone", lambda: zernel.stats()["tsgs"] == 0)

    def run_program(self, text: str, status: int, error: str = "") -> list[str]:
        """Runs a program; its lines. The GPU is free then, and of use for another one."""
        paths = [str(Path(name).resolve()) for name in sys.path[:2]]
        begin = BEGIN.format(paths=paths)
        for part, wanted, said in ((text, status, error), (FOLLOWING, 0, "")):
            done = subprocess.run(
                [sys.executable, "-X", "faulthandler", "-c", begin + textwrap.dedent(part)],
                capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            self.assertEqual(done.returncode, wanted, done.stderr)
            self.assertIn(said, done.stderr)
            if not said:
                self.assertEqual(done.stderr, "")
            wait_until("the GPU is given back", lambda: all(
                zernel.stats()[name] == 0 for name in ("tsgs", "slots", "classes")))
            if part is text:
                lines = done.stdout.splitlines()
        return lines

    def test_the_end_of_the_main_module(self) -> None:
        # Calls that wait are still made.
        self.assertEqual(self.run_program("", 0), ["answer"] * 8)

    def test_sys_exit(self) -> None:
        self.assertEqual(self.run_program("sys.exit(3)", 3), ["answer"] * 8)

    def test_an_exception(self) -> None:
        said = self.run_program("raise LookupError('of the program')", 1, "LookupError: of the")
        self.assertEqual(said, ["answer"] * 8)

    def test_an_end_at_once(self) -> None:
        self.run_program("s.submit(wait); began.wait(); os._exit(4)", 4)

    def test_a_killed_one(self) -> None:
        self.run_program("s.submit(wait); began.wait(); os.kill(os.getpid(), signal.SIGKILL)", -9)

    def test_daemon_threads_with_requests(self) -> None:
        self.run_program("""
            def serve():
                runtime.make_current()
                while True:
                    try:
                        with runtime.request(exact=True) as request:
                            request.ready()
                    except zernel.ClosedError:
                        return
                    began.set()
            for _ in range(3):
                threading.Thread(target=serve, daemon=True).start()
            began.wait()
        """, 0)

    def test_without_references(self) -> None:
        self.run_program("""
            import types
            left = sys.modules["left"] = types.ModuleType("left")
            left.all = [left, s, runtime, held, late, ready, futures, answer]
            del s, runtime, held, late, ready, futures
        """, 0)

    def test_children(self) -> None:
        said = self.run_program("""
            def call(number):
                try:
                    s.submit(answer, (number,))
                except zernel.ForkedError as error:
                    with runtime.request() as request:
                        return error.name, request.idle
            for future in futures:
                future.result(60)
            with multiprocessing.get_context("fork").Pool(2) as pool:
                found = set(pool.map(call, range(4)))
            child = os.fork()
            if child == 0:
                sys.exit(7)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            # Their ends have ended nothing of this process.
            stats = runtime.stats()
            assert stats["in_flight"] in (2, 3), stats
            assert stats["cancelled"] == 0, stats
            held.done(); late.done(); ready.done()
            with runtime.request(exact=True) as request:
                assert request.idle is None
            os.write(1, f"{found} {status} {runtime.level}\\n".encode())
        """, 0)
        self.assertEqual(said[8:], ["{('ZERNEL_FORKED', 'forked')} 7 0"])
