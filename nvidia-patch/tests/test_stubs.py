# SPDX-License-Identifier: GPL-2.0
"""Tests of nvidia-patch/simrm/stubs on small objects."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

STUBS = Path(__file__).resolve().parent.parent / "simrm/stubs"

LAYER = """\
void rm_called(void); void rm_jumped_to(void); void printk(const char *);
void layer(void) { rm_called(); printk("x"); rm_jumped_to(); }
"""


class Stubs(unittest.TestCase):
    """Functions that are missing get a stub; everything else that is missing is an error."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="zernel-stubs-")
        self.addCleanup(folder.cleanup)
        self.top = Path(folder.name)
        (self.top / "symvers").write_text("0x1\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n", encoding="utf-8")

    def compile(self, text: str) -> Path:
        """An object as the kernel's compiler makes it."""
        path = self.top / "layer.o"
        subprocess.run(["gcc", "-O2", "-fno-pic", "-mcmodel=kernel", "-c", "-x", "c", "-", "-o", path],
                       input=text, text=True, check=True)
        return path

    def run_stubs(self, text: str, core: str) -> subprocess.CompletedProcess:
        """The program's run on a layer, with the functions of a core."""
        (self.top / "core").write_text(core, encoding="utf-8")
        return subprocess.run([sys.executable, STUBS, self.compile(text), self.top / "symvers",
                               self.top / "core"], capture_output=True, text=True, check=False)

    def test_functions_of_the_core(self):
        done = self.run_stubs(LAYER, "rm_called\nrm_jumped_to\nrm_of_nobody\n")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.count("simrm_stub("), 3)
        for name in ("rm_called", "rm_jumped_to"):
            self.assertIn(f'long {name}(void) {{ simrm_stub("{name}");', done.stdout)

    def test_function_that_the_core_lacks(self):
        done = self.run_stubs(LAYER, "rm_called\n")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("in neither the resource manager nor the kernel: rm_jumped_to", done.stderr)

    def test_data_of_the_core(self):
        text = LAYER + "extern const char *rm_text; const char *layer_text(void) { return rm_text; }\n"
        done = self.run_stubs(text, "rm_called\nrm_jumped_to\nrm_text\n")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("perhaps no functions: rm_text", done.stderr)

    def test_wrong_arguments(self):
        done = subprocess.run([sys.executable, STUBS, "one"], capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("usage: stubs OBJECT SYMVERS CORE", done.stderr)


if __name__ == "__main__":
    unittest.main()
