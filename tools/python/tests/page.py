# SPDX-License-Identifier: MIT OR Apache-2.0
"""The examples of Documentation/runtime-python.rst, as the page has them."""

import re
import textwrap
from pathlib import Path

BLOCK = re.compile(r"^\.\. code-block:: (\w+)\n(?:    :\w+:.*\n)*\n((?:    .*\n|\n)+)", re.MULTILINE)
CAPTION = re.compile(r"^    :caption: (.*)$", re.MULTILINE)


def examples(page: Path) -> dict[str, list[tuple[str, str]]]:
    """Captions and texts of all blocks, by language."""
    found: dict[str, list[tuple[str, str]]] = {}
    for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
        caption = CAPTION.search(match[0])
        name = caption[1] if caption else f"block {len(found.get(match[1], []))}"
        found.setdefault(match[1], []).append((name, textwrap.dedent(match[2])))
    return found
