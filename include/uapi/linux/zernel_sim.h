/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * User space interface of the software GPU, /dev/zernel-sim.
 *
 * Conventions
 *
 * - Every structure has a fixed layout without padding. Fields named
 *   "reserved" and bits without a name must be zero, else -EINVAL.
 * - Structures are versioned by size. The kernel dispatches on the type and
 *   the number of a command and takes the size of the caller's structure from
 *   _IOC_SIZE(cmd). A shorter structure is completed with zeroes and only its
 *   size is written back. A longer one must hold zeroes in the part that the
 *   kernel does not know, else -E2BIG; that part is not written.
 * - "in" fields are read, "out" fields are written on success only. Values of
 *   "out" fields passed in are ignored.
 * - Times are CLOCK_MONOTONIC nanoseconds; durations are nanoseconds. Time
 *   slices are microseconds, as on the hardware.
 * - An error changes nothing.
 *
 * Errors common to all commands
 *
 * -EFAULT   the structure, or memory that it points to, is not accessible
 * -E2BIG    a longer structure with something in its unknown part
 * -EINVAL   a reserved field or bit is set, a value is out of range, or the
 *           structure is shorter than its first version
 * -ENOENT   no such GPU, context, channel or TSG
 * -ENOTTY   no such command
 *
 * Objects
 *
 * A file owns contexts. A context is one TSG (time slice group) with 1 to 16
 * channels on one engine of one GPU and a page of semaphore words, to which it
 * can add memory of the program. Contexts die with their file. TSG handles are unique over all GPUs and never reused
 * while the module is loaded; context ids are unique within a file and never
 * reused.
 *
 * Items of one channel run one after the other. Channels of one TSG run side
 * by side and share the engine by demand. TSGs of one engine take turns.
 *
 * Quotas
 *
 * Contexts and queued items are limited per user id (see struct
 * zernel_sim_version), pinned memory by RLIMIT_MEMLOCK; CAP_SYS_RESOURCE in the initial user namespace lifts
 * the limits per user, not those of a GPU or of a channel. Memory that a call
 * takes counts against the memory cgroup of the caller.
 *
 * The interrupts of all GPUs together take at most half of one CPU, counted over some tens of ms,
 * of which each GPU has an equal share. When users queue more than that can simulate, the time of a
 * GPU falls behind, and it looks at words less often: its reports stay exact in its own time, and
 * it catches up later.
 */
#ifndef _UAPI_LINUX_ZERNEL_SIM_H
#define _UAPI_LINUX_ZERNEL_SIM_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define ZERNEL_SIM_ABI_VERSION		4
#define ZERNEL_SIM_DEVICE_PATH		"/dev/zernel-sim"

/* ioctl type of all commands. */
#define ZERNEL_SIM_IOC_TYPE		0xE7

#define ZERNEL_SIM_NAME_LEN		32
#define ZERNEL_SIM_LABEL_LEN		16

/* Engine types. Engine 0 of a GPU computes, engines 1..n copy. */
#define ZERNEL_SIM_ENGINE_COMPUTE	0
#define ZERNEL_SIM_ENGINE_COPY		1

/* Any engine of the asked type: the one with the fewest TSGs. */
#define ZERNEL_SIM_ENGINE_ANY		0xffffffffu

/*
 * struct zernel_sim_version - version, capabilities and limits
 *
 * ZERNEL_SIM_IOC_VERSION. Needs no privilege.
 */
struct zernel_sim_version {
	__u32 abi_version;		/* out: ZERNEL_SIM_ABI_VERSION */
	__u32 nr_gpus;			/* out: GPUs are numbered from 0 */
	__u64 capabilities;		/* out: ZERNEL_SIM_CAP_* */
	__u32 max_channels;		/* out: channels of a context */
	__u32 max_items;		/* out: queued items of a channel */
	__u32 max_submit;		/* out: items of one submission */
	__u32 nr_words;			/* out: words of the semaphore page of a context */
	__u32 user_contexts;		/* out: contexts of a user id */
	__u32 user_items;		/* out: queued items of a user id */
	__u64 min_work_ns;		/* out: shortest work item */
	__u64 max_work_ns;		/* out: longest work item or hold */
	__u64 word_poll_ns;		/* out: see ZERNEL_SIM_IOC_DOORBELL */
	__u32 completion_ring;		/* out: completions kept per file */
	__u32 reserved;			/* out: 0 */
};

#define ZERNEL_SIM_CAP_TRACE		(1ull << 0)	/* execution trace */
#define ZERNEL_SIM_CAP_FAULTS		(1ull << 1)	/* fault injection */
#define ZERNEL_SIM_CAP_PROVIDER		(1ull << 2)	/* provider of zernel.ko */
#define ZERNEL_SIM_CAP_CONTROL		(1ull << 3)	/* TSG_CONTROL and TSG_DESCRIBE */
#define ZERNEL_SIM_CAP_ATTACH		(1ull << 4)	/* CONTEXT_ATTACH and REGISTERS */

/*
 * struct zernel_sim_gpu_info - describe one GPU
 *
 * ZERNEL_SIM_IOC_GPU_INFO. Needs no privilege. -ENOENT: no such GPU.
 */
struct zernel_sim_gpu_info {
	__u32 gpu;			/* in */
	__u32 nr_engines;		/* out: 1 + copy engines */
	__u32 nr_copy_engines;		/* out */
	__u32 nr_sms;			/* out: of the preset */
	__u32 max_tsgs;			/* out */
	__u32 nr_tsgs;			/* out: alive now */
	__u32 default_timeslice_us;	/* out */
	__u32 suspended;		/* out: 0 or 1 */
	__u64 context_bytes;		/* out: saved and restored by a switch */
	__u64 bandwidth;		/* out: bytes per second */
	__u64 save_ns;			/* out: leaving a compute context */
	__u64 restore_ns;		/* out: entering a compute context */
	__u64 copy_switch_ns;		/* out: the same, each way, copy engines */
	__u64 preempt_op_ns;		/* out: cost of the preempt operation */
	__u64 enable_op_ns;		/* out: cost of enable and disable */
	__u64 slice_op_ns;		/* out: cost of slice and interleave */
	__u8 preset[ZERNEL_SIM_NAME_LEN];	/* out: name, NUL padded */
};

/* The new context uses the semaphore page of @share_context. */
#define ZERNEL_SIM_CONTEXT_SHARE_WORDS	(1u << 0)

/*
 * struct zernel_sim_context_create - create a context: a TSG with channels
 *
 * ZERNEL_SIM_IOC_CONTEXT_CREATE. The TSG belongs to the calling process and
 * thread and to the file's user id. It starts enabled, with the default time
 * slice and interleave level 0. The semaphore page is mapped with
 * mmap(NULL, page size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, mmap_offset);
 * all words are 0 at first. The mapping is not inherited by fork, and
 * madvise(MADV_DOFORK) on it fails with -EINVAL. mmap fails with -EINVAL for
 * another length, another offset or a private mapping.
 *
 * -ENOENT   no such GPU, engine or @share_context
 * -EINVAL   @nr_channels is 0 or above max_channels, or @share_context is on
 *           another GPU
 * -EMLINK   8 TSGs use the semaphore page of @share_context
 * -ENOSPC   the GPU has max_tsgs TSGs, or 65536 channels
 * -EDQUOT   the user has user_contexts contexts
 * -ENOMEM
 */
struct zernel_sim_context_create {
	__u32 gpu;			/* in */
	__u32 engine_type;		/* in: ZERNEL_SIM_ENGINE_{COMPUTE,COPY} */
	__u32 engine;			/* in: index, or ZERNEL_SIM_ENGINE_ANY;
					 * out: index chosen
					 */
	__u32 nr_channels;		/* in */
	__u32 flags;			/* in: ZERNEL_SIM_CONTEXT_* */
	__u32 share_context;		/* in: with SHARE_WORDS, else 0 */
	__u8 label[ZERNEL_SIM_LABEL_LEN];	/* in: for people; any bytes */
	__u32 context;			/* out: id, never 0 */
	__u32 reserved;			/* in: 0 */
	__u64 tsg;			/* out: handle, as zernel reports it */
	__u64 mmap_offset;		/* out: of the semaphore page */
};

/*
 * struct zernel_sim_context_attach - make a context of a TSG that the driver has
 *
 * ZERNEL_SIM_IOC_CONTEXT_ATTACH. For GPUs that belong to NVIDIA's driver, on which
 * ZERNEL_SIM_IOC_CONTEXT_CREATE, SUSPEND, FAULT, TSG_CONTROL and TSG_DESCRIBE
 * fail with -EOPNOTSUPP: the driver does all that. The TSG is one of a client that
 * the calling process made. Channels of the context are those that the TSG has
 * now, in the order of their making. It runs while the driver lets it, with the
 * driver's time slice and interleave level. When one of these channels goes, the
 * context stays, and its calls fail with -ENOENT; when the context goes first, the
 * TSG stays and has no work.
 *
 * -EOPNOTSUPP  the GPUs belong to nobody else: no ZERNEL_SIM_CAP_ATTACH
 * -ENOENT      no such client, object or @share_context
 * -EPERM       another process made the client
 * -EINVAL      the object is no TSG, or @share_context is on another GPU
 * -EBUSY       the TSG has a context
 * -ERANGE      the TSG has no channel, or more than max_channels
 * -ENODEV      there is nothing behind the TSG's GPU or engine
 * -EMLINK, -ENOSPC, -EDQUOT, -ENOMEM  as for a context that is created
 */
struct zernel_sim_context_attach {
	__u32 client;			/* in: handle of the driver's client */
	__u32 object;			/* in: its handle of the TSG */
	__u32 flags;			/* in: ZERNEL_SIM_CONTEXT_* */
	__u32 share_context;		/* in: with SHARE_WORDS, else 0 */
	__u32 gpu;			/* out */
	__u32 engine;			/* out */
	__u32 nr_channels;		/* out */
	__u32 context;			/* out: id, never 0 */
	__u64 tsg;			/* out: handle */
	__u64 mmap_offset;		/* out: of the semaphore page */
};

/* From now on ... */
#define ZERNEL_SIM_REGISTERS_TRUE	0	/* registers tell the truth, all faults end */
#define ZERNEL_SIM_REGISTERS_VALUE	1	/* all registers of @gpu read @value */
#define ZERNEL_SIM_REGISTERS_PENDING	2	/* the channel is pending, with work or without */
/* The next doorbell of the channel is lost, if it is idle and disabled by then. */
#define ZERNEL_SIM_REGISTERS_DOORBELL	3

/*
 * struct zernel_sim_registers - make the registers of a GPU lie
 *
 * ZERNEL_SIM_IOC_REGISTERS. Needs CAP_SYS_ADMIN in the initial user namespace.
 * Items whose doorbell is lost are seen when the TSG is enabled, or when more
 * items come.
 *
 * -EOPNOTSUPP  no ZERNEL_SIM_CAP_ATTACH
 * -EPERM       no CAP_SYS_ADMIN
 * -EINVAL      no such @fault, or a field that it does not use is not 0
 * -ENOENT      no such GPU, context or channel
 */
struct zernel_sim_registers {
	__u32 fault;			/* in: ZERNEL_SIM_REGISTERS_* */
	__u32 gpu;			/* in: TRUE, VALUE */
	__u32 value;			/* in: VALUE */
	__u32 context;			/* in: PENDING, DOORBELL */
	__u32 channel;			/* in: PENDING, DOORBELL */
	__u32 reserved;			/* in: 0 */
};

/*
 * struct zernel_sim_context_destroy - end a context now
 *
 * ZERNEL_SIM_IOC_CONTEXT_DESTROY. Queued items are dropped without a
 * completion; waiters get -ENOENT. Mappings stay valid and lose their effect.
 */
struct zernel_sim_context_destroy {
	__u32 context;			/* in */
	__u32 reserved;			/* in: 0 */
};

/* The first word of the memory that was added to a context; those before are of its page. */
#define ZERNEL_SIM_MEMORY_WORD		1024
/* Most memory of a context, in bytes. */
#define ZERNEL_SIM_MEMORY_MAX		(63 * 4096)

/*
 * struct zernel_sim_memory - add memory of the program to the words of a context
 *
 * ZERNEL_SIM_IOC_MEMORY. The words of the memory, 32 bits each, are numbered from
 * ZERNEL_SIM_MEMORY_WORD on. It is pinned, as a GPU does it, until the context is gone: the GPU
 * sees all stores to it, and all programs that map it see stores of items, also after the end of
 * this mapping. Contexts that share a semaphore page share it.
 *
 * -EINVAL   @address or @length is not a multiple of the page size, @length is 0
 *           or above ZERNEL_SIM_MEMORY_MAX
 * -EBUSY    the context has memory
 * -EFAULT   also: not writable, or cannot be pinned
 * -ENOMEM   also: RLIMIT_MEMLOCK is reached
 */
struct zernel_sim_memory {
	__u32 context;			/* in */
	__u32 reserved;			/* in: 0 */
	__u64 address;			/* in */
	__u64 length;			/* in */
};

/* Kinds of items; which fields each one uses is told below. */
#define ZERNEL_SIM_ITEM_WORK		1
#define ZERNEL_SIM_ITEM_WAIT		2
#define ZERNEL_SIM_ITEM_RELEASE		3
#define ZERNEL_SIM_ITEM_HOLD		4
#define ZERNEL_SIM_ITEM_FENCE		5

/* Conditions on a semaphore word. GE is cyclic: (__s32)(word - value) >= 0. */
#define ZERNEL_SIM_COND_EQ		0
#define ZERNEL_SIM_COND_GE		1
#define ZERNEL_SIM_COND_NE		2

/* Where a work item may lose the engine. */
#define ZERNEL_SIM_GRANULARITY_INSTRUCTION	0
#define ZERNEL_SIM_GRANULARITY_BLOCK		1

/*
 * The completion is reported: the file becomes readable, the channel's
 * eventfd is signalled and a completion is queued. Without it the item only
 * moves the channel's sequence number, which ZERNEL_SIM_IOC_WAIT can see.
 */
#define ZERNEL_SIM_ITEM_NOTIFY		(1u << 0)

/*
 * WAIT, HOLD: ZERNEL_SIM_IOC_DOORBELL is called when @word has changed. Without a call the change
 * is seen after 1 ms, or after word_poll_ns if that is longer.
 */
#define ZERNEL_SIM_ITEM_RUNG		(1u << 1)

/*
 * struct zernel_sim_item - one item of a channel
 *
 * WORK     runs for @duration_ns (min_work_ns to max_work_ns) when alone; uses
 *          @demand_permille (1 to 1000) of the engine. Channels of the TSG with a sum of demands up
 *          to 1000 run at full speed, else each at 1000 / sum. With GRANULARITY_BLOCK the engine is
 *          given away only at multiples of @block_ns (min_work_ns to @duration_ns) of progress.
 * WAIT     the channel is not runnable until @word meets @condition @value.
 *          A switch to the TSG is not needed for a WAIT to end.
 * RELEASE  stores @value in @word when everything before it has finished.
 * HOLD     a spinning kernel: uses @demand_permille of the engine until @word
 *          meets @condition @value, or @duration_ns (1 to max_work_ns) after
 *          it first ran, whether or not the TSG had the engine all the time.
 * FENCE    nothing; completes when everything before it has.
 *
 * Fields that a kind does not use must be zero.
 */
struct zernel_sim_item {
	__u32 kind;			/* ZERNEL_SIM_ITEM_<kind> */
	__u32 flags;			/* ZERNEL_SIM_ITEM_NOTIFY, ZERNEL_SIM_ITEM_RUNG */
	__u64 duration_ns;		/* WORK, HOLD */
	__u64 block_ns;			/* WORK with GRANULARITY_BLOCK */
	__u32 demand_permille;		/* WORK, HOLD */
	__u32 granularity;		/* WORK */
	__u32 word;			/* WAIT, RELEASE, HOLD: of the context's page or memory */
	__u32 value;			/* WAIT, RELEASE, HOLD */
	__u32 condition;		/* WAIT, HOLD: ZERNEL_SIM_COND_* */
	__u32 reserved;			/* 0 */
	__u64 tag;			/* returned in the completion */
};

/*
 * struct zernel_sim_submit - queue items in a channel
 *
 * ZERNEL_SIM_IOC_SUBMIT. All of the items or none. Items of a channel are
 * numbered from 1; the first item of this call is number
 * @last_seq - @nr_items + 1.
 *
 * -EINVAL   @nr_items is 0 or above max_submit, or an item is not valid
 * -EAGAIN   the channel has no room now: wait for its completions
 * -ENOSPC   the GPU holds 65536 items, of all users together, and has no room
 *           now: completions of any channel of the GPU make room
 * -EDQUOT   the user has user_items items queued
 * -ENOMEM
 */
struct zernel_sim_submit {
	__u32 context;			/* in */
	__u32 channel;			/* in: from 0 */
	__u32 nr_items;			/* in */
	__u32 flags;			/* in: 0 */
	__u64 items;			/* in: pointer to struct zernel_sim_item[] */
	__u64 last_seq;			/* out */
	__u64 submitted_ns;		/* out: when the engine saw the items */
};

/*
 * struct zernel_sim_wait - wait until an item of a channel has completed
 *
 * ZERNEL_SIM_IOC_WAIT. @deadline_ns is an absolute CLOCK_MONOTONIC time, so
 * that an interrupted call can be restarted: 0 does not wait, ~0 waits
 * forever. A deadline can be missed by one scheduler tick.
 *
 * -ETIME    not completed at the deadline
 * -EINTR    a signal (the call is restarted if the handler asks for it)
 * -EINVAL   @seq is above the last submitted item
 * -ENOENT   the context was destroyed meanwhile
 */
struct zernel_sim_wait {
	__u32 context;			/* in */
	__u32 channel;			/* in */
	__u64 seq;			/* in: 0 is always complete */
	__u64 deadline_ns;		/* in */
	__u64 completed_seq;		/* out: highest completed */
	__u64 completed_ns;		/* out: when that one completed */
};

/*
 * struct zernel_sim_eventfd - signal an eventfd for a channel
 *
 * ZERNEL_SIM_IOC_EVENTFD. Adds 1 for every completed item that has
 * ZERNEL_SIM_ITEM_NOTIFY. Replaces the eventfd set before; -1 removes it.
 *
 * -EBADF    @fd is not open
 * -EINVAL   @fd is not an eventfd
 */
struct zernel_sim_eventfd {
	__u32 context;			/* in */
	__u32 channel;			/* in */
	__s32 fd;			/* in */
	__u32 reserved;			/* in: 0 */
};

/*
 * struct zernel_sim_doorbell - look at the semaphore words now
 *
 * ZERNEL_SIM_IOC_DOORBELL. A store to a mapped word is seen by the engine
 *
 * - at once, after this call;
 * - at the latest after word_poll_ns of struct zernel_sim_version without it,
 *   as long as a channel waits or holds on a word. At most 64 waiting channels
 *   of a GPU are looked at in one interval, in turn, so that with w of them
 *   the bound is word_poll_ns * ceil(w / 64). Items with ZERNEL_SIM_ITEM_RUNG
 *   are counted, and looked at, apart: each 1 ms, or word_poll_ns if that is
 *   longer.
 *
 * A RELEASE of the engine itself is seen at once, in every context that
 * shares the page.
 */
struct zernel_sim_doorbell {
	__u32 context;			/* in */
	__u32 reserved;			/* in: 0 */
};

/* Status of a completion. */
#define ZERNEL_SIM_STATUS_OK		0
#define ZERNEL_SIM_STATUS_HOLD_EXPIRED	1	/* HOLD ended by its bound */

/* struct zernel_sim_completion - one completed item with NOTIFY */
struct zernel_sim_completion {
	__u32 context;
	__u32 channel;
	__u64 seq;
	__u64 tag;			/* of the item */
	__u64 queued_ns;		/* submitted */
	__u64 start_ns;			/* first ran; completed, for others */
	__u64 end_ns;			/* completed */
	__u32 status;			/* ZERNEL_SIM_STATUS_* */
	__u32 reserved;			/* 0 */
};

/*
 * struct zernel_sim_completions - take completions of all contexts of the file
 *
 * ZERNEL_SIM_IOC_COMPLETIONS. Never waits: @count can be 0. poll() reports
 * POLLIN | POLLRDNORM while there is one to take. The file keeps
 * completion_ring of them; when it is full, new ones are counted in @dropped
 * (and still move the sequence number and signal the eventfd).
 *
 * -EINVAL   @capacity is 0
 */
struct zernel_sim_completions {
	__u64 buffer;			/* in: struct zernel_sim_completion[] */
	__u32 capacity;			/* in: elements of @buffer */
	__u32 count;			/* out: elements written */
	__u64 dropped;			/* out: since the file was opened */
};

/*
 * struct zernel_sim_tsg_stats - statistics of a TSG
 *
 * ZERNEL_SIM_IOC_TSG_STATS. Names the TSG either by @context, of this file, or
 * by @tsg (then @context is 0), which needs CAP_PERFMON unless the TSG belongs
 * to the caller's user id. Exact at @now_ns:
 * busy_ns + switch_ns + wait_ns + inactive_ns = now_ns - created_ns.
 *
 * -EPERM    TSG of another user
 */
struct zernel_sim_tsg_stats {
	__u32 context;			/* in */
	__u32 reserved;			/* in: 0 */
	__u64 tsg;			/* in: if @context is 0; out */
	__u64 now_ns;			/* out */
	__u64 created_ns;		/* out */
	__u64 busy_ns;			/* out: had the engine and ran */
	__u64 switch_ns;		/* out: was saved or restored */
	__u64 wait_ns;			/* out: could run, had not the engine */
	__u64 inactive_ns;		/* out: had nothing to run, or disabled */
	__u64 switches;			/* out: times it was restored */
	__u64 preemptions;		/* out: times it lost the engine unfinished */
	__u64 waits;			/* out: times it began to wait */
	__u64 max_wait_ns;		/* out: longest wait that has ended */
	__u64 completed;		/* out: items */
	__u64 queued;			/* out: items */
	__u64 slice_changes;		/* out: set time slice operations applied */
	__u64 slice_changed_ns;		/* out: when the last one was, or 0 */
	__u32 timeslice_us;		/* out */
	__u32 interleave;		/* out: 0 to 2 */
	__u32 enabled;			/* out: 0 or 1 */
	__u32 on_engine;		/* out: 1 while it has the engine */
	__u32 gpu;			/* out */
	__u32 engine;			/* out */
	__s32 pid;			/* out: process, in the caller's namespace */
	__s32 tid;			/* out: thread, same; 0 if gone */
};

/*
 * struct zernel_sim_engine_stats - statistics of an engine
 *
 * ZERNEL_SIM_IOC_ENGINE_STATS. Needs no privilege. Exact at @now_ns:
 * busy_ns + switch_ns + idle_ns = now_ns - created_ns.
 */
struct zernel_sim_engine_stats {
	__u32 gpu;			/* in */
	__u32 engine;			/* in */
	__u64 now_ns;			/* out */
	__u64 created_ns;		/* out */
	__u64 busy_ns;			/* out */
	__u64 switch_ns;		/* out */
	__u64 idle_ns;			/* out */
	__u64 switches;			/* out: contexts restored */
	__u64 rearms;			/* out: slices that ended with nobody else */
	__u64 completed;		/* out: items */
	__u32 nr_tsgs;			/* out */
	__u32 nr_runnable;		/* out: TSGs that could run now */
};

/* Kinds of trace records. */
#define ZERNEL_SIM_TRACE_RUN		1
#define ZERNEL_SIM_TRACE_SAVE		2
#define ZERNEL_SIM_TRACE_RESTORE	3
#define ZERNEL_SIM_TRACE_IDLE		4

/*
 * struct zernel_sim_trace_record - the TSG on an engine, with begin and end
 *
 * Records of one engine do not overlap and leave no gap (but for dropped
 * ones); they come in the order of their end.
 */
struct zernel_sim_trace_record {
	__u64 start_ns;
	__u64 end_ns;
	__u64 tsg;			/* handle; 0 for IDLE */
	__u32 engine;
	__u32 kind;			/* ZERNEL_SIM_TRACE_<kind> */
	__u32 context;			/* id in its file; 0 for IDLE */
	__s32 pid;			/* process, initial namespace; 0 for IDLE */
};

/*
 * struct zernel_sim_trace_start - record the activity of a GPU's engines
 *
 * ZERNEL_SIM_IOC_TRACE_START. Needs CAP_PERFMON. The ring belongs to this file
 * and ends with it or with @capacity 0. When the ring is full, new records are
 * counted as dropped.
 *
 * -EPERM    no CAP_PERFMON
 * -EBUSY    the GPU is traced, by this file or another one
 * -EINVAL   @capacity is above 1048576
 * -ENOMEM
 */
struct zernel_sim_trace_start {
	__u32 gpu;			/* in */
	__u32 capacity;			/* in: records; 0 stops */
};

/*
 * struct zernel_sim_trace_read - take records
 *
 * ZERNEL_SIM_IOC_TRACE_READ. Never waits.
 *
 * -EINVAL   @capacity is 0
 * -EPERM    this file did not start the trace of the GPU
 */
struct zernel_sim_trace_read {
	__u32 gpu;			/* in */
	__u32 capacity;			/* in: elements of @buffer */
	__u64 buffer;			/* in: struct zernel_sim_trace_record[] */
	__u32 count;			/* out: elements written */
	__u32 reserved;			/* in: 0 */
	__u64 dropped;			/* out: since the start */
};

#define ZERNEL_SIM_SETTING_TIMESLICE	1	/* value: us, from 1 */
#define ZERNEL_SIM_SETTING_INTERLEAVE	2	/* value: 0 low, 1 medium, 2 high */
#define ZERNEL_SIM_SETTING_ENABLED	3	/* value: 0 not scheduled, 1 scheduled */
#define ZERNEL_SIM_SETTING_START	4	/* value: 1 scheduled, as drivers have programs ask */

/*
 * struct zernel_sim_tsg_control - change a setting of one's own TSG
 *
 * ZERNEL_SIM_IOC_TSG_CONTROL. Needs no privilege, as on real GPUs; it is zernel.ko
 * that keeps a process from undoing its class so (its tunable user_control). A new TSG is
 * scheduled without ZERNEL_SIM_SETTING_START, which does what ENABLED does and is never refused.
 * Both are unknown (-EINVAL) to a zernel_sim.ko that is older than they are.
 *
 * -EPERM    zernel.ko has settings in force on the TSG and does not allow it
 * -EAGAIN   the GPU is suspended
 * -EINVAL   no such setting, or not a value of it
 */
struct zernel_sim_tsg_control {
	__u32 context;			/* in */
	__u32 setting;			/* in: ZERNEL_SIM_SETTING_* */
	__u32 value;			/* in */
	__u32 reserved;			/* in: 0 */
};

#define ZERNEL_SIM_TSG_COMPUTE		(1u << 0)	/* on a compute engine */
#define ZERNEL_SIM_TSG_SHARED		(1u << 1)	/* of several processes */

/*
 * struct zernel_sim_tsg_describe - describe a TSG anew to zernel.ko
 *
 * ZERNEL_SIM_IOC_TSG_DESCRIBE. Needs CAP_SYS_ADMIN in the initial user
 * namespace. The work of the GPU stays the same.
 *
 * -EPERM    no CAP_SYS_ADMIN
 * -ENOENT   no such context, or zernel.ko does not know its TSG
 */
struct zernel_sim_tsg_describe {
	__u32 context;			/* in */
	__u32 flags;			/* in: ZERNEL_SIM_TSG_* */
	__u32 channels;			/* in */
	__u32 reserved;			/* in: 0 */
};

/*
 * Provider operations that a fault can hit. GET_TIMESLICE stands for reading the interleave level
 * too. QUERY_LOAD names no TSG. USER_CONTROL is the change by TSG_CONTROL after zernel.ko has
 * allowed it. QUERY_TSG is answered while the GPU is suspended, too.
 */
#define ZERNEL_SIM_OP_SET_TIMESLICE	1
#define ZERNEL_SIM_OP_GET_TIMESLICE	2
#define ZERNEL_SIM_OP_PREEMPT		3
#define ZERNEL_SIM_OP_SET_ENABLED	4
#define ZERNEL_SIM_OP_SET_INTERLEAVE	5
#define ZERNEL_SIM_OP_QUERY_LOAD	6
#define ZERNEL_SIM_OP_USER_CONTROL	7
#define ZERNEL_SIM_OP_KICK		8
#define ZERNEL_SIM_OP_QUERY_TSG		9

/* Do not inject: only report @injected. */
#define ZERNEL_SIM_FAULT_QUERY		(1u << 0)

/*
 * struct zernel_sim_fault - make provider operations fail or take longer
 *
 * ZERNEL_SIM_IOC_FAULT. Needs CAP_SYS_ADMIN in the initial user namespace. One
 * fault per GPU and operation; a new one replaces it. The next @count calls
 * (~0: all) that name @tsg (0: any) sleep for @delay_ns and then return @error
 * without doing anything, or do their work if @error is 0. Ends when used up,
 * or with @count 0.
 *
 * -EPERM    no CAP_SYS_ADMIN
 * -EINVAL   no such operation, @error is not in -4095..0 or is one that no
 *           user may see (-512..-530), @delay_ns is above 10 s
 */
struct zernel_sim_fault {
	__u32 gpu;			/* in */
	__u32 op;			/* in: ZERNEL_SIM_OP_* */
	__u32 flags;			/* in: ZERNEL_SIM_FAULT_QUERY */
	__u32 count;			/* in; out: calls left */
	__s32 error;			/* in: 0 or a negative errno */
	__u32 reserved;			/* in: 0 */
	__u64 delay_ns;			/* in */
	__u64 tsg;			/* in */
	__u64 injected;			/* out: calls hit since the module was loaded */
};

/*
 * struct zernel_sim_suspend - stop or continue a GPU
 *
 * ZERNEL_SIM_IOC_SUSPEND. Needs CAP_SYS_ADMIN in the initial user namespace. A
 * suspended GPU runs nothing and keeps everything: its engines are idle, the
 * loaded contexts are lost (so that each TSG is restored before it runs again),
 * and provider operations fail with -EAGAIN. Suspending twice changes nothing.
 * zernel.ko is told when the GPU continues, and repeats its settings.
 *
 * -EPERM    no CAP_SYS_ADMIN
 * -EINVAL   @suspend is none of those below
 */
struct zernel_sim_suspend {
	__u32 gpu;			/* in */
	__u32 suspend;			/* in */
};

#define ZERNEL_SIM_CONTINUE		0
#define ZERNEL_SIM_SUSPEND		1
#define ZERNEL_SIM_FORGET		2	/* continue without all slices and levels */

/* Numbers of the commands. */
#define ZERNEL_SIM_NR_VERSION		0x00
#define ZERNEL_SIM_NR_GPU_INFO		0x01
#define ZERNEL_SIM_NR_CONTEXT_CREATE	0x02
#define ZERNEL_SIM_NR_CONTEXT_DESTROY	0x03
#define ZERNEL_SIM_NR_SUBMIT		0x04
#define ZERNEL_SIM_NR_WAIT		0x05
#define ZERNEL_SIM_NR_EVENTFD		0x06
#define ZERNEL_SIM_NR_DOORBELL		0x07
#define ZERNEL_SIM_NR_COMPLETIONS	0x08
#define ZERNEL_SIM_NR_TSG_STATS		0x09
#define ZERNEL_SIM_NR_ENGINE_STATS	0x0a
#define ZERNEL_SIM_NR_TRACE_START	0x0b
#define ZERNEL_SIM_NR_TRACE_READ	0x0c
#define ZERNEL_SIM_NR_FAULT		0x0d
#define ZERNEL_SIM_NR_SUSPEND		0x0e
#define ZERNEL_SIM_NR_TSG_CONTROL	0x0f
#define ZERNEL_SIM_NR_TSG_DESCRIBE	0x10
#define ZERNEL_SIM_NR_MEMORY		0x11
#define ZERNEL_SIM_NR_CONTEXT_ATTACH	0x12
#define ZERNEL_SIM_NR_REGISTERS		0x13

#define ZERNEL_SIM_CALL_(dir, nr, name) \
	_IO##dir(ZERNEL_SIM_IOC_TYPE, ZERNEL_SIM_NR_##nr, struct zernel_sim_##name)
#define ZERNEL_SIM_IOC_VERSION		ZERNEL_SIM_CALL_(R, VERSION, version)
#define ZERNEL_SIM_IOC_GPU_INFO		ZERNEL_SIM_CALL_(WR, GPU_INFO, gpu_info)
#define ZERNEL_SIM_IOC_CONTEXT_CREATE	ZERNEL_SIM_CALL_(WR, CONTEXT_CREATE, context_create)
#define ZERNEL_SIM_IOC_CONTEXT_DESTROY	ZERNEL_SIM_CALL_(W, CONTEXT_DESTROY, context_destroy)
#define ZERNEL_SIM_IOC_SUBMIT		ZERNEL_SIM_CALL_(WR, SUBMIT, submit)
#define ZERNEL_SIM_IOC_WAIT		ZERNEL_SIM_CALL_(WR, WAIT, wait)
#define ZERNEL_SIM_IOC_EVENTFD		ZERNEL_SIM_CALL_(W, EVENTFD, eventfd)
#define ZERNEL_SIM_IOC_DOORBELL		ZERNEL_SIM_CALL_(W, DOORBELL, doorbell)
#define ZERNEL_SIM_IOC_COMPLETIONS	ZERNEL_SIM_CALL_(WR, COMPLETIONS, completions)
#define ZERNEL_SIM_IOC_TSG_STATS	ZERNEL_SIM_CALL_(WR, TSG_STATS, tsg_stats)
#define ZERNEL_SIM_IOC_ENGINE_STATS	ZERNEL_SIM_CALL_(WR, ENGINE_STATS, engine_stats)
#define ZERNEL_SIM_IOC_TRACE_START	ZERNEL_SIM_CALL_(W, TRACE_START, trace_start)
#define ZERNEL_SIM_IOC_TRACE_READ	ZERNEL_SIM_CALL_(WR, TRACE_READ, trace_read)
#define ZERNEL_SIM_IOC_FAULT		ZERNEL_SIM_CALL_(WR, FAULT, fault)
#define ZERNEL_SIM_IOC_SUSPEND		ZERNEL_SIM_CALL_(W, SUSPEND, suspend)
#define ZERNEL_SIM_IOC_TSG_CONTROL	ZERNEL_SIM_CALL_(W, TSG_CONTROL, tsg_control)
#define ZERNEL_SIM_IOC_TSG_DESCRIBE	ZERNEL_SIM_CALL_(W, TSG_DESCRIBE, tsg_describe)
#define ZERNEL_SIM_IOC_MEMORY		ZERNEL_SIM_CALL_(W, MEMORY, memory)
#define ZERNEL_SIM_IOC_CONTEXT_ATTACH	ZERNEL_SIM_CALL_(WR, CONTEXT_ATTACH, context_attach)
#define ZERNEL_SIM_IOC_REGISTERS	ZERNEL_SIM_CALL_(W, REGISTERS, registers)

#endif /* _UAPI_LINUX_ZERNEL_SIM_H */
