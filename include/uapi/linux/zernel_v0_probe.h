/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * zernel user ABI: probes of functions in which threads wait for the GPU. A part of
 * <linux/zernel_v0.h>, whose conventions and errors apply.
 */
#ifndef _UAPI_LINUX_ZERNEL_V0_PROBE_H
#define _UAPI_LINUX_ZERNEL_V0_PROBE_H

#include <linux/types.h>

#define ZERNEL_V0_MAX_PROBES_PER_FILE	64	/* of an open /dev/zernel */
#define ZERNEL_V0_MAX_PROBES		256	/* of all */

/**
 * struct zernel_v0_probe - a function of a library in which threads wait for the GPU
 * @fd: in: add: the library, a regular file that is open for reading; remove: zero
 * @flags: must be zero
 * @offset: in: add: where in the file the first instruction of the function is;
 *          remove: zero
 * @probe: number of the probe in this open /dev/zernel, never 0 and never used again;
 *         add: out, remove: in
 * @reserved: must be zero
 *
 * From the call of the function to its return a tracked thread waits for the GPU: see
 * struct zernel_v0_thread_info. What waits it does meanwhile are a part of that one. Who
 * waits already is not seen until he calls the function again.
 *
 * Probes are the kernel's uprobes: each process that executes the function, tracked or
 * not, takes a trap at its call, a tracked thread one more at its return. An @offset
 * that is not the first instruction of a function has programs fail that execute what
 * lies there. Exceptions must not be thrown through a function that is probed.
 *
 * A return may not be seen: after a jump out of the function, and where the kernel keeps
 * no more of them (64 in a thread). The wait is over then when the thread calls a
 * function that is probed from as far up its stack or further, is found to have been in
 * the kernel from further up its stack, executes another program, or exits.
 *
 * A probe lives until it is removed or the open /dev/zernel that has it is closed. A
 * wait that it has seen to begin is over with it.
 *
 * To add takes CAP_PERFMON or CAP_SYS_ADMIN. To remove takes the open file.
 *
 * Errors
 *
 * EPERM	add: not allowed, see above
 * EDQUOT	add: this open file has ZERNEL_V0_MAX_PROBES_PER_FILE
 * ENOSPC	add: there are ZERNEL_V0_MAX_PROBES
 * EBADF	add: fd is not open
 * EACCES	add: fd is not open for reading
 * ENODEV	add: it is not a regular file
 * ERANGE	add: @offset does not lie in the file
 * ENOEXEC	add: at @offset there is no instruction that can be probed, as seen where
 *		some process maps that part of the file privately; in others there is
 *		no probe then, and nobody is told
 * EINVAL	add: also if instructions do not begin at such an @offset
 * EIO		add: the file system cannot have probes, the file cannot be read, or the
 *		memory of a process that maps it cannot be changed
 * EOPNOTSUPP	add: the kernel was built without uprobes or preempt notifiers
 * ENOENT	remove: this open file has no such probe
 */
struct zernel_v0_probe {
	__u32 fd;
	__u32 flags;
	__u64 offset;
	__u32 probe;
	__u32 reserved;
};

#endif /* _UAPI_LINUX_ZERNEL_V0_PROBE_H */
