# SPDX-License-Identifier: GPL-2.0
"""The semantic patches, each with the places where it must match, as its own header says.

A header line is `// Expect: FILE FUNCTIONS COUNTS CHANGE`. FUNCTIONS and COUNTS may name several,
with `|` between, `-` is outside every function. CHANGE is `+ LINE`, `- LINE` or `OLD => NEW`.
`// Anchor: CODE` names the code that following `+` expectations go beside; `// Versions:` names the
drivers that need the patch, where not all do. Drivers that were not tried get it where it matches,
unless the names follow `// Only:`.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from . import Refused
from .source import squeezed

HEADER = re.compile(r"//\s*(Expect|Anchor|Versions|Only):\s*(.*\S)\s*$")


@dataclass(frozen=True)
class Expectation:
    """One change that a semantic patch must make: its place, number and text."""

    patch: str
    path: str
    functions: tuple[str, ...]
    counts: tuple[int, ...]
    anchor: str
    removes: str
    adds: str

    @property
    def replaces(self) -> bool:
        """True when the change is inside a line, False when it is a line."""
        return bool(self.removes and self.adds)

    def explains(self, removed: str | None, added: str | None, function: str) -> bool:
        """True when this is the reason for a line that went, a line that came, or both."""
        if function not in self.functions:
            return False
        if self.replaces:
            if removed is None or added is None:
                return False
            return squeezed(removed).replace(self.removes, self.adds) == squeezed(added)
        if self.adds:
            return removed is None and added is not None and squeezed(added) == self.adds
        return added is None and removed is not None and squeezed(removed) == self.removes

    def place(self) -> str:
        """Where it is expected, for people."""
        function = " or ".join(name + "()" for name in self.functions if name)
        times = " or ".join(str(count) for count in self.counts)
        return f"{self.path}: {times} time(s) in {function or 'the file, outside functions'}"

    def change(self) -> str:
        """The expectation, for people."""
        if self.replaces:
            return f"'{self.removes}' to become '{self.adds}'"
        return f"'{self.adds}' to be added" if self.adds else f"'{self.removes}' to go"


@dataclass(frozen=True)
class Patch:
    """A semantic patch: its text, its expected changes, and the drivers that need it."""

    name: str
    text: str
    expectations: tuple[Expectation, ...]
    versions: tuple[str, ...]
    only: bool

    def leaves_out(self, version: str, tried: bool) -> bool:
        """True when a driver does without it, even if its code matches."""
        return (tried or self.only) and version not in self.versions


def read(path: Path) -> Patch:
    """A semantic patch from its file."""
    text = path.read_text(encoding="utf-8")
    name, anchor = f"{path.parent.name}/{path.stem}", ""
    expectations: list[Expectation] = []
    versions: tuple[str, ...] = ()
    only = False
    for line in text.splitlines():
        match = HEADER.match(line)
        if not match:
            continue
        key, value = match.groups()
        if key == "Anchor":
            anchor = value
        elif key in ("Versions", "Only"):
            versions, only = tuple(value.split()), key == "Only"
        else:
            expectations.append(_expectation(name, anchor, value))
    if not expectations:
        raise Refused(f"{path} does not say where it must match; restore it")
    return Patch(name, text, tuple(expectations), versions, only)


def _expectation(patch: str, anchor: str, value: str) -> Expectation:
    path, functions, counts, change = value.split(None, 3)
    names = tuple("" if name == "-" else name for name in functions.split("|"))
    numbers = tuple(int(count) for count in counts.split("|"))
    if change.startswith("+ "):
        removes, adds = "", squeezed(change[2:])
    elif change.startswith("- "):
        removes, adds = squeezed(change[2:]), ""
    else:
        removes, adds = (squeezed(part) for part in change.split(" => "))
    return Expectation(patch, path, names, numbers, removes or anchor, removes, adds)


def read_all(folder: Path) -> list[Patch]:
    """Every semantic patch of a folder, in the order of their names."""
    patches = [read(path) for path in sorted(folder.glob("*.cocci"))]
    if not patches:
        raise Refused(f"there are no semantic patches in {folder}; restore them")
    return patches
