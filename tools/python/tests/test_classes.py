# SPDX-License-Identifier: MIT OR Apache-2.0
"""Schedulers that want classes for one TSG."""

import errno
import gc
import threading
import unittest
import warnings
from unittest import mock

import zernel
from zernel._classes import CLASSES, Classes, OwnClass, Want
from zernel._core import Core

PATIENCE = 60
NONE = OwnClass(None, None)


class Tsg:
    """A TSG as zernel has it, and a runtime of it."""

    def __init__(self, number: int | None = 7, own: OwnClass = NONE, refused: int = -1) -> None:
        self.number, self.own, self.refused = number, own, refused
        self.calls = 0
        self.closed = threading.Event()

    @property
    def tsg(self) -> int | None:
        """Its number."""
        self._check()
        return self.number

    def _check(self) -> None:
        if self.closed.is_set():
            raise zernel.ClosedError(errno.ESHUTDOWN, "it is closed", "ZERNEL_SHUT_DOWN")

    def _own_class(self) -> tuple[int | None, int | None]:
        self._check()
        return tuple(self.own)

    def _set_own_class(self, level: int | None, timeslice_us: int | None) -> None:
        self._check()
        if level == self.refused:
            raise zernel.Error(errno.EPERM, "it takes privilege", "ZERNEL_CALL_FAILED")
        self.calls += 1
        self.own = OwnClass(level, timeslice_us)

    def make_current(self) -> None:
        """Does nothing."""

    def request(self) -> None:
        """Is not called."""

    def close(self) -> None:
        """As that of a runtime."""
        self.closed.set()


class SameTsg(Tsg):
    """Another runtime of a TSG."""

    def __init__(self, other: Tsg) -> None:
        self.other = other
        super().__init__(other.number, other.own)

    @property
    def own(self) -> OwnClass:
        """Its class."""
        return self.other.own

    @own.setter
    def own(self, own: OwnClass) -> None:
        self.other.own = own


class Wants(unittest.TestCase):
    """Of several owners."""

    def setUp(self) -> None:
        self.classes, self.tsg = Classes(), Tsg()

    def want(self, owner: str, level: int, timeslice_us: int | None = None,
             strict: bool = False) -> None:
        """An owner wants a class."""
        self.classes.want(owner, self.tsg, Want(level, timeslice_us), strict=strict)

    def test_a_second_one_does_not_lower_the_first(self) -> None:
        self.want("first", 0, 500)
        self.want("second", 7)
        self.assertEqual(self.tsg.own, (0, 500))
        self.classes.leave("second", self.tsg)
        self.assertEqual((self.tsg.own, self.tsg.calls), ((0, 500), 1))
        self.classes.leave("first", self.tsg)
        self.assertEqual(self.tsg.own, NONE)

    def test_the_end_of_the_first_leaves_the_second(self) -> None:
        self.want("first", 0, 500)
        self.want("second", 5)
        self.classes.leave("first", self.tsg)
        self.assertEqual(self.tsg.own, (5, None))
        self.classes.leave("first", self.tsg)
        self.assertEqual(self.tsg.own, (5, None))
        self.classes.leave("second", self.tsg)
        self.assertEqual(self.tsg.own, NONE)

    def test_the_last_one_restores_what_there_was(self) -> None:
        for before in (OwnClass(3, 700), OwnClass(None, 700), OwnClass(6, None), NONE):
            self.tsg.own = before
            self.want("first", 7, 20)
            self.want("second", 1)
            # Without a time slice of its own that from before stays.
            self.assertEqual(self.tsg.own, (1, before.timeslice_us))
            self.classes.leave("second", self.tsg)
            self.assertEqual(self.tsg.own, (7, 20))
            self.classes.leave("first", self.tsg)
            self.assertEqual(self.tsg.own, before)

    def test_a_class_of_somebody_else_stays(self) -> None:
        self.want("first", 0)
        self.tsg.own = OwnClass(4, None)
        self.classes.leave("first", self.tsg)
        self.assertEqual(self.tsg.own, (4, None))

    def test_one_owner_with_several_tasks(self) -> None:
        for level in (7, 2, 5):
            self.want("first", level)
        self.assertEqual((self.tsg.own, self.tsg.calls), ((2, None), 2))

    def test_a_level_that_is_refused(self) -> None:
        self.tsg = Tsg(refused=0)
        self.want("second", 7)
        with self.assertRaises(zernel.Error):
            self.want("first", 0)
        # Best effort would be a step down for what wanted more.
        self.assertEqual(self.tsg.own, NONE)
        self.want("third", 6)
        self.assertEqual(self.tsg.own, NONE)
        self.classes.leave("first", self.tsg)
        self.assertEqual(self.tsg.own, (6, None))
        with self.assertRaises(zernel.Error):
            self.want("third", 0, strict=True)
        # Its task has not been made.
        self.assertEqual(self.tsg.own, (6, None))
        with self.assertRaises(zernel.Error):
            self.want("fourth", 0, strict=True)
        for owner in ("third", "fourth", "second"):
            self.classes.leave(owner, self.tsg)
        self.assertEqual((self.tsg.own, self.classes._tsgs), (NONE, {}))

    def test_a_runtime_that_is_closed_before_its_scheduler(self) -> None:
        self.tsg.own = OwnClass(6, None)
        closed = SameTsg(self.tsg)
        self.classes.want("first", closed, Want(0, None), strict=False)
        self.want("second", 5)
        closed.close()
        self.classes.leave("first", closed)
        self.assertEqual(self.tsg.own, (5, None))
        self.classes.leave("second", self.tsg)
        self.assertEqual((self.tsg.own, self.classes._tsgs), ((6, None), {}))
        # Without another one nobody is there to restore it, and its want is over all the same.
        closed.closed.clear()
        self.classes.want("first", closed, Want(0, None), strict=False)
        closed.close()
        with self.assertRaises(zernel.ClosedError):
            self.classes.leave("first", closed)
        self.assertEqual((self.tsg.own, self.classes._tsgs), ((0, None), {}))
        self.classes.leave("first", closed)

    def test_tsgs_are_apart(self) -> None:
        other = Tsg(8)
        self.want("first", 0)
        self.classes.want("other", other, Want(7, None), strict=False)
        self.assertEqual((self.tsg.own.level, other.own.level), (0, 7))
        self.classes.leave("first", self.tsg)
        self.assertEqual((self.tsg.own.level, other.own.level), (None, 7))

    def test_without_a_tsg_nothing_is_wanted(self) -> None:
        self.tsg.number = None
        self.want("first", 0)
        self.classes.leave("first", self.tsg)
        self.assertEqual((self.tsg.calls, self.classes._tsgs), (0, {}))


class Cores(unittest.TestCase):
    """The same by schedulers."""

    def core(self, tsg: Tsg, strict: bool = False) -> Core:
        """One with a runtime of a test."""
        with zernel.Scheduler(mode="off") as scheduler:
            core = Core(scheduler.config, tsg, strict)
        self.addCleanup(core.close, False)
        return core

    def test_the_first_keeps_its_class(self) -> None:
        tsg = Tsg(own=OwnClass(6, None))
        first, second = self.core(tsg), self.core(SameTsg(tsg))
        first.want(0, True)
        second.want(7, False)
        self.assertEqual(tsg.own.level, 0)
        second.close(False)
        self.assertEqual(tsg.own.level, 0)
        first.close(False)
        self.assertEqual((tsg.own.level, CLASSES._tsgs), (6, {}))

    def test_one_that_is_forgotten_leaves(self) -> None:
        tsg = Tsg()
        # Without the clean-up, which would keep it.
        core = Core(self.core(Tsg(9)).config, tsg, False)
        core.want(0, True)
        self.assertEqual(tsg.own.level, 0)
        del core
        gc.collect()
        self.assertTrue(tsg.closed.wait(PATIENCE))
        self.assertEqual(tsg.own, NONE)

    def test_each_reason_is_told_once(self) -> None:
        core = self.core(Tsg(refused=0))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for _ in range(3):
                core.want(0, True)
            core.tell("the class of the context stays: it is gone")
            core.tell("the class of the context stays: it is gone")
        texts = [str(one.message) for one in told]
        self.assertEqual(texts, [
            "zernel: no class of level 0: ZERNEL_CALL_FAILED: it takes privilege",
            "zernel: the class of the context stays: it is gone"])

    def test_a_class_that_stays_is_told(self) -> None:
        tsg = Tsg()
        core = self.core(tsg)
        core.want(0, True)
        gone = zernel.Error(errno.ENOENT, "it is gone", "ZERNEL_CALL_FAILED")
        with mock.patch.object(tsg, "_own_class", side_effect=gone), \
                self.assertWarnsRegex(RuntimeWarning, "class of the context stays: .*it is gone"):
            core.close(False)
        self.assertTrue(core.closed and tsg.closed.is_set())

    def test_a_thread_without_a_context(self) -> None:
        lost = zernel.LostError(errno.EOWNERDEAD, "it is lost", "ZERNEL_CONTEXT_LOST")
        tsg = Tsg()
        with mock.patch.object(tsg, "make_current", side_effect=lost):
            # A strict one has nothing to do without.
            future = self.core(tsg, strict=True).pools[True].submit(0, int)
            self.assertIs(future.exception(PATIENCE), lost)
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                self.assertEqual(self.core(tsg).pools[True].submit(0, int).result(PATIENCE), 0)
            self.assertRegex(str(told[0].message), "a thread has no CUDA context: .*it is lost")


if __name__ == "__main__":
    unittest.main()
