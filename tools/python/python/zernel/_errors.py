# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exceptions, each with an errno and the name that it has in every language."""

import errno as numbers


class Error(OSError):
    """An error of zernel, of its driver or of CUDA.

    ``errno`` is its number, ``name`` its name (Documentation/runtime-python.rst), ``strerror`` a
    sentence.
    """

    name: str

    def __init__(self, errno: int, text: str, name: str = "ZERNEL_INTERNAL") -> None:
        super().__init__(errno, text)
        self.name = name

    def __str__(self) -> str:
        return f"{self.name}: {self.strerror}"


class MisuseError(Error, ValueError):
    """A fault of the program. It is raised in each mode, and has changed nothing."""


class UnavailableError(Error):
    """This machine has no requests, and ``ZERNEL=require`` makes that an error."""


class LostError(Error):
    """The context of the runtime is of no use any more."""


class ForkedError(Error):
    """This process is a child of ``fork()``: requests and threads stayed with its parent."""


class ClosedError(Error):
    """The runtime, the scheduler or the signal is closed."""


class QueueFullError(Error):
    """As many calls wait for a worker as may."""


class ConfigError(MisuseError):
    """The configuration file cannot be read, or has an error."""


def misuse(text: str) -> MisuseError:
    """An argument out of range."""
    return MisuseError(numbers.EINVAL, text, "ZERNEL_BAD_ARGUMENT")


def forked() -> ForkedError:
    """For a child of `fork()`."""
    text = "this process is a child of fork(): requests and threads stayed with its parent"
    return ForkedError(numbers.ECHILD, text, "ZERNEL_FORKED")


def closed(thing: str) -> ClosedError:
    """For something that is closed."""
    return ClosedError(numbers.ESHUTDOWN, f"{thing} is closed", "ZERNEL_SHUT_DOWN")


def full(bound: int) -> QueueFullError:
    """For a queue with no room."""
    return QueueFullError(numbers.EAGAIN, f"{bound} calls wait for a worker", "ZERNEL_QUEUE_FULL")


def deadlock() -> MisuseError:
    """For a wait for oneself."""
    text = "close() in a function of the scheduler would wait for that function"
    return MisuseError(numbers.EDEADLK, text, "ZERNEL_WOULD_DEADLOCK")
