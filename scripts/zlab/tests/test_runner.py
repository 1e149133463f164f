# SPDX-License-Identifier: GPL-2.0
"""Tests of the log scanner, the initramfs and the verdict, without QEMU."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from zlab.console import Scanner
from zlab.guest import Guest, GuestError
from zlab.initramfs import Initramfs, InitramfsError, generator, libraries
from zlab.ktap import Summary
from zlab.run import Stream, clean
from zlab.verdict import Verdict

FAULTS = (
    "[    3.1] WARNING: CPU: 0 PID: 1 at kernel/fork.c:1 x+0x1/0x2",
    "[    3.1] BUG: kernel NULL pointer dereference, address: 0",
    "[    3.1] Oops: 0000 [#1] SMP",
    "[    3.1] kernel BUG at mm/slub.c:1!",
    "[    3.1] Kernel panic - not syncing: Fatal exception",
    "[    3.1] rust_kernel: panicked at rust/x.rs:1:1:",
    "[    3.1] WARNING: possible recursive locking detected",
    "[    3.1] WARNING: suspicious RCU usage",
    "[    3.1] BUG: scheduling while atomic: x/1/0x2",
    "[    3.1] BUG: sleeping function called from invalid context at x.c:1",
    "[    3.1] INFO: task x:1 blocked for more than 120 seconds.",
    "unreferenced object 0xffff888003a4d000 (size 64):",
    "[    3.1] kmemleak: 2 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
    "[    3.1] ODEBUG: free active (active state 0) object: 0 object type: timer_list",
    "[    3.1] refcount_t: underflow; use-after-free.",
    "[    3.1] list_del corruption. prev->next should be x",
    "[    3.1] rcu: INFO: rcu_preempt self-detected stall on CPU",
    "[    3.1] watchdog: BUG: soft lockup - CPU#0 stuck for 22s!",
    "[    3.1] zernel: Unknown symbol zernel_helper_x (err -2)",
)
CLEAN = (
    "[    0.1] zernel: loading out-of-tree module taints kernel.",
    "[    0.1] Linux version 7.3.4-zernel-debug",
    "[    0.1] RETBleed: WARNING: Spectre v2 mitigation leaves CPU vulnerable",
    "[    0.1] rcu: Preemptible hierarchical RCU implementation.",
    "a program's own debug output",
)


def verdict(**changes) -> Verdict:
    """The verdict on a good run with some facts changed."""
    facts = {"name": "t", "wants_ktap": True, "status": 0, "timed_out": False, "deadline": 5,
             "seconds": 1.0, "last_line": "x", "faults": [],
             "summaries": [Summary(passed=["a"])]}
    return Verdict.of(**{**facts, **changes})


class Console(unittest.TestCase):
    """The reports of the scanner."""

    def test_each_fault_is_found(self):
        for line in FAULTS:
            with self.subTest(line):
                scanner = Scanner()
                scanner.feed(line)
                self.assertEqual(scanner.faults, [line])

    def test_clean_lines_are_not(self):
        scanner = Scanner()
        for line in CLEAN:
            scanner.feed(line)
        self.assertEqual(scanner.faults, [])

    def test_allowed_lines_are_not(self):
        scanner = Scanner("kernel/fork.c")
        scanner.feed(FAULTS[0])
        self.assertEqual(scanner.faults, [])

    def test_leaks_of_one_place_are_one_fault(self):
        scanner = Scanner()
        for address in ("ff1100000758c040", "ff1100000758c240"):
            for line in (f"unreferenced object 0x{address} (size 64):",
                         r'  comm "a\d (b)", pid 7, jiffies 42949',
                         "  hex dump (first 32 bytes):",
                         "    00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f  ................",
                         "  backtrace (crc 5e1f):",
                         "    __kmalloc_cache_noprof+0x2f/0x40",
                         "    rust_helper_krealloc_node_align+0x2f/0x40",
                         "    [<000000001>] make+0x10/0x20 [zernel]",
                         "    b+0x1/0x2", "    c+0x1/0x2", "    d+0x1/0x2", "    e+0x1/0x2"):
                scanner.feed(line)
        scanner.feed("# all done")
        scanner.feed("    f+0x1/0x2")
        fault = r'unreferenced object (size 64) of "a\d (b)": make [zernel] < b < c < d'
        self.assertEqual(scanner.faults, [fault, fault])
        self.assertIn(f"in the log, 2 times: {fault}", verdict(faults=scanner.faults).problems)

    def test_lines_are_cut_across_reads(self):
        stream = Stream("x")
        self.assertEqual(stream.lines(b"one\r\ntw"), ["one"])
        self.assertEqual(stream.lines(b"o\nthree"), ["two"])
        self.assertEqual(stream.tail(), ["three"])

    def test_a_line_written_over_keeps_its_last_text(self):
        stream = Stream("x")
        self.assertEqual(stream.lines(b"1 of 2\r2 of 2\r\x1b[Kdone\r\n3 of 4\r4 o"), ["done"])
        self.assertEqual(stream.progress(), "4 o")

    def test_terminal_controls_are_removed(self):
        self.assertEqual(clean(b"\x1bc\x1b[?7l\x1b[2Jok\r"), "ok")


class Judgement(unittest.TestCase):
    """When a run is good."""

    def test_good_run(self):
        self.assertTrue(verdict().ok)

    def test_bad_runs(self):
        bad = ({"status": 1}, {"status": None}, {"status": None, "timed_out": True},
               {"faults": [FAULTS[0]]}, {"summaries": []},
               {"summaries": [Summary(passed=["a"], failed=["b"])]})
        for changes in bad:
            with self.subTest(changes):
                self.assertFalse(verdict(**changes).ok)

    def test_without_ktap_silence_is_fine(self):
        self.assertTrue(verdict(wants_ktap=False, summaries=[]).ok)

    def test_reason_names_the_deadline(self):
        self.assertIn("deadline of 5 s", verdict(status=None, timed_out=True).text())


class Pack(unittest.TestCase):
    """The initramfs and QEMU's command line."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = Path(folder.name)

    def test_list_has_parents_once_and_no_path_of_the_host(self):
        (self.top / "a b$x.ko").write_text("abc", encoding="utf-8")
        image = Initramfs(self.top)
        image.file("/lib/modules/a.ko", self.top / "a b$x.ko", 0o600)
        image.text("lib/modules/b", "b\n")
        image.device("dev/null", 1, 3, 0o666)
        self.assertEqual(image.lines, [
            "dir /lib 755 0 0", "dir /lib/modules 755 0 0", "file /lib/modules/a.ko 1 600 0 0",
            "file /lib/modules/b 2 644 0 0", "dir /dev 755 0 0", "nod /dev/null 666 0 0 c 1 3"])
        self.assertEqual((self.top / "1").read_text(encoding="utf-8"), "abc")

    def test_folders_keep_their_files_and_modes(self):
        (self.top / "from/sub").mkdir(parents=True)
        (self.top / "from/sub/run").write_text("", encoding="utf-8")
        (self.top / "from/sub/run").chmod(0o755)
        image = Initramfs(self.top)
        image.add(self.top / "from", "/zernel/")
        self.assertEqual(image.lines, ["dir /zernel 755 0 0", "dir /zernel/sub 755 0 0",
                                       "file /zernel/sub/run 1 755 0 0"])

    def test_linked_programs_bring_each_library_once(self):
        (self.top / "fake").write_text("#!/bin/sh\n", encoding="utf-8")
        loader, libc = self.top / "ld-linux.so.2", self.top / "libc.so.6"
        for library in (loader, libc):
            library.write_text("", encoding="utf-8")
        found = f"\tlinux-vdso.so.1 (0x0001)\n\tlibc.so.6 => {libc} (0x0002)\n\t{loader} (0x0003)\n"
        image = Initramfs(self.top)
        with self.ldd(found):
            image.link(self.top / "fake", "/zernel/bin/")
            image.link(self.top / "fake", "/lib/libcuda.so.1")
        names = [line.split()[1] for line in image.lines if line.startswith("file")]
        self.assertEqual(names, ["/zernel/bin/fake", str(libc), str(loader), "/lib/libcuda.so.1"])

    def test_libraries_of_this_machine_are_found(self):
        found = libraries(Path(sys.executable))
        self.assertTrue(any(path.name.startswith("libc.so") for path in found))
        self.assertTrue(any(path.name.startswith("ld-") for path in found))
        self.assertTrue(all(path.is_file() for path in found))

    def test_programs_that_cannot_be_linked_are_sentences(self):
        script = self.top / "script"
        script.write_text("#!/bin/sh\n", encoding="utf-8")
        with self.assertRaisesRegex(InitramfsError, "script is not linked dynamically: "):
            Initramfs(self.top).link(script, "/")
        with self.assertRaisesRegex(InitramfsError, "absent to the guest: it is not a file"):
            Initramfs(self.top).link(self.top / "absent", "/")
        with self.ldd("\tlibx.so.1 => not found\n\tliby.so => not found\n"), \
                self.assertRaisesRegex(InitramfsError, "needs libx.so.1, liby.so, which the host"):
            libraries(script)

    def ldd(self, output: str):
        """An ldd that says this."""
        folder = self.top / "bin"
        folder.mkdir(exist_ok=True)
        (folder / "output").write_text(output, encoding="utf-8")
        (folder / "ldd").write_text(f"#!/bin/sh\ncat {folder}/output\n", encoding="utf-8")
        (folder / "ldd").chmod(0o755)
        return mock.patch.dict(os.environ, {"PATH": f"{folder}:{os.environ['PATH']}"})

    def test_blank_in_a_name_is_a_sentence(self):
        with self.assertRaisesRegex(InitramfsError, "'lib/a b': .* no blanks"):
            Initramfs(self.top).directory("lib/a b")

    def test_failed_program_is_a_sentence(self):
        with self.assertRaisesRegex(InitramfsError, "false failed"):
            Initramfs(self.top).write(self.top / "i.cpio", Path("/bin/false"))

    def test_program_of_the_kernel_s_build(self):
        program = self.top / "usr/gen_init_cpio"
        program.parent.mkdir()
        program.write_text("", encoding="utf-8")
        program.chmod(0o755)
        self.assertEqual(generator(self.top, self.top / "cache"), program)

    def test_program_compiled_once_from_the_kernel_s_source(self):
        source = self.top / "source/usr/gen_init_cpio.c"
        source.parent.mkdir(parents=True)
        source.write_text("int main(void) { return 0; }\n", encoding="utf-8")
        program = generator(self.top, self.top / "cache")
        self.assertEqual(subprocess.call([program]), 0)
        made = program.stat().st_mtime_ns
        self.assertEqual(generator(self.top, self.top / "cache"), program)
        self.assertEqual(program.stat().st_mtime_ns, made)

    def test_program_that_cannot_be_compiled_is_a_sentence(self):
        source = self.top / "usr/gen_init_cpio.c"
        source.parent.mkdir()
        source.write_text("no C\n", encoding="utf-8")
        with self.assertRaisesRegex(InitramfsError, "cannot be compiled: "):
            generator(self.top, self.top / "cache")

    def test_no_program_is_a_sentence(self):
        with self.assertRaisesRegex(InitramfsError, "CONFIG_BLK_DEV_INITRD"):
            generator(self.top, self.top / "cache")

    def test_missing_file_is_a_sentence(self):
        with tempfile.TemporaryDirectory() as work:
            guest = Guest(Path(work), add=["/nowhere/at/all:/x"])
            with self.assertRaises(GuestError) as caught:
                guest.pack(Path(work) / "i.cpio")
        self.assertIn("/nowhere/at/all", str(caught.exception))

    def test_missing_kernel_is_a_sentence(self):
        with self.assertRaises(GuestError):
            Guest(Path("/nowhere")).check()

    def test_icount_is_deterministic_by_construction(self):
        line = Guest(Path("/k"), mode="icount").qemu(Path("i"), ["a", "b"])
        self.assertIn("shift=0,sleep=off", line)
        self.assertEqual(line[line.index("-smp") + 1], "1")


if __name__ == "__main__":
    unittest.main()
