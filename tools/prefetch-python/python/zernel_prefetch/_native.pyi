# SPDX-License-Identifier: MIT OR Apache-2.0
import sys
from collections.abc import Sequence
from os import PathLike
from typing import Any, final

__all__ = ["Loads", "Numbers", "Prefetcher", "Tensor", "__version__", "alive", "batches"]

__version__: str

@final
class Prefetcher:
    def __new__(
        cls,
        url: str | PathLike[str],
        *,
        storage_options: dict[str, str] | None = None,
        zarr_format: int | None = None,
        in_flight: int = 64,
        retries: int = 5,
        hedges: float | None = 0.05,
        bytes: int = 268435456,
        floor_arrays: int = 16777216,
        floor_shards: int = 67108864,
        arrays: int = 65536,
        shards: int = 262144,
        keep_faults: float = 60.0,
        longest_wait: float = 60.0,
        gap: int = 65536,
        longest_range: int = 8388608,
        data: int = 0,
        consolidated: bool = False,
        disk: str | PathLike[str] | None = None,
        disk_bytes: int = 17179869184,
    ) -> Prefetcher: ...
    @property
    def url(self) -> str: ...
    def counts(self) -> dict[str, int]: ...
    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]: ...

@final
class Tensor:
    @property
    def array(self) -> str: ...
    @property
    def start(self) -> tuple[int, ...]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def readonly(self) -> bool: ...
    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...
        def __release_buffer__(self, buffer: memoryview, /) -> None: ...

@final
class Loads:
    def __new__(
        cls,
        prefetcher: Prefetcher,
        lookahead: int,
        depth: int,
        bytes: int,
        max_chunks: int,
        max_substreams: int,
        changes: int,
        readonly: bool,
        published: bool,
    ) -> Loads: ...
    def submit(
        self, number: int, samples: Sequence[tuple[str, Sequence[int], Sequence[int]]]
    ) -> None: ...
    def end(self) -> None: ...
    def try_next(self, passed: int) -> list[Tensor] | None: ...
    def passed(self, number: int) -> None: ...
    def wait(self, seconds: float) -> None: ...
    def ring(self) -> None: ...
    def hush(self) -> None: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...

@final
class Numbers:
    def __new__(
        cls,
        samples: int,
        batch_size: int,
        seed: int | None,
        rank: int,
        ranks: int,
        place: tuple[int, int],
    ) -> Numbers: ...
    @property
    def place(self) -> tuple[int, int]: ...
    def take(self) -> list[int]: ...

def alive() -> tuple[int, int]: ...
def batches(samples: int, batch_size: int, rank: int, ranks: int) -> int: ...
