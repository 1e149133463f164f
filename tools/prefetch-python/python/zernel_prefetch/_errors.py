# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exceptions, one class for each kind of fault (Documentation/prefetch.rst)."""

from typing import ClassVar


class Error(Exception):
    """A fault. Its text names the place."""

    #: The name of its kind.
    kind: ClassVar[str] = ""
    #: Asking once more can give another answer at once.
    transient: ClassVar[bool] = False


class CancelledError(Error):
    """The work for a batch was given up."""

    kind = "cancelled"
    transient = True


class UnavailableError(Error):
    """The store did not answer well, as often as it was asked."""

    kind = "unavailable"
    transient = True


class DeniedError(Error):
    """The store refuses access."""

    kind = "denied"


class MissingError(Error):
    """There is no such array, or no such folder."""

    kind = "missing"


class CorruptError(Error):
    """The bytes are none of the format's."""

    kind = "corrupt"


class UnsupportedError(Error):
    """The format allows it; the prefetcher does not read it."""

    kind = "unsupported"


class TooLargeError(Error):
    """It is larger than values may be."""

    kind = "too_large"


class ChangedError(Error):
    """An object changed while it was read, more often than it is read anew."""

    kind = "changed"


class SaturatedError(Error):
    """There was no room for metadata within the longest wait, or there is no stream left."""

    kind = "saturated"
    transient = True


class MisuseError(Error, ValueError):
    """A box beyond its array, or an argument that means nothing."""

    kind = "misuse"


class InternalError(Error):
    """A fault of this package."""

    kind = "internal"
