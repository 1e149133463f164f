# SPDX-License-Identifier: MIT OR Apache-2.0
"""Types of a package: its stub is that of its module, and it keeps to its own annotations."""

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

#: scripts/python-test has mypy; elsewhere it may be missing.
IS_REQUIRED = os.environ.get("ZERNEL_MYPY") == "required"
HAS_MYPY = importlib.util.find_spec("mypy") is not None


class Types:
    """As mypy sees them: a part of a case, which names the package."""

    #: The package, and its native module.
    package: ModuleType
    native: str
    #: A text of the stub, another that is wrong, and the name that mypy finds then.
    wrong: tuple[str, str, str]

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        # It takes no packages of PYTHONPATH.
        self.place = Path(self.package.__file__).parent
        self.name = self.package.__name__

    def run_module(self, *words: str) -> subprocess.CompletedProcess:
        """Runs a module of mypy with a folder of its own."""
        env = os.environ | {"MYPYPATH": str(self.place.parent)}
        if "site-packages" in str(self.place):
            del env["MYPYPATH"]
        return subprocess.run([sys.executable, "-m", *words], env=env, cwd=self.folder, text=True,
                              capture_output=True, check=False)

    def test_the_stub_is_that_of_the_module(self) -> None:
        done = self.run_module("mypy.stubtest", f"{self.name}.{self.native}")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("no issues found in 1 module", done.stdout)

    def test_another_stub_is_not(self) -> None:
        copy = Path(self.folder, self.name)
        copy.mkdir()
        for file in self.place.iterdir():
            if file.is_file():
                (copy / file.name).symlink_to(file)
        stub = copy / f"{self.native}.pyi"
        text = stub.read_text(encoding="utf-8")
        stub.unlink()
        right, other, said = self.wrong
        wrong = text.replace(right, other)
        self.assertNotEqual(wrong, text)
        stub.write_text(wrong, encoding="utf-8")
        env = os.environ | {"MYPYPATH": self.folder, "PYTHONPATH": self.folder}
        done = subprocess.run([sys.executable, "-m", "mypy.stubtest", f"{self.name}.{self.native}"],
                              env=env, cwd=self.folder, text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn(f"{said} is inconsistent", done.stdout)

    def test_the_package_keeps_to_its_annotations(self) -> None:
        done = self.run_module("mypy", "--strict", "--allow-any-generics",
                               "--ignore-missing-imports", "--cache-dir", f"{self.folder}/cache",
                               "-p", self.name)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

