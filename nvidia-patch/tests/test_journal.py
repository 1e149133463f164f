# SPDX-License-Identifier: GPL-2.0
"""Tests that a tree survives a kill at every step of a change."""

import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

HOME = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(HOME), str(Path(__file__).resolve().parent)]

import minitree  # noqa: E402
from patcher import Refused  # noqa: E402
from patcher.journal import FOLDER, Journal  # noqa: E402

FILES = {"nvidia/nv.c": "int hooked;\n", "nvidia/new.c": "int own;\n", "Kbuild": "more\n"}
STEPS = ("fsync", "replace", "rename")


class Killed(BaseException):
    """A kill as the code sees it: nothing after it runs."""


class Countdown:
    """Lets a number of steps pass, then kills before or after the step."""

    def __init__(self, steps: int, after: bool):
        self.steps, self.after, self.done = steps, after, False

    def wrap(self, function):
        """The function as a step."""
        def step(*arguments, **options):
            if self.done:
                raise Killed
            self.steps -= 1
            if self.steps > 0:
                return function(*arguments, **options)
            self.done = True
            if self.after:
                function(*arguments, **options)
            raise Killed
        return step


def killed(steps: int, after: bool, action) -> bool:
    """Runs the action; True when it was killed on the way."""
    countdown = Countdown(steps, after)
    patches = [mock.patch.object(os, name, countdown.wrap(getattr(os, name))) for name in STEPS]
    patches.append(mock.patch.object(shutil, "rmtree", countdown.wrap(shutil.rmtree)))
    for patch in patches:
        patch.start()
    try:
        action()
        return False
    except Killed:
        return True
    finally:
        for patch in patches:
            patch.stop()


class Kill(unittest.TestCase):
    """Whatever step a kill hits, the next run finds or makes a whole tree."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="zernel-journal-")
        self.addCleanup(folder.cleanup)
        # A step that may be hit, but nothing here can tell what is on the disk.
        quick = mock.patch.object(os, "fsync", lambda handle: None)
        quick.start()
        self.addCleanup(quick.stop)
        self.root = Path(folder.name)
        minitree.write(self.root, minitree.files())
        (self.root / "Kbuild").chmod(0o600)
        self.before = minitree.snapshot(self.root)

    def every_step(self, action, prepare=lambda journal: None) -> int:
        """Kills the action at each of its steps in turn; returns how many there were."""
        count = 0
        for after in (False, True):
            for step in range(1, 1000):
                journal = Journal(self.root)
                prepare(journal)
                hit = killed(step, after, lambda j=journal: action(j))
                fresh = Journal(self.root)
                fresh.recover()
                manifest = fresh.manifest()
                if manifest is not None:
                    self.assertEqual(manifest.state, "applied")
                    self.assertEqual(fresh.edited(manifest), [])
                    fresh.revert(manifest)
                self.assertEqual(minitree.snapshot(self.root), self.before, f"step {step}")
                if not hit:
                    break
                count += 1
        return count

    def test_killed_while_patching(self):
        self.assertGreater(self.every_step(lambda j: j.apply("id", "1", FILES)), 20)

    def test_killed_while_reverting(self):
        def revert(journal: Journal) -> None:
            journal.revert(journal.manifest())

        self.assertGreater(self.every_step(revert, lambda j: j.apply("id", "1", FILES)), 10)

    def test_killed_while_recovering(self):
        def stop_midway(journal: Journal) -> None:
            self.assertTrue(killed(14, True, lambda: journal.apply("id", "1", FILES)))
            self.assertTrue(journal.unfinished())

        self.assertGreater(self.every_step(lambda j: j.recover(), stop_midway), 5)

    def test_edited_while_half_patched(self):
        journal = Journal(self.root)
        steps = 1
        while not (self.root / FOLDER).is_dir():
            killed(steps, True, lambda: journal.apply("id", "1", FILES))
            steps += 1
        (self.root / "nvidia/nv.c").write_text("int edited;\n", encoding="utf-8")
        state = minitree.snapshot(self.root)
        with self.assertRaisesRegex(Refused, "edited since: nvidia/nv.c"):
            journal.recover()
        self.assertEqual(minitree.snapshot(self.root), state)

    def test_manifest_that_cannot_be_read(self):
        Journal(self.root).apply("id", "1", FILES)
        (self.root / FOLDER / "manifest.json").write_text("{", encoding="utf-8")
        with self.assertRaisesRegex(Refused, "cannot be read"):
            Journal(self.root).manifest()


if __name__ == "__main__":
    unittest.main()
