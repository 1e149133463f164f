# SPDX-License-Identifier: MIT OR Apache-2.0
"""Other processes: forked ones go on with threads of their own, spawned ones get a copy."""

import copy
import gc
import importlib.util
import itertools
import multiprocessing
import os
import pickle
import sys
import threading
import unittest
from collections.abc import Callable, Iterator

import stores
import zernel_prefetch as zp
from case import PATIENCE, SHAPE, Case, in_twos, starts

HAS_TORCH = importlib.util.find_spec("torch") is not None


def content(loader: zp.Loader) -> list[list[list[int]]]:
    """The elements of all tensors."""
    return [[stores.numbers(tensor) for tensor in batch] for batch in loader]


def work(prefetcher: zp.Prefetcher, order: zp.Order, loader: zp.Loader, results: object) -> None:
    """In another process: the rest of a loader, and one of its own."""
    results.put((content(loader), content(zp.Loader(prefetcher, order)), loader.state()))


def expected(rows: list[list[int]]) -> list[list[list[int]]]:
    """The elements of batches of rows."""
    return [[stores.row(row, SHAPE) for row in batch] for batch in rows]


class Processes(Case):
    """Of a program that has begun to load."""

    def setUp(self) -> None:
        super().setUp()
        self.prefetcher = zp.Prefetcher(self.folder)
        self.order = zp.Order(self.rows, 3, seed=5)
        self.all_rows = starts(zp.Loader(self.prefetcher, self.order))

    def in_child(self, call: Callable[[], object]) -> None:
        """Has a child of `fork()` call, which ends as a program does. It may hang, but not here."""
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                call()
                gc.collect()
                status = 0
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                os._exit(status)
        watch = multiprocessing.get_context("spawn").Process(target=_kill_later, args=(child,))
        watch.start()
        _, status = os.waitpid(child, 0)
        watch.terminate()
        watch.join()
        self.assertEqual(status, 0)

    def test_multiprocessing(self) -> None:
        for way in ("fork", "spawn", "forkserver"):
            loader = zp.Loader(self.prefetcher, self.order, depth=2)
            for _ in range(3):
                next(loader)
            context = multiprocessing.get_context(way)
            results = context.Queue()
            child = context.Process(target=work,
                                    args=(self.prefetcher, self.order, loader, results))
            child.start()
            rest, whole, state = results.get(timeout=PATIENCE)
            child.join(PATIENCE)
            with self.subTest(way):
                self.assertEqual(child.exitcode, 0)
                self.assertEqual(rest, expected(self.all_rows[3:]))
                self.assertEqual(whole, expected(self.all_rows))
                # Here it goes on, too.
                self.assertEqual(content(loader), expected(self.all_rows[3:]))
                self.assertEqual(loader.state(), state)

    def test_a_child_of_a_child(self) -> None:
        loader = zp.Loader(self.prefetcher, self.order)
        next(loader)

        def child() -> None:
            assert content(itertools.islice(loader, 2)) == expected(self.all_rows[1:3])
            self.in_child(lambda: check(expected(self.all_rows[3:]), content(loader)))
            check(expected(self.all_rows[3:]), content(loader))

        self.in_child(child)
        self.assertEqual(content(loader), expected(self.all_rows[1:]))

    def test_an_iterator_goes_on_in_both(self) -> None:
        def batches() -> Iterator[list]:
            yield from in_twos(self.rows[:10])
            raise LookupError("of the program")

        loader = zp.Loader(self.prefetcher, batches())
        rest = [[row, row + 1] for row in range(2, 10, 2)]

        def take() -> None:
            check(expected(rest), content(itertools.islice(loader, 4)))
            try:
                next(loader)
            except LookupError:
                return
            raise AssertionError("no exception")

        next(loader)
        self.in_child(take)
        take()

    def test_a_fork_while_another_thread_asks_for_a_batch(self) -> None:
        asks, held = threading.Event(), threading.Event()
        self.addCleanup(held.set)

        class Index(list):
            """A list whose last sample is waited for."""

            def __getitem__(self, at: int) -> object:
                if at == 23 and not held.is_set():
                    asks.set()
                    held.wait(PATIENCE)
                return super().__getitem__(at)

        order = zp.Order(Index(self.rows), 2)
        batches = iter([self.rows[at:at + 2] for at in range(0, 22, 2)])
        last = map(lambda at: [order.index[at - 1], order.index[at]], [23])
        for source in (order, itertools.chain(batches, last)):
            asks.clear(), held.clear()
            # The last batch is asked for when others were handed over.
            loader, found = zp.Loader(self.prefetcher, source, lookahead=3, depth=1), []
            thread = threading.Thread(target=lambda: found.extend(starts(loader)))
            thread.start()
            self.assertTrue(asks.wait(PATIENCE))

            def child() -> None:
                held.set()
                at = loader.state()["batch"]
                assert at < 12
                wanted = [[row, row + 1] for row in range(2 * at, 24, 2)]
                if source is order:
                    check(wanted, starts(loader))
                    return
                check(wanted[:-1], starts(itertools.islice(loader, len(wanted) - 1)))
                try:
                    next(loader)
                except zp.MisuseError as error:
                    assert "broken off" in str(error)
                else:
                    raise AssertionError("no exception")
                assert list(loader) == []

            self.in_child(child)
            held.set()
            thread.join(PATIENCE)
            self.assertEqual(found, in_twos(list(range(24))))

    def test_a_child_that_uses_nothing_lets_go(self) -> None:
        held = [zp.Loader(self.prefetcher, self.order)]
        held.append(next(held[0]))

        def child() -> None:
            del self.prefetcher, self.order
            memory = memoryview(held[1][0])
            held.clear()
            gc.collect()
            assert memory.nbytes == 24

        self.in_child(child)

    def test_counts_of_a_child_are_its_own(self) -> None:
        def child() -> None:
            assert self.prefetcher.counts()["requests"] == 0, self.prefetcher.counts()
            content(zp.Loader(self.prefetcher, self.order))
            assert self.prefetcher.counts()["requests"] > 0

        self.assertGreater(self.prefetcher.counts()["requests"], 0)
        self.in_child(child)

    def test_over_http(self) -> None:
        prefetcher = zp.Prefetcher(self.serve().url)
        loader = zp.Loader(prefetcher, self.order)
        next(loader)
        self.in_child(lambda: check(expected(self.all_rows[1:]), content(loader)))
        self.assertEqual(content(loader), expected(self.all_rows[1:]))

    def test_copies_have_the_same_arguments(self) -> None:
        arguments = {"zarr_format": 3, "in_flight": 3, "retries": 2, "hedges": None,
                     "bytes": 1 << 27,
                     "floor_arrays": 1 << 20, "floor_shards": 1 << 21, "arrays": 9, "shards": 8,
                     "keep_faults": 1.5, "longest_wait": 2.5, "gap": 10, "longest_range": 1 << 20,
                     "data": 11, "consolidated": True, "disk": None, "disk_bytes": 12,
                     "storage_options": {}}
        made = zp.Prefetcher(self.folder, **arguments)
        for again in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
            self.assertEqual(again.__getnewargs_ex__(), ((str(self.folder),), arguments))

    def test_loaders_that_have_no_copy(self) -> None:
        loader = zp.Loader(self.prefetcher, iter(in_twos(self.rows)))
        with self.assertRaisesRegex(TypeError, "gone through once"):
            pickle.dumps(loader)
        loader = zp.Loader(self.prefetcher, in_twos(self.rows))
        self.assertEqual(starts(pickle.loads(pickle.dumps(loader))), starts(loader))
        with self.assertRaisesRegex(TypeError, "closed"):
            pickle.dumps(loader)


def check(wanted: object, found: object) -> None:
    """In a child there is no case."""
    assert found == wanted, found


def _kill_later(process: int) -> None:
    import signal
    import time
    time.sleep(PATIENCE)
    os.kill(process, signal.SIGKILL)


@unittest.skipUnless(HAS_TORCH, "no torch")
class DataLoader(Case):
    """PyTorch's, with workers of both kinds."""

    def test_workers_share_an_epoch_out(self) -> None:
        import torch.utils.data
        import torch_rows
        prefetcher = zp.Prefetcher(self.folder)
        # The parent has threads, too.
        self.assertEqual(len(starts(zp.Loader(prefetcher, [[self.rows[0]]]))), 1)
        rows = torch_rows.Rows(prefetcher, stores.rows("f", SHAPE))
        stores.write(self.folder, "f", SHAPE, [8, 6], [2, 3], "float32", "f", 0.0)
        for workers, way in ((0, None), (2, "fork"), (2, "spawn")):
            loader = torch.utils.data.DataLoader(rows, batch_size=None, num_workers=workers,
                                                 multiprocessing_context=way)
            found = sorted(row.tolist() for batch in loader for row in batch)
            with self.subTest(way):
                wanted = [list(map(float, stores.row(row, SHAPE))) for row in range(24)]
                self.assertEqual(found, wanted)


if __name__ == "__main__":
    unittest.main()
