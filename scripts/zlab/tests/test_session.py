# SPDX-License-Identifier: GPL-2.0
"""Tests of running suites: no silence and no exit status is taken for success."""

import contextlib
import io
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from zlab import session
from zlab.counts import count_checks
from zlab.schedule import Job


class Suites(unittest.TestCase):
    """Commands in place of suites."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        top = Path(folder.name)
        for name in ("ROOT", "RESULTS", "SCRIPTS"):
            patch = mock.patch.object(session, name, top)
            patch.start()
            self.addCleanup(patch.stop)
        self.top = top
        self.session = session.Session()
        self.said = io.StringIO()

    def suite(self, command: str) -> tuple[int, int]:
        """Passed and failed of a suite that is a shell command."""
        with contextlib.redirect_stdout(self.said):
            self.session.suite("x", ["sh", "-c", command], count_checks, cwd=self.top)
        return self.session.total.passed, self.session.total.failed

    def report(self) -> str:
        """The text at the end."""
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.session.report()
        return said.getvalue()

    def test_results_are_counted_and_lines_have_the_suite_s_name(self):
        self.assertEqual(self.suite("echo ok - a; echo not ok - b; exit 1"), (1, 1))
        self.assertIn("x: ok - a\n", self.said.getvalue())
        self.assertTrue(self.report().endswith("failed: x (log: x.log)\nfailed:     b\n1 passed, 1 failed\n"))

    def test_exit_status_counts(self):
        self.assertEqual(self.suite("echo ok - a; exit 3"), (1, 1))
        self.assertIn("x: exit status 3", self.report())

    def test_silence_counts(self):
        self.assertEqual(self.suite("true"), (0, 1))
        self.assertIn("x: nothing reported", self.report())

    def test_cut_short_is_in_the_report(self):
        self.suite("echo ok - a; echo '    # cut short: 3 of 9 rounds'")
        self.assertIn("x: cut short: 3 of 9 rounds\n", self.report())

    def test_longest_first(self):
        self.session.took = [(2, "b"), (30, "a"), (0.2, "c")]
        self.assertEqual(self.report(), "    30 s  a\n     2 s  b\n0 passed, 0 failed\n")

    def test_last_line_of_a_build_is_its_place(self):
        (self.top / "make").write_text("#!/bin/sh\necho building; echo /$1\n", encoding="utf-8")
        (self.top / "make").chmod(0o755)
        self.assertEqual(self.session.build("it", "make", "place"), "/place")

    def test_failed_build_is_a_sentence(self):
        (self.top / "make").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        (self.top / "make").chmod(0o755)
        with self.assertRaisesRegex(session.Broken, "it could not be built"):
            self.session.build("it", "make")

    def test_job_that_cannot_run_is_a_failure(self):
        with contextlib.redirect_stdout(self.said):
            self.session.broken(Job("x", lambda _: None), "not run, for lack of y")
        self.assertTrue(self.report().endswith("failed: x: not run, for lack of y\n0 passed, 1 failed\n"))


if __name__ == "__main__":
    unittest.main()
