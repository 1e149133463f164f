# SPDX-License-Identifier: GPL-2.0
"""Measures what the tests catch: faults made by hand in the modules, mutants of policy and model.

Every result is kept in build/mutants as soon as it is there; what has one is not run again.
"""

import argparse
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from .counts import count_vm
from .suites import KUNIT, ROOT, SCRIPTS, modules, programs

OUT = ROOT / "build/mutants"
FAULTS = SCRIPTS / "faults.toml"
# Where the text of a fault stands once.
PLACES = ("rust/zernel", "rust/glue", "rust/sim")

# The crates whose decisions have tests on the host: sources, and the package that compiles them.
CRATES = {"policy": "zernel-policy", "model": "zernel-model"}
MUTANTS = 300
SEED = 14
# Tests that wait for each other for so long never end.
STUCK_S = 1800
# Cases of a property that are tried first, and the tests that are left for later.
FEW_CASES = 16
SLOW = "exhaustive::"
CARGO_MUTANTS = "27.1.0"

# A guest that does not end has caught a fault, too: with all suites, and with some.
DEADLINE_S = 2400
# The suite scale uses 3 GB.
MEMORY_MB = "4096"
SHORT_DEADLINE_S = 420


@dataclass(frozen=True)
class Fault:
    """A fault: a text of the sources and the one that breaks a promise."""

    name: str
    breaks: str
    text: str
    into: str
    # Cases of zernel-selftest that are asked before all others.
    ask: tuple[str, ...] = ()


class Results:
    """Findings by name, in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.all: dict[str, dict] = {}
        if path.exists():
            self.all = json.loads(path.read_text(encoding="utf-8"))

    def put(self, name: str, **found: object) -> None:
        """Adds a result and keeps it."""
        self.all[name] = found
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(self.all, indent=1) + "\n", encoding="utf-8")
        new.replace(self.path)


def load_faults() -> list[Fault]:
    """The list of faults."""
    return [Fault(**one) for one in tomllib.loads(FAULTS.read_text(encoding="utf-8"))["fault"]]


def places(root: Path, text: str) -> list[tuple[Path, int]]:
    """Each place of a text: the file, and the line on which it begins."""
    found = []
    for folder in PLACES:
        for path in sorted((root / folder).rglob("*.rs")):
            source = path.read_text(encoding="utf-8")
            at = source.find(text)
            while at >= 0:
                found.append((path, source.count("\n", 0, at) + 1))
                at = source.find(text, at + 1)
    return found


def check_faults(root: Path, faults: list[Fault]) -> list[str]:
    """Complaints about faults whose text does not stand once, or that share a name."""
    complaints = []
    for fault in faults:
        found = places(root, fault.text)
        if len(found) != 1:
            where = ", ".join(f"{path.relative_to(root)}:{line}" for path, line in found)
            complaints.append(f"{fault.name}: its text stands {len(found)} times {where}".rstrip())
        if fault.text == fault.into:
            complaints.append(f"{fault.name}: it changes nothing")
    names = [fault.name for fault in faults]
    complaints += [f"{name}: two faults have this name" for name in sorted(set(names))
                   if names.count(name) > 1]
    return complaints


def say(line: str) -> None:
    """Prints a line at once."""
    print(line, flush=True)


def build(tree: Path, script: str, *arguments: str) -> str | None:
    """The path that a script of a tree printed last: its result; None if it failed."""
    done = subprocess.run([str(tree / "scripts" / script), *arguments], cwd=tree, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        return None
    return done.stdout.strip().splitlines()[-1]


def guest(kdir: str, name: str, add: list[str], command: str,
          deadline: int = SHORT_DEADLINE_S) -> list[str]:
    """The tests that failed in a guest, and what else was wrong with the run."""
    result = OUT / "guest.json"
    result.unlink(missing_ok=True)
    arguments = [str(SCRIPTS / "vm"), "--kernel", kdir, "--ktap", name, "--mem", MEMORY_MB, "--quiet",
                 "--deadline", str(deadline), "--result", str(result),
                 "--log", str(OUT / f"{name}.log")]
    for entry in add:
        arguments += ["--add", entry]
    subprocess.run([*arguments, "--", command], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=False)
    return count_vm(result).names


def judge(tree: Path, kdir: str, tools: str, ask: list[str]) -> dict:
    """The verdict of KUnit and then of zernel-selftest on the modules of a tree."""
    def failures(*variant: str, name: str, command: str, add: list[str],
                 deadline: int = SHORT_DEADLINE_S) -> list[str] | None:
        built = build(tree, "modules", kdir, *variant)
        if built is None:
            return None
        failed = guest(kdir, name, [*modules(built), *add], command, deadline)
        # Modules with a fault are of no use to anybody.
        shutil.rmtree(built)
        return failed

    some = [" ".join(f"--only {case}" for case in ask)] if ask else []
    with_programs = programs(tools, "zernel-selftest", "zernelctl", "zernel-load")
    failed = failures("kunit", name="kunit", command=KUNIT, add=[])
    judges = "kunit"
    # First the cases that are about the promise: all of them take a quarter of an hour.
    for cases in [*some, ""]:
        if failed != []:
            break
        judges = "selftest"
        failed = failures(name="selftest", command=f"zernel-selftest --short {cases}",
                          add=with_programs,
                          deadline=SHORT_DEADLINE_S if cases else DEADLINE_S)
    if failed is None:
        return {"verdict": "unbuildable"}
    return {"verdict": "caught", "by": judges, "failed": failed[:5]} if failed else \
        {"verdict": "missed"}


def copy_tree(tree: Path) -> None:
    """Brings the copy in which faults are made to the state of the working tree."""
    tree.mkdir(parents=True, exist_ok=True)
    subprocess.run(["rsync", "-a", "--delete", "--exclude=/build", "--exclude=/.git",
                    "--exclude=/tools/target", f"{ROOT}/", f"{tree}/"], check=True)


def run_faults(only: list[str]) -> None:
    """Makes each fault that has no result yet, and asks the suites of the base kernel."""
    faults = [fault for fault in load_faults() if not only or fault.name in only]
    complaints = check_faults(ROOT, faults)
    if complaints:
        sys.exit("\n".join(complaints))
    results = Results(OUT / "faults.json")
    kdir = build(ROOT, "kernel", "base")
    tools = build(ROOT, "tools", "zernel-selftest", "zernelctl", "zernel-load")
    if kdir is None or tools is None:
        sys.exit("the base kernel or the tools could not be built")
    tree = OUT / "tree"
    if "none" not in results.all:
        copy_tree(tree)
        built = build(tree, "modules", kdir, "kunit")
        if built is None or guest(kdir, "kunit", modules(built), KUNIT):
            sys.exit("without a fault KUnit does not pass")
        results.put("none", verdict="missed")
    for number, fault in enumerate(faults, 1):
        if fault.name in results.all:
            continue
        copy_tree(tree)
        [(path, line)] = places(tree, fault.text)
        source = path.read_text(encoding="utf-8")
        path.write_text(source.replace(fault.text, fault.into), encoding="utf-8")
        found = judge(tree, kdir, tools, list(fault.ask))
        where = f"{path.relative_to(tree)}:{line}"
        results.put(fault.name, **found, where=where, breaks=fault.breaks)
        by = f" by {found['by']}" if "by" in found else ""
        say(f"[{number}/{len(faults)}] {fault.name} ({where}): {found['verdict']}{by}")


def system(**more: str) -> dict[str, str]:
    """The environment, with the compilers of the system before a user's own."""
    return {**os.environ, "PATH": f"/usr/bin:{os.environ['PATH']}", **more}


def cargo_mutants() -> str:
    """The program, built once into the cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "zernel"
    place = cache / f"tools/cargo-mutants-{CARGO_MUTANTS}"
    program = place / "bin/cargo-mutants"
    if not program.exists():
        say(f"==> building cargo-mutants {CARGO_MUTANTS}")
        subprocess.run(["cargo", "install", "--locked", "--quiet", "--root", str(place),
                        "--version", CARGO_MUTANTS, "cargo-mutants"], env=system(), check=True)
    return str(program)


def make_crates(work: Path) -> None:
    """A workspace of the crates alone, with their sources inside, as cargo-mutants wants them."""
    tools = ROOT / "tools"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    manifest = (tools / "Cargo.toml").read_text(encoding="utf-8")
    members = ", ".join(f'"{crate}"' for crate in CRATES)
    manifest = re.sub(r"^members = .*$", f"members = [{members}]", manifest, flags=re.MULTILINE)
    # Profiles and paths of packages that are not here.
    manifest = re.sub(r"^\S+ = \{[^}\n]*\bpath = .*\n", "", manifest, flags=re.MULTILINE)
    manifest = re.sub(r"\[profile\.\w+\.package\.zernel-[^\[]*", "", manifest)
    # Building a mutant takes longer than asking its tests: less is optimised.
    manifest += "".join(f"\n[profile.test.package.{package}]\nopt-level = 1\n"
                        for package in CRATES.values())
    (work / "Cargo.toml").write_text(manifest, encoding="utf-8")
    shutil.copy(tools / "Cargo.lock", work)
    for crate in CRATES:
        shutil.copytree(tools / "tests" / crate, work / crate)
        shutil.copytree(ROOT / "rust" / crate, work / crate / "src" / crate)
        # A decision on numbers of the driver stands with them.
        shutil.copytree(ROOT / "rust/nvidia", work / crate / "src/nvidia", dirs_exist_ok=True)
        library = work / crate / "src/lib.rs"
        text = library.read_text(encoding="utf-8")
        library.write_text(re.sub(r'#\[path = "[^"]*"\]\n', "", text), encoding="utf-8")


def draw(program: str, work: Path, seed: int, count: int) -> list[dict]:
    """So many mutants, drawn at random: name, file, package, place and replacement of each."""
    listed = subprocess.run([program, "mutants", "--list", "--json", "--dir", str(work)],
                            env=system(), stdout=subprocess.PIPE, text=True, check=True).stdout
    # Only what the modules are made of: the tests of the crates are no mutants.
    inside = tuple(f"{crate}/src/{crate}/" for crate in CRATES)
    found = sorted((one for one in json.loads(listed)
                    if one["file"].startswith(inside) and "tests::" not in one["name"]),
                   key=lambda one: one["name"])
    say(f"{len(found)} mutants, of which {min(count, len(found))} are drawn with seed {seed}")
    return random.Random(seed).sample(found, min(count, len(found)))


def mutate(source: str, mutant: dict) -> str:
    """The source with the replacement of a mutant in its place."""
    lines = source.splitlines(keepends=True)
    first, last = mutant["span"]["start"], mutant["span"]["end"]
    before = "".join(lines[:first["line"] - 1]) + lines[first["line"] - 1][:first["column"] - 1]
    behind = lines[last["line"] - 1][last["column"] - 1:] + "".join(lines[last["line"]:])
    return before + mutant["replacement"] + behind


def ask_host(work: Path, package: str) -> str:
    """The verdict of the tests on the host on a workspace in which a mutant is."""
    command = ["cargo", "test", "--quiet", "--package", package, "--lib"]
    target = {"CARGO_TARGET_DIR": str(OUT / "target")}

    def passes(*more: str, cpu_s: int = 600, **env: str) -> bool:
        # Of each process: a limit by the clock would take a busy machine for an endless loop.
        child = subprocess.Popen([*command, *more], cwd=work, env=system(**target, **env),
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                 process_group=0, preexec_fn=lambda: resource.setrlimit(
                                     resource.RLIMIT_CPU, (cpu_s, cpu_s)))
        try:
            return child.wait(STUCK_S) == 0
        except subprocess.TimeoutExpired:
            # With the tests that it has started.
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return False

    if not passes("--no-run"):
        return "unbuildable"
    # Most mutants are caught by few cases of a property and without the models that try every order,
    # in a tenth of the time. A mutant that never ends is caught: either limit is many times what the
    # tests take.
    few = passes("--", "--skip", SLOW, cpu_s=60, PROPTEST_CASES=str(FEW_CASES))
    return "missed" if few and passes(cpu_s=300) else "caught"


def run_mutants(seed: int, count: int) -> None:
    """Makes each mutant drawn that has no result yet, and asks the tests on the host."""
    program, work = cargo_mutants(), OUT / "crates"
    make_crates(work)
    results = Results(OUT / f"host-{seed}.json")
    drawn = draw(program, work, seed, count)
    for package in CRATES.values():
        if "none" not in results.all and ask_host(work, package) != "missed":
            sys.exit(f"without a mutant the tests of {package} do not pass")
    results.put("none", verdict="missed")
    for number, mutant in enumerate(drawn, 1):
        if mutant["name"] in results.all:
            continue
        path = work / mutant["file"]
        source = path.read_text(encoding="utf-8")
        path.write_text(mutate(source, mutant), encoding="utf-8")
        verdict = ask_host(work, mutant["package"])
        path.write_text(source, encoding="utf-8")
        results.put(mutant["name"], verdict=verdict)
        say(f"[{number}/{len(drawn)}] {mutant['name']}: {verdict}")


def report() -> None:
    """Prints what was caught and names what was missed."""
    for path in sorted([*OUT.glob("host-*.json"), OUT / "faults.json"]):
        found = {name: one for name, one in Results(path).all.items() if name != "none"}
        if not found:
            continue
        of = {verdict: sorted(name for name, one in found.items() if one["verdict"] == verdict)
              for verdict in ("caught", "missed", "unbuildable")}
        say(f"{path.stem}: {len(of['caught'])} caught, {len(of['missed'])} missed, "
            f"{len(of['unbuildable'])} unbuildable")
        for name in of["missed"]:
            say(f"    missed: {name}")


def main(arguments: list[str]) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="scripts/mutants", description=__doc__)
    parser.add_argument("what", nargs="*", help="host, faults, report, or names of faults "
                        "(default: host, faults and report)")
    parser.add_argument("--check", action="store_true",
                        help="only tell where the text of each fault stands")
    parser.add_argument("--seed", type=int, default=SEED, help="of the draw of mutants")
    parser.add_argument("--count", type=int, default=MUTANTS, help="how many are drawn")
    options = parser.parse_args(arguments)
    faults = load_faults()
    if options.check:
        complaints = check_faults(ROOT, faults)
        for line in complaints:
            print(f"not ok - {line}")
        if not complaints:
            print(f"ok - the text of each of {len(faults)} faults stands once")
        return 1 if complaints else 0
    what = options.what or ["host", "faults", "report"]
    unknown = set(what) - {"host", "faults", "report"} - {fault.name for fault in faults}
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    OUT.mkdir(parents=True, exist_ok=True)
    if "host" in what:
        run_mutants(options.seed, options.count)
    names = [one for one in what if one not in ("host", "faults", "report")]
    if "faults" in what or names:
        run_faults(names)
    report()
    return 0
