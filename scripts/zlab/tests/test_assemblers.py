# SPDX-License-Identifier: GPL-2.0
"""Tests of scripts/assemblers and scripts/holder on a machine without a network."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from ..sources import ROOT

# Nobody listens on this port.
NOWHERE = "http://127.0.0.1:9"
# In place of the host's own configuration of apt.
APT = f"""
Dir::Etc::main "{os.devnull}";
Dir::Etc::parts "{os.devnull}";
Acquire::http::Proxy "{NOWHERE}";
Acquire::https::Proxy "{NOWHERE}";
Acquire::Retries::Delay "false";
"""


class WithoutNetwork(unittest.TestCase):
    """Each end of the scripts that a person sees."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = Path(folder.name)

    def run_script(self, *command: str) -> subprocess.CompletedProcess:
        """Runs a script of scripts/ with a cache of its own, whose ways to the network are dead."""
        apt = self.cache / "apt.conf"
        apt.write_text(APT, encoding="utf-8")
        own = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        env = {**own, "XDG_CACHE_HOME": str(self.cache), "APT_CONFIG": str(apt),
               "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": NOWHERE, "PIP_RETRIES": "0",
               "PIP_NO_CACHE_DIR": "1"}
        script, *arguments = command
        return subprocess.run([str(ROOT / "scripts" / script), *arguments], env=env, text=True,
                              capture_output=True, check=False)

    def test_debians_package(self) -> None:
        done = self.run_script("assemblers", "12")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("zernel: there is no nvidia-cuda-toolkit in what could be read of trixie "
                      "(non-free); check the network", done.stderr)

    def test_python_packages(self) -> None:
        done = self.run_script("assemblers", "13")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("zernel: the Python packages of tools/tests/holder/assemblers.txt could not "
                      "be fetched; check the network", done.stderr)

    def test_nothing_is_left_half_done(self) -> None:
        for _ in range(2):
            done = self.run_script("assemblers", "13")
            self.assertEqual(done.returncode, 1)
        self.assertEqual(list(self.cache.glob("zernel/assemblers/*/13")), [])

    def test_the_proof_says_that_it_has_no_assemblers(self) -> None:
        done = self.run_script("holder")
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("test result", done.stdout)
        self.assertIn("zernel: there are no assemblers, without which nothing can be proven",
                      done.stderr)

    def test_usage(self) -> None:
        for command in (["assemblers", "11"], ["assemblers", "12", "13"], ["holder", "all"]):
            done = self.run_script(*command)
            self.assertEqual(done.returncode, 1)
            self.assertIn("zernel: usage: scripts/", done.stderr)
