# SPDX-License-Identifier: GPL-2.0
"""A host for the tests of the DKMS recipe: a driver's package, kernels, a checkout of zernel.

Everything is below one folder. The driver is a text and its make a script; `apply` and
`scripts/modules` are replaced by scripts that leave marks, because only the recipe is tested.
"""

import os
import shutil
import signal
import subprocess
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent
NEW, OLD = "7.3.0-test", "6.1.0-test"
DRIVER, DRIVER_VERSION = "nvidia-current-open", "550.163.01"

DKMS_CONF = f"""\
PACKAGE_NAME="{DRIVER}"
PACKAGE_VERSION="{DRIVER_VERSION}"
AUTOINSTALL=yes
MAKE[0]="env A=b sh ./make.sh ${{kernelver}}"
BUILT_MODULE_NAME[0]="nvidia"
DEST_MODULE_NAME[0]="{DRIVER}"
DEST_MODULE_LOCATION[0]="/updates/dkms"
"""

# Like the real one it does not build for a kernel newer than it. The module is larger than a pipe.
MAKE = r"""
echo making for "$1"
if [ -e ../../../../../../fail-driver ] && grep -q hook nvidia/nv.c; then echo no luck; exit 2; fi
case $1 in 7.*) grep -q compat nvidia/nv.c || { echo too new; exit 2; } ;; esac
{ cat nvidia/nv.c; head -c 400000 /dev/zero | tr '\0' x; } >nvidia.ko
grep nv_zernel_register nvidia/nv.c >Module.symvers
exit 0
"""

APPLY = """#!/bin/bash
fits() { [ ! -e "$1/unfit" ]; }
case $1 in
--check) fits "$2"; exit ;;
--compat-only) cp -r "$2" "$3"; echo "compat" >>"$3/nvidia/nv.c"; exit ;;
esac
fits "$1" || exit 1
cp -r "$1" "$2"
echo "hook nv_zernel_register compat" >>"$2/nvidia/nv.c"
# Nothing can be copied over a folder of another kind.
if [ -e "$1/spoilt" ]; then rm "$2/make.sh"; mkdir "$2/make.sh"; fi
if [ -e "$1/stopped" ]; then kill -KILL $PPID; exit 1; fi
"""

MODULES = """#!/bin/bash
if [ -e "$ZERNEL_DESTDIR/fail-zernel" ]; then echo 'error: no luck' >&2; exit 1; fi
mkdir -p out
names=(zernel zernel_sim)
if [ "$2" = nvidia ]; then grep -q nv_zernel_register "$ZERNEL_NVIDIA_SYMVERS" || exit 1; names+=(zernel_nvidia); fi
for name in "${names[@]}"; do cp mark "out/$name.ko"; done
echo out
"""

LAB = """
RUSTC=$ZERNEL_DESTDIR/bin/rustc
bindgen_path() { if [ -x "$ZERNEL_DESTDIR/bin/bindgen" ]; then echo bindgen; fi; }
"""


def put(path: Path, text: str, mode: int = 0o644) -> None:
    """Writes a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def default_signals() -> None:
    """In a child, before exec: a shell cannot catch what was ignored when it began."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


class Host:
    """The folder that is the host's root, and what is done on the host."""

    def __init__(self, top: Path):
        self.top = top / "root"
        self.checkout = top / "checkout"
        self.source = self.top / f"usr/src/{DRIVER}-{DRIVER_VERSION}"
        self.override = self.top / f"etc/dkms/{DRIVER}.conf"
        self.installed = self.top / "usr/local/lib/zernel/nvidia-patch"
        self.env = dict(os.environ) | {"ZERNEL_DESTDIR": str(self.top)}
        self.make_commands()
        self.make_kernels()
        self.make_driver()
        self.make_checkout("0.1")

    def make_commands(self) -> None:
        """The commands that the recipe calls."""
        put(self.top / "bin/rustc", "#!/bin/sh\necho rustc 1.2.3\n", 0o755)
        for name in ("bindgen", "spatch", "logger"):
            put(self.top / "bin" / name, "#!/bin/sh\n", 0o755)
        shutil.copy(HOME / "tests/fakedkms", self.top / "bin/dkms")

    def make_kernels(self) -> None:
        """One that zernel is for, and one that is too old."""
        build = self.top / "lib/modules" / NEW / "build"
        put(build / ".config", 'CONFIG_RUST=y\nCONFIG_RUSTC_VERSION_TEXT="rustc 1.2.3"\n')
        put(build / "rust/libkernel.rmeta", "metadata")
        put(self.top / "lib/modules" / OLD / "build/.config", "CONFIG_MODULES=y\n")

    def make_driver(self) -> None:
        """The package's source, which DKMS knows."""
        put(self.source / "dkms.conf", DKMS_CONF)
        put(self.source / "make.sh", MAKE)
        put(self.source / "nvidia/nv.c", "driver\n")
        self.dkms("add", DRIVER, DRIVER_VERSION)

    def make_checkout(self, version: str) -> None:
        """A source tree of zernel."""
        shutil.rmtree(self.checkout, ignore_errors=True)
        shutil.copytree(HOME / "dkms", self.checkout / "nvidia-patch/dkms")
        put(self.checkout / "nvidia-patch/apply", APPLY, 0o755)
        put(self.checkout / "nvidia-patch/mark", version)
        put(self.checkout / "scripts/modules", MODULES, 0o755)
        put(self.checkout / "scripts/lab.sh", LAB)
        put(self.checkout / "tools/Cargo.toml", f'[workspace.package]\nversion = "{version}"\n')
        put(self.checkout / "mark", version)

    def dkms(self, action: str, module: str, version: str, kernel: str = "",
             *words: str) -> subprocess.CompletedProcess:
        """A call of dkms by somebody else."""
        command = [str(self.top / "bin/dkms"), action, "-m", module, "-v", version, *words]
        return subprocess.run(command + (["-k", kernel] if kernel else []), env=self.env,
                              capture_output=True, text=True, check=False)

    def run(self, script: Path, *arguments: str) -> subprocess.CompletedProcess:
        """The recipe's run."""
        return subprocess.run([str(script), *arguments], env=self.env, capture_output=True,
                              text=True, check=False, preexec_fn=default_signals)

    def install(self, kernel: str = NEW) -> subprocess.CompletedProcess:
        """The way in which a user gets zernel."""
        return self.run(self.checkout / "nvidia-patch/dkms/install", kernel)

    def remove(self, script: Path | None = None) -> subprocess.CompletedProcess:
        """The way in which a user is rid of it."""
        return self.run(script or self.checkout / "nvidia-patch/dkms/remove")

    def module(self, name: str = DRIVER, kernel: str = NEW) -> str | None:
        """An installed module's text."""
        path = self.top / f"lib/modules/{kernel}/updates/dkms/{name}.ko"
        return path.read_text(encoding="utf-8").rstrip("x") if path.exists() else None

    def state(self) -> dict[str, str]:
        """Every file and link but those that only tell what was done."""
        skip = ("bin/", "var/log/", "var/lib/zernel/lock", "fail-", "signal")
        found = {}
        for path in sorted(self.top.rglob("*")):
            name = str(path.relative_to(self.top))
            if name.startswith(skip) or (name.startswith("var/lib/dkms") and "/build/" in name):
                continue
            if path.is_symlink():
                found[name] = f"-> {os.readlink(path)}"
            elif path.is_file():
                found[name] = path.read_text(encoding="utf-8").rstrip("x")
        return found
