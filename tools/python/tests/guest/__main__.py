# SPDX-License-Identifier: MIT OR Apache-2.0
"""The tests that need zernel and a stand-in for CUDA: `python3 /zernel/python/tests/guest`."""

import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent)]
# Last, as names of tests are there, too.
sys.path.append(str(HERE.parent))

import harness  # noqa: E402

SUITE = unittest.defaultTestLoader.discover(str(HERE), pattern="test_*.py", top_level_dir=str(HERE))
sys.exit(harness.main(SUITE, sys.argv[1:]))
