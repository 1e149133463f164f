# SPDX-License-Identifier: GPL-2.0
"""Finds the interface layer in a driver's source tree, and which driver it belongs to."""

import re
from dataclasses import dataclass
from pathlib import Path

from . import Refused

# Where trees have it: the layer itself, NVIDIA's repository, Debian's source package.
PLACES = (".", "kernel-open", "modules/nvidia-open-kernel")
LANDMARKS = ("Kbuild", "nvidia/nv.c", "nvidia/nvidia-sources.Kbuild", "common/inc/nv.h")
OPEN = re.compile(r'MODULE_LICENSE\(\s*"Dual MIT/GPL"\s*\)')
VERSION = re.compile(r'^\s*ccflags-y\s*\+=\s*-DNV_VERSION_STRING=\\"([0-9.]+)\\"', re.MULTILINE)
# Drivers that hooks and compatibility patches were tried with.
TRIED = ("550.163.01", "595.45.04")


@dataclass(frozen=True)
class Layer:
    """An interface layer: its folder and the driver's version."""

    root: Path
    version: str

    @property
    def tried(self) -> bool:
        """True when the patches were tried with this driver."""
        return self.version in TRIED

    def has(self, path: str) -> bool:
        """True when the layer has the file."""
        return (self.root / path).exists()

    def read(self, path: str) -> str:
        """A source file of it; bytes that are no UTF-8 survive the way back."""
        try:
            return (self.root / path).read_bytes().decode("utf-8", "surrogateescape")
        except OSError as error:
            raise Refused(f"cannot read {self.root / path}: {error.strerror}") from error


def find(tree: Path) -> Layer:
    """The interface layer of a tree."""
    if not tree.is_dir():
        raise Refused(f"{tree} is not a folder; give the source tree of NVIDIA's open driver")
    for place in PLACES:
        root = tree / place
        if all((root / landmark).is_file() for landmark in LANDMARKS):
            layer = Layer(root.resolve(), _version(root))
            if not OPEN.search(layer.read("nvidia/nv.c")):
                raise Refused(f"{tree} is the closed flavour of NVIDIA's driver, whose licence "
                              "does not allow the hooks; install the open flavour")
            return layer
    wanted = ", ".join(LANDMARKS)
    raise Refused(
        f"{tree} is no source tree of NVIDIA's open driver: neither it nor its "
        f"{' nor '.join(PLACES[1:])} has {wanted}")


def _version(root: Path) -> str:
    match = VERSION.search((root / "Kbuild").read_text(encoding="utf-8", errors="replace"))
    if not match:
        raise Refused(f"{root / 'Kbuild'} does not say which version of the driver this is "
                      "(-DNV_VERSION_STRING); give an unchanged source tree")
    return match.group(1)
