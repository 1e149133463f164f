/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Requests of CUDA programs, for C.
 *
 * A program says that it begins to prepare data (zernel_begin()), that the data is ready
 * (zernel_ready()), and that the result is there (zernel_done()). While it prepares, a small holder
 * kernel takes the GPU for its context, so that its kernels start without waiting for the slice of
 * another program.
 *
 * Requests are advice. Where zernel, its permission, a GPU or a usable driver is missing, the
 * runtime is inert: it says once why, and every call succeeds and does nothing.
 *
 * Calls return 0 or a negative errno. The name and a sentence for the last error of the calling
 * thread are those of zernel_error_name() and zernel_error(). An error changes nothing.
 *
 * Structures begin with their size, as the caller knows them. Of a longer one than the library
 * knows the rest is zero, and stays so; of a shorter one the missing input is zero, and the missing
 * output is not written. One that is shorter than its first version is refused.
 *
 * -EINVAL     ZERNEL_BAD_ARGUMENT  a null pointer, a structure that is too short, an unknown flag
 *                                  mode or release word, a level above 7, a time slice out of
 *                                  range, an inline request of a graph, more than 8 features, or
 *                                  something beyond those that are given
 * -E2BIG      ZERNEL_BAD_SIZE      a structure that is longer than is known, with something in
 *                                  that part
 * -EINVAL     ZERNEL_BAD_LANES, ZERNEL_BAD_BOUND, ZERNEL_BAD_MODE (of the environment)
 * -ESTALE     ZERNEL_REQUEST_OVER  the request is over, or is none
 * -EIDRM      ZERNEL_UNKNOWN_WANT  the want is over, or is none
 * -EBADR      ZERNEL_UNKNOWN_GRAPH the graph is over, or is none
 * -ENOEXEC    ZERNEL_NOT_INSTANTIATED  nobody has told which graph can be launched
 * -EBADE      ZERNEL_FOREIGN_GRAPH the graph that can be launched was made of another one
 * -EBUSY      ZERNEL_NO_LANE       no lane is free for a graph, or its request is not over
 * -EBADF      ZERNEL_NO_CONTEXT    no CUDA context is current
 * -ENOTUNIQ   ZERNEL_AMBIGUOUS_TSG the process has several TSGs on the GPU
 * -EXDEV      ZERNEL_WRONG_TSG     the TSG is none of the process's on the GPU
 * -EREMOTE    ZERNEL_FOREIGN_STREAM  the stream is of another context
 * -EINPROGRESS ZERNEL_CAPTURING    calls on the stream are captured for a graph
 * -EALREADY   ZERNEL_NOT_CAPTURING calls on the stream are not captured for a graph
 * -ECHILD     ZERNEL_FORKED        a child of fork()
 * -EBUSY      ZERNEL_LATE          zernel_begin_admitted(): the deadline is not promised
 * -EOWNERDEAD ZERNEL_CONTEXT_LOST  the context is lost
 * -EIO        ZERNEL_CUDA_FAILED   a call of CUDA failed
 * -EPROTO     ZERNEL_INTERNAL      a fault of the library itself
 * other       ZERNEL_CALL_FAILED   a call of /dev/zernel failed, with its errno
 *
 * With ZERNEL_MODE_REQUIRE also, from zernel_attach():
 *
 * -ENOENT     ZERNEL_NO_MODULE, ZERNEL_NO_TSG
 * -EACCES     ZERNEL_READ_ONLY     /dev/zernel is open for reading alone
 * -ELIBACC    ZERNEL_NO_CUDA       libcuda.so.1 is missing, too old or lacks a function
 * -ENODEV     ZERNEL_NO_GPU        zernel knows no such GPU
 * -ENOPKG     ZERNEL_NO_GPU_WORD   ZERNEL_WORD_GPU, and GDRCopy is missing or refuses it
 */
#ifndef ZERNEL_RUNTIME_H
#define ZERNEL_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 2: zernel_graph_*(); 3: features in struct zernel_spec; 4: zernel_begin_admitted() */
#define ZERNEL_RUNTIME_VERSION	4

/* The runtime of a context. Threads share it. */
struct zernel_runtime;

/* The answer to a machine without requests. */
enum zernel_mode {
	ZERNEL_MODE_ENVIRONMENT = 0,	/* as the variable ZERNEL says: auto, off or require */
	ZERNEL_MODE_AUTO = 1,		/* inert, with one line on the standard error */
	ZERNEL_MODE_OFF = 2,		/* inert anyway */
	ZERNEL_MODE_REQUIRE = 3,	/* an error */
};

/* The memory of the words that holders wait for. */
enum zernel_word {
	ZERNEL_WORD_AUTO = 0,	/* the faster one, as far as it was measured: that of the host */
	ZERNEL_WORD_HOST = 1,	/* pinned memory of the host */
	ZERNEL_WORD_GPU = 2,	/* memory of the GPU, by GDRCopy; bounds are the lease at most */
};

/**
 * struct zernel_options - options of a runtime; 0 is the usual of each
 * @size: sizeof(struct zernel_options)
 * @mode: enum zernel_mode
 * @lanes: requests that can be under way at once, 1 to 64; usually 4
 * @release_word: enum zernel_word
 * @bound_ns: longest time that a holder keeps the GPU if nobody ends it, 1 us to 10 s; usually
 *            1.5 times the lease
 * @linger_ns: time for which a holder stays for the next request of its lane, up to 10 s; usually 0
 * @tsg: zernel's id of the TSG of the context, where a process has several
 */
struct zernel_options {
	uint32_t size;
	uint32_t mode;
	uint32_t lanes;
	uint32_t release_word;
	uint64_t bound_ns;
	uint64_t linger_ns;
	uint64_t tsg;
};

#define ZERNEL_SPEC_EXACT	(1u << 0)	/* @expected_ns is exact: history is not asked */
#define ZERNEL_SPEC_INLINE	(1u << 1)	/* wait and holder go into @stream */

#define ZERNEL_SPEC_FEATURES	8	/* most features of a request */

/**
 * struct zernel_spec - a kind of requests
 * @size: sizeof(struct zernel_spec)
 * @flags: ZERNEL_SPEC_*
 * @key: stands for the causes of the preparation time, such as model and batch size
 * @expected_ns: expected preparation time, used while the key has no history; 0: not known
 * @slo_ns: longest time from begin to done that is no violation; 0: any
 * @stream: with ZERNEL_SPEC_INLINE, a CUstream or cudaStream_t of the context; else NULL
 * @features: features that are given, up to ZERNEL_SPEC_FEATURES. They count while zernel's tunable
 *            predictor is "features"; a module that is older than features refuses the request
 * @reserved: zero
 * @feature: the numbers that the preparation time depends on, such as bytes or a batch size. The unit
 *           is the caller's; each number has its place for a key. Those beyond @features are zero
 *
 * The first version, of 40 bytes, ends before @features.
 */
struct zernel_spec {
	uint32_t size;
	uint32_t flags;
	uint64_t key;
	uint64_t expected_ns;
	uint64_t slo_ns;
	void *stream;
	uint32_t features;
	uint32_t reserved;
	int64_t feature[ZERNEL_SPEC_FEATURES];
};

/**
 * struct zernel_counters - counters of a runtime; each request is in one of the first five
 * @size: in: sizeof(struct zernel_counters)
 * @reserved: 0
 * @begun: requests that zernel took
 * @no_lane: requests without one, as all lanes were in use
 * @refused: requests that zernel refused
 * @lost: requests after the context was lost
 * @forked: requests in a child of fork()
 * @failed_calls: calls of CUDA that failed
 */
struct zernel_counters {
	uint32_t size;
	uint32_t reserved;
	uint64_t begun;
	uint64_t no_lane;
	uint64_t refused;
	uint64_t lost;
	uint64_t forked;
	uint64_t failed_calls;
};

/**
 * struct zernel_stats - the requests of the TSG as zernel counts them
 * @size: in: sizeof(struct zernel_stats)
 * @reserved: 0
 * @begun: begun; the sum of the next five
 * @done: done
 * @cancelled: given up, or replaced before they were ready
 * @expired: over because their lease was, before the data was ready
 * @ended: over in another way: with their process, TSG or GPU
 * @in_flight: begun and not over
 * @triggers: times that the GPU was switched for one
 * @early: those whose data was ready after the GPU was
 * @late: those whose data was ready before the GPU was
 * @lost_ns: GPU time that other work lost to them, beyond their kernels
 * @violations: those done that took longer than their slo_ns
 * @latency_p50_ns: median from begin to done, exact to 1.6 %
 * @latency_p99_ns: its 99th percentile, likewise
 *
 * A request that is done is counted at the next begin of its lane, or at the end of the runtime.
 */
struct zernel_stats {
	uint32_t size;
	uint32_t reserved;
	uint64_t begun;
	uint64_t done;
	uint64_t cancelled;
	uint64_t expired;
	uint64_t ended;
	uint64_t in_flight;
	uint64_t triggers;
	uint64_t early;
	uint64_t late;
	uint64_t lost_ns;
	uint64_t violations;
	uint64_t latency_p50_ns;
	uint64_t latency_p99_ns;
};

/**
 * struct zernel_usage - the use of the GPU that the context is on
 * @size: in: sizeof(struct zernel_usage)
 * @reserved: 0
 * @busy_ns: time for which the GPU has worked, for any program, up to @at_ns
 * @at_ns: the time of that figure, by CLOCK_MONOTONIC
 * @times_preempted: times that the TSG of the context was taken off the GPU with work left
 */
struct zernel_usage {
	uint32_t size;
	uint32_t reserved;
	uint64_t busy_ns;
	uint64_t at_ns;
	uint64_t times_preempted;
};

/* The version of the library: ZERNEL_RUNTIME_VERSION of its header. */
uint32_t zernel_version(void);

/*
 * The runtime of the context that is current in this thread. @options: NULL for the usual ones. The
 * context must live until zernel_detach().
 */
int zernel_attach(const struct zernel_options *options, struct zernel_runtime **runtime);

/*
 * Ends a runtime and its requests; NULL is none. No other call on it may be under way. It waits for
 * all work of the context, and so for holders of other runtimes. In a child of fork() it ends
 * nothing of its parent's.
 */
void zernel_detach(struct zernel_runtime *runtime);

/*
 * 1 if its requests do nothing, as zernel_error() then tells; 0 if they work. The name is one of those
 * of zernel_attach(), ZERNEL_FORKED, ZERNEL_CONTEXT_LOST, or ZERNEL_OFF where it is switched off.
 */
int zernel_is_inert(struct zernel_runtime *runtime);

/* The id of the TSG of the context; 0 where it is inert. */
int zernel_tsg(struct zernel_runtime *runtime, uint64_t *tsg);

/*
 * Begins a request: its data is prepared from now on. Never waits. @spec: NULL for one of which
 * nothing is known. @request: its number, used once; 0 for one that does nothing: the runtime is
 * inert, or the request has no lane or was refused, which is counted.
 */
int zernel_begin(struct zernel_runtime *runtime, const struct zernel_spec *spec, uint64_t *request);

/*
 * As zernel_begin(), if zernel promises that the request will be done within slo_ns of @spec, which all
 * that it promised before will be, too, as far as is known. @burst_ns: its expected time on the GPU,
 * used while the key has no history of that; 0: not known.
 *
 * -EBUSY: zernel does not promise it, and nothing has begun. It is counted as refused. @earliest_ns is
 * the shortest slo_ns that would have done then; 0: none, until other requests are over. @earliest_ns
 * may be NULL, and is 0 in any other case.
 *
 * Where the module cannot promise, as it is older, its tunable order is not edf, the TSG has no class
 * above best-effort, or nothing is known of the burst, the request does nothing, and is counted as
 * refused. zernel_ready() and zernel_done() of an admitted request are system calls.
 */
int zernel_begin_admitted(struct zernel_runtime *runtime, const struct zernel_spec *spec,
			  uint64_t burst_ns, uint64_t *request, uint64_t *earliest_ns);

/* The time that its preparation will take, in nanoseconds; 0: zernel cannot tell. */
int zernel_predicted(struct zernel_runtime *runtime, uint64_t request, uint64_t *ns);

/*
 * Its data is ready, and its work is about to be launched or has been; best right behind the first
 * launch. Twice is as good as once.
 */
int zernel_ready(struct zernel_runtime *runtime, uint64_t request);

/* Its result is there. */
int zernel_done(struct zernel_runtime *runtime, uint64_t request);

/* Its result is there when all that is in @stream, of the context, now is over. */
int zernel_done_in(struct zernel_runtime *runtime, uint64_t request, void *stream);

/* It is given up. */
int zernel_cancel(struct zernel_runtime *runtime, uint64_t request);

/*
 * Graphs. A request is a part of a graph: it is recorded while that is captured, and each launch is
 * the work of the request that was begun before it. A launch without a request goes through at once,
 * and so does one whose request is over.
 *
 * Records a request in @stream, whose calls are captured: all that is captured there from now on
 * comes behind its wait and holder. @graph: a number for it, which has a lane of the runtime until
 * zernel_graph_destroy() and the end of its request. An error of CUDA may have ended the capture.
 * Where the runtime is inert nothing is recorded. In a child of fork() it is -ECHILD, also where the
 * runtime does nothing.
 */
int zernel_graph_record(struct zernel_runtime *runtime, void *stream, uint64_t *graph);

/*
 * The graph can be launched: @exec is a CUgraphExec or cudaGraphExec_t of it. The CUgraph is kept as
 * long, as CUDA knows its nodes by that. Again, with another one of the same CUgraph, when the request
 * is over: requests are those of the last.
 */
int zernel_graph_instantiated(struct zernel_runtime *runtime, uint64_t graph, void *exec);

/*
 * Begins the request of the next launch, as zernel_begin(): it never waits, and the request is named
 * by its number everywhere. 0 also while the last request of the graph is not over, which is counted
 * as no_lane, and where CUDA refuses the graph, as it is destroyed: a failed call. No other thread
 * launches or destroys the graph meanwhile.
 */
int zernel_graph_begin(struct zernel_runtime *runtime, uint64_t graph,
		       const struct zernel_spec *spec, uint64_t *request);

/*
 * Ends it; a request that it has goes on. The graph must not be launched any more: the words of its
 * nodes are those of other requests then. It does not wait: before the CUgraphExec is destroyed, also
 * after this call, no other thread may be in zernel_graph_begin() or zernel_graph_instantiated() of
 * it. zernel_detach() ends all graphs of its runtime.
 */
int zernel_graph_destroy(struct zernel_runtime *runtime, uint64_t graph);

/*
 * Gives the TSG of the context a level, 0 (most urgent) to 7. It stays after zernel_detach(), as
 * long as the TSG.
 */
int zernel_set_level(struct zernel_runtime *runtime, uint32_t level);

/* Gives it a time slice in place of that of its level, 10 to 10,000,000 us. */
int zernel_set_timeslice(struct zernel_runtime *runtime, uint32_t us);

/*
 * Takes level and time slice of the TSG away. One that has none is no error. Without privilege a
 * level that holds the TSG down cannot be taken away.
 */
int zernel_clear_level(struct zernel_runtime *runtime);

/*
 * Wants a level for the TSG, and a time slice in place of that of the level; @us: 0 for none, or 10
 * to 10,000,000. @want: in: 0 for another want, or the one to change; out: its number. Parts of a
 * program that share a context want what each needs: the most urgent level holds, and of two wants
 * the older. When the last want of a TSG is over, also one of another runtime of the process, the
 * TSG has the level and the time slice again that it had before the first, unless somebody has
 * given it another class meanwhile, or it takes privilege that the program lacks. Each copy of the
 * runtime in a process knows its own wants alone. A child of fork() has none: -ECHILD, also where the
 * runtime does nothing.
 */
int zernel_want_class(struct zernel_runtime *runtime, uint32_t level, uint32_t us, uint64_t *want);

/* Ends a want; zernel_detach() ends those of its runtime. It is over with an error, too. */
int zernel_drop_class(struct zernel_runtime *runtime, uint64_t want);

/* Its counters. */
int zernel_get_counters(struct zernel_runtime *runtime, struct zernel_counters *counters);

/* The counters of its TSG, which zernel keeps; all 0 where it is inert. */
int zernel_get_stats(struct zernel_runtime *runtime, struct zernel_stats *stats);

/* The use of its GPU; all 0 where it is inert, and where GPU or TSG are gone. */
int zernel_get_usage(struct zernel_runtime *runtime, struct zernel_usage *usage);

/*
 * The last error of this thread: a name, and a sentence of 511 bytes at most. The addresses are
 * good as long as the thread; its next error writes over what is there.
 */
const char *zernel_error_name(void);
const char *zernel_error(void);

#ifdef __cplusplus
}
#endif

#endif /* ZERNEL_RUNTIME_H */
