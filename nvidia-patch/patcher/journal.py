# SPDX-License-Identifier: GPL-2.0
"""Changes a tree as a whole or not at all, and remembers what was there.

The folder `.zernel-patch` of the interface layer holds a manifest, with the digest of each file
before and after, and the original files. It is complete before the first file is replaced, so that
whoever comes after a kill can put everything back.
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from . import Refused

FOLDER = ".zernel-patch"
COMING = FOLDER + ".new"
GOING = FOLDER + ".old"
SUFFIX = ".zernel-new"
FORMAT = 1


@dataclass(frozen=True)
class Entry:
    """A file that the patch changes: digests before (None: not there) and after, and its mode."""

    path: str
    before: str | None
    after: str
    mode: int


@dataclass(frozen=True)
class Manifest:
    """The changes of a tree: `state` is applying, applied or reverting."""

    state: str
    patch: str
    version: str
    files: tuple[Entry, ...]


def digest(path: Path) -> str | None:
    """The digest of a file's content, None when there is no such file."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return None


class Journal:
    """The record of one interface layer."""

    def __init__(self, root: Path):
        self.root = root
        self.folder = root / FOLDER

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other runs away from the tree; waits for one that is under way."""
        handle = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def check_writable(self, paths: list[str]) -> None:
        """Refuses when a file could not be replaced."""
        for folder in sorted({(self.root / path).parent for path in paths} | {self.root}):
            if os.statvfs(folder).f_flag & os.ST_RDONLY:
                raise Refused(f"{folder} is on a file system that cannot be written to; give a "
                              "copy of the tree")
            if not os.access(folder, os.W_OK | os.X_OK):
                raise Refused(f"cannot write to {folder}; run this as its owner")
        for path in paths:
            if (self.root / path).is_symlink():
                raise Refused(f"{self.root / path} is a link; give a tree with files of its own")

    def manifest(self) -> Manifest | None:
        """The record, or None when the tree was never patched."""
        path = self.folder / "manifest.json"
        if not self.folder.exists():
            return None
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            if raw.pop("format") != FORMAT:
                raise Refused(f"{path} is from another version of this program; revert with that")
            raw["files"] = tuple(Entry(**entry) for entry in raw["files"])
            return Manifest(**raw)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Refused(f"{path} cannot be read ({error}); unpack the driver's source "
                          "anew") from error

    def edited(self, manifest: Manifest) -> list[str]:
        """Files that are no longer what the patch made of them."""
        return [e.path for e in manifest.files if digest(self.root / e.path) != e.after]

    def originals(self, manifest: Manifest) -> dict[str, str | None]:
        """The files as they were; None for those that the patch brought."""
        return {e.path: None if e.before is None
                else self._original(e).decode("utf-8", "surrogateescape")
                for e in manifest.files}

    def _original(self, entry: Entry) -> bytes:
        path = self.folder / "original" / entry.path
        data = path.read_bytes() if path.is_file() else b""
        if hashlib.sha256(data).hexdigest() != entry.before:
            raise Refused(f"{path} was edited or removed; unpack the driver's source anew")
        return data

    def recover(self) -> bool:
        """Puts back what a run that was killed left behind; True when there was something."""
        found = False
        for leftover in (COMING, GOING):
            if (self.root / leftover).exists():
                shutil.rmtree(self.root / leftover)
                found = True
        manifest = self.manifest()
        if manifest is None or manifest.state == "applied":
            return found
        strange = [e.path for e in manifest.files
                   if digest(self.root / e.path) not in (e.before, e.after)]
        if strange:
            raise Refused("an earlier run was stopped, and these files were edited since: "
                          f"{', '.join(strange)}; unpack the driver's source anew")
        self._restore(manifest)
        return True

    def unfinished(self) -> bool:
        """True when recover() would change something."""
        manifest = self.manifest()
        return any((self.root / name).exists() for name in (COMING, GOING)) or (
            manifest is not None and manifest.state != "applied")

    def apply(self, patch: str, version: str, files: dict[str, str]) -> None:
        """Replaces the files by their new content."""
        coming = self.root / COMING
        contents = {path: text.encode("utf-8", "surrogateescape") for path, text in files.items()}
        entries = []
        for path, data in sorted(contents.items()):
            source = self.root / path
            before = digest(source)
            if before is not None:
                keep = coming / "original" / path
                keep.parent.mkdir(parents=True, exist_ok=True)
                _write(keep, source.read_bytes(), source.stat().st_mode & 0o7777)
            mode = source.stat().st_mode & 0o7777 if before is not None else 0o644
            entries.append(Entry(path, before, hashlib.sha256(data).hexdigest(), mode))
        manifest = Manifest("applying", patch, version, tuple(entries))
        _write_manifest(coming, manifest)
        for folder, _, _ in os.walk(coming):
            _sync_folder(Path(folder))
        os.rename(coming, self.folder)
        _sync_folder(self.root)
        for entry in entries:
            self._replace(entry.path, contents[entry.path], entry.mode)
        self._sync_folders(manifest)
        self._set_state(manifest, "applied")

    def revert(self, manifest: Manifest) -> None:
        """Puts the originals back; refuses, with nothing changed, when they are not whole."""
        self.originals(manifest)
        self._set_state(manifest, "reverting")
        self._restore(manifest)

    def _restore(self, manifest: Manifest) -> None:
        originals = {e.path: self._original(e) for e in manifest.files if e.before is not None}
        for entry in manifest.files:
            target = self.root / entry.path
            target.with_name(target.name + SUFFIX).unlink(missing_ok=True)
            if entry.before is None:
                target.unlink(missing_ok=True)
            elif digest(target) != entry.before:
                self._replace(entry.path, originals[entry.path], entry.mode)
        self._sync_folders(manifest)
        os.rename(self.folder, self.root / GOING)
        _sync_folder(self.root)
        shutil.rmtree(self.root / GOING)
        _sync_folder(self.root)

    def _replace(self, path: str, data: bytes, mode: int) -> None:
        target = self.root / path
        coming = target.with_name(target.name + SUFFIX)
        _write(coming, data, mode)
        os.replace(coming, target)

    def _sync_folders(self, manifest: Manifest) -> None:
        """The names of the files reach the disk before the record says that they did."""
        for folder in sorted({(self.root / entry.path).parent for entry in manifest.files}):
            _sync_folder(folder)

    def _set_state(self, manifest: Manifest, state: str) -> None:
        _write_manifest(self.folder, Manifest(state, manifest.patch, manifest.version,
                                              manifest.files))


def _write(path: Path, data: bytes, mode: int) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())


def _write_manifest(folder: Path, manifest: Manifest) -> None:
    text = json.dumps({"format": FORMAT} | asdict(manifest), indent=1) + "\n"
    folder.mkdir(exist_ok=True)
    _write(folder / "manifest.json.new", text.encode(), 0o644)
    os.replace(folder / "manifest.json.new", folder / "manifest.json")
    _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
