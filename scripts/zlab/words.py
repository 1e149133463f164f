# SPDX-License-Identifier: GPL-2.0
"""Checks the words of comments, code and documentation: Documentation/index.rst has the glossary.

`python3 -m zlab.words --count` prints the number of findings of each folder instead.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from .sources import ROOT, is_source, tracked

# Words that the glossary replaced, and the word to use.
REPLACED = {
    r"he|his|him|himself": "it, its (a process) or they (people)",
    r"nap|naps|napped|napping": "think time",
    r"janitor": "jobs",
    r"governor|governors": "policy",
    r"barred": "disabled",
}

# Folders that do not follow a rule; none may be added.
LATER = {
    "replaced": (),
    "opening": (),
    "decoding": ("tools/tests",),
}

# Other meanings of these words: quoted names of the kernel and of other projects.
ALLOWED = re.compile(r"cpufreq|scaling_governor")

# A comment that opens with a question word has no noun for what it names.
OPENING = re.compile(
    r"(?:^\s*(?:///?|//!|/\*\*?|\*|#|\"\"\")|\s(?://|/\*|#))\s*"
    r"(?:@\w+: (?:in: |out: )?)?(?:What|Whether|How|Who|Whom|Whose)\b(?! if\b)"
)
# Words in place of a noun: a reader has to decode them. Quoted ones (*so*) are allowed.
DECODING = re.compile(
    r"(?<![*`])\b(?:who(?:m|se)?ever|whatever|what (?:came|comes|became|becomes) of)\b",
    re.IGNORECASE)
COMMENT = re.compile(r"(?:^\s*|\s)(?://|/\*|#|\"\"\")|^\s*\*(?:\s|$)")
PROSE = {".rst", ".md"}
COMMENTED = {".rs", ".c", ".h", ".py", ".sh", ".cocci", ""}


def replaced(path: Path, text: str) -> Iterator[str]:
    """Words that the glossary replaced."""
    if path.name in ("words.py", "test_words.py"):
        return
    for number, line in enumerate(text.splitlines(), 1):
        for word in WORDS.finditer(line):
            if not ALLOWED.search(line):
                use = next(use for old, use in REPLACED.items()
                           if re.fullmatch(old, word.group(), re.IGNORECASE))
                yield f"{path}:{number}: {word.group()}: use {use}"


# Parts of an identifier are words, too: `mean_nap`, `TakeNap`.
WORDS = re.compile(
    "|".join(rf"(?:(?<![a-zA-Z])|(?<=[a-z])(?=[A-Z]))(?i:{old})"
    r"(?:(?![a-zA-Z])|(?<=[a-z])(?=[A-Z]))" for old in REPLACED))


def opening(path: Path, text: str) -> Iterator[str]:
    """Comments that open with a question word."""
    if path.suffix not in COMMENTED or path.name in ("words.py", "test_words.py"):
        return
    for number, line in enumerate(text.splitlines(), 1):
        if OPENING.search(line):
            yield f"{path}:{number}: opens with a question word: {line.strip()}"


def decoding(path: Path, text: str) -> Iterator[str]:
    """Comments and pages that name a thing by whoever, whatever or what came of it."""
    if path.suffix not in COMMENTED | PROSE or path.name in ("words.py", "test_words.py"):
        return
    for number, line in enumerate(text.splitlines(), 1):
        comment = None if path.suffix in PROSE else COMMENT.search(line)
        said = line if path.suffix in PROSE else line[comment.start():] if comment else ""
        for word in DECODING.finditer(said):
            yield f"{path}:{number}: {word.group()}: use a noun: {line.strip()}"


CHECKS = {"replaced": replaced, "opening": opening, "decoding": decoding}
NAMES = {
    "replaced": "no word that the glossary replaced",
    "opening": "no comment opens with What, Whether, How or Who",
    "decoding": "no comment or page has whoever, whatever or what came of",
}


def findings(paths: list[Path], rule: str) -> Iterator[str]:
    """Findings of one rule in all folders that follow it."""
    for path in filter(is_source, paths):
        name = path.relative_to(ROOT)
        if not any(name.is_relative_to(folder) for folder in LATER[rule]):
            yield from CHECKS[rule](name, path.read_text(encoding="utf-8"))


def count(paths: list[Path]) -> None:
    """Prints the findings of each folder, also of those that follow no rule yet."""
    for rule, check in CHECKS.items():
        folders: Counter[str] = Counter()
        for path in filter(is_source, paths):
            name = path.relative_to(ROOT)
            found = len(list(check(name, path.read_text(encoding="utf-8"))))
            folders["/".join(name.parts[:-1][:2]) or "."] += found
        print(f"{rule}: {folders.total()}")
        for folder, found in sorted(folders.items()):
            if found:
                print(f"    {found:5} {folder}")


def main() -> int:
    """Prints ok or not ok for each rule, with the findings below."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", action="store_true", help="print numbers, fail never")
    paths = tracked()
    if parser.parse_args().count:
        count(paths)
        return 0
    bad = 0
    for rule, name in NAMES.items():
        found = list(findings(paths, rule))
        print(f"{'not ok' if found else 'ok'} - {name}")
        for line in found:
            print(f"    {line}")
        bad += bool(found)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
