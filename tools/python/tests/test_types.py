# SPDX-License-Identifier: MIT OR Apache-2.0
"""Types: the stub is that of the module, and the package keeps to its own annotations."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import zernel

#: scripts/python-test has mypy; elsewhere it may be missing.
IS_REQUIRED = os.environ.get("ZERNEL_TYPES") == "required"
HAS_MYPY = importlib.util.find_spec("mypy") is not None


@unittest.skipUnless(HAS_MYPY or IS_REQUIRED, "no mypy")
class Types(unittest.TestCase):
    """As mypy sees them."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        # It takes no packages of PYTHONPATH.
        self.package = Path(zernel.__file__).parent

    def run_module(self, *words: str) -> subprocess.CompletedProcess:
        """Runs a module of mypy with a folder of its own."""
        env = os.environ | {"MYPYPATH": str(self.package.parent)}
        if "site-packages" in str(self.package):
            del env["MYPYPATH"]
        return subprocess.run([sys.executable, "-m", *words], env=env, cwd=self.folder, text=True,
                              capture_output=True, check=False)

    def test_the_stub_is_that_of_the_module(self) -> None:
        done = self.run_module("mypy.stubtest", "zernel._zernel")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("no issues found in 1 module", done.stdout)

    def test_another_stub_is_not(self) -> None:
        copy = Path(self.folder, "zernel")
        copy.mkdir()
        for file in self.package.iterdir():
            if file.is_file():
                (copy / file.name).symlink_to(file)
        stub = copy / "_zernel.pyi"
        text = stub.read_text(encoding="utf-8")
        stub.unlink()
        wrong = text.replace("slo_ms: float = 0.0", "slo_ms: float = 1.0")
        self.assertNotEqual(wrong, text)
        stub.write_text(wrong, encoding="utf-8")
        env = os.environ | {"MYPYPATH": self.folder, "PYTHONPATH": self.folder}
        done = subprocess.run([sys.executable, "-m", "mypy.stubtest", "zernel._zernel"], env=env,
                              cwd=self.folder, text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("Runtime.request is inconsistent", done.stdout)

    def test_the_package_keeps_to_its_annotations(self) -> None:
        done = self.run_module("mypy", "--strict", "--allow-any-generics",
                               "--ignore-missing-imports", "--cache-dir", f"{self.folder}/cache",
                               "-p", "zernel")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
