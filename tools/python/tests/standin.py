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


def install(stream: Callable[[], int] | None = None) -> types.ModuleType:
    """Puts it in the place of torch. `stream`: makes its current stream, where there is CUDA."""
    torch, cuda = types.ModuleType("torch"), types.ModuleType("torch.cuda")
    utils, data = types.ModuleType("torch.utils"), types.ModuleType("torch.utils.data")
    data.DataLoader = DataLoader
    cuda.is_available = lambda: stream is not None
    cuda.current_device = lambda: 0
    cuda.synchronize = lambda device=None: None
    cuda.current_stream = lambda: Stream(stream())
    torch.cuda, torch.utils, utils.data = cuda, utils, data
    sys.modules |= {"torch": torch, "torch.cuda": cuda, "torch.utils": utils,
                    "torch.utils.data": data}
    return torch
