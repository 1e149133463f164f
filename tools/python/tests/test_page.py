# SPDX-License-Identifier: MIT OR Apache-2.0
"""The examples of the page run as they are, and it has the names of the package."""

import contextlib
import importlib.util
import io
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import page
import standin
import zernel
from zernel._metrics import Metrics

PAGE = Path(__file__).resolve().parents[3] / "Documentation/runtime-python.rst"
README = PAGE.parents[1] / "README.md"
RUNTIME = PAGE.with_name("runtime.rst")
#: A case of bad input in C.
C_CASE = re.compile(r'\{ "([^"]+)", \w+, E\w+, "ZERNEL_(\w+)" \}')
#: The same in C++, where `bad` is `ZERNEL_BAD_ARGUMENT`.
CPP_CASE = re.compile(r'(?:row|expect)\("([^"]+)",\s+E\w+,\s+(?:"ZERNEL_(\w+)"|bad),')
#: The output of each example without zernel.
SAID = {
    "serve.py": r"4\n499500\n4\n[0-9.]+ None None\n",
    "request.py": r"1\n2\nZERNEL_OFF: it is switched off\n",
    "sized.py": r"8\n",
    "stream.py": "",
    "graph.py": r"1\n2\n",
    "server.py": r"IN A THREAD\n4\n",
    "train.py": r"4\n4\n2\n",
    "replay.py": r"1\n2\n",
}
#: Those that need a GPU in place of the CPU build of PyTorch.
OF_CUDA = {"replay.py"}


class Page(unittest.TestCase):
    """Documentation/runtime-python.rst."""

    def test_examples(self) -> None:
        found = page.examples(PAGE)
        self.assertEqual([name for name, _ in found["python"]], list(SAID))
        has_torch = importlib.util.find_spec("torch") is not None
        with tempfile.TemporaryDirectory() as folder:
            for name, text in found["yaml"]:
                Path(folder, name).write_text(text, encoding="utf-8")
            before = os.getcwd()
            os.chdir(folder)
            self.addCleanup(os.chdir, before)
            for name, text in found["python"]:
                said = io.StringIO()
                with (self.subTest(name), contextlib.redirect_stdout(said),
                      mock.patch.dict(sys.modules)):
                    if name in OF_CUDA or not has_torch:
                        standin.install()
                    exec(compile(text, name, "exec"), {"__name__": "__main__"})
                self.assertRegex(said.getvalue(), f"^{SAID[name]}$")
            os.chdir(before)

    def test_example_of_the_readme(self) -> None:
        blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"),
                            re.MULTILINE | re.DOTALL)
        self.assertEqual(len(blocks), 1)
        names = {"question": "a b", "decode": str.split, "first_layer": len, "other_layers": float}
        exec(compile(blocks[0], "README.md", "exec"), names)
        self.assertEqual(names["answer"], 2)
        self.assertTrue(names["request"].is_ready and names["request"].is_over)

    def test_names(self) -> None:
        text = PAGE.read_text(encoding="utf-8") + RUNTIME.read_text(encoding="utf-8")
        names = {*zernel.__all__, *Metrics.__dataclass_fields__, *zernel.Priority.__members__}
        for kind in (zernel.Runtime, zernel.Request, zernel.GraphRequests, zernel.Scheduler,
                     zernel.PrefetchSignal):
            names |= {name for name in vars(kind) if not name.startswith("_")}
        names -= {"__version__"}
        missing = sorted(name for name in names if name not in text)
        self.assertEqual(missing, [])

    def test_names_of_metrics(self) -> None:
        rows = page.table(RUNTIME.read_text(encoding="utf-8"), "Metrics")
        names = [name for row in rows for name in re.findall(r"``(\w+)``", row[0])]
        self.assertEqual(sorted(names), sorted(Metrics.__dataclass_fields__))

    def test_bad_input_is_that_of_c(self) -> None:
        told = page.bad_input(RUNTIME)
        self.assertGreater(sum(1 for _, python in told.values() if python), 25)
        folder = PAGE.parents[1] / "tools/tests/cudatest/languages"
        found = {}
        for source in folder.glob("*.c"):
            found |= dict(C_CASE.findall(source.read_text(encoding="utf-8")))
        self.assertGreater(len(found), 25)
        # The page has those of C, each with its name.
        self.assertEqual({name: told.get(name, [None])[0] for name in found}, found)
        cpp = {}
        for source in folder.glob("*.cc"):
            for name, error in CPP_CASE.findall(source.read_text(encoding="utf-8")):
                cpp[name] = error or "BAD_ARGUMENT"
        of_both = {name: error for name, (error, _) in told.items() if name in cpp}
        self.assertEqual({name: cpp[name] for name in of_both}, of_both)
        # Each that the page tells is tried in C or C++.
        of_page = {name for name, (error, _) in told.items() if error}
        self.assertEqual(of_page - {*found, *cpp}, set())


if __name__ == "__main__":
    unittest.main()
