/* SPDX-License-Identifier: GPL-2.0 */
/* Tracepoints of zernel.ko: one per decision. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM zernel
#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE zernel_trace

#if !defined(_ZERNEL_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _ZERNEL_TRACE_H

#include <linux/tracepoint.h>

#define zernel_show_target(target)			\
	__print_symbolic(target,			\
			 { 0, "none" },			\
			 { 1, "default" },		\
			 { 2, "cgroup" },		\
			 { 3, "process" },		\
			 { 4, "thread" },		\
			 { 5, "tsg" })

/* ZERNEL_USER_* of zernel_provider.h */
#define zernel_show_control(what)			\
	__print_symbolic(what,				\
			 { 1, "timeslice" },		\
			 { 2, "interleave" },		\
			 { 3, "schedule" },		\
			 { 4, "start" })

#define zernel_show_answer(answer)			\
	__print_symbolic(answer,			\
			 { 0, "allow" },		\
			 { 1, "deny" },			\
			 { 2, "reapply" })

/* Causes of the end of a request: Cause of rust/policy/request/record.rs */
#define zernel_show_cause(cause)			\
	__print_symbolic(cause,				\
			 { 0, "done" },			\
			 { 1, "cancelled" },		\
			 { 2, "superseded" },		\
			 { 3, "expired" },		\
			 { 4, "closed" },		\
			 { 5, "tsg_gone" },		\
			 { 6, "suspended" })

DECLARE_EVENT_CLASS(zernel_gpu,
	TP_PROTO(u64 gpu),
	TP_ARGS(gpu),
	TP_STRUCT__entry(__field(u64, gpu)),
	TP_fast_assign(__entry->gpu = gpu;),
	TP_printk("gpu=%llu", __entry->gpu)
);

DEFINE_EVENT(zernel_gpu, gpu_added, TP_PROTO(u64 gpu), TP_ARGS(gpu));
DEFINE_EVENT(zernel_gpu, gpu_removed, TP_PROTO(u64 gpu), TP_ARGS(gpu));

DECLARE_EVENT_CLASS(zernel_tsg,
	TP_PROTO(u64 gpu, u64 tsg, int pid),
	TP_ARGS(gpu, tsg, pid),
	TP_STRUCT__entry(
		__field(u64, gpu)
		__field(u64, tsg)
		__field(int, pid)
	),
	TP_fast_assign(
		__entry->gpu = gpu;
		__entry->tsg = tsg;
		__entry->pid = pid;
	),
	TP_printk("gpu=%llu tsg=%llu pid=%d", __entry->gpu, __entry->tsg, __entry->pid)
);

DEFINE_EVENT(zernel_tsg, tsg_added,
	TP_PROTO(u64 gpu, u64 tsg, int pid), TP_ARGS(gpu, tsg, pid));
DEFINE_EVENT(zernel_tsg, tsg_removed,
	TP_PROTO(u64 gpu, u64 tsg, int pid), TP_ARGS(gpu, tsg, pid));

DEFINE_EVENT(zernel_tsg, tsg_changed,
	TP_PROTO(u64 gpu, u64 tsg, int pid), TP_ARGS(gpu, tsg, pid));

/* A process asked its driver to change its own TSG while zernel has settings in force on it. */
TRACE_EVENT(tsg_user_control,
	TP_PROTO(u64 gpu, u64 tsg, int pid, u32 what, u32 answer),
	TP_ARGS(gpu, tsg, pid, what, answer),
	TP_STRUCT__entry(
		__field(u64, gpu)
		__field(u64, tsg)
		__field(int, pid)
		__field(u32, what)
		__field(u32, answer)
	),
	TP_fast_assign(
		__entry->gpu = gpu;
		__entry->tsg = tsg;
		__entry->pid = pid;
		__entry->what = what;
		__entry->answer = answer;
	),
	TP_printk("gpu=%llu tsg=%llu pid=%d what=%s answer=%s", __entry->gpu, __entry->tsg,
		  __entry->pid, zernel_show_control(__entry->what),
		  zernel_show_answer(__entry->answer))
);

/* A call that sets or clears a class, granted or not: level is -1 for a clear. */
DECLARE_EVENT_CLASS(zernel_request,
	TP_PROTO(u32 target, u64 id, int level, int error),
	TP_ARGS(target, id, level, error),
	TP_STRUCT__entry(
		__field(u32, target)
		__field(u64, id)
		__field(int, level)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->target = target;
		__entry->id = id;
		__entry->level = level;
		__entry->error = error;
	),
	TP_printk("target=%s id=%llu level=%d error=%d", zernel_show_target(__entry->target),
		  __entry->id, __entry->level, __entry->error)
);

DEFINE_EVENT(zernel_request, class_set,
	TP_PROTO(u32 target, u64 id, int level, int error), TP_ARGS(target, id, level, error));
DEFINE_EVENT(zernel_request, class_cleared,
	TP_PROTO(u32 target, u64 id, int level, int error), TP_ARGS(target, id, level, error));
DEFINE_EVENT(zernel_request, class_expired,
	TP_PROTO(u32 target, u64 id, int level, int error), TP_ARGS(target, id, level, error));

/* Another level, or source of it, is in force for a TSG: level is -1 when it is not classed. */
TRACE_EVENT(class_changed,
	TP_PROTO(u64 tsg, int level, u32 source),
	TP_ARGS(tsg, level, source),
	TP_STRUCT__entry(
		__field(u64, tsg)
		__field(int, level)
		__field(u32, source)
	),
	TP_fast_assign(
		__entry->tsg = tsg;
		__entry->level = level;
		__entry->source = source;
	),
	TP_printk("tsg=%llu level=%d source=%s", __entry->tsg, __entry->level,
		  zernel_show_target(__entry->source))
);

/* The answer of a provider to the settings of a TSG. */
DECLARE_EVENT_CLASS(zernel_slice,
	TP_PROTO(u64 gpu, u64 tsg, u32 timeslice_us, int error),
	TP_ARGS(gpu, tsg, timeslice_us, error),
	TP_STRUCT__entry(
		__field(u64, gpu)
		__field(u64, tsg)
		__field(u32, timeslice_us)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->gpu = gpu;
		__entry->tsg = tsg;
		__entry->timeslice_us = timeslice_us;
		__entry->error = error;
	),
	TP_printk("gpu=%llu tsg=%llu timeslice_us=%u error=%d", __entry->gpu, __entry->tsg,
		  __entry->timeslice_us, __entry->error)
);

DEFINE_EVENT(zernel_slice, slice_applied,
	TP_PROTO(u64 gpu, u64 tsg, u32 timeslice_us, int error),
	TP_ARGS(gpu, tsg, timeslice_us, error));
DEFINE_EVENT(zernel_slice, slice_retried,
	TP_PROTO(u64 gpu, u64 tsg, u32 timeslice_us, int error),
	TP_ARGS(gpu, tsg, timeslice_us, error));
DEFINE_EVENT(zernel_slice, slice_failed,
	TP_PROTO(u64 gpu, u64 tsg, u32 timeslice_us, int error),
	TP_ARGS(gpu, tsg, timeslice_us, error));

/* Verdict of rust/policy/preempt.rs */
#define zernel_show_verdict(verdict)			\
	__print_symbolic(verdict,			\
			 { 0, "done" },			\
			 { 1, "timed_out" },		\
			 { 2, "out_of_memory" },	\
			 { 3, "not_responding" },	\
			 { 4, "invalid_state" },	\
			 { 5, "refused" })

/* The outcome of an attempt to take a TSG off the GPU, for a request without a holder. */
TRACE_EVENT(tsg_preempted,
	TP_PROTO(u64 gpu, u64 tsg, u32 verdict),
	TP_ARGS(gpu, tsg, verdict),
	TP_STRUCT__entry(
		__field(u64, gpu)
		__field(u64, tsg)
		__field(u32, verdict)
	),
	TP_fast_assign(
		__entry->gpu = gpu;
		__entry->tsg = tsg;
		__entry->verdict = verdict;
	),
	TP_printk("gpu=%llu tsg=%llu verdict=%s", __entry->gpu, __entry->tsg,
		  zernel_show_verdict(__entry->verdict))
);

/* The run list of a TSG was to begin anew. */
TRACE_EVENT(tsg_kicked,
	TP_PROTO(u64 gpu, u64 tsg, int error),
	TP_ARGS(gpu, tsg, error),
	TP_STRUCT__entry(
		__field(u64, gpu)
		__field(u64, tsg)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->gpu = gpu;
		__entry->tsg = tsg;
		__entry->error = error;
	),
	TP_printk("gpu=%llu tsg=%llu error=%d", __entry->gpu, __entry->tsg, __entry->error)
);

/* The budget of a level is spent on a GPU, or is back. */
TRACE_EVENT(level_throttled,
	TP_PROTO(u64 gpu, u32 level, bool on),
	TP_ARGS(gpu, level, on),
	TP_STRUCT__entry(
		__field(u64, gpu)
		__field(u32, level)
		__field(bool, on)
	),
	TP_fast_assign(
		__entry->gpu = gpu;
		__entry->level = level;
		__entry->on = on;
	),
	TP_printk("gpu=%llu level=%u on=%d", __entry->gpu, __entry->level, __entry->on)
);

/* A request began: the trigger comes at trigger_at, CLOCK_MONOTONIC. */
TRACE_EVENT(request_begin,
	TP_PROTO(u64 tsg, u32 request, u64 predicted_ns, u64 trigger_at),
	TP_ARGS(tsg, request, predicted_ns, trigger_at),
	TP_STRUCT__entry(
		__field(u64, tsg)
		__field(u64, predicted_ns)
		__field(u64, trigger_at)
		__field(u32, request)
	),
	TP_fast_assign(
		__entry->tsg = tsg;
		__entry->predicted_ns = predicted_ns;
		__entry->trigger_at = trigger_at;
		__entry->request = request;
	),
	TP_printk("tsg=%llu request=%u predicted_ns=%llu trigger_at=%llu", __entry->tsg,
		  __entry->request, __entry->predicted_ns, __entry->trigger_at)
);

/* zernel stored the trigger word. */
TRACE_EVENT(request_trigger,
	TP_PROTO(u64 tsg, u32 request),
	TP_ARGS(tsg, request),
	TP_STRUCT__entry(
		__field(u64, tsg)
		__field(u32, request)
	),
	TP_fast_assign(
		__entry->tsg = tsg;
		__entry->request = request;
	),
	TP_printk("tsg=%llu request=%u", __entry->tsg, __entry->request)
);

/* A request is over; latency_ns is 0 unless it is done. */
TRACE_EVENT(request_end,
	TP_PROTO(u64 tsg, u32 request, u32 cause, u64 latency_ns, u64 early_ns, u64 late_ns),
	TP_ARGS(tsg, request, cause, latency_ns, early_ns, late_ns),
	TP_STRUCT__entry(
		__field(u64, tsg)
		__field(u64, latency_ns)
		__field(u64, early_ns)
		__field(u64, late_ns)
		__field(u32, request)
		__field(u32, cause)
	),
	TP_fast_assign(
		__entry->tsg = tsg;
		__entry->latency_ns = latency_ns;
		__entry->early_ns = early_ns;
		__entry->late_ns = late_ns;
		__entry->request = request;
		__entry->cause = cause;
	),
	TP_printk("tsg=%llu request=%u cause=%s latency_ns=%llu early_ns=%llu late_ns=%llu",
		  __entry->tsg, __entry->request, zernel_show_cause(__entry->cause),
		  __entry->latency_ns, __entry->early_ns, __entry->late_ns)
);

/* ZERNEL_PHASE_* of zernel.h */
#define zernel_show_phase(phase)			\
	__print_symbolic(phase,				\
			 { 0, "unknown" },		\
			 { 1, "data_loading" },		\
			 { 2, "gpu_compute" },		\
			 { 3, "collective" },		\
			 { 4, "optimizer_step" })

/* A thread of a machine-learning program is in another phase, by samples or by a hint. */
TRACE_EVENT(phase_changed,
	TP_PROTO(int pid, int tid, u32 from, u32 to, u64 lasted_ns, bool hinted),
	TP_ARGS(pid, tid, from, to, lasted_ns, hinted),
	TP_STRUCT__entry(
		__field(u64, lasted_ns)
		__field(int, pid)
		__field(int, tid)
		__field(u32, from)
		__field(u32, to)
		__field(bool, hinted)
	),
	TP_fast_assign(
		__entry->lasted_ns = lasted_ns;
		__entry->pid = pid;
		__entry->tid = tid;
		__entry->from = from;
		__entry->to = to;
		__entry->hinted = hinted;
	),
	TP_printk("pid=%d tid=%d from=%s to=%s lasted_ns=%llu hinted=%d", __entry->pid,
		  __entry->tid, zernel_show_phase(__entry->from), zernel_show_phase(__entry->to),
		  __entry->lasted_ns, __entry->hinted)
);

/* It is time to load the next batch: elapsed_ns + lead_ns has reached predicted_ns. */
TRACE_EVENT(prefetch_signal,
	TP_PROTO(int pid, u64 elapsed_ns, u64 predicted_ns, u64 lead_ns),
	TP_ARGS(pid, elapsed_ns, predicted_ns, lead_ns),
	TP_STRUCT__entry(
		__field(u64, elapsed_ns)
		__field(u64, predicted_ns)
		__field(u64, lead_ns)
		__field(int, pid)
	),
	TP_fast_assign(
		__entry->elapsed_ns = elapsed_ns;
		__entry->predicted_ns = predicted_ns;
		__entry->lead_ns = lead_ns;
		__entry->pid = pid;
	),
	TP_printk("pid=%d elapsed_ns=%llu predicted_ns=%llu lead_ns=%llu", __entry->pid,
		  __entry->elapsed_ns, __entry->predicted_ns, __entry->lead_ns)
);

#endif /* _ZERNEL_TRACE_H */

#include <trace/define_trace.h>
