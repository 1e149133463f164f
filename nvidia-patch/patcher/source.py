# SPDX-License-Identifier: GPL-2.0
"""Reads C as far as it takes to say in which function a line is, and which lines changed."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

COMMENT = re.compile(
    r""""(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'|/\*.*?\*/|//[^\n]*""", re.DOTALL)
NAME_BEFORE_PARENTHESIS = re.compile(r"(\w+)\s*\(")
# A function whose brace is on the line of its last parameter.
HEAD_WITH_BRACE = re.compile(r"\)\s*\{\s*$")
# Lines of context that must agree for two versions of a file to be in step again.
CONTEXT = 3
FARTHEST = 40


def without_comments(text: str) -> str:
    """The text with blanks for comments; lines and columns stay."""
    def blank(match: re.Match) -> str:
        found = match.group(0)
        return found if found[0] in "\"'" else re.sub(r"[^\n]", " ", found)

    return COMMENT.sub(blank, text)


def functions(text: str) -> list[str]:
    """For each line the function it is in, or an empty string.

    Goes by closing braces in the first column, which is how the driver and the kernel are written.
    """
    lines = without_comments(text).split("\n")
    inside, head, start, macro = "", [], 0, False
    result = [""] * len(lines)
    for number, line in enumerate(lines):
        continued, macro = macro, line.endswith("\\") and (macro or line.startswith("#"))
        if continued:
            continue
        if line.startswith("{"):
            match = NAME_BEFORE_PARENTHESIS.search(" ".join(head))
            inside, start = (match.group(1) if match else ""), number
        elif line.startswith("}"):
            for covered in range(start, number + 1):
                result[covered] = inside or result[covered]
            inside, head = "", []
        elif line.startswith("#") or not line.strip():
            continue
        elif not inside and HEAD_WITH_BRACE.search(line):
            match = NAME_BEFORE_PARENTHESIS.search(" ".join([*head, line]))
            inside, start = (match.group(1) if match else ""), number
        elif not inside:
            head = [] if line.rstrip().endswith(";") else head + [line]
    return result


def squeezed(text: str) -> str:
    """The text with each run of blanks made one, to compare texts beyond their layout."""
    return " ".join(text.split())


def find(text: str, needle: str) -> list[int]:
    """Numbers, from 0, of the lines of code that hold the needle as whole words."""
    pattern = r"\s*".join(re.escape(word) for word in needle.split())
    if re.match(r"\w", needle):
        pattern = r"(?<!\w)" + pattern
    if re.search(r"\w$", needle):
        pattern += r"(?!\w)"
    compiled = re.compile(pattern)
    code = without_comments(text).split("\n")
    return [number for number, line in enumerate(code) if compiled.search(line)]


@dataclass(frozen=True)
class Edit:
    """Lines that were replaced: where in the old and in the new text, and which."""

    old_line: int
    new_line: int
    removed: tuple[str, ...]
    added: tuple[str, ...]


def edits(old: str, new: str) -> Iterator[Edit]:
    """The changes from one text to the other, or ValueError when they are too far apart."""
    a, b = old.split("\n"), new.split("\n")
    i = j = 0
    while i < len(a) or j < len(b):
        if i < len(a) and j < len(b) and a[i] == b[j]:
            i, j = i + 1, j + 1
            continue
        skip_a, skip_b = _resync(a[i:i + FARTHEST + CONTEXT], b[j:j + FARTHEST + CONTEXT])
        # Between two changes that are close to each other, lines can be as they were.
        matcher = SequenceMatcher(None, a[i:i + skip_a], b[j:j + skip_b], autojunk=False)
        for tag, from_a, to_a, from_b, to_b in matcher.get_opcodes():
            if tag != "equal":
                yield Edit(i + from_a, j + from_b, tuple(a[i + from_a:i + to_a]),
                           tuple(b[j + from_b:j + to_b]))
        i, j = i + skip_a, j + skip_b


def _resync(a: list[str], b: list[str]) -> tuple[int, int]:
    """The fewest lines to skip in both so that they go on alike."""
    for total in range(1, 2 * FARTHEST):
        for skip_a in range(total + 1):
            skip_b = total - skip_a
            if skip_a > len(a) or skip_b > len(b):
                continue
            if a[skip_a:skip_a + CONTEXT] == b[skip_b:skip_b + CONTEXT]:
                return skip_a, skip_b
    raise ValueError("the two texts do not meet again")
