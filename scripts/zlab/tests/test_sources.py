# SPDX-License-Identifier: GPL-2.0
"""Tests of the source checks: each must find what it is for."""

import tempfile
import unittest
from pathlib import Path

from zlab import sources

CODE = '''\
// SPDX-License-Identifier: GPL-2.0
//! Says what it is for.
fn f() { g() } // .unwrap() in a comment
const TEXT: &str = "unsafe bindings:: .unwrap()";
mod tests {
    fn t() { if true { x.unwrap(); } }
}
'''


class Sources(unittest.TestCase):
    """One small tree per test."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        self.addCleanup(setattr, sources, "ROOT", sources.ROOT)
        sources.ROOT = self.root

    def found(self, check, files: dict[str, str]) -> list[str]:
        """The findings of a check in these files."""
        paths = []
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            paths.append(path)
        return list(check(paths))

    def test_clean_file_passes_everything(self):
        for check in sources.CHECKS.values():
            self.assertEqual(self.found(check, {"rust/zernel/a.rs": CODE}), [], check.__name__)

    def test_missing_spdx(self):
        self.assertTrue(self.found(sources.check_spdx, {"rust/a.rs": "fn f() {}\n"}))
        for name, licence, right in (
                ("rust/zernel/a.rs", "GPL-2.0", True),
                ("rust/policy/a.rs", "GPL-2.0", False),
                ("rust/policy/a.rs", "GPL-2.0 OR MIT", True),
                ("tools/a.rs", "MIT OR Apache-2.0", True),
                ("tools/a.rs", "GPL-2.0", False)):
            files = {name: f"// SPDX-License-Identifier: {licence}\n"}
            with self.subTest(name=name, licence=licence):
                self.assertEqual(not self.found(sources.check_spdx, files), right)

    def test_missing_purpose(self):
        self.assertTrue(self.found(sources.check_purpose, {"rust/a.rs": "fn f() {}\n"}))

    def test_long_file(self):
        self.assertTrue(self.found(sources.check_length, {"a.py": "\n" * 601}))

    def test_unsafe_outside_glue(self):
        code = "fn f() { unsafe { bindings::x() } }\n"
        check = sources.check_unsafe
        self.assertTrue(self.found(check, {"rust/zernel/a.rs": code}))
        self.assertFalse(self.found(check, {"rust/glue/a.rs": code}))

    def test_panics(self):
        check = sources.check_panics
        for code in ("x.unwrap();", 'x.expect("y");', "todo!()", "panic!()"):
            self.assertTrue(self.found(check, {"rust/a.rs": f"fn f() {{ {code} }}\n"}), code)

    def test_file_that_only_tests_compile_may_unwrap(self):
        files = {"rust/m/mod.rs": "#[cfg(test)]\nmod fixture;\n",
                 "rust/m/fixture.rs": "fn f() { x.unwrap(); }\n"}
        self.assertFalse(self.found(sources.check_panics, files))

    def test_code_after_a_test_module_is_checked(self):
        code = CODE + "fn h() { x.unwrap(); }\n"
        self.assertTrue(self.found(sources.check_panics, {"rust/a.rs": code}))

    def test_dead_link(self):
        check = sources.check_links
        self.assertTrue(self.found(check, {"README.md": "[x](Documentation/none.rst)\n"}))
        self.assertFalse(self.found(check, {"a.md": "x", "README.md": "[x](a.md#part) [y](https://z)"}))


if __name__ == "__main__":
    unittest.main()
