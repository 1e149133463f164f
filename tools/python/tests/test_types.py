# SPDX-License-Identifier: MIT OR Apache-2.0
"""Types: the stub is that of the module, and the package keeps to its own annotations."""

import unittest

import stubs
import zernel


@unittest.skipUnless(stubs.HAS_MYPY or stubs.IS_REQUIRED, "no mypy")
class Types(stubs.Types, unittest.TestCase):
    """Of `zernel`."""

    package, native = zernel, "_zernel"
    wrong = ("slo_ms: float = 0.0", "slo_ms: float = 1.0", "Runtime.request")


if __name__ == "__main__":
    unittest.main()
