# SPDX-License-Identifier: GPL-2.0
"""Packages of Python that the lab installs, and targets that set the machine up before."""

import hashlib
import os
import re
import subprocess
import tempfile
import unittest
import zipfile
from pathlib import Path

from ..sources import ROOT

LISTS = sorted((ROOT / "scripts/python").glob("*.txt"))
PIN = re.compile(r"[a-z0-9-]+==[0-9.]+(post[0-9]+)?( \\\n {4}--hash=sha256:[0-9a-f]{64})+\n")


class Lists(unittest.TestCase):
    """scripts/python/."""

    def test_each_package_has_a_version_and_a_hash(self):
        self.assertEqual([path.stem for path in LISTS],
                         ["maturin", "moto", "mypy", "numpy", "zarr"])
        for path in LISTS:
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            text = "".join(line for line in lines if not line.startswith("#"))
            self.assertEqual(PIN.sub("", text), "", path.name)
            self.assertRegex(text, PIN)

    def test_there_is_one_version_of_maturin(self):
        for name, pattern in (("scripts/python/maturin.txt", r"^maturin==(\S+)"),
                              ("tools/python/pyproject.toml", r'requires = \["maturin==(.*)"\]'),
                              ("tools/prefetch-python/pyproject.toml",
                               r'requires = \["maturin==(.*)"\]'),
                              ("scripts/lab.sh", r"^MATURIN_VERSION=(\S+)")):
            found = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
            self.assertEqual(found[1], "1.16.0", name)


class Installing(unittest.TestCase):
    """`environment` of scripts/lab.sh, with a package of a folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "scripts/python").mkdir(parents=True)
        wheel = self.folder / "thing-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as file:
            file.writestr("thing.py", "there = True\n")
            about = "thing-1.0.dist-info"
            file.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
            file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\n"
                          "Root-Is-Purelib: true\nTag: py3-none-any\n")
            file.writestr(f"{about}/RECORD", "thing.py,,\n")
        self.hash = hashlib.sha256(wheel.read_bytes()).hexdigest()

    def install(self, digest):
        """Makes an environment with the package, whose hash is said to be this."""
        path = self.folder / "scripts/python/thing.txt"
        path.write_text(f"thing==1.0 --hash=sha256:{digest}\n", encoding="utf-8")
        script = f". {ROOT}/scripts/lab.sh; ROOT=$1 CACHE=$1/cache; environment $1/venv thing"
        env = os.environ | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.folder),
                            "PIP_CONFIG_FILE": "/dev/null"}
        return subprocess.run(["bash", "-c", script, "bash", str(self.folder)], env=env, text=True,
                              capture_output=True, check=False)

    def test_the_right_one(self):
        done = self.install(self.hash)
        self.assertEqual(done.returncode, 0, done.stderr)
        subprocess.run([self.folder / "venv/bin/python", "-I", "-c", "import thing"], check=True)

    def test_another_one(self):
        done = self.install("0" * 64)
        self.assertEqual(done.returncode, 1)
        self.assertIn("scripts/python/thing.txt could not be had; see", done.stderr)
        self.assertFalse((self.folder / "venv").exists())
        log = (self.folder / "cache/tools/wheels-thing.log").read_text(encoding="utf-8")
        self.assertIn("THESE PACKAGES DO NOT MATCH THE HASHES", log)
        self.assertEqual(list((self.folder / "cache/wheels").iterdir()), [])


class Targets(unittest.TestCase):
    """Of the Makefile."""

    def test_what_is_built_from_nothing_is_set_up_first(self):
        for target in ("wheel", "runtime"):
            done = subprocess.run(["make", "--dry-run", "--no-print-directory", "-C", ROOT, target],
                                  text=True, capture_output=True, check=True)
            self.assertEqual(done.stdout.splitlines()[0], "scripts/setup", target)

    def test_a_missing_compiler_is_named(self):
        script = f". {ROOT}/scripts/lab.sh; CARGO=/nonexistent/cargo; share_tools"
        done = subprocess.run(["bash", "-c", script], text=True, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stderr),
                         (1, "zernel: /nonexistent/cargo is missing; run scripts/setup\n"))


if __name__ == "__main__":
    unittest.main()
