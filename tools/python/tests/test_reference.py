# SPDX-License-Identifier: MIT OR Apache-2.0
"""The references of all languages name every error, with one number; each function of C is tried."""

import errno
import re
import unittest
from pathlib import Path

import page

ROOT = Path(__file__).resolve().parents[3]
PAGES = ROOT / "Documentation"
NAME = re.compile(r'"(ZERNEL_[A-Z_]+)"')
WORD = re.compile(r"\bZERNEL_[A-Z_]+")
#: Of a header: ` * -ENOENT     ZERNEL_NO_MODULE, ZERNEL_NO_TSG`.
OF_HEADER = re.compile(r"^ \* -(E\w+) +((?:ZERNEL_\w+(?:, )?)+)", re.MULTILINE)
#: Of a page: ``ZERNEL_NO_MODULE`` (``ENOENT``), or a row of a table.
OF_PAGE = re.compile(r"``(ZERNEL_\w+)``(?: \(|\s+)``(E\w+)``")
FUNCTION = re.compile(r"\b(zernel_[a-z_]+)\(")
DECLARED = re.compile(r"(\*/\n)?^(?:[a-z]\w* )+\*?(zernel_[a-z_]+)\(", re.MULTILINE)


def texts(pattern: str) -> str:
    """All files of a pattern below the root."""
    found = sorted(ROOT.glob(pattern))
    assert found, pattern
    return "\n".join(path.read_text(encoding="utf-8") for path in found)


def names(*patterns: str) -> set[str]:
    """The names of errors that sources have."""
    found = {name for pattern in patterns for name in NAME.findall(texts(pattern))}
    assert len(found) > 3, patterns
    return found


def words(*patterns: str) -> set[str]:
    """The names that pages or headers have."""
    return {name for pattern in patterns for name in WORD.findall(texts(pattern))}


class Errors(unittest.TestCase):
    """Each has its place in the reference of its language."""

    def test_of_the_runtime(self) -> None:
        rows = page.table((PAGES / "runtime.rst").read_text(encoding="utf-8"), "Errors")
        told = [name for row in rows for name in WORD.findall(row[0])]
        self.assertEqual(sorted(told), sorted(names("tools/runtime/src/error.rs")))

    def test_of_c(self) -> None:
        own = names("tools/c/src/fault.rs")
        of_config = names("tools/config/src/*.rs")
        # A word for the release word is none of C, which has numbers.
        of_runtime = names("tools/runtime/src/error.rs") - {"ZERNEL_BAD_WORD"}
        self.assertEqual((own | of_runtime | of_config) - words("include/zernel/*.h"), set())
        self.assertEqual(own - words("Documentation/runtime.rst"), set())
        self.assertEqual(of_config - words("Documentation/runtime-config.rst"), set())

    def test_of_cpp_and_python(self) -> None:
        for own, of_page in ((names("include/zernel/*.hpp"), "runtime-cpp"),
                             (names("tools/python/src/error.rs", "tools/python/python/zernel/*.py"),
                              "runtime-python")):
            told = words(f"Documentation/{of_page}.rst", "Documentation/runtime.rst")
            self.assertEqual(own - told, set())

    def test_each_has_one_number(self) -> None:
        pages = "\n".join(texts(f"Documentation/runtime{part}.rst")
                          for part in ("", "-c", "-cpp", "-python", "-config"))
        of_pages = {(name, number) for name, number in OF_PAGE.findall(pages)}
        of_headers = {(name, number) for number, all_of in OF_HEADER.findall(texts("include/zernel/*.h"))
                      for name in all_of.split(", ") if name}
        self.assertGreater(len(of_pages), 30)
        self.assertGreater(len(of_headers), 20)
        numbers: dict[str, set[str]] = {}
        for name, number in of_pages | of_headers:
            self.assertTrue(hasattr(errno, number), number)
            numbers.setdefault(name, set()).add(number)
        self.assertEqual({name: all_of for name, all_of in numbers.items() if len(all_of) > 1}, {})
        # Those of the headers are on a page, too.
        self.assertEqual({name for name, _ in of_headers} - {name for name, _ in of_pages}, set())


class Functions(unittest.TestCase):
    """Of the headers of C."""

    def test_each_is_described_and_tried(self) -> None:
        declared = DECLARED.findall(texts("include/zernel/*.h"))
        self.assertGreater(len(declared), 25)
        # The second one of a pair that a comment describes.
        pairs = {"zernel_error"}
        self.assertEqual({name for comment, name in declared if not comment} - pairs, set())
        tried = set(FUNCTION.findall(texts("tools/tests/cudatest/languages/*.c")))
        self.assertEqual({name for _, name in declared} - tried, set())


if __name__ == "__main__":
    unittest.main()
