# SPDX-License-Identifier: GPL-2.0
"""The lab: guests in QEMU, the suites of `make test`, and the checks of the sources."""
