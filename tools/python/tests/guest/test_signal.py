# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prefetch signals: zernel gives one for each computation that this thread says it begins."""

import fcntl
import os
import struct
import threading

import zernel
from harness import tune, wait_until
from lab import Case
from zernel.torch import PrefetchLoader

HINT = 0xC000_0000 | 40 << 16 | 0xBE << 8 | 0x51
THREAD, PHASE, UNKNOWN, COMPUTE = 3, 1, 0, 2
HOLDS_NS = 60_000_000_000


class Computer:
    """Says that this thread computes on the GPU, and that it does not."""

    def __init__(self) -> None:
        tune("prefetch_lead_ns", 0xFFFF_FFFF)
        self.file = os.open("/dev/zernel", os.O_RDWR | os.O_CLOEXEC)
        self.thread = threading.get_native_id()

    def hint(self, phase: int) -> None:
        """This thread is in a phase."""
        raw = struct.pack("=IIQIIQQ", THREAD, 0, self.thread, PHASE, 0, phase, HOLDS_NS)
        # A thread that was tracked a moment ago is not recorded yet.
        wait_until("the hint is taken", lambda: self._is_taken(raw))

    def _is_taken(self, raw: bytes) -> bool:
        try:
            fcntl.ioctl(self.file, HINT, raw)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Ends it."""
        os.close(self.file)
        tune("prefetch_lead_ns", "auto")


class Signals(Case):
    """Subscriptions of this process."""

    def setUp(self) -> None:
        """No context is needed."""

    def compute_until(self, computer: Computer, is_over) -> None:
        """Computes, with pauses, until something has come about."""
        phase = COMPUTE

        def change() -> bool:
            nonlocal phase
            computer.hint(phase)
            phase = UNKNOWN if phase == COMPUTE else COMPUTE
            # A phase is seen after some samples.
            return is_over(0.05)

        wait_until("there is a signal", change)

    def test_a_signal_comes(self) -> None:
        signal = zernel.PrefetchSignal()
        self.assertEqual(zernel.stats()["subscriptions"], 1)
        self.assertFalse(signal.wait(0))
        self.assertFalse(signal.wait(0.01))
        computer = Computer()
        self.compute_until(computer, signal.wait)
        computer.close()
        signal.close()
        self.assertTrue(signal.closed)
        # The kernel gives it back with the last look at the file, which may be another thread's.
        wait_until("it is given back", lambda: zernel.stats()["subscriptions"] == 0)
        self.fails(zernel.ClosedError, "ZERNEL_SHUT_DOWN", signal.wait)

    def test_its_end_wakes_a_thread_that_waits(self) -> None:
        signal = zernel.PrefetchSignal(track=False)
        found = []
        thread = threading.Thread(target=lambda: found.append(signal.wait()))
        thread.start()
        signal.close()
        thread.join()
        # It waited, or came too late to.
        self.assertIn(found, ([False], []))

    def test_a_batch_is_loaded_at_the_signal(self) -> None:
        loaded = []

        def batches():
            for number in range(4):
                loaded.append((number, threading.current_thread().name))
                yield number

        with iter(PrefetchLoader(batches())) as loader:
            self.assertEqual(next(loader), 0)
            self.assertEqual([number for number, _ in loaded], [0])
            computer = Computer()
            came = threading.Event()

            def is_loaded(time_s: float) -> bool:
                came.wait(time_s)
                return len(loaded) == 2

            self.compute_until(computer, is_loaded)
            computer.close()
            self.assertEqual(loaded[1], (1, "zernel-prefetch"))
            self.assertEqual(list(loader), [1, 2, 3])
        self.assertEqual(zernel.stats()["subscriptions"], 0)

    def test_a_child_has_no_signals(self) -> None:
        signal = zernel.PrefetchSignal(track=False)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                signal.wait(0)
            except zernel.ForkedError as error:
                os.write(writer, error.name.encode())
            finally:
                signal.close()
                os._exit(0)
        os.waitpid(child, 0)
        self.assertEqual(os.read(reader, 100), b"ZERNEL_FORKED")
        # The child has ended nothing of its parent's.
        self.assertEqual(zernel.stats()["subscriptions"], 1)
        signal.close()
