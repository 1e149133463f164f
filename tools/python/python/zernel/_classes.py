# SPDX-License-Identifier: MIT OR Apache-2.0
"""The class of each TSG of this process, which several schedulers may want."""

import threading
from typing import NamedTuple, Protocol

from . import _errors


class OwnClass(NamedTuple):
    """Attributes that a TSG has of its own. ``None``: those that apply to it without."""

    level: int | None
    timeslice_us: int | None


class Holder(Protocol):
    """A runtime, as far as classes go."""

    @property
    def tsg(self) -> int | None: ...
    def _own_class(self) -> tuple[int | None, int | None]: ...
    def _set_own_class(self, level: int | None, timeslice_us: int | None) -> None: ...


class Want:
    """The class that a scheduler wants: that of its most urgent task."""

    def __init__(self, level: int, timeslice_us: int | None) -> None:
        self.level, self.timeslice_us = level, timeslice_us


class _Tsg:
    """A TSG that somebody wants a class for."""

    def __init__(self, before: OwnClass) -> None:
        #: Its class before the first of them.
        self.before = before
        #: The class that was set for them, and none if that was refused.
        self.set: OwnClass | None = None
        #: By scheduler, the first first.
        self.wants: dict[object, Want] = {}
        #: The runtimes of those.
        self.holders: dict[object, Holder] = {}
        #: The one that zernel has refused.
        self.refused: Want | None = None

    def apply(self, holder: Holder) -> None:
        """Gives it the class of the most urgent want. An error leaves it without."""
        want = min(self.wants.values(), key=lambda want: want.level)
        if want is self.refused:
            return
        slice_us = self.before.timeslice_us if want.timeslice_us is None else want.timeslice_us
        wanted = OwnClass(want.level, slice_us)
        if wanted == self.set:
            return
        try:
            holder._set_own_class(*wanted)
        except _errors.Error:
            self.refused = want
            # One that is less urgent is no class for what was refused.
            self.restore(holder)
            raise
        self.refused, self.set = None, wanted

    def restore(self, holder: Holder) -> None:
        """Gives it the class from before, unless somebody else has given it another one."""
        told, self.set = self.set, None
        if told is not None and OwnClass(*holder._own_class()) == told:
            holder._set_own_class(*self.before)


class Classes:
    """Wants for all TSGs. The most urgent one counts, and the last that ends restores."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begins anew: in a child of `fork()` the TSGs are the parent's."""
        self._lock = threading.RLock()
        self._tsgs: dict[int, _Tsg] = {}
        #: The TSG of each scheduler, whose runtime may be closed before it.
        self._of: dict[object, int] = {}

    def want(self, owner: object, holder: Holder, want: Want, *, strict: bool) -> None:
        """A scheduler wants a class.

        After an error of zernel it still does, unless it is strict: less urgent wants, of others
        too, do not lower a TSG that has more urgent work without its class.
        """
        with self._lock:
            tsg = holder.tsg
            if tsg is None:
                return
            entry = self._tsgs.get(tsg)
            if entry is None:
                entry = self._tsgs[tsg] = _Tsg(OwnClass(*holder._own_class()))
            old = entry.wants.get(owner)
            if old is None or want.level < old.level:
                entry.wants[owner], entry.holders[owner], self._of[owner] = want, holder, tsg
                try:
                    entry.apply(holder)
                except _errors.Error:
                    if strict:
                        self._take_back(tsg, owner, old, holder)
                    raise

    def _take_back(self, tsg: int, owner: object, old: Want | None, holder: Holder) -> None:
        entry = self._tsgs[tsg]
        if old is not None:
            entry.wants[owner] = old
        else:
            del entry.wants[owner], entry.holders[owner], self._of[owner]
        if entry.wants:
            entry.apply(holder)
        else:
            del self._tsgs[tsg]

    def leave(self, owner: object, holder: Holder) -> None:
        """A scheduler ends: the class is that of the others, or the one from before.

        It is over with an error, too, such as that of a runtime that has been closed.
        """
        with self._lock:
            tsg = self._of.pop(owner, None)
            if tsg is None:
                return
            entry = self._tsgs[tsg]
            del entry.wants[owner], entry.holders[owner]
            if entry.wants:
                entry.apply(next(iter(entry.holders.values())))
            else:
                del self._tsgs[tsg]
                entry.restore(holder)


#: Those of this process.
CLASSES = Classes()
