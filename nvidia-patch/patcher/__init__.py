# SPDX-License-Identifier: GPL-2.0
"""Puts zernel's hooks into a source tree of NVIDIA's open driver, or takes them out again."""


class Refused(Exception):
    """The tree is left as it was; the message says why and what to do, one fact a line."""
