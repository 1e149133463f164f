/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * zernel user ABI: /dev/zernel.
 *
 * Conventions
 *
 * - Layouts are fixed, naturally aligned and free of padding; they are the
 *   same for 32-bit and 64-bit programs.
 * - The ioctl number carries the size of the program's structure
 *   (_IOC_SIZE); the module dispatches on _IOC_TYPE and _IOC_NR alone.
 *   A shorter structure than the module knows is taken as zero-extended and
 *   only its own length is written back. A longer one is accepted if every
 *   byte the module does not know is zero; those bytes are left alone.
 * - Reserved fields and, on input, output fields must be zero. Calls that only
 *   return something (_IOR) read nothing.
 * - A call that fails changes nothing.
 *
 * Errors of every ioctl
 *
 * EFAULT	a pointer is not accessible
 * EINVAL	an unknown flag, target kind, level, a nonzero reserved or output
 *		field, or a structure shorter than its first version
 * E2BIG	the structure is longer than the module knows and its unknown
 *		bytes are not all zero
 * ENOTTY	no such ioctl
 * ENOMEM	out of memory
 *
 * Further errors are listed with each call.
 */
#ifndef _UAPI_LINUX_ZERNEL_V0_H
#define _UAPI_LINUX_ZERNEL_V0_H

#include <linux/ioctl.h>
#include <linux/types.h>
#include <linux/zernel.h>

/* Version of this ABI: grows when structures or calls are added. */
#define ZERNEL_V0_ABI_VERSION		6

#define ZERNEL_V0_IOC_MAGIC		0xBE

/* Levels: 0 is the most urgent. */
#define ZERNEL_V0_LEVEL_LC			0	/* latency-critical */
#define ZERNEL_V0_LEVEL_DEFAULT		6	/* rank of an unclassed TSG */
#define ZERNEL_V0_LEVEL_BE			7	/* best-effort */
#define ZERNEL_V0_NR_LEVELS		8
#define ZERNEL_V0_LEVEL_NONE		0xffffffffU	/* not classed */

/* Weights of best-effort TSGs that take turns. */
#define ZERNEL_V0_WEIGHT_MIN		1
#define ZERNEL_V0_WEIGHT_DEFAULT		1024
#define ZERNEL_V0_WEIGHT_MAX		10000

/* Kinds of target, the most specific last. */
#define ZERNEL_V0_TARGET_NONE		0	/* source: nothing applies */
#define ZERNEL_V0_TARGET_DEFAULT		1	/* source: tunable default_class */
#define ZERNEL_V0_TARGET_CGROUP		2	/* id: fd of a cgroup v2 directory */
#define ZERNEL_V0_TARGET_PROCESS		3	/* id: pid, 0 for the caller */
#define ZERNEL_V0_TARGET_THREAD		4	/* id: tid, 0 for the caller */
#define ZERNEL_V0_TARGET_TSG		5	/* id: TSG id from ZERNEL_V0_IOC_LIST_TSGS */

/* Flags of struct zernel_v0_tsg_info. */
#define ZERNEL_V0_TSG_COMPUTE		(1U << 0)	/* runs on a compute engine */
#define ZERNEL_V0_TSG_PENDING		(1U << 1)	/* a change waits for the worker */
#define ZERNEL_V0_TSG_FAILED		(1U << 2)	/* the last change failed for good */
#define ZERNEL_V0_TSG_SHARED		(1U << 3)	/* carries several processes' work (MPS): not raised */

/* Abilities and state of the provider of a GPU; flags of struct zernel_v0_gpu_info. */
#define ZERNEL_V0_GPU_TIMESLICE		(1U << 0)
#define ZERNEL_V0_GPU_INTERLEAVE		(1U << 1)
#define ZERNEL_V0_GPU_PREEMPT		(1U << 2)
#define ZERNEL_V0_GPU_ENABLE		(1U << 3)
#define ZERNEL_V0_GPU_LOAD			(1U << 4)
#define ZERNEL_V0_GPU_SUSPENDED		(1U << 5)	/* the provider answers -EAGAIN */
#define ZERNEL_V0_GPU_UNRESPONSIVE		(1U << 7)	/* left alone until its provider refreshes it */
#define ZERNEL_V0_GPU_TURNS		(1U << 6)	/* best-effort TSGs take turns here */

/* Types of struct zernel_v0_event. */
#define ZERNEL_V0_EVENT_TSG_ADDED		1
#define ZERNEL_V0_EVENT_TSG_REMOVED	2
#define ZERNEL_V0_EVENT_CLASS_CHANGED	3	/* another level, or source of it, is in force */
#define ZERNEL_V0_EVENT_SLICE_APPLIED	4	/* the driver took other settings */
#define ZERNEL_V0_EVENT_PROVIDER_ERROR	5	/* the provider refused them for good */
#define ZERNEL_V0_EVENT_PREFETCH		6	/* it is time to load the next batch */

/* Capabilities of the module; caps of struct zernel_v0_version. */
#define ZERNEL_V0_CAP_CLASSES		(1ULL << 0)
#define ZERNEL_V0_CAP_EVENTS		(1ULL << 1)
#define ZERNEL_V0_CAP_REQUESTS		(1ULL << 2)
#define ZERNEL_V0_CAP_TRACKING		(1ULL << 3)
#define ZERNEL_V0_CAP_PHASES		(1ULL << 4)
#define ZERNEL_V0_CAP_PREFETCH		(1ULL << 5)
#define ZERNEL_V0_CAP_PROBES		(1ULL << 6)

/**
 * struct zernel_v0_version - what the loaded module is
 * @abi: ZERNEL_V0_ABI_VERSION of the module
 * @levels: number of levels
 * @caps: ZERNEL_CAP_*
 * @max_gpus: most GPUs at a time
 * @max_tsgs_per_gpu: most TSGs of one GPU at a time
 * @max_assignments: most assignments at a time
 * @enabled: 1 when classes are applied, 0 when switched off through sysfs
 */
struct zernel_v0_version {
	__u32 abi;
	__u32 levels;
	__u64 caps;
	__u32 max_gpus;
	__u32 max_tsgs_per_gpu;
	__u32 max_assignments;
	__u32 enabled;
};

/**
 * struct zernel_v0_list - one page of an enumeration
 * @cursor: in: 0 to start, else the value of the call before; out: where the
 *          next call goes on
 * @entries: in: user address of the array that is filled
 * @count: in: room in entries (at least 1); out: entries filled, 0 at the end
 * @entry_size: in: size of one entry as the program knows it; longer entries
 *              are zero-extended, shorter ones cut
 * @flags: must be zero
 * @reserved: must be zero
 *
 * Ids grow and are never used again before the machine restarts, and an
 * enumeration is in their order: an entry that is there from the first call to
 * the last is seen exactly once, whatever comes and goes meanwhile. One call
 * fills at most 64 entries.
 *
 * Errors: EINVAL also when count is zero or entry_size is shorter than the
 * entry's first version or longer than 4096 bytes.
 */
struct zernel_v0_list {
	__u64 cursor;
	__u64 entries;
	__u32 count;
	__u32 entry_size;
	__u32 flags;
	__u32 reserved;
};

/**
 * struct zernel_v0_gpu_info - a GPU
 * @id: id of the GPU; never used again, not even after a reload
 * @flags: ZERNEL_GPU_*
 * @tsgs: TSGs on it now
 * @pending: TSGs with a change that is not in force yet
 * @busy_permille: share of the last interval in which a compute engine was busy;
 *                 0 without ZERNEL_V0_GPU_LOAD. An enumeration asks for a new value
 *                 if the last one is older than 100 ms: the interval lies between
 *                 two such questions, and the answer is there a moment later
 * @applied: settings the provider took
 * @retries: calls answered -EAGAIN
 * @errors: calls that failed for good
 * @name: for people, NUL-terminated
 * @bus: bus address or instance, NUL-terminated
 * @provider: name of the provider, NUL-terminated
 */
struct zernel_v0_gpu_info {
	__u64 id;
	__u32 flags;
	__u32 tsgs;
	__u32 pending;
	__u32 busy_permille;
	__u64 applied;
	__u64 retries;
	__u64 errors;
	char name[32];
	char bus[32];
	char provider[16];
};

/**
 * struct zernel_v0_tsg_info - a channel group
 * @id: id of the TSG; never used again, not even after a reload
 * @gpu: id of its GPU
 * @cgroup: id of the owner's cgroup (the inode number of its directory)
 * @added_ns: CLOCK_MONOTONIC time of its arrival
 * @applied: settings the provider took for it
 * @errors: settings the provider refused for good
 * @flags: ZERNEL_TSG_*
 * @hw_tsg: number the hardware or driver gives it
 * @engine: engine type as the driver numbers it
 * @runlist: number of its run list
 * @channels: number of channels
 * @pid: owner process in the caller's pid namespace, 0 if not visible there or
 *       reaped
 * @tid: thread that made it, likewise
 * @uid: owner in the caller's user namespace
 * @level: level in force, or ZERNEL_V0_LEVEL_NONE
 * @source: ZERNEL_TARGET_* of the assignment in force
 * @timeslice_us: time slice it has, as far as zernel knows
 * @default_timeslice_us: time slice it had before zernel, which it gets back
 * @interleave: interleave level it has (0 low, 1 medium, 2 high)
 * @reserved: zero
 * @comm: name of the thread that made it, NUL-terminated
 */
struct zernel_v0_tsg_info {
	__u64 id;
	__u64 gpu;
	__u64 cgroup;
	__u64 added_ns;
	__u64 applied;
	__u64 errors;
	__u32 flags;
	__u32 hw_tsg;
	__u32 engine;
	__u32 runlist;
	__u32 channels;
	__u32 pid;
	__u32 tid;
	__u32 uid;
	__u32 level;
	__u32 source;
	__u32 timeslice_us;
	__u32 default_timeslice_us;
	__u32 interleave;
	__u32 reserved;
	char comm[16];
};

/**
 * struct zernel_v0_stats - counters since the module was loaded
 * @tsgs_added: TSGs that providers reported
 * @tsgs_removed: TSGs that went away
 * @classes_set: classes that were set
 * @classes_cleared: classes that were cleared
 * @classes_expired: assignments that ended with their target
 * @denied: calls refused with EPERM or EDQUOT
 * @coalesced: changes that were replaced by a later one before the worker came
 * @applied: settings that providers took
 * @retries: provider calls answered -EAGAIN
 * @errors: provider calls that failed for good
 * @dead: TSGs dropped because the provider said that they are gone
 * @events: events written to streams
 * @events_dropped: events overwritten before they were read
 * @gpus: GPUs now
 * @tsgs: TSGs now
 * @assignments: assignments now
 * @streams: event streams now
 * @controls_denied: attempts of a process to change the time slice or interleave
 *                   level of its own classed TSG, or of one that was not taken,
 *                   through the driver that were refused, each once
 * @controls_reapplied: such attempts that were let through and put right
 * @turns: times that a best-effort TSG was let on in its turn
 * @threads: tracked threads now
 * @threads_missed: threads that were to be tracked because of who made them, and are
 *                  not, for want of memory or room
 * @subscriptions: subscriptions of prefetch signals that count for their users now
 * @readaheads: signals at which a range of a file was read ahead
 * @readahead_bytes: bytes of the ranges that were, what was in the page cache included
 * @readaheads_failed: ranges that the file system refused to read
 * @readaheads_skipped: signals at which the range before was still being read
 */
struct zernel_v0_stats {
	__u64 tsgs_added;
	__u64 tsgs_removed;
	__u64 classes_set;
	__u64 classes_cleared;
	__u64 classes_expired;
	__u64 denied;
	__u64 coalesced;
	__u64 applied;
	__u64 retries;
	__u64 errors;
	__u64 dead;
	__u64 events;
	__u64 events_dropped;
	__u32 gpus;
	__u32 tsgs;
	__u32 assignments;
	__u32 streams;
	__u64 controls_denied;
	__u64 controls_reapplied;
	__u64 turns;
	__u64 threads;
	__u64 threads_missed;
	__u64 subscriptions;
	__u64 readaheads;
	__u64 readahead_bytes;
	__u64 readaheads_failed;
	__u64 readaheads_skipped;
};

/**
 * struct zernel_v0_event - one record of the event stream
 * @size: size of this record in bytes: where the next one begins
 * @type: ZERNEL_EVENT_*
 * @seq: number of the event in this stream, from 1; counts dropped ones too
 * @dropped: events of this stream that were dropped before this read()
 * @time_ns: CLOCK_MONOTONIC
 * @tsg: id of the TSG
 * @gpu: id of its GPU
 * @level: level in force, or ZERNEL_V0_LEVEL_NONE
 * @source: ZERNEL_TARGET_* of the assignment in force
 * @timeslice_us: time slice the TSG has
 * @error: 0, or the negative errno of the provider
 * @pid: owner process in the pid namespace of the stream's opener, or 0
 * @uid: owner in the user namespace of the stream's opener
 *
 * The first read() or poll() of a file starts its stream; the ring holds as
 * many events as the tunable event_ring_size then says. A full ring
 * overwrites its oldest event. read() returns whole records and as many as
 * fit. The stream shows what its opener could see when it opened the file:
 * its own TSGs and processes, or all with CAP_PERFMON.
 *
 * ZERNEL_V0_EVENT_PREFETCH names a process: level is ZERNEL_V0_LEVEL_NONE, and what tells
 * of a TSG is zero. It is time for it to load its next batch, so that the data is
 * there when the GPU has computed the last one; see SUBSCRIBE of
 * <linux/zernel.h> for other ways to learn of it.
 *
 * Errors of read(): EINVAL the buffer is shorter than one record; EAGAIN
 * nothing to read and O_NONBLOCK; EINTR; EFAULT the buffer is not accessible
 * (what was taken for it counts as dropped); EDQUOT the opener has 64 streams
 * already (CAP_PERFMON: no bound); ENOMEM. poll() reports EPOLLERR instead.
 */
struct zernel_v0_event {
	__u32 size;
	__u32 type;
	__u64 seq;
	__u64 dropped;
	__u64 time_ns;
	__u64 tsg;
	__u64 gpu;
	__u32 level;
	__u32 source;
	__u32 timeslice_us;
	__s32 error;
	__u32 pid;
	__u32 uid;
};

/* Numbers of the calls, and the calls. */
#define ZERNEL_V0_NR_VERSION		0x00
#define ZERNEL_V0_NR_LIST_GPUS		0x01
#define ZERNEL_V0_NR_LIST_TSGS		0x02
#define ZERNEL_V0_NR_STATS			0x06

#define ZERNEL_V0_IOC_VERSION	_IOR(ZERNEL_V0_IOC_MAGIC, ZERNEL_V0_NR_VERSION, struct zernel_v0_version)
#define ZERNEL_V0_IOC_LIST_GPUS	_IOWR(ZERNEL_V0_IOC_MAGIC, ZERNEL_V0_NR_LIST_GPUS, struct zernel_v0_list)
#define ZERNEL_V0_IOC_LIST_TSGS	_IOWR(ZERNEL_V0_IOC_MAGIC, ZERNEL_V0_NR_LIST_TSGS, struct zernel_v0_list)
#define ZERNEL_V0_IOC_STATS	_IOR(ZERNEL_V0_IOC_MAGIC, ZERNEL_V0_NR_STATS, struct zernel_v0_stats)

#endif /* _UAPI_LINUX_ZERNEL_V0_H */
