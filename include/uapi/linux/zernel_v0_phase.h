/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * zernel user ABI: phases of machine-learning programs. A part of <linux/zernel_v0.h>, whose
 * conventions and errors apply.
 */
#ifndef _UAPI_LINUX_ZERNEL_V0_PHASE_H
#define _UAPI_LINUX_ZERNEL_V0_PHASE_H

#include <linux/types.h>

/* Phases of a thread of a machine-learning program. */
#define ZERNEL_V0_PHASE_UNKNOWN		0	/* none of the others */
#define ZERNEL_V0_PHASE_DATA_LOADING	1	/* it waits for data, the GPU has little to do */
#define ZERNEL_V0_PHASE_GPU_COMPUTE	2	/* the GPU computes, the thread waits for it */
#define ZERNEL_V0_PHASE_NCCL_COLLECTIVE	3	/* ranks exchange data */
#define ZERNEL_V0_PHASE_OPTIMIZER_STEP	4	/* short work on the CPU between two batches */
#define ZERNEL_V0_NR_PHASES		5

/* Flags of struct zernel_v0_thread_phases. */
#define ZERNEL_V0_PHASE_HINTED		(1U << 0)	/* a hint holds */

/**
 * struct zernel_v0_thread_phases - the phases of a thread of a machine-learning program
 * @id: id of its record, as in struct zernel_v0_thread_info
 * @pid: process in the caller's pid namespace, 0 if not visible there or reaped
 * @tid: thread, likewise
 * @uid: real user in the caller's user namespace
 * @flags: ZERNEL_V0_PHASE_HINTED
 * @phase: ZERNEL_PHASE_* now
 * @nice: what zernel has added to its nice value, -39 to 39: for its phase, or for a
 *        request of it; 0 while somebody else has set another one
 * @present_ns: for how long it is in that phase
 * @phase_ns: time in each phase, that of the present one included
 * @transitions: changes of the phase; it stops at 4,294,967,295, and so does samples
 * @samples: samples that were taken of it
 * @comm: name of the thread, NUL-terminated
 *
 * The sum of phase_ns is the time since it is recorded, to the nanosecond; none of
 * them ever decreases. An enumeration shows whom ZERNEL_V0_IOC_LIST_THREADS shows, of
 * programs tracked with ZERNEL_V0_TRACK_ML.
 */
struct zernel_v0_thread_phases {
	__u64 id;
	__u32 pid;
	__u32 tid;
	__u32 uid;
	__u32 flags;
	__u32 phase;
	__s32 nice;
	__u64 present_ns;
	__u64 phase_ns[ZERNEL_V0_NR_PHASES];
	__u64 transitions;
	__u64 samples;
	char comm[16];
};

/* Flags of struct zernel_v0_process_phases. */
#define ZERNEL_V0_PROCESS_WHOLE		(1U << 0)	/* tracked with all its threads */
#define ZERNEL_V0_PROCESS_CHILDREN		(1U << 1)	/* and the processes that it makes */
#define ZERNEL_V0_PROCESS_PRIVILEGED	(1U << 2)	/* by privilege */
#define ZERNEL_V0_PROCESS_ML		(1U << 3)	/* a machine-learning program */
#define ZERNEL_V0_PROCESS_SYNCED		(1U << 4)	/* it was seen to wait for the GPU to the end */
#define ZERNEL_V0_PROCESS_CGROUP		(1U << 5)	/* tracked with a cgroup */

/**
 * struct zernel_v0_process_phases - a process with tracked threads
 * @id: id of the process, which grows; never used again, not even after a reload
 * @pid: its number in the caller's pid namespace, 0 if not visible there or reaped
 * @uid: real user in the caller's user namespace
 * @flags: ZERNEL_PROCESS_*
 * @threads: tracked threads now
 * @gpu_permille: share of the last sample in which a GPU was busy for it: the
 *                largest of the time for which a TSG of it ran, that for which it had
 *                something to run, and that for which a thread waited for the GPU
 * @reserved: zero
 * @sync_ns: how long ago its work on the GPU was done last, or a thread's wait for the
 *           GPU ended; 0 if never seen
 * @phase_ns: time in each phase, of all its threads together, those that have
 *            exited included
 * @comm: name of the process, NUL-terminated
 * @computations: computations that ended: from when some thread of it is in
 *                ZERNEL_V0_PHASE_GPU_COMPUTE, or the GPU has work again, until none is, or
 *                the GPU is done and a thread that waited for it goes on
 * @signals: events ZERNEL_V0_EVENT_PREFETCH for it
 * @early: signals after which the batch was there before the computation was over
 * @early_ns: by how much in all
 * @late: signals after which the computation was over before the batch was there, as
 *        far as samples tell: to a tick
 * @late_ns: by how much in all
 * @useless: signals after which nothing was loaded until the next one
 * @overlap_permille: how much of the loading computations can hide, in thousandths:
 *                    (compute + lead) / loading, of all that there were; 0 if nothing
 *                    was loaded. From 1000 on all of it
 */
struct zernel_v0_process_phases {
	__u64 id;
	__u32 pid;
	__u32 uid;
	__u32 flags;
	__u32 threads;
	__u32 gpu_permille;
	__u32 reserved;
	__u64 sync_ns;
	__u64 phase_ns[ZERNEL_V0_NR_PHASES];
	char comm[16];
	__u64 computations;
	__u64 signals;
	__u64 early;
	__u64 early_ns;
	__u64 late;
	__u64 late_ns;
	__u64 useless;
	__u64 overlap_permille;
};

/* Flags of struct zernel_v0_cgroup_phases. */
#define ZERNEL_V0_CGROUP_PRIVILEGED	(1U << 0)	/* by privilege: processes of all users */
#define ZERNEL_V0_CGROUP_ML		(1U << 1)	/* its processes are machine-learning programs */

/**
 * struct zernel_v0_cgroup_phases - a tracked cgroup
 * @id: id of the cgroup: the inode number of its directory
 * @uid: who tracks it, in the caller's user namespace
 * @flags: ZERNEL_CGROUP_*
 * @processes: processes that are tracked because they are in it or below
 * @threads: tracked threads of theirs
 * @phase_ns: time in each phase, of all threads of processes that are in it or below, or
 *            were: as long as they were tracked there, to the nanosecond. Time of which no
 *            phase is known is in that of ZERNEL_V0_PHASE_UNKNOWN
 *
 * None of phase_ns ever decreases while the cgroup is tracked. The time of a thread that
 * is in several of them, one below the other, counts in each.
 *
 * An enumeration shows the cgroups that the caller's effective user tracks, but for those
 * that are tracked by privilege, which have processes of others; or all with CAP_PERFMON.
 */
struct zernel_v0_cgroup_phases {
	__u64 id;
	__u32 uid;
	__u32 flags;
	__u32 processes;
	__u32 threads;
	__u64 phase_ns[ZERNEL_V0_NR_PHASES];
};

/* Longest time for which a hint holds. */
#define ZERNEL_V0_HINT_MAX_NS		60000000000ULL

/**
 * struct zernel_v0_phase_hint - a thread says what it does
 * @tid: in: thread, 0 for the caller
 * @phase: in: ZERNEL_PHASE_*
 * @reserved: must be zero
 * @duration_ns: in: for how long that holds, at most ZERNEL_V0_HINT_MAX_NS; 0: the hint
 *               that was given before ends
 *
 * A hint wins over what is detected, from now on and for its duration or until the next
 * one. The phase stays what the hint said until samples tell of another one.
 *
 * To give hints takes the right to track the thread.
 *
 * Errors
 *
 * EINVAL	no such phase, or a longer duration
 * EPERM	not allowed
 * ENODATA	the thread is not tracked, is not recorded yet, or is not one of a
 *		machine-learning program
 * ESRCH	no such thread, or one that runs no program
 */
struct zernel_v0_phase_hint {
	__u32 tid;
	__u32 phase;
	__u64 reserved;
	__u64 duration_ns;
};

#endif /* _UAPI_LINUX_ZERNEL_V0_PHASE_H */
