/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Provider ABI of zernel.ko: a GPU driver reports its GPUs and TSGs (time slice
 * groups) and lets zernel set their time slices.
 *
 * Versioning: every structure begins with its size. Fields are only ever
 * appended; zernel takes a missing tail as zero. ZERNEL_PROVIDER_ABI grows when
 * the meaning of something that exists changes; another value is refused.
 *
 * Context: every operation, and every function here but zernel_gpu_activity(),
 * zernel_tsg_activity() and zernel_tsg_started(), runs in process context and may sleep.
 * zernel calls operations
 * from the worker of the GPU (and, for a provider that leaves, from
 * zernel_provider_unregister() itself), one at a time per GPU, holding no lock of its
 * own, so a provider may call every function here under its own mutexes even when its
 * operations take them too, except zernel_gpu_removed() and
 * zernel_provider_unregister(), which wait for operations and must not be called from
 * one.
 *
 * Lifetime: handles are the provider's own numbers. A call may be under way
 * while zernel_tsg_removed() returns, so the provider looks the handle up at
 * each call, answers -ENOENT when it is gone, and never uses a handle again.
 */
#ifndef _LINUX_ZERNEL_PROVIDER_H
#define _LINUX_ZERNEL_PROVIDER_H

#include <linux/types.h>

struct module;
struct pid;
struct zernel_provider;

#define ZERNEL_PROVIDER_ABI	1

/* Interleave levels, as in NVA06C_CTRL_INTERLEAVE_LEVEL_*. */
#define ZERNEL_INTERLEAVE_LOW		0
#define ZERNEL_INTERLEAVE_MEDIUM	1
#define ZERNEL_INTERLEAVE_HIGH		2

/* Flags of struct zernel_tsg_desc. */
#define ZERNEL_TSG_DESC_COMPUTE		(1U << 0)	/* on a compute engine */
#define ZERNEL_TSG_DESC_SHARED		(1U << 1)	/* carries work of several processes; not raised */
#define ZERNEL_TSG_DESC_COPY		(1U << 2)	/* on an engine that copies; nothing with COMPUTE */

/* Changes that a process asked the driver to make on its own TSG. */
#define ZERNEL_USER_TIMESLICE		1
#define ZERNEL_USER_INTERLEAVE		2
#define ZERNEL_USER_SCHEDULE		3	/* be scheduled or not, or be so sooner */
#define ZERNEL_USER_START		4	/* be scheduled, as every program asks for a new TSG */

/* The answer of zernel_tsg_user_control(). */
#define ZERNEL_USER_ALLOW		0	/* the driver does it */
#define ZERNEL_USER_DENY		1	/* the driver refuses it */
#define ZERNEL_USER_REAPPLY		2	/* the driver does it, then see zernel_tsg_user_control() */

/**
 * struct zernel_gpu_load - the load of a GPU
 * @size: sizeof(struct zernel_gpu_load), set by zernel
 * @reserved: zero
 * @busy_ns: time since the GPU was added in which a compute engine was busy
 * @elapsed_ns: time since the GPU was added
 */
struct zernel_gpu_load {
	u32 size;
	u32 reserved;
	u64 busy_ns;
	u64 elapsed_ns;
};

/* Flags of struct zernel_tsg_load. */
#define ZERNEL_TSG_LOAD_RUNNABLE	(1U << 0)	/* has something to run, enabled or not */

/**
 * struct zernel_tsg_load - the load of a TSG
 * @size: sizeof(struct zernel_tsg_load), set by the caller; write nothing beyond it. For
 *        @query_tsgs set by the provider
 * @flags: ZERNEL_TSG_LOAD_*
 * @ran_ns: time that it had the engine and ran, since it was added; never decreases
 * @since_ns: when it got something to run, or ran out of it, the last time, as
 *            ktime_get_ns() tells it; 0: not known
 * @preemptions: times that it lost the engine while it had something to run; never
 *               decreases
 * @preempted_ns: when it did so last, as ktime_get_ns() tells it; 0: never, or not known
 * @context_bytes: memory of its context, with ZERNEL_GPU_DESC_CONTEXT
 */
struct zernel_tsg_load {
	u32 size;
	u32 flags;
	u64 ran_ns;
	u64 since_ns;
	u64 preemptions;
	u64 preempted_ns;
	u64 context_bytes;
};

/* Flags of struct zernel_tsg_start. */
#define ZERNEL_TSG_START_WOKEN		(1U << 0)	/* it had nothing to run before @since_ns */

/**
 * struct zernel_tsg_start - a TSG has got its engine
 * @size: sizeof(struct zernel_tsg_start)
 * @flags: ZERNEL_TSG_START_*
 * @tsg: the provider's handle of the TSG
 * @at_ns: when it got the engine, as ktime_get_ns() tells it
 * @since_ns: when it got something to run, with ZERNEL_TSG_START_WOKEN
 * @switch_ns: time of the context switch before @at_ns; 0: there was none, its context
 *             was there
 */
struct zernel_tsg_start {
	u32 size;
	u32 flags;
	u64 tsg;
	u64 at_ns;
	u64 since_ns;
	u64 switch_ns;
};

/**
 * struct zernel_provider_ops - operations of a provider
 * @size: sizeof(struct zernel_provider_ops)
 * @abi: ZERNEL_PROVIDER_ABI
 * @owner: THIS_MODULE. No reference to it is held: zernel_provider_unregister() waits for calls
 * @name: at most 15 bytes
 * @replay: report every GPU and TSG that exists already; called once by
 *          zernel_provider_register() before it returns. May be NULL.
 * @set_timeslice: give the TSG a time slice of @us microseconds
 * @get_timeslice: read the time slice that the driver holds
 * @set_interleave: ZERNEL_INTERLEAVE_*. May be NULL.
 * @get_interleave: the interleave level that the driver holds. Present if and
 *                  only if @set_interleave is.
 * @preempt: take the engine away from the TSG; waits at most @timeout_us
 *           (1 to 1,000,000). May be NULL.
 * @set_enabled: let the TSG be scheduled or not. May be NULL.
 * @query_load: fill in @load. May be NULL.
 * @query_tsg: fill in @load of a TSG; takes microseconds at most. A provider that has
 *             this and @set_enabled calls zernel_tsg_activity(), and best-effort TSGs
 *             take turns on its GPUs. May be NULL. Asked for all TSGs of a GPU only
 *             while somebody reads their counters; with ZERNEL_GPU_DESC_POLLED also
 *             every activity_poll_us for those with turns or budgets, while there are
 *             two of the former or any of the latter. -EOPNOTSUPP: nothing can be told
 *             on this GPU, so there are neither turns nor budgets on it until
 *             zernel_gpu_refresh().
 * @kick: end the slice that runs on the run list of the TSG, and have that served from its
 *        most urgent TSG on. Does not wait for it. After -EOPNOTSUPP, or 16 errors in a row
 *        other than -ENOENT, -EAGAIN and -EBUSY, not called again for this GPU until
 *        zernel_gpu_refresh(). May be NULL.
 * @query_tsgs: as @query_tsg for 1 to 16 TSGs of a GPU at once, where that takes less time than a
 *              call for each. Calls @tell once for each, in any order, one after the other and
 *              before it returns: with @to, the place in @tsgs, and 0 and the load, or a negative
 *              errno and NULL. @tell copies the load, and takes no lock. Returns 0, or an error for
 *              all TSGs that were not told. -EOPNOTSUPP, returned or told of one TSG: as of
 *              @query_tsg, for the whole GPU. After any other error a TSG keeps its last load; it is
 *              asked for again at a later look. Needs @query_tsg. May be NULL.
 *
 * @priv is the pointer given at registration; @gpu and @tsg are the provider's
 * handles.
 *
 * Every operation returns 0 or
 *
 * -ENOENT	the TSG or GPU is gone; zernel drops it and never calls again
 * -EAGAIN	not now (suspended, say); zernel calls again with back-off, and
 *		until then nothing else on that GPU
 * -EBUSY	not now for this TSG; zernel calls again for it with back-off, and
 *		goes on with others
 * -EINVAL	the hardware cannot do this value and keeps its own;
 *		reported, not repeated
 * -ETIMEDOUT	the GPU did not answer in time; reported, not repeated
 * -EIO		the GPU or its driver failed; reported, not repeated
 *
 * After -ETIMEDOUT and -EIO the settings of the driver are unknown, and zernel sets them again. Any
 * other negative errno is treated like -EIO.
 */
struct zernel_provider_ops {
	u32 size;
	u32 abi;
	struct module *owner;
	const char *name;
	int (*replay)(void *priv, struct zernel_provider *provider);
	int (*set_timeslice)(void *priv, u64 gpu, u64 tsg, u32 us);
	int (*get_timeslice)(void *priv, u64 gpu, u64 tsg, u32 *us);
	int (*set_interleave)(void *priv, u64 gpu, u64 tsg, u32 level);
	int (*get_interleave)(void *priv, u64 gpu, u64 tsg, u32 *level);
	int (*preempt)(void *priv, u64 gpu, u64 tsg, u32 timeout_us);
	int (*set_enabled)(void *priv, u64 gpu, u64 tsg, bool enabled);
	int (*query_load)(void *priv, u64 gpu, struct zernel_gpu_load *load);
	int (*query_tsg)(void *priv, u64 gpu, u64 tsg, struct zernel_tsg_load *load);
	int (*kick)(void *priv, u64 gpu, u64 tsg);
	int (*query_tsgs)(void *priv, u64 gpu, const u64 *tsgs, u32 count,
			  void (*tell)(void *to, u32 at, int error,
				       const struct zernel_tsg_load *load),
			  void *to);
};

/* Flags of struct zernel_gpu_desc. */
#define ZERNEL_GPU_DESC_CONTROL		(1U << 0)	/* zernel_tsg_user_control() is asked */
#define ZERNEL_GPU_DESC_WAITS		(1U << 1)	/* zernel_gpu_wait_begin() is called */
#define ZERNEL_GPU_DESC_CONTEXT		(1U << 2)	/* query_tsg tells context_bytes */
#define ZERNEL_GPU_DESC_NUMA_NODE	(1U << 3)	/* @numa_node is known */
#define ZERNEL_GPU_DESC_POLLED		(1U << 4)	/* nobody calls zernel_tsg_activity(): query_tsg is asked */

/**
 * struct zernel_gpu_desc - a GPU, as its provider describes it
 * @size: sizeof(struct zernel_gpu_desc)
 * @min_timeslice_us: shortest time slice the hardware takes; 0: no bound
 * @max_timeslice_us: longest one; 0: no bound
 * @flags: ZERNEL_GPU_DESC_*
 * @handle: the provider's handle, its own choice but unique per provider
 * @name: product, for people; cut after 63 bytes
 * @bus: bus address or instance; cut after 31 bytes
 * @numa_node: node of the host that it is attached to
 * @reserved: zero
 * @uuid: 16 bytes, the most significant one first; NULL: not known
 * @driver: version of the driver, and its mode if it has several; cut after 31 bytes.
 *          NULL: not known
 *
 * All of it is copied.
 */
struct zernel_gpu_desc {
	u32 size;
	u32 min_timeslice_us;
	u32 max_timeslice_us;
	u32 flags;
	u64 handle;
	const char *name;
	const char *bus;
	int numa_node;
	u32 reserved;
	const unsigned char *uuid;
	const char *driver;
};

/**
 * struct zernel_tsg_desc - a TSG, as its provider describes it
 * @size: sizeof(struct zernel_tsg_desc)
 * @flags: ZERNEL_TSG_DESC_*
 * @handle: the provider's handle; unique per GPU and never used again
 * @hw_tsg: number in the hardware or driver, for people
 * @engine: engine type as the driver numbers it
 * @runlist: number of its run list
 * @channels: number of channels now
 * @process: owner, PIDTYPE_TGID; zernel takes its own reference
 * @thread: thread that made it, PIDTYPE_PID; zernel takes its own reference
 */
struct zernel_tsg_desc {
	u32 size;
	u32 flags;
	u64 handle;
	u32 hw_tsg;
	u32 engine;
	u32 runlist;
	u32 channels;
	struct pid *process;
	struct pid *thread;
};

/**
 * zernel_provider_register() - make a provider known
 * @ops: operations; must stay valid until zernel_provider_unregister()
 * @priv: handed to every operation
 *
 * Calls @ops->replay before it returns; GPUs and TSGs may be reported from
 * other threads as soon as replay runs, with the pointer that replay gets.
 *
 * Return: the provider, or an ERR_PTR: -EINVAL @ops lacks something or its
 * size, name or time slice operations are missing, -EPROTO another @abi,
 * -ENOMEM, or the error of @ops->replay (all its reports are then undone).
 */
struct zernel_provider *zernel_provider_register(const struct zernel_provider_ops *ops,
						 void *priv);

/**
 * zernel_provider_unregister() - forget a provider
 * @provider: from zernel_provider_register()
 *
 * Gives every TSG back the settings it had, then forgets all GPUs and TSGs of
 * the provider, and returns when no call into it is under way or will come.
 * The caller must hold no lock that its operations take, and must report
 * nothing more.
 */
void zernel_provider_unregister(struct zernel_provider *provider);

/**
 * zernel_gpu_added() - report a GPU
 * @provider: from zernel_provider_register() or replay
 * @desc: the GPU
 *
 * Return: 0, -EINVAL malformed @desc or min above max, -EEXIST the handle is
 * in use, -ENOSPC 64 GPUs are there, -ENOMEM.
 */
int zernel_gpu_added(struct zernel_provider *provider, const struct zernel_gpu_desc *desc);

/**
 * zernel_gpu_removed() - report that a GPU is gone, with all its TSGs
 * @provider: from zernel_provider_register() or replay
 * @gpu: the provider's handle of the GPU
 *
 * Nothing is restored: the hardware is taken as gone. Returns when no call for
 * this GPU is under way or will come, so the caller must hold no lock that its
 * operations take. An unknown handle is ignored.
 */
void zernel_gpu_removed(struct zernel_provider *provider, u64 gpu);

/**
 * zernel_tsg_added() - report a TSG
 * @provider: from zernel_provider_register() or replay
 * @gpu: the provider's handle of the GPU
 * @desc: the TSG
 *
 * Return: 0, -EINVAL malformed @desc, -ESRCH the owner was reaped, -ENODEV no
 * such GPU, -EEXIST the handle is in use, -ENOSPC 4,096 TSGs are on the GPU
 * or 1,024 of the same owner, unless that is root, -ENOMEM. After an error the
 * TSG is simply not managed: the driver goes on.
 */
int zernel_tsg_added(struct zernel_provider *provider, u64 gpu,
		     const struct zernel_tsg_desc *desc);

/**
 * zernel_tsg_removed() - report that a TSG is gone
 * @provider: from zernel_provider_register() or replay
 * @gpu: the provider's handle of the GPU
 * @tsg: the provider's handle of the TSG
 *
 * Does not wait for a call that is under way, see above. An unknown handle is
 * ignored.
 */
void zernel_tsg_removed(struct zernel_provider *provider, u64 gpu, u64 tsg);

/**
 * zernel_tsg_ended() - report that a TSG is gone, with its last load
 * @provider: from zernel_provider_register() or replay
 * @gpu: the provider's handle of the GPU
 * @tsg: the provider's handle of the TSG
 * @load: the answer that query_tsg would have given at its end
 *
 * As zernel_tsg_removed(). Without it, the work of the TSG since the last query is in no
 * counter of its level, and is not charged to a budget.
 */
void zernel_tsg_ended(struct zernel_provider *provider, u64 gpu, u64 tsg,
		      const struct zernel_tsg_load *load);

/**
 * zernel_tsg_changed() - report a new description of a TSG
 * @provider: from zernel_provider_register() or replay
 * @gpu: the provider's handle of the GPU
 * @desc: the TSG; @process and @thread are not read
 *
 * Takes over flags, hw_tsg, engine, runlist and channels. Where that changes the class in force,
 * the worker sets the new settings, or restores the old ones.
 *
 * Return: 0, -EINVAL malformed @desc, -ENOENT no such TSG.
 */
int zernel_tsg_changed(struct zernel_provider *provider, u64 gpu,
		       const struct zernel_tsg_desc *desc);

/**
 * zernel_tsg_user_control() - ask if a process may change its own TSG
 * @provider: from zernel_provider_register() or replay
 * @gpu: the provider's handle of the GPU
 * @tsg: the provider's handle of the TSG
 * @what: ZERNEL_USER_TIMESLICE, _INTERLEAVE, _SCHEDULE or _START
 *
 * An owner may change a TSG that zernel does not know, or has no settings in force
 * on. The tunable user_control decides about the others. Where zernel_tsg_added() has
 * answered -ENOSPC or -ENOMEM for the GPU, changes of unknown TSGs are denied unless
 * user_control is "allow". Changes that are denied or re-applied are counted and
 * traced.
 *
 * ZERNEL_USER_START is never denied, and counted where zernel keeps the TSG off the GPU.
 * With ZERNEL_USER_SCHEDULE, "allow" is as "reapply" for a TSG that takes turns or is kept
 * off the GPU.
 *
 * A class may come between the answer and the driver's act. So ZERNEL_USER_REAPPLY
 * is also the answer, uncounted, for an unclassed TSG: what follows then does nothing
 * unless a class has come. ZERNEL_USER_ALLOW is for unknown TSGs and for the tunable's
 * value "allow".
 *
 * After the driver's act, with any answer but ZERNEL_USER_DENY and any result, comes
 * zernel_tsg_refresh(); for _SCHEDULE and _START zernel_tsg_rescheduled().
 *
 * Asked in the context of the process, before the driver acts; takes the time of
 * a few look-ups.
 *
 * Return: ZERNEL_USER_ALLOW, ZERNEL_USER_DENY or ZERNEL_USER_REAPPLY.
 */
u32 zernel_tsg_user_control(struct zernel_provider *provider, u64 gpu, u64 tsg, u32 what);

/**
 * zernel_tsg_refresh() - report that the settings of a TSG are unknown
 * @provider: from zernel_provider_register() or replay
 * @gpu: the provider's handle of the GPU
 * @tsg: the provider's handle of the TSG
 *
 * The worker sets the settings of zernel again; the ones to restore later stay the same. An
 * unclassed TSG is left alone, and so is every TSG while the tunable user_control is "allow": a
 * provider calls this after each change by an owner, after any answer and result. An unknown handle
 * is ignored.
 */
void zernel_tsg_refresh(struct zernel_provider *provider, u64 gpu, u64 tsg);

/**
 * zernel_tsg_rescheduled() - report that somebody may have enabled or disabled a TSG
 * @provider: from zernel_provider_register() or replay
 * @gpu: the provider's handle of the GPU
 * @tsg: the provider's handle of the TSG
 *
 * The worker calls set_enabled() for a TSG that takes turns or is kept off the GPU, under any
 * user_control. All others are left alone, as are all settings. An unknown handle is ignored.
 *
 * Asked often for such a TSG between two of its turns, it waits, up to 16 ms or until the thread is
 * killed: it is called in the context of the process that made the change, after that.
 */
void zernel_tsg_rescheduled(struct zernel_provider *provider, u64 gpu, u64 tsg);

/**
 * zernel_gpu_refresh() - report that the settings of all TSGs are unknown
 * @provider: from zernel_provider_register() or replay
 * @gpu: the provider's handle of the GPU
 *
 * As zernel_tsg_refresh() for each of them, under any user_control. For a GPU that comes back from
 * suspend or reset: also ends the waiting after -EAGAIN at once. An unknown handle is ignored.
 */
void zernel_gpu_refresh(struct zernel_provider *provider, u64 gpu);

/**
 * zernel_gpu_suspended() - a GPU is suspended
 * @provider: from zernel_provider_register() or replay
 * @gpu: the provider's handle of the GPU
 *
 * Ends the requests that hold the GPU or are about to, and lets none begin until
 * zernel_gpu_refresh(), or until an operation succeeds. An unknown handle is ignored.
 */
void zernel_gpu_suspended(struct zernel_provider *provider, u64 gpu);

/**
 * zernel_tsg_activity() - a TSG has got something to run, or has run out of it
 * @provider: from zernel_provider_register() or replay
 * @gpu: the provider's handle of the GPU
 * @tsg: the provider's handle of the TSG
 *
 * Has the worker of the GPU look at the TSG, by query_tsg, a few TSGs at a time however many
 * are reported. A TSG that was reported and has not been looked at yet needs no second
 * report. May be called in any context, also with interrupts off; but not once
 * zernel_provider_unregister() was called. An unknown handle is ignored.
 */
void zernel_tsg_activity(struct zernel_provider *provider, u64 gpu, u64 tsg);

/**
 * zernel_gpu_activity() - some TSG of a GPU has got something to run, or has run out of it
 * @provider: from zernel_provider_register() or replay
 * @gpu: the provider's handle of the GPU
 *
 * As zernel_tsg_activity(), for a driver that cannot tell which one: each call has all TSGs
 * with turns or budgets looked at, a few at a time. With many TSGs the news come late.
 */
void zernel_gpu_activity(struct zernel_provider *provider, u64 gpu);

/**
 * zernel_tsg_started() - a TSG has got its engine
 * @provider: from zernel_provider_register() or replay
 * @gpu: the provider's handle of the GPU
 * @start: the TSG, the time, and the durations
 *
 * For a provider that knows: the only origin of the histograms of preemption latency and
 * of context switches. If it comes within 50 us of the start, the cost of a switch is learned
 * from its time, too. In any context, as zernel_tsg_activity(). Only compute engines count. A
 * malformed or unknown report is ignored.
 */
void zernel_tsg_started(struct zernel_provider *provider, u64 gpu,
			const struct zernel_tsg_start *start);

/**
 * zernel_gpu_wait_begin() - the current thread begins to wait for the GPU
 *
 * For a system call of a provider that waits until work on the GPU is done, asleep or
 * spinning. Counts if the thread is tracked; others pay a look at a list that is empty.
 * Waits nest, and the outermost counts.
 * May sleep: not under a spinlock, nor with preemption or interrupts off. Needs no
 * registration.
 *
 * Each is followed by zernel_gpu_wait_end() in the same thread, before that returns to
 * user space.
 */
void zernel_gpu_wait_begin(void);

/**
 * zernel_gpu_wait_end() - the current thread is done waiting for the GPU
 *
 * With any outcome of the work, also if a signal has ended the wait. Context: as
 * zernel_gpu_wait_begin(). A wait from before the thread was tracked is ignored.
 */
void zernel_gpu_wait_end(void);

#endif /* _LINUX_ZERNEL_PROVIDER_H */
