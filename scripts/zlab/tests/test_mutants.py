# SPDX-License-Identifier: GPL-2.0
"""Tests of the list of faults, and of how it is read."""

import json
import tempfile
import unittest
from pathlib import Path

from zlab import mutants
from zlab.mutants import Fault


class Faults(unittest.TestCase):
    """The list in the repository, and lists that are not sound."""

    def test_each_fault_stands_once(self):
        faults = mutants.load_faults()
        self.assertGreaterEqual(len(faults), 40)
        self.assertEqual(mutants.check_faults(mutants.ROOT, faults), [])

    def test_complaints(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            path = root / "rust/sim/a.rs"
            path.parent.mkdir(parents=True)
            path.write_text("one\ntwo\ntwo\n", encoding="utf-8")
            self.assertEqual(mutants.places(root, "two\n"), [(path, 2), (path, 3)])
            good, twice = Fault("a", "", "one", "1"), Fault("b", "", "two", "2")
            gone, idle = Fault("a", "", "three", "3"), Fault("c", "", "one", "one")
            self.assertEqual(mutants.check_faults(root, [good]), [])
            complaints = mutants.check_faults(root, [good, twice, gone, idle])
            self.assertEqual(complaints, [
                "b: its text stands 2 times rust/sim/a.rs:2, rust/sim/a.rs:3",
                "a: its text stands 0 times",
                "c: it changes nothing",
                "a: two faults have this name",
            ])

    def test_results_are_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "faults.json"
            mutants.Results(path).put("a", verdict="missed")
            again = mutants.Results(path)
            again.put("b", verdict="caught", by="kunit")
            kept = json.loads(path.read_text(encoding="utf-8"))
            self.assertEqual(kept, {"a": {"verdict": "missed"},
                                    "b": {"verdict": "caught", "by": "kunit"}})
