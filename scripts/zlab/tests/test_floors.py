# SPDX-License-Identifier: GPL-2.0
"""Tests of the stair: an import from above, and a circle, are found however they are written."""

import re
import tempfile
import unittest
from pathlib import Path

from zlab import floors


class Stair(unittest.TestCase):
    """One small crate per test."""

    def stair(self, files: dict[str, str]) -> floors.Stair:
        """The imports of a crate of these files."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = Path(folder.name).resolve()
        for name, text in files.items():
            path = root / "rust/zernel" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return floors.Stair(root)

    def circles(self, a: str, b: str = "pub struct B; impl B { pub const N: u8 = crate::nice::N; }"):
        """The circles of nice.rs, given as `a`, and ids.rs, which uses it."""
        crate = "mod nice; mod ids;"
        return self.stair({"zernel.rs": crate, "nice.rs": a, "ids.rs": b}).circles()

    def test_circle(self):
        for code in (
            "use crate::ids;",
            "use crate::ids::B;",
            "use crate::{ids::{self, B}};",
            "use super::ids::*;",
            "use super::{ids as x};",
            "fn f() { crate::ids::B::N; }",
            "fn f() { super::ids::B::N; }",
            "mod inner { use super::super::ids::B; }",
            "mod inner { fn f() -> self::super::super::ids::B { } }",
        ):
            self.assertEqual(
                self.circles(code), ["zernel/ids.rs -> zernel/nice.rs -> zernel/ids.rs"], code)

    def test_no_circle(self):
        for code in (
            "// use crate::ids;",
            'const A: &str = "crate::ids";',
            "use kernel::ids;",
            "pub(crate) use crate::ids::B;",
            "pub(in crate::ids) fn f() {}",
            "#[cfg(zernel_kunit)]\nmod tests { use crate::ids::B; }",
            "#[cfg(zernel_nvidia)]\nmod other;",
        ):
            self.assertEqual(self.circles(code), [], code)

    def test_name_that_is_passed_on(self):
        files = {
            "zernel.rs": "mod nice; mod ids; mod error;",
            "error.rs": "pub(crate) struct E;",
            "nice.rs": "pub(crate) use crate::error::E;",
            "ids.rs": "use crate::nice::E;",
        }
        self.assertEqual(
            set(self.stair(files).imports), {("zernel/ids.rs", "zernel/error.rs")})
        files["nice.rs"] += " fn f() -> E { E }"
        self.assertIn(("zernel/nice.rs", "zernel/error.rs"), self.stair(files).imports)

    def test_climbing(self):
        files = {
            "zernel.rs": "mod registry; mod worker; mod new;",
            "registry.rs": "use crate::worker::W;",
            "worker.rs": "pub(crate) struct W;",
            "new.rs": "use crate::worker::W;",
        }
        found = self.stair(files).climbing()
        self.assertEqual(len(found), 2, found)
        self.assertIn("rust/zernel/new.rs: stands on no floor", found)
        self.assertIn("rust/zernel/registry.rs:1: imports worker::W from above or beside", found)
        self.assertEqual(self.stair({**files, "registry.rs": "", "new.rs": ""}).climbing(), [])

class Newcomer(unittest.TestCase):
    """The list of tasks in contributing.rst names files that exist."""

    def test_tasks(self):
        text = (floors.ROOT / "Documentation/contributing.rst").read_text(encoding="utf-8")
        part = text.split("Files of common changes", 1)[1].split("\nWords\n====", 1)[0]
        rows = [row for row in part.split("\n- ")[1:]]
        self.assertGreaterEqual(len(rows), 10)
        for row in rows:
            files = re.findall(r"``([\w./-]+/[\w./-]*)``", row)
            self.assertTrue(1 <= len(files) <= 4, row)
            for name in files:
                self.assertTrue((floors.ROOT / name).exists(), name)
