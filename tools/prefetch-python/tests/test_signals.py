# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exceptions of signals, at each step of a loader: no batch is lost, and states stay right."""

import dis
import sys
import unittest
from collections.abc import Callable, Iterator
from types import FrameType

import zernel_prefetch as zp
from case import Case, in_twos
from zernel_prefetch import _loader, _order

FILES = {_loader.__file__, _order.__file__}


class Told(BaseException):
    """By a handler."""


class ToldOfNothing(Exception):
    """By a handler, as a program's errors are."""


def told_at(step: int, error: type[BaseException]) -> Callable:
    """A function for `sys.settrace()` that raises at a step of the loader's code, as a handler does."""
    left = step

    def look(frame: FrameType, event: str, _: object) -> Callable | None:
        nonlocal left
        # The program has a batch whose tensors it takes.
        if frame.f_code.co_filename not in FILES or frame.f_code.co_name == "__getitem__":
            return None
        frame.f_trace_opcodes = True
        # No signal is looked for between a value and its return.
        name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
        if event == "opcode" and not name.startswith("RETURN"):
            left -= 1
            if left == 0:
                raise error
        return look

    return look


class Signals(Case):
    """Of a loader that asks for one batch after the other."""

    def setUp(self) -> None:
        super().setUp()
        self.prefetcher = zp.Prefetcher(self.folder)

    def loader(self, batches: object) -> zp.Loader:
        """It asks its source in each call."""
        return zp.Loader(self.prefetcher, batches, lookahead=1, depth=1)

    def taken(self, batches: object, step: int, error: type[BaseException]) -> tuple[list, bool]:
        """Rows and states of all batches, where a signal comes at a step. It goes on from there."""
        loader, found = self.loader(batches), []
        sys.settrace(told_at(step, error))
        try:
            for batch in loader:
                found.append((batch[0].start[0], batch.state))
                self.assertEqual(loader.state(), batch.state)
            return found, False
        except error:
            pass
        finally:
            sys.settrace(None)
        if found:
            self.assertEqual(loader.state(), found[-1][1])
        for batch in loader:
            found.append((batch[0].start[0], batch.state))
            self.assertEqual(loader.state(), batch.state)
        return found, True

    def at_each_step(self, make: Callable[[], object], error: type[BaseException]) -> None:
        """Until there is no such step."""
        wanted, step, is_told = self.taken(make(), 0, error)[0], 0, True
        self.assertEqual(len(wanted), 3)
        while is_told:
            step += 1
            found, is_told = self.taken(make(), step, error)
            self.assertEqual(found, wanted, step)
        self.assertGreater(step, 300)

    def test_an_order(self) -> None:
        for error in (Told, ToldOfNothing):
            with self.subTest(error):
                self.at_each_step(lambda: zp.Order(self.rows[:6], 2, seed=1), error)

    def test_an_iterable(self) -> None:
        self.at_each_step(lambda: in_twos(self.rows[:6]), Told)

    def test_an_iterator_that_is_broken_off_says_so(self) -> None:
        def batches() -> Iterator[list]:
            yield self.rows[:1]
            yield self.rows[1:2]
            raise Told

        loader = self.loader(batches())
        self.assert_rows(next(loader), [0])
        with self.assertRaises(Told):
            next(loader)
        self.assertEqual(loader.state(), {"version": 1, "batch": 1})
        self.assert_rows(next(loader), [1])
        with self.assertRaisesRegex(zp.MisuseError, "broken off"):
            next(loader)
        self.assertEqual(loader.state(), {"version": 1, "batch": 2})
        self.assertEqual(list(loader), [])


if __name__ == "__main__":
    unittest.main()
