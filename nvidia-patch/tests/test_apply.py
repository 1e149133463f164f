# SPDX-License-Identifier: GPL-2.0
"""Tests of nvidia-patch/apply as its users call it, on made-up trees."""

import contextlib
import ctypes
import errno
import importlib.machinery
import importlib.util
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

HOME = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(HOME), str(Path(__file__).resolve().parent)]

import minitree  # noqa: E402
from patcher import fresh  # noqa: E402

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1


def drop_override() -> None:
    """In a child, before exec: root obeys the permissions of files, too."""
    if os.geteuid() == 0:
        ctypes.CDLL(None, use_errno=True).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


class Apply(unittest.TestCase):
    """Copies, refusals, and trees that stay as they are."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="zernel-apply-")
        self.addCleanup(folder.cleanup)
        self.top = Path(folder.name)
        self.tree = self.top / "tree"
        self.copy = self.top / "copy"

    def make(self, version: str = "550.163.01", path: str = "", old: str = "",
             new: str = "") -> dict:
        """A tree, with a text in one of its files replaced."""
        contents = minitree.files(version)
        if path:
            self.assertIn(old, contents[path])
            contents[path] = contents[path].replace(old, new)
        minitree.write(self.tree, contents)
        return minitree.snapshot(self.tree)

    def run_apply(self, *arguments: str, path: str | None = None,
                  obey: bool = False) -> subprocess.CompletedProcess:
        """The program's run."""
        env = dict(os.environ) | ({"PATH": path} if path is not None else {})
        folders = [self.tree] if "--check" in arguments else [self.tree, self.copy]
        return subprocess.run(
            [sys.executable, str(HOME / "apply"), *arguments, *map(str, folders)], env=env,
            capture_output=True, text=True, check=False,
            preexec_fn=drop_override if obey else None)

    def assert_refused(self, before: dict, *words: str, **options) -> None:
        """The run must fail, say every one of the words, and make and change nothing."""
        beside = sorted(self.top.iterdir())
        done = self.run_apply(**options)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(minitree.snapshot(self.tree), before)
        self.assertEqual(sorted(self.top.iterdir()), beside)

    def assert_done(self, *arguments: str, says: str = "") -> None:
        """The run must succeed and leave the tree as it is."""
        before = minitree.snapshot(self.tree)
        done = self.run_apply(*arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(says, done.stdout)
        self.assertEqual(minitree.snapshot(self.tree), before)

    def text(self, path: str) -> str:
        """A file of the copy."""
        return (self.copy / path).read_text(encoding="utf-8")

    def test_copy_has_the_hooks_and_all_else(self):
        for version in ("550.163.01", "595.45.04"):
            with self.subTest(version):
                self.tree, self.copy = self.top / version, self.top / f"{version}-copy"
                before = self.make(version)
                self.assert_done(says=f"{self.copy} is driver {version} with changes at")
                self.assertIn("nv_zernel_rm_ioctl(sp, nv, &nvlfp->nvfp,", self.text("nvidia/nv.c"))
                for source in sorted((HOME / "src").glob("*.c")):
                    self.assertIn(f"NVIDIA_SOURCES += nvidia/{source.name}\n",
                                  self.text("nvidia/nvidia-sources.Kbuild"))
                    self.assertTrue((self.copy / "nvidia" / source.name).is_file())
                kept = self.text("nvidia/nv-pci.c").count("nv_zernel_gpu_added(")
                self.assertEqual(kept, 1 if version.startswith("550") else 3)
                after = minitree.snapshot(self.copy)
                self.assertEqual(after["Kbuild"], before["Kbuild"])
                self.assertLessEqual(set(before), set(after))

    def test_layer_below_the_folder(self):
        for place in ("kernel-open", "modules/nvidia-open-kernel"):
            with self.subTest(place):
                self.tree, self.copy = self.top / place[0], self.top / f"{place[0]}-copy"
                minitree.write(self.tree / place, minitree.files())
                minitree.write(self.tree, {"src/nvidia/Makefile": "all:\n"})
                self.assert_done()
                self.assertIn("nv_zernel_rm_ioctl", self.text(f"{place}/nvidia/nv.c"))
                self.assertEqual(self.text("src/nvidia/Makefile"), "all:\n")

    def test_locks_are_not_held_around_hooks(self):
        self.make("595.45.04")
        self.assert_done()
        words = [line.strip() for line in self.text("nvidia/nv.c").splitlines()]
        self.assertEqual(words[words.index("nv_zernel_suspended();") + 1],
                         "down_write(&nv_system_pm_lock);")
        words = [line.strip() for line in self.text("nvidia/nv-pci.c").splitlines()]
        for number, word in enumerate(words):
            if word.startswith("nv_zernel_gpu_removed"):
                self.assertEqual(words[number + 1], "LOCK_NV_LINUX_DEVICES();")
            if word.startswith("nv_zernel_gpu_added"):
                self.assertEqual(words[number - 1], "UNLOCK_NV_LINUX_DEVICES();")

    def test_compat_only_has_no_hooks(self):
        self.make()
        self.assert_done("--compat-only")
        self.assertNotIn("nv_zernel_rm_ioctl", self.text("nvidia/nv.c"))
        self.assertNotIn("nv-zernel.h", self.text("nvidia/nv.c"))
        self.assertIn("nv_zernel_in_hardirq()", self.text("nvidia/os-interface.c"))
        self.assertFalse((self.copy / "nvidia/nv-zernel.c").exists())

    def test_compatibility_where_it_is_needed(self):
        self.make("595.45.04")
        self.assert_done()
        self.assertIn("in_irq()", self.text("nvidia/os-interface.c").replace("nv_zernel_", ""))
        self.assertNotIn("nv_zernel_in_hardirq", self.text("nvidia/os-interface.c"))
        self.assertNotIn("of_gpio", self.text("common/inc/nv-linux.h"))

    def test_compatibility_that_the_tree_has_already(self):
        self.make(path="nvidia/nv-dma.c", old="ops->map_resource != NULL", new="1")
        self.assert_done()

    def test_fix_for_one_version_alone(self):
        for version, times in (("550.163.01", 4), ("595.45.04", 0), ("560.1", 0)):
            with self.subTest(version):
                self.tree, self.copy = self.top / version, self.top / f"{version}-copy"
                self.make(version)
                done = self.run_apply()
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertNotIn("release-irq", done.stdout)
                fixed = self.text("nvidia/nv.c").count("nv_zernel_release_irq_on(rc, nv, nvl)")
                self.assertEqual(fixed, times)

    def test_step_of_a_start_that_is_not_fixed(self):
        before = self.make(path="nvidia/nv.c", old="rc = nv_kthread_q_init(&nvl->queue",
                           new="rc = 0;\n    nv_kthread_q_init(&nvl->queue")
        self.assert_refused(before, "compat/release-irq", "2 time(s) in nv_start_device()")

    def test_copy_that_is_there_stays(self):
        self.make()
        self.assert_done()
        before = minitree.snapshot(self.copy)
        self.assert_refused(minitree.snapshot(self.tree), "copy is there already; remove it")
        self.assertEqual(minitree.snapshot(self.copy), before)

    def test_patched_tree_is_no_source(self):
        self.make()
        self.assert_done()
        self.tree, self.copy = self.copy, self.top / "second"
        self.assert_refused(minitree.snapshot(self.tree), "hooks/")

    def test_check_makes_nothing(self):
        self.make()
        self.assert_done("--check", says="as expected")
        self.assertEqual(list(self.top.iterdir()), [self.tree])

    def test_folders_that_do_not_go_with_the_option(self):
        before = self.make()
        for arguments in (["--check", self.tree, self.copy], [self.tree], ["--compat-only", self.tree]):
            done = subprocess.run([sys.executable, str(HOME / "apply"), *map(str, arguments)],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2, arguments)
        self.assertEqual(minitree.snapshot(self.tree), before)
        self.assertFalse(self.copy.exists())

    def test_untried_version_with_all_hooks(self):
        self.make("600.1.2")
        self.assert_done(says="driver 600.1.2 was not tried")

    def test_untried_version_without_a_hook(self):
        before = self.make("600.1.2", "nvidia/nv.c", "rm_ioctl(", "rm_call(")
        self.assert_refused(before, "hooks/ioctl", "1 time(s) in nvidia_ioctl()", "nowhere")

    def test_untried_version_that_needs_no_compatibility(self):
        self.make("600.1.2", "nvidia/os-interface.c", "os_is_isr", "os_is_anything")
        self.assert_done(says="compat/in-irq is left out")

    def test_hook_missing(self):
        before = self.make(path="nvidia/nv.c", old="down_write(", new="down_wryte(")
        self.assert_refused(before, "hooks/power", "'nv_zernel_suspended();' to be added",
                            "nv_set_system_power_state()", "nowhere")

    def test_hook_twice(self):
        call = "    rm_cleanup_file_private(sp, nv, &nvlfp->nvfp);\n"
        before = self.make(path="nvidia/nv.c", old=call + "    return 0;",
                           new=call + call + "    return 0;")
        self.assert_refused(before, "hooks/file-close", "it was 2 time(s)", "in nvidia_ctl_close()")

    def test_hook_in_another_function(self):
        before = self.make(path="nvidia/nv.c", old="nvidia_ctl_close(", new="nvidia_ctl_release(")
        self.assert_refused(before, "hooks/file-close: matched at nvidia/nv.c:",
                            "in nvidia_ctl_release()", "expected at nvidia/nv.c: 1 time(s) in "
                            "nvidia_c")

    def test_more_changes_than_the_hooks(self):
        braces = "        {\n            up_write(&nv_system_pm_lock);\n        }\n"
        before = self.make(path="nvidia/nv.c", old=braces,
                           new="            up_write(&nv_system_pm_lock);\n")
        self.assert_refused(before, "'if (status) {' came, which no hook asks for")

    def test_removal_that_may_keep_the_gpu_in_another_way(self):
        before = self.make("595.45.04", "nvidia/nv-pci.c",
                           "        UNLOCK_NV_LINUX_DEVICES();\n        return;",
                           "        UNLOCK_NV_LINUX_DEVICES();\n        log_it();\n        return;")
        self.assert_refused(before, "hooks/gpu-remove", "in nv_pci_remove_helper()")

    def test_function_that_cannot_be_parsed(self):
        before = self.make(path="nvidia/nv.c", old="switch (cmd)", new="switch (cmd) ) (")
        self.assert_refused(before, "hooks/ioctl", "in nvidia_ioctl()")

    def test_own_file_that_somebody_else_put_there(self):
        self.make()
        minitree.write(self.tree, {"nvidia/nv-zernel.c": "int mine;\n"})
        self.assert_refused(minitree.snapshot(self.tree), "nv-zernel.c is there already")

    def test_list_of_sources_without_anchor(self):
        before = self.make(path="nvidia/nvidia-sources.Kbuild", old="nvidia/nv.c", new="nvidia/nw.c")
        self.assert_refused(before, "has 0 lines 'NVIDIA_SOURCES += nvidia/nv.c'")

    def test_not_a_tree(self):
        self.tree.mkdir()
        self.assert_refused({}, "is no source tree of NVIDIA's open driver", "nvidia/nv.c")

    def test_no_folder(self):
        done = self.run_apply()
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not a folder", done.stderr)

    def test_closed_flavour(self):
        before = self.make(path="nvidia/nv.c", old="Dual MIT/GPL", new="NVIDIA")
        self.assert_refused(before, "closed flavour", "install the open flavour")

    def test_no_version(self):
        before = self.make(path="Kbuild", old="NV_VERSION_STRING", new="NV_OTHER_STRING")
        self.assert_refused(before, "does not say which version")

    def test_tree_that_nobody_may_write_to(self):
        self.make()
        for path in (self.tree / "Kbuild", self.tree / "nvidia/nv.c", self.tree / "nvidia", self.tree):
            path.chmod(path.stat().st_mode & ~0o222)
            self.addCleanup(path.chmod, 0o755)
        done = self.run_apply(obey=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("Kbuild", "nvidia/nv.c"):
            self.assertEqual((self.copy / name).stat().st_mode & 0o777, 0o644)
        (self.copy / "nvidia/nv-zernel.c").unlink()

    def test_place_that_nobody_may_write_to(self):
        before = self.make()
        closed = self.top / "closed"
        closed.mkdir(0o555)
        self.copy = closed / "copy"
        self.assert_refused(before, "cannot write to", obey=True)

    def test_place_without_a_folder(self):
        self.copy = self.top / "none/copy"
        self.assert_refused(self.make(), "there is no folder", "to make copy in")

    def test_place_inside_the_tree(self):
        self.copy = self.tree / "nvidia/copy"
        self.assert_refused(self.make(), "is inside")

    def run_main(self, error: BaseException) -> tuple[int, str]:
        """The program's main() where the system refuses to make the copy."""
        spec = importlib.util.spec_from_loader(
            "apply", importlib.machinery.SourceFileLoader("apply", str(HOME / "apply")))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        said = io.StringIO()
        arguments = ["apply", "--compat-only", str(self.tree), str(self.copy)]
        with (mock.patch.object(sys, "argv", arguments),
              mock.patch.object(shutil, "copytree", side_effect=error),
              contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said)):
            return module.main(), said.getvalue()

    def test_what_the_system_refuses(self):
        self.make()
        full = [("/from", "/full", "[Errno 28] No space left on device: '/full'")]
        for error, words in (
                (shutil.Error(full), "nvidia-patch: No space left on device: '/full' at /full; "),
                (OSError(errno.EROFS, "", "/full"), "/full is on a file system that cannot be "
                                                    "written to; name another folder"),
                (OSError(errno.EACCES, "", "/full"), "cannot write to /full; run this as its")):
            with self.subTest(words):
                code, said = self.run_main(error)
                self.assertEqual(code, 1)
                self.assertIn(words, said)

    def test_interrupted(self):
        self.make()
        code, said = self.run_main(KeyboardInterrupt())
        self.assertEqual(code, 130)
        self.assertIn("interrupted; nothing was made", said)

    def test_what_a_link_leads_to_stays(self):
        self.make()
        (self.tree / "nvidia/nv.c").rename(self.top / "nv.c")
        (self.tree / "nvidia/nv.c").symlink_to(self.top / "nv.c")
        self.assert_done()
        self.assertIn("nv_zernel", self.text("nvidia/nv.c"))
        self.assertEqual((self.top / "nv.c").read_text(encoding="utf-8"), minitree.NV_C)

    def test_without_spatch(self):
        before = self.make()
        self.assert_refused(before, "install Coccinelle", path="/nowhere")


class Copy(unittest.TestCase):
    """The copy is whole or not there, after any stop of the run."""

    FILES = {"nvidia/nv.c": b"int hooked;\n", "nvidia/new.c": b"int own;\n"}

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="zernel-copy-")
        self.addCleanup(folder.cleanup)
        self.tree, self.copy = Path(folder.name, "tree"), Path(folder.name, "copy")
        minitree.write(self.tree, minitree.files())
        self.before = minitree.snapshot(self.tree)

    def assert_whole(self) -> None:
        """The copy has the files, and nothing lies beside it."""
        after = minitree.snapshot(self.copy)
        self.assertEqual({name: content for name, (content, _) in after.items()},
                         {name: content for name, (content, _) in self.before.items()} | self.FILES)
        self.assertEqual(sorted(self.tree.parent.iterdir()), [self.copy, self.tree])

    def test_stopped_at_each_step(self):
        for name in ("unlink", "rename"):
            for error in (KeyboardInterrupt, OSError(errno.ENOSPC, "full")):
                owner = os if name == "rename" else Path
                with mock.patch.object(owner, name, side_effect=error):
                    with self.assertRaises((KeyboardInterrupt, OSError)):
                        fresh.make(self.tree, self.copy, self.FILES)
                self.assertEqual(list(self.tree.parent.iterdir()), [self.tree])
        self.assertEqual(minitree.snapshot(self.tree), self.before)

    def test_killed_at_any_time(self):
        pid = os.fork()
        if pid == 0:
            with mock.patch.object(os, "rename", lambda *_: os.kill(os.getpid(), signal.SIGKILL)):
                fresh.make(self.tree, self.copy, self.FILES)
            os._exit(0)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), -signal.SIGKILL)
        self.assertFalse(self.copy.exists())
        self.assertTrue(fresh.partial(self.copy).exists())
        fresh.make(self.tree, self.copy, self.FILES)
        self.assert_whole()

    def test_told_to_end(self):
        with mock.patch.object(os, "rename", lambda *_: os.kill(os.getpid(), signal.SIGTERM)):
            with self.assertRaises(KeyboardInterrupt):
                fresh.make(self.tree, self.copy, self.FILES)
        self.assertEqual(list(self.tree.parent.iterdir()), [self.tree])


if __name__ == "__main__":
    unittest.main()
