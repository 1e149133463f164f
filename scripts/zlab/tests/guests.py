# SPDX-License-Identifier: GPL-2.0
"""Tests of the runner on real guests: it must fail for each fault of a kernel or a test.

The kernel's build folder comes in ZERNEL_KERNEL.
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

VM = Path(__file__).resolve().parent.parent.parent / "vm"
KTAP = "echo KTAP version 1; echo 1..{plan}; echo ok 1 a; echo ok 2 b"


class Guests(unittest.TestCase):
    """Each test is one boot."""

    def boot(self, command: str, *more: str) -> tuple[int, str]:
        """The runner's exit status and output."""
        done = subprocess.run(
            [sys.executable, str(VM), "--kernel", os.environ["ZERNEL_KERNEL"],
             "--deadline", "600", *more, "--", command],
            capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_good_guest_passes(self):
        status, text = self.boot(KTAP.format(plan=2), "--ktap", "x")
        self.assertEqual(status, 0, text)
        self.assertIn("2 passed, 0 failed", text)

    def test_short_plan_fails(self):
        status, text = self.boot(KTAP.format(plan=3), "--ktap", "x")
        self.assertEqual(status, 1, text)
        self.assertIn("planned 3 tests, 2 reported", text)

    def test_warning_fails(self):
        status, text = self.boot("echo 'WARNING: CPU: 0 PID: 1 at x.c:1' >/dev/kmsg")
        self.assertEqual(status, 1, text)
        self.assertIn("in the log:", text)

    def test_crash_fails(self):
        status, text = self.boot("echo c >/proc/sysrq-trigger")
        self.assertEqual(status, 1, text)
        self.assertIn("ended without a status", text)

    def test_hang_fails_at_the_deadline(self):
        status, text = self.boot("sleep 1000", "--deadline", "15")
        self.assertEqual(status, 1, text)
        self.assertIn("within its deadline of 15 s", text)

    def test_exit_status_is_kept(self):
        status, text = self.boot("exit 3")
        self.assertEqual(status, 1, text)
        self.assertIn("status 3", text)

    def test_no_ktap_where_it_is_wanted_fails(self):
        self.assertEqual(self.boot("true", "--ktap", "x")[0], 1)

    def test_files_come_out(self):
        with tempfile.TemporaryDirectory() as out:
            status, text = self.boot("echo hello >/out/file", "--out", out)
            self.assertEqual(status, 0, text)
            self.assertEqual((Path(out) / "file").read_text(encoding="utf-8"), "hello\n")

    def test_high_resolution_timers(self):
        """Without them nothing that zernel measures in microseconds means anything."""
        for mode in ("normal", "icount"):
            with self.subTest(mode):
                status, text = self.boot(
                    "sleep 1; grep -c 'event_handler:.*hrtimer_interrupt' /proc/timer_list",
                    "--mode", mode, "--quiet")
                self.assertEqual(status, 0, text)

    def test_icount_repeats(self):
        command = "sleep 1; cut -d' ' -f1 /proc/uptime; cat /proc/sys/kernel/random/uuid"
        first, second = (self.boot(command, "--mode", "icount", "--quiet")[1].splitlines()[:2]
                         for _ in range(2))
        self.assertEqual(first, second)


if __name__ == "__main__":
    unittest.main()
