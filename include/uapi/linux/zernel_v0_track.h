/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * zernel user ABI: threads whose use of CPUs and waits are recorded. A part of
 * <linux/zernel_v0.h>, whose conventions and errors apply.
 */
#ifndef _UAPI_LINUX_ZERNEL_V0_TRACK_H
#define _UAPI_LINUX_ZERNEL_V0_TRACK_H

#include <linux/types.h>

/* Flags of struct zernel_v0_track. */
#define ZERNEL_V0_TRACK_PIDFD		(1U << 0)	/* id is a pidfd */
#define ZERNEL_V0_TRACK_CHILDREN		(1U << 1)	/* track: processes it makes later, too */
#define ZERNEL_V0_TRACK_ML			(1U << 2)	/* track: a machine-learning program */

/**
 * struct zernel_v0_track - a target whose threads are tracked
 * @target: in: ZERNEL_V0_TARGET_PROCESS, ZERNEL_V0_TARGET_THREAD or ZERNEL_V0_TARGET_CGROUP
 * @flags: in: ZERNEL_TRACK_*; ZERNEL_V0_TRACK_CHILDREN is for a process that is to be
 *         tracked
 * @id: in: pid or tid, 0 for the caller, or a pidfd; the fd of a cgroup v2 directory
 * @threads: out: threads of the process, or in the cgroup, that are tracked after the
 *           call; 0 for a cgroup that is tracked no more
 * @reserved: must be zero
 *
 * A process is tracked with all its threads, those that it makes later too, and
 * with ZERNEL_V0_TRACK_CHILDREN with the processes that its threads make from then
 * on, in the same way. Tracking survives execve(2) and ends with the thread. To
 * track what is tracked already adds what is new. Where there is no memory or
 * room for a thread that is made later, it is counted as missed instead.
 *
 * A cgroup is tracked with every process that is in it or below, also those that come
 * later: made there, or moved. A process that leaves it is tracked no more, unless
 * another tracked cgroup has it or it was named itself, or made by one that was with
 * ZERNEL_V0_TRACK_CHILDREN. Moves are looked for soon after they happen. A process is where
 * its first thread is. A cgroup that was removed is tracked no more.
 *
 * The threads of a process that was tracked with ZERNEL_V0_TRACK_ML, itself, one of its
 * threads or a cgroup that it is in, have phases, see <linux/zernel_v0_phase.h>; those of
 * others never do.
 *
 * A thread is recorded from the moment on when it returns to user space next:
 * at once if it runs, after the call that it sleeps in otherwise. While any
 * thread is tracked, or has still to return to user space after it is tracked
 * no more, the module cannot be unloaded.
 *
 * To track one's own target is free; the target of another user takes
 * CAP_SYS_NICE or membership of the group in the tunable lc_gid, and so does
 * ending what was begun by that. A user other than root has at most 32,768
 * tracked threads. A cgroup may be tracked by the owner of its directory, too: with the
 * processes that are his own; with that privilege those of all users are. A user other
 * than root has at most 64 tracked cgroups.
 *
 * Errors
 *
 * EPERM	not allowed, see above
 * EDQUOT	track: the quota of the user whose threads they are, or of cgroups of the
 *		caller, is used up
 * ENOSPC	track: 131,072 threads are tracked, or 4,096 cgroups
 * EOPNOTSUPP	track: the kernel was built without preempt notifiers
 * ENODATA	untrack: the target is not tracked
 * EBUSY	untrack: the thread is tracked with its whole process, or the target with
 *		its cgroup alone
 * ESRCH	no such thread or process, a tid that is not a process, or one that
 *		runs no program (a thread of the kernel); the cgroup was removed
 * EBADF	the fd is not a pidfd, or not that of a cgroup v2 directory
 */
struct zernel_v0_track {
	__u32 target;
	__u32 flags;
	__u64 id;
	__u32 threads;
	__u32 reserved;
};

/* Why a thread sleeps. */
#define ZERNEL_V0_SLEEP_IO			0	/* for a block device, or what counts as one */
#define ZERNEL_V0_SLEEP_FUTEX		1	/* in futex(2) and its like: for a thread */
#define ZERNEL_V0_SLEEP_POLL		2	/* in poll(2), select(2), epoll and their like */
#define ZERNEL_V0_SLEEP_READ_WRITE		3	/* in read(2), write(2) and their like */
#define ZERNEL_V0_SLEEP_IOCTL		4	/* in ioctl(2): for a driver */
#define ZERNEL_V0_SLEEP_OTHER		5	/* for anything else */
#define ZERNEL_V0_NR_SLEEPS		6

/* Activities of a thread: 0 to 5 it sleeps, see above. */
#define ZERNEL_V0_DOES_RUN			16	/* it has a CPU */
#define ZERNEL_V0_DOES_QUEUE		17	/* it could run and has no CPU */
#define ZERNEL_V0_DOES_EXIT		18	/* it has exited */
#define ZERNEL_V0_DOES_ARRIVE		19	/* it is not recorded yet */

/* Flags of struct zernel_v0_thread_info. */
#define ZERNEL_V0_THREAD_WHOLE		(1U << 0)	/* its whole process is tracked */
#define ZERNEL_V0_THREAD_CHILDREN		(1U << 1)	/* and processes that it makes */
#define ZERNEL_V0_THREAD_PRIVILEGED	(1U << 2)	/* by privilege */
#define ZERNEL_V0_THREAD_CGROUP		(1U << 3)	/* with a cgroup */
#define ZERNEL_V0_THREAD_GPU_WAIT		(1U << 4)	/* it waits for the GPU */

/**
 * struct zernel_v0_thread_info - a tracked thread
 * @id: id of the record; never used again, not even after a reload
 * @pid: process in the caller's pid namespace, 0 if not visible there or reaped
 * @tid: thread, likewise
 * @uid: real user in the caller's user namespace
 * @flags: ZERNEL_THREAD_*
 * @does: ZERNEL_DOES_*, or why it sleeps
 * @reserved: zero
 * @present_ns: for how long it has been doing that
 * @bursts: CPU bursts that began: from one sleep to the next
 * @burst_ns: CPU time, up to the last change of what it does
 * @queues: times that it could run and had no CPU
 * @queue_ns: for how long that was
 * @sleeps: sleeps that began, by ZERNEL_SLEEP_*
 * @sleep_ns: for how long those were
 * @burst_now_ns: CPU time of the burst that goes on, 0 while it sleeps
 * @burst_last_ns: CPU time of the last burst that a sleep has ended
 * @comm: name of the thread, NUL-terminated
 * @gpu_waits: waits for the GPU that began
 * @gpu_wait_ns: for how long those were, the one that goes on included
 *
 * burst_ns + queue_ns + all sleep_ns + present_ns is the time since it is
 * recorded; none of the sums ever decreases. The scheduler's own clock tells
 * how much of a sleep was waiting for a CPU after the wake-up, which is known
 * when it has one. A thread that waits for the GPU sleeps or spins: those times are
 * a part of the others. That it waits is told by the provider of the GPU, where it
 * does that in a system call, and by probes, see <linux/zernel_v0_probe.h>.
 *
 * An enumeration shows the threads that belong to the caller's effective user
 * alone (real, effective and saved), or all with CAP_PERFMON.
 */
struct zernel_v0_thread_info {
	__u64 id;
	__u32 pid;
	__u32 tid;
	__u32 uid;
	__u32 flags;
	__u32 does;
	__u32 reserved;
	__u64 present_ns;
	__u64 bursts;
	__u64 burst_ns;
	__u64 queues;
	__u64 queue_ns;
	__u64 sleeps[ZERNEL_V0_NR_SLEEPS];
	__u64 sleep_ns[ZERNEL_V0_NR_SLEEPS];
	__u64 burst_now_ns;
	__u64 burst_last_ns;
	char comm[16];
	__u64 gpu_waits;
	__u64 gpu_wait_ns;
};

#endif /* _UAPI_LINUX_ZERNEL_V0_TRACK_H */
