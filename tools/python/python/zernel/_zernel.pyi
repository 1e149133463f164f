# SPDX-License-Identifier: MIT OR Apache-2.0
from collections.abc import Iterable
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Protocol, SupportsIndex, final

from ._errors import Error

__all__ = [
    "GraphRequests",
    "PrefetchSignal",
    "Request",
    "Runtime",
    "TsgsBefore",
    "__version__",
    "load_config",
    "stats",
]

__version__: str

class _CudaStream(Protocol):
    def __cuda_stream__(self) -> tuple[int, int]: ...

class _TorchStream(Protocol):
    @property
    def cuda_stream(self) -> int: ...

class _CupyStream(Protocol):
    @property
    def ptr(self) -> int: ...

class _Handle(Protocol):
    @property
    def handle(self) -> int: ...

class _TorchGraph(Protocol):
    def raw_cuda_graph_exec(self) -> int: ...

_Graph = int | _TorchGraph
_Stream = int | _CudaStream | _TorchStream | _CupyStream | _Handle
_Mode = Literal["auto", "off", "require"]
_ReleaseWord = Literal["auto", "host", "gpu"]

@final
class TsgsBefore:
    def __new__(cls) -> TsgsBefore: ...

@final
class Runtime:
    def __new__(
        cls,
        *,
        mode: _Mode | None = None,
        lanes: int | None = None,
        bound_us: float | None = None,
        linger_us: float = 0.0,
        release_word: _ReleaseWord = "auto",
        tsg: int | None = None,
        before: TsgsBefore | None = None,
        library: str | None = None,
        device: str | None = None,
    ) -> Runtime: ...
    @staticmethod
    def on_device(
        gpu_id: int,
        *,
        mode: _Mode | None = None,
        lanes: int | None = None,
        bound_us: float | None = None,
        linger_us: float = 0.0,
        release_word: _ReleaseWord = "auto",
        tsg: int | None = None,
        before: TsgsBefore | None = None,
        library: str | None = None,
        device: str | None = None,
    ) -> Runtime: ...
    def request(
        self,
        stream: _Stream | None = None,
        *,
        key: int | str | None = None,
        expected_us: float = 0.0,
        slo_ms: float = 0.0,
        exact: bool = False,
        inline: bool = False,
        features: Iterable[SupportsIndex] | None = None,
        admit_us: float | None = None,
    ) -> Request: ...
    def record(self, stream: _Stream) -> GraphRequests: ...
    def check_stream(self, stream: _Stream) -> None: ...
    def make_current(self) -> None: ...
    def set_level(self, level: int, *, timeslice_us: int | None = None) -> None: ...
    def clear_level(self) -> None: ...
    @property
    def level(self) -> int | None: ...
    @property
    def inert(self) -> Error | None: ...
    @property
    def tsg(self) -> int | None: ...
    def counters(self) -> dict[str, int]: ...
    def stats(self) -> dict[str, int] | None: ...
    def _own_class(self) -> tuple[int | None, int | None]: ...
    def _set_own_class(self, level: int | None, timeslice_us: int | None) -> None: ...
    def _gpu(self) -> tuple[int, int | None, int, int] | None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Runtime: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

@final
class Request:
    def ready(self) -> None: ...
    def done(self) -> None: ...
    def done_in(self, stream: _Stream) -> None: ...
    def cancel(self) -> None: ...
    @property
    def idle(
        self,
    ) -> Literal["inert", "no_lane", "refused", "late", "lost", "forked", "other"] | None: ...
    @property
    def earliest_ms(self) -> float | None: ...
    @property
    def number(self) -> int | None: ...
    @property
    def lane(self) -> int | None: ...
    @property
    def predicted_us(self) -> float | None: ...
    @property
    def is_ready(self) -> bool: ...
    @property
    def is_over(self) -> bool: ...
    def __enter__(self) -> Request: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

@final
class GraphRequests:
    def instantiated(self, graph: _Graph) -> None: ...
    def request(
        self,
        stream: _Stream | None = None,
        *,
        key: int | str | None = None,
        expected_us: float = 0.0,
        slo_ms: float = 0.0,
        exact: bool = False,
        features: Iterable[SupportsIndex] | None = None,
    ) -> Request: ...
    def close(self) -> None: ...
    def __enter__(self) -> GraphRequests: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

@final
class PrefetchSignal:
    def __new__(
        cls, *, track: bool = True, device: str = "/dev/zernel"
    ) -> PrefetchSignal: ...
    def wait(self, timeout: float | None = None) -> bool: ...
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...

def load_config(path: str | PathLike[str] | None) -> dict[str, Any]: ...
def stats() -> dict[str, int] | None: ...
