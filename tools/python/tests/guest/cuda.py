# SPDX-License-Identifier: MIT OR Apache-2.0
"""The driver API through ctypes: contexts, streams, kernels that take time."""

import ctypes
from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p

KERNELS = b"""
.version 6.4
.target sm_70
.address_size 64
.visible .entry zernel_spin(.param .u64 ns) { ret; }
.visible .entry zernel_fault() { ret; }
"""
#: The first streams that do not wait for the default one.
NON_BLOCKING = 1


class CudaError(Exception):
    """A call failed."""


class Cuda:
    """The library, initialised."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", c_uint(0))

    def call(self, name: str, *arguments) -> None:
        """Makes a call."""
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            raise CudaError(f"{name}: {status}")

    def device(self, number: int = 0) -> c_int:
        """A device."""
        device = c_int()
        self.call("cuDeviceGet", byref(device), c_int(number))
        return device

    def current(self) -> int | None:
        """The context of this thread's calls."""
        context = c_void_p()
        self.call("cuCtxGetCurrent", byref(context))
        return context.value

    def set_current(self, context: "Context | None") -> None:
        """Makes a context that of this thread's calls."""
        self.call("cuCtxSetCurrent", context.handle if context else c_void_p())


class Context:
    """A context, which is current from now on, with kernels."""

    def __init__(self, cuda: Cuda, number: int = 0) -> None:
        self.cuda, self.handle = cuda, c_void_p()
        cuda.call("cuCtxCreate_v2", byref(self.handle), c_uint(0), cuda.device(number))
        self.load()

    def load(self) -> None:
        """Loads the kernels into the context that is current."""
        module = c_void_p()
        self.cuda.call("cuModuleLoadData", byref(module), c_char_p(KERNELS))
        self.spin, self.broken = c_void_p(), c_void_p()
        for name, kernel in ((b"zernel_spin", self.spin), (b"zernel_fault", self.broken)):
            self.cuda.call("cuModuleGetFunction", byref(kernel), module, c_char_p(name))

    def stream(self) -> int:
        """A new stream."""
        stream = c_void_p()
        self.cuda.call("cuStreamCreate", byref(stream), c_uint(NON_BLOCKING))
        return stream.value

    def work(self, ns: int, stream: int = 0) -> None:
        """Works for a time in a stream."""
        time = c_uint64(ns)
        arguments = (c_void_p * 1)(ctypes.cast(byref(time), c_void_p))
        self._launch(self.spin, stream, arguments)

    def hold(self, stream: int) -> Callable[[], None]:
        """Has a stream wait until the function that is returned is called."""
        word = c_void_p()
        self.cuda.call("cuMemHostAlloc", byref(word), c_size_t(4096), c_uint(0))
        number = ctypes.c_uint32.from_address(word.value)
        number.value = 0
        self.cuda.call("cuStreamWaitValue32_v2", c_void_p(stream), c_uint64(word.value),
                       ctypes.c_uint32(1), c_uint(0))

        def release() -> None:
            number.value = 1

        return release

    def fault(self) -> None:
        """Makes an error that stays with the context."""
        self._launch(self.broken, 0, (c_void_p * 1)())
        try:
            self.wait()
        except CudaError:
            return
        raise AssertionError("the context goes on")

    def _launch(self, kernel: c_void_p, stream: int, arguments: ctypes.Array) -> None:
        one = [c_uint(1)] * 6
        self.cuda.call("cuLaunchKernel", kernel, *one, c_uint(0), c_void_p(stream),
                       ctypes.cast(arguments, POINTER(c_void_p)), None)

    def wait(self, stream: int = 0) -> None:
        """Waits for a stream."""
        self.cuda.call("cuStreamSynchronize", c_void_p(stream))

    def is_idle(self, stream: int = 0) -> bool:
        """True if nothing is left to do in a stream."""
        return self.cuda.library.cuStreamQuery(c_void_p(stream)) == 0

    def capture(self, stream: int) -> None:
        """Has calls on a stream be captured for a graph."""
        self.cuda.call("cuStreamBeginCapture_v2", c_void_p(stream), c_int(1))

    def end_capture(self, stream: int) -> int:
        """Ends that; the graph."""
        graph = c_void_p()
        self.cuda.call("cuStreamEndCapture", c_void_p(stream), byref(graph))
        return graph.value or 0

    def instantiate(self, graph: int) -> int:
        """A graph to launch, of a captured one."""
        made = c_void_p()
        self.cuda.call("cuGraphInstantiateWithFlags", byref(made), c_void_p(graph), c_uint64(0))
        return made.value

    def launch(self, graph: int, stream: int) -> None:
        """Launches it."""
        self.cuda.call("cuGraphLaunch", c_void_p(graph), c_void_p(stream))

    def destroy(self) -> None:
        """Ends it."""
        self.cuda.call("cuCtxDestroy_v2", self.handle)
