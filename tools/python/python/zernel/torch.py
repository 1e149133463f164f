# SPDX-License-Identifier: MIT OR Apache-2.0
"""For PyTorch: requests on its current stream and of its graphs, and batches that are loaded at zernel's signal."""

import contextlib
import contextvars
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import _errors
from ._zernel import GraphRequests, PrefetchSignal, Request, Runtime

_lock = threading.RLock()
_runtimes: dict[int, Runtime] = {}


def _forget_lock() -> None:
    """A child of `fork()` may have got the lock in use."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_forget_lock)


def runtime(device: int | None = None) -> Runtime:
    """The runtime of a device's primary context, which PyTorch uses; made at its first use.

    It is made anew when it is closed, or its context lost. ``device``: usually PyTorch's current
    device. Without CUDA it is inert.
    """
    import torch

    if not torch.cuda.is_available():
        number = 0
    else:
        number = torch.cuda.current_device() if device is None else device
    found = _runtimes.get(number)
    if found is not None and not _is_over(found):
        return found
    # Without the lock, as it waits for the device.
    made = _made(number, found)
    with _lock:
        if _runtimes.get(number) is found:
            _runtimes[number] = made
        # Otherwise another thread was first.
        return _runtimes[number]


def _made(number: int, before: Runtime | None) -> Runtime:
    """A new runtime; the one from before where the loss of its context leaves no other."""
    import torch

    try:
        if torch.cuda.is_available():
            # The context is there before its TSG is looked for.
            torch.cuda.synchronize(number)
        return Runtime.on_device(number)
    except Exception:
        if before is None or _is_closed(before):
            raise
        return before


def _is_closed(runtime: Runtime) -> bool:
    try:
        runtime.inert
    except _errors.ClosedError:
        return True
    return False


def _is_over(runtime: Runtime) -> bool:
    """True if it is closed, or its context lost."""
    return _is_closed(runtime) or isinstance(runtime.inert, _errors.LostError)


_usual = runtime


def request(*, key: int | str = 0, runtime: Runtime | None = None, **spec: Any) -> Request:
    """Begins a request whose work is in PyTorch's current stream.

    It is done when the work is over that was put there up to the end of the ``with`` block.
    Further arguments are those of ``Runtime.request()``.
    """
    import torch

    found = _usual() if runtime is None else runtime
    stream = torch.cuda.current_stream() if torch.cuda.is_available() else None
    return found.request(stream, key=key, **spec)


@contextlib.contextmanager
def graph(graph: Any, *, runtime: Runtime | None = None,
          **capture: Any) -> Iterator[GraphRequests]:
    """Captures a graph as ``torch.cuda.graph()`` does, each replay of which is the work of a request.

    ``graph``: a ``torch.cuda.CUDAGraph(keep_graph=True)``, instantiated at the end of the block.
    Further arguments are those of ``torch.cuda.graph()``.
    """
    import torch

    # A runtime that is made makes calls that cannot be captured.
    found = _usual() if runtime is None else runtime
    requests = None
    try:
        with torch.cuda.graph(graph, **capture):
            requests = found.record(torch.cuda.current_stream())
            yield requests
        # An error for a graph that PyTorch has not kept.
        graph.raw_cuda_graph()
        graph.instantiate()
        requests.instantiated(graph)
    except BaseException:
        if requests is not None:
            # Its lane is free as soon as nobody can replay the graph; else it stays the graph's.
            with contextlib.suppress(Exception):
                graph.reset()
                requests.close()
        raise


class PrefetchLoader:
    """A loader of batches, the next of which is loaded when zernel signals that it is time.

    ``loader``: a ``DataLoader`` or anything else that can be iterated over. ``track``: has zernel
    track this process as a machine-learning program, without which there are no signals.
    ``signal``: a function that makes an object with ``wait()`` and ``close()`` in place of
    ``PrefetchSignal``.

    Batches, their order and exceptions are those of the loader. At most one batch is loaded ahead.
    Where zernel is missing, it is the loader itself.
    """

    def __init__(self, loader: Iterable, *, track: bool = True,
                 signal: Callable[[], PrefetchSignal] | None = None) -> None:
        if not any(hasattr(type(loader), name) for name in ("__iter__", "__getitem__")):
            raise TypeError(f"{type(loader).__name__} is no loader: it cannot be iterated over")
        self._loader, self._track = loader, track
        self._make = signal
        self._told = False

    def _signal(self) -> PrefetchSignal | None:
        if self._make is not None:
            return self._make()
        mode = os.environ.get("ZERNEL", "auto")
        if mode == "off":
            return None
        try:
            return PrefetchSignal(track=self._track)
        except _errors.Error as error:
            if mode == "require":
                raise
            if not self._told:
                self._told = True
                warnings.warn(f"zernel: batches are loaded on demand: {error}", RuntimeWarning,
                              stacklevel=3)
            return None

    def __iter__(self) -> Iterator:
        signal = self._signal()
        try:
            # First, as a loader may fork here.
            batches = iter(self._loader)
        except BaseException:
            if signal is not None:
                signal.close()
            raise
        return batches if signal is None else Batches(batches, signal)

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._loader, name)


class Batches:
    """One pass over the batches of a loader. It ends when it is closed or forgotten."""

    def __init__(self, batches: Iterator, signal: PrefetchSignal) -> None:
        self._batches, self._signal, self._process = batches, signal, os.getpid()
        self._changed = threading.Condition()
        self._ahead: Callable[[], Any] | None = None
        self._loading = self._ended = self._closed = False
        self._end = weakref.finalize(self, signal.close)
        self._thread = threading.Thread(
            target=contextvars.copy_context().run,
            args=(_load_at_signals, weakref.ref(self), signal, _grad_mode()),
            name="zernel-prefetch", daemon=True)
        self._thread.start()

    def __iter__(self) -> "Batches":
        return self

    def __next__(self) -> Any:
        if self._process != os.getpid():
            raise _errors.forked()
        with self._changed:
            while self._loading:
                self._changed.wait()
            outcome, self._ahead = self._ahead, None
            if outcome is None:
                if self._ended or self._closed:
                    raise StopIteration
                self._loading = True
        if outcome is None:
            outcome = self._load()
            with self._changed:
                self._loading = False
                self._changed.notify_all()
        return outcome()

    def _load(self) -> Callable[[], Any]:
        """Loads a batch, and returns a function that gives it or raises its exception."""
        try:
            batch = next(self._batches)
        except StopIteration:
            self._ended = True
            self._signal.close()
            return _stop
        except BaseException as error:
            return _raiser(error)
        return lambda: batch

    def load_ahead(self) -> None:
        """Loads the next batch, unless it is there, or is being loaded."""
        with self._changed:
            if self._loading or self._ahead is not None or self._ended or self._closed:
                return
            self._loading = True
        outcome = self._load()
        with self._changed:
            self._ahead, self._loading = outcome, False
            self._changed.notify_all()

    def close(self) -> None:
        """Ends the pass. A batch that is being loaded is waited for and dropped."""
        if self._process != os.getpid():
            # Thread and lock are the parent's.
            return
        with self._changed:
            self._closed = True
        self._signal.close()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        with self._changed:
            while self._loading:
                self._changed.wait()
            self._ahead, batches, self._batches = None, self._batches, iter(())
        end = getattr(batches, "close", None)
        if callable(end):
            end()

    def __enter__(self) -> "Batches":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _stop() -> Any:
    raise StopIteration


def _raiser(error: BaseException) -> Callable[[], Any]:
    def throw() -> Any:
        raise error

    return throw


def _grad_mode() -> bool | None:
    """PyTorch's mode of this thread, which a loader may depend on."""
    enabled = getattr(sys.modules.get("torch"), "is_grad_enabled", None)
    return None if enabled is None else enabled()


def _load_at_signals(batches: "weakref.ref[Batches]", signal: PrefetchSignal,
                     grad: bool | None) -> None:
    if grad is not None:
        sys.modules["torch"].set_grad_enabled(grad)
    try:
        while not signal.closed:
            if not signal.wait():
                continue
            found = batches()
            if found is None:
                return
            found.load_ahead()
            del found
    except _errors.ClosedError:
        # Between the look and the wait.
        return
