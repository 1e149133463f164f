# SPDX-License-Identifier: GPL-2.0
"""Tests of the KTAP reader on canned logs."""

import unittest

from zlab import ktap

GOOD = """\
[    1.000000] KTAP version 1
[    1.000000] 1..1
[    1.000000]     KTAP version 1
[    1.000000]     # Subtest: zernel_level
[    1.000000]     # module: zernel
[    1.000000]     1..2
[    1.000000]     ok 1 lowest
[    1.000000]     ok 2 highest
[    1.000000] # zernel_level: pass:2 fail:0 skip:0 total:2
[    1.000000] ok 1 zernel_level
"""


def summary(text: str) -> ktap.Summary:
    """The summary of a log given as one string."""
    return ktap.read(text.splitlines())


class Ktap(unittest.TestCase):
    """Passed, failed and skipped tests."""

    def test_nested_suite_counts_its_leaves(self):
        result = summary(GOOD)
        self.assertEqual(result.passed, ["zernel_level.lowest", "zernel_level.highest"])
        self.assertTrue(result.ok)

    def test_two_documents_add_up(self):
        self.assertEqual(len(summary(GOOD + GOOD).passed), 4)

    def test_flat_document(self):
        result = summary("TAP version 13\n1..2\nok 1 - a\nok 2 b")
        self.assertEqual(result.passed, ["a", "b"])

    def test_not_ok_fails(self):
        result = summary(GOOD.replace("    ok 2", "    not ok 2").replace("] ok 1", "] not ok 1"))
        self.assertEqual(result.failed, ["zernel_level.highest"])
        self.assertEqual(result.passed, ["zernel_level.lowest"])

    def test_failed_test_says_why(self):
        result = summary("KTAP version 1\n1..2\n# a: good\nok 1 a\n# other\n"
                         "# took 6 s: b\n# b: not within 30s: an end\n# b: more\nnot ok 2 b")
        self.assertEqual(result.failed, ["b: not within 30s: an end | more"])
        self.assertEqual(result.passed, ["a"])

    def test_failed_parent_of_passing_children_fails(self):
        result = summary(GOOD.replace("] ok 1 zernel_level", "] not ok 1 zernel_level"))
        self.assertEqual(result.failed, ["zernel_level"])

    def test_skip_is_neither(self):
        result = summary("KTAP version 1\n1..2\nok 1 a # SKIP no device\nok 2 b")
        self.assertEqual((result.passed, result.skipped, result.failed), (["b"], ["a"], []))

    def test_short_plan_fails(self):
        result = summary("KTAP version 1\n1..3\nok 1 a\nok 2 b")
        self.assertEqual(len(result.failed), 1)
        self.assertIn("planned 3", result.failed[0])

    def test_long_plan_fails(self):
        self.assertFalse(summary("KTAP version 1\n1..1\nok 1 a\nok 2 b").ok)

    def test_missing_plan_fails(self):
        self.assertFalse(summary("KTAP version 1\nok 1 a").ok)

    def test_number_out_of_sequence_fails(self):
        result = summary("KTAP version 1\n1..2\nok 1 a\nok 3 c")
        self.assertTrue(any("out of sequence" in failed for failed in result.failed))

    def test_suite_that_stops_halfway_fails(self):
        log = "\n".join(GOOD.splitlines()[:7])
        result = summary(log)
        self.assertFalse(result.ok)
        self.assertTrue(any("never gave its result" in failed for failed in result.failed))
        self.assertEqual(result.passed, ["zernel_level.lowest"])

    def test_suite_with_short_plan_inside_fails(self):
        result = summary(GOOD.replace("    1..2", "    1..3"))
        self.assertIn("zernel_level: planned 3 tests, 2 reported",
                      " ".join(result.failed).replace("zernel_level.zernel_level", "zernel_level"))

    def test_started_document_without_anything_fails(self):
        self.assertFalse(summary("KTAP version 1").ok)

    def test_no_ktap_is_not_ok(self):
        result = summary("hello\nok 1 looks like a test")
        self.assertEqual(result.passed, [])
        self.assertFalse(result.ok)

    def test_empty_plan_is_not_a_failure(self):
        self.assertEqual(summary("KTAP version 1\n1..0").failed, [])

    def test_other_lines_between_are_ignored(self):
        noisy = "".join(line + "\n[    1.5] usb 1-1: ok 7 times\nplain text\n"
                        for line in GOOD.splitlines())
        self.assertEqual(len(summary(noisy).passed), 2)

    def test_thread_ids_in_time_stamps(self):
        self.assertEqual(len(summary(GOOD.replace("] ", "][  T42] ", 12)).passed), 2)

    def test_two_suites_of_which_one_is_lost(self):
        lost = GOOD.replace("1..1", "1..2", 1)
        result = summary(lost)
        self.assertEqual(len(result.passed), 2)
        self.assertIn("planned 2", result.failed[0])


if __name__ == "__main__":
    unittest.main()
