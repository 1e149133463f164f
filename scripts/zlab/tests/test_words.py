# SPDX-License-Identifier: GPL-2.0
"""Tests of the check of words: it finds what it is for, and nothing else."""

import unittest
from pathlib import Path

from zlab import words


class Words(unittest.TestCase):
    """One line per case."""

    def found(self, rule: str, line: str, name: str = "rust/a.rs") -> list[str]:
        """The findings of a rule in a file of one line."""
        return list(words.CHECKS[rule](Path(name), line))

    def test_replaced_words(self):
        for line in ("/// If he exits", "let nap = 1;", "fn usual_nap()", "NapEnds", "OneNap",
                     "// Barred: it"):
            self.assertTrue(self.found("replaced", line), line)

    def test_other_words(self):
        for line in ("the cache", "snapshot", "kidnapped", "there", "history", "embarred", "#ifdef HERE_H"):
            self.assertFalse(self.found("replaced", line), line)

    def test_openings(self):
        for line in ("/// Whether it runs.", "    // What is left.", "//! Who may.", "int x; // How",
                     " * @flags: out: Whether", "/* What */", "# Who calls"):
            self.assertTrue(self.found("opening", line), line)
        self.assertTrue(self.found("opening", '    """What it is."""', "a.py"))

    def test_other_openings(self):
        for line in ("/// Tells whether it runs.", "// Whatever runs.", "let s = \"What\";",
                     "/// However long.", "What = 1"):
            self.assertFalse(self.found("opening", line), line)
        self.assertFalse(self.found("opening", "What: /sys/x", "Documentation/ABI/testing/x.rst"))

    def test_words_to_decode(self):
        for line in ("/// Wakes whoever waits.", "int x; // Whatever it is.", " * what became of it",
                     "# What came of it."):
            self.assertTrue(self.found("decoding", line), line)
        self.assertTrue(self.found("decoding", "It stays, whatever it was.", "Documentation/x.rst"))

    def test_other_words_with_what(self):
        for line in ("let whatever = 1;", "/// What it does.", "let s = \"whoever\";"):
            self.assertFalse(self.found("decoding", line), line)

    def test_all_words_have_a_replacement(self):
        for old in words.REPLACED:
            for word in old.split("|"):
                self.assertTrue(self.found("replaced", word), word)


if __name__ == "__main__":
    unittest.main()
