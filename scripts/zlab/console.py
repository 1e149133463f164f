# SPDX-License-Identifier: GPL-2.0
"""Finds what a kernel must never say in a console log."""

import re

# Each of these is a fault of the kernel or of a module, wherever in a run it appears.
FAULTS = re.compile(
    "|".join(
        (
            r"\bBUG: ",
            r"\bBUG\b.*\b(kmalloc|cache|Tainted)",
            r"kernel BUG at",
            r"\bOops\b",
            r"\bWARNING: ",
            r"Kernel panic",
            r"panicked at",
            r"general protection fault",
            r"double fault",
            r"Unable to handle",
            r"Call Trace:",
            r"possible recursive locking",
            r"possible circular locking",
            r"possible irq lock inversion",
            r"inconsistent lock state",
            r"suspicious RCU usage",
            r"DEBUG_LOCKS_WARN_ON",
            r"held lock freed",
            r"lock held when returning to user space",
            r"INFO: trying to register non-static key",
            r"turning off the locking correctness validator",
            r"scheduling while atomic",
            r"sleeping function called from invalid context",
            r"blocked for more than \d+ seconds",
            r"soft lockup",
            r"hard LOCKUP",
            r"rcu.*(self-detected stall|detected stalls|detected expedited stalls)",
            r"ODEBUG: ",
            r"refcount_t: ",
            r"list_(add|del) corruption",
            r"Bad page (state|map)",
            r"(Redzone|Poison|Object padding|Freechain|Freepointer).* (overwritten|corrupt)",
            r"unreferenced object",
            r"new suspected memory leaks",
            r"UBSAN: ",
            r"KASAN: ",
            r"stack-protector: ",
            r"corrupted stack end detected",
            r"Out of memory: Killed process",
            r"segfault at",
            r"disagrees about version of symbol",
            r"Unknown symbol",
            r"sysfs: cannot create duplicate",
            r"ioctl .* conflict",
        )
    )
)

# Lines about the machine that QEMU emulates, not about anything under test.
HARMLESS = re.compile(r"RETBleed: WARNING|Spectre V2 : WARNING|FAULT_INJECTION: forcing a failure")


# A report of kmemleak: what it begins with, its program and a line of its backtrace.
LEAK = re.compile(r"^unreferenced object \S+ \(size \d+\):$")
COMM = re.compile(r"^  comm (\".*\"), pid ")
FRAME = re.compile(r"^ {4}(?:\[<\S+>\] )?(\S+)\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[(\w+)\])?$")
ALLOCATOR = re.compile(r"^(_|rust_helper_)*k(memleak|malloc|vmalloc|realloc|vrealloc|zalloc|mem_cache_alloc)")


class Scanner:
    """Collects the faults of a log, with the lines that follow each."""

    CONTEXT = 40
    # Of a leaked object's backtrace.
    FRAMES = 4

    def __init__(self, allow: str | None = None) -> None:
        self.allow = re.compile(allow) if allow else None
        self.faults: list[str] = []
        self.context: list[str] = []
        self.following = 0
        self.frames: list[str] = []
        self.in_leak = False

    def feed(self, line: str) -> None:
        """Takes one console line."""
        line = line.rstrip("\r\n")
        if self._is_fault(line):
            self.faults.append(line)
            self.following = self.CONTEXT
            self.frames, self.in_leak = [], bool(LEAK.search(line))
        elif self.in_leak:
            self._leak(line)
        if self.following > 0:
            self.context.append(line)
            self.following -= 1

    def _is_fault(self, line: str) -> bool:
        if not FAULTS.search(line) or HARMLESS.search(line):
            return False
        return not (self.allow and self.allow.search(line))

    def _leak(self, line: str) -> None:
        """Puts a program and the callers of its allocation in the place of a leak's address, so
        that a thousand leaks of one place are one fault."""
        if not line.startswith(" "):
            self.in_leak = False
        elif comm := COMM.match(line):
            self.faults[-1] = re.sub(r" \S+ (\(.*\)):$", lambda size: f" {size[1]} of {comm[1]}:",
                                     self.faults[-1])
        elif frame := FRAME.match(line):
            name = f"{frame[1]} [{frame[2]}]" if frame[2] else frame[1]
            if len(self.frames) < self.FRAMES and not ALLOCATOR.match(name):
                self.faults[-1] += f"{' <' if self.frames else ''} {name}"
                self.frames.append(name)
