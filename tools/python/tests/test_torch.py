# SPDX-License-Identifier: MIT OR Apache-2.0
"""The runtime of `zernel.torch`, with a stand-in for PyTorch."""

import errno
import sys
import threading
import unittest
from unittest import mock

import standin
import zernel
import zernel.torch

PATIENCE = 60


def runtime_of(**inert: object) -> mock.Mock:
    """A runtime that is or is not of use."""
    found = mock.Mock(["inert"])
    type(found).inert = mock.PropertyMock(**inert)
    return found


class Runtimes(unittest.TestCase):
    """Of one device."""

    def setUp(self) -> None:
        modules = mock.patch.dict(sys.modules)
        modules.start()
        self.addCleanup(modules.stop)
        known = mock.patch.dict(zernel.torch._runtimes, clear=True)
        known.start()
        self.addCleanup(known.stop)
        self.torch = standin.install(lambda: 0)

    def made(self, *runtimes: object) -> mock.Mock:
        """Has these be made, one after another."""
        made = mock.patch.object(zernel.torch, "Runtime")
        found = made.start()
        self.addCleanup(made.stop)
        found.on_device.side_effect = runtimes
        return found.on_device

    def test_one_is_kept(self) -> None:
        first = runtime_of(return_value=None)
        made = self.made(first)
        for device in (None, 0, None):
            self.assertIs(zernel.torch.runtime(device), first)
        made.assert_called_once_with(0)

    def test_one_that_does_nothing_is_kept(self) -> None:
        off = zernel.Error(errno.ECANCELED, "it is switched off", "ZERNEL_OFF")
        first = runtime_of(return_value=off)
        self.made(first)
        self.assertIs(zernel.torch.runtime(), first)
        self.assertIs(zernel.torch.runtime(), first)

    def test_a_closed_one_is_made_anew(self) -> None:
        first = zernel.attach(mode="off")
        second = runtime_of(return_value=None)
        self.made(first, second)
        self.assertIs(zernel.torch.runtime(), first)
        first.close()
        self.assertIs(zernel.torch.runtime(), second)

    def test_a_lost_one_is_made_anew(self) -> None:
        lost = zernel.LostError(errno.EOWNERDEAD, "it is lost", "ZERNEL_CONTEXT_LOST")
        first, second = runtime_of(return_value=lost), runtime_of(return_value=None)
        self.made(first, second)
        self.assertIs(zernel.torch.runtime(), first)
        self.assertIs(zernel.torch.runtime(), second)

    def test_a_device_that_stays_lost(self) -> None:
        lost = zernel.LostError(errno.EOWNERDEAD, "it is lost", "ZERNEL_CONTEXT_LOST")
        first = runtime_of(return_value=lost)
        self.made(first)
        self.assertIs(zernel.torch.runtime(), first)
        # PyTorch raises such an error at each call from now on.
        fault = mock.Mock(side_effect=RuntimeError("an illegal address"))
        with mock.patch.object(self.torch.cuda, "synchronize", fault):
            self.assertIs(zernel.torch.runtime(), first)
        fault.assert_called_once()

    def test_nobody_waits_for_a_device_that_works(self) -> None:
        first, second = runtime_of(return_value=None), runtime_of(return_value=None)
        self.made(first, second)
        found: list[object] = []
        other = threading.Thread(target=lambda: found.append(zernel.torch.runtime()))

        def synchronize(device: int) -> None:
            if not other.ident:
                other.start()
                other.join(PATIENCE)
                self.assertEqual(found, [first])

        with mock.patch.object(self.torch.cuda, "synchronize", synchronize):
            # All have that of the first to be done.
            self.assertIs(zernel.torch.runtime(), first)
        other.join()
        self.assertIs(zernel.torch.runtime(), first)

    def test_one_that_cannot_be_made(self) -> None:
        closed = zernel.attach(mode="off")
        self.made(RuntimeError("first"), closed, RuntimeError("second"))
        for text in ("first", None, "second"):
            if text is None:
                self.assertIs(zernel.torch.runtime(), closed)
                closed.close()
                continue
            with self.assertRaisesRegex(RuntimeError, text):
                zernel.torch.runtime()


if __name__ == "__main__":
    unittest.main()
