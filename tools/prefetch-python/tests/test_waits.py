# SPDX-License-Identifier: MIT OR Apache-2.0
"""Waits: other threads run, signals end them, loops of asyncio go on."""

import asyncio
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unittest
from pathlib import Path

import zernel_prefetch as zp
from case import PATIENCE, Case, in_twos


class Held(Case):
    """A store whose answers are held back."""

    def setUp(self) -> None:
        super().setUp()
        self.held, self.asked = threading.Event(), threading.Event()
        self.addCleanup(self.held.set)

        def hold(_: str) -> None:
            self.asked.set()
            self.held.wait(PATIENCE)

        self.prefetcher = zp.Prefetcher(self.serve(hold).url)

    def loader(self) -> zp.Loader:
        """Batches of two rows."""
        return zp.Loader(self.prefetcher, in_twos(self.rows))

    def test_other_threads_run(self) -> None:
        # The store is one of them: with the lock held no answer would come.
        threading.Thread(target=lambda: self.asked.wait(PATIENCE) and self.held.set()).start()
        self.assert_rows(next(self.loader()), [0, 1])

    def test_a_wait_lets_go_of_the_lock(self) -> None:
        loads = zp._native.Loads(self.prefetcher, 1, 1, 1, 1, 1, 0, False, False)
        begins, came = threading.Event(), []

        def ring() -> None:
            begins.wait(PATIENCE)
            came.append(1)
            loads.ring()

        threading.Thread(target=ring).start()
        # Nothing but the wait lets the other thread run.
        before = sys.getswitchinterval()
        self.addCleanup(sys.setswitchinterval, before)
        sys.setswitchinterval(2 * PATIENCE)
        begins.set()
        loads.wait(PATIENCE)
        self.assertEqual(came, [1])

    def test_a_signal_ends_a_wait(self) -> None:
        class Told(Exception):
            """By a signal."""

        def tell(*_: object) -> None:
            raise Told

        before = signal.signal(signal.SIGUSR1, tell)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        loader, me, begins = self.loader(), threading.main_thread().ident, threading.Event()

        def send() -> None:
            begins.wait(PATIENCE)
            self.asked.wait(PATIENCE)
            signal.pthread_kill(me, signal.SIGUSR1)

        threading.Thread(target=send).start()
        with self.assertRaises(Told):
            begins.set()
            next(loader)
        # It took no batch.
        self.held.set()
        self.assert_rows(next(loader), [0, 1])

    def test_ctrl_c_ends_a_program(self) -> None:
        program = f"""
            import zernel_prefetch as zp
            prefetcher = zp.Prefetcher({self.prefetcher.url!r})
            loader = zp.Loader(prefetcher, [[("a", (0, 0), (1, 6))]])
            print("waits", flush=True)
            next(loader)
        """
        with subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            self.assertEqual(child.stdout.readline(), "waits\n")
            self.assertTrue(self.asked.wait(PATIENCE))
            child.send_signal(signal.SIGINT)
            _, said = child.communicate(timeout=PATIENCE)
        self.assertEqual(child.returncode, -signal.SIGINT, said)
        self.assertIn("KeyboardInterrupt", said)

    def test_a_program_that_ends_meanwhile(self) -> None:
        program = f"""
            import sys, threading, zernel_prefetch as zp
            prefetcher = zp.Prefetcher({self.prefetcher.url!r})
            loader = zp.Loader(prefetcher, [[("a", (0, 0), (1, 6))]])
            threading.Thread(target=lambda: next(loader), daemon=True).start()
            sys.exit(3)
        """
        done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(program)],
                              text=True, capture_output=True, timeout=PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stderr), (3, ""))


class Asyncio(Held):
    """`async for`."""

    def test_a_loop_goes_on(self) -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while ticks < 5 or not self.asked.is_set():
                ticks += 1
                await asyncio.sleep(0.001)
            self.held.set()

        async def main() -> list[list[int]]:
            other = asyncio.create_task(tick())
            found = []
            async for batch in self.loader():
                found.append([tensor.start[0] for tensor in batch])
                self.assert_rows(batch, found[-1])
            await other
            return found

        found = asyncio.run(main())
        self.assertEqual(found, [[row, row + 1] for row in range(0, 24, 2)])
        self.assertGreaterEqual(ticks, 5)

    def test_a_task_that_is_cancelled_takes_no_batch(self) -> None:
        async def main() -> None:
            loader = self.loader()
            first = asyncio.create_task(anext(loader))
            while not self.asked.is_set():
                await asyncio.sleep(0.001)
            first.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await first
            with self.assertRaises(TimeoutError):
                await asyncio.wait_for(anext(loader), 0.01)
            self.held.set()
            self.assert_rows(await anext(loader), [0, 1])
            self.assertEqual(loader.state(), {"version": 1, "batch": 1})

        asyncio.run(main())

    def test_loops_follow_each_other(self) -> None:
        loader = self.loader()

        async def take() -> list[int]:
            # Two at once: one of them waits for its turn.
            both = asyncio.gather(anext(loader), anext(loader))
            await asyncio.sleep(0.01)
            self.held.set()
            return sorted(batch[0].start[0] for batch in await both)

        self.assertEqual(asyncio.run(take()), [0, 2])
        self.assertEqual(asyncio.run(take()), [4, 6])

    def test_tasks_take_turns(self) -> None:
        async def main() -> list[int]:
            loader = self.loader()

            async def take() -> list[int]:
                return [batch[0].start[0] async for batch in loader]

            self.held.set()
            return sorted(sum(await asyncio.gather(*(take() for _ in range(3))), []))

        self.assertEqual(asyncio.run(main()), list(range(0, 24, 2)))

    def test_close_ends_a_wait(self) -> None:
        async def main() -> None:
            loader = self.loader()
            waiting = asyncio.create_task(anext(loader, None))
            await asyncio.sleep(0.01)
            loader.close()
            self.assertIsNone(await asyncio.wait_for(waiting, PATIENCE))

        asyncio.run(main())

    def test_faults(self) -> None:
        async def main() -> None:
            loader = zp.Loader(self.prefetcher, [[("none", (0, 0), (1, 1))], [self.rows[0]]])
            self.held.set()
            with self.assertRaises(zp.MissingError):
                await anext(loader)
            self.assert_rows(await anext(loader), [0])
            with self.assertRaises(StopAsyncIteration):
                await anext(loader)

        asyncio.run(main())


class Ends(Case):
    """Threads of prefetchers that nobody has any more."""

    def test_threads_end(self) -> None:
        def threads() -> int:
            tasks = Path("/proc/self/task").iterdir()
            names = [(task / "comm").read_text(encoding="ascii") for task in tasks]
            return sum(name.startswith("zernel-prefetch") for name in names)

        def look() -> int:
            try:
                return threads()
            except OSError:
                # One has ended meanwhile.
                return look()

        before = look()
        prefetcher = zp.Prefetcher(self.folder)
        self.assertEqual(look(), before)
        loader = zp.Loader(prefetcher, [[self.rows[0]]])
        self.assertGreater(look(), before)
        del prefetcher
        self.assert_rows(next(loader), [0])
        del loader
        end = time.monotonic() + PATIENCE
        while look() > before and time.monotonic() < end:
            time.sleep(0.01)
        self.assertLessEqual(look(), before)


if __name__ == "__main__":
    unittest.main()
