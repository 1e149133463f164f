/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* See nv-linux.h. */
#ifndef OS_INTERFACE_H
#define OS_INTERFACE_H

/*
 * Registers are out of bounds, as they are with confidential computing: whether the GPU is suspended
 * or being pulled out cannot be seen in time.
 */
#define os_cc_enabled	true

#endif /* OS_INTERFACE_H */
