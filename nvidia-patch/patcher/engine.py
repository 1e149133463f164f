# SPDX-License-Identifier: GPL-2.0
"""Works out a patched tree on a copy, and refuses one that is not as expected."""

import shutil
import subprocess
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from . import Refused
from .layer import Layer
from .rules import Expectation, Patch, read_all
from .source import Edit, edits, find, functions

SOURCES = "nvidia/nvidia-sources.Kbuild"
SOURCES_ANCHOR = "NVIDIA_SOURCES += nvidia/nv.c"
TIMEOUT_S = 300


@dataclass
class Plan:
    """The outcome of patching: the content of each file, and the messages about it."""

    files: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    places: int = 0


def plan(layer: Layer, home: Path, hooked: bool = True) -> Plan:
    """The files of a patched tree; without hooks only the changes for newer kernels."""
    result = Plan()
    hooks = [(patch, patch.expectations) for patch in read_all(home / "hooks")] if hooked else []
    active = hooks + _select(layer, read_all(home / "compat"), result.notes)
    paths = sorted({e.path for _, expectations in active for e in expectations})
    olds = {path: layer.read(path) for path in paths}
    result.files.update(_run_all(olds, active))
    problems: list[str] = []
    for path in paths:
        expected = [e for _, expectations in active for e in expectations if e.path == path]
        count, found = check(path, olds[path], result.files[path], expected)
        problems += found
        result.places += count
    if problems:
        raise Refused("the hooks do not fit this driver; nothing was made.\n" +
                      "\n".join(problems))
    result.files = {path: text for path, text in result.files.items() if text != olds[path]}
    _add_own(layer, home, result, hooked)
    return result


def _select(layer: Layer, patches: list[Patch], notes: list[str]) -> list[tuple[Patch, tuple[Expectation, ...]]]:
    """The compatibility patches that this tree needs, each with its expectations."""
    chosen = []
    for patch in patches:
        if patch.leaves_out(layer.version, layer.tried):
            continue
        needed, stray = [], False
        for expectation in patch.expectations:
            if not layer.has(expectation.path):
                continue
            text = layer.read(expectation.path)
            where = functions(text)
            hits = [where[line] for line in find(text, expectation.anchor)]
            own = {name for e in patch.expectations if e.path == expectation.path
                   for name in e.functions}
            stray = stray or any(name not in own for name in hits)
            if any(name in expectation.functions for name in hits):
                needed.append(expectation)
        if stray and not layer.tried:
            notes.append(f"{patch.name} is left out: this driver has been changed there; "
                         "it may not build for the newest kernels")
        elif needed:
            chosen.append((patch, tuple(needed)))
    return chosen


def _run_all(olds: dict[str, str],
             active: list[tuple[Patch, tuple[Expectation, ...]]]) -> dict[str, str]:
    spatch = shutil.which("spatch")
    if not spatch:
        raise Refused("spatch is missing; install Coccinelle (apt-get install coccinelle)")
    with tempfile.TemporaryDirectory(prefix="zernel-patch-") as folder:
        def run(path: str) -> str:
            work = Path(folder) / path.replace("/", "_")
            rules = work.with_suffix(".cocci")
            work.write_bytes(olds[path].encode("utf-8", "surrogateescape"))
            rules.write_text("\n".join(patch.text for patch, expectations in active
                                       if any(e.path == path for e in expectations)),
                             encoding="utf-8")
            _spatch(spatch, rules, work, path)
            return work.read_bytes().decode("utf-8", "surrogateescape")

        with ThreadPoolExecutor() as pool:
            return dict(zip(olds, pool.map(run, olds)))


def _spatch(spatch: str, rules: Path, work: Path, path: str) -> None:
    command = [spatch, "--very-quiet", "--no-includes", "--no-show-diff", "--in-place",
               "--sp-file", str(rules), str(work)]
    try:
        done = subprocess.run(command, cwd=rules.parent, capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise Refused(f"spatch did not finish {path} in {TIMEOUT_S} s; try again on a machine "
                      "that is less busy") from error
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise Refused(f"spatch failed on {path}: {last}")


def check(path: str, old: str, new: str, expected: list[Expectation]) -> tuple[int, list[str]]:
    """The expected changes of a file that were found, and those that were not."""
    try:
        changes = list(edits(old, new))
    except ValueError:
        return 0, [f"  {path}: changed beyond recognition"]
    old_where, new_where = functions(old), functions(new)
    counts: Counter[Expectation] = Counter()
    problems = []
    for change in changes:
        for removed, added, function, line in _pairs(change, expected, old_where, new_where):
            reason = next((e for e in expected if e.explains(removed, added, function)), None)
            if reason:
                counts[reason] += 1
            else:
                problems.append(_unexpected(path, removed, added, function, line, expected))
    for expectation in expected:
        hits = find(old, expectation.anchor)
        count = counts[expectation]
        if count not in expectation.counts or (count == 0 and hits):
            problems.append(_missed(expectation, count, hits, old_where))
    return counts.total(), problems


def _pairs(change: Edit, expected: list[Expectation], old_where: list[str],
           new_where: list[str]) -> list[tuple[str | None, str | None, str, int]]:
    """The changes in an edit: lines that became others, that went and that came."""
    added = dict(enumerate(change.added))
    result: list[tuple[str | None, str | None, str, int]] = []
    for offset, line in enumerate(change.removed):
        number = change.old_line + offset
        where = old_where[number]
        partner = next((key for key, new in added.items()
                        if any(e.replaces and e.explains(line, new, where) for e in expected)), None)
        new = added.pop(partner) if partner is not None else None
        result.append((line, new, where, number))
    for offset, line in added.items():
        number = change.new_line + offset
        result.append((None, line, new_where[number], number))
    return result


def _in(function: str) -> str:
    return f"in {function}()" if function else "outside functions"


def _unexpected(path: str, removed: str | None, added: str | None, function: str, line: int,
                expected: list[Expectation]) -> str:
    text = (added if added is not None else removed or "").strip()
    what = f"'{text}' came" if added is not None else f"'{text}' went"
    for e in expected:
        if any(e.explains(removed, added, name) for name in e.functions):
            return (f"  {e.patch}: matched at {path}:{line + 1} {_in(function)}, "
                    f"but is expected at {e.place()}")
    return f"  {path}:{line + 1} {_in(function)}: {what}, which no hook asks for"


def _missed(expectation: Expectation, count: int, hits: list[int], where: list[str]) -> str:
    found = ", ".join(f"line {hit + 1} {_in(where[hit])}" for hit in hits) or "nowhere"
    return (f"  {expectation.patch}: expected {expectation.change()} at {expectation.place()}; "
            f"it was {count} time(s). The code it goes by, '{expectation.anchor}', is {found}")


def _add_own(layer: Layer, home: Path, result: Plan, hooked: bool) -> None:
    """The hook file, its headers, and their lines in the list of sources."""
    headers = sorted((home / "compat").glob("*.h"))
    sources = []
    if hooked:
        sources = sorted((home / "src").glob("*.c"))
        headers += sorted((home / "src").glob("*.h"))
        if not sources:
            raise Refused(f"{home / 'src'} lacks the hook file; restore it")
    own = {f"nvidia/{source.name}": source for source in sources}
    own |= {f"common/inc/{header.name}": header for header in headers}
    for path, source in own.items():
        if layer.has(path):
            raise Refused(f"{layer.root / path} is there already; give an unchanged source "
                          "tree")
        result.files[path] = source.read_text(encoding="utf-8")
    if not sources:
        return
    listing = layer.read(SOURCES)
    count = [" ".join(line.split()) for line in listing.split("\n")].count(SOURCES_ANCHOR)
    if count != 1:
        raise Refused(f"{layer.root / SOURCES} has {count} lines '{SOURCES_ANCHOR}' instead "
                      "of one; give an unchanged source tree")
    if not listing.endswith("\n"):
        listing += "\n"
    result.files[SOURCES] = listing + "".join(
        f"NVIDIA_SOURCES += nvidia/{source.name}\n" for source in sources)
