# SPDX-License-Identifier: MIT OR Apache-2.0
"""A case with a folder of arrays."""

import gc
import importlib
import sys
import tempfile
import time
import unittest
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType

import stores
import zernel_prefetch as zp

PATIENCE = 60
#: Modules that the tests of both packages use.
SHARED = Path(__file__).resolve().parents[2] / "python/tests"
#: Rows of the array `a`, which has shards, and of `b`, which has none.
SHAPE = [24, 6]


def shared(name: str) -> ModuleType:
    """One of these."""
    sys.path.append(str(SHARED))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(SHARED))


class Case(unittest.TestCase):
    """Nothing of it is left in memory at its end."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        stores.write(self.folder, "a", SHAPE, [8, 6], [2, 3])
        stores.write(self.folder, "b", SHAPE, [4, 6])
        self.rows = stores.rows("a", SHAPE)
        self.addCleanup(self.assert_freed)

    def assert_freed(self) -> None:
        """The memory of all samples is free. Loads that were given up end soon."""
        def is_free() -> bool:
            # A cycle may be in the hands of a thread that ends.
            gc.collect()
            return zp.alive() == (0, 0)

        self.assertTrue(eventually(is_free), zp.alive())

    def serve(self, before: Callable[[str], int | None] = lambda path: None) -> stores.Server:
        """Serves the folder."""
        server = stores.Server(self.folder, before)
        self.addCleanup(server.close)
        return server

    def assert_rows(self, batch: Iterable[zp.Tensor], expected: list[int]) -> None:
        """The tensors are those rows of `a`."""
        found = [tensor.start[0] for tensor in batch]
        self.assertEqual(found, expected)
        for number, tensor in zip(expected, batch):
            self.assertEqual(stores.numbers(tensor), stores.row(number, SHAPE))


def eventually(condition: Callable[[], bool]) -> bool:
    """True as soon as the condition is."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def starts(loader: Iterable[zp.Batch]) -> list[list[int]]:
    """The first rows of the tensors of all batches."""
    return [[tensor.start[0] for tensor in batch] for batch in loader]


def in_twos(rows: list) -> list[list]:
    """Batches of two samples."""
    return [rows[at:at + 2] for at in range(0, len(rows), 2)]
