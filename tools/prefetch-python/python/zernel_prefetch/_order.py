# SPDX-License-Identifier: MIT OR Apache-2.0
"""Orders of samples, and the states from which a loader goes on."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, cast

from . import _native
from ._errors import MisuseError

#: A place in an order: what `Loader.state()` gives, of numbers alone, so that JSON can hold it.
State = dict[str, int | None]


class Sample(NamedTuple):
    """A box of an array. Any three such values do as well."""

    array: str
    start: tuple[int, ...]
    shape: tuple[int, ...]


_Sample = tuple[str, Sequence[int], Sequence[int]]
#: A batch that is to be loaded, with the state behind it.
Placed = tuple[State, Sequence[_Sample]]


@dataclass(frozen=True)
class Order:
    """The samples of an index in batches: shuffled by a seed, and shared out among ranks.

    All ranks have the same number of batches; samples that are left over are left out. Each epoch has an
    order of its own.
    """

    index: Sequence[_Sample]
    batch_size: int
    _: KW_ONLY
    #: `None`: in the order of the index.
    seed: int | None = None
    rank: int = 0
    ranks: int = 1
    #: `None`: without an end.
    epochs: int | None = 1

    def __post_init__(self) -> None:
        for name in ("batch_size", "rank", "ranks", "seed", "epochs"):
            number = getattr(self, name)
            may_be_none = name in ("seed", "epochs")
            if number is None and may_be_none:
                continue
            if not isinstance(number, int):
                raise TypeError(f"{name} is a number")
            if not 0 <= number < 1 << 64:
                raise MisuseError(f"{name}={number} is out of range")
        _native.batches(len(self.index), self.batch_size, self.rank, self.ranks)

    def __len__(self) -> int:
        """The batches of an epoch."""
        return _native.batches(len(self.index), self.batch_size, self.rank, self.ranks)

    def _identity(self) -> State:
        """That of an order that goes on with a state."""
        return {"samples": len(self.index), "batch_size": self.batch_size, "seed": self.seed,
                "rank": self.rank, "ranks": self.ranks}


def begin(batches: Order | Iterable[Iterable[_Sample]]) -> State:
    """The state before the first batch."""
    if isinstance(batches, Order):
        return {"version": 1, "epoch": 0, "batch": 0} | batches._identity()
    return {"version": 1, "batch": 0}


def checked(batches: Order | Iterable[Iterable[_Sample]], state: Mapping[str, Any]) -> State:
    """The state, if it is one of such batches."""
    first = begin(batches)
    if not isinstance(state, Mapping) or state.keys() != first.keys():
        raise MisuseError(f"resume={state!r} is no state of such batches")
    for name, number in first.items():
        if name in ("epoch", "batch"):
            found = state[name]
            if type(found) is not int or not 0 <= found < 1 << 64:
                raise MisuseError(f"resume: {name}={found!r} is no place")
        elif state[name] != number:
            raise MisuseError(f"resume: the state is of {name}={state[name]!r}, not {number!r}")
    return dict(state)


def begins_anew(batches: Order | Iterable[Iterable[_Sample]]) -> bool:
    """They can be gone through more than once."""
    return isinstance(batches, Order) or iter(batches) is not batches


def placed(batches: Order | Iterable[Iterable[_Sample]], state: State) -> Iterator[Placed]:
    """The batches behind a state."""
    if isinstance(batches, Order):
        return _of_order(batches, state)
    return _of_iterable(batches, cast(int, state["batch"]))


def _of_order(order: Order, state: State) -> Iterator[Placed]:
    identity = order._identity()
    place = cast(tuple[int, int], (state["epoch"], state["batch"]))
    numbers = _native.Numbers(len(order.index), order.batch_size, order.seed, order.rank, order.ranks,
                              place)
    while order.epochs is None or numbers.place[0] < order.epochs:
        at = numbers.take()
        epoch, batch = numbers.place
        behind: State = {"version": 1, "epoch": epoch, "batch": batch}
        yield behind | identity, [order.index[number] for number in at]


def _of_iterable(batches: Iterable[Iterable[_Sample]], passed: int) -> Iterator[Placed]:
    for number, samples in enumerate(itertools.islice(batches, passed, None), passed + 1):
        yield {"version": 1, "batch": number}, list(samples)
