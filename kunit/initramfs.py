# SPDX-License-Identifier: GPL-2.0
"""Writes an initramfs (cpio, newc) from files of the host, without root and without cpio."""

import os
import stat
from pathlib import Path, PurePosixPath


class Initramfs:
    """Collects entries in memory; parents are made as needed."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.inode = 0
        self.known: set[str] = set()

    def directory(self, name: str, mode: int = 0o755) -> None:
        """A directory and its parents."""
        path = PurePosixPath(name.strip("/"))
        for parent in [*reversed(path.parents), path]:
            key = str(parent)
            if key not in (".", "") and key not in self.known:
                own = mode if parent == path else 0o755
                self._entry(key, stat.S_IFDIR | own, b"")

    def file(self, name: str, content: bytes, mode: int = 0o644) -> None:
        """A regular file."""
        self._parent(name)
        self._entry(name.strip("/"), stat.S_IFREG | mode, content)

    def symlink(self, name: str, target: str) -> None:
        """A symbolic link."""
        self._parent(name)
        self._entry(name.strip("/"), stat.S_IFLNK | 0o777, target.encode())

    def device(self, name: str, major: int, minor: int, mode: int = 0o600) -> None:
        """A character device."""
        self._parent(name)
        self._entry(name.strip("/"), stat.S_IFCHR | mode, b"", major, minor)

    def add(self, host: Path, guest: str) -> None:
        """A file or a whole directory of the host."""
        if host.is_dir():
            self.directory(guest)
            for child in sorted(host.iterdir()):
                self.add(child, f"{guest.rstrip('/')}/{child.name}")
        elif host.is_file():
            if guest.endswith("/"):
                guest += host.name
            self.file(guest, host.read_bytes(), stat.S_IMODE(os.stat(host).st_mode))
        else:
            raise FileNotFoundError(f"{host} is neither a file nor a directory")

    def write(self, path: Path) -> None:
        """Ends the archive and writes it."""
        self._entry("TRAILER!!!", 0, b"")
        path.write_bytes(self.data)

    def _parent(self, name: str) -> None:
        parent = str(PurePosixPath(name.strip("/")).parent)
        if parent not in (".", ""):
            self.directory(parent)

    def _entry(
        self, name: str, mode: int, content: bytes, major: int = 0, minor: int = 0
    ) -> None:
        self.known.add(name)
        self.inode += 1
        encoded = name.encode() + b"\0"
        fields = (
            self.inode, mode, 0, 0, 1, 0, len(content), 0, 0, major, minor, len(encoded), 0,
        )
        self.data += b"070701" + "".join(f"{value:08X}" for value in fields).encode()
        self._padded(encoded)
        self._padded(content)

    def _padded(self, content: bytes) -> None:
        self.data += content
        self.data += bytes(-len(self.data) % 4)
