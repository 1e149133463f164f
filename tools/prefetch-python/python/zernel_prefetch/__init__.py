# SPDX-License-Identifier: MIT OR Apache-2.0
"""A loader of sharded arrays (Zarr) that reads metadata and data ahead.

::

    prefetcher = zernel_prefetch.Prefetcher("s3://bucket/data")
    index = [("t2m", (hour, 0, 0), (1, 721, 1440)) for hour in range(8760)]
    order = zernel_prefetch.Order(index, 16, seed=1)
    with zernel_prefetch.Loader(prefetcher, order) as loader:
        for batch in loader:
            train([torch.from_dlpack(tensor) for tensor in batch])
            save(batch.state)                 # Loader(..., resume=state) goes on behind it

Documentation/prefetch-python.rst has the whole interface.
"""

from ._errors import (
    CancelledError,
    ChangedError,
    CorruptError,
    DeniedError,
    Error,
    InternalError,
    MisuseError,
    MissingError,
    SaturatedError,
    TooLargeError,
    UnavailableError,
    UnsupportedError,
)
from ._loader import Batch, Loader
from ._native import Prefetcher, Tensor, __version__, alive
from ._order import Order, Sample, State

__all__ = [
    "Batch",
    "CancelledError",
    "ChangedError",
    "CorruptError",
    "DeniedError",
    "Error",
    "InternalError",
    "Loader",
    "MissingError",
    "MisuseError",
    "Order",
    "Prefetcher",
    "Sample",
    "SaturatedError",
    "State",
    "Tensor",
    "TooLargeError",
    "UnavailableError",
    "UnsupportedError",
    "__version__",
    "alive",
]

for _named in (Batch, CancelledError, ChangedError, CorruptError, DeniedError, Error, InternalError,
               Loader, MissingError, MisuseError, Order, Sample, SaturatedError, TooLargeError,
               UnavailableError, UnsupportedError):
    _named.__module__ = __name__
del _named
