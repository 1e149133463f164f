/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * zernel user ABI: requests that tell ahead when they need the GPU. A part of
 * <linux/zernel_v0.h>, whose conventions and errors apply.
 */
#ifndef _UAPI_LINUX_ZERNEL_V0_REQUEST_H
#define _UAPI_LINUX_ZERNEL_V0_REQUEST_H

#include <linux/types.h>

/* Slots of a page, and the pages of one user. */
#define ZERNEL_V0_PAGE_SLOTS		64
#define ZERNEL_V0_MAX_PAGES_PER_USER	256

/* Predictors of the preparation time of a request. */
#define ZERNEL_V0_PREDICT_DEFAULT		0	/* as the tunable predictor says */
#define ZERNEL_V0_PREDICT_FIXED		1	/* expected_ns, always */
#define ZERNEL_V0_PREDICT_EMA		2	/* exponential moving average */
#define ZERNEL_V0_PREDICT_HOLT		3	/* level and trend */
#define ZERNEL_V0_PREDICT_QUANTILE		4	/* critical fractile of the distribution */

/* Flags of struct zernel_v0_begin. */
#define ZERNEL_V0_BEGIN_MARGIN		(1U << 0)	/* the classic adaptive margin besides */
#define ZERNEL_V0_BEGIN_NO_HOLDER		(1U << 1)	/* nothing waits for the trigger word */

/**
 * struct zernel_v0_slot - what a process and zernel tell each other about requests
 * @trigger: number of the last request whose time has come; what the TSG's
 *           stream waits for before the holder (cyclic, "at least")
 * @release: number of the last request that is to be held no longer; what the
 *           holder waits for
 * @done: number of the last request that is done
 * @held: number of the last request whose holder has run, stored by the holder
 * @ready_ns: CLOCK_MONOTONIC time at which the process stored @release
 * @done_ns: CLOCK_MONOTONIC time at which the process stored @done
 * @prefetch: counts the signals to load the next batch, and wraps; what a stream or a
 *            spinning thread waits for. See ZERNEL_V0_IOC_PREFETCH_SUBSCRIBE
 * @pad: not looked at
 * @reserved: not looked at
 *
 * A page holds ZERNEL_V0_PAGE_SLOTS of them. Numbers count the requests of a slot;
 * they wrap and are never 0; x has reached n if (__s32)(x - n) >= 0.
 *
 * The stream of a request n, on the GPU: wait until @trigger has reached n; a
 * holder, which stores n to @held, and ends when @release has reached n or its own
 * bound is over; the kernels of the request.
 *
 * The process, when its data is ready, without a system call: store @ready_ns,
 * then n to @release (release order), then n to @trigger unless it has reached n
 * already. When the request is done: @done_ns, then n to @done; or the next
 * ZERNEL_V0_IOC_BEGIN of the slot, which says the same of a request that was ready.
 *
 * zernel stores @trigger, @release and @prefetch only, and believes nothing that is stored
 * here beyond what the process may decide: times are taken as lying between
 * ZERNEL_V0_IOC_BEGIN and now, other numbers than n are ignored.
 */
struct zernel_v0_slot {
	__u32 trigger;
	__u32 release;
	__u32 done;
	__u32 held;
	__u64 ready_ns;
	__u64 done_ns;
	__u32 prefetch;
	__u32 pad;
	__u64 reserved[3];
};

/**
 * struct zernel_v0_page - a page of slots
 * @address: register: in: of the page in the caller's memory, a multiple of the
 *           page size; unregister: zero
 * @page: register: out: number of the page in this file; unregister: in
 * @flags: must be zero
 *
 * Registers memory of the caller, writable and resident until it is unregistered
 * or the file is closed, whatever becomes of the mapping. It counts against
 * RLIMIT_MEMLOCK of the caller (CAP_IPC_LOCK: no bound). Its contents are left as
 * they are. A page that is unregistered ends the requests in it, as
 * ZERNEL_V0_IOC_CANCEL does.
 *
 * Errors: EINVAL also when the address is not a multiple of the page size; EFAULT
 * also when there is no writable memory; EDQUOT the user has
 * ZERNEL_V0_MAX_PAGES_PER_USER pages (CAP_SYS_RESOURCE: no bound); ENOMEM also when
 * RLIMIT_MEMLOCK is reached; ENOENT unregister: no such page.
 */
struct zernel_v0_page {
	__u64 address;
	__u32 page;
	__u32 flags;
};

/**
 * struct zernel_v0_begin - a request begins to prepare its data
 * @tsg: in: id of the TSG that will run it
 * @key: in: what its preparation time depends on (model, batch size, ...), the
 *       caller's choice; each user has keys of his own
 * @expected_ns: in: how long preparation is expected to take, 0: not known.
 *               Used by ZERNEL_V0_PREDICT_FIXED (0: 200 us, the constant of GPreempt), and
 *               by all while @key has no history
 * @slo_ns: in: from now to done; longer counts as a violation; 0: none
 * @page: in: number of the page
 * @slot: in: slot in the page, below ZERNEL_V0_PAGE_SLOTS
 * @flags: in: ZERNEL_BEGIN_*
 * @predictor: in: ZERNEL_PREDICT_*
 * @request: out: number of the request, never 0; must be zero
 * @reserved: must be zero
 * @predicted_ns: out: time from now at which the GPU is to be free, 0: no prediction
 * @trigger_ns: out: CLOCK_MONOTONIC time of the trigger
 *
 * zernel stores @request to the slot's trigger word at @trigger_ns, so that the GPU
 * has switched to the TSG when the data is ready. Without a prediction that is at
 * once. The request is a lease: if ready does not follow within the tunable lease_us
 * after the trigger, zernel stores the release word too and the request is over
 * (expired). The request that the slot had before is over: done if it was ready,
 * else cancelled. A slot has one request at a time, a TSG any number.
 *
 * With ZERNEL_V0_BEGIN_NO_HOLDER the stream has no holder. From the trigger to ready,
 * or to the end of the lease, zernel keeps every TSG off the GPU that is less urgent,
 * which takes longer and is begun earlier by as much; ready is ZERNEL_V0_IOC_READY then:
 * a store is not seen before the lease ends.
 *
 * Errors: ENOENT no such page, no such slot or no such TSG, or not one that the
 * caller may see; EPERM the TSG is another user's and the caller has no CAP_SYS_NICE;
 * with ZERNEL_V0_BEGIN_NO_HOLDER also EPERM the TSG's class is not above
 * ZERNEL_V0_LEVEL_DEFAULT, EOPNOTSUPP the provider cannot keep TSGs off the GPU; EAGAIN the
 * GPU is suspended; EFAULT. None has begun then. The request before goes on, unless the
 * TSG or the memory went away during the call.
 */
struct zernel_v0_begin {
	__u64 tsg;
	__u64 key;
	__u64 expected_ns;
	__u64 slo_ns;
	__u32 page;
	__u32 slot;
	__u32 flags;
	__u32 predictor;
	__u32 request;
	__u32 reserved;
	__u64 predicted_ns;
	__u64 trigger_ns;
};

/**
 * struct zernel_v0_request - names a request
 * @page: number of the page
 * @slot: slot in the page
 * @request: number of the request
 * @flags: must be zero
 *
 * ZERNEL_V0_IOC_READY: the data is ready. Stores the release word, and the trigger
 * word if it is not stored yet.
 * ZERNEL_V0_IOC_DONE: the request is done. One that was not ready counts as ready now.
 * ZERNEL_V0_IOC_CANCEL: the request is given up; both words are stored.
 *
 * Errors: ENOENT no such page or slot; ESTALE the request is over, or was never
 * begun.
 */
struct zernel_v0_request {
	__u32 page;
	__u32 slot;
	__u32 request;
	__u32 flags;
};

/**
 * struct zernel_v0_request_stats - what became of requests
 * @tsg: in: id of a TSG, or 0
 * @level: in: with @tsg 0: a level, or ZERNEL_V0_LEVEL_NONE for all together; else zero
 * @nr_buckets: in: room in @buckets; out: buckets written
 * @buckets: in: user address of an array of __u64 for the histogram of latencies,
 *           or 0
 * @requests: begun
 * @done: done
 * @cancelled: cancelled by the caller, or by the next begin before they were ready
 * @expired: leases that ended before ready
 * @closed: ended by the end of their page, file or process, or of the module
 * @gone: ended by the end of their TSG
 * @suspended: ended by the suspend of the GPU
 * @triggers: triggers stored by zernel
 * @early: data was ready after the GPU was
 * @early_ns: ... by so much in all: the GPU was idle
 * @late: data was ready before the GPU was
 * @late_ns: ... by so much in all: added to latency
 * @slo_violations: requests that took longer than slo_ns
 * @latency_ns: from begin to done, of all that are done, in all
 * @min_ns: shortest of them
 * @max_ns: longest of them
 * @p50_ns: median of them, from the histogram: exact to 1.6 %
 * @p99_ns: 99th percentile of them, likewise
 * @p999_ns: 99.9th percentile of them, likewise
 * @switch_ns: what zernel has learned that a switch to the TSG takes on its GPU; 0
 *             with @tsg 0
 * @in_flight: begun and not over
 * @preempted: TSGs that were taken off the GPU for requests without holder; 0 for a
 *             TSG, as the next four
 * @preempt_timeouts: ... though the GPU had not answered in time
 * @preempt_no_memory: TSGs that were not, for want of memory
 * @preempt_unresponsive: ... because the GPU does not respond
 * @preempt_invalid: ... because of the state that the GPU was in
 * @throttles: times that the budget of the level was spent on a GPU; 0 for a TSG
 * @lost_ns: what best-effort work lost beyond the kernels of the requests: from each
 *           trigger until the switch was over and the data ready
 *
 * requests = done + cancelled + expired + closed + gone + suspended + in_flight.
 * A request counts under the level that was in force when it began;
 * ZERNEL_V0_LEVEL_NONE counts those of unclassed TSGs too. Each of the first 64
 * buckets of the histogram is 32 ns wide; from there on the width doubles every 32
 * buckets. What is longer than 17 s is in the last of its 800 buckets.
 *
 * Errors: ENOENT no such TSG, or not one that the caller may see; EPERM @tsg is 0
 * and the caller has no CAP_PERFMON.
 */
struct zernel_v0_request_stats {
	__u64 tsg;
	__u32 level;
	__u32 nr_buckets;
	__u64 buckets;
	__u64 requests;
	__u64 done;
	__u64 cancelled;
	__u64 expired;
	__u64 closed;
	__u64 gone;
	__u64 suspended;
	__u64 triggers;
	__u64 early;
	__u64 early_ns;
	__u64 late;
	__u64 late_ns;
	__u64 slo_violations;
	__u64 latency_ns;
	__u64 min_ns;
	__u64 max_ns;
	__u64 p50_ns;
	__u64 p99_ns;
	__u64 p999_ns;
	__u64 switch_ns;
	__u64 in_flight;
	__u64 preempted;
	__u64 preempt_timeouts;
	__u64 preempt_no_memory;
	__u64 preempt_unresponsive;
	__u64 preempt_invalid;
	__u64 throttles;
	__u64 lost_ns;
};

#endif /* _UAPI_LINUX_ZERNEL_V0_REQUEST_H */
