# SPDX-License-Identifier: GPL-2.0
"""Writes an initramfs from files of the host with the kernel's own gen_init_cpio."""

import hashlib
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path, PurePosixPath

PROGRAM = "usr/gen_init_cpio"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zernel"


class InitramfsError(Exception):
    """The initramfs cannot be made; the text says what to do."""


def generator(kernel: Path, cache: Path = CACHE) -> Path:
    """gen_init_cpio as the kernel's build made it, or compiled from the kernel's source."""
    built = kernel / PROGRAM
    if os.access(built, os.X_OK):
        return built
    for tree in (kernel, kernel / "source"):
        source = tree / f"{PROGRAM}.c"
        if source.is_file():
            return _compile(source, cache)
    raise InitramfsError(
        f"{kernel} has neither {PROGRAM} nor the source of it ({PROGRAM}.c, source/{PROGRAM}.c); "
        f"run make {PROGRAM} there, or give a kernel that was built with CONFIG_BLK_DEV_INITRD=y")


def _compile(source: Path, cache: Path) -> Path:
    version = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    program = cache / f"tools/gen_init_cpio-{version}"
    if program.is_file():
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    new = program.with_name(f".{program.name}.{os.getpid()}")
    try:
        done = subprocess.run(["cc", "-O2", "-o", str(new), str(source)], capture_output=True,
                              text=True, check=False)
    except FileNotFoundError as error:
        raise InitramfsError("cc is missing; run scripts/setup") from error
    if done.returncode != 0:
        raise InitramfsError(f"{source} cannot be compiled: {done.stderr.strip()}")
    new.rename(program)
    return program


def libraries(program: Path) -> list[Path]:
    """The shared libraries of a program or a library, its loader among them, as ldd finds them."""
    try:
        done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise InitramfsError("ldd is missing; run scripts/setup") from error
    if done.returncode != 0:
        raise InitramfsError(f"{program} is not linked dynamically: {done.stderr.strip()}")
    missing = re.findall(r"^\s*(\S+) => not found", done.stdout, re.MULTILINE)
    if missing:
        raise InitramfsError(f"{program} needs {', '.join(missing)}, which the host does not have")
    found = re.findall(r"^\s*(?:\S+ => )?(/\S+) \(0x", done.stdout, re.MULTILINE)
    return [Path(path) for path in found]


class Initramfs:
    """Collects entries; parents are made as needed.

    The list that gen_init_cpio reads cannot quote, so it names nothing of the host's: each file
    has a link with a number for a name in the folder `work`.
    """

    def __init__(self, work: Path) -> None:
        self.work = work
        self.lines: list[str] = []
        self.known: set[str] = set()
        self.files = 0

    def directory(self, name: str, mode: int = 0o755) -> None:
        """A directory and its parents."""
        path = PurePosixPath(name.strip("/"))
        for parent in [*reversed(path.parents), path]:
            key = str(parent)
            if key not in (".", "") and key not in self.known:
                own = mode if parent == path else 0o755
                self._entry("dir", key, f"{own:o} 0 0")

    def text(self, name: str, content: str, mode: int = 0o644) -> None:
        """A regular file with this content."""
        path = self._next()
        path.write_text(content, encoding="utf-8")
        self._file(name, path, mode)

    def file(self, name: str, host: Path, mode: int | None = None) -> None:
        """A regular file with the content of one of the host's, and its mode if none is given."""
        path = self._next()
        path.symlink_to(host.resolve())
        self._file(name, path, stat.S_IMODE(host.stat().st_mode) if mode is None else mode)

    def device(self, name: str, major: int, minor: int, mode: int = 0o600) -> None:
        """A character device."""
        self._parent(name)
        self._entry("nod", name.strip("/"), f"{mode:o} 0 0 c {major} {minor}")

    def add(self, host: Path, guest: str) -> None:
        """A file or a whole directory of the host."""
        if host.is_dir():
            self.directory(guest)
            for child in sorted(host.iterdir()):
                self.add(child, f"{guest.rstrip('/')}/{child.name}")
        elif host.is_file():
            self.file(guest + host.name if guest.endswith("/") else guest, host)
        else:
            raise InitramfsError(f"cannot add {host} to the guest: it is neither a file nor a "
                                 "directory")

    def link(self, host: Path, guest: str) -> None:
        """A program or library that is linked dynamically, and all that it is linked with, which
        has the paths of the host."""
        if not host.is_file():
            raise InitramfsError(f"cannot add {host} to the guest: it is not a file")
        self.add(host, guest)
        for library in libraries(host):
            if str(library).strip("/") not in self.known:
                self.file(str(library), library, 0o755)

    def write(self, path: Path, program: Path) -> None:
        """Writes the archive. Times are 0: guests that count instructions must not differ."""
        entries = self.work / "entries"
        entries.write_text("".join(f"{line}\n" for line in self.lines), encoding="utf-8")
        with path.open("wb") as archive:
            done = subprocess.run([str(program), "-t", "0", entries.name], cwd=self.work,
                                  stdout=archive, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise InitramfsError(f"{program} failed: {done.stderr.strip()}")

    def _next(self) -> Path:
        self.files += 1
        return self.work / str(self.files)

    def _file(self, name: str, path: Path, mode: int) -> None:
        self._parent(name)
        self._entry("file", name.strip("/"), f"{path.name} {mode:o} 0 0")

    def _parent(self, name: str) -> None:
        parent = str(PurePosixPath(name.strip("/")).parent)
        if parent not in (".", ""):
            self.directory(parent)

    def _entry(self, kind: str, name: str, rest: str) -> None:
        if any(letter.isspace() for letter in name):
            raise InitramfsError(f"a file in the guest cannot be called '{name}': gen_init_cpio "
                                 "takes no blanks in names")
        self.known.add(name)
        self.lines.append(f"{kind} /{name} {rest}")
