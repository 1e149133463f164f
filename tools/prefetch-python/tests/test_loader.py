# SPDX-License-Identifier: MIT OR Apache-2.0
"""Batches: content, order, bounds, states, and the end."""

import itertools
import json
import os
import threading
import time
import unittest
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import stores
import zernel_prefetch as zp
from case import PATIENCE, SHAPE, Case, eventually, in_twos, starts


class Content(Case):
    """The elements are those of the array."""

    def test_arrays_with_shards_and_without(self) -> None:
        prefetcher = zp.Prefetcher(self.folder)
        batches = [[("a", (3, 1), (5, 4)), zp.Sample("b", (0, 0), (2, 6))], [("b", (23, 5), (1, 1))]]
        found = []
        for batch in zp.Loader(prefetcher, batches):
            for tensor in batch:
                size = list(tensor.shape)
                self.assertEqual(stores.numbers(tensor),
                                 stores.elements(tensor.start, size, SHAPE, 0))
                found.append((tensor.array, tensor.start, tensor.shape))
        self.assertEqual(found, [tuple(sample) for batch in batches for sample in batch])

    def test_attributes(self) -> None:
        (batch,) = zp.Loader(zp.Prefetcher(self.folder), [[("a", (3, 1), (5, 4))]])
        tensor = batch[0]
        self.assertEqual((len(batch), list(batch), batch[0:1]), (1, [tensor], [tensor]))
        self.assertEqual((tensor.dtype, tensor.itemsize, tensor.nbytes), ("uint32", 4, 80))
        self.assertFalse(tensor.readonly)
        self.assertEqual(repr(tensor), "<zernel_prefetch.Tensor uint32[5, 4] of a at [3, 1]>")
        self.assertEqual(repr(batch), f"<zernel_prefetch.Batch of [{tensor!r}]>")

    def test_what_is_not_there_is_fill_value(self) -> None:
        (self.folder / "b/c/0/0").unlink()
        (batch,) = zp.Loader(zp.Prefetcher(self.folder), [[("b", (3, 0), (2, 6))]])
        self.assertEqual(stores.numbers(batch[0]), [7] * 6 + stores.row(4, SHAPE))

    def test_a_batch_without_samples_and_a_box_without_elements(self) -> None:
        batches = zp.Loader(zp.Prefetcher(self.folder), [[], [("a", (0, 0), (0, 6))]])
        first, second = batches
        self.assertEqual((len(first), len(second)), (0, 1))
        self.assertEqual((second[0].shape, second[0].nbytes), ((0, 6), 0))
        self.assertEqual(memoryview(second[0]).tolist(), [])

    def test_urls(self) -> None:
        server = self.serve()
        for url in (server.url, f"{server.url}/", f"file://{self.folder}"):
            with self.subTest(url):
                (batch,) = zp.Loader(zp.Prefetcher(url), [self.rows[5:9]])
                self.assert_rows(batch, [5, 6, 7, 8])
                del batch
        self.assertIn("a/zarr.json", server.log)

    def test_s3(self) -> None:
        server = self.serve()
        options = {"endpoint": server.url, "allow_http": "true", "region": "here",
                   "access_key_id": "me", "secret_access_key": "secret"}
        stores.write(self.folder, "bucket/inner/a", SHAPE, [8, 6], [2, 3])
        surroundings = {f"AWS_{name.upper()}": value for name, value in options.items()}
        other = {"AWS_ENDPOINT": "http://127.0.0.1:1"}
        for given, around in ((options, {}), (None, surroundings), (options, other)):
            with mock.patch.dict(os.environ, around):
                for url in ("s3://bucket/inner", "s3a://bucket/inner/"):
                    (batch,) = zp.Loader(zp.Prefetcher(url, storage_options=given), [[self.rows[5]]])
                    self.assert_rows(batch, [5])
                    del batch
        self.assertIn("bucket/inner/a/zarr.json", server.log)

    def test_reads_that_take_long_are_sent_twice(self) -> None:
        for hedges, wanted in ((0.05, 1), (None, 0), (0.0, 0)):
            late, came = threading.Event(), []

            def hold(path: str) -> None:
                came.append(path)
                if path == "b/c/5/0" and came.count(path) == 1:
                    # Until it is asked for once more, or for so long.
                    late.wait(PATIENCE if wanted else 0.5)
                elif path == "b/c/5/0":
                    late.set()

            prefetcher = zp.Prefetcher(self.serve(hold).url, hedges=hedges)
            # It has to know of some answers.
            for _ in range(10):
                for batch in zp.Loader(prefetcher, [[("b", (0, 0), (20, 6))]]):
                    del batch
            (batch,) = zp.Loader(prefetcher, [[("b", (20, 0), (4, 6))]])
            with self.subTest(hedges):
                self.assertEqual(stores.numbers(batch[0]), stores.elements([20, 0], [4, 6], SHAPE, 0))
                self.assertEqual(came.count("b/c/5/0"), 1 + wanted)
                self.assertGreaterEqual(prefetcher.counts()["hedges"], wanted)
                if not wanted:
                    self.assertEqual(prefetcher.counts()["hedges"], 0)
            del batch

    def test_data_is_kept_in_memory_and_on_a_disk(self) -> None:
        folder = self.folder / "of a disk"
        for disk in (0, 3):
            prefetcher = zp.Prefetcher(self.folder, disk=folder, data=1 << 20, consolidated=True)
            for _ in range(2):
                (batch,) = zp.Loader(prefetcher, [[("a", (0, 0), (2, 3))]])
                self.assertEqual(batch[0].shape, (2, 3))
                del batch
            counts = prefetcher.counts()
            # No group tells of the array. The second time all is in memory.
            self.assertEqual((counts["requests"], counts["disk"]), (5 - disk // 3, disk))
            end = time.monotonic() + PATIENCE
            while len(list(folder.rglob("*.read"))) < 3 and time.monotonic() < end:
                time.sleep(0.001)
            # An array, an index and the data of a chunk.
            self.assertEqual(len(list(folder.rglob("*.read"))), 3)

    def test_a_loader_is_published_unless_it_is_told_not_to_be(self) -> None:
        def records() -> int:
            files = Path("/proc/self/fd").iterdir()
            return sum(str(file.readlink()).startswith("/memfd:zernel-loader") for file in files
                       if file.is_symlink())

        for published, wanted in ((True, 1), (False, 0)):
            with zp.Loader(zp.Prefetcher(self.folder), [[self.rows[5]]], published=published) as loader:
                # Those of loaders before this one go.
                self.assertTrue(eventually(lambda wanted=wanted: records() == wanted), records())
                self.assert_rows(next(loader), [5])

    def test_stores_of_a_disk_are_told_apart_and_secrets_are_not_written(self) -> None:
        folder, place = self.folder / "of a disk", self.serve().url.removeprefix("http://")
        found = []
        # A variable that is no text is passed over.
        with mock.patch.dict(os.environb, {b"AWS_ENDPOINT": b"\xff", b"AWS_\xff": b"a"}):
            for user in ("one", "two", "one"):
                prefetcher = zp.Prefetcher(f"http://{user}:secret@{place}", disk=folder)
                (batch,) = zp.Loader(prefetcher, [[("a", (0, 0), (2, 3))]])
                self.assertEqual(batch[0].shape, (2, 3))
                del batch
                found.append(prefetcher.counts()["disk"])
                # A description, an index, and the data of a chunk; of each store.
                wanted, end = 3 * len({"one", user}), time.monotonic() + PATIENCE
                while len(list(folder.rglob("*.read"))) < wanted and time.monotonic() < end:
                    time.sleep(0.001)
        # The server sends all that it is asked for: data alone takes no request.
        self.assertEqual(found, [0, 0, 1])
        files = list(folder.rglob("*.read"))
        self.assertEqual(len(files), 6)
        for file in files:
            self.assertNotIn(b"secret", file.read_bytes())

    def test_counts(self) -> None:
        prefetcher = zp.Prefetcher(self.folder)
        none = {"requests": 0, "retries": 0, "hedges": 0, "bytes": 0, "disk": 0,
                "metadata_bytes": 0}
        self.assertEqual(prefetcher.counts(), none)
        for _ in range(2):
            (batch,) = zp.Loader(prefetcher, [[("a", (0, 0), (2, 3))]])
            del batch
        counts = prefetcher.counts()
        # An array and an index, and the data twice.
        self.assertEqual((counts["requests"], counts["retries"]), (4, 0))
        self.assertGreater(counts["metadata_bytes"], 0)
        self.assertGreater(counts["bytes"], 2 * 24)


class Orders(Case):
    """Seeds, ranks, epochs and states."""

    def setUp(self) -> None:
        super().setUp()
        self.prefetcher = zp.Prefetcher(self.folder)

    def load(self, order: zp.Order, **more: object) -> list[list[int]]:
        """The rows of all batches, whose content is looked at."""
        found = []
        for batch in zp.Loader(self.prefetcher, order, **more):
            rows = [tensor.start[0] for tensor in batch]
            self.assert_rows(batch, rows)
            found.append(rows)
        return found

    def test_an_order_without_a_seed_is_that_of_the_index(self) -> None:
        order = zp.Order(self.rows, 5)
        self.assertEqual(len(order), 4)
        self.assertEqual(self.load(order), [list(range(at, at + 5)) for at in range(0, 20, 5)])

    def test_ranks_share_an_epoch_out(self) -> None:
        all_rows = []
        for rank in range(3):
            order = zp.Order(self.rows, 4, seed=7, rank=rank, ranks=3)
            all_rows += self.load(order)
        self.assertEqual(sorted(itertools.chain(*all_rows)), list(range(24)))

    def test_seeds_and_epochs_differ(self) -> None:
        first, second = (self.load(zp.Order(self.rows, 24, seed=seed))[0] for seed in (1, 2))
        self.assertNotEqual(first, second)
        both = self.load(zp.Order(self.rows, 24, seed=1, epochs=2))
        self.assertEqual(both[0], first)
        self.assertNotEqual(both[1], first)
        self.assertEqual(sorted(both[1]), list(range(24)))

    def test_without_an_end(self) -> None:
        loader = zp.Loader(self.prefetcher, zp.Order(self.rows, 8, epochs=None))
        found = starts(itertools.islice(loader, 7))
        self.assertEqual(found[6], list(range(8)))
        loader.close()

    def test_a_state_goes_on_behind_each_batch(self) -> None:
        order = zp.Order(self.rows, 5, seed=3, epochs=2)
        loader = zp.Loader(self.prefetcher, order)
        states, expected = [loader.state()], []
        for batch in loader:
            self.assertEqual(batch.state, loader.state())
            states.append(json.loads(json.dumps(batch.state)))
            expected.append([tensor.start[0] for tensor in batch])
        del batch
        self.assertEqual(len(expected), 8)
        for passed, state in enumerate(states):
            self.assertEqual(self.load(order, resume=state), expected[passed:])

    def test_a_state_of_an_iterable(self) -> None:
        batches = in_twos(self.rows)
        loader = zp.Loader(self.prefetcher, batches)
        for _ in range(3):
            next(loader)
        state = loader.state()
        self.assertEqual(state, {"version": 1, "batch": 3})
        loader.close()
        rest = starts(zp.Loader(self.prefetcher, batches, resume=state))
        self.assertEqual(rest, [[row, row + 1] for row in range(6, 24, 2)])
        # One that ends before the state has none.
        self.assertEqual(starts(zp.Loader(self.prefetcher, batches[:2], resume=state)), [])

    def test_a_state_of_another_order_is_refused(self) -> None:
        order = zp.Order(self.rows, 5, seed=3)
        state = zp.Loader(self.prefetcher, order).state()
        for other in (zp.Order(self.rows, 5, seed=4), zp.Order(self.rows, 4, seed=3),
                      zp.Order(self.rows[1:], 5, seed=3), zp.Order(self.rows, 5, seed=3, ranks=2)):
            with self.assertRaisesRegex(zp.MisuseError, "the state is of"):
                zp.Loader(self.prefetcher, other, resume=state)
        for bad in ({}, {"version": 1, "batch": 0}, state | {"more": 1}, 7):
            with self.assertRaisesRegex(zp.MisuseError, "no state of such batches"):
                zp.Loader(self.prefetcher, order, resume=bad)
        for bad in (-1, 1 << 64, "1", None):
            with self.assertRaisesRegex(zp.MisuseError, "is no place"):
                zp.Loader(self.prefetcher, order, resume=state | {"batch": bad})
        with self.assertRaisesRegex(zp.MisuseError, "the state is of version=2, not 1"):
            zp.Loader(self.prefetcher, order, resume=state | {"version": 2})

    def test_orders_that_mean_nothing(self) -> None:
        for arguments, text in (
            ({"batch_size": 0}, "no samples"),
            ({"batch_size": 25}, "no batch for each rank"),
            ({"batch_size": 1, "rank": 2, "ranks": 2}, "rank 2 is none of 2"),
            ({"batch_size": 1, "rank": -1}, "rank=-1 is out of range"),
            ({"batch_size": 1, "seed": 1 << 64}, "out of range"),
            ({"batch_size": 1, "epochs": -1}, "out of range"),
        ):
            with self.subTest(arguments), self.assertRaisesRegex(zp.MisuseError, text):
                zp.Order(self.rows, **arguments)
        with self.assertRaisesRegex(TypeError, "rank is a number"):
            zp.Order(self.rows, 1, rank=None)
        with self.assertRaisesRegex(zp.TooLargeError, "an index of"):
            zp.Order(range(1 << 40), 1)


class Iterators(Case):
    """Batches of the program."""

    def setUp(self) -> None:
        super().setUp()
        self.prefetcher = zp.Prefetcher(self.folder)

    def test_it_is_asked_for_as_many_as_are_read_ahead(self) -> None:
        asked = 0

        def batches() -> Iterator[list]:
            nonlocal asked
            for row in itertools.cycle(self.rows):
                asked += 1
                yield [row]

        loader = zp.Loader(self.prefetcher, batches(), lookahead=3, depth=2)
        self.assertEqual(asked, 5)
        for handed in range(1, 40):
            next(loader)
            self.assertEqual(asked, 4 + handed)
        loader.close()

    def test_an_exception_comes_behind_the_batches_before_it(self) -> None:
        def batches() -> Iterator[list]:
            yield [self.rows[0]]
            yield [self.rows[1]]
            raise LookupError("of the program")

        loader = zp.Loader(self.prefetcher, batches())
        self.assert_rows(next(loader), [0])
        self.assert_rows(next(loader), [1])
        state = loader.state()
        with self.assertRaisesRegex(LookupError, "of the program"):
            next(loader)
        self.assertEqual(loader.state(), state)
        self.assertEqual(list(loader), [])

    def test_a_batch_that_is_none_is_a_fault_of_its_place(self) -> None:
        good, batches = [self.rows[2]], [[self.rows[0]]]
        for bad, kind in (
            (("a", (0, 0)), zp.MisuseError),
            (("a", (0, 0), 7), TypeError),
            ((7, (0, 0), (1, 1)), TypeError),
            ("a", TypeError),
            (("a", (-1, 0), (1, 1)), zp.MisuseError),
            (("a", (0, 1 << 64), (1, 1)), zp.MisuseError),
            (("a", (0,), (1, 1)), zp.MisuseError),
            (("a", (20, 0), (5, 1)), zp.MisuseError),
        ):
            loader = zp.Loader(self.prefetcher, [*batches, [bad], good])
            self.assert_rows(next(loader), [0])
            with self.subTest(bad), self.assertRaises(kind):
                next(loader)
            self.assert_rows(next(loader), [2])
            self.assertEqual(list(loader), [])
            self.assertEqual(loader.state(), {"version": 1, "batch": 3})

    def test_batches_that_are_none_hold_up_no_others(self) -> None:
        bad = [("a", (0, 0))]
        for bounds in ({}, {"lookahead": 2, "depth": 1}):
            batches = [[self.rows[0]], *[bad] * 5, *[[row] for row in self.rows], *[bad] * 40]
            loader, found, faults = zp.Loader(self.prefetcher, batches, **bounds), [], 0
            # A call that waits for ever is ended.
            watch = threading.Timer(PATIENCE, loader.close)
            watch.start()
            while not loader.closed:
                try:
                    found.extend(batch[0].start[0] for batch in loader)
                except zp.MisuseError:
                    faults += 1
            watch.cancel()
            watch.join()
            self.assertEqual((found, faults), ([0, *range(24)], 45), bounds)

    def test_batches_that_are_none(self) -> None:
        with self.assertRaises(TypeError):
            next(zp.Loader(self.prefetcher, 7))
        with self.assertRaises(TypeError):
            next(zp.Loader(self.prefetcher, [7]))

    def test_the_end(self) -> None:
        with zp.Loader(self.prefetcher, in_twos(self.rows)) as loader:
            self.assertIs(iter(loader), loader)
            self.assert_rows(next(loader), [0, 1])
            self.assertFalse(loader.closed)
        self.assertTrue(loader.closed)
        self.assertEqual(list(loader), [])
        self.assertEqual(loader.state(), {"version": 1, "batch": 1})
        loader.close()
        whole = zp.Loader(self.prefetcher, in_twos(self.rows))
        self.assertEqual(len(list(whole)), 12)
        self.assertTrue(whole.closed)


class Waits(Case):
    """Other threads, and bounds, while a batch is on its way."""

    def test_close_ends_a_wait(self) -> None:
        held = threading.Event()
        self.addCleanup(held.set)
        server = self.serve(lambda path: held.wait(PATIENCE) and None)
        loader = zp.Loader(zp.Prefetcher(server.url), in_twos(self.rows))
        found: list = []
        waiting = threading.Thread(target=lambda: found.append(next(loader, "over")))
        waiting.start()
        loader.close()
        waiting.join(PATIENCE)
        self.assertEqual(found, ["over"])

    def test_threads_share_the_batches(self) -> None:
        loader = zp.Loader(zp.Prefetcher(self.serve().url), [[row] for row in self.rows], depth=2)
        found: list[int] = []

        def take() -> None:
            found.extend(batch[0].start[0] for batch in loader)

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        self.assertEqual(sorted(found), list(range(24)))

    def test_data_is_read_within_depth_and_bytes(self) -> None:
        # A batch is a chunk of 4 rows of `b`, which is an object of its own.
        batches = [[("b", (row, 0), (4, 6))] for row in range(0, 24, 4)]
        one = stores.size([4, 6])
        for bounds, ahead in (({"depth": 2}, 2), ({"depth": 1}, 1),
                              # Bytes are counted by 4 KiB.
                              ({"depth": 6, "bytes": 4096}, 1), ({"depth": 6, "bytes": one}, 1)):
            handed, too_far = 0, []

            def look(path: str) -> None:
                if path.startswith("b/c/") and int(path.split("/")[2]) > handed + ahead:
                    too_far.append((path, handed))

            server = self.serve(look)
            for batch in zp.Loader(zp.Prefetcher(server.url), batches, **bounds):
                handed += 1
                del batch
            self.assertEqual((handed, too_far), (6, []), bounds)


if __name__ == "__main__":
    unittest.main()
