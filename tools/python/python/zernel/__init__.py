# SPDX-License-Identifier: MIT OR Apache-2.0
"""Requests of CUDA programs: the GPU is free when their data is ready.

A program says that it begins to prepare data, that the data is ready, and that the result is
there::

    runtime = zernel.attach()                 # of the CUDA context that is current
    with runtime.request(key="resnet50/8") as request:
        batch = decode(question)
        hidden = first_layer(batch)           # the first launch
        request.ready()
        answer = other_layers(hidden)

Requests are advice. Where zernel, its permission, a GPU or a usable driver is missing, all of it
does nothing, and one line on the standard error says why. Documentation/runtime-python.rst has the
whole interface.
"""

from ._errors import (
    ClosedError,
    ConfigError,
    Error,
    ForkedError,
    LostError,
    MisuseError,
    QueueFullError,
    UnavailableError,
)
from ._metrics import Metrics
from ._scheduler import Scheduler
from ._task import Priority, Task, current_request, ready
from ._zernel import GraphRequests, PrefetchSignal, Request, Runtime, TsgsBefore, __version__, stats

__all__ = [
    "ClosedError",
    "ConfigError",
    "Error",
    "ForkedError",
    "GraphRequests",
    "LostError",
    "Metrics",
    "MisuseError",
    "PrefetchSignal",
    "Priority",
    "QueueFullError",
    "Request",
    "Runtime",
    "Scheduler",
    "Task",
    "TsgsBefore",
    "UnavailableError",
    "__version__",
    "attach",
    "current_request",
    "ready",
    "stats",
]

#: The runtime of the CUDA context that is current in this thread.
attach = Runtime

for _error in (ClosedError, ConfigError, Error, ForkedError, LostError, MisuseError, QueueFullError,
               UnavailableError):
    _error.__module__ = __name__
del _error
