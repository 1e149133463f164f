# SPDX-License-Identifier: GPL-2.0
"""Runs every check and test; goes on after a failure; the last line is 'N passed, N failed'."""

import os
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

from .counts import Count, count_build, count_checks, count_libtest, count_unittest, count_vm

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "build/results"
SCRIPTS = ROOT / "scripts"
VM = str(SCRIPTS / "vm")
IN_GUEST = SCRIPTS / "zlab/in_guest"
MODULES = "/lib/modules/zernel"
KUNIT = f"set -e; for m in zernel zernel_sim; do insmod {MODULES}/$m.ko; done; " \
        "rmmod zernel_sim; rmmod zernel"


# What the fake GPUs' registers and memory lie in.
NVIDIA_GUEST = ["--mem", "1536", "--append", "memmap=256M$0x20000000"]

# A guest that takes longer hangs, however slow the machine.
DEADLINE_S = "3600"

# A guest uses 3 GB of it (suite scale-base: of 4 GB); a machine of 5 GB shows a little less.
NEEDED_MEMORY_MB = 4800

# With this much, the two lanes run side by side: a guest alone leaves a processor idle.
TWO_LANES_MEMORY_MB = 7600


# For a slow machine (Documentation/testing.rst): nothing is repeated for more than four minutes.
SHORT = " --short" if os.environ.get("SHORT", "0") not in ("", "0") else ""


class Broken(Exception):
    """Something that suites need could not be built; the text says what and where."""


class Session:
    """One run of all suites."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.lock = threading.Lock()
        self.total = Count()
        self.failures: list[str] = []
        self.short: list[str] = []
        self.env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}

    def suite(self, name: str, command: list[str], count, result: Path | None = None,
              env: dict | None = None, cwd: Path = ROOT) -> None:
        """Runs one suite, shows what it says, and adds what it counted."""
        log = RESULTS / f"{name}.log"
        self.say(f"==> suite {name}")
        started = time.monotonic()
        if result:
            result.unlink(missing_ok=True)
        before = f"{name}: " if self.lanes > 1 else ""
        status = self._run(command, log, before, env or {}, cwd)
        found = count(result if result else log)
        if status != 0 and found.failed == 0:
            found.failed += 1
            found.names.append(f"{name}: exit status {status}")
        if found.passed + found.failed == 0:
            found.failed += 1
            found.names.append(f"{name}: nothing reported")
        with self.lock:
            self.total.passed += found.passed
            self.total.failed += found.failed
            if found.failed:
                self.failures.append(f"{name} (log: {log.relative_to(ROOT)})")
                self.failures += [f"    {failed}" for failed in found.names]
        self.say(f"==> suite {name}: {found.passed} passed, {found.failed} failed, "
                 f"{time.monotonic() - started:.0f} s")

    def say(self, line: str) -> None:
        """Prints a line as a whole."""
        with self.lock:
            print(line, flush=True)

    def _run(self, command: list[str], log: Path, before: str, env: dict, cwd: Path) -> int:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w", encoding="utf-8") as file, subprocess.Popen(
            command, cwd=cwd, env={**self.env, **env}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        ) as process:
            for line in process.stdout:
                file.write(line)
                self.say(before + line.rstrip("\n"))
                # What testkit prints where a short run does not repeat something in full.
                if line.startswith("    # cut short: "):
                    self.short.append(f"{log.stem}: {line.strip()[2:]}")
        return process.returncode

    def build(self, what: str, command: list[str], **env: str) -> str:
        """Builds something; the last line that the script prints is where it is."""
        done = subprocess.run(command, cwd=ROOT, env={**self.env, **env}, stdout=subprocess.PIPE,
                              text=True, check=False)
        if done.returncode != 0:
            raise Broken(f"{what} could not be built; see the messages above")
        return done.stdout.strip().splitlines()[-1]

    def guest(self, name: str, kdir: str, add: list[str], command: str, *more: str) -> None:
        """Runs a suite in a guest."""
        result = RESULTS / f"{name}.json"
        arguments = [VM, "--kernel", kdir, "--result", str(result), "--deadline", DEADLINE_S]
        for entry in add:
            arguments += ["--add", entry]
        self.suite(name, [*arguments, *more, "--", command], count_vm, result)

    def part(self, what: str, action) -> None:
        """Runs some suites; what cannot even be built counts as one failure."""
        try:
            action()
        except Exception as error:  # pylint: disable=broad-exception-caught
            # A lane must not end unseen.
            if not isinstance(error, Broken):
                traceback.print_exc()
            with self.lock:
                self.total.failed += 1
                self.failures.append(f"{what}: {error}")
            self.say(f"==> {what}: {error}")


def add_modules(folder: str) -> list[str]:
    """What puts the modules of a folder into a guest."""
    return [f"{path}:{MODULES}/" for path in sorted(Path(folder).glob("*.ko"))]


def kernel(session: Session, flavour: str) -> str:
    """The build folder of a test kernel."""
    own = os.environ.get("LAB_KDIR")
    if own:
        return str(Path(own).resolve())
    return session.build(f"the {flavour} kernel", [str(SCRIPTS / "kernel"), flavour])


def modules(session: Session, kdir: str, *variant: str) -> list[str]:
    """The modules for a kernel, as arguments for a guest."""
    return add_modules(
        session.build("the modules", [str(SCRIPTS / "modules"), kdir, *variant]))


def host_suites(session: Session) -> None:
    """What needs no guest."""
    session.suite("check", [str(SCRIPTS / "check")], count_checks)
    session.suite("lab", [sys.executable, "-m", "unittest", "-v"], count_unittest, cwd=SCRIPTS)
    session.suite("tools", [str(SCRIPTS / "tools-test")], count_libtest)


def base_suites(session: Session) -> None:
    """On the base kernel: the runner itself, KUnit, loading without a GPU."""
    kdir = kernel(session, "base")
    session.suite("runner-qemu", [sys.executable, "-m", "unittest", "-v", "zlab.tests.guests"],
                  count_unittest, env={"ZERNEL_KERNEL": kdir}, cwd=SCRIPTS)
    session.guest("kunit-base", kdir, modules(session, kdir, "kunit"), KUNIT,
                  "--ktap", "kunit-base")
    session.guest("insmod-base", kdir,
                  [*modules(session, kdir), f"{IN_GUEST}/insmod.sh:/zernel/",
                   f"{ROOT}/Documentation/ABI/testing:/zernel/abi"],
                  "sh /zernel/insmod.sh", "--ktap", "insmod-base")
    # The most that zernel.ko holds: on a debug kernel that would take minutes.
    session.guest("scale-base", kdir, [*modules(session, kdir), *programs(session)],
                  "zernel-selftest --only scale.", "--ktap", "scale-base", "--mem", "4096")
    # What samples tell, by a clock that waits for the guest.
    session.guest("timed-base", kdir, [*modules(session, kdir), *programs(session)],
                  "zernel-selftest --only timed.", "--ktap", "timed-base", "--mode", "icount",
                  "--mem", "2048")
    # Under icount: the kernel serves what its replay on the host tells.
    if not os.environ.get("LAB_KDIR"):
        session.suite("bench-quick", [str(SCRIPTS / "bench"), "quick"], count_checks)


def programs(session: Session) -> list[str]:
    """The programs that run in a guest, as arguments for it."""
    tools = Path(session.build("the tools", [str(SCRIPTS / "tools")]))
    if not (tools / "zernel-selftest").is_file():
        raise Broken("zernel-selftest is missing from the tools")
    return [f"{tools / name}:/zernel/bin/"
            for name in ("zernel-selftest", "zernelctl", "zernel-load")]


def debug_suites(session: Session) -> None:
    """On the debug kernel: KUnit and the selftests."""
    kdir = kernel(session, "debug")
    session.guest("kunit-debug", kdir, modules(session, kdir, "kunit"), KUNIT,
                  "--ktap", "kunit-debug")
    session.guest("selftest-debug", kdir, [*modules(session, kdir), *programs(session)],
                  f"zernel-selftest{SHORT}", "--ktap", "selftest-debug", "--mem", "2048")


def nvidia_guest(session: Session, kdir: str, driver: str | None = None) -> list[str]:
    """What a guest with NVIDIA's driver needs; by default with the software resource manager."""
    simrm = session.build("NVIDIA's interface layer with the software resource manager",
                          [str(SCRIPTS / "nvidia-simrm"), kdir])
    folder = session.build("zernel_nvidia", [str(SCRIPTS / "modules"), kdir, "nvidia"],
                           ZERNEL_NVIDIA_SYMVERS=f"{simrm}/Module.symvers")
    tools = session.build("the tools", [str(SCRIPTS / "tools")])
    modules_here = [f"{driver or simrm}/nvidia.ko", f"{simrm}/fakegpu.ko",
                    f"{folder}/zernel.ko", f"{folder}/zernel_nvidia.ko"]
    return [*(f"{path}:{MODULES}/" for path in modules_here),
            *(f"{tools}/{name}:/zernel/bin/" for name in ("zernel-nvtest", "zernelctl"))]


def nvidia_host_suites(session: Session) -> None:
    """The program that hooks the driver."""
    session.suite("nvidia-apply", [sys.executable, "-m", "unittest", "-v"], count_unittest,
                  cwd=ROOT / "nvidia-patch/tests")


def nvidia_simrm_suites(session: Session) -> None:
    """The hooked interface layer on the software resource manager."""
    kdir = kernel(session, "base")
    session.guest("nvidia-simrm-base", kdir, nvidia_guest(session, kdir),
                  f"zernel-nvtest{SHORT} --operations 1000000 --only simrm.suspend --only simrm.race",
                  "--ktap", "nvidia-simrm-base", *NVIDIA_GUEST)
    kdir = kernel(session, "debug")
    session.guest("nvidia-simrm-debug", kdir, nvidia_guest(session, kdir),
                  f"zernel-nvtest{SHORT} --operations 100000 --only simrm.",
                  "--ktap", "nvidia-simrm-debug", *NVIDIA_GUEST)


def nvidia_real_suites(session: Session) -> None:
    """The whole driver: it builds without a complaint, and works on GPUs that are none."""
    kdir = kernel(session, "debug")
    log = RESULTS / "nvidia-build.log"
    session.suite("nvidia-build", [str(SCRIPTS / "nvidia"), kdir], count_build)
    driver = log.read_text(encoding="utf-8").strip().splitlines()[-1:]
    if not driver or not Path(driver[0], "nvidia.ko").is_file():
        raise Broken("NVIDIA's driver could not be built")
    session.guest("nvidia-fakegpu-debug", kdir, nvidia_guest(session, kdir, driver[0]),
                  f"zernel-nvtest{SHORT} --only fakegpu.", "--ktap", "nvidia-fakegpu-debug",
                  # One case loads it without the driver.
                  "--allow", "zernel_nvidia: Unknown symbol nv_zernel_", *NVIDIA_GUEST)


def memory_mb() -> int:
    """How much memory this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20


# What runs one after the other, and beside the other lane.
LANES = [
    [("host", host_suites), ("base kernel", base_suites), ("debug kernel", debug_suites)],
    [("nvidia on the host", nvidia_host_suites), ("nvidia with simrm", nvidia_simrm_suites),
     ("nvidia", nvidia_real_suites)],
]


def run_lanes(session: Session) -> None:
    """Runs all suites. An interrupt ends the programs that run and, with this one, the lanes."""
    def run(lane: list) -> None:
        for what, suites in lane:
            session.part(what, lambda suites=suites: suites(session))

    if session.lanes == 1:
        for lane in LANES:
            run(lane)
        return
    threads = [threading.Thread(target=run, args=(lane,), daemon=True) for lane in LANES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> int:
    """Runs everything; returns the exit status."""
    memory = memory_mb()
    session = Session(len(LANES) if memory >= TWO_LANES_MEMORY_MB else 1)
    if memory < NEEDED_MEMORY_MB:
        print(f"zernel: this machine has {memory} MB of memory; make test needs 5 GB")
        print("0 passed, 1 failed")
        return 1
    own = os.environ.get("LAB_KDIR")
    if own and not Path(own, "Module.symvers").is_file():
        print(f"zernel: there is no built kernel in {own}; give KDIR= of a kernel build folder, "
              "or leave it out for the lab's kernels")
        print("0 passed, 1 failed")
        return 1
    RESULTS.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    try:
        session.build("the set-up", [str(SCRIPTS / "setup-all")])
    except Broken as error:
        print(error)
        print("0 passed, 1 failed")
        return 1
    run_lanes(session)
    print(f"==> all suites done in {time.monotonic() - started:.0f} s")
    for line in [*session.short, *(f"failed: {line}" for line in session.failures)]:
        print(line)
    print(f"{session.total.passed} passed, {session.total.failed} failed", flush=True)
    return 1 if session.total.failed else 0
