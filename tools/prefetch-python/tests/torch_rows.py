# SPDX-License-Identifier: MIT OR Apache-2.0
"""Rows for PyTorch's DataLoader, whose workers share an epoch out."""

from collections.abc import Iterator

import torch
import torch.utils.data

import zernel_prefetch as zp


class Rows(torch.utils.data.IterableDataset):
    """Batches of four rows."""

    def __init__(self, prefetcher: zp.Prefetcher, index: list) -> None:
        self.prefetcher, self.index = prefetcher, index

    def __iter__(self) -> Iterator[torch.Tensor]:
        worker = torch.utils.data.get_worker_info()
        rank, ranks = (worker.id, worker.num_workers) if worker else (0, 1)
        order = zp.Order(self.index, 4, seed=1, rank=rank, ranks=ranks)
        for batch in zp.Loader(self.prefetcher, order):
            yield torch.cat([torch.from_dlpack(tensor) for tensor in batch])
