# SPDX-License-Identifier: GPL-2.0
"""Runs a QEMU guest to its end or its deadline and collects what it said."""

import os
import re
import selectors
import subprocess
import sys
import time
from pathlib import Path
from typing import TextIO

from .console import Scanner
from .guest import Guest
from .ktap import Reader
from .verdict import Verdict

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1bc")
GRACE = 5.0  # seconds between the end of the command and the power-off
BOOT = 600.0  # seconds from power-on to init: a guest takes 3, or 90 on a host with much to do
BOOTED = "Run /init as init process"


class Stream:
    """One serial line of the guest, cut into lines."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rest = b""
        self.reader = Reader()

    def lines(self, data: bytes) -> list[str]:
        """The complete lines that `data` ends."""
        *whole, self.rest = (self.rest + data).split(b"\n")
        return [clean(line) for line in whole]

    def tail(self) -> list[str]:
        """The text after the last line end."""
        rest, self.rest = self.rest, b""
        return [clean(rest)] if rest else []


    def progress(self) -> str:
        """The last text of a program that writes over its unfinished line."""
        return clean(self.rest) if b"\r" in self.rest else ""


def clean(line: bytes) -> str:
    """A console line as a terminal shows it in the end, without controls."""
    text = ESCAPES.sub("", line.decode("utf-8", "replace")).rstrip("\r")
    return text.rsplit("\r", 1)[-1]


class Run:
    """One run: the kernel's console and the command's output are two serial lines."""

    def __init__(self, guest: Guest, initrd: Path, quiet: bool = False,
                 log: Path | None = None, allow: str | None = None,
                 show: TextIO | None = None) -> None:
        self.guest = guest
        self.initrd = initrd
        self.quiet = quiet
        self.show = show or sys.stdout
        self.log = None
        if log:
            log.parent.mkdir(parents=True, exist_ok=True)
            self.log = log.open("w", encoding="utf-8")
        self.scanner = Scanner(allow)
        self.kernel = Stream("kernel")
        self.command = Stream("command")
        self.marker = re.compile(rf"^zernel-guest {guest.token} exit (\d+)$")
        self.status: int | None = None
        self.timed_out = False
        self.booted = False
        self.last_line = ""
        self.seconds = 0.0

    def execute(self) -> "Run":
        """Boots the guest and returns when it is off, or was killed at its deadline."""
        kernel_read, kernel_write = os.pipe()
        command_read, command_write = os.pipe()
        serial = [f"file:/proc/self/fd/{fd}" for fd in (kernel_write, command_write)]
        started = time.monotonic()
        with subprocess.Popen(
            self.guest.qemu(self.initrd, serial), stdin=subprocess.DEVNULL,
            pass_fds=(kernel_write, command_write),
        ) as process:
            os.close(kernel_write)
            os.close(command_write)
            streams = {kernel_read: self.kernel, command_read: self.command}
            try:
                self._pump(streams, started)
                if not self.timed_out:
                    process.wait(GRACE)
            except subprocess.TimeoutExpired:
                pass
            finally:
                process.kill()
        for stream in (self.kernel, self.command):
            self._take(stream, stream.tail())
        for descriptor in (kernel_read, command_read):
            os.close(descriptor)
        self.seconds = time.monotonic() - started
        if self.log:
            self.log.close()
        return self

    def _pump(self, streams: dict[int, Stream], started: float) -> None:
        deadline = started + self.guest.deadline
        with selectors.DefaultSelector() as selector:
            for descriptor, stream in streams.items():
                selector.register(descriptor, selectors.EVENT_READ, stream)
            while selector.get_map():
                limit = deadline if self.booted else min(deadline, started + BOOT)
                left = limit - time.monotonic()
                if left <= 0:
                    # Having said its status, a guest that does not power off has still finished.
                    self.timed_out = self.status is None
                    return
                for key, _ in selector.select(left):
                    data = os.read(key.fd, 65536)
                    if not data:
                        selector.unregister(key.fd)
                    self._take(key.data, key.data.lines(data))
                    self._progress(key.data)
                if self.status is not None:
                    deadline = min(deadline, time.monotonic() + GRACE)

    def _take(self, stream: Stream, lines: list[str]) -> None:
        for line in lines:
            if stream is self.command and (match := self.marker.match(line)):
                self.status = int(match.group(1))
                continue
            self.last_line = line or self.last_line
            self.booted = self.booted or BOOTED in line
            self.scanner.feed(line)
            stream.reader.feed(line)
            if self.log:
                self.log.write(line + "\n")
            if stream is self.command or not self.quiet:
                erase = "\x1b[K" if self.show.isatty() else ""
                print(erase + line, file=self.show, flush=True)

    def _progress(self, stream: Stream) -> None:
        """A live line, for a person who watches and nobody else."""
        if stream is self.command and self.show.isatty() and (text := stream.progress()):
            print(f"\r\x1b[K{text}\r", end="", file=self.show, flush=True)

    def verdict(self, ktap: str | None) -> Verdict:
        """Judges the run."""
        deadline = self.guest.deadline if self.booted else min(self.guest.deadline, BOOT)
        return Verdict.of(
            name=ktap, wants_ktap=ktap is not None, status=self.status, timed_out=self.timed_out,
            deadline=deadline, seconds=self.seconds, last_line=self.last_line,
            faults=self.scanner.faults,
            summaries=[self.kernel.reader.summary(), self.command.reader.summary()],
        )
