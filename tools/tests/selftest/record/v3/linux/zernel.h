/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * zernel user ABI 1: /dev/zernel
 *
 * Latency-critical and best-effort work share a GPU. A program sets the urgency of
 * its work (classes), announces its need of the GPU (requests), has threads
 * observed (tracking), reads the state of all of it (lists, histograms), and is
 * told of changes (events). Tunables are files under /sys/class/misc/zernel/ and
 * not part of this header.
 *
 *
 * PROMISE
 *
 * Fixed for good
 *
 * - The number, direction and meaning of a call; the offset, type, unit and
 *   meaning of a field; the value and meaning of a constant; the errno of a
 *   cause. Nothing is removed or used for something else.
 * - INFO.abi is 1. An incompatible ABI would have another device name.
 * - Not promised: quotas and other limits, which may rise; tunables; buckets of
 *   histograms, which describe themselves; the order of checks.
 *
 * Growth
 *
 * - A structure grows at its end, by multiples of 8 bytes, and has no padding.
 *   Its layout is the same for 32-bit and 64-bit programs. Arrays in it are
 *   names, UUIDs and features of a fixed length. Four structures never grow, because
 *   others contain them or memory is divided by their size: zernel_target,
 *   zernel_value, zernel_event, zernel_slot. zernel_request_begin does not grow
 *   either: @options leads to later fields, in a structure with its size in its first field.
 * - The number of a call carries the size of the program's structure
 *   (_IOC_SIZE). The module looks at direction, type and number alone:
 *
 *     shorter than the module's  input fields that are missing count as zero,
 *                                output fields that are missing are not written
 *     longer than the module's   E2BIG unless all bytes that the module does not
 *                                know are zero. These bytes stay as they are
 *     not a multiple of 8, or shorter than the first version      EINVAL
 *     another direction, type or number                           ENOTTY
 *
 *   So ZERNEL_IOC_x compares equal only between headers that know the same
 *   structure. A seccomp filter, a tracer or a dispatcher compares
 *   (cmd & ZERNEL_IOC_MASK) with (ZERNEL_IOC_x & ZERNEL_IOC_MASK).
 * - Zero in an input field that is added later keeps the behaviour from before it existed; zero in
 *   an output field that is added later, "none" or "not known".
 * - Something optional has a bit in INFO.caps, or in zernel_gpu_info.caps where it
 *   depends on the GPU. A bit is set if the call works in this kernel. All else is
 *   always there.
 * - An unknown input flag, mask bit, kind or action is EINVAL: after a 0 a program knows that its
 *   whole request was understood.
 * - Output flags, kinds, phases, sleeps and sources may get values that a program
 *   does not know. It ignores unknown flags, and shows unknown values as "other".
 *   A known call may fail with another errno where a later flag or field was used.
 *
 * Input and output
 *
 * - Each structure has its input first, then its output. A later version repeats the order: input,
 *   output, input, output. A call never changes input fields, and ignores the content of output
 *   fields, so that a structure can be used again. Clear it once before its first use, all of it;
 *   and again after the program was restored from a checkpoint, as the module may be an older one
 *   (E2BIG).
 * - Reserved input must be zero (EINVAL). Reserved output is written as zero.
 * - A call that fails changes nothing, in the module or in the structure, except
 *   where this header says so. One that cannot write its answer (EFAULT) is undone;
 *   TRACK stays in force. Arrays that LIST and HISTOGRAM fill hold anything after
 *   an error.
 *
 *
 * CONVENTIONS
 *
 * File        Anybody may open the device. INFO, LIST, HISTOGRAM, CLASS_GET,
 *             EVENTS, read() and poll() work with any open file. All other calls
 *             need one that is open for writing, or fail with EBADF.
 * Privilege   Each call names its needs. CAP_x is a capability in the initial
 *             user namespace that the caller has at the time of the call;
 *             CAP_SYS_ADMIN stands for CAP_PERFMON. "Manager": CAP_SYS_NICE, or a
 *             member (effective or supplementary group) of the group in the tunable
 *             lc_gid. "Owner": of a thread or process, the caller's effective uid is
 *             its real or effective uid; of a cgroup, the owner of its directory; of
 *             a TSG, the real uid that its process had when the TSG was made.
 * Times       A name in _at is a moment of the host's CLOCK_MONOTONIC in nanoseconds,
 *             0 for never. It stands still while the system is suspended. In a time
 *             namespace, moment = CLOCK_MONOTONIC as read - INFO.clock_offset_ns.
 *             A name in _ns or _us is a duration. Changes of the wall clock have no
 *             influence.
 * Processes   pid and tid are numbers in the caller's pid namespace; 0 if the process
 *             was reaped or has no number there. In events, and for subscriptions, the
 *             namespace is that of the program that opened the file.
 * Users       uid is a number in the caller's user namespace, the overflow uid if it
 *             has none there. In events, likewise that of the opener.
 * Cgroups     A cgroup goes in as the descriptor of its directory (version 2), so that
 *             a cgroup namespace bounds the choice. It comes out as the inode
 *             number of that directory, which all namespaces share.
 * Ids         64 bits, never 0, ever larger, not used again before the machine
 *             restarts, also when the module is loaded anew.
 * Handles     32 bits, never 0, not used again in the same open file.
 * Descriptors are signed, or an @id that names one: -1 and all that no int holds is EBADF.
 * Addresses   have 64 bits in 32-bit programs, too, and are zero-extended there.
 * Counters    never decrease while the object exists. They begin with 0 when it appears.
 *             Those of the system begin with the load of the module (INFO.loaded_at).
 * Names       are bytes that end with NUL; a longer name is cut.
 * Threads     Calls on one file may be made at the same time from several threads. Calls
 *             about one slot are for one thread at a time.
 * Signals     interrupt read() alone (EINTR).
 *
 * dup(), fork() and SCM_RIGHTS share an open file: its slots, stream, handles.
 * execve() keeps it unless O_CLOEXEC is set, and ends the mappings of its slots. A file
 * ends with the last of its descriptors and of its mappings, exit and kill included; its
 * requests, stream and handles end with it. Classes, tracking and hints belong to their
 * targets and do not. A child of fork() does not inherit the mapping of slots, the class
 * of its parent process, or tracking (but see ZERNEL_TRACK_CHILDREN). execve() changes
 * none of class, tracking and hints.
 *
 *
 * ERRORS OF EVERY IOCTL
 *
 * EFAULT      memory is not accessible
 * EINVAL      an unknown flag, kind or action; a value out of range; reserved input
 *             that is not zero; a structure of a wrong size, see above
 * E2BIG       the structure has a part that the module does not know, and that part
 *             is not zero
 * ENOTTY      no such call
 * EBADF       the file is not open for writing; a descriptor that is named is not
 *             open, or not of the right kind
 * ENOMEM      out of memory
 * EOPNOTSUPP  the kernel, or the provider of the GPU, cannot do this: see caps
 *
 * Those that have a meaning of their own are listed with each call.
 */
#ifndef _UAPI_LINUX_ZERNEL_H
#define _UAPI_LINUX_ZERNEL_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Grows with this header, for the preprocessor. A program asks INFO.caps at run time. */
#define ZERNEL_HEADER			3

#define ZERNEL_IOC_MAGIC		0xBE

/* The part of a number that identifies the call: all but the size. */
#define ZERNEL_IOC_MASK			(0xffffffffU ^ (_IOC_SIZEMASK << _IOC_SIZESHIFT))

/*
 * The numbers of the calls. Each subject has sixteen; those between are for later.
 * All directions are _IOWR and stay so, for any structure.
 *
 *   call            changes                           besides the owner may
 *   INFO            nothing                           everybody
 *   LIST            nothing                           CAP_PERFMON; GPUs: everybody
 *   HISTOGRAM       nothing                           CAP_PERFMON
 *   EVENTS          this file                         CAP_PERFMON of the opener
 *   REMOVE          this file                         nobody: it takes this file
 *   CLASS_SET       the target's TSGs                 manager; to raise, it alone
 *   CLASS_GET       nothing                           manager, CAP_PERFMON
 *   REQUEST_BEGIN   a slot of this file, the GPU      CAP_SYS_NICE
 *   REQUEST_UPDATE  a slot of this file, the GPU      nobody: it takes this file
 *   TRACK           the target's threads              manager
 *   HINT            the target's threads              manager
 *   SUBSCRIBE       this file                         CAP_PERFMON
 *   PROBE           all programs that map the file    CAP_SYS_ADMIN alone
 */
#define ZERNEL_NR_INFO			0x20
#define ZERNEL_NR_LIST			0x21
#define ZERNEL_NR_HISTOGRAM		0x22
#define ZERNEL_NR_EVENTS		0x23
#define ZERNEL_NR_REMOVE		0x24
#define ZERNEL_NR_CLASS_SET		0x30
#define ZERNEL_NR_CLASS_GET		0x31
#define ZERNEL_NR_REQUEST_BEGIN		0x40
#define ZERNEL_NR_REQUEST_UPDATE	0x41
#define ZERNEL_NR_TRACK			0x50
#define ZERNEL_NR_HINT			0x51
#define ZERNEL_NR_SUBSCRIBE		0x52
#define ZERNEL_NR_PROBE			0x53

/*
 * 0x00 to 0x1f were used before ABI 1 and stay free. 0x42 to 0x44 are kept for the pinning
 * of slots and for leases of the GPU.
 */

#define ZERNEL_IOC_INFO		_IOWR(ZERNEL_IOC_MAGIC, ZERNEL_NR_INFO, struct zernel_info)
#define ZERNEL_IOC_LIST		_IOWR(ZERNEL_IOC_MAGIC, ZERNEL_NR_LIST, struct zernel_list)
#define ZERNEL_IOC_HISTOGRAM	_IOWR(ZERNEL_IOC_MAGIC, ZERNEL_NR_HISTOGRAM, struct zernel_histogram)
#define ZERNEL_IOC_EVENTS	_IOWR(ZERNEL_IOC_MAGIC, ZERNEL_NR_EVENTS, struct zernel_events)
#define ZERNEL_IOC_REMOVE	_IOWR(ZERNEL_IOC_MAGIC, ZERNEL_NR_REMOVE, struct zernel_remove)
#define ZERNEL_IOC_CLASS_SET	_IOWR(ZERNEL_IOC_MAGIC, ZERNEL_NR_CLASS_SET, struct zernel_class_set)
#define ZERNEL_IOC_CLASS_GET	_IOWR(ZERNEL_IOC_MAGIC, ZERNEL_NR_CLASS_GET, struct zernel_class_get)
#define ZERNEL_IOC_REQUEST_BEGIN \
	_IOWR(ZERNEL_IOC_MAGIC, ZERNEL_NR_REQUEST_BEGIN, struct zernel_request_begin)
#define ZERNEL_IOC_REQUEST_UPDATE \
	_IOWR(ZERNEL_IOC_MAGIC, ZERNEL_NR_REQUEST_UPDATE, struct zernel_request_update)
#define ZERNEL_IOC_TRACK	_IOWR(ZERNEL_IOC_MAGIC, ZERNEL_NR_TRACK, struct zernel_track)
#define ZERNEL_IOC_HINT		_IOWR(ZERNEL_IOC_MAGIC, ZERNEL_NR_HINT, struct zernel_hint)
#define ZERNEL_IOC_SUBSCRIBE	_IOWR(ZERNEL_IOC_MAGIC, ZERNEL_NR_SUBSCRIBE, struct zernel_subscribe)
#define ZERNEL_IOC_PROBE	_IOWR(ZERNEL_IOC_MAGIC, ZERNEL_NR_PROBE, struct zernel_probe)

/* ------------------------------------------------------------------------ */
/* 1. The module								*/
/* ------------------------------------------------------------------------ */

/* Optional parts; zernel_info.caps. */
#define ZERNEL_CAP_NO_HOLDER	(1ULL << 0)	/* ZERNEL_REQUEST_NO_HOLDER, per GPU too */
#define ZERNEL_CAP_TIMESLICE	(1ULL << 1)	/* ZERNEL_CLASS_TIMESLICE */
#define ZERNEL_CAP_PREEMPTIBLE	(1ULL << 2)	/* ZERNEL_CLASS_PREEMPTIBLE */
#define ZERNEL_CAP_DEADLINE	(1ULL << 3)	/* ZERNEL_CLASS_DEADLINE */
#define ZERNEL_CAP_TRACK	(1ULL << 4)	/* TRACK; preempt notifiers */
#define ZERNEL_CAP_PHASES	(1ULL << 5)	/* ZERNEL_TRACK_ML, HINT */
#define ZERNEL_CAP_SUBSCRIBE	(1ULL << 6)	/* SUBSCRIBE, ZERNEL_EVENT_SIGNAL */
#define ZERNEL_CAP_PROBE	(1ULL << 7)	/* PROBE; uprobes */
#define ZERNEL_CAP_GATE		(1ULL << 8)	/* ZERNEL_REQUEST_GATE; 64-bit atomics */
#define ZERNEL_CAP_FEATURES	(1ULL << 9)	/* struct zernel_request_options with features */
#define ZERNEL_CAP_ADMIT	(1ULL << 10)	/* ZERNEL_BEGIN_ADMIT */

/**
 * struct zernel_info - the loaded module, and the caller's place in it
 * @flags: in: zero
 * @reserved: in: zero
 * @caps: out: ZERNEL_CAP_*
 * @abi: out: 1
 * @header: out: ZERNEL_HEADER of the module
 * @loaded_at: out: when the module was loaded. Another value is another load, with all
 *             counters begun anew
 * @clock_offset_ns: out: the caller's CLOCK_MONOTONIC less the host's. Zero outside
 *                   time namespaces
 * @enabled: out: 1 while classes are applied, 0 while the tunable enabled is 0
 * @list_max: out: most entries that a LIST fills; 64 or more
 * @slots_max: out: slots that a file can have
 * @event_max: out: bytes of the largest event; 4096 at most, for good
 * @gpus_max: out: most GPUs, parts of others included
 * @tsgs_max: out: most TSGs of a GPU
 * @classes_max: out: most assignments of classes
 * @reserved_out: out: zero
 *
 * Needs no privilege, and has no errors of its own.
 */
struct zernel_info {
	__u32 flags;
	__u32 reserved;

	__u64 caps;
	__u32 abi;
	__u32 header;
	__u64 loaded_at;
	__s64 clock_offset_ns;
	__u32 enabled;
	__u32 list_max;
	__u32 slots_max;
	__u32 event_max;
	__u32 gpus_max;
	__u32 tsgs_max;
	__u32 classes_max;
	__u32 reserved_out;
};

/* ------------------------------------------------------------------------ */
/* 2. Targets									*/
/* ------------------------------------------------------------------------ */

/*
 * Kinds of target. "number" is the meaning of @id without a flag, "fd" that with
 * ZERNEL_TARGET_FD. Of PROCESS and THREAD also ZERNEL_TARGET_SELF is possible.
 */
#define ZERNEL_TARGET_NONE	0	/* number: 0. A filter that lets all through */
#define ZERNEL_TARGET_CGROUP	1	/* fd: cgroup v2 directory; number: out only */
#define ZERNEL_TARGET_PROCESS	2	/* number: pid; fd: pidfd without PIDFD_THREAD */
#define ZERNEL_TARGET_THREAD	3	/* number: tid; fd: pidfd with PIDFD_THREAD */
#define ZERNEL_TARGET_TSG	4	/* number: id, see struct zernel_tsg_info */
#define ZERNEL_TARGET_GPU	5	/* number: id, see struct zernel_gpu_info */
#define ZERNEL_TARGET_LEVEL	6	/* number: id, see struct zernel_level_info */

/* Flags of a target. */
#define ZERNEL_TARGET_FD	(1U << 0)	/* id is a file descriptor */
#define ZERNEL_TARGET_SELF	(1U << 1)	/* the caller's; id is zero */

/**
 * struct zernel_target - names something. Never grows
 * @kind: ZERNEL_TARGET_*
 * @flags: 0, ZERNEL_TARGET_FD or ZERNEL_TARGET_SELF; out: 0
 * @id: number or descriptor, see ZERNEL_TARGET_*. The number 0 is never the caller: a pid
 *      that was 0 because it is not visible must not become one
 *
 * A pid can be used again by another process, a pidfd cannot: use pidfds for tasks other than the
 * caller's own. A pidfd names a process that has no number in the caller's pid namespace, too.
 *
 * Errors wherever a target is named
 *
 * EINVAL	an unknown kind or flag; a kind that the call does not take, or a flag
 *		that the kind does not; both flags; a cgroup without ZERNEL_TARGET_FD
 * EBADF	@id is not a descriptor (also above 2,147,483,647), not a pidfd of the
 *		kind asked for, or not a cgroup v2 directory
 * ESRCH	no such process or thread (0: none), or it has exited; a number of a thread that
 *		is not the first of its process, for a process; a thread of the kernel;
 *		a cgroup that was removed
 * ENOENT	no such TSG, GPU or level; a TSG that the caller may not see
 * ELOOP	a cgroup more than 31 levels below the root: its processes count as processes of
 *		its ancestor on that level
 */
struct zernel_target {
	__u32 kind;
	__u32 flags;
	__u64 id;
};

/* ------------------------------------------------------------------------ */
/* 3. Lists									*/
/* ------------------------------------------------------------------------ */

/*
 * Kinds of list: entry, entries shown without privilege, kinds of filter besides
 * ZERNEL_TARGET_NONE. CAP_PERFMON shows all. A list of a part that the module lacks (caps)
 * is empty. A filter lets through the belongings of the target: of a process its TSGs and
 * threads, of a cgroup the processes in it or below, of a GPU also its parts.
 *
 *   SYSTEM           zernel_system_info   all                  -
 *   GPUS             zernel_gpu_info      all                  GPU
 *   LEVELS           zernel_level_info    nothing              GPU, LEVEL
 *   LEVEL_REQUESTS   zernel_request_info  nothing              GPU, LEVEL
 *   TSGS             zernel_tsg_info      owner's              GPU, TSG, THREAD, PROCESS, CGROUP
 *   TSG_REQUESTS     zernel_request_info  owner's              GPU, TSG, THREAD, PROCESS, CGROUP
 *   CLASSES          zernel_class_info    made by the caller,  TSG, THREAD, PROCESS, CGROUP:
 *                                         or on its targets    of that very target
 *   PROCESSES        zernel_process_info  owner's              PROCESS, CGROUP
 *   THREADS          zernel_thread_info   owner's              THREAD, PROCESS, CGROUP
 *   CGROUPS          zernel_cgroup_info   tracked by the       CGROUP
 *                                         caller, without
 *                                         privilege
 *
 * Owner of a process here: the caller's effective uid is its real, effective and saved
 * uid. So a program that has taken other rights is not shown. Owner of a cgroup in CLASSES:
 * the owner of its directory when its class was last set.
 */
#define ZERNEL_LIST_SYSTEM		1
#define ZERNEL_LIST_GPUS		2
#define ZERNEL_LIST_LEVELS		3
#define ZERNEL_LIST_LEVEL_REQUESTS	4
#define ZERNEL_LIST_TSGS		5
#define ZERNEL_LIST_TSG_REQUESTS	6
#define ZERNEL_LIST_CLASSES		7
#define ZERNEL_LIST_PROCESSES		8
#define ZERNEL_LIST_THREADS		9
#define ZERNEL_LIST_CGROUPS		10

/**
 * struct zernel_list - a part of a list
 * @kind: in: ZERNEL_LIST_*
 * @flags: in: zero
 * @filter: in: entries of this target alone
 * @cursor: in: 0 for the first call, then @next of the call before
 * @entries: in: address of an array
 * @entry_size: in: bytes of an entry of that array, a multiple of 8 up to 4096. Each
 *              entry is cut or zero-extended to it
 * @room: in: entries of that array, 1 or more
 * @next: out: the cursor of the next call; 0 at the end
 * @time_at: out: when the entries were read
 * @changes: out: number of entries that have come and gone in lists of this kind. The
 *           same in the first and last call: none has in between
 * @filled: out: entries that were written. A call can end early, with 0 entries too:
 *          @next alone tells the end
 * @entry_known: out: bytes of an entry as the module knows it
 *
 * Entries come in the order of their ids. One that is there from the first call to the
 * last comes exactly once.
 *
 * An entry is of one moment: the sums that this header states hold in it.
 * Entries are not of the same moment as each other; each counter has its value of
 * @time_at or of a moment later.
 *
 * To follow a list, start the events first, then read the list, then the events. Changes
 * in between are among these.
 *
 * A call looks at INFO.list_max objects at most, on any machine. Sums of TSG_REQUESTS go
 * over the slots of a TSG, those of CGROUPS over the tracked threads of a cgroup.
 *
 * Errors
 *
 * EINVAL	also a filter that the kind does not take; @entry_size is shorter than
 *		the first version of the entry, see ZERNEL_*_SIZE_1
 * EPERM	LEVELS, LEVEL_REQUESTS: no CAP_PERFMON
 * and those of targets.
 */
struct zernel_list {
	__u32 kind;
	__u32 flags;
	struct zernel_target filter;
	__u64 cursor;
	__u64 entries;
	__u32 entry_size;
	__u32 room;

	__u64 next;
	__u64 time_at;
	__u64 changes;
	__u32 filled;
	__u32 entry_known;
};

/**
 * struct zernel_system_info - counters since the module was loaded, and sizes now
 * @id: 1
 * @tsgs_added: TSGs that providers have reported
 * @tsgs_removed: TSGs that are gone
 * @tsgs_dead: those of @tsgs_removed that a provider reported gone only when called
 * @tsgs_missed: TSGs not managed, for want of room or memory
 * @classes_set: CLASS_SET that succeeded and left an assignment
 * @classes_cleared: CLASS_SET that succeeded and left none
 * @classes_expired: assignments that ended with their target
 * @denied: calls that failed with EPERM or EDQUOT
 * @coalesced: changes of a TSG that a later one replaced before they were applied
 * @applied: settings that providers took
 * @retries: calls of providers answered "later"
 * @errors: calls of providers that failed for good
 * @controls_denied: refused changes of owners, through the driver, to the settings of their
 *                   TSG or to its being scheduled
 * @controls_reapplied: such changes that were let through and put right
 * @turns: times that a best-effort TSG got its turn
 * @events: events written to streams
 * @events_dropped: events overwritten before they were read
 * @threads_missed: threads not tracked against a wish, for want of room or memory
 * @readaheads: signals at which a range of a file was read ahead
 * @readahead_bytes: bytes of these ranges, those in the page cache included
 * @readaheads_failed: ranges that the file system refused
 * @readaheads_skipped: signals at which the range before was still being read
 * @gpus: GPUs now
 * @tsgs: TSGs now
 * @classes: assignments now
 * @streams: streams of events now
 * @slots: slots that are allocated now
 * @threads: tracked threads now
 * @subscriptions: subscriptions now, those that still read included
 * @probes: probes now
 */
struct zernel_system_info {
	__u64 id;
	__u64 tsgs_added;
	__u64 tsgs_removed;
	__u64 tsgs_dead;
	__u64 tsgs_missed;
	__u64 classes_set;
	__u64 classes_cleared;
	__u64 classes_expired;
	__u64 denied;
	__u64 coalesced;
	__u64 applied;
	__u64 retries;
	__u64 errors;
	__u64 controls_denied;
	__u64 controls_reapplied;
	__u64 turns;
	__u64 events;
	__u64 events_dropped;
	__u64 threads_missed;
	__u64 readaheads;
	__u64 readahead_bytes;
	__u64 readaheads_failed;
	__u64 readaheads_skipped;
	__u64 gpus;
	__u64 tsgs;
	__u64 classes;
	__u64 streams;
	__u64 slots;
	__u64 threads;
	__u64 subscriptions;
	__u64 probes;
};

/* ------------------------------------------------------------------------ */
/* 4. GPUs									*/
/* ------------------------------------------------------------------------ */

/* Abilities of the provider of a GPU; zernel_gpu_info.caps. */
#define ZERNEL_GPU_CAP_TIMESLICE	(1ULL << 0)	/* set time slices */
#define ZERNEL_GPU_CAP_INTERLEAVE	(1ULL << 1)	/* set interleave levels */
#define ZERNEL_GPU_CAP_PREEMPT		(1ULL << 2)	/* take a TSG off its engine */
#define ZERNEL_GPU_CAP_ENABLE		(1ULL << 3)	/* keep a TSG from being scheduled */
#define ZERNEL_GPU_CAP_LOAD		(1ULL << 4)	/* tell how busy the GPU is */
#define ZERNEL_GPU_CAP_TSG_LOAD		(1ULL << 5)	/* tell the load of a TSG: turns, budgets */
#define ZERNEL_GPU_CAP_CONTROL		(1ULL << 6)	/* refuse changes of owners by the driver */
#define ZERNEL_GPU_CAP_WAITS		(1ULL << 7)	/* tell that a thread waits for the GPU */
#define ZERNEL_GPU_CAP_CONTEXT		(1ULL << 8)	/* tell the context bytes of a TSG */
#define ZERNEL_GPU_CAP_KICK		(1ULL << 9)	/* begin the run list of a TSG anew */

/* State of a GPU. */
#define ZERNEL_GPU_SUSPENDED		(1U << 0)	/* its driver sleeps; no request begins */
#define ZERNEL_GPU_RETRYING		(1U << 1)	/* the last call was answered "later" */
#define ZERNEL_GPU_UNRESPONSIVE		(1U << 2)	/* gets no calls until it is back */
#define ZERNEL_GPU_TURNS		(1U << 3)	/* best-effort TSGs take turns */
#define ZERNEL_GPU_OVERFULL		(1U << 4)	/* some of its TSGs were not taken */

/**
 * struct zernel_gpu_info - a GPU, or a part of one with run lists of its own
 * @id: id of the GPU
 * @parent: id of the GPU that this is a part of (MIG); 0 for a whole GPU
 * @caps: ZERNEL_GPU_CAP_*
 * @added_at: when its provider reported it
 * @busy_ns: time in which a compute engine was busy, from @added_at to @busy_at
 * @busy_at: when that was read. A LIST asks the provider to read anew if this is older
 *           than 100 ms, and does not wait for it
 * @switch_ns: learned time from a trigger until the holder runs
 * @applied: settings that the provider took
 * @retries: calls answered "later"
 * @errors: calls that failed for good
 * @state: ZERNEL_GPU_SUSPENDED and so on
 * @tsgs: TSGs on it
 * @pending: TSGs that wait for a change
 * @numa_node: node of the host that it is attached to; -1: not known
 * @min_timeslice_us: shortest time slice of the hardware; 0: no bound
 * @max_timeslice_us: longest; 0: no bound
 * @uuid: UUID of the GPU or part, most significant byte first; zero: not known
 * @bus: PCI address, or name of the instance
 * @provider: name of the provider
 * @driver: version of its driver, and the mode if it has several
 * @name: product
 */
struct zernel_gpu_info {
	__u64 id;
	__u64 parent;
	__u64 caps;
	__u64 added_at;
	__u64 busy_ns;
	__u64 busy_at;
	__u64 switch_ns;
	__u64 applied;
	__u64 retries;
	__u64 errors;
	__u32 state;
	__u32 tsgs;
	__u32 pending;
	__s32 numa_node;
	__u32 min_timeslice_us;
	__u32 max_timeslice_us;
	__u8 uuid[16];
	char bus[32];
	char provider[16];
	char driver[32];
	char name[64];
};

/* Flags of struct zernel_level_info. */
#define ZERNEL_LEVEL_THROTTLED		(1U << 0)	/* its budget is spent */
#define ZERNEL_LEVEL_PREEMPTIBLE	(1U << 1)	/* see ZERNEL_CLASS_PREEMPTIBLE */

/**
 * struct zernel_level_info - a level on a GPU
 * @id: id of the entry: of this level on this GPU
 * @gpu: id of the GPU; 0: all GPUs together, also those that are gone
 * @level: 0 to 7, or ZERNEL_LEVEL_NONE: TSGs without a class, and with @gpu 0: all
 * @flags: ZERNEL_LEVEL_THROTTLED, ZERNEL_LEVEL_PREEMPTIBLE
 * @tsgs: TSGs with this level in force, now
 * @timeslice_us: time slice that the GPU has for the level; 0 with @gpu 0
 * @interleave: 0 low, 1 medium, 2 high
 * @reserved: zero
 * @budget_us: GPU time of the level per period; 0: no bound
 * @period_us: that period
 * @gpu_ns: time that its TSGs ran on their engines, without switches
 * @preemptions: times that one of them was taken off the engine while it had work
 * @throttles: times that the budget was spent
 * @turns: times that one of its TSGs got its turn
 *
 * @gpu_ns needs ZERNEL_GPU_CAP_TSG_LOAD, as do @preemptions and @throttles.
 */
struct zernel_level_info {
	__u64 id;
	__u64 gpu;
	__u32 level;
	__u32 flags;
	__u32 tsgs;
	__u32 timeslice_us;
	__u32 interleave;
	__u32 reserved;
	__u64 budget_us;
	__u64 period_us;
	__u64 gpu_ns;
	__u64 preemptions;
	__u64 throttles;
	__u64 turns;
};

/* Flags of struct zernel_tsg_info. */
#define ZERNEL_TSG_COMPUTE		(1U << 0)	/* on a compute engine */
#define ZERNEL_TSG_SHARED		(1U << 1)	/* work of several processes (MPS): not raised */
#define ZERNEL_TSG_PENDING		(1U << 2)	/* waits for a change */
#define ZERNEL_TSG_FAILED		(1U << 3)	/* the last change failed for good */
#define ZERNEL_TSG_PREEMPTIBLE		(1U << 4)	/* see ZERNEL_CLASS_PREEMPTIBLE */
#define ZERNEL_TSG_THROTTLED		(1U << 5)	/* the budget of its level is spent */
#define ZERNEL_TSG_YIELDS		(1U << 6)	/* its request is held for one with an earlier deadline */

/**
 * struct zernel_tsg_info - a TSG: the channels of one program that have an engine together
 * @id: id of the TSG
 * @gpu: id of its GPU
 * @cgroup: cgroup of its process
 * @added_at: when its provider reported it
 * @gpu_ns: time that it ran on its engine, without switches; with
 *          ZERNEL_GPU_CAP_TSG_LOAD
 * @preemptions: times that it was taken off the engine while it had work; likewise
 * @preempted_at: time of the last preemption
 * @context_bytes: memory of its context; with ZERNEL_GPU_CAP_CONTEXT
 * @applied: settings that the provider took
 * @errors: settings that it refused for good
 * @flags: ZERNEL_TSG_*
 * @error: 0, or the negative errno of the last refusal
 * @hw_tsg: number of the hardware or driver
 * @engine: type of engine, as the driver numbers it
 * @runlist: number of its run list
 * @channels: number of channels
 * @pid: process that owns it
 * @tid: thread that made it
 * @uid: real user of the process when the TSG was made
 * @level: level in force, or ZERNEL_LEVEL_NONE
 * @source: ZERNEL_SOURCE_* of the level
 * @weight: weight in force
 * @timeslice_us: its time slice now; 0: not read yet
 * @default_timeslice_us: its time slice without zernel, to be restored
 * @interleave: 0 low, 1 medium, 2 high
 * @reserved: zero
 * @comm: name of the thread that made it
 */
struct zernel_tsg_info {
	__u64 id;
	__u64 gpu;
	__u64 cgroup;
	__u64 added_at;
	__u64 gpu_ns;
	__u64 preemptions;
	__u64 preempted_at;
	__u64 context_bytes;
	__u64 applied;
	__u64 errors;
	__u32 flags;
	__s32 error;
	__u32 hw_tsg;
	__u32 engine;
	__u32 runlist;
	__u32 channels;
	__u32 pid;
	__u32 tid;
	__u32 uid;
	__u32 level;
	__u32 source;
	__u32 weight;
	__u32 timeslice_us;
	__u32 default_timeslice_us;
	__u32 interleave;
	__u32 reserved;
	char comm[16];
};

/* ------------------------------------------------------------------------ */
/* 5. Classes									*/
/* ------------------------------------------------------------------------ */

/* Levels: 0 is the most urgent. */
#define ZERNEL_LEVEL_LC			0		/* latency-critical */
#define ZERNEL_LEVEL_DEFAULT		6		/* rank of a TSG without a class */
#define ZERNEL_LEVEL_BE			7		/* best-effort */
#define ZERNEL_LEVEL_NONE		0xffffffffU	/* no class */

#define ZERNEL_WEIGHT_MIN		1
#define ZERNEL_WEIGHT_DEFAULT		1024
#define ZERNEL_WEIGHT_MAX		10000

/* Attributes of a class. */
#define ZERNEL_CLASS_LEVEL		(1U << 0)
#define ZERNEL_CLASS_WEIGHT		(1U << 1)
#define ZERNEL_CLASS_TIMESLICE		(1U << 2)	/* ZERNEL_CAP_TIMESLICE */
#define ZERNEL_CLASS_PREEMPTIBLE	(1U << 3)	/* ZERNEL_CAP_PREEMPTIBLE */
#define ZERNEL_CLASS_DEADLINE		(1U << 4)	/* ZERNEL_CAP_DEADLINE */

/**
 * struct zernel_class_set - sets and clears attributes of a target
 * @target: in: a CGROUP, PROCESS, THREAD or TSG
 * @set: in: attributes that get the value below, ZERNEL_CLASS_*
 * @clear: in: attributes of the target that end before @set is applied. All ones: all,
 *         so that only @set remains
 * @level: in: 0 to 7
 * @weight: in: share of the target's TSGs where best-effort TSGs take turns, relative
 *          to others; ZERNEL_WEIGHT_MIN to ZERNEL_WEIGHT_MAX
 * @timeslice_us: in: time slice of the target's TSGs in place of their level's, 10 to
 *                10,000,000. The tunables min_timeslice_us and max_timeslice_us and
 *                the bounds of a GPU hold for it
 * @preemptible: in: 1: more urgent work takes the engine from it. 0: it keeps the engine
 *               until it has no work, or the budget of its level is spent
 * @deadline_ns: in: deadline of requests that name none, from begin; 1 or more
 *
 * Fields of attributes outside @set must be zero. Attributes in neither mask stay.
 *
 * The attributes of a target are its assignment. It applies to present and later TSGs: to compute
 * TSGs, to those that copy while the tunable copy_timeslice_us is not 0, and to any TSG that is named
 * itself. It lives as long as its target or until all attributes
 * are cleared, also after the end of this file.
 *
 * Each attribute is decided by itself: by the most specific assignment that has it, in
 * the order TSG, thread, process, nearest cgroup; else by the tunables of the level in
 * force (the level by default_class).
 *
 * An attribute that was set without privilege counts only where it is less than the value without
 * it: a less urgent level (no class ranks as ZERNEL_LEVEL_DEFAULT), a smaller weight, a shorter
 * time slice, preemptible, a later deadline. A manager's value for a target stays allowed there
 * while its owner takes less.
 *
 * An owner may set a value that is less or the same on its own target, and clear a value set
 * without privilege if nothing is gained by it. Without a class it may set any time slice, which
 * counts where the driver's own is longer. All else needs a manager. A manager without CAP_SYS_NICE
 * is bound by the tunable lc_admission. A user without CAP_SYS_NICE has at most 4,096 assignments.
 *
 * Setting the same level again on a TSG, thread or process repeats settings that a provider has
 * refused for good.
 *
 * Errors
 *
 * EPERM	not allowed, see above
 * EDQUOT	the caller's assignments, or lc_admission, are used up
 * ENOSPC	INFO.classes_max assignments are in use
 * ENODATA	@set is 0, and the target has no attribute of @clear
 * EOPNOTSUPP	an attribute without its capability; level 0 to 5 for a TSG that is
 *		ZERNEL_TSG_SHARED
 * and those of targets.
 */
struct zernel_class_set {
	struct zernel_target target;
	__u32 set;
	__u32 clear;
	__u32 level;
	__u32 weight;
	__u32 timeslice_us;
	__u32 preemptible;
	__u64 deadline_ns;
};

/* Origin of a value. */
#define ZERNEL_SOURCE_NONE		0	/* nothing: the driver's own, or no value */
#define ZERNEL_SOURCE_CGROUP		1	/* 1 to 4: as ZERNEL_TARGET_* */
#define ZERNEL_SOURCE_PROCESS		2
#define ZERNEL_SOURCE_THREAD		3
#define ZERNEL_SOURCE_TSG		4
#define ZERNEL_SOURCE_DEFAULT		5	/* tunable default_class */
#define ZERNEL_SOURCE_LEVEL		6	/* tunables of the level in force */

/* Reasons for a value other than that of its most specific assignment. */
#define ZERNEL_WHY_UNPRIVILEGED		(1U << 0)	/* set without privilege, it would be more */
#define ZERNEL_WHY_SHARED		(1U << 1)	/* the TSG is ZERNEL_TSG_SHARED */
#define ZERNEL_WHY_CLAMPED		(1U << 2)	/* bounds of tunables or of the GPU */
#define ZERNEL_WHY_THROTTLED		(1U << 3)	/* the budget of the level is spent */
#define ZERNEL_WHY_TURNS		(1U << 4)	/* best-effort TSGs take turns */
#define ZERNEL_WHY_DISABLED		(1U << 5)	/* tunable enabled is 0 */
#define ZERNEL_WHY_ENGINE		(1U << 6)	/* it neither computes nor, with copy_timeslice_us, copies */
#define ZERNEL_WHY_YIELDS		(1U << 7)	/* the TSG is ZERNEL_TSG_YIELDS */

/**
 * struct zernel_value - an attribute in force, and the reason. Never grows
 * @value: the value; of a level ZERNEL_LEVEL_NONE: no class
 * @assignment: id of the assignment that decides it (struct zernel_class_info); 0: none,
 *              or not visible to the caller
 * @source: ZERNEL_SOURCE_*
 * @why: ZERNEL_WHY_*
 */
struct zernel_value {
	__u64 value;
	__u64 assignment;
	__u32 source;
	__u32 why;
};

/**
 * struct zernel_class_get - the class of a target
 * @target: in: a CGROUP, PROCESS, THREAD or TSG
 * @flags: in: zero
 * @reserved: in: zero
 * @assignment: out: id of the target's own assignment; 0: none
 * @own: out: attributes of that, ZERNEL_CLASS_LEVEL and so on
 * @own_privileged: out: those of @own that rest on privilege
 * @own_level: out: value of @own, as the next four; 0 if it has none
 * @own_weight: out
 * @own_timeslice_us: out
 * @own_preemptible: out
 * @own_deadline_ns: out
 * @level: out: in force for the compute TSGs of the target, as all that follows; of a TSG, for it
 * @weight: out
 * @timeslice_us: out: of a TSG the setting for its GPU; else before the bounds of a GPU,
 *                budgets and turns. 0: the driver's own
 * @preemptible: out: 0 or 1
 * @deadline_ns: out: 0: none
 *
 * Needs to be the owner of the target, a manager, or CAP_PERFMON.
 *
 * Errors: EPERM not allowed; and those of targets.
 */
struct zernel_class_get {
	struct zernel_target target;
	__u32 flags;
	__u32 reserved;

	__u64 assignment;
	__u32 own;
	__u32 own_privileged;
	__u32 own_level;
	__u32 own_weight;
	__u32 own_timeslice_us;
	__u32 own_preemptible;
	__u64 own_deadline_ns;
	struct zernel_value level;
	struct zernel_value weight;
	struct zernel_value timeslice_us;
	struct zernel_value preemptible;
	struct zernel_value deadline_ns;
};

/**
 * struct zernel_class_info - an assignment
 * @id: id of the assignment
 * @target: its target; ZERNEL_TARGET_NONE for a process or thread that the caller cannot
 *          see from its pid namespace
 * @made_at: when it was made or last changed
 * @uid: the user that made it or changed it last
 * @own: attributes that it has, ZERNEL_CLASS_LEVEL and so on
 * @privileged: those of @own that rest on privilege
 * @level: their values; 0 where it has none
 * @weight: see struct zernel_class_set
 * @timeslice_us: likewise
 * @preemptible: likewise
 * @tsgs: TSGs with their level from it, now
 * @deadline_ns: likewise
 */
struct zernel_class_info {
	__u64 id;
	struct zernel_target target;
	__u64 made_at;
	__u32 uid;
	__u32 own;
	__u32 privileged;
	__u32 level;
	__u32 weight;
	__u32 timeslice_us;
	__u32 preemptible;
	__u32 tsgs;
	__u64 deadline_ns;
};

/* ------------------------------------------------------------------------ */
/* 6. Requests									*/
/* ------------------------------------------------------------------------ */

/**
 * struct zernel_slot - memory that a program, its GPU and zernel share. Never grows
 * @trigger: number of the last triggered request; the stream waits for it
 * @release: number of the last released request; the holder waits for it
 * @done: number of the last done request
 * @held: number of the last request with a running holder; the holder stores it
 * @ready_at: when the program stored @release
 * @done_at: when the program stored @done
 * @signals: count of the signals of a subscription, wraps
 * @reserved_a: not looked at; leave as it is
 * @gate: the gate of a request with ZERNEL_REQUEST_GATE; else not looked at
 * @reserved_c: not looked at; leave as it is
 * @reserved_d: likewise
 *
 * mmap() of the device makes slots: slot n is at byte 64 * n, for any size of a page, up to byte 64
 * * INFO.slots_max. Other offsets are for later. A page is allocated by the mmap() that maps it
 * first, with zeroes, and charged to the memory cgroup of the caller; later mappings share it. It
 * lives as long as the file, and is never moved, so that a GPU can be given it. munmap() ends no
 * request. The mapping is not inherited by fork() and cannot grow by mremap(); any holder of the
 * file can map it again. Another mmap() of a page costs nothing of the quota.
 *
 * Errors of mmap(): EACCES the file is not open for reading and writing; EPERM PROT_EXEC;
 * EINVAL not MAP_SHARED, or beyond the slots; EDQUOT a user without CAP_SYS_RESOURCE has
 * 256 pages; ENOMEM.
 *
 * Numbers count the requests of a slot; they wrap and are never 0. x has reached n if
 * (__s32)(x - n) >= 0. All words are native; 32-bit ones are stored whole.
 *
 * Stream of request n, on the GPU: wait until @trigger has reached n; a holder, which
 * stores n to @held and ends when @release has reached n or its own bound is over; the
 * kernels of the request.
 *
 * Program, when its data is ready: queue the kernels; unless @release has reached n, store
 * @ready_at, then n to @release (release order); unless @trigger has reached n, store n to it
 * (release order). Where several threads store, each "unless" is a compare-and-exchange, so that
 * none which was stopped takes a later number back. When the result is there: store @done_at; store
 * n to @done (release order). The next REQUEST_BEGIN of the slot also makes a ready request done.
 *
 * A gate is [error: 1 | pending: 63], the error in the highest bit. Before request n begins, the program
 * stores the number of pieces of work that n waits for. Each piece leaves once, by one atomic operation
 * (release order): it takes 1 off, and sets the error bit as well if it has failed. 0: all is there;
 * zernel takes that as @release and @trigger of n. With the error bit, as also in a word that fell below
 * 0, n is cancelled. Any other value is pending. zernel looks at it where it looks at @release, never
 * stores it, and no more once n is ready or over. It wakes up for neither: the program that takes off
 * the last piece stores ready, too.
 *
 * A gate has no number of a request. It belongs to n, and the slot with it, until every piece of n has
 * left, also if n was over before: store it for the next request only when its low 63 bits are 0. n has
 * to be over by then, too, or ready by another word or a call; else zernel takes the store as the gate of
 * n. A begin does not look at the gate of the request before it.
 *
 * zernel stores @trigger, @release and @signals alone. It takes a time as lying between begin and
 * now, and ignores numbers other than n. A later version uses memory that a program has not written
 * to only where a flag of a call asks for it.
 */
struct zernel_slot {
	__u32 trigger;
	__u32 release;
	__u32 done;
	__u32 held;
	__u64 ready_at;
	__u64 done_at;
	__u32 signals;
	__u32 reserved_a;
	__u64 gate;
	__u64 reserved_c;
	__u64 reserved_d;
};

/* Flags of struct zernel_request_begin. */
#define ZERNEL_REQUEST_NO_HOLDER	(1U << 0)	/* the stream has no holder */
#define ZERNEL_REQUEST_EXACT		(1U << 1)	/* take expected_ns as it is */
#define ZERNEL_REQUEST_GATE		(1U << 2)	/* ZERNEL_CAP_GATE: look at the gate of the slot */

/* Flags of struct zernel_request_options. */
#define ZERNEL_BEGIN_ADMIT	(1U << 0)	/* ZERNEL_CAP_ADMIT: begin only if slo_ns can be met */

/* Features of a request at most. */
#define ZERNEL_FEATURES_MAX	8

/**
 * struct zernel_request_options - more about a request that begins
 * @size: in: bytes of this structure, as the program knows it
 * @flags: in: 0 or ZERNEL_BEGIN_ADMIT
 * @features: in: features that are given, up to ZERNEL_FEATURES_MAX
 * @reserved: in: zero
 * @feature: in: numbers that the preparation time depends on (bytes, operations, a batch size ...), in
 *           any unit, each of them always at the same place for a key; zero from @features on
 * @burst_ns: in: expected GPU time, from the end of the switch to done; 0: not known. Used with
 *            ZERNEL_BEGIN_ADMIT while @key of the begin has no history of that; else it must be zero
 * @earliest_ns: out: with EBUSY, the shortest slo_ns that would have done; 0: none would have, until
 *               others are over. Not written otherwise
 *
 * Features count while the tunable "predictor" is "features", and without ZERNEL_REQUEST_EXACT
 * (Documentation/prediction.rst). They are checked always.
 *
 * With ZERNEL_BEGIN_ADMIT the request begins only if it will be done within slo_ns of the begin, and
 * all that were admitted before it will be in time, too, as far as is known
 * (Documentation/deadlines.rst). It takes a level above ZERNEL_LEVEL_BE, and the tunable "order" at
 * "edf".
 *
 * It grows at its end, and @size tells its version: shorter than the first version, or not a multiple
 * of 8, is EINVAL; longer than the module's is E2BIG unless all bytes that the module does not know are
 * zero, and above 4096 always. Ask for ZERNEL_CAP_FEATURES first: a module without it refuses all
 * options.
 *
 * Errors of REQUEST_BEGIN with it
 *
 * EINVAL	@size, see above; an unknown flag, @features above ZERNEL_FEATURES_MAX, @reserved not 0,
 *		or a @feature from @features on that is not 0; @burst_ns without ZERNEL_BEGIN_ADMIT
 * E2BIG	@size, see above
 * EFAULT	the structure cannot be read; or @earliest_ns cannot be written, in place of EBUSY
 *
 * and with ZERNEL_BEGIN_ADMIT
 *
 * EBUSY	the deadline cannot be met: see @earliest_ns
 * ERANGE	slo_ns is 0: there is no deadline
 * ENOLCK	the tunable order is not edf: with fifo requests have no order, and the test is none for
 *		edf-preemptive
 * EDOM		the TSG has no class, or is best-effort: its level has no order
 * ENODATA	nothing is known of the burst: the key has no history, and @burst_ns is 0
 * EDQUOT	the user has as many requests in the order of the GPU as it may
 * ENOSPC	there is no place in the order of the GPU for its level
 * EAGAIN	the class, or the run list, of the TSG changed during each of several tries
 */
struct zernel_request_options {
	__u32 size;
	__u32 flags;
	__u32 features;
	__u32 reserved;
	__s64 feature[ZERNEL_FEATURES_MAX];
	__u64 burst_ns;

	__u64 earliest_ns;
};

/**
 * struct zernel_request_begin - a request begins to prepare its data
 * @tsg: in: id of the TSG that will run it
 * @key: in: a number for the causes of the preparation time (model, batch size ...), chosen
 *       by the program. Each user has keys of its own
 * @expected_ns: in: expected time of preparation, 0: not known. Used while @key has no
 *               history, and with ZERNEL_REQUEST_EXACT
 * @slo_ns: in: longest latency from now without a violation; 0: any
 * @slot: in: number of the slot
 * @flags: in: ZERNEL_REQUEST_*
 * @options: in: address of a struct zernel_request_options; 0: none
 * @request: out: number of the request in its slot
 * @begun: out: zero; later flags
 * @predicted_ns: out: time from now at which the GPU is to be free; 0: no prediction
 * @trigger_at: out: moment of the trigger
 *
 * zernel stores @request to the trigger word at @trigger_at, so that the GPU has switched
 * to the TSG when the data is ready; at once without a prediction. A request is a lease:
 * if it is not ready within the tunable lease_us after the trigger, zernel stores the
 * release word too, and it is over. The request that the slot had before is over: done if
 * it was ready, else cancelled. A slot has one request at a time, a TSG any number. Use
 * @request as it comes back: numbers go on behind those in the slot.
 *
 * With ZERNEL_REQUEST_NO_HOLDER zernel has the run list of the TSG begin anew at the trigger and
 * when the request is ready; or it excludes less urgent TSGs from the trigger until the request is
 * ready, or its lease over (Documentation/requests.rst). Tell that it is ready by REQUEST_UPDATE: a store is not seen before
 * the lease ends.
 *
 * With ZERNEL_REQUEST_GATE the gate of the slot counts (struct zernel_slot). One that is 0 is ready
 * at once, and @trigger_at is now. Not with ZERNEL_REQUEST_NO_HOLDER: nothing would look at the gate
 * from the trigger to the end of the lease.
 *
 * Needs to be the owner of the TSG, or CAP_SYS_NICE.
 *
 * Errors
 *
 * EINVAL	unknown flag, or ZERNEL_REQUEST_GATE with ZERNEL_REQUEST_NO_HOLDER. A zernel that is
 *		older than gates knows no such flag
 * ENXIO	no such slot, or its page is not mapped yet
 * ENOENT	no such TSG, or one that the caller may not see
 * EPERM	another user's TSG; with ZERNEL_REQUEST_NO_HOLDER also a TSG without a
 *		class above ZERNEL_LEVEL_DEFAULT
 * EAGAIN	the GPU is suspended, retrying or does not respond
 * ECANCELED	ZERNEL_REQUEST_GATE: the gate has its error bit set
 * EOPNOTSUPP	ZERNEL_REQUEST_NO_HOLDER: the provider can neither kick nor
 *		disable TSGs. ZERNEL_REQUEST_GATE: no ZERNEL_CAP_GATE, as the CPU has no 64-bit atomics
 * and those of struct zernel_request_options.
 *
 * After an error no request has begun, and the one before goes on, unless its TSG went
 * away meanwhile; with ZERNEL_BEGIN_ADMIT it may be over where it was of another TSG or key.
 */
struct zernel_request_begin {
	__u64 tsg;
	__u64 key;
	__u64 expected_ns;
	__u64 slo_ns;
	__u32 slot;
	__u32 flags;
	__u64 options;

	__u32 request;
	__u32 begun;
	__u64 predicted_ns;
	__u64 trigger_at;
};

/* Actions on a request. */
#define ZERNEL_REQUEST_READY		1	/* as a store to release and trigger */
#define ZERNEL_REQUEST_DONE		2	/* as a store to done */
#define ZERNEL_REQUEST_CANCEL		3	/* it is given up; both words are stored */

/**
 * struct zernel_request_update - tells that a request is ready, done or cancelled
 * @slot: in: number of the slot
 * @request: in: number of the request
 * @action: in: ZERNEL_REQUEST_READY, _DONE or _CANCEL
 * @flags: in: zero
 *
 * Done without ready before counts as ready now, too.
 *
 * Errors: ENXIO no such slot; ESTALE the request is over, or never began.
 */
struct zernel_request_update {
	__u32 slot;
	__u32 request;
	__u32 action;
	__u32 flags;
};

/**
 * struct zernel_request_info - the outcome of the requests of a TSG or level
 * @id: id of the TSG, or of the level on a GPU (struct zernel_level_info)
 * @gpu: id of the GPU; 0: all
 * @level: level that is counted, ZERNEL_LEVEL_NONE: all; of a TSG the one in force
 * @flags: zero
 * @begun: requests begun
 * @done: done
 * @cancelled: cancelled, or begun anew in their slot before they were ready
 * @expired: ended by their lease
 * @closed: ended with their file
 * @gone: ended with their TSG
 * @suspended: ended by a suspend
 * @otherwise: ended in a way that is none of these; later fields are a part of it
 * @in_flight: not over
 * @triggers: triggers that zernel stored
 * @early: requests with the GPU free before their data was ready
 * @early_ns: sum of the times between
 * @late: requests with their data ready before the GPU was free
 * @late_ns: sum of the times between
 * @lost_ns: GPU time that best-effort work lost beyond the kernels of the requests
 * @violations: of @done, those with a latency above slo_ns
 * @latency_ns: from begin to done, of all @done together
 * @latency_min_ns: shortest of them
 * @latency_max_ns: longest of them
 * @latency_p50_ns: median of them; exact to 1.6 %, as the next two
 * @latency_p99_ns: 99th percentile of them
 * @latency_p999_ns: 99.9th percentile of them
 * @preempt_done: TSGs taken off the GPU for requests without a holder. Of a level alone,
 *                as the next four
 * @preempt_timeouts: of @preempt_done, those without an answer of the GPU in time
 * @preempt_no_memory: TSGs that were not taken off, for want of memory
 * @preempt_unresponsive: likewise, as the GPU does not respond
 * @preempt_invalid: likewise, in the present state of the GPU
 * @accepted: of @begun, those with ZERNEL_BEGIN_ADMIT
 * @refused: requests that did not begin, with EBUSY
 * @missed: of @accepted, those that were not over by their deadline
 *
 * begun = done + cancelled + expired + closed + gone + suspended + otherwise + in_flight.
 * A request counts under the level in force when it began.
 */
struct zernel_request_info {
	__u64 id;
	__u64 gpu;
	__u32 level;
	__u32 flags;
	__u64 begun;
	__u64 done;
	__u64 cancelled;
	__u64 expired;
	__u64 closed;
	__u64 gone;
	__u64 suspended;
	__u64 otherwise;
	__u64 in_flight;
	__u64 triggers;
	__u64 early;
	__u64 early_ns;
	__u64 late;
	__u64 late_ns;
	__u64 lost_ns;
	__u64 violations;
	__u64 latency_ns;
	__u64 latency_min_ns;
	__u64 latency_max_ns;
	__u64 latency_p50_ns;
	__u64 latency_p99_ns;
	__u64 latency_p999_ns;
	__u64 preempt_done;
	__u64 preempt_timeouts;
	__u64 preempt_no_memory;
	__u64 preempt_unresponsive;
	__u64 preempt_invalid;
	__u64 accepted;
	__u64 refused;
	__u64 missed;
};

/* ------------------------------------------------------------------------ */
/* 7. Histograms								*/
/* ------------------------------------------------------------------------ */

/* Kinds of histogram, and the targets that have one. */
#define ZERNEL_HISTOGRAM_LATENCY	1	/* TSG, LEVEL: begin to done */
#define ZERNEL_HISTOGRAM_PREEMPTION	2	/* TSG, LEVEL: trigger until it has the engine */
#define ZERNEL_HISTOGRAM_SWITCH		3	/* GPU: measured context switches */

/**
 * struct zernel_histogram - a distribution of durations
 * @target: in: the target that was counted
 * @kind: in: ZERNEL_HISTOGRAM_*
 * @flags: in: zero
 * @buckets: in: address of an array of __u64, or 0
 * @room: in: length of the array
 * @reserved: in: zero
 * @filled: out: numbers that were written, from the first bucket on
 * @count: out: buckets of the histogram
 * @unit_ns: out: width of the first bucket
 * @octave: out: buckets from one doubling of the width to the next
 * @samples: out: durations counted
 * @sum_ns: out: all of them together
 * @min_ns: out: shortest
 * @max_ns: out: longest
 *
 * The first 2 * octave buckets are unit_ns wide. From there on each group of octave
 * buckets is twice as wide as the one before. The last bucket has all longer ones,
 * too. These three numbers do not change while the module is loaded.
 *
 * Of a TSG needs its owner, or CAP_PERFMON; of all else CAP_PERFMON. A target without counts
 * has zeroes.
 *
 * Errors
 *
 * EINVAL	also a kind that the target does not have
 * EPERM	not allowed
 * and those of targets.
 */
struct zernel_histogram {
	struct zernel_target target;
	__u32 kind;
	__u32 flags;
	__u64 buckets;
	__u32 room;
	__u32 reserved;

	__u32 filled;
	__u32 count;
	__u32 unit_ns;
	__u32 octave;
	__u64 samples;
	__u64 sum_ns;
	__u64 min_ns;
	__u64 max_ns;
};

/* ------------------------------------------------------------------------ */
/* 8. Tracking									*/
/* ------------------------------------------------------------------------ */

/* Ways of tracking. */
#define ZERNEL_TRACK_THREADS		(1U << 0)	/* record the activity of its threads */
#define ZERNEL_TRACK_CHILDREN		(1U << 1)	/* of a process: its later children, too */
#define ZERNEL_TRACK_ML			(1U << 2)	/* a machine-learning program: has phases */

/**
 * struct zernel_track - begins or ends the recording of a target's threads
 * @target: in: a CGROUP, PROCESS or THREAD
 * @set: in: ways that are added, ZERNEL_TRACK_*; any of them implies ZERNEL_TRACK_THREADS
 * @clear: in: 0, or ZERNEL_TRACK_THREADS: all ways end. One of @set and @clear is 0, the
 *         other is not
 * @threads: out: threads of the target that are tracked now; of a cgroup, with it
 * @reserved: out: zero
 *
 * A process is tracked with all threads, now and later. A cgroup is tracked with each
 * process while that is in it or below. Tracking survives execve() and ends
 * with the thread, process or cgroup. A thread is recorded from its next return to user
 * space on. While a thread is tracked the module cannot be unloaded.
 *
 * Needs to be the owner of the target, or a manager; to end it, a manager if one has
 * begun it. The owner of a cgroup has only its own processes in it tracked. A user
 * other than root has at most 32,768 tracked threads and 64 tracked cgroups.
 *
 * Errors
 *
 * EPERM	not allowed
 * EDQUOT	quota of the threads' user, or of the caller's cgroups
 * ENOSPC	131,072 threads are tracked, or 4,096 cgroups. Neither is for a process in a
 *		cgroup that there is no room for: it counts in threads_missed of the statistics
 * ENODATA	@clear: the target is not tracked
 * EBUSY	@clear: the thread is tracked with its process, or the target with a
 *		cgroup
 * and those of targets.
 */
struct zernel_track {
	struct zernel_target target;
	__u32 set;
	__u32 clear;

	__u32 threads;
	__u32 reserved;
};

/* Activity of a thread. */
#define ZERNEL_DOES_ARRIVE		0	/* is not recorded yet */
#define ZERNEL_DOES_RUN			1	/* has a CPU */
#define ZERNEL_DOES_QUEUE		2	/* could run and has no CPU */
#define ZERNEL_DOES_EXIT		3	/* has exited */
#define ZERNEL_DOES_SLEEP		16	/* sleeps, for none of the following */
#define ZERNEL_DOES_SLEEP_IO		17	/* for a block device */
#define ZERNEL_DOES_SLEEP_FUTEX		18	/* in futex() and its like */
#define ZERNEL_DOES_SLEEP_POLL		19	/* in poll(), select(), epoll and their like */
#define ZERNEL_DOES_SLEEP_READ_WRITE	20	/* in read(), write() and their like */
#define ZERNEL_DOES_SLEEP_IOCTL		21	/* in ioctl() */

/* Phases of a thread of a machine-learning program. */
#define ZERNEL_PHASE_UNKNOWN		0	/* none of the others */
#define ZERNEL_PHASE_DATA_LOADING	1	/* waits for data; the GPU has little to do */
#define ZERNEL_PHASE_GPU_COMPUTE	2	/* waits for the GPU, which computes */
#define ZERNEL_PHASE_COLLECTIVE		3	/* exchanges data with other ranks */
#define ZERNEL_PHASE_OPTIMIZER_STEP	4	/* short work on a CPU between two batches */

/* Flags of tracked processes, threads and cgroups. */
#define ZERNEL_TRACKED_WHOLE		(1U << 0)	/* the whole process was named */
#define ZERNEL_TRACKED_CHILDREN		(1U << 1)	/* with processes that it makes */
#define ZERNEL_TRACKED_CGROUP		(1U << 2)	/* with a cgroup */
#define ZERNEL_TRACKED_PRIVILEGED	(1U << 3)	/* a manager has begun it */
#define ZERNEL_TRACKED_ML		(1U << 4)	/* a machine-learning program */
#define ZERNEL_TRACKED_SYNCED		(1U << 5)	/* process: its GPU work was seen to end */
#define ZERNEL_TRACKED_COLLECTIVE	(1U << 6)	/* process: a library of collectives is active */
#define ZERNEL_TRACKED_GPU_WAIT		(1U << 7)	/* thread: waits for the GPU */
#define ZERNEL_TRACKED_HINTED		(1U << 8)	/* thread: a hint holds */

/**
 * struct zernel_thread_info - a tracked thread
 * @id: id of its record
 * @process: id of its process in struct zernel_process_info
 * @pid: process
 * @tid: thread
 * @uid: real user
 * @flags: ZERNEL_TRACKED_*
 * @does: its activity, ZERNEL_DOES_*
 * @phase: ZERNEL_PHASE_*
 * @nice: added to its nice value now, -39 to 39
 * @reserved: zero
 * @does_ns: time since that began
 * @bursts: stretches of CPU time between two sleeps that began
 * @burst_ns: CPU time
 * @burst_now_ns: CPU time of the present burst; 0 in a sleep
 * @burst_last_ns: CPU time of the last burst that a sleep has ended
 * @queues: times that it could run and had no CPU
 * @queue_ns: time of these
 * @sleeps: sleeps that began, for none of the causes below
 * @sleep_ns: time of these
 * @sleeps_io: sleeps that began, cause ZERNEL_DOES_SLEEP_IO
 * @sleep_io_ns: time of these
 * @sleeps_futex: sleeps that began, cause ZERNEL_DOES_SLEEP_FUTEX
 * @sleep_futex_ns: time of these
 * @sleeps_poll: sleeps that began, cause ZERNEL_DOES_SLEEP_POLL
 * @sleep_poll_ns: time of these
 * @sleeps_read_write: sleeps that began, cause ZERNEL_DOES_SLEEP_READ_WRITE
 * @sleep_read_write_ns: time of these
 * @sleeps_ioctl: sleeps that began, cause ZERNEL_DOES_SLEEP_IOCTL
 * @sleep_ioctl_ns: time of these
 * @gpu_waits: waits for the GPU that began; sleeping or spinning, so a part of the above
 * @gpu_wait_ns: time of these, the one that goes on included
 * @phase_ns: time since @phase began
 * @transitions: changes of the phase
 * @samples: samples taken of it
 * @sample_at: the last of them
 * @sample_ns: time that the last sample covers
 * @sample_io_ns: input of it: sleep for a block device
 * @sample_burst_ns: input of it: CPU time since the last sleep or wait for the GPU
 * @sample_futexes: input of it: sleeps in futex()
 * @unknown_ns: time in ZERNEL_PHASE_UNKNOWN, the present one included, as the next four
 * @data_loading_ns: in ZERNEL_PHASE_DATA_LOADING
 * @gpu_compute_ns: in ZERNEL_PHASE_GPU_COMPUTE
 * @collective_ns: in ZERNEL_PHASE_COLLECTIVE
 * @optimizer_step_ns: in ZERNEL_PHASE_OPTIMIZER_STEP
 * @comm: name of the thread
 *
 * The sum of burst_ns, queue_ns, does_ns and the six of sleeps is the time since it is
 * recorded, and so is the sum of the five of phases. A cause or phase that is added later
 * counts in @sleep_ns or @unknown_ns, too, so that both stay true.
 */
struct zernel_thread_info {
	__u64 id;
	__u64 process;
	__u32 pid;
	__u32 tid;
	__u32 uid;
	__u32 flags;
	__u32 does;
	__u32 phase;
	__s32 nice;
	__u32 reserved;
	__u64 does_ns;
	__u64 bursts;
	__u64 burst_ns;
	__u64 burst_now_ns;
	__u64 burst_last_ns;
	__u64 queues;
	__u64 queue_ns;
	__u64 sleeps;
	__u64 sleep_ns;
	__u64 sleeps_io;
	__u64 sleep_io_ns;
	__u64 sleeps_futex;
	__u64 sleep_futex_ns;
	__u64 sleeps_poll;
	__u64 sleep_poll_ns;
	__u64 sleeps_read_write;
	__u64 sleep_read_write_ns;
	__u64 sleeps_ioctl;
	__u64 sleep_ioctl_ns;
	__u64 gpu_waits;
	__u64 gpu_wait_ns;
	__u64 phase_ns;
	__u64 transitions;
	__u64 samples;
	__u64 sample_at;
	__u64 sample_ns;
	__u64 sample_io_ns;
	__u64 sample_burst_ns;
	__u64 sample_futexes;
	__u64 unknown_ns;
	__u64 data_loading_ns;
	__u64 gpu_compute_ns;
	__u64 collective_ns;
	__u64 optimizer_step_ns;
	char comm[16];
};

/**
 * struct zernel_process_info - a process with tracked threads
 * @id: id of the process
 * @gpu: id of the last GPU seen in use by it; 0: none
 * @pid: its number
 * @uid: real user
 * @flags: ZERNEL_TRACKED_*
 * @threads: tracked threads now
 * @numa_node: node of @gpu; -1: not known
 * @reserved: zero
 * @synced_at: when its work on a GPU was done last, or a wait for that ended
 * @sample_at: last sample
 * @sample_ns: time that this covers
 * @sample_gpu_ns: input of it: time for which a GPU was busy for the process
 * @unknown_ns: time in a phase, of all threads, those that have exited included, as the
 *              next four; see struct zernel_thread_info
 * @data_loading_ns: likewise
 * @gpu_compute_ns: likewise
 * @collective_ns: likewise
 * @optimizer_step_ns: likewise
 * @computations: computations that have ended
 * @compute_ns: time of all of them
 * @loadings: loadings that have ended
 * @loading_ns: time of all of them
 * @lead_ns: sum of the times from a signal to the end of its computation
 * @predicted_compute_ns: predicted length of the next computation; 0: no history
 * @predicted_lead_ns: predicted lead that loading needs; 0: no history
 * @signals: signals given
 * @early: signals with the data loaded before the end of the computation
 * @early_ns: sum of the times between
 * @late: signals with the data loaded after the end of the computation
 * @late_ns: sum of the times between
 * @useless: signals without a loading after them
 * @comm: name of the process
 *
 * Overlap efficiency, the share of loading that computations can hide: (compute_ns +
 * lead_ns) / loading_ns; 1 with nothing loaded. Predicted for the next batch:
 * (predicted_compute_ns + predicted_lead_ns) / (loading_ns / loadings).
 */
struct zernel_process_info {
	__u64 id;
	__u64 gpu;
	__u32 pid;
	__u32 uid;
	__u32 flags;
	__u32 threads;
	__s32 numa_node;
	__u32 reserved;
	__u64 synced_at;
	__u64 sample_at;
	__u64 sample_ns;
	__u64 sample_gpu_ns;
	__u64 unknown_ns;
	__u64 data_loading_ns;
	__u64 gpu_compute_ns;
	__u64 collective_ns;
	__u64 optimizer_step_ns;
	__u64 computations;
	__u64 compute_ns;
	__u64 loadings;
	__u64 loading_ns;
	__u64 lead_ns;
	__u64 predicted_compute_ns;
	__u64 predicted_lead_ns;
	__u64 signals;
	__u64 early;
	__u64 early_ns;
	__u64 late;
	__u64 late_ns;
	__u64 useless;
	char comm[16];
};

/**
 * struct zernel_cgroup_info - a tracked cgroup
 * @id: the cgroup
 * @uid: the user that tracks it
 * @flags: ZERNEL_TRACKED_*
 * @processes: tracked processes in it or below
 * @threads: their tracked threads
 * @unknown_ns: time in a phase, of all threads as long as they were tracked there, as the
 *              next four; see struct zernel_thread_info
 * @data_loading_ns: likewise
 * @gpu_compute_ns: likewise
 * @collective_ns: likewise
 * @optimizer_step_ns: likewise
 */
struct zernel_cgroup_info {
	__u64 id;
	__u32 uid;
	__u32 flags;
	__u32 processes;
	__u32 threads;
	__u64 unknown_ns;
	__u64 data_loading_ns;
	__u64 gpu_compute_ns;
	__u64 collective_ns;
	__u64 optimizer_step_ns;
};

/* Kinds of hint. */
#define ZERNEL_HINT_PHASE		1	/* value: ZERNEL_PHASE_* */

/* Longest time for which a hint holds. */
#define ZERNEL_HINT_MAX_NS		60000000000ULL

/**
 * struct zernel_hint - the phase of a thread, as its program knows it
 * @target: in: a THREAD
 * @kind: in: ZERNEL_HINT_*
 * @flags: in: zero
 * @value: in: see ZERNEL_HINT_*
 * @duration_ns: in: length of the hint, up to ZERNEL_HINT_MAX_NS; 0: the present hint of
 *               this kind ends
 *
 * A hint wins over detected phases, until its time is over or the next hint comes.
 *
 * Needs to be the owner of the thread, or a manager.
 *
 * Errors
 *
 * EPERM	not allowed
 * ENODATA	the thread is not tracked with ZERNEL_TRACK_ML, or not recorded yet
 * and those of targets.
 */
struct zernel_hint {
	struct zernel_target target;
	__u32 kind;
	__u32 flags;
	__u64 value;
	__u64 duration_ns;
};

/* ------------------------------------------------------------------------ */
/* 9. Signals									*/
/* ------------------------------------------------------------------------ */

/* Signals of zernel, which have nothing to do with kill(). */
#define ZERNEL_SIGNAL_PREFETCH		1	/* it is time to load the next batch */

/* Actions at a signal. */
#define ZERNEL_ACTION_EVENTFD		1	/* 1 is added to the eventfd @fd */
#define ZERNEL_ACTION_WORD		2	/* the word signals of @slot counts up */
#define ZERNEL_ACTION_READ_AHEAD	3	/* a range of the file @fd is read ahead */

/* Most bytes read ahead at a signal. */
#define ZERNEL_READ_AHEAD_MAX		1073741824ULL

/**
 * struct zernel_subscribe - an action at each signal for a process
 * @target: in: a PROCESS. It need not be tracked yet
 * @signal: in: ZERNEL_SIGNAL_*
 * @action: in: ZERNEL_ACTION_*. Fields of other actions must be zero, @fd too
 * @fd: in: EVENTFD, READ_AHEAD: a descriptor
 * @slot: in: WORD: number of a slot of this file, on a mapped page
 * @flags: in: zero
 * @reserved: in: zero
 * @offset: in: READ_AHEAD: first byte
 * @length: in: READ_AHEAD: bytes for each signal, 1 to ZERNEL_READ_AHEAD_MAX
 * @span: in: READ_AHEAD: begin anew after so many bytes, @length or more; 0: the range is
 *        the same each time
 * @handle: out: names the subscription in this file, for REMOVE
 * @reserved_out: out: zero
 *
 * Signals are events, too (ZERNEL_EVENT_SIGNAL).
 *
 * WORD: counts from its value at the call on, with release order. A slot has one.
 * READ_AHEAD: pages that are missing are read into the page cache, at the cost of the
 * caller's cgroups. A signal while the range before is still being read is skipped.
 *
 * It ends with REMOVE or the file. Its process may have exited before.
 *
 * Needs to be the owner of the process, as lists show it, or CAP_PERFMON. Visibility of the process
 * is checked anew at each signal, with the credentials and the pid namespace of this call: a
 * process that is hidden by then gives no signal. A user without CAP_SYS_RESOURCE has at most 64,
 * with lengths up to the tunable prefetch_readahead_bytes together.
 *
 * Errors
 *
 * EINVAL	also a range that ends beyond the largest file size
 * EBADF	@fd is not an eventfd; not open for reading, or neither a regular file
 *		nor a block device
 * ENXIO	no such slot
 * ESRCH	also a process that has no number in the caller's pid namespace
 * EBUSY	the slot has a subscription
 * EPERM	not allowed
 * EDQUOT	a quota of the user
 * and those of targets.
 */
struct zernel_subscribe {
	struct zernel_target target;
	__u32 signal;
	__u32 action;
	__s32 fd;
	__u32 slot;
	__u32 flags;
	__u32 reserved;
	__u64 offset;
	__u64 length;
	__u64 span;

	__u32 handle;
	__u32 reserved_out;
};

/**
 * struct zernel_probe - a function of a library in which threads wait for the GPU
 * @fd: in: the library, a regular file that is open for reading
 * @flags: in: zero
 * @offset: in: first byte of the function in the file
 * @handle: out: names the probe in this file, for REMOVE
 * @reserved_out: out: zero
 *
 * From the call to the return of the function a tracked thread waits for the GPU. Nested
 * waits count once, as part of the outermost. The probe is a uprobe in each process that
 * maps the file, tracked or not. It ends with REMOVE or the file.
 *
 * Needs CAP_SYS_ADMIN, audited, and a kernel that is not locked down.
 *
 * Errors
 *
 * EPERM	not allowed
 * EDQUOT	this file has 64 probes
 * ENOSPC	there are 256 probes
 * EACCES	@fd is not open for reading
 * ENODEV	@fd is not a regular file
 * ERANGE	@offset is not in the file
 * ENOEXEC	no function of the file's symbol table begins there, or its first
 *		instruction cannot be probed
 * EIO		the file system cannot have probes, or the file cannot be read
 */
struct zernel_probe {
	__s32 fd;
	__u32 flags;
	__u64 offset;

	__u32 handle;
	__u32 reserved_out;
};

/**
 * struct zernel_remove - ends a subscription or probe of this file
 * @handle: in: its handle
 * @flags: in: zero
 *
 * After the call it has no further effect. Reading ahead ends with the part under way.
 *
 * Errors: ENOENT no such handle.
 */
struct zernel_remove {
	__u32 handle;
	__u32 flags;
};

/* ------------------------------------------------------------------------ */
/* 10. Events									*/
/* ------------------------------------------------------------------------ */

/* Kinds of event, 1 to 63: the bit (1ULL << kind) of zernel_events.kinds. */
#define ZERNEL_EVENT_GPU_ADDED		1	/* struct zernel_event_gpu: it appeared */
#define ZERNEL_EVENT_GPU_REMOVED	2	/* it is gone, and its TSGs */
#define ZERNEL_EVENT_GPU_STATE		3	/* its state has changed */
#define ZERNEL_EVENT_TSG_ADDED		8	/* struct zernel_event_tsg: it appeared */
#define ZERNEL_EVENT_TSG_REMOVED	9	/* it is gone */
#define ZERNEL_EVENT_TSG_CLASS		10	/* another level, or source of it, is in force */
#define ZERNEL_EVENT_TSG_APPLIED	11	/* the provider took other settings */
#define ZERNEL_EVENT_TSG_ERROR		12	/* the provider refused them for good */
#define ZERNEL_EVENT_SIGNAL		16	/* struct zernel_event_signal: a signal was given */

/**
 * struct zernel_events - starts the stream of this file, or changes it
 * @filter: in: events of this target alone: NONE, CGROUP, PROCESS, THREAD, TSG or GPU (also
 *          those of its TSGs)
 * @kinds: in: kinds of event, one bit each; 0 ends the stream
 * @capacity: in: room for events, 16 to 65,536; 0: as the tunable event_ring_size
 * @flags: in: zero
 *
 * read() returns whole events, as many as fit. poll() and epoll report EPOLLIN while there
 * is something to read. A waiter is woken soon after an event, once for all until then.
 * The waiters of a user's streams take a bounded share of a CPU: where there are very many,
 * they are woken less often. A call while the stream exists takes effect for later events, with
 * events that were not read kept; @capacity must then be 0 or the same (EBUSY).
 *
 * The stream keeps the view of the program that opened the file, from that time: its own
 * TSGs and processes, or all with CAP_PERFMON. GPUs are everybody's. A full stream overwrites its
 * oldest event. Only kinds of @kinds come, so an unknown kind never does.
 *
 * A user without CAP_PERFMON has at most 64 streams.
 *
 * Errors: EDQUOT that many streams; EBUSY see above; EINVAL also an unknown kind; and
 * those of targets.
 *
 * Errors of read(): ENODATA no stream; EINVAL the buffer is shorter than the next event
 * (INFO.event_max is enough for any); EAGAIN nothing to read, and O_NONBLOCK; EINTR;
 * EFAULT: events already taken for the buffer count as dropped. Errors of poll():
 * EPOLLERR no stream.
 */
struct zernel_events {
	struct zernel_target filter;
	__u64 kinds;
	__u32 capacity;
	__u32 flags;
};

/**
 * struct zernel_event - header of every event. Never grows
 * @size: bytes of the event, this header included, a multiple of 8: the next one follows
 * @kind: ZERNEL_EVENT_*
 * @seq: number of the event in the stream, from 1. Dropped ones count, so that a gap is
 *       the number of missing events
 * @dropped: events of the stream that were dropped before this read()
 * @time_at: when it happened
 *
 * An event grows at its end. Look at @size before a field that is newer than the event.
 */
struct zernel_event {
	__u32 size;
	__u32 kind;
	__u64 seq;
	__u64 dropped;
	__u64 time_at;
};

/**
 * struct zernel_event_gpu - an event of a GPU
 * @event: header
 * @gpu: id of the GPU
 * @state: ZERNEL_GPU_SUSPENDED and so on
 * @reserved: zero
 */
struct zernel_event_gpu {
	struct zernel_event event;
	__u64 gpu;
	__u32 state;
	__u32 reserved;
};

/**
 * struct zernel_event_tsg - an event of a TSG
 * @event: header
 * @tsg: id of the TSG
 * @gpu: id of its GPU
 * @level: level in force, or ZERNEL_LEVEL_NONE
 * @source: ZERNEL_SOURCE_* of it
 * @timeslice_us: time slice of the TSG
 * @error: 0, or the negative errno of the provider
 * @pid: process that owns it
 * @uid: its owner
 */
struct zernel_event_tsg {
	struct zernel_event event;
	__u64 tsg;
	__u64 gpu;
	__u32 level;
	__u32 source;
	__u32 timeslice_us;
	__s32 error;
	__u32 pid;
	__u32 uid;
};

/**
 * struct zernel_event_signal - a signal for a process
 * @event: header
 * @process: id of the process, see struct zernel_process_info
 * @signal: ZERNEL_SIGNAL_*
 * @pid: process
 * @uid: its user
 * @reserved: zero
 * @elapsed_ns: time since the computation began
 * @predicted_ns: predicted length of the computation
 * @lead_ns: predicted lead that loading needs
 */
struct zernel_event_signal {
	struct zernel_event event;
	__u64 process;
	__u32 signal;
	__u32 pid;
	__u32 uid;
	__u32 reserved;
	__u64 elapsed_ns;
	__u64 predicted_ns;
	__u64 lead_ns;
};

/* ------------------------------------------------------------------------ */
/* 11. First versions								*/
/* ------------------------------------------------------------------------ */

/* Bytes of the first version of growing structures: the least that the module takes. */
#define ZERNEL_INFO_SIZE_1		72
#define ZERNEL_LIST_SIZE_1		80
#define ZERNEL_SYSTEM_INFO_SIZE_1	248
#define ZERNEL_GPU_INFO_SIZE_1		264
#define ZERNEL_LEVEL_INFO_SIZE_1	88
#define ZERNEL_TSG_INFO_SIZE_1		160
#define ZERNEL_CLASS_SET_SIZE_1		48
#define ZERNEL_CLASS_GET_SIZE_1		184
#define ZERNEL_CLASS_INFO_SIZE_1	72
#define ZERNEL_REQUEST_UPDATE_SIZE_1	16
#define ZERNEL_REQUEST_OPTIONS_SIZE_1	96
#define ZERNEL_REQUEST_INFO_SIZE_1	240
#define ZERNEL_HISTOGRAM_SIZE_1		88
#define ZERNEL_TRACK_SIZE_1		32
#define ZERNEL_THREAD_INFO_SIZE_1	336
#define ZERNEL_PROCESS_INFO_SIZE_1	232
#define ZERNEL_CGROUP_INFO_SIZE_1	64
#define ZERNEL_HINT_SIZE_1		40
#define ZERNEL_SUBSCRIBE_SIZE_1		72
#define ZERNEL_PROBE_SIZE_1		24
#define ZERNEL_REMOVE_SIZE_1		8
#define ZERNEL_EVENTS_SIZE_1		32
#define ZERNEL_EVENT_GPU_SIZE_1		48
#define ZERNEL_EVENT_TSG_SIZE_1		72
#define ZERNEL_EVENT_SIGNAL_SIZE_1	80

#endif /* _UAPI_LINUX_ZERNEL_H */
