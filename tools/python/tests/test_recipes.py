# SPDX-License-Identifier: MIT OR Apache-2.0
"""The recipes run as the page has them, with small modules in the place of the servers'."""

import contextlib
import sys
import types
import unittest
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import page
import zernel
import zernel.torch

PAGE = Path(__file__).resolve().parents[3] / "Documentation/recipes.rst"
NAMES = ["serve.py", "model.py", "zernel_vllm.py"]


class Recorder:
    """A runtime that notes its requests, between the calls of a server."""

    def __init__(self) -> None:
        self.notes: list = []
        self.own = zernel.attach(mode="off")
        self.inert = None

    @contextlib.contextmanager
    def request(self, stream: object = None, **spec: object) -> Iterator[types.SimpleNamespace]:
        """As that of a runtime, which checks the arguments."""
        with self.own.request(stream, **spec) as request:
            self.notes.append(("begin", spec["key"]))

            def ready() -> None:
                self.notes.append("ready")
                request.ready()

            yield types.SimpleNamespace(ready=ready)
        self.notes.append("done")

    def close(self) -> None:
        """As that of a runtime."""
        self.notes.append("close")
        self.own.close()


class Array(list):
    """An array, or a tensor: its rows."""

    def numpy(self) -> "Array":
        """Itself."""
        return self

    as_numpy = cpu = eval = numpy

    def reshape(self, shape: tuple) -> "Array":
        """With the first length of a shape."""
        assert len(self) == shape[0]
        return self

    def to(self, device: tuple) -> "Array":
        """On a device."""
        assert device == ("cuda", 1)
        return self

    def split(self, lengths: list[int]) -> list["Array"]:
        """Parts."""
        assert sum(lengths) == len(self)
        rows = iter(self)
        return [Array(next(rows) for _ in range(length)) for length in lengths]


def module(name: str, **names: object) -> types.ModuleType:
    """A module with these names, which is there for imports."""
    found = types.ModuleType(name)
    vars(found).update(names)
    sys.modules[name] = found
    return found


class Recipes(unittest.TestCase):
    """Documentation/recipes.rst."""

    def setUp(self) -> None:
        modules = mock.patch.dict(sys.modules)
        modules.start()
        self.addCleanup(modules.stop)
        self.runtime = Recorder()
        made = mock.Mock(**{"on_device.return_value": self.runtime})
        for target in (zernel, zernel.torch):
            patch = mock.patch.object(target, "Runtime", made)
            patch.start()
            self.addCleanup(patch.stop)
        known = mock.patch.dict(zernel.torch._runtimes, clear=True)
        known.start()
        self.addCleanup(known.stop)
        self.made, self.notes = made, self.runtime.notes

    def run_block(self, name: str) -> dict:
        """Runs a block of the page; its names."""
        names = {"__name__": name.removesuffix(".py")}
        exec(compile(dict(page.examples(PAGE)["python"])[name], name, "exec"), names)
        return names

    def test_each_block_is_run(self) -> None:
        found = page.examples(PAGE)
        self.assertEqual([name for name, _ in found["python"]], NAMES)
        text = PAGE.read_text(encoding="utf-8")
        # Nothing of Python stands outside of them.
        self.assertEqual(text.count("import zernel"), len(NAMES))
        self.assertEqual(text.count("*Not yet run on a GPU.*"), len(NAMES))

    def test_onnx_runtime(self) -> None:
        notes = self.notes

        class Session:
            """Of a model with one input."""

            def __init__(self, path: str, providers: list[str]) -> None:
                notes.append((path, providers))

            def get_inputs(self) -> list:
                """Its name."""
                return [types.SimpleNamespace(name="pixels")]

            def run(self, outputs: None, inputs: dict) -> list:
                """Answers."""
                notes.append(("run", outputs, inputs))
                return ["answer"]

        def fromfile(path: str, kind: str) -> Array:
            notes.append((path, kind))
            return Array([path])

        module("onnxruntime", InferenceSession=Session)
        module("numpy", fromfile=fromfile, zeros=lambda shape, kind: (shape, kind))
        names = self.run_block("serve.py")
        self.made.on_device.assert_called_once_with(0)
        self.assertEqual(names["answer"]("image"), ["answer"])
        self.assertEqual(notes, [
            ("model.onnx", ["CUDAExecutionProvider"]),
            ("run", None, {"pixels": ((1, 3, 224, 224), "float32")}),
            ("begin", "resnet50/1"), ("image", "float32"), "ready",
            ("run", None, {"pixels": ["image"]}), "done"])

    def test_triton(self) -> None:
        notes = self.notes

        class Response:
            """Of the backend."""

            def __init__(self, output_tensors: list) -> None:
                self.output_tensors = output_tensors

        def load(path: str, map_location: tuple) -> object:
            notes.append((path, map_location))
            model = mock.Mock(side_effect=infer)
            model.eval.return_value = model
            return model

        def infer(batch: Array) -> Array:
            notes.append(("infer", list(batch)))
            return Array(2 * number for number in batch)

        def cat(parts: list[Array]) -> Array:
            notes.append("cat")
            return Array(sum(parts, []))

        torch = module("torch", device=lambda kind, number: (kind, number), from_numpy=Array,
                       cat=cat, inference_mode=contextlib.nullcontext)
        torch.cuda = module("torch.cuda", is_available=lambda: True, synchronize=notes.append,
                            set_device=notes.append, current_device=lambda: 1,
                            current_stream=lambda: types.SimpleNamespace(cuda_stream=0))
        torch.jit = module("torch.jit", load=load)
        module("triton_python_backend_utils", InferenceResponse=Response,
               Tensor=lambda name, values: (name, list(values)),
               get_input_tensor_by_name=lambda request, name: Array(request[name]))
        model = self.run_block("model.py")["TritonPythonModel"]()
        model.initialize({"model_instance_device_id": "1", "model_repository": "/models/encoder",
                          "model_version": "3"})
        self.made.on_device.assert_called_once_with(1)
        responses = model.execute([{"INPUT": [1]}, {"INPUT": [2, 3]}])
        self.assertEqual([response.output_tensors for response in responses],
                         [[("OUTPUT", [2])], [("OUTPUT", [4, 6])]])
        model.finalize()
        # The device is synchronised before its runtime is made.
        self.assertEqual(notes, [
            ("cuda", 1), ("/models/encoder/3/model.pt", ("cuda", 1)), 1,
            ("begin", "encoder/2"), "cat", "ready", ("infer", [1, 2, 3]), "done", "close"])

    def test_vllm(self) -> None:
        notes = self.notes

        class Worker:
            """Of a GPU."""

            def execute_model(self, scheduler_output: object, more: int = 0) -> str:
                """A step."""
                notes.append((scheduler_output.total_num_scheduled_tokens, more))
                return "tokens"

        for name in ("vllm", "vllm.v1", "vllm.v1.worker"):
            module(name)
        module("vllm.v1.worker.gpu_worker", Worker=Worker)
        torch = module("torch")
        torch.cuda = module("torch.cuda", is_available=lambda: True, synchronize=lambda _: None,
                            current_device=lambda: 0,
                            current_stream=lambda: types.SimpleNamespace(cuda_stream=0))
        self.run_block("zernel_vllm.py")["register"]()
        self.assertEqual(Worker.execute_model.__doc__, "A step.")
        for tokens in (8, 0):
            output = types.SimpleNamespace(total_num_scheduled_tokens=tokens)
            self.assertEqual(Worker().execute_model(output, more=1), "tokens")
        self.assertEqual(notes, [("begin", "step/8"), "ready", (8, 1), "done", (0, 1)])
        project = dict(page.examples(PAGE)["toml"])["pyproject.toml"]
        self.assertIn(' = "zernel_vllm:register"', project)


if __name__ == "__main__":
    unittest.main()
