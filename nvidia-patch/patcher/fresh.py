# SPDX-License-Identifier: GPL-2.0
"""Makes a changed copy of a tree: whole or not at all, with the tree itself as it was."""

import errno
import fcntl
import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import Refused


def check(source: Path, target: Path) -> None:
    """Refuses a place where no copy can be made."""
    if os.path.lexists(target):
        raise Refused(f"{target} is there already; remove it, or name another folder")
    if not target.parent.is_dir():
        raise Refused(f"there is no folder {target.parent} to make {target.name} in")
    if target.resolve().is_relative_to(source.resolve()):
        raise Refused(f"{target} is inside {source}; name a folder outside of it")


def make(source: Path, target: Path, files: dict[str, bytes]) -> None:
    """Copies the tree and writes the files into the copy, which gets its name when all is done.

    A run that was killed leaves a folder with a name that no tree has (`partial()`); the
    next one removes it.
    """
    with _locked(target.parent):
        check(source, target)
        copy = partial(target)
        _remove(copy)
        try:
            with _ended_by_signals():
                shutil.copytree(source, copy, symlinks=True)
                for folder, folders, names in os.walk(copy):
                    for path in (folder, *(os.path.join(folder, name) for name in folders + names)):
                        _writable(Path(path))
                for name, data in files.items():
                    _write(copy / name, data)
                # A crash after the next line leaves a whole tree, too.
                subprocess.run(["sync", "-f", str(copy)], check=True)
                os.rename(copy, target)
        except shutil.Error as error:
            _remove(copy)
            # Each of its reasons has an error as text only.
            _, place, why = error.args[0][0]
            raise OSError(errno.EIO, why.partition("] ")[2] or why, place) from error
        except BaseException:
            _remove(copy)
            raise


def partial(target: Path) -> Path:
    """The place of a copy that is not whole."""
    return target.with_name(f".{target.name}.zernel-partial")


def _write(path: Path, data: bytes) -> None:
    """A file in place of the one of that name, with its mode. The target of a link stays."""
    mode = stat.S_IMODE(path.stat().st_mode) | stat.S_IWUSR if path.exists() else 0o644
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def _writable(path: Path) -> None:
    if not path.is_symlink():
        path.chmod(stat.S_IMODE(path.stat().st_mode) | stat.S_IWUSR)


def _remove(copy: Path) -> None:
    """Removes a copy, which may be of a tree that nobody may write to."""
    for folder, _, _ in os.walk(copy):
        _writable(Path(folder))
    shutil.rmtree(copy, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One copy at a time in a folder."""
    if not folder.is_dir():
        raise Refused(f"there is no folder {folder} to make a tree in")
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end a run as an interrupt does."""
    def end(*_) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
