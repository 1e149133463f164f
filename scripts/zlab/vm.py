# SPDX-License-Identifier: GPL-2.0
"""Runs a command in a QEMU guest and judges it: exit status, KTAP and the kernel's own log.

Exit status: 0 when the command succeeded, every KTAP test passed and the log is clean; 1 when
not; 2 when the guest could not be started.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from .guest import Guest, GuestError
from .run import Run


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="scripts/vm", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--kernel", type=Path, required=True, help="kernel build directory")
    add("--mode", default="normal", help="normal (several CPUs) or icount (deterministic)")
    add("--smp", type=int, default=0, help="CPUs (default: 2, icount: 1)")
    add("--mem", type=int, default=1024, help="memory in MB")
    add("--deadline", type=float, default=300, help="seconds of host time")
    add("--out", type=Path, help="directory that the guest may write to, its /out")
    add("--add", action="append", default=[], metavar="HOST:GUEST",
        help="file or directory to put into the guest")
    add("--link", action="append", default=[], metavar="HOST:GUEST",
        help="program or library to put into the guest with the shared libraries that it needs")
    add("--append", default="", help="more words for the kernel's command line")
    add("--ktap", metavar="NAME", help="the run must report KTAP tests; their name in the result")
    add("--allow", metavar="REGEX", help="log lines that are no fault")
    add("--log", type=Path, help="write the console to this file as well")
    add("--result", type=Path, help="write the verdict to this file as JSON")
    add("--quiet", action="store_true", help="show the command's output only, not the kernel's")
    add("--hostroot", action="store_true", help="run in the host's root file system, read-only")
    add("--interactive", action="store_true", help="a shell in the host's root file system")
    add("command", nargs="*", help="shell command for the guest")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Runs the guest; returns the exit status."""
    args = parse(arguments)
    # A runner that is told to stop takes its guest along.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    guest = Guest(
        kernel=args.kernel.resolve(), command=" ".join(args.command), mode=args.mode,
        smp=args.smp, mem=args.mem, deadline=args.deadline,
        out=args.out.resolve() if args.out else None, add=args.add, link=args.link,
        append=args.append,
        interactive=args.interactive, hostroot=args.hostroot,
    )
    try:
        guest.check()
        if guest.out:
            guest.out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="zernel-vm-") as work:
            initrd = Path(work) / "initramfs.cpio"
            guest.pack(initrd)
            if guest.interactive:
                return subprocess.call(guest.qemu(initrd, ["mon:stdio"]))
            def boot() -> Run:
                return Run(guest, initrd, quiet=args.quiet, log=args.log,
                           allow=args.allow).execute()

            run = boot()
            if run.timed_out and not run.booted:
                # Nothing under test has run yet: the emulator can lose its way on a loaded host.
                print("vm: the guest did not get as far as init: once more", flush=True)
                run = boot()
            verdict = run.verdict(args.ktap)
    except (GuestError, OSError) as error:
        print(f"vm: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("vm: interrupted; the same command starts again", file=sys.stderr)
        return 130
    print(verdict.text(), flush=True)
    if args.result:
        args.result.write_text(json.dumps(verdict.as_dict(), indent=1) + "\n", encoding="utf-8")
    return 0 if verdict.ok else 1
