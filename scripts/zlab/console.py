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


class Scanner:
    """Collects the faults of a log, with the lines that follow each."""

    CONTEXT = 40

    def __init__(self, allow: str | None = None) -> None:
        self.allow = re.compile(allow) if allow else None
        self.faults: list[str] = []
        self.context: list[str] = []
        self.following = 0

    def feed(self, line: str) -> None:
        """Takes one console line."""
        line = line.rstrip("\r\n")
        if self._is_fault(line):
            self.faults.append(line)
            self.following = self.CONTEXT
        if self.following > 0:
            self.context.append(line)
            self.following -= 1

    def _is_fault(self, line: str) -> bool:
        if not FAULTS.search(line) or HARMLESS.search(line):
            return False
        return not (self.allow and self.allow.search(line))
