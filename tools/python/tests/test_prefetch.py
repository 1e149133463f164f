# SPDX-License-Identifier: MIT OR Apache-2.0
"""Batches that are loaded at a signal: their order and content, exceptions, and the end."""

import contextvars
import gc
import importlib.util
import os
import threading
import unittest
import warnings
from collections.abc import Iterator
from unittest import mock

import zernel
from zernel.torch import Batches, PrefetchLoader

HAS_TORCH = importlib.util.find_spec("torch") is not None
PATIENCE = 60


class Bell:
    """Signals of a test."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rings, self.closed = 0, False

    def ring(self) -> None:
        """Gives one."""
        with self._changed:
            self._rings += 1
            self._changed.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        """As `PrefetchSignal.wait()`."""
        with self._changed:
            self._changed.wait_for(lambda: self._rings or self.closed, timeout)
            if self.closed or not self._rings:
                return False
            self._rings = 0
            return True

    def close(self) -> None:
        """As `PrefetchSignal.close()`."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()


class Loader:
    """As torch's: each pass is new, and the exception of a batch does not end it."""

    def __init__(self, count: int, bad: int | None = None) -> None:
        self.count, self.bad, self.batch_size = count, bad, 4
        self.loaded: list[tuple[int, str]] = []
        self.came = threading.Condition()

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator:
        return Pass(self)

    def wait_for(self, count: int) -> bool:
        """Waits until so many were asked for."""
        with self.came:
            return self.came.wait_for(lambda: len(self.loaded) >= count, PATIENCE)


class Pass:
    """A pass of it."""

    def __init__(self, loader: Loader) -> None:
        self.loader, self.next = loader, 0

    def __iter__(self) -> "Pass":
        return self

    def __next__(self) -> list[int]:
        if self.next == self.loader.count:
            raise StopIteration
        number, self.next = self.next, self.next + 1
        with self.loader.came:
            self.loader.loaded.append((number, threading.current_thread().name))
            self.loader.came.notify_all()
        if number == self.loader.bad:
            raise LookupError(f"batch {number}")
        return [number] * 4


def batches_of(loader: Loader) -> tuple[Batches, Bell]:
    """A pass with a bell."""
    bell = Bell()
    return iter(PrefetchLoader(loader, signal=lambda: bell)), bell


class Loading(unittest.TestCase):
    """With signals of a test."""

    def test_a_batch_is_loaded_at_a_signal(self) -> None:
        loader = Loader(3)
        batches, bell = batches_of(loader)
        self.assertEqual(loader.loaded, [])
        bell.ring()
        self.assertTrue(loader.wait_for(1))
        self.assertEqual(next(batches), [0] * 4)
        self.assertEqual(loader.loaded, [(0, "zernel-prefetch")])
        # Without a signal a batch is loaded when it is asked for.
        self.assertEqual(next(batches), [1] * 4)
        self.assertEqual(loader.loaded[1], (1, threading.current_thread().name))
        batches.close()

    def test_order_and_content_are_those_of_the_loader(self) -> None:
        loader = Loader(200)
        batches, bell = batches_of(loader)
        found = []
        for number in range(200):
            if number % 2:
                bell.ring()
                self.assertTrue(loader.wait_for(number + 1))
            found.append(next(batches))
        self.assertEqual(found, [[number] * 4 for number in range(200)])
        self.assertEqual(loader.loaded[101], (101, "zernel-prefetch"))
        with self.assertRaises(StopIteration):
            next(batches)
        self.assertTrue(bell.closed)

    def test_signals_at_any_time(self) -> None:
        loader = Loader(2_000)
        batches, bell = batches_of(loader)
        over = threading.Event()

        def ring() -> None:
            while not over.is_set():
                bell.ring()

        ringer = threading.Thread(target=ring)
        ringer.start()
        found = list(batches)
        over.set()
        ringer.join()
        self.assertEqual(found, [[number] * 4 for number in range(2_000)])
        self.assertEqual([number for number, _ in loader.loaded], list(range(2_000)))

    def test_one_is_loaded_ahead(self) -> None:
        loader = Loader(5)
        batches, bell = batches_of(loader)
        bell.ring()
        self.assertTrue(loader.wait_for(1))
        batches.load_ahead()
        batches.load_ahead()
        self.assertEqual(next(batches), [0] * 4)
        self.assertLessEqual(len(loader.loaded), 2)
        batches.close()

    def test_exceptions_arrive_at_the_consumer(self) -> None:
        for ahead in (False, True):
            loader = Loader(3, bad=1)
            batches, bell = batches_of(loader)
            self.assertEqual(next(batches), [0] * 4)
            if ahead:
                bell.ring()
                self.assertTrue(loader.wait_for(2))
            with self.assertRaisesRegex(LookupError, "batch 1"):
                next(batches)
            # As with the loader itself, the next batch follows.
            self.assertEqual(list(batches), [[2] * 4])

    def test_the_end_may_be_found_ahead(self) -> None:
        batches, bell = batches_of(Loader(0))
        bell.ring()
        batches._thread.join(PATIENCE)
        self.assertEqual(list(batches), [])

    def test_passes_are_apart(self) -> None:
        loader = PrefetchLoader(Loader(3), signal=Bell)
        self.assertEqual(len(loader), 3)
        self.assertEqual(loader.batch_size, 4)
        first, second = iter(loader), iter(loader)
        self.assertEqual((next(first), next(second)), ([0] * 4, [0] * 4))
        self.assertEqual(list(second), list(first))

    def test_context_variables_are_those_of_the_consumer(self) -> None:
        variable = contextvars.ContextVar("variable", default=0)
        variable.set(5)
        seen = []

        def generate():
            seen.append(variable.get())
            yield 1

        bell = Bell()
        batches = iter(PrefetchLoader(generate(), signal=lambda: bell))
        bell.ring()
        self.assertEqual(list(batches), [1])
        self.assertEqual(seen, [5])


class Ends(unittest.TestCase):
    """Of passes."""

    def test_close_ends_thread_and_generator(self) -> None:
        ended = []

        def generate():
            try:
                yield from range(9)
            finally:
                ended.append(True)

        bell = Bell()
        with iter(PrefetchLoader(generate(), signal=lambda: bell)) as batches:
            self.assertEqual(next(batches), 0)
        self.assertEqual((ended, bell.closed), ([True], True))
        self.assertFalse(batches._thread.is_alive())
        with self.assertRaises(StopIteration):
            next(batches)
        batches.close()

    def test_a_forgotten_pass_ends(self) -> None:
        batches, bell = batches_of(Loader(3))
        next(batches)
        thread = batches._thread
        del batches
        gc.collect()
        thread.join(PATIENCE)
        self.assertFalse(thread.is_alive())
        self.assertTrue(bell.closed)

    def test_close_waits_for_a_batch_that_is_loaded(self) -> None:
        go, began = threading.Event(), threading.Event()

        def generate():
            began.set()
            go.wait(PATIENCE)
            yield 1

        bell = Bell()
        batches = iter(PrefetchLoader(generate(), signal=lambda: bell))
        bell.ring()
        self.assertTrue(began.wait(PATIENCE))
        closer = threading.Thread(target=batches.close)
        closer.start()
        go.set()
        closer.join(PATIENCE)
        self.assertFalse(closer.is_alive())
        self.assertEqual(list(batches), [])


    def test_a_child_of_fork(self) -> None:
        batches, _ = batches_of(Loader(3))
        self.assertEqual(next(batches), [0] * 4)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                next(batches)
            except zernel.ForkedError as error:
                batches.close()
                os.write(writer, error.name.encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(writer)
        with open(reader, "rb") as said:
            self.assertEqual(said.read(), b"ZERNEL_FORKED")
        self.assertEqual(list(batches), [[1] * 4, [2] * 4])


class Without(unittest.TestCase):
    """Without zernel it is the loader itself."""

    def iterate(self, mode: str) -> object:
        """A pass on a machine without zernel."""
        absent = zernel.UnavailableError(2, "not there", "ZERNEL_NO_MODULE")
        with mock.patch.dict(os.environ, ZERNEL=mode), \
                mock.patch("zernel.torch.PrefetchSignal", side_effect=absent):
            return iter(PrefetchLoader(Loader(3)))

    def test_off_is_silent(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            batches = self.iterate("off")
        self.assertIsInstance(batches, Pass)
        self.assertEqual(list(batches), [[0] * 4, [1] * 4, [2] * 4])

    def test_auto_warns(self) -> None:
        with self.assertWarnsRegex(RuntimeWarning, "batches are loaded on demand: ZERNEL_NO_MOD"):
            batches = self.iterate("auto")
        self.assertIsInstance(batches, Pass)

    def test_require_is_an_error(self) -> None:
        with self.assertRaises(zernel.UnavailableError):
            self.iterate("require")

    def test_no_loader(self) -> None:
        with self.assertRaisesRegex(TypeError, "int is no loader"):
            PrefetchLoader(3)

    def test_a_loader_that_fails_to_begin(self) -> None:
        class Bad:
            def __iter__(self):
                raise LookupError

        bell = Bell()
        with self.assertRaises(LookupError):
            iter(PrefetchLoader(Bad(), signal=lambda: bell))
        self.assertTrue(bell.closed)

    @unittest.skipIf(HAS_TORCH, "torch is there")
    def test_a_request_needs_torch(self) -> None:
        with self.assertRaises(ImportError):
            zernel.torch.request()


@unittest.skipUnless(HAS_TORCH, "no torch")
class Torch(unittest.TestCase):
    """With the library itself."""

    def test_batches_of_a_data_loader(self) -> None:
        import torch
        from torch.utils.data import DataLoader, TensorDataset

        data = TensorDataset(torch.arange(64).reshape(32, 2))
        for workers in (0, 2):
            def loader() -> DataLoader:
                return DataLoader(data, batch_size=4, shuffle=True, num_workers=workers,
                                  generator=torch.Generator().manual_seed(7))

            plain = [batch.tolist() for (batch,) in loader()]
            bell = Bell()
            found = []
            with iter(PrefetchLoader(loader(), signal=lambda: bell)) as batches:
                for (batch,) in batches:
                    bell.ring()
                    found.append(batch.tolist())
            self.assertEqual(found, plain)

    def test_the_mode_of_gradients_is_that_of_the_consumer(self) -> None:
        import torch

        seen = []

        def generate():
            seen.append(torch.is_grad_enabled())
            yield 1

        bell = Bell()
        with torch.no_grad():
            batches = iter(PrefetchLoader(generate(), signal=lambda: bell))
            bell.ring()
            batches.load_ahead()
            self.assertEqual(list(batches), [1])
        self.assertEqual(seen, [False])

    def test_a_request_without_cuda(self) -> None:
        with zernel.torch.request(key="model", runtime=zernel.attach(mode="off")) as request:
            request.ready()
        self.assertEqual(request.idle, "inert")


if __name__ == "__main__":
    unittest.main()
