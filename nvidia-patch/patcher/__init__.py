# SPDX-License-Identifier: GPL-2.0
"""Makes a copy of a source tree of NVIDIA's open driver that has zernel's hooks."""


class Refused(Exception):
    """Nothing was made; the message says why and what to do, one fact a line."""
