# SPDX-License-Identifier: MIT OR Apache-2.0
"""Faults: each kind is an exception of its own, of its batch alone."""

import inspect
import itertools
import json
import pickle
import re
import unittest
from pathlib import Path

import stores
import zernel_prefetch as zp
from case import SHAPE, Case, shared

page = shared("page")
PAGE = Path(__file__).resolve().parents[3] / "Documentation/prefetch.rst"


class Kinds(Case):
    """Each of the page, as the store has it."""

    def fault_of(self, kind: type[zp.Error], sample: tuple, text: str, place: object = None,
                 **more: object) -> zp.Error:
        """The fault of a batch; the batches beside it are there. A store that fails has none."""
        good = [self.rows[1]] if place is None else []
        prefetcher = zp.Prefetcher(place or self.folder, **more)
        loader = zp.Loader(prefetcher, [good, [sample], good])
        self.assert_rows(next(loader), [1] * len(good))
        with self.assertRaisesRegex(kind, text) as caught:
            next(loader)
        self.assertIs(type(caught.exception), kind)
        self.assert_rows(next(loader), [1] * len(good))
        self.assertEqual(list(loader), [])
        return caught.exception

    def test_missing(self) -> None:
        self.fault_of(zp.MissingError, ("none", (0, 0), (1, 1)), "none")
        with self.assertRaisesRegex(zp.MissingError, "nowhere"):
            zp.Prefetcher(self.folder / "nowhere")

    def test_denied(self) -> None:
        server = self.serve(lambda path: 403)
        self.fault_of(zp.DeniedError, self.rows[0], "a/zarr.json", server.url)

    def test_unavailable(self) -> None:
        server = self.serve(lambda path: 503)
        found = self.fault_of(zp.UnavailableError, self.rows[0], "503", server.url, retries=0)
        self.assertTrue(found.transient)
        self.assertEqual(len(server.log), 1)
        # One that answers well the second time.
        trials = itertools.count()
        server = self.serve(lambda path: 503 if next(trials) == 0 else None)
        prefetcher = zp.Prefetcher(server.url)
        (batch,) = zp.Loader(prefetcher, [[self.rows[3]]])
        self.assert_rows(batch, [3])
        self.assertEqual(prefetcher.counts()["retries"], 1)

    def test_corrupt(self) -> None:
        stores.write(self.folder, "bad", SHAPE, [8, 6], [2, 3])
        (self.folder / "bad/zarr.json").write_text("{", encoding="utf-8")
        self.fault_of(zp.CorruptError, ("bad", (0, 0), (1, 1)), "bad")

    def test_unsupported(self) -> None:
        stores.write(self.folder, "odd", SHAPE, [8, 6], codecs=[{"name": "of_none"}])
        self.fault_of(zp.UnsupportedError, ("odd", (0, 0), (1, 1)), "odd")

    def test_too_large(self) -> None:
        stores.write(self.folder, "vast", [1, 1, 1], [1, 1, 1])
        file = self.folder / "vast/zarr.json"
        metadata = json.loads(file.read_text(encoding="utf-8")) | {"shape": [1 << 40] * 3}
        file.write_text(json.dumps(metadata), encoding="utf-8")
        origin, most = (0, 0, 0), 1 << 40
        self.fault_of(zp.TooLargeError, ("vast", origin, (most, most, 1)), "1048576 objects")
        # It has no elements, and no strides either.
        self.fault_of(zp.TooLargeError, ("vast", origin, (0, most, most)), "no memory")

    def test_changed(self) -> None:
        server, tags = self.serve(), itertools.count()
        server.tag = lambda path: f'"{next(tags)}"'
        self.fault_of(zp.ChangedError, self.rows[0], "a/c/0/0", server.url)

    def test_saturated(self) -> None:
        prefetcher = zp.Prefetcher(self.folder, arrays=1, longest_wait=0.05)
        loader = zp.Loader(prefetcher, [[self.rows[0], ("b", (0, 0), (1, 1))], [self.rows[1]]])
        with self.assertRaises(zp.SaturatedError) as caught:
            next(loader)
        self.assertTrue(caught.exception.transient)
        self.assert_rows(next(loader), [1])

    def test_misuse(self) -> None:
        found = self.fault_of(zp.MisuseError, ("a", (20, 0), (5, 6)), r"\[20, 0\].*a, \[24, 6\]")
        self.assertIsInstance(found, ValueError)

    def test_classes_are_those_of_the_page(self) -> None:
        rows = page.table(PAGE.read_text(encoding="utf-8"), "Faults")
        kinds = [re.findall(r"``(\w+)``", row[0]) for row in rows]
        kinds = [kind for found in kinds for kind in found]
        self.assertGreater(len(kinds), 9)
        for kind in kinds:
            error = getattr(zp, f"{kind}Error")
            self.assertTrue(issubclass(error, zp.Error))
            self.assertEqual(error.kind, re.sub("(?<=.)([A-Z])", r"_\1", kind).lower())
            # A worker tells it to another process.
            again = pickle.loads(pickle.dumps(error("of a test")))
            self.assertEqual((type(again), again.args), (error, ("of a test",)))
        self.assertEqual(zp.InternalError.kind, "internal")
        self.assertEqual({name for name in zp.__all__ if name.endswith("Error")},
                         {f"{kind}Error" for kind in [*kinds, "Internal"]} | {"Error"})


class Arguments(Case):
    """Bounds and stores that mean nothing, and defaults."""

    def test_stores(self) -> None:
        (self.folder / "file").write_text("", encoding="utf-8")
        for place, options, text in (
            (self.folder / "file", None, "is no folder"),
            (self.folder, {"region": "here"}, "no option \"region\""),
            ("ftp://host/data", None, "ftp://"),
            ("http://", None, "http://"),
            ("file://host/data", None, "names no folder here"),
            ("https://host", {"of_none": "1"}, "no option \"of_none\""),
            ("s3://bucket", {"of_none": "1"}, "no option \"of_none\""),
            ("https://host", {"timeout": "of_none"}, "of_none"),
        ):
            with self.subTest(place), self.assertRaisesRegex(zp.MisuseError, re.escape(text)):
                zp.Prefetcher(place, storage_options=options)
        with self.assertRaises(TypeError):
            zp.Prefetcher(self.folder, storage_options={"region": 7})
        with self.assertRaises(TypeError):
            zp.Prefetcher(7)

    def test_options_of_the_page(self) -> None:
        text = PAGE.with_name("prefetch-python.rst").read_text(encoding="utf-8")
        told = text.split("``storage_options`` are")[1].split("- ``zarr_format``")[0]
        s3, http = told.split("for HTTP")
        for url, names in (("s3://bucket", s3), ("https://host", http)):
            names = re.findall("``([a-z_]+)``", names)
            self.assertGreater(len(names), 2)
            values = {"timeout": "3 s", "proxy_url": "http://host", "endpoint": "http://host"}
            options = {name: values.get(name, "true") for name in names if name != "object_store"}
            self.assertIsInstance(zp.Prefetcher(url, storage_options=options), zp.Prefetcher)

    def test_a_password_is_not_shown(self) -> None:
        prefetcher = zp.Prefetcher("https://me:secret@host/data?key=secret")
        self.assertEqual(repr(prefetcher), "<zernel_prefetch.Prefetcher of https://host/data>")
        self.assertEqual(repr(zp.Prefetcher(self.folder)),
                         f"<zernel_prefetch.Prefetcher of {self.folder}>")

    def test_bounds_of_a_prefetcher(self) -> None:
        for name, value, text in (
            ("in_flight", 0, "1 at least"), ("arrays", 0, "1 at least"), ("shards", 0, "1 at least"),
            ("in_flight", 1 << 63, "out of range"), ("zarr_format", 1, "2 or 3"),
            ("keep_faults", -1.0, "no time"), ("longest_wait", float("nan"), "no time"),
            ("longest_wait", 1e30, "no time"), ("bytes", 1 << 20, ""),
            ("hedges", -0.1, "from 0 to 1"), ("hedges", 1.1, "from 0 to 1"),
            ("hedges", float("nan"), "from 0 to 1"),
            ("disk", __file__, "disk="),
        ):
            with self.subTest(name), self.assertRaisesRegex(zp.MisuseError, text):
                zp.Prefetcher(self.folder, **{name: value})
        for name, value in (("bytes", -1), ("arrays", 1 << 32), ("in_flight", 1 << 64)):
            with self.subTest(name), self.assertRaises(OverflowError):
                zp.Prefetcher(self.folder, **{name: value})

    def test_bounds_of_a_loader(self) -> None:
        prefetcher = zp.Prefetcher(self.folder)
        for name in ("lookahead", "depth", "bytes", "max_chunks", "max_substreams"):
            with self.subTest(name), self.assertRaisesRegex(zp.MisuseError, f"{name}=0"):
                zp.Loader(prefetcher, [], **{name: 0})
        with self.assertRaisesRegex(zp.MisuseError, "out of range"):
            zp.Loader(prefetcher, [], depth=1 << 63)

    def test_zarr_format(self) -> None:
        for number in (None, 3):
            (batch,) = zp.Loader(zp.Prefetcher(self.folder, zarr_format=number), [[self.rows[0]]])
            self.assert_rows(batch, [0])
        with self.assertRaises(zp.MissingError):
            next(zp.Loader(zp.Prefetcher(self.folder, zarr_format=2), [[self.rows[0]]]))

    def test_defaults_are_those_of_the_page(self) -> None:
        units = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
        told = {}
        for name, default, _ in page.table(PAGE.read_text(encoding="utf-8"), "Bounds"):
            number, _, unit = default.replace(",", "").partition(" ")
            if number.isdigit() and unit != "%" and (words := re.findall(r"``([\w:]+)``", name)):
                told[words[0]] = int(number) * units.get(unit, 1)
        prefetcher = inspect.signature(zp.Prefetcher).parameters
        loader = inspect.signature(zp.Loader).parameters
        self.assertGreater(len(told), 10)
        for name, default in told.items():
            of, bound = (loader, name) if name in ("lookahead", "depth", "max_chunks", "max_substreams") else \
                (prefetcher, name)
            if name == "Settings::bytes":
                of, bound = loader, "bytes"
            with self.subTest(name):
                self.assertEqual(of[bound.removeprefix("Options::")].default, default)


if __name__ == "__main__":
    unittest.main()
