# SPDX-License-Identifier: GPL-2.0
"""Tests of the lab: `cd scripts && python3 -m unittest`; those with guests are in guests.py."""
