# SPDX-License-Identifier: GPL-2.0
"""Tests of the counting of results, on canned logs."""

import json
import tempfile
import unittest
from pathlib import Path

from zlab import counts


class Counts(unittest.TestCase):
    """Lines that count."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log = Path(folder.name) / "log"

    def counted(self, count, text: str) -> tuple[int, int]:
        """Passed and failed in a log with this text."""
        self.log.write_text(text, encoding="utf-8")
        found = count(self.log)
        return found.passed, found.failed

    def test_libtest_adds_binaries(self):
        text = ("test a ... ok\ntest result: ok. 3 passed; 0 failed; 0 ignored\n"
                "test b ... FAILED\ntest result: FAILED. 1 passed; 1 failed; 0 ignored\n")
        self.assertEqual(self.counted(counts.count_libtest, text), (4, 1))
        self.assertEqual(counts.count_libtest(self.log).names, ["b"])

    def test_checks(self):
        text = "ok - a\nnot ok - b\n    detail ok - c\n"
        self.assertEqual(self.counted(counts.count_checks, text), (1, 1))

    def test_unittest(self):
        text = "test_a (x.Y) ... ok\ntest_b (x.Y) ... FAIL\ntest_c (x.Y) ... ERROR\n"
        self.assertEqual(self.counted(counts.count_unittest, text), (1, 2))

    def test_guest_problems_are_failures(self):
        text = json.dumps({"passed": ["a"], "failed": ["b"], "problems": ["WARNING"]})
        self.assertEqual(self.counted(counts.count_vm, text), (1, 2))

    def test_build_is_one_check(self):
        text = f"==> building\n{self.log.parent}\n"
        self.assertEqual(self.counted(counts.count_build, text), (1, 0))
        self.assertEqual(self.counted(counts.count_build, "zernel: no driver\n"), (0, 1))
        self.assertEqual(self.counted(counts.count_build, ""), (0, 1))

    def test_missing_result_is_a_failure(self):
        self.assertEqual(counts.count_vm(self.log).failed, 1)

    def test_missing_log_counts_nothing(self):
        self.assertEqual(counts.count_libtest(self.log), counts.Count())


if __name__ == "__main__":
    unittest.main()
