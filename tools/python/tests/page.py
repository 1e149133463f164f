# SPDX-License-Identifier: MIT OR Apache-2.0
"""Examples and tables of pages of Documentation/, as the pages have them."""

import re
import textwrap
from pathlib import Path

BLOCK = re.compile(r"^\.\. code-block:: (\w+)\n(?:    :\w+:.*\n)*\n((?:    .*\n|\n)+)",
                   re.MULTILINE)
CAPTION = re.compile(r"^    :caption: (.*)$", re.MULTILINE)


def examples(page: Path) -> dict[str, list[tuple[str, str]]]:
    """Captions and texts of all blocks, by language."""
    found: dict[str, list[tuple[str, str]]] = {}
    for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
        caption = CAPTION.search(match[0])
        name = caption[1] if caption else f"block {len(found.get(match[1], []))}"
        found.setdefault(match[1], []).append((name, textwrap.dedent(match[2])))
    return found


def table(text: str, title: str) -> list[list[str]]:
    """The cells of the first table of a section, without its head."""
    section = text.split(f"\n{title}\n{'=' * len(title)}\n")[1]
    _, head, *rows = re.split(r"^(?==+ +=)", section, flags=re.MULTILINE)[0:3]
    ruler, *lines = rows[0].splitlines()
    starts = [match.start() for match in re.finditer("=+", ruler)]
    ends = [*starts[1:], None]
    found = []
    for line in lines:
        if line.strip():
            found.append([line[start:end].strip() for start, end in zip(starts, ends)])
    return found


def bad_input(page: Path) -> dict[str, tuple[str | None, list[str]]]:
    """Cases of Documentation/runtime.rst: the name of the error in C, and words of Python."""
    found = {}
    for name, c, python in table(page.read_text(encoding="utf-8"), "Bad input"):
        words = re.findall("``([^`]+)``", c)
        found[name] = (words[0] if words else None, re.findall("``([^`]+)``", python))
    return found
