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
from ._errors import Error, InternalError, MisuseError
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


class _Place:
    """The place of a batch."""

    __slots__ = ("error", "is_last", "number", "samples", "state")

    def __init__(
        self, number: int, state: State, samples: Sequence[_order._Sample] = (),
        error: Exception | None = None, *, is_last: bool = False,
    ) -> None:
        self.number, self.state, self.samples = number, state, samples
        #: The program gave no batch: this in its place.
        self.error = error
        #: There is none behind it.
        self.is_last = is_last


#: The last place that was handed over, and the state behind the last batch.
_At = tuple[_Place, State]
#: A batch that was handed over, with the places before and behind.
_Taken = tuple[Batch, _At, _At]


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
        max_substreams: int = 4096,
        changes: int = 3,
        readonly: bool = False,
        published: bool = True,
        resume: Mapping[str, Any] | None = None,
    ) -> None:
        self._prefetcher, self._batches = prefetcher, batches
        self._settings: dict[str, Any] = {
            "lookahead": lookahead, "depth": depth, "bytes": bytes, "max_chunks": max_chunks,
            "max_substreams": max_substreams, "changes": changes, "readonly": readonly,
            "published": published}
        begin = _order.begin(batches) if resume is None else _order.checked(batches, resume)
        # A signal can raise between any two steps here, and a fork can come there while another thread
        # goes through them. So each change is one step, and what is behind it is done by the next call.
        self._at: _At = (_Place(0, begin), begin)
        #: A batch that was handed over to a call that a signal ended.
        self._again: tuple[int, Batch] | None = None
        #: Places from there on. The last of them tells where the source is.
        self._pending: deque[_Place] = deque()
        self._source: Iterator[Placed] | None = _order.placed(batches, begin)
        #: The source is being asked.
        self._asks = False
        self._is_over = self._closed = False
        self._afresh()
        _loaders.add(self)
        with self._lock:
            self._feed(self._open())

    def _afresh(self) -> None:
        """Begins in a process: another one's threads and locks are of no use here."""
        self._lock = threading.RLock()
        #: Tasks of a loop take turns.
        self._turns: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            weakref.WeakKeyDictionary())
        self._waiting = 0
        self._loads: _native.Loads | None = None
        #: The number of the last place that the loads know.
        self._submitted = 0
        self._process = os.getpid()

    def _open(self) -> _native.Loads:
        """The loads of this process. Those that the parent has not handed over are made anew."""
        if self._loads is None:
            self._submitted = self._at[0].number
            self._loads = _native.Loads(self._prefetcher, **self._settings)
        return self._loads

    def _feed(self, loads: _native.Loads) -> None:
        """Has batches be loaded, as many as are read ahead."""
        pending, ahead = self._pending, self._settings["lookahead"] + self._settings["depth"]
        while pending and pending[0].number <= self._at[0].number:
            pending.popleft()
        while not self._is_over and len(pending) < ahead:
            if self._last().is_last:
                self._is_over = True
            else:
                self._ask()
        while pending and self._submitted < pending[-1].number:
            place = pending[max(0, self._submitted + 1 - pending[0].number)]
            try:
                if place.error is None:
                    loads.submit(place.number, place.samples)
            except Exception as error:
                try:
                    loads.submit(place.number, place.samples)
                except Exception:
                    place.error = error
                else:
                    # It is that of a signal.
                    raise
            self._submitted = place.number
        if self._is_over:
            loads.end()

    def _last(self) -> _Place:
        """The last place that the source gave."""
        return self._pending[-1] if self._pending else self._at[0]

    def _ask(self) -> None:
        """Asks the source for one more batch."""
        last = self._last()
        if self._asks or self._source is None:
            # A signal, or a fork, came while it was asked: it is nowhere.
            if not _order.begins_anew(self._batches):
                error = MisuseError("the iterator of batches was broken off, and cannot be gone through "
                                    "once more")
                self._pending.append(_Place(last.number + 1, last.state, error=error, is_last=True))
                return
            self._source = _order.placed(self._batches, last.state)
        self._asks = True
        try:
            placed = next(self._source, None)
        except Exception as error:
            if isinstance(self._batches, Order) and not self._fails(last):
                # It is that of a signal.
                raise
            # It is that of this place, and the last.
            self._pending.append(_Place(last.number + 1, last.state, error=error, is_last=True))
        else:
            if placed is None:
                self._is_over = True
            else:
                self._pending.append(_Place(last.number + 1, *placed))
        self._asks = False

    def _fails(self, last: _Place) -> bool:
        """The source fails behind a place, if it is asked once more."""
        try:
            next(_order.placed(self._batches, last.state), None)
        except Exception:
            return True
        return False

    def _take(self, taken: list[_Taken]) -> _native.Loads | None:
        """Takes the next batch; else the loads that are to be waited for. `StopIteration`: it is over."""
        if self._process != os.getpid():
            self._afresh()
        with self._lock:
            if self._closed:
                raise StopIteration
            loads = self._open()
            self._feed(loads)
            if not self._pending:
                self.close()
                raise StopIteration
            first, before = self._pending[0], self._at
            if first.error is not None:
                # The place that stays has no error: the trace of that has the frames of the program.
                passed = _Place(first.number, first.state, is_last=first.is_last)
                self._at = passed, before[1]
                raise first.error
            if self._again is not None and self._again[0] == first.number:
                batch = self._again[1]
            else:
                try:
                    tensors = loads.try_next(before[0].number)
                except StopIteration:
                    if self._closed:
                        raise
                    self.close()
                    raise InternalError("batches were submitted, and are not there") from None
                except Error:
                    self._at = first, before[1]
                    raise
                if tensors is None:
                    return loads
                batch = Batch(tensors, first.state)
            after = first, first.state
            taken.append((batch, before, after))
            self._at = after
            # Nothing else keeps its memory from now on.
            self._again = None
            loads.passed(first.number)
            if self._waiting:
                loads.ring()
            return None

    def _give_back(self, taken: list[_Taken]) -> None:
        """A signal has ended a call. A batch that it took is the next call's, unless one has gone on."""
        with self._lock:
            for batch, before, after in taken:
                if self._at is after:
                    place = after[0]
                    self._again = place.number, batch
                    if not self._pending or self._pending[0].number > place.number:
                        self._pending.appendleft(place)
                    self._at = before

    def __iter__(self) -> "Loader":
        return self

    def __next__(self) -> Batch:
        taken: list[_Taken] = []
        try:
            while (loads := self._take(taken)) is not None:
                self._waiting += 1
                try:
                    loads.wait(_LOOK_S)
                finally:
                    self._waiting -= 1
            return taken[0][0]
        except BaseException:
            self._give_back(taken)
            raise

    def __aiter__(self) -> "Loader":
        return self

    async def __anext__(self) -> Batch:
        taken: list[_Taken] = []
        try:
            async with self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
                while (loads := self._take(taken)) is not None:
                    self._waiting += 1
                    try:
                        await _rung(loads)
                    finally:
                        self._waiting -= 1
            return taken[0][0]
        except StopIteration:
            raise StopAsyncIteration from None
        except BaseException:
            self._give_back(taken)
            raise

    def state(self) -> State:
        """The place behind the last batch that was handed over."""
        return dict(self._at[1])

    def close(self) -> None:
        """Ends it and its reads; it has no batches any more. Those who wait go on."""
        self._closed, self._again = True, None
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
        if not _order.begins_anew(self._batches):
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
