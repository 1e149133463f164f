# SPDX-License-Identifier: GPL-2.0
"""Checks what no compiler checks in the sources: licences, layering, sizes, links."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MAX_LINES = 600
# Below these folders, the modules.
MAX_MODULE_LINES = 500
MODULES = ("rust/", "nvidia-patch/src/")
SOURCE_SUFFIXES = {".rs", ".c", ".h", ".cc", ".hpp", ".py", ".sh", ".toml", ".config", ".rst", ".md",
                   ".cocci"}
SOURCE_NAMES = {"Makefile", "Kbuild", "init", "run", ".gitignore"}
GENERATED = {"Cargo.lock"}
# Programs need nothing else, so each holds the whole ABI of a device.
ANY_LENGTH = {"include/uapi/linux/zernel.h", "include/uapi/linux/zernel_sim.h",
              "tools/tests/selftest/record/v1/linux/zernel.h",
              "tools/tests/selftest/record/v2/linux/zernel.h",
              "tools/tests/selftest/record/v3/linux/zernel.h"}
# Of folders; elsewhere it is GPL-2.0.
LICENCES = {
    "tools/": "MIT OR Apache-2.0",
    "include/zernel/": "MIT OR Apache-2.0",
    "rust/policy/": "GPL-2.0 OR MIT",
    "rust/model/": "GPL-2.0 OR MIT",
    "nvidia-patch/src/": "GPL-2.0 OR MIT",
    "nvidia-patch/compat/": "GPL-2.0 OR MIT",
    "nvidia-patch/stock/": "GPL-2.0 OR MIT",
}
SPDX = re.compile(r"SPDX-License-Identifier: (.*?)(?: \*/| -->)?$", re.MULTILINE)
# Code that a Rust test module holds may unwrap, and so may what only tests compile.
TEST_CFG = r"#\[cfg\([^\]]*\b(?:test|zernel_kunit|kunit)\b[^\]]*\)\]\s*"
TEST_FILE = re.compile(TEST_CFG + r"(?:#\[[^\]]*\]\s*)*(?:pub(?:\([a-z]+\))? )?mod (\w+);")
TEST_BLOCK = re.compile(
    r"(?:" + TEST_CFG + r"(?:#!?\[[^\]]*\]\s*)*(?:pub(?:\([a-z]+\))? )?(?:mod|impl|fn)\b[^;{]*\{)"
    r"|(?:\bmod tests\s*\{)"
)
PANICS = re.compile(r"\.unwrap\(\)|\.expect\(|\b(?:todo|unimplemented|panic|unreachable|dbg)!\(")
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|:(?:doc|file|download):`([^`]+)`|``([\w./-]+/[\w./-]+)``")


def tracked() -> list[Path]:
    """The files of the repository, new ones included, without what .gitignore names."""
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout
    paths = (ROOT / name for name in listing.split("\0") if name)
    return sorted(path for path in paths if path.is_file())


def is_source(path: Path) -> bool:
    """True for what a person wrote as code or documentation."""
    if path.name in GENERATED or "LICENSES" in path.parts:
        return False
    if path.suffix in SOURCE_SUFFIXES or path.name in SOURCE_NAMES:
        return True
    return path.suffix == "" and path.read_bytes()[:2] == b"#!"


def strip_comments(text: str) -> str:
    """Rust without comments and the content of strings; line numbers stay."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|b?"(?:\\.|[^"\\])*"|r#*"(?:.*?)"#*', re.DOTALL)

    def blank(match: re.Match) -> str:
        return re.sub(r"[^\n]", " ", match.group(0))

    return pattern.sub(blank, text)


def without_tests(code: str) -> str:
    """Rust without the blocks that only tests compile; line numbers stay."""
    while match := TEST_BLOCK.search(code):
        depth, end = 1, match.end()
        while end < len(code) and depth:
            depth += {"{": 1, "}": -1}.get(code[end], 0)
            end += 1
        removed = re.sub(r"[^\n]", " ", code[match.start():end])
        code = code[: match.start()] + removed + code[end:]
    return code


def test_files(modules: list[Path]) -> set[Path]:
    """Files that only tests compile: declared under a test cfg somewhere."""
    found: set[Path] = set()
    for path in modules:
        folder = path.parent
        if path.name not in ("mod.rs", "main.rs", "lib.rs") and (folder / path.stem).is_dir():
            folder = folder / path.stem
        for name in TEST_FILE.findall(path.read_text(encoding="utf-8")):
            for base in (folder, path.parent):
                found.add(base / f"{name}.rs")
                found.update((base / name).glob("**/*.rs"))
    return found


def lines_matching(code: str, pattern: re.Pattern) -> Iterator[tuple[int, str]]:
    """Number and text of each matching line."""
    for number, line in enumerate(code.splitlines(), 1):
        if pattern.search(line):
            yield number, line.strip()


def licence(name: str) -> str:
    """The licence of a file of the repository (Documentation/contributing.rst)."""
    if name in ANY_LENGTH:
        return "GPL-2.0 WITH Linux-syscall-note"
    for folder, found in LICENCES.items():
        if name.startswith(folder):
            return found
    return "GPL-2.0"


def check_spdx(files: list[Path]) -> Iterator[str]:
    """Every source has its licence in the first three lines, and it is that of its folder."""
    for path in filter(is_source, files):
        name = str(path.relative_to(ROOT))
        head = "\n".join(path.read_text(encoding="utf-8").splitlines()[:3])
        found = SPDX.search(head)
        if not found:
            yield f"{name}: no SPDX-License-Identifier line at the top"
        elif found[1] != licence(name):
            yield f"{name}: {found[1]} is not the licence of its folder, {licence(name)}"


def check_purpose(files: list[Path]) -> Iterator[str]:
    """Every Rust file says in its first doc comment what it is for."""
    for path in files:
        if path.suffix == ".rs":
            head = path.read_text(encoding="utf-8").splitlines()[:4]
            if not any(line.startswith("//!") for line in head):
                yield f"{path.relative_to(ROOT)}: no //! sentence of purpose at the top"


def check_length(files: list[Path]) -> Iterator[str]:
    """No source outgrows what a reader can hold."""
    for path in filter(is_source, files):
        name = str(path.relative_to(ROOT))
        count = len(path.read_text(encoding="utf-8").splitlines())
        most = MAX_MODULE_LINES if name.startswith(MODULES) else MAX_LINES
        if count > most and name not in ANY_LENGTH:
            yield f"{name}: {count} lines; split what has more than {most}"


def check_unsafe(files: list[Path]) -> Iterator[str]:
    """Only the glue layer may be unsafe or touch the kernel's raw bindings."""
    # `unsafe(uninit)` is the syntax of the kernel's global_lock! macro.
    pattern = re.compile(r"\bunsafe\b(?!\(uninit\))|\bbindings::")
    for path in _module_code(files):
        name = str(path.relative_to(ROOT))
        if name.startswith("rust/glue/") or "uapi" in path.name:
            continue
        code = strip_comments(path.read_text(encoding="utf-8"))
        for number, line in lines_matching(code, pattern):
            yield f"{name}:{number}: belongs under rust/glue: {line}"


def check_panics(files: list[Path]) -> Iterator[str]:
    """Nothing that runs in the kernel may panic by design."""
    modules = _module_code(files)
    only_tests = test_files(modules)
    for path in modules:
        if path in only_tests or path.name == "tests.rs" or "tests" in path.parts:
            continue
        code = without_tests(strip_comments(path.read_text(encoding="utf-8")))
        for number, line in lines_matching(code, PANICS):
            yield f"{path.relative_to(ROOT)}:{number}: panics: {line}"


def check_unfinished(files: list[Path]) -> Iterator[str]:
    """Nothing is left for later."""
    for path in filter(is_source, files):
        if path == Path(__file__).resolve():
            continue
        for number, line in lines_matching(path.read_text(encoding="utf-8"), UNFINISHED):
            yield f"{path.relative_to(ROOT)}:{number}: unfinished: {line}"


def check_links(files: list[Path]) -> Iterator[str]:
    """Every path that the documentation names exists."""
    known = {path.relative_to(ROOT).parts[0] for path in files}
    for path in files:
        if path.suffix not in (".md", ".rst"):
            continue
        for match in LINK.finditer(path.read_text(encoding="utf-8")):
            link, role, code = match.groups()
            target = (link or role or code).split("#")[0]
            if not target or "://" in target or target.startswith("mailto:"):
                continue
            if code and target.split("/")[0] not in known:
                continue
            if not _exists(path, target):
                yield f"{path.relative_to(ROOT)}: names {target}, which does not exist"


def _exists(path: Path, target: str) -> bool:
    candidates = [path.parent / target, ROOT / target, ROOT / target.lstrip("/")]
    candidates += [candidate.with_name(candidate.name + ".rst") for candidate in candidates]
    return any(candidate.exists() for candidate in candidates)


def _module_code(files: list[Path]) -> list[Path]:
    return [path for path in files if path.suffix == ".rs" and path.is_relative_to(ROOT / "rust")]


CHECKS = {
    "SPDX line on every source": check_spdx,
    "every Rust file says what it is for": check_purpose,
    f"no source over {MAX_LINES} lines, of a module {MAX_MODULE_LINES}": check_length,
    "unsafe and bindings only under rust/glue": check_unsafe,
    "nothing panics in module code": check_panics,
    "nothing unfinished": check_unfinished,
    "every path in the documentation exists": check_links,
}


def main() -> int:
    """Prints ok or not ok for each check, with what it found below."""
    files = tracked()
    bad = 0
    for name, check in CHECKS.items():
        found = list(check(files))
        print(f"{'not ok' if found else 'ok'} - {name}")
        for line in found:
            print(f"    {line}")
        bad += bool(found)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
