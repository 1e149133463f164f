# SPDX-License-Identifier: MIT OR Apache-2.0
"""A module in place of torch, with as much of it as `zernel.torch` and its page use."""

import sys
import types
from collections.abc import Callable, Iterator
from typing import Any


class DataLoader:
    """Batches of a sequence, as lists."""

    def __init__(self, dataset: Any, batch_size: int = 1) -> None:
        self.dataset, self.batch_size = dataset, batch_size

    def __len__(self) -> int:
        return -(-len(self.dataset) // self.batch_size)

    def __iter__(self) -> Iterator[list]:
        for start in range(0, len(self.dataset), self.batch_size):
            yield list(self.dataset[start:start + self.batch_size])


class Stream:
    """A stream, as torch has it."""

    def __init__(self, handle: int) -> None:
        self.cuda_stream = handle

    def synchronize(self) -> None:
        if CUDAGraph.context:
            CUDAGraph.context.wait(self.cuda_stream)


class CUDAGraph:
    """A graph, as torch has it; without a context it has no nodes."""

    context: Any = None

    def __init__(self, keep_graph: bool = False) -> None:
        self._is_kept, self._graph, self._exec = keep_graph, 1, 0
        self._stream = 0

    def capture_begin(self, stream: int) -> None:
        self._stream = stream
        if self.context:
            self.context.capture(stream)

    def capture_end(self) -> None:
        if self.context:
            self._graph = self.context.end_capture(self._stream)

    def raw_cuda_graph(self) -> int:
        if not self._is_kept:
            raise RuntimeError("CUDAGraph was not initialized with keep_graph=true")
        return self._graph

    def instantiate(self) -> None:
        self._exec = self.context.instantiate(self._graph) if self.context else 1

    def raw_cuda_graph_exec(self) -> int:
        return self._exec

    def reset(self) -> None:
        self._exec = 0

    def replay(self) -> None:
        if not self._exec:
            raise RuntimeError("the graph was reset, or is not instantiated")
        if self.context:
            self.context.launch(self._exec, self._stream)


class graph:
    """A capture of a graph."""

    def __init__(self, graph: CUDAGraph, **_: Any) -> None:
        self._graph = graph

    def __enter__(self) -> None:
        self._graph.capture_begin(sys.modules["torch.cuda"].current_stream().cuda_stream)

    def __exit__(self, *_: Any) -> None:
        self._graph.capture_end()


def install(stream: Callable[[], int] | None = None, context: Any = None) -> types.ModuleType:
    """Puts it in the place of torch. `stream`: makes its current stream, where there is CUDA;
    `context`: that of its graphs."""
    CUDAGraph.context = context
    torch, cuda = types.ModuleType("torch"), types.ModuleType("torch.cuda")
    utils, data = types.ModuleType("torch.utils"), types.ModuleType("torch.utils.data")
    data.DataLoader = DataLoader
    cuda.is_available = lambda: stream is not None
    cuda.current_device = lambda: 0
    cuda.synchronize = lambda device=None: None
    cuda.current_stream = lambda: Stream(stream() if stream else 0)
    cuda.CUDAGraph, cuda.graph = CUDAGraph, graph
    torch.cuda, torch.utils, utils.data = cuda, utils, data
    sys.modules |= {"torch": torch, "torch.cuda": cuda, "torch.utils": utils,
                    "torch.utils.data": data}
    return torch
