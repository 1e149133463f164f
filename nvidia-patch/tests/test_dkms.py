# SPDX-License-Identifier: GPL-2.0
"""Tests of the DKMS recipe on a made-up host: what it installs, and that it leaves no damage."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from minihost import DRIVER, DRIVER_VERSION, NEW, OLD, Host, put  # noqa: E402

HOOKED = "driver\nhook nv_zernel_register compat\n"
COMPAT = "driver\ncompat\n"
PLAIN = "driver\n"


class Recipe(unittest.TestCase):
    """Each test has a host of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="zernel-dkms-")
        self.addCleanup(folder.cleanup)
        self.host = Host(Path(folder.name))

    def assert_done(self, done: subprocess.CompletedProcess, *words: str) -> None:
        """The run must succeed and say every one of the words."""
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def assert_undone(self, before: dict, done: subprocess.CompletedProcess, code: int,
                      *words: str) -> None:
        """The run must fail, say every one of the words, and leave what was there."""
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(self.host.state(), before)

    def assert_zernel(self, version: str | None, nvidia: str | None, kernel: str = NEW) -> None:
        """The modules of zernel that are installed."""
        self.assertEqual([self.host.module(name, kernel)
                          for name in ("zernel", "zernel_sim", "zernel_nvidia")],
                         [version, version, nvidia])


class Install(Recipe):
    """Installs that succeed."""

    def test_driver_that_does_not_build_on_its_own(self):
        self.assertEqual(self.host.dkms("install", DRIVER, DRIVER_VERSION, NEW).returncode, 10)
        self.assert_done(self.host.install(), "done:")
        self.assertEqual(self.host.module(), HOOKED)
        self.assert_zernel("0.1", "0.1")

    def test_driver_that_was_installed(self):
        self.host.dkms("install", DRIVER, DRIVER_VERSION, OLD)
        self.assertEqual(self.host.module(kernel=OLD), PLAIN)
        self.assert_done(self.host.install(OLD), "6.1.0-test is older than Linux 7.2")
        self.assertEqual(self.host.module(kernel=OLD), HOOKED)
        self.assert_zernel(None, None, OLD)

    def test_again_and_upgrade(self):
        self.assert_done(self.host.install())
        state = self.host.state()
        self.assert_done(self.host.install())
        self.assertEqual(self.host.state(), state)
        self.host.make_checkout("0.2")
        self.assert_done(self.host.install())
        self.assert_zernel("0.2", "0.2")
        self.assertFalse((self.host.top / "usr/src/zernel-0.1").exists())

    def test_lines_of_others_in_the_override(self):
        put(self.host.override, "A=b")
        self.assert_done(self.host.install())
        self.assertIn("A=b\n# zernel: begin\n", self.host.override.read_text(encoding="utf-8"))
        self.assertEqual(self.host.module(), HOOKED)
        shutil.rmtree(self.host.source)
        self.assert_done(self.host.remove())
        self.assertEqual(self.host.override.read_text(encoding="utf-8"), "A=b\n")

    def test_only_one_at_a_time(self):
        put(self.host.top / "var/lib/zernel/lock", "")
        with subprocess.Popen(["flock", str(self.host.top / "var/lib/zernel/lock"), "cat"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            other.stdin.write(b"held\n")
            other.stdin.flush()
            other.stdout.readline()
            done = self.host.install()
            other.stdin.close()
        self.assertEqual(done.returncode, 1)
        self.assertIn("under way", done.stderr)


class Refusals(Recipe):
    """Refusals of install before it touches anything."""

    def refuse(self, *words: str, **options) -> None:
        """An install that must be refused."""
        before = self.host.state()
        self.assert_undone(before, self.host.install(**options), 1, *words)

    def test_checkout_where_dkms_keeps_its_copy(self):
        place = self.host.top / "usr/src/zernel-0.1"
        shutil.move(self.host.checkout, place)
        self.host.checkout = place
        self.refuse("move it elsewhere")
        self.assertTrue((place / "mark").exists())

    def test_folder_of_somebody_else(self):
        put(self.host.top / "usr/src/zernel-0.1/precious", "work")
        self.refuse("was not made by this program")
        self.assert_done(self.host.remove())
        self.assertTrue((self.host.top / "usr/src/zernel-0.1/precious").exists())

    def test_hooks_that_do_not_fit(self):
        put(self.host.source / "unfit", "")
        self.refuse("nothing was changed")

    def test_tools_that_root_lacks(self):
        (self.host.top / "bin/bindgen").unlink()
        self.refuse("root has no bindgen")

    def test_another_compiler_than_the_kernel_s(self):
        put(self.host.top / "bin/rustc", "#!/bin/sh\necho rustc 1.2.4\n", 0o755)
        self.refuse("built by rustc 1.2.3")

    def test_kernel_built_with_clang(self):
        config = self.host.top / "lib/modules" / NEW / "build/.config"
        put(config, config.read_text(encoding="utf-8") + "CONFIG_CC_IS_CLANG=y\n")
        self.refuse("built with clang")

    def test_no_kernel(self):
        self.refuse("install the headers", kernel="7.9.9")

    def test_no_driver(self):
        shutil.rmtree(self.host.source)
        self.refuse("install nvidia-open-kernel-dkms")


class BackOut(Recipe):
    """Failures and interruptions of install leave what was there."""

    def test_failed_build_of_the_driver(self):
        self.host.dkms("install", DRIVER, DRIVER_VERSION, OLD)
        before = self.host.state()
        put(self.host.top / "fail-driver", "")
        self.assert_undone(before, self.host.install(OLD), 1, "no luck", "as it was")
        self.assertEqual(self.host.module(kernel=OLD), PLAIN)
        log = self.host.top / "var/log/zernel-dkms.log"
        self.assertIn("no luck", log.read_text(encoding="utf-8"))

    def test_failed_build_of_zernel(self):
        before = self.host.state()
        put(self.host.top / "fail-zernel", "")
        self.assert_undone(before, self.host.install(), 1, "error: no luck", "as it was")

    def test_failed_upgrade(self):
        self.assert_done(self.host.install())
        before = self.host.state()
        put(self.host.top / "fail-zernel", "")
        for version in ("0.1", "0.2"):
            with self.subTest(version):
                self.host.make_checkout(version)
                put(self.host.checkout / "mark", "other")
                put(self.host.checkout / "nvidia-patch/mark", "other")
                self.assert_undone(before, self.host.install(), 1, "as it was")
                self.assert_zernel("0.1", "0.1")

    def test_interrupted(self):
        self.host.dkms("install", DRIVER, DRIVER_VERSION, OLD)
        before = self.host.state()
        for signal, code in (("INT", 130), ("HUP", 129), ("TERM", 143)):
            with self.subTest(signal):
                put(self.host.top / "signal", f"{signal} {DRIVER}\n")
                self.assert_undone(before, self.host.install(OLD), code, "as it was")

    def test_killed(self):
        self.assert_done(self.host.install())
        before = self.host.state()
        for module in (DRIVER, "zernel"):
            for recover in (self.host.install, self.host.remove):
                with self.subTest(f"{module} {recover.__name__}"):
                    self.host.make_checkout("0.2")
                    put(self.host.top / "signal", f"KILL {module}\n")
                    self.assertEqual(self.host.install().returncode, -9)
                    self.assertNotEqual(self.host.state(), before)
                    self.host.make_checkout("0.1")
                    self.assert_done(recover(), "putting back what was there")
                    self.assert_done(self.host.install())
                    self.assertEqual(self.host.state(), before)


class Update(Recipe):
    """Later runs of DKMS, when nobody is there."""

    def setUp(self):
        super().setUp()
        self.assert_done(self.host.install())

    def rebuild(self) -> int:
        """The driver's package was updated."""
        self.host.dkms("unbuild", DRIVER, DRIVER_VERSION, NEW)
        return self.host.dkms("install", DRIVER, DRIVER_VERSION, NEW).returncode

    def rebuild_zernel(self) -> int:
        """A new kernel came."""
        self.host.dkms("unbuild", "zernel", "0.1", NEW)
        return self.host.dkms("install", "zernel", "0.1", NEW).returncode

    def test_hooks_that_still_fit(self):
        self.assertEqual(self.rebuild(), 0)
        self.assertEqual(self.host.module(), HOOKED)

    def test_hooks_that_do_not_fit_any_more(self):
        put(self.host.source / "unfit", "")
        self.assertEqual(self.rebuild(), 0)
        self.assertEqual(self.host.module(), COMPAT)
        log = self.host.top / f"var/lib/dkms/{DRIVER}/{DRIVER_VERSION}/{NEW}/x86_64/log/make.log"
        self.assertIn(f"see {log}", log.read_text(encoding="utf-8"))
        self.assertEqual(self.rebuild_zernel(), 0)
        self.assert_zernel("0.1", None)

    def test_half_changed(self):
        put(self.host.source / "spoilt", "")
        self.assertEqual(self.rebuild(), 10)

    def test_killed_while_changing(self):
        before = self.host.state()
        put(self.host.source / "stopped", "")
        self.assertEqual(self.rebuild(), 10)
        self.assertIsNone(self.host.module())
        (self.host.source / "stopped").unlink()
        self.assertEqual(self.rebuild(), 0)
        self.assertEqual(self.host.state(), before)

    def test_library_gone(self):
        shutil.rmtree(self.host.installed)
        self.assertEqual(self.host.dkms("install", DRIVER, DRIVER_VERSION, OLD).returncode, 0)
        self.assertEqual(self.host.module(kernel=OLD), PLAIN)

    def test_kernel_that_is_not_for_zernel(self):
        self.assertEqual(self.host.dkms("install", DRIVER, DRIVER_VERSION, OLD).returncode, 0)
        self.assertEqual(self.host.dkms("install", "zernel", "0.1", OLD).returncode, 77)
        for kernel, wanted in ((OLD, ""), (NEW, "yes")):
            # As autoinstall does: the kernel in question is that of the outermost function, the
            # middle one has another, and the innermost reads the file.
            script = (f'f() {{ . "{self.host.top}/usr/src/zernel-0.1/dkms.conf"'
                      f'; echo "$AUTOINSTALL"; }}; g() {{ local kernelver=; f; }}; kernelver={kernel}; g')
            done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
            self.assertEqual(done.stdout.split("\n")[-2], wanted, kernel)


class Remove(Recipe):
    """The tree after remove."""

    def test_driver_as_the_distribution_has_it(self):
        self.host.dkms("install", DRIVER, DRIVER_VERSION, OLD)
        before = self.host.state()
        self.assert_done(self.host.install(OLD))
        self.assert_done(self.host.remove(), "zernel is out of DKMS")
        self.assertEqual(self.host.state(), before)

    def test_without_a_checkout(self):
        self.assert_done(self.host.install())
        shutil.rmtree(self.host.checkout)
        self.assert_done(self.host.remove(self.host.installed / "dkms/remove"))
        self.assert_zernel(None, None)

    def test_driver_that_does_not_build_on_its_own(self):
        self.assert_done(self.host.install())
        self.assert_done(self.host.install(OLD))
        for _ in range(2):
            self.assert_done(self.host.remove(), "these stay")
            self.assertEqual(self.host.module(), COMPAT)
            self.assertTrue(self.host.installed.exists())
        put(self.host.source / "nvidia/nv.c", "newer driver with compat\n")
        self.assert_done(self.host.remove())
        self.assertEqual(self.host.module(), "newer driver with compat\n")
        self.assertFalse(self.host.installed.exists() or self.host.override.exists())

    def test_interrupted(self):
        self.assert_done(self.host.install(OLD))
        put(self.host.top / "signal", f"KILL {DRIVER}\n")
        self.assertEqual(self.host.remove().returncode, -9)
        self.assertIsNone(self.host.module(kernel=OLD))
        self.assert_done(self.host.remove())
        self.assertEqual(self.host.module(kernel=OLD), PLAIN)

    def test_driver_gone(self):
        self.assert_done(self.host.install())
        self.host.dkms("remove", DRIVER, DRIVER_VERSION)
        shutil.rmtree(self.host.source)
        put(self.host.top / "etc/dkms/nvidia.conf", self.host.override.read_text(encoding="utf-8"))
        self.assert_done(self.host.remove())
        self.assertEqual([name for name in self.host.state()
                          if "zernel" in name or name.startswith("etc")], [])


if __name__ == "__main__":
    unittest.main()
