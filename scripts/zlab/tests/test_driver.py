# SPDX-License-Identifier: GPL-2.0
"""Tests of how scripts find a source tree of NVIDIA's driver."""

import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2]
KBUILD = 'ccflags-y += -DNV_VERSION_STRING=\\"595.45.04\\"\n'
SHOW = '. "$0/lab.sh"; . "$0/driver.sh"; driver_find "$1"; ' \
       'echo "$DRIVER_SOURCE $DRIVER_LAYER $DRIVER_VERSION"; driver_state "$1" | sha256sum'


class Driver(unittest.TestCase):
    """The layer of a tree, its version, and its state."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="zernel-driver-")
        self.addCleanup(folder.cleanup)
        self.top = Path(folder.name).resolve()

    def layer(self, place: str, kbuild: str = KBUILD) -> Path:
        """Makes a layer in the tree."""
        layer = self.top / place
        (layer / "nvidia").mkdir(parents=True)
        (layer / "nvidia/nv.c").write_text("int a;\n", encoding="utf-8")
        (layer / "Kbuild").write_text(kbuild, encoding="utf-8")
        return layer.resolve()

    def find(self, *words: str) -> list[str]:
        """The output lines; with words, the scripts must die and say them."""
        done = subprocess.run(["bash", "-c", SHOW, SCRIPTS, self.top], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode != 0, bool(words), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        return done.stdout.splitlines()

    def test_layer_where_trees_have_it(self):
        for place in ("modules/nvidia-open-kernel", "kernel-open", "."):
            with self.subTest(place):
                layer = self.layer(place)
                self.assertEqual(self.find()[0], f"{self.top} {layer} 595.45.04")

    def test_no_tree(self):
        self.find(f"{self.top} is no source tree of NVIDIA's open driver")

    def test_no_folder(self):
        self.top = self.top / "gone"
        self.find(f"there is no folder NVIDIA_SRC={self.top}")

    def test_no_version(self):
        self.layer("kernel-open", "ccflags-y += -DNV\n")
        self.find("does not say which version of the driver this is")

    def test_state_goes_by_sources(self):
        layer = self.layer("kernel-open")
        first = self.find()[1]
        (layer / "nvidia/nv.o").write_text("result\n", encoding="utf-8")
        self.assertEqual(self.find()[1], first)
        (layer / "nvidia/nv.c").write_text("long a;\n", encoding="utf-8")
        self.assertNotEqual(self.find()[1], first)


if __name__ == "__main__":
    unittest.main()
