# SPDX-License-Identifier: MIT OR Apache-2.0
"""The loader: an iterator over batches that are read ahead."""

import asyncio
import functools
import os
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, overload

from . import _native, _order
from ._errors import Error, InternalError
from ._order import Order, Placed, State

#: Signals that another thread gets are seen so often.
_LOOK_S = 0.05


class Batch(Sequence[_native.Tensor]):
    """The tensors of a batch, in the order of its samples."""

    __slots__ = ("_tensors", "state")

    def __init__(self, tensors: list[_native.Tensor], state: State) -> None:
        self._tensors = tensors
        #: The place behind this batch: `Loader(..., resume=state)` goes on there.
        self.state = state

    @overload
    def __getitem__(self, at: int) -> _native.Tensor: ...
    @overload
    def __getitem__(self, at: slice) -> list[_native.Tensor]: ...
    def __getitem__(self, at: int | slice) -> _native.Tensor | list[_native.Tensor]:
        return self._tensors[at]

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        return f"<zernel_prefetch.Batch of {self._tensors!r}>"


class _Failed:
    """The place of a batch that the program's iterator did not give."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class Loader(Iterator[Batch]):
    """Batches of data, read ahead, one behind the other.

    `batches` is an order, or an iterable of batches, each an iterable of samples. It is asked for
    `lookahead` + `depth` batches ahead, by the thread that asks for a batch.
    """

    def __init__(
        self,
        prefetcher: _native.Prefetcher,
        batches: Order | Iterable[Iterable[_order._Sample]],
        *,
        lookahead: int = 16,
        depth: int = 4,
        bytes: int = 1_073_741_824,
        max_chunks: int = 512,
        changes: int = 3,
        readonly: bool = False,
        resume: Mapping[str, Any] | None = None,
    ) -> None:
        self._prefetcher, self._batches = prefetcher, batches
        self._settings: dict[str, Any] = {
            "lookahead": lookahead, "depth": depth, "bytes": bytes, "max_chunks": max_chunks,
            "changes": changes, "readonly": readonly}
        begin = _order.begin(batches) if resume is None else _order.checked(batches, resume)
        self._behind = begin
        self._source = _order.placed(batches, begin)
        self._is_over = self._closed = False
        self._pending: deque[Placed | _Failed] = deque()
        self._afresh()
        _loaders.add(self)
        with self._lock:
            self._open()
            self._feed()

    def _afresh(self) -> None:
        """Begins in a process: another one's threads and locks are of no use here."""
        self._lock = threading.RLock()
        self._turns: asyncio.Lock | None = None
        self._waiting = 0
        self._loads: _native.Loads | None = None
        self._process = os.getpid()

    def _open(self) -> _native.Loads:
        """The loads of this process. Those that the parent has not handed over are made anew."""
        if self._loads is None:
            self._loads = _native.Loads(self._prefetcher, **self._settings)
            for batch in self._pending:
                if not isinstance(batch, _Failed):
                    self._loads.submit(batch[1])
            if self._is_over:
                self._loads.end()
        return self._loads

    def _feed(self) -> None:
        """Has batches be loaded, as many as are read ahead."""
        loads = self._open()
        ahead = self._settings["lookahead"] + self._settings["depth"]
        while not self._is_over and len(self._pending) < ahead:
            try:
                batch = next(self._source, None)
            except Exception as error:
                # It is that of this place, and the last.
                self._pending.append(_Failed(error))
                batch = None
            if batch is None:
                self._is_over = True
                loads.end()
                return
            try:
                loads.submit(batch[1])
            except Exception as error:
                self._pending.append(_Failed(error))
            else:
                self._pending.append(batch)

    def _take(self) -> Batch | _native.Loads:
        """The next batch, or the loads that are to be waited for. `StopIteration`: it is over."""
        if self._process != os.getpid():
            self._afresh()
        with self._lock:
            if self._closed:
                raise StopIteration
            loads = self._open()
            self._feed()
            if not self._pending:
                self.close()
                raise StopIteration
            first = self._pending[0]
            if isinstance(first, _Failed):
                self._pending.popleft()
                raise first.error
            try:
                tensors = loads.try_next()
            except StopIteration:
                if self._closed:
                    raise
                self.close()
                raise InternalError("batches were submitted, and are not there") from None
            except Error:
                self._pending.popleft()
                raise
            if tensors is None:
                return loads
            self._pending.popleft()
            self._behind = first[0]
            if self._waiting:
                loads.ring()
            return Batch(tensors, first[0])

    def __iter__(self) -> "Loader":
        return self

    def __next__(self) -> Batch:
        while True:
            found = self._take()
            if isinstance(found, Batch):
                return found
            self._waiting += 1
            try:
                found.wait(_LOOK_S)
            finally:
                self._waiting -= 1

    def __aiter__(self) -> "Loader":
        return self

    async def __anext__(self) -> Batch:
        if self._turns is None:
            self._turns = asyncio.Lock()
        async with self._turns:
            while True:
                try:
                    found = self._take()
                except StopIteration:
                    raise StopAsyncIteration from None
                if isinstance(found, Batch):
                    return found
                self._waiting += 1
                try:
                    await _rung(found)
                finally:
                    self._waiting -= 1

    def state(self) -> State:
        """The place behind the last batch that was handed over."""
        return dict(self._behind)

    def close(self) -> None:
        """Ends it and its reads; it has no batches any more. Those who wait go on."""
        self._closed = True
        loads = self._loads
        if loads is not None and self._process == os.getpid():
            loads.close()

    @property
    def closed(self) -> bool:
        """True behind the last batch, and after `close()`."""
        return self._closed

    def __enter__(self) -> "Loader":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """For a process that is spawned: it goes on behind the last batch that was handed over here."""
        if not isinstance(self._batches, Order) and iter(self._batches) is self._batches:
            raise TypeError("a loader of an iterator, which can be gone through once, cannot be pickled")
        if self._closed:
            raise TypeError("a loader that is closed cannot be pickled")
        make = functools.partial(Loader, **self._settings, resume=self.state())
        return make, (self._prefetcher, self._batches)


async def _rung(loads: _native.Loads) -> None:
    """Waits for the bell of loads in a loop of asyncio."""
    loop = asyncio.get_running_loop()
    rung = loop.create_future()

    def ring() -> None:
        loads.hush()
        if not rung.done():
            rung.set_result(None)

    loop.add_reader(loads.fileno(), ring)
    try:
        await rung
    finally:
        loop.remove_reader(loads.fileno())


_loaders: "weakref.WeakSet[Loader]" = weakref.WeakSet()


def _forked() -> None:
    for loader in list(_loaders):
        loader._afresh()


os.register_at_fork(after_in_child=_forked)
