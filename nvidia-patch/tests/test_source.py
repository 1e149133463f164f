# SPDX-License-Identifier: GPL-2.0
"""Tests of reading C: functions, code without comments, changes."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from patcher.source import edits, find, functions, without_comments  # noqa: E402

CODE = """\
#define MANY(x) \\
    do { x(1); } while (0)
struct pair
{
    int a;
};
static struct pair *one(int x) /* two( */
{
    if (x) {
        return NULL;
    }
}

int
three
(
    int (*callback)(void)
)
{
    return '"' + callback(); // "four("
}
"""


class Source(unittest.TestCase):
    """The parsing that the checks of the hooks rest on."""

    def test_functions(self):
        where = functions(CODE)
        lines = CODE.split("\n")
        for text, name in (("int a;", ""), ("return NULL;", "one"), ("callback();", "three"),
                           ("do {", "")):
            number = next(n for n, line in enumerate(lines) if text in line)
            self.assertEqual(where[number], name, text)

    def test_comments_are_blank_and_strings_stay(self):
        code = without_comments('a("/* no */"); /* yes\n yes */ b; // yes\n')
        self.assertEqual(code.split(), ['a("/*', "no", '*/");', "b;"])
        self.assertEqual(code.count("\n"), 2)

    def test_find_takes_whole_words(self):
        text = "nv_rm_ioctl(a);\nrm_ioctl(a);\nrm_ioctls(a);\n/* rm_ioctl( */\nrm_ioctl (a);\n"
        self.assertEqual(find(text, "rm_ioctl("), [1])
        self.assertEqual(find("a  !=  NULL\n", "a != NULL"), [0])

    def test_edits_close_to_each_other(self):
        found = list(edits("a\nb\nc\nd\ne\nf\n", "a\nB\nc\nD\ne\nf\n"))
        self.assertEqual([(edit.removed, edit.added) for edit in found],
                         [(("b",), ("B",)), (("d",), ("D",))])

    def test_edits(self):
        old = "a\nb\nc\nd\ne\nf\n"
        found = list(edits(old, "a\nb\nB\nc\nd\ne\nf\n"))
        self.assertEqual([(e.new_line, e.removed, e.added) for e in found], [(2, (), ("B",))])
        found = list(edits(old, "a\nx\nc\nd\ne\n"))
        self.assertEqual([(e.removed, e.added) for e in found], [(("b",), ("x",)), (("f",), ())])
        self.assertEqual(list(edits(old, old)), [])

    def test_edits_that_never_meet(self):
        with self.assertRaises(ValueError):
            list(edits("\n".join(map(str, range(500))), "\n".join(map(str, range(1000, 1500)))))


if __name__ == "__main__":
    unittest.main()
