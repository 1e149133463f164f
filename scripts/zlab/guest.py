# SPDX-License-Identifier: GPL-2.0
"""Builds what a QEMU guest starts from: its initramfs and its command line."""

import secrets
from dataclasses import dataclass, field
from pathlib import Path

from .initramfs import Initramfs, InitramfsError, generator

INIT = Path(__file__).resolve().parent / "in_guest/init"
BUSYBOX = ("/bin/busybox", "/usr/bin/busybox")
USERS = (("root", 0), ("alice", 1000), ("bob", 1001), ("nobody", 65534))
DIRECTORIES = ("proc", "sys", "dev", "run", "mnt", "root", "etc", "sbin", "usr/bin", "usr/sbin",
               "lib/modules", "zernel/bin", "var/tmp")


class GuestError(Exception):
    """Something that a guest needs is not on the host; the text says what to do."""


@dataclass
class Guest:
    """The parts of one run."""

    kernel: Path
    command: str = ""
    mode: str = "normal"
    smp: int = 0
    mem: int = 1024
    deadline: float = 300
    out: Path | None = None
    add: list[str] = field(default_factory=list)
    link: list[str] = field(default_factory=list)
    append: str = ""
    interactive: bool = False
    hostroot: bool = False
    token: str = field(default_factory=lambda: secrets.token_hex(4))

    def __post_init__(self) -> None:
        if self.mode == "icount":
            # The kernel stirs its command line into its random numbers.
            self.token = "icount"

    def check(self) -> None:
        """Raises GuestError when the run cannot start."""
        if not self.image().is_file():
            raise GuestError(f"{self.kernel} is not a kernel build directory; "
                             "build one with scripts/kernel base")
        if self.mode not in ("normal", "icount"):
            raise GuestError(f"there is no mode {self.mode}; choose normal or icount")

    def image(self) -> Path:
        """The kernel image that QEMU starts."""
        return self.kernel / "arch/x86/boot/bzImage"

    def pack(self, path: Path) -> None:
        """Writes the initramfs."""
        busybox = next((Path(name) for name in BUSYBOX if Path(name).is_file()), None)
        if busybox is None:
            raise GuestError("busybox is missing; install the package busybox-static")
        work = path.with_name(f"{path.name}.files")
        work.mkdir()
        image = Initramfs(work)
        for name in DIRECTORIES:
            image.directory(name)
        image.directory("tmp", 0o1777)
        image.device("dev/console", 5, 1)
        image.device("dev/ttyS1", 4, 65)
        image.device("dev/null", 1, 3, 0o666)
        image.file("bin/busybox", busybox, 0o755)
        image.file("init", INIT, 0o755)
        image.text("zernel/command", f"{self.command}\n", 0o755)
        image.text("etc/passwd", "".join(
            f"{name}:x:{uid}:{uid}:{name}:/root:/bin/sh\n" for name, uid in USERS))
        image.text("etc/group", "".join(f"{name}:x:{uid}:\n" for name, uid in USERS))
        try:
            for entry in self.add:
                host, _, guest = entry.partition(":")
                image.add(Path(host), guest or "/")
            for entry in self.link:
                host, _, guest = entry.partition(":")
                image.link(Path(host), guest or "/")
            image.write(path, generator(self.kernel))
        except InitramfsError as error:
            raise GuestError(str(error)) from error

    def cmdline(self) -> str:
        """The kernel's command line."""
        words = ["console=ttyS0", "panic=-1", "oops=panic", "kunit.enable=1", "kunit.autorun=1",
                 "kunit.filter_glob=zernel*", f"zernel.token={self.token}",
                 # Compares two clocks in a busy loop, which a loaded host makes fail.
                 "no_timer_check",
                 # A host that does not run the emulator for a while looks like a stall in the
                 # guest; one that is real still ends at the deadline.
                 "rcupdate.rcu_cpu_stall_timeout=300", "watchdog_thresh=60"]
        if self.mode == "icount":
            # Nothing that differs from run to run: no address randomisation, one clock, which
            # counts instructions. Calibrating the local APIC timer means many million exits from
            # translated code; the HPET needs none.
            words += ["nokaslr", "norandmaps", "tsc_early_khz=1000000",
                      "clocksource=tsc", "tsc=reliable", "nolapic_timer"]
        else:
            # The rate of the TSC would be measured in such a loop, too, and came out several times
            # too slow. The HPET's rate is known.
            words.append("tsc=unstable")
        if self.out:
            words.append("zernel.out=1")
        if self.interactive:
            words += ["zernel.interactive=1", "quiet"]
        if self.hostroot:
            words.append("zernel.hostroot=1")
        return " ".join([*words, self.append]).strip()

    def qemu(self, initrd: Path, serial: list[str]) -> list[str]:
        """QEMU's command line; `serial` names the guest's two serial lines."""
        icount = self.mode == "icount"
        smp = self.smp or (1 if icount else 2)
        line = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none",
                "-no-reboot", "-M", "q35", "-cpu", "max", "-smp", str(smp), "-m", str(self.mem),
                "-kernel", str(self.image()), "-initrd", str(initrd), "-append", self.cmdline()]
        if icount:
            line += ["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off",
                     "-rtc", "base=2026-01-01,clock=vm", "-seed", "1"]
        else:
            line += ["-accel", "tcg,thread=multi"]
        for name in serial:
            line += ["-serial", name]
        if self.interactive or self.hostroot:
            line += ["-virtfs", "local,path=/,mount_tag=root,security_model=none,readonly=on,"
                                "multidevs=remap"]
        if self.out:
            line += ["-virtfs", f"local,path={self.out},mount_tag=out,security_model=none"]
        return line
