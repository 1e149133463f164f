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
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

HOME = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(HOME), str(Path(__file__).resolve().parent)]

import minitree  # noqa: E402
from patcher.journal import COMING, FOLDER, Journal  # noqa: E402

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1


def drop_override() -> None:
    """In a child, before exec: root obeys the permissions of files, too."""
    if os.geteuid() == 0:
        ctypes.CDLL(None, use_errno=True).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


class Apply(unittest.TestCase):
    """Changes, refusals, and trees that a refusal leaves alone."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="zernel-apply-")
        self.addCleanup(folder.cleanup)
        self.top = Path(folder.name)
        self.tree = self.top / "tree"
        self.home = HOME

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
        return subprocess.run(
            [sys.executable, str(self.home / "apply"), *arguments, str(self.tree)], env=env,
            capture_output=True, text=True, check=False,
            preexec_fn=drop_override if obey else None)

    def assert_refused(self, before: dict, *words: str, **options) -> None:
        """The run must fail, say every one of the words, and change nothing."""
        done = self.run_apply(**options)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(minitree.snapshot(self.tree), before)

    def assert_done(self, *arguments: str, says: str = "") -> None:
        """The run must succeed."""
        done = self.run_apply(*arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(says, done.stdout)

    def text(self, path: str) -> str:
        """A file of the tree."""
        return (self.tree / path).read_text(encoding="utf-8")

    def test_patches_and_reverts(self):
        for version in ("550.163.01", "595.45.04"):
            with self.subTest(version):
                self.tree = self.top / version
                before = self.make(version)
                self.assert_done(says="is patched")
                self.assertIn("nv_zernel_rm_ioctl(sp, nv, &nvlfp->nvfp,", self.text("nvidia/nv.c"))
                for source in sorted((HOME / "src").glob("*.c")):
                    self.assertIn(f"NVIDIA_SOURCES += nvidia/{source.name}\n",
                                  self.text("nvidia/nvidia-sources.Kbuild"))
                    self.assertTrue((self.tree / "nvidia" / source.name).is_file())
                kept = self.text("nvidia/nv-pci.c").count("nv_zernel_gpu_added(")
                self.assertEqual(kept, 1 if version.startswith("550") else 3)
                self.assert_done("--revert", says="as it was")
                self.assertEqual(minitree.snapshot(self.tree), before)
                self.assertEqual(sorted(p.name for p in self.tree.iterdir() if p.is_dir()),
                                 ["common", "nvidia", "nvidia-uvm"])

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
        self.assertNotIn("nv_zernel", self.text("nvidia/nv.c"))
        self.assertIn("nv_zernel_in_hardirq()", self.text("nvidia/os-interface.c"))
        self.assertFalse((self.tree / "nvidia/nv-zernel.c").exists())
        self.assert_done(says="is patched")
        self.assertIn("nv_zernel_rm_ioctl", self.text("nvidia/nv.c"))

    def test_compatibility_where_it_is_needed(self):
        self.make("595.45.04")
        self.assert_done()
        self.assertIn("in_irq()", self.text("nvidia/os-interface.c").replace("nv_zernel_", ""))
        self.assertNotIn("nv_zernel_in_hardirq", self.text("nvidia/os-interface.c"))
        self.assertNotIn("of_gpio", self.text("common/inc/nv-linux.h"))

    def test_compatibility_that_the_tree_has_already(self):
        self.make(path="nvidia/nv-dma.c", old="ops->map_resource != NULL", new="1")
        self.assert_done()

    def test_second_run_changes_nothing(self):
        self.make()
        self.assert_done()
        before = minitree.snapshot(self.tree)
        self.assert_done(says="is patched already")
        self.assert_done("--check", says="is patched already")
        self.assertEqual(minitree.snapshot(self.tree), before)

    def test_check_changes_nothing(self):
        before = self.make()
        self.assert_done("--check", says="as expected")
        self.assertEqual(minitree.snapshot(self.tree), before)

    def test_older_patch_is_replaced(self):
        before = self.make()
        self.home = self.top / "older"
        shutil.copytree(HOME, self.home)
        source = self.home / "src/nv-zernel.c"
        source.write_text(source.read_text(encoding="utf-8") + "/* older */\n", encoding="utf-8")
        (self.home / "src/nv-zernel-gone.c").write_text("int nv_zernel_gone;\n", encoding="utf-8")
        self.assert_done()
        self.home = HOME
        self.assert_done(says="is patched:")
        self.assertNotIn("/* older */", self.text("nvidia/nv-zernel.c"))
        self.assertNotIn("gone", self.text("nvidia/nvidia-sources.Kbuild"))
        self.assertFalse((self.tree / "nvidia/nv-zernel-gone.c").exists())
        self.assert_done("--revert")
        self.assertEqual(minitree.snapshot(self.tree), before)

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

    def test_edited_after_patch(self):
        self.make()
        self.assert_done()
        with open(self.tree / "nvidia/nv-pci.c", "a", encoding="utf-8") as file:
            file.write("/* mine */\n")
        before = minitree.snapshot(self.tree)
        self.assert_refused(before, "edited after they were patched", "nvidia/nv-pci.c")
        done = self.run_apply("--revert")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nvidia/nv-pci.c", done.stderr)
        self.assertEqual(minitree.snapshot(self.tree), before)

    def test_lost_original(self):
        self.make()
        self.assert_done()
        (self.tree / FOLDER / "original/nvidia/nv.c").unlink()
        before = minitree.snapshot(self.tree)
        done = self.run_apply("--revert")
        self.assertEqual(done.returncode, 1)
        self.assertIn("original/nvidia/nv.c was edited or removed", done.stderr)
        self.assertEqual(minitree.snapshot(self.tree), before)

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

    def test_unwritable(self):
        before = self.make()
        (self.tree / "nvidia").chmod(0o555)
        self.addCleanup((self.tree / "nvidia").chmod, 0o755)
        self.assert_refused(before, "cannot write to", "/nvidia", obey=True)

    def run_main(self, error: BaseException) -> tuple[int, str]:
        """The program's main() where the system refuses the first change."""
        spec = importlib.util.spec_from_loader(
            "apply", importlib.machinery.SourceFileLoader("apply", str(HOME / "apply")))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        said = io.StringIO()
        with (mock.patch.object(sys, "argv", ["apply", "--compat-only", str(self.tree)]),
              mock.patch.object(Journal, "apply", side_effect=error),
              contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said)):
            return module.main(), said.getvalue()

    def test_what_the_system_refuses(self):
        self.make()
        for number, words in ((errno.ENOSPC, "No space left on device at /full; correct that"),
                              (errno.EROFS, "/full is on a file system that cannot be written to"),
                              (errno.EACCES, "cannot write to /full; run this as its owner")):
            with self.subTest(words):
                code, said = self.run_main(OSError(number, os.strerror(number), "/full"))
                self.assertEqual(code, 1)
                self.assertIn(words, said)

    def test_interrupted(self):
        self.make()
        code, said = self.run_main(KeyboardInterrupt())
        self.assertEqual(code, 130)
        self.assertIn("interrupted", said)

    def test_link(self):
        self.make()
        (self.tree / "nvidia/nv.c").rename(self.top / "nv.c")
        (self.tree / "nvidia/nv.c").symlink_to(self.top / "nv.c")
        self.assert_refused(minitree.snapshot(self.tree), "nvidia/nv.c is a link")

    def test_without_spatch(self):
        before = self.make()
        self.assert_refused(before, "install Coccinelle", path="/nowhere")

    def test_stopped_before_the_first_file(self):
        before = self.make()
        (self.tree / COMING / "original").mkdir(parents=True)
        self.assert_done("--revert", says="put back")
        self.assertEqual(minitree.snapshot(self.tree), before)

    def test_stopped_midway(self):
        before = self.make()
        journal = Journal(self.tree)
        files = {"nvidia/nv.c": minitree.NV_C + "int a;\n", "nvidia/b.c": "int b;\n"}
        journal.apply("old", "550.163.01", files)
        manifest = self.tree / FOLDER / "manifest.json"
        manifest.write_text(manifest.read_text(encoding="utf-8").replace("applied", "applying"),
                            encoding="utf-8")
        (self.tree / "nvidia/b.c").unlink()
        state = minitree.snapshot(self.tree)
        done = self.run_apply("--check")
        self.assertEqual(done.returncode, 1)
        self.assertIn("was stopped", done.stderr)
        self.assertEqual(minitree.snapshot(self.tree), state)
        self.assert_done(says="put back")
        self.assertIn("nv_zernel_rm_ioctl", self.text("nvidia/nv.c"))
        self.assert_done("--revert")
        self.assertEqual(minitree.snapshot(self.tree), before)


if __name__ == "__main__":
    unittest.main()
