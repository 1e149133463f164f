# SPDX-License-Identifier: GPL-2.0
"""The builds and suites of `make test`: what each needs, and what it runs."""

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from .counts import count_build, count_checks, count_libtest, count_unittest
from .schedule import Job, run
from .session import RESULTS, ROOT, SCRIPTS, Broken, Session

IN_GUEST = SCRIPTS / "zlab/in_guest"
MODULES = "/lib/modules/zernel"
KUNIT = f"set -e; for m in zernel zernel_sim; do insmod {MODULES}/$m.ko; done; " \
        "rmmod zernel_sim; rmmod zernel"
KUNIT_NVIDIA = f"set -e; for m in fakegpu nvidia zernel zernel_nvidia; do " \
               f"insmod {MODULES}/$m.ko; done; rmmod zernel_nvidia; rmmod zernel"
PYTHON = f"set -e; insmod {MODULES}/zernel.ko; insmod {MODULES}/zernel_sim.ko gpus=2; " \
         "python3 /zernel/python/tests/guest"
# The memory of the fake GPUs' registers.
NVIDIA_GUEST = ["--mem", "1536", "--append", "memmap=256M$0x20000000"]
# One case loads the provider without the driver, or on one without hooks.
NO_DRIVER = "zernel_nvidia: Unknown symbol nv_zernel_"
# The suites of zernel-nvtest that need no hooks.
STOCK = ["stock.", "simrm.list", "simrm.class", "simrm.life", "simrm.request", "reapplied_if_tuned"]
UNITTEST = [sys.executable, "-m", "unittest", "-v"]

# A machine of 5 GB shows a little less.
NEEDED_MEMORY_MB = 4800
# Memory for the host itself.
HOST_MEMORY_MB = 700
# Memory of QEMU besides that of its guest.
QEMU_MEMORY_MB = 400
# Of a compiler or linker on each processor.
BUILD_MEMORY_MB = 1500

# For a slow machine (Documentation/testing.rst): nothing is repeated for more than two minutes.
SHORT = "--short" if os.environ.get("SHORT", "0") not in ("", "0") else ""
# About half of zernel-selftest, by time.
REQUESTS = ("quota.", "request.", "stress.", "turns.")
# The quick part, one of each kind: what a tenant's calls, timers, forks and workers do.
QUICK = ("list.", "class.", "events.", "track.every_call", "track.again", "track.cgroup_nested",
         "track.one_that", "request.no_holder", "request.nice_until", "request.trigger_comes",
         "request.every_end", "request.system_sleep", "turns.one_is_enabled", "turns.off_and_on",
         "turns.suspend_and_resume", "phase.nice_without_memory")

# The series of kernels beside the default one.
OTHER_SERIES = "7.2"

Results = Mapping[str, str]


def modules(folder: str) -> list[str]:
    """The modules of a folder, as arguments for a guest."""
    return [f"{path}:{MODULES}/" for path in sorted(Path(folder).glob("*.ko"))]


def programs(folder: str, *names: str) -> list[str]:
    """Programs, as arguments for a guest."""
    return [f"{folder}/{name}:/zernel/bin/" for name in names]


def linked(folder: str) -> list[str]:
    """The stand-in for CUDA, libzernel-auto.so and their tests, as arguments for a guest, which gets
    their libraries."""
    linked = [*sorted(Path(folder).glob("zernel-*")), Path(folder) / "libzernel.so.1"]
    return [*(word for path in linked for word in ("--link", f"{path}:/zernel/bin/")),
            "--link", f"{folder}/libcuda.so.1:/lib/x86_64-linux-gnu/",
            "--link", f"{folder}/libzernel-auto.so:/zernel/lib/zernel/"]


def unknowing(folder: str) -> list[str]:
    """Programs that know nothing of zernel, as files for a guest. All that they need is there."""
    return programs(folder, *(f"auto-{way}{streams}" for way in ("program", "linked")
                              for streams in ("", "-thread")))


def build(session: Session, name: str, minutes: float, *command: str, needs: str = "",
          holds: str = "") -> Job:
    """A script of scripts/; in the command, {NAME} is the result of a job that is needed."""
    def action(results: Results) -> str:
        return session.build(name, *(results[word[1:-1]] if word[0] == "{" else word
                                     for word in command))

    return Job(name, action, tuple(needs.split()), minutes, BUILD_MEMORY_MB, holds)


def suite(session: Session, name: str, minutes: float, command: list[str], count, cwd: Path = ROOT,
          needs: str = "", memory: int = BUILD_MEMORY_MB) -> Job:
    """A suite on the host."""
    def action(_: Results) -> None:
        session.suite(name, command, count, cwd=cwd)

    return Job(name, action, tuple(needs.split()), minutes, memory)


def host_suites(session: Session) -> list[Job]:
    """Those that need no guest."""
    # They download 140 MB of assemblers, a compiler of 400 MB, and 100 MB of Python packages.
    more = [] if SHORT else [
        suite(session, "holder", 4, [str(SCRIPTS / "holder")], count_libtest),
        suite(session, "sanitizers", 6, [str(SCRIPTS / "sanitizers")], count_checks),
        # After the tests of tools, which build most of its reader.
        suite(session, "prefetch", 1.5, [str(SCRIPTS / "prefetch-test")], count_unittest,
              needs="tools-test"),
    ]
    return [
        *more,
        build(session, "tools", 7, "tools"),
        suite(session, "lab", 0.2, UNITTEST, count_unittest, SCRIPTS),
        # Clippy works on the modules, too.
        suite(session, "check", 4, [str(SCRIPTS / "check")], count_checks, needs="kernel-base"),
        suite(session, "tools-test", 6, [str(SCRIPTS / "tools-test")], count_libtest),
        suite(session, "nvidia-apply", 1, UNITTEST, count_unittest, ROOT / "nvidia-patch/tests"),
    ]


def kernel(session: Session, flavour: str, minutes: float) -> list[Job]:
    """A test kernel, or the one that KDIR= gives, and the modules for it."""
    name = f"kernel-{flavour}"
    own = os.environ.get("LAB_KDIR")
    first = Job(name, lambda _: str(Path(own).resolve())) if own else \
        build(session, name, minutes, "kernel", flavour, holds="kernel")
    needed = f"{{{name}}}"
    return [first,
            build(session, f"modules-{flavour}", 0.5, "modules", needed, needs=name),
            build(session, f"modules-{flavour}-kunit", 0.7, "modules", needed, "kunit", needs=name)]


def guest(session: Session, name: str, minutes: float, needs: str, add, command: str, *more: str,
          mem: int = 1024, options=lambda _: []) -> Job:
    """A suite in a guest. `needs` begins with the kernel; `add` makes its files of the results, and
    `options` further options of scripts/vm."""
    needed = tuple(needs.split())

    def action(results: Results) -> None:
        session.guest(name, results[needed[0]], add(results), command, "--mem", str(mem), *more,
                      *options(results))

    return Job(name, action, needed, minutes, mem + QEMU_MEMORY_MB)


def kunit(session: Session, flavour: str, minutes: float) -> Job:
    """The KUnit suites of both modules."""
    built = f"modules-{flavour}-kunit"
    return guest(session, f"kunit-{flavour}", minutes, f"kernel-{flavour} {built}",
                 lambda results: modules(results[built]), KUNIT)


def selftest(session: Session, name: str, minutes: float, flavour: str, options: str, *more: str,
             mem: int = 2048) -> Job:
    """A part of zernel-selftest."""
    def add(results: Results) -> list[str]:
        return [*modules(results[f"modules-{flavour}"]),
                *programs(results["tools"], "zernel-selftest", "zernelctl", "zernel-load")]

    return guest(session, name, minutes, f"kernel-{flavour} modules-{flavour} tools", add,
                 f"zernel-selftest {options}", *more, mem=mem)


def base_suites(session: Session) -> list[Job]:
    """On the base kernel: the runner itself, KUnit, loading without a GPU."""
    def runner(results: Results) -> None:
        session.suite("runner-qemu", [*UNITTEST, "zlab.tests.guests"], count_unittest, cwd=SCRIPTS,
                      ZERNEL_KERNEL=results["kernel-base"])

    found = [
        Job("runner-qemu", runner, ("kernel-base",), 1.5, 1024 + QEMU_MEMORY_MB),
        kunit(session, "base", 0.7),
        guest(session, "insmod-base", 0.2, "kernel-base modules-base",
              lambda results: [*modules(results["modules-base"]),
                               f"{IN_GUEST}/insmod.sh:/zernel/",
                               f"{ROOT}/Documentation/ABI/testing:/zernel/abi"],
              "sh /zernel/insmod.sh"),
        # The most that zernel.ko holds: on a debug kernel that would take minutes. It uses 3 GB.
        selftest(session, "scale-base", 2, "base", "--only scale.", mem=4096),
        # Phases from samples, by a clock that waits for the guest.
        selftest(session, "timed-base", 4, "base", "--only timed.", "--mode", "icount"),
    ]
    if not os.environ.get("LAB_KDIR"):
        # Under icount: the kernel serves what its replay on the host tells.
        found.append(suite(session, "bench-quick", 5, [str(SCRIPTS / "bench"), "quick"],
                           count_checks, needs="kernel-base modules-base tools"))
    return found


def debug_suites(session: Session) -> list[Job]:
    """On the debug kernel: KUnit and the selftests."""
    return [
        kunit(session, "debug", 1.5),
        # A kernel that is locked down stays so.
        selftest(session, "locked-debug", 0.5, "debug", "--only locked."),
        # Two guests, because one leaves a processor idle most of the time.
        selftest(session, "requests-debug", 12, "debug",
                 " ".join([*(f"--only {part}" for part in REQUESTS), SHORT])),
        selftest(session, "selftest-debug", 15, "debug",
                 " ".join([*(f"--skip {part}" for part in REQUESTS), SHORT])),
    ]


def cuda_suites(session: Session) -> list[Job]:
    """The stand-in for CUDA's driver library, and the runtime of programs of CUDA on it."""
    def on(flavour: str, name: str, minutes: float, command: str, *options: str,
           mem: int = 2048) -> Job:
        built = f"modules-{flavour}"

        def add(results: Results) -> list[str]:
            return [*modules(results[built]), *programs(results["tools"], "zernelctl"),
                    *unknowing(results["cuda"])]

        return guest(session, f"{name}-{flavour}", minutes, f"kernel-{flavour} {built} cuda tools",
                     add, command, *options, mem=mem,
                     options=lambda results: linked(results["cuda"]))

    # All that a GPU must still confirm, on the software GPU.
    gputest = f"cd {MODULES} && insmod zernel.ko && insmod zernel_sim.ko && " \
              "zernel-gputest --short --ktap --gdrcopy libcuda.so.1"
    # Requests of the runtime beside those of the load generator. Each look of the software GPU at a
    # word takes time of the only CPU.
    beside = f"cd {MODULES} && insmod zernel.ko && insmod zernel_sim.ko word_poll_us=50 && " \
             "zernel-load runtime --ktap"
    # Programs that know nothing take long on the debug kernel.
    known, unknown = f"zernel-cudatest --skip auto. --skip killed. {SHORT}", \
        "zernel-cudatest --only auto."
    if SHORT:
        known += " --skip many_threads --skip gpu_word.threads --skip gpu_word.hostile" \
                 " --skip beside_a_job"
    killed = f"zernel-cudatest --only killed. {SHORT}"
    more = [on("base", "auto", 3, unknown)] if SHORT else \
        [on("base", "cuda", 4, known), on("base", "auto", 3, unknown),
         on("debug", "auto", 8, unknown),
         on("base", "timed-auto", 3, "zernel-cudatest --only timed.", "--mode", "icount",
            mem=1280)]

    def host(results: Results) -> None:
        session.suite("languages", [str(SCRIPTS / "languages-test"), results["cuda"]],
                      count_checks)

    return [build(session, "cuda", 3, "cuda", needs="tools"), *more,
            Job("languages", host, ("cuda",), 1, BUILD_MEMORY_MB),
            on("debug", "cuda", 8 if SHORT else 12, known), on("debug", "killed", 4 if SHORT else 26, killed, mem=1280),
            on("base", "gputest", 1.5, gputest),
            on("base", "runtime", 1, beside, "--mode", "icount", mem=1280)]


def python_suites(session: Session) -> list[Job]:
    """The Python packages: their wheels in clean environments, and one in a guest on the stand-in."""
    def host(name: str, wheel: str, minutes: float, script: str = "python-test") -> Job:
        def action(results: Results) -> None:
            session.suite(name, [str(SCRIPTS / script), results[wheel]], count_unittest)

        return Job(name, action, (wheel,), minutes, BUILD_MEMORY_MB)

    def on(flavour: str, minutes: float, name: str = "", command: str = PYTHON, *more: str) -> Job:
        built = f"modules-{flavour}"
        return guest(session, name or f"python-{flavour}", minutes,
                     f"kernel-{flavour} {built} cuda python-guest",
                     lambda results: [*modules(results[built]), f"{results['python-guest']}:/"],
                     command, *more, mem=2048, options=lambda results: linked(results["cuda"]))

    # Libraries of one take minutes to build; those of PyTorch are 150 MB to download.
    more = [] if SHORT else [build(session, "prefetch-wheel", 8, "wheel", "prefetch-python"),
                             host("python-torch", "wheel", 3, "torch-test"),
                             host("prefetch-python", "prefetch-wheel", 1)]
    return [build(session, "wheel", 3, "wheel", needs="cuda"), *more,
            host("python", "wheel", 0.5),
            build(session, "python-guest", 0.2, "python-guest", "{wheel}", needs="wheel"),
            on("base", 2.5), *([] if SHORT else [on("debug", 8)]),
            # A clock that counts instructions.
            on("base", 0.5, "python-cost", f"{PYTHON} test_cost", "--mode", "icount")]


def rt_suites(session: Session) -> list[Job]:
    """On the real-time kernel, which has the checks of the debug kernel, too."""
    return [*kernel(session, "rt", 7), kunit(session, "rt", 2),
            selftest(session, "selftest-rt", 4, "rt",
                     " ".join([*(f"--only {part}" for part in QUICK), SHORT]))]


def nvidia_suites(session: Session) -> list[Job]:
    """NVIDIA's driver: its hooked interface layer on simrm, and the whole of it on fake GPUs."""
    found = []
    for flavour in ("base", "debug"):
        name, simrm = f"kernel-{flavour}", f"simrm-{flavour}"
        found += [build(session, simrm, 1.5, "nvidia-simrm", f"{{{name}}}", needs=name),
                  nvidia_modules(session, flavour, simrm)]
    found += [
        nvtest(session, "nvidia-simrm-base", 6, "base", "simrm-base",
               # With lockdep the driver cannot be suspended.
               "--operations 1000000 --only simrm.suspend --only simrm.race --only simrm.running"),
        nvtest(session, "nvidia-simrm-debug", 11, "debug", "simrm-debug",
               "--operations 100000 --only simrm."),
        *kunit_nvidia(session, "base", "simrm-base"),
        *stock(session),
    ]
    # A whole driver, and a whole kernel more, which a machine that is slow has no time for.
    if not SHORT:
        found += [
            driver(session),
            nvtest(session, "nvidia-fakegpu-debug", 5, "debug", "nvidia-build", "--only fakegpu.",
                   "--allow", NO_DRIVER),
        ]
        if not any(os.environ.get(name) for name in ("LAB_KDIR", "KVER", "KSRC")):
            found += other_series(session)
    return found


def other_series(session: Session) -> list[Job]:
    """NVIDIA's interface layer, all of it, which builds for the other series of kernels, too."""
    name = f"nvidia-{OTHER_SERIES}"

    def kernel_action(_: Results) -> str:
        return session.build(f"kernel-{OTHER_SERIES}", "kernel", "base", KVER=OTHER_SERIES)

    def action(results: Results) -> None:
        session.suite(name, [str(SCRIPTS / "nvidia-simrm"), results[f"kernel-{OTHER_SERIES}"],
                             "uvm"], count_build)

    return [Job(f"kernel-{OTHER_SERIES}", kernel_action, (), 6, BUILD_MEMORY_MB, "kernel"),
            Job(name, action, (f"kernel-{OTHER_SERIES}",), 2, BUILD_MEMORY_MB)]


def kunit_nvidia(session: Session, flavour: str, simrm: str) -> list[Job]:
    """The KUnit suites of zernel_nvidia.ko, which is built with them."""
    built = nvidia_modules(session, flavour, simrm, "nvidia-kunit")

    def add(results: Results) -> list[str]:
        files = [f"{results[simrm]}/fakegpu.ko", f"{results[simrm]}/nvidia.ko",
                 f"{results[built.name]}/zernel.ko", f"{results[built.name]}/zernel_nvidia.ko"]
        return [f"{file}:{MODULES}/" for file in files]

    return [built, guest(session, f"kunit-nvidia-{flavour}", 1,
                         f"kernel-{flavour} {simrm} {built.name}", add, KUNIT_NVIDIA,
                         *NVIDIA_GUEST)]


def nvidia_modules(session: Session, flavour: str, simrm: str, variant: str = "nvidia") -> Job:
    """The modules for the driver on a kernel: zernel, its provider, and the engine of simrm."""
    name = f"{variant}-modules-{flavour}"

    def action(results: Results) -> str:
        return session.build(name, "modules", results[f"kernel-{flavour}"], variant,
                             ZERNEL_NVIDIA_SYMVERS=f"{results[simrm]}/Module.symvers")

    return Job(name, action, (f"kernel-{flavour}", simrm), 0.5, BUILD_MEMORY_MB)


def nvtest(session: Session, name: str, minutes: float, flavour: str, nvidia: str, options: str,
           *more: str) -> Job:
    """A part of zernel-nvtest; `nvidia` is the job that builds nvidia.ko."""
    simrm, own = f"simrm-{flavour}", f"nvidia-modules-{flavour}"

    def add(results: Results) -> list[str]:
        files = [f"{results[nvidia]}/nvidia.ko", f"{results[simrm]}/fakegpu.ko",
                 f"{results[simrm]}/coreprobe.ko",
                 *(f"{results[own]}/{name}.ko"
                   for name in ("zernel", "zernel_nvidia", "zernel_simrm"))]
        return [*(f"{file}:{MODULES}/" for file in files),
                *programs(results["tools"], "zernel-nvtest", "zernelctl")]

    return guest(session, name, minutes, f"kernel-{flavour} {simrm} {own} {nvidia} tools", add,
                 f"zernel-nvtest {SHORT} {options}", *NVIDIA_GUEST, *more, mem=1536)


def stock(session: Session) -> list[Job]:
    """A driver without hooks, on simrm, and the module that follows it."""
    def modules_action(results: Results) -> str:
        return session.build("stock-modules-debug", "modules", results["kernel-debug"], "nvidia",
                             ZERNEL_NVIDIA_SYMVERS=f"{results['stock-debug']}/Module.symvers")

    def suite(name: str, minutes: float, driver_of: str, parts: list[str]) -> Job:
        def add(results: Results) -> list[str]:
            fake, own = results["stock-debug"], results["stock-modules-debug"]
            files = [f"{results[driver_of]}/nvidia.ko",
                     *(f"{fake}/{name}.ko" for name in ("fakegpu", "coreprobe")),
                     *(f"{own}/{name}.ko"
                       for name in ("zernel", "zernel_nvidia", "zernel_nvidia_stock"))]
            return [*(f"{file}:{MODULES}/" for file in files),
                    *programs(results["tools"], "zernel-nvtest", "zernelctl")]

        only = " ".join(f"--only {part}" for part in parts)
        return guest(session, name, minutes,
                     f"kernel-debug stock-debug {driver_of} stock-modules-debug tools", add,
                     f"zernel-nvtest {SHORT} {only}", *NVIDIA_GUEST, "--allow", NO_DRIVER, mem=1536)

    jobs = [
        build(session, "stock-debug", 1, "nvidia-simrm", "{kernel-debug}", "plain",
              needs="kernel-debug"),
        Job("stock-modules-debug", modules_action, ("kernel-debug", "stock-debug"), 0.5,
            BUILD_MEMORY_MB),
        suite("nvidia-stock-debug", 2, "stock-debug", STOCK),
    ]

    def driver_action(results: Results) -> str:
        return session.build("stock-driver", "nvidia", results["kernel-debug"], STOCK="1")

    # A whole driver more, which a machine that is slow has no time for.
    if not SHORT:
        jobs += [
            Job("stock-driver", driver_action, ("kernel-debug",), 3, BUILD_MEMORY_MB),
            suite("nvidia-stock-fakegpu-debug", 2, "stock-driver", ["fakegpu."]),
        ]
    return jobs


def driver(session: Session) -> Job:
    """The whole driver, which builds without a complaint."""
    def action(results: Results) -> str:
        log = RESULTS / "nvidia-build.log"
        session.suite("nvidia-build", [str(SCRIPTS / "nvidia"), results["kernel-debug"]],
                      count_build)
        said = log.read_text(encoding="utf-8").strip().splitlines()[-1:]
        if not said or not Path(said[0], "nvidia.ko").is_file():
            raise Broken("NVIDIA's driver could not be built")
        return said[0]

    # The build with simrm leaves what it found out about the kernel, in some hundred compilations.
    return Job("nvidia-build", action, ("kernel-debug", "simrm-debug"), 3, BUILD_MEMORY_MB)


def plan(session: Session) -> list[Job]:
    """All builds and suites."""
    jobs = [*host_suites(session), *kernel(session, "base", 6), *kernel(session, "debug", 7),
            *base_suites(session), *debug_suites(session), *cuda_suites(session),
            *python_suites(session), *nvidia_suites(session)]
    # A third kernel, likewise.
    if not SHORT and not os.environ.get("LAB_KDIR"):
        jobs += rt_suites(session)
    return jobs


def workers() -> int:
    """Jobs that run at once, memory permitting: guests wait much of their time."""
    return min((os.cpu_count() or 1) + 1, 8)


def memory_mb() -> int:
    """The memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20


def refuse(why: str) -> int:
    """Says why nothing was run."""
    print(why)
    print("0 passed, 1 failed")
    return 1


def main() -> int:
    """Runs everything; returns the exit status."""
    memory = memory_mb()
    if memory < NEEDED_MEMORY_MB:
        return refuse(f"zernel: this machine has {memory} MB of memory; make test needs 5 GB")
    own = os.environ.get("LAB_KDIR")
    if own and not Path(own, "Module.symvers").is_file():
        return refuse(f"zernel: there is no built kernel in {own}; give KDIR= of a kernel build "
                      "folder, or leave it out for the lab's kernels")
    RESULTS.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    session = Session()
    try:
        session.build("set-up", "setup-all")
    except Broken as error:
        return refuse(str(error))
    run(plan(session), workers(), memory - HOST_MEMORY_MB, session.broken)
    print(f"==> all suites done in {time.monotonic() - started:.0f} s")
    session.report()
    return 1 if session.total.failed else 0
