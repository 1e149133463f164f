# SPDX-License-Identifier: MIT OR Apache-2.0
"""The end of the interpreter, with schedulers, requests and futures that are alive."""

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

PATIENCE = 60
BEGIN = """
import atexit, multiprocessing, os, signal, sys, threading, time
import zernel

def say(text):
    os.write(1, (text + "\\n").encode())

def scheduler():
    return zernel.Scheduler(mode="off")

def work(number):
    time.sleep(0.001)
    say(f"call {number}")
    return number
"""


def starts_threads(at: str) -> bool:
    """True if this Python starts threads at its end, in a function that `at` has it call."""
    text = f"import atexit, threading\ndef late(): threading.Thread(target=int).start()\n{at}"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, timeout=PATIENCE,
                          check=True)
    return not done.stderr


#: Some versions do not start any once the main thread is over, and some none in functions at exit.
AFTER_MAIN = starts_threads(
    "threading.Thread(target=lambda: (threading.main_thread().join(), late())).start()")
AT_EXIT = starts_threads("atexit.register(late)")
REFUSED = "this Python starts no threads at its end"


class Exits(unittest.TestCase):
    """No program hangs, crashes or complains."""

    def run_program(self, text: str, status: int = 0, error: str = "") -> list[str]:
        """Runs a program; its lines. `error`: a part of its standard error."""
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", "-c", BEGIN + textwrap.dedent(text)],
            env=os.environ | {"PYTHONWARNINGS": "error"}, capture_output=True, text=True,
            timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        if error:
            self.assertIn(error, done.stderr)
        else:
            self.assertEqual(done.stderr, "")
        return done.stdout.split("\n")[:-1]

    def calls(self, count: int) -> list[str]:
        """The lines of so many calls, in the order of one thread or of several."""
        return sorted(f"call {number}" for number in range(count))

    def test_sys_exit_with_calls_that_wait(self) -> None:
        said = self.run_program("""
            s = scheduler()
            futures = [s.submit(work, (n,)) for n in range(50)]
            sys.exit(3)
        """, status=3)
        self.assertEqual(sorted(said), self.calls(50))

    def test_an_exception_with_calls_that_wait(self) -> None:
        said = self.run_program("""
            s = scheduler()
            for n in range(50): s.submit(work, (n,))
            raise LookupError("of the program")
        """, status=1, error="LookupError: of the program")
        self.assertEqual(sorted(said), self.calls(50))

    def test_an_exception_in_a_block_with_a_request(self) -> None:
        self.run_program("""
            with scheduler() as s, s.request() as request:
                request.ready()
                raise LookupError("of the block")
        """, status=1, error="LookupError: of the block")

    def test_an_exit_at_once(self) -> None:
        said = self.run_program("""
            s = scheduler()
            began, never = threading.Event(), threading.Event()
            @s.latency_critical
            def wait():
                began.set()
                never.wait()
            futures = [s.submit(wait) for _ in range(9)]
            request = s.request()
            began.wait()
            os._exit(5)
        """, status=5)
        self.assertEqual(said, [])

    def test_an_interrupt(self) -> None:
        said = self.run_program("""
            s = scheduler()
            go = threading.Event()
            future = s.submit(go.wait)
            s.submit(work, (0,))
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            def handle(*_):
                go.set()
                raise KeyboardInterrupt
            signal.signal(signal.SIGALRM, handle)
            while True:
                time.sleep(1)
        """, status=-2, error="KeyboardInterrupt")
        self.assertEqual(said, ["call 0"])

    def test_a_daemon_thread_that_goes_on(self) -> None:
        said = self.run_program("""
            s = scheduler()
            task = s.latency_critical(lambda: zernel.ready())
            began = threading.Event()
            def serve():
                while True:
                    try:
                        s.submit(task)
                    except zernel.ClosedError:
                        say("closed")
                        return
                    except zernel.QueueFullError:
                        pass
                    task()
                    with s.runtime.request() as request:
                        request.ready()
                    began.set()
            def forever():
                while True:
                    task()
            for target in (serve, forever, forever):
                threading.Thread(target=target, daemon=True).start()
            began.wait()
        """)
        self.assertIn(said, (["closed"], []))

    def test_calls_after_the_main_thread(self) -> None:
        # A thread is there; another one is wanted, and may be refused.
        said = self.run_program("""
            s = scheduler()
            s.submit(int).result()
            def serve():
                threading.main_thread().join()
                for n in range(5): s.submit(work, (n,))
            threading.Thread(target=serve).start()
        """)
        self.assertEqual(sorted(said), self.calls(5))

    @unittest.skipUnless(AFTER_MAIN, REFUSED)
    def test_a_thread_that_ends_after_the_main_one(self) -> None:
        said = self.run_program("""
            s = scheduler()
            def serve():
                threading.main_thread().join()
                for n in range(5): s.submit(work, (n,))
            threading.Thread(target=serve).start()
        """)
        self.assertEqual(sorted(said), self.calls(5))

    @unittest.skipUnless(AT_EXIT, REFUSED)
    def test_functions_at_exit(self) -> None:
        # The last one that was registered is called first; zernel's when it was imported.
        said = self.run_program("""
            s = scheduler()
            def late():
                say(f"late {s.submit(int).result()}")
            atexit.register(late)
            s.submit(work, (0,))
        """)
        self.assertEqual(sorted(said), ["call 0", "late 0"])

    def test_a_call_behind_the_end_of_zernel(self) -> None:
        said = self.run_program("""
            import importlib
            for name in [name for name in sys.modules if name.startswith("zernel")]:
                if name != "zernel._zernel": del sys.modules[name]
            def after():
                try:
                    s.submit(int)
                except zernel.ClosedError as error:
                    say(error.name)
            atexit.register(after)
            import zernel
            s = zernel.Scheduler(mode="off")
        """)
        self.assertEqual(said, ["ZERNEL_SHUT_DOWN"])

    def test_what_is_left_in_modules(self) -> None:
        self.run_program("""
            import types
            module = sys.modules["left"] = types.ModuleType("left")
            module.runtime = zernel.attach(mode="off")
            module.request = module.runtime.request()
            module.scheduler = scheduler()
            module.future = module.scheduler.submit(work, (0,))
            module.cycle = [module, module.future]
            class Last:
                def __del__(self):
                    module.request.done()
                    module.runtime.close()
            module.last = Last()
        """)

    def test_a_call_that_exits(self) -> None:
        said = self.run_program("""
            s = scheduler()
            future = s.submit(sys.exit, (4,))
            assert isinstance(future.exception(), SystemExit)
            s.submit(work, (0,))
        """)
        self.assertEqual(said, ["call 0"])

    @unittest.skipUnless(AFTER_MAIN, REFUSED)
    def test_a_call_that_makes_a_scheduler(self) -> None:
        said = self.run_program("""
            s = scheduler()
            main = threading.main_thread()
            def nested():
                # The end of the program has begun to wait for this call.
                main.join()
                inner = scheduler()
                # It works for longer than the one that is waited for.
                inner.submit(lambda: (time.sleep(0.5), work(1)))
                return work(0)
            s.submit(nested)
        """)
        self.assertEqual(sorted(said), self.calls(2))

    def test_one_that_fails_to_end_does_not_keep_the_others(self) -> None:
        said = self.run_program("""
            first, second = scheduler(), scheduler()
            for s in (first, second):
                s.submit(work, (0,))
            from unittest import mock
            first._core.runtime = mock.Mock(**{"close.side_effect": LookupError("of the end")})
            second._core.runtime = mock.Mock(**{"close.side_effect": lambda: say("closed")})
        """, error="LookupError: of the end")
        self.assertEqual(sorted(said), ["call 0", "call 0", "closed"])

    def test_one_that_cannot_end_is_not_tried_for_ever(self) -> None:
        said = self.run_program("""
            first, second = scheduler(), scheduler()
            second.submit(work, (0,))
            from unittest import mock
            first._core.close = mock.Mock(side_effect=LookupError("of the end"))
        """, error="LookupError: of the end")
        self.assertEqual(said, ["call 0"])

    def test_a_child_of_fork_ends_alone(self) -> None:
        said = self.run_program("""
            s = scheduler()
            go = threading.Event()
            future = s.submit(go.wait)
            request = s.request()
            child = os.fork()
            if child == 0:
                sys.exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
            go.set()
            assert future.result() and not request.is_over
            say("parent")
        """)
        self.assertEqual(said, ["parent"])

    def test_processes_of_multiprocessing(self) -> None:
        for way, name in (("fork", "ZERNEL_FORKED"), ("spawn", "none"), ("forkserver", "none")):
            with self.subTest(way):
                said = self.run_file(f"""
                    def call(number):
                        try:
                            return s.submit(int).result() or "none"
                        except zernel.ForkedError as error:
                            return error.name

                    s = scheduler()

                    if __name__ == "__main__":
                        s.submit(work, (0,))
                        with multiprocessing.get_context("{way}").Pool(2) as pool:
                            print(sorted(set(pool.map(call, range(4)))))
                        process = multiprocessing.get_context("{way}").Process(target=call,
                                                                               args=(1,))
                        process.start()
                        process.join()
                        print(process.exitcode)
                """)
                self.assertEqual(sorted(said), ["0", f"['{name}']", "call 0"])

    def run_file(self, text: str) -> list[str]:
        """Runs a program of a file, which its processes import."""
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(BEGIN + textwrap.dedent(text))
            file.flush()
            done = subprocess.run([sys.executable, file.name], capture_output=True, text=True,
                                  timeout=PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split("\n")[:-1]


if __name__ == "__main__":
    unittest.main()
