# SPDX-License-Identifier: MIT OR Apache-2.0
"""The memory of samples: DLPack and buffers, without a copy, and freed when nobody has it."""

import ctypes
import gc
import importlib.util
import io
import os
import struct
import unittest
import weakref

import stores
import zernel_prefetch as zp
from case import SHAPE, Case

try:
    import numpy
    # Those before take no versions of DLPack, and nothing that is read-only.
    HAS_NUMPY = int(numpy.__version__.split(".")[0]) > 1
except ImportError:
    HAS_NUMPY = False
IS_REQUIRED = os.environ.get("ZERNEL_NUMPY") == "required"
HAS_TORCH = importlib.util.find_spec("torch") is not None

#: Types of Zarr: the code of `struct`, that of a buffer, and the code and bits of DLPack.
TYPES = {
    "bool": ("B", "?", 6, 8), "int8": ("b", "b", 0, 8), "int16": ("h", "h", 0, 16),
    "int32": ("i", "i", 0, 32), "int64": ("q", "q", 0, 64), "uint8": ("B", "B", 1, 8),
    "uint16": ("H", "H", 1, 16), "uint32": ("I", "I", 1, 32), "uint64": ("Q", "Q", 1, 64),
    "float16": ("e", "e", 2, 16), "float32": ("f", "f", 2, 32), "float64": ("d", "d", 2, 64),
    "complex64": ("Q", "Zf", 5, 64), "bfloat16": ("H", None, 4, 16),
}
FILLS = {"bool": False, "complex64": [0.0, 0.0]}

api = ctypes.pythonapi
api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Body(ctypes.Structure):
    """DLTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("number", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64)]


class Old(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = [("body", Body), ("context", ctypes.c_void_p),
                ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p))]


class New(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("context", ctypes.c_void_p), ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
                ("flags", ctypes.c_uint64), ("body", Body)]


def taken(capsule: object) -> Old | New:
    """The tensor in a capsule, which has it still."""
    name = api.PyCapsule_GetName(capsule)
    layout = {b"dltensor": Old, b"dltensor_versioned": New}[name]
    return layout.from_address(api.PyCapsule_GetPointer(capsule, name))


def opened(capsule: object) -> Old | New:
    """The tensor in a capsule, which is there as long as this is."""
    found = taken(capsule)
    found.capsule = capsule
    return found


class Tensors(Case):
    """Of a batch with one sample."""

    def load(self, box: tuple = ("a", (3, 1), (5, 4)), **more: object) -> zp.Tensor:
        """The tensor of a box."""
        (batch,) = zp.Loader(zp.Prefetcher(self.folder), [[box]], **more)
        return batch[0]

    def test_capsules_by_version(self) -> None:
        tensor = self.load()
        self.assertEqual(tensor.__dlpack_device__(), (1, 0))
        for asked, expected in ((None, None), ((0, 8), None), ((1, 0), (1, 0)), ((1, 1), (1, 1)),
                                ((1, 7), (1, 1)), ((2, 0), (1, 1))):
            found = opened(tensor.__dlpack__(max_version=asked))
            with self.subTest(asked):
                if expected is None:
                    self.assertIsInstance(found, Old)
                else:
                    self.assertEqual((found.major, found.minor, found.flags), (*expected, 0))
                body = found.body
                self.assertEqual((body.device, body.number, body.lanes), (1, 0, 1))
                self.assertEqual((body.ndim, body.shape[:2], body.strides[:2]), (2, [5, 4], [4, 1]))
                self.assertEqual((body.code, body.bits, body.offset), (1, 32, 0))
                memory = (ctypes.c_uint32 * 20).from_address(body.data)
                self.assertEqual(list(memory), stores.numbers(tensor))
            del found, body, memory

    def test_no_elements_and_no_dimensions(self) -> None:
        body = opened(self.load(("a", (0, 0), (0, 6))).__dlpack__()).body
        self.assertEqual((body.data, body.shape[:2]), (None, [0, 6]))
        stores.write(self.folder, "scalar", [], [])
        tensor = self.load(("scalar", (), ()))
        self.assertEqual((tensor.shape, memoryview(tensor).tolist()), ((), 1))
        self.assertEqual(opened(tensor.__dlpack__(copy=False)).body.ndim, 0)

    def test_a_copy(self) -> None:
        tensor = self.load()
        same, other = (opened(tensor.__dlpack__(max_version=(1, 0), copy=copy))
                       for copy in (False, True))
        self.assertEqual((same.flags, other.flags), (0, 2))
        self.assertNotEqual(same.body.data, other.body.data)
        self.assertEqual(zp.alive(), (2, 160))
        memory = (ctypes.c_uint32 * 20).from_address(other.body.data)
        self.assertEqual(list(memory), stores.numbers(tensor))

    def test_read_only(self) -> None:
        tensor = self.load(readonly=True)
        self.assertTrue(tensor.readonly)
        self.assertEqual(opened(tensor.__dlpack__(max_version=(1, 0))).flags, 1)
        for version in (None, (0, 8)):
            with self.assertRaisesRegex(BufferError, "before 1.0"):
                tensor.__dlpack__(max_version=version)
        # A copy is not.
        self.assertEqual(opened(tensor.__dlpack__(max_version=(1, 0), copy=True)).flags, 2)
        self.assertIsInstance(opened(tensor.__dlpack__(copy=True)), Old)
        view = memoryview(tensor)
        self.assertTrue(view.readonly)
        with self.assertRaises(TypeError):
            view[0, 0] = 1
        with self.assertRaisesRegex(TypeError, "read-write"):
            io.BytesIO(bytes(80)).readinto(tensor)
        self.assertEqual(stores.numbers(tensor)[0], 20)

    def test_exports_that_are_refused(self) -> None:
        tensor = self.load()
        for asked, text in (({"stream": 1}, "no stream"), ({"dl_device": (2, 0)}, "CPU"),
                            ({"dl_device": (1, 1)}, "CPU")):
            with self.assertRaisesRegex(BufferError, text):
                tensor.__dlpack__(**asked)
        self.assertIsInstance(opened(tensor.__dlpack__(dl_device=(1, 0), stream=None)), Old)

    def test_types(self) -> None:
        for name, (code, format_, kind, bits) in TYPES.items():
            with self.subTest(name):
                stores.write(self.folder, name, [3, 2], [3, 2], None, name, code,
                             FILLS.get(name, 0))
                tensor = self.load((name, (1, 0), (2, 2)))
                self.assertEqual((tensor.dtype, 8 * tensor.itemsize), (name, bits))
                body = opened(tensor.__dlpack__()).body
                self.assertEqual((body.code, body.bits), (kind, bits))
                view = memoryview(tensor)
                shape = (2, 2) if format_ else (2, 2, bits // 8)
                self.assertEqual((view.format, view.shape), (format_ or "B", shape))
                self.assertEqual(view.tobytes(), struct.pack(f"<4{code}", 3, 4, 5, 6))

    def test_types_without_a_code(self) -> None:
        stores.write(self.folder, "raw", [3], [3], None, "r16", "H", [0, 0])
        tensor = self.load(("raw", (0,), (3,)))
        with self.assertRaisesRegex(BufferError, "DLPack 1.1 has no code for r16"):
            tensor.__dlpack__(max_version=(1, 1))
        self.assertEqual(memoryview(tensor).shape, (3, 2))
        self.assertEqual(stores.numbers(tensor, "H"), [1, 2, 3])
        # A type that came with 1.1.
        stores.write(self.folder, "small", [3], [3], None, "float8_e5m2", "B", "0x00")
        tensor = self.load(("small", (0,), (3,)))
        with self.assertRaisesRegex(BufferError, "DLPack 1.0 has no code for float8_e5m2"):
            tensor.__dlpack__(max_version=(1, 0))
        self.assertEqual(opened(tensor.__dlpack__(max_version=(1, 1))).body.code, 12)

    def test_buffers_share_the_memory(self) -> None:
        tensor = self.load()
        first, second = memoryview(tensor), memoryview(tensor)
        self.assertEqual((first.strides, first.c_contiguous, first.readonly), ((16, 4), True, False))
        first[1, 2] = 99
        self.assertEqual(second[1, 2], 99)
        body = opened(tensor.__dlpack__()).body
        self.assertEqual((ctypes.c_uint32 * 20).from_address(body.data)[6], 99)
        # Without a shape it is bytes.
        self.assertEqual(io.BytesIO(bytes(4)).readinto(tensor), 4)
        self.assertEqual(first[0, 0], 0)
        self.assertEqual(len((ctypes.c_char * 80).from_buffer(tensor)), 80)
        self.assertEqual(struct.unpack_from("I", tensor, 24), (99,))

    def test_memory_is_freed_when_the_last_one_lets_go(self) -> None:
        tensor = self.load()
        gone = weakref.ref(tensor)
        self.assertEqual(zp.alive(), (1, 80))
        view, capsule = memoryview(tensor), tensor.__dlpack__(max_version=(1, 0))
        other = tensor.__dlpack__()
        # As a consumer takes it: the capsule is no more to free it.
        old = taken(other)
        api.PyCapsule_SetName(other, name := b"used_dltensor")
        del other
        gc.collect()
        del tensor
        self.assertIsNotNone(gone())
        self.assertEqual(zp.alive(), (1, 80))
        del view
        self.assertIsNone(gone())
        self.assertEqual(zp.alive(), (1, 80))
        del capsule
        self.assertEqual((zp.alive(), name), ((1, 80), b"used_dltensor"))
        old.deleter(ctypes.addressof(old))
        self.assertEqual(zp.alive(), (0, 0))

    def test_batches_that_nobody_takes_are_freed(self) -> None:
        prefetcher = zp.Prefetcher(self.folder)
        loader = zp.Loader(prefetcher, [[row] for row in self.rows])
        kept = [next(loader) for _ in range(3)]
        self.assertEqual(zp.alive(), (3, 72))
        del loader, prefetcher
        self.assertEqual(zp.alive(), (3, 72))
        self.assert_rows([batch[0] for batch in kept], [0, 1, 2])


@unittest.skipUnless(HAS_NUMPY or IS_REQUIRED, "no numpy")
class Numpy(Case):
    """As NumPy takes them."""

    def load(self, **more: object) -> zp.Tensor:
        """The tensor of a box."""
        (batch,) = zp.Loader(zp.Prefetcher(self.folder), [[("a", (3, 1), (5, 4))]], **more)
        return batch[0]

    def test_both_ways_share_the_memory(self) -> None:
        tensor = self.load()
        first, second = numpy.asarray(tensor), numpy.from_dlpack(tensor)
        self.assertEqual((first.dtype, first.shape), (numpy.uint32, (5, 4)))
        self.assertTrue(numpy.shares_memory(first, second))
        self.assertTrue(first.flags.writeable and second.flags.writeable)
        self.assertTrue(first.flags.aligned and second.flags.c_contiguous)
        first[0, 0] = 5
        self.assertEqual(second[0, 0], 5)
        self.assertFalse(numpy.shares_memory(first, numpy.from_dlpack(tensor, copy=True)))
        del tensor, first
        self.assertEqual((second[0, 1], zp.alive()), (21, (1, 80)))

    def test_read_only(self) -> None:
        tensor = self.load(readonly=True)
        self.assertFalse(numpy.from_dlpack(tensor).flags.writeable)
        self.assertFalse(numpy.asarray(tensor).flags.writeable)

    def test_types(self) -> None:
        for name, (code, *_) in TYPES.items():
            if name == "bfloat16":
                continue
            with self.subTest(name):
                stores.write(self.folder, name, [3, 2], [3, 2], None, name, code,
                             FILLS.get(name, 0))
                (batch,) = zp.Loader(zp.Prefetcher(self.folder), [[(name, (0, 0), (3, 2))]])
                for found in (numpy.asarray(batch[0]), numpy.from_dlpack(batch[0])):
                    self.assertEqual(found.dtype.name, name)
                    self.assertEqual(found.tobytes(), struct.pack(f"<6{code}", *range(1, 7)))
                del batch, found


@unittest.skipUnless(HAS_TORCH, "no torch")
class Torch(Case):
    """As PyTorch takes them."""

    def test_the_memory_is_shared(self) -> None:
        import torch
        stores.write(self.folder, "f", SHAPE, [8, 6], [2, 3], "float32", "f", 0.0)
        (batch,) = zp.Loader(zp.Prefetcher(self.folder), [[("f", (3, 1), (5, 4))]])
        found = torch.from_dlpack(batch[0])
        self.assertEqual((found.dtype, tuple(found.shape)), (torch.float32, (5, 4)))
        found[0, 0] = 5
        self.assertEqual(memoryview(batch[0])[0, 0], 5)
        del batch
        self.assertEqual((float(found[0, 1]), zp.alive()), (21.0, (1, 80)))


if __name__ == "__main__":
    unittest.main()
