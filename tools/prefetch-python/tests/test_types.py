# SPDX-License-Identifier: MIT OR Apache-2.0
"""Types: the stub is that of the module, and the package keeps to its own annotations."""

import unittest

import zernel_prefetch
from case import shared

stubs = shared("stubs")


@unittest.skipUnless(stubs.HAS_MYPY or stubs.IS_REQUIRED, "no mypy")
class Types(stubs.Types, unittest.TestCase):
    """Of `zernel_prefetch`."""

    package, native = zernel_prefetch, "_native"
    wrong = ("in_flight: int = 64", "in_flight: int = 65", "Prefetcher.__new__")


if __name__ == "__main__":
    unittest.main()
