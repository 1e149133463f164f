/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * zernel user ABI: what is done when it is time for a process to load its next batch. A part
 * of <linux/zernel_v0.h>, whose conventions and errors apply.
 */
#ifndef _UAPI_LINUX_ZERNEL_V0_PREFETCH_H
#define _UAPI_LINUX_ZERNEL_V0_PREFETCH_H

#include <linux/types.h>

/* Flags of struct zernel_v0_prefetch. */
#define ZERNEL_V0_PREFETCH_PIDFD		(1U << 0)	/* id is a pidfd */

/* Actions at each signal. */
#define ZERNEL_V0_PREFETCH_EVENTFD		1	/* 1 is added to an eventfd */
#define ZERNEL_V0_PREFETCH_WORD		2	/* the word of a slot counts it */
#define ZERNEL_V0_PREFETCH_READ_AHEAD	3	/* a range of a file is read ahead */

/* Most that is read ahead at a signal, and the subscriptions of one user. */
#define ZERNEL_V0_PREFETCH_MAX_LENGTH	1073741824ULL
#define ZERNEL_V0_MAX_PREFETCH_PER_USER	64

/**
 * struct zernel_v0_prefetch - what is to be done at each signal for a process
 * @id: in: pid of the process, 0 for the caller, or a pidfd
 * @flags: in: ZERNEL_V0_PREFETCH_PIDFD or 0
 * @kind: in: ZERNEL_V0_PREFETCH_EVENTFD, _WORD or _READ_AHEAD. What a kind does not name
 *        must be zero
 * @fd: in: EVENTFD: the eventfd; READ_AHEAD: the file, open for reading
 * @page: in: WORD: number of a page that was registered with this file
 * @slot: in: WORD: slot in the page, below ZERNEL_V0_PAGE_SLOTS
 * @subscription: out: number of the subscription in this file, never 0; must be zero
 * @offset: in: READ_AHEAD: where the first range begins, in bytes
 * @length: in: READ_AHEAD: bytes for each signal, 1 to ZERNEL_V0_PREFETCH_MAX_LENGTH
 * @span: in: READ_AHEAD: after so many bytes it begins anew at @offset; at least @length,
 *        or 0: the range is the same each time
 *
 * A signal is what ZERNEL_V0_EVENT_PREFETCH tells of: see <linux/zernel_v0_phase.h> for when it is
 * given. The process need not be tracked yet.
 *
 * EVENTFD: 1 is added to the eventfd, as by a write().
 *
 * WORD: @prefetch of the slot counts up by one, from what it holds at the time of the call,
 * with release order. zernel counts for itself, whatever is stored there meanwhile. A slot has
 * one such subscription. A page that is unregistered ends those of its slots.
 *
 * READ_AHEAD: what is missing of the range is read into the page cache, as by
 * posix_fadvise(POSIX_FADV_WILLNEED), by a worker: memory is that of the memory cgroup in
 * which the caller is, and transfers those of its I/O cgroup. The next range begins where
 * this one ended; what is beyond the end of the file is not read. A signal that comes before
 * the range of the one before was handed to the file system is skipped.
 *
 * A subscription is the caller's: it is signalled as long as he, as he was at the time of
 * the call, may see the process, which is asked anew at each signal. It ends with
 * ZERNEL_V0_IOC_PREFETCH_UNSUBSCRIBE, or with the open file. That of a process that has
 * exited stays, and is silent, until then.
 *
 * Whoever may see the phases of a process may subscribe: its own user, if it runs as no
 * other one too, and CAP_PERFMON. A user without CAP_SYS_RESOURCE has at most
 * ZERNEL_V0_MAX_PREFETCH_PER_USER subscriptions, and the sum of their lengths is at most what
 * the tunable prefetch_readahead_bytes says. A subscription counts until what it reads ahead
 * is read, if that is later than its end.
 *
 * Errors
 *
 * EINVAL	no such kind; a range that is none of the above, or ends beyond what a file can
 *		have; @fd is not an eventfd, or neither a regular file nor a block device
 * EBADF	@fd is not open, or not open for reading; @id is not a pidfd
 * ENOENT	no such page, or no such slot
 * EBUSY	the word of the slot has a subscription
 * ESRCH	no such process, one that the caller does not see from his pid namespace, or one
 *		that runs no program (a thread of the kernel)
 * EPERM	not allowed, see above
 * EDQUOT	a quota of the user is used up, see above
 */
struct zernel_v0_prefetch {
	__u64 id;
	__u32 flags;
	__u32 kind;
	__s32 fd;
	__u32 page;
	__u32 slot;
	__u32 subscription;
	__u64 offset;
	__u64 length;
	__u64 span;
};

/**
 * struct zernel_v0_prefetch_end - names a subscription that is to end
 * @subscription: its number
 * @flags: must be zero
 *
 * No signal reaches it after the call. What it reads ahead ends after a part that is under
 * way.
 *
 * Errors: ENOENT no such subscription.
 */
struct zernel_v0_prefetch_end {
	__u32 subscription;
	__u32 flags;
};

#endif /* _UAPI_LINUX_ZERNEL_V0_PREFETCH_H */
