# SPDX-License-Identifier: MIT OR Apache-2.0
"""The examples of the page run as they are, and it has the names of the package."""

import contextlib
import importlib.util
import io
import os
import re
import sys
import types
import unittest
from pathlib import Path

import stores
import zernel_prefetch as zp
from case import Case, shared

page = shared("page")
HAS_ZARR = importlib.util.find_spec("zarr") is not None
IS_REQUIRED = os.environ.get("ZERNEL_ZARR") == "required"
PAGE = Path(__file__).resolve().parents[3] / "Documentation/prefetch-python.rst"
#: The output of each example.
SAID = {"make.py": "", "train.py": "15 batches\n", "workers.py": "4 batches\n", "serve.py": "3\n"}


class Page(Case):
    """Documentation/prefetch-python.rst."""

    def test_examples(self) -> None:
        found = page.examples(PAGE)["python"]
        self.assertEqual([name for name, _ in found], list(SAID))
        self.assertTrue(HAS_ZARR or not IS_REQUIRED, "zarr is to be there")
        if not HAS_ZARR:
            found.pop(0)
            stores.write(self.folder, "data/t2m", [240, 4, 6], [24, 4, 6], [1, 4, 6], "float32", "f", 0)
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        if importlib.util.find_spec("torch") is None:
            self.stand_in()
        for name, text in found:
            said = io.StringIO()
            with self.subTest(name), contextlib.redirect_stdout(said):
                exec(compile(text, name, "exec"), {"__name__": "__main__"})
            self.assertEqual(said.getvalue(), SAID[name])
            if name == "make.py":
                (batch,) = zp.Loader(zp.Prefetcher("data"), [[("t2m", (7, 0, 0), (1, 4, 6))]])
                self.assertEqual(stores.numbers(batch[0], "f"), list(range(7 * 24, 8 * 24)))
                del batch
            if name == "train.py":
                self.assertLessEqual(len(text.splitlines()), 20)

    def stand_in(self) -> None:
        """A module in place of torch, with as much of it as the page uses."""
        torch, utils = types.ModuleType("torch"), types.ModuleType("torch.utils")
        data = types.ModuleType("torch.utils.data")
        torch.from_dlpack, torch.utils, utils.data = memoryview, utils, data
        data.IterableDataset = object
        data.get_worker_info = lambda: None
        data.DataLoader = lambda dataset, **_: iter(dataset)
        names = {"torch": torch, "torch.utils": utils, "torch.utils.data": data}
        sys.modules |= names
        self.addCleanup(lambda: [sys.modules.pop(name) for name in names])

    def test_names(self) -> None:
        text = PAGE.read_text(encoding="utf-8")
        names = {*zp.__all__, *zp.Order.__dataclass_fields__, *zp.Sample._fields}
        for kind in (zp.Prefetcher, zp.Loader, zp.Tensor, zp.Batch):
            names |= {name for name in vars(kind) if not name.startswith("_")}
        names -= {"__version__", "_", *(name for name in names if name.endswith("Error"))}
        missing = sorted(name for name in names if not re.search(rf"\b{name}\b", text))
        self.assertEqual(missing, [])


if __name__ == "__main__":
    unittest.main()
