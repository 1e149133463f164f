// SPDX-License-Identifier: MIT OR Apache-2.0
/* Requests as parts of graphs in C. */
#define _GNU_SOURCE
#include "capture.h"
#include "test.h"

enum { TICK_NS = 20000 };

/* A runtime with a graph that has requests, and a stream for it. */
struct launched {
	struct program program;
	struct zernel_runtime *runtime;
	CUstream stream;
	struct captured captured;
	uint64_t graph;
};

static void capture(struct launched *l)
{
	capture_begin(l->stream);
	CHECK(zernel_graph_record(l->runtime, l->stream, &l->graph) == 0 && l->graph != 0);
	l->captured = capture_end(&l->program, l->stream, TICK_NS);
	CHECK(zernel_graph_instantiated(l->runtime, l->graph, l->captured.exec) == 0);
}

static struct launched launched_new(uint32_t lanes)
{
	struct launched l = { .program = program_new() };
	struct zernel_options options = required;

	options.lanes = lanes;
	CHECK(zernel_attach(&options, &l.runtime) == 0);
	CHECK(cuStreamCreate(&l.stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	capture(&l);
	return l;
}

static uint64_t graph_begin(const struct launched *l, const struct zernel_spec *spec)
{
	uint64_t request = 7;

	CHECK(zernel_graph_begin(l->runtime, l->graph, spec, &request) == 0);
	return request;
}

static void launch(const struct launched *l)
{
	CHECK(cuGraphLaunch(l->captured.exec, l->stream) == CUDA_SUCCESS);
}

static void wait_idle(const struct launched *l)
{
	CHECK(cuStreamSynchronize(l->stream) == CUDA_SUCCESS);
}

/* Each launch is the work of the request that was begun before it; one without goes through. */
void graphs(void)
{
	enum { COUNT = 90 };
	struct launched l = launched_new(4);
	struct zernel_stats stats;
	uint64_t request, ns, last = 0;

	launch(&l);
	wait_idle(&l);
	for (int at = 0; at < COUNT; at++) {
		request = graph_begin(&l, at % 2 ? &later : &now);
		CHECK(request != 0 && request != last);
		last = request;
		CHECK(zernel_predicted(l.runtime, request, &ns) == 0);
		launch(&l);
		CHECK(cuStreamQuery(l.stream) != CUDA_SUCCESS);
		if (at % 3 == 2) {
			CHECK(zernel_cancel(l.runtime, request) == 0);
			wait_idle(&l);
			continue;
		}
		CHECK(zernel_ready(l.runtime, request) == 0);
		if (at % 3 == 0)
			CHECK(zernel_done_in(l.runtime, request, l.stream) == 0);
		wait_idle(&l);
		if (at % 3 == 1)
			CHECK(zernel_done(l.runtime, request) == 0);
		CHECK(zernel_done(l.runtime, request) == -ESTALE);
		/* Again without one. */
		launch(&l);
		wait_idle(&l);
	}
	/* The done word of the last one is seen when its lane begins again. */
	CHECK(zernel_cancel(l.runtime, graph_begin(&l, &later)) == 0);
	CHECK(counters_of(l.runtime).begun == COUNT + 1);
	CHECK(counters_of(l.runtime).failed_calls == 0);
	stats = stats_of(l.runtime);
	CHECK(stats.done == COUNT * 2 / 3 && stats.cancelled == COUNT / 3 + 1);
	CHECK(stats.expired == 0 && stats.ended == 0);
	/* A graph of the same one, in place of the first. */
	CHECK(cuGraphExecDestroy(l.captured.exec) == CUDA_SUCCESS);
	CHECK(cuGraphInstantiateWithFlags(&l.captured.exec, l.captured.graph, 0) == CUDA_SUCCESS);
	CHECK(zernel_graph_instantiated(l.runtime, l.graph, l.captured.exec) == 0);
	request = graph_begin(&l, &later);
	launch(&l);
	CHECK(request != 0 && cuStreamQuery(l.stream) != CUDA_SUCCESS);
	CHECK(zernel_ready(l.runtime, request) == 0);
	wait_idle(&l);
	CHECK(zernel_done(l.runtime, request) == 0);
	CHECK(zernel_graph_destroy(l.runtime, l.graph) == 0);
	captured_destroy(&l.captured);
	zernel_detach(l.runtime);
	CHECK(count_mappings() == 0 && cuCtxDestroy(l.program.context) == CUDA_SUCCESS);
}

/* Lanes, children, graphs and contexts that are gone. */
void graph_ends(void)
{
	struct launched l = launched_new(1);
	struct zernel_counters counters;
	uint64_t request, other, more;
	int status;
	pid_t child;

	/* The only lane is that of the graph, which has one request at a time. */
	CHECK(zernel_begin(l.runtime, &later, &other) == 0 && other == 0);
	request = graph_begin(&l, &later);
	CHECK(request != 0 && graph_begin(&l, &later) == 0);
	CHECK(zernel_ready(l.runtime, 0) == 0 && zernel_done(l.runtime, 0) == 0);
	CHECK(counters_of(l.runtime).no_lane == 2);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK(graph_begin(&l, &later) == 0 && counters_of(l.runtime).forked == 1);
		CHECK(zernel_graph_record(l.runtime, l.stream, &more) == -ECHILD);
		CHECK(zernel_graph_instantiated(l.runtime, l.graph, l.captured.exec) == -ECHILD);
		CHECK(zernel_graph_destroy(l.runtime, l.graph) == -ECHILD);
		CHECK(strcmp(zernel_error_name(), "ZERNEL_FORKED") == 0);
		CHECK(zernel_done(l.runtime, request) == 0);
		zernel_detach(l.runtime);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	launch(&l);
	CHECK(cuStreamQuery(l.stream) != CUDA_SUCCESS);
	/* With its last request the graph gives the lane back. */
	CHECK(zernel_graph_destroy(l.runtime, l.graph) == 0);
	CHECK(zernel_begin(l.runtime, &later, &other) == 0 && other == 0);
	CHECK(zernel_ready(l.runtime, request) == 0);
	wait_idle(&l);
	CHECK(zernel_done(l.runtime, request) == 0);
	CHECK(zernel_begin(l.runtime, &later, &other) == 0 && other != 0);
	CHECK(zernel_cancel(l.runtime, other) == 0);
	captured_destroy(&l.captured);
	/* A captured graph that is gone: CUDA refuses its nodes, and launches go through. */
	capture(&l);
	CHECK(cuGraphDestroy(l.captured.graph) == CUDA_SUCCESS);
	counters = counters_of(l.runtime);
	CHECK(graph_begin(&l, &now) == 0);
	CHECK(counters_of(l.runtime).failed_calls == counters.failed_calls + 1);
	launch(&l);
	wait_idle(&l);
	zernel_detach(l.runtime);
	CHECK(cuCtxDestroy(l.program.context) == CUDA_SUCCESS);
	/* A context that is lost, which a call that meets the error finds out. */
	l = launched_new(2);
	CHECK(program_fail(&l.program, l.stream) == CUDA_SUCCESS);
	CHECK(cuStreamSynchronize(l.stream) != CUDA_SUCCESS);
	CHECK(zernel_begin(l.runtime, &now, &other) == 0 && other == 0);
	CHECK(graph_begin(&l, &now) == 0 && counters_of(l.runtime).lost == 1);
	CHECK(zernel_is_inert(l.runtime) == 1);
	CHECK(strcmp(zernel_error_name(), "ZERNEL_CONTEXT_LOST") == 0);
	zernel_detach(l.runtime);
}

/* The things that rows of the table may need. */
struct world {
	struct launched l;
	CUcontext other;
	CUstream foreign, destroyed;
	struct captured plain;
	CUgraphExec gone;
	struct zernel_runtime *second;
	uint64_t alive, recorded, ended, graph, request;
	struct zernel_spec spec;
};

static int record_in(struct world *w, void *stream)
{
	return zernel_graph_record(w->l.runtime, stream, &w->graph);
}

static int instantiated(struct world *w, uint64_t graph, void *exec)
{
	return zernel_graph_instantiated(w->l.runtime, graph, exec);
}

static int begin(struct world *w, uint64_t graph)
{
	return zernel_graph_begin(w->l.runtime, graph, &w->spec, &w->request);
}

/* Two places for one lane. */
static int record_twice(struct world *w)
{
	CUgraph graph;
	uint64_t first;
	int result;

	capture_begin(w->l.stream);
	CHECK(zernel_graph_record(w->l.runtime, w->l.stream, &first) == 0);
	result = record_in(w, w->l.stream);
	CHECK(cuStreamEndCapture(w->l.stream, &graph) == CUDA_SUCCESS);
	CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
	CHECK(zernel_graph_destroy(w->l.runtime, first) == 0);
	return result;
}

#define ROW(name, ...) static int name(struct world *w) { __VA_ARGS__ }
ROW(record_outside, return record_in(w, w->l.stream);)
ROW(record_foreign, return record_in(w, w->foreign);)
ROW(record_destroyed, return record_in(w, w->destroyed);)
ROW(record_nowhere, return zernel_graph_record(w->l.runtime, w->l.stream, NULL);)
ROW(exec_null, return instantiated(w, w->recorded, NULL);)
ROW(exec_other, return instantiated(w, w->recorded, w->plain.exec);)
ROW(exec_gone, return instantiated(w, w->recorded, w->gone);)
ROW(exec_busy, return instantiated(w, w->l.graph, w->l.captured.exec);)
ROW(begin_early, return begin(w, w->recorded);)
ROW(begin_none, return begin(w, UINT64_MAX);)
ROW(begin_ended, return begin(w, w->ended);)
ROW(begin_elsewhere,
    return zernel_graph_begin(w->second, w->l.graph, &w->spec, &w->request);)
ROW(begin_inline, w->spec.flags = ZERNEL_SPEC_INLINE; w->spec.stream = w->l.stream;
    return begin(w, w->l.graph);)
ROW(destroy_ended, return zernel_graph_destroy(w->l.runtime, w->ended);)

static const struct row {
	const char *what;
	int (*call)(struct world *w);
	int error;
	const char *name;
} table[] = {
	{ "record outside a capture", record_outside, EALREADY, "ZERNEL_NOT_CAPTURING" },
	{ "record in a foreign stream", record_foreign, EREMOTE, "ZERNEL_FOREIGN_STREAM" },
	{ "record in a destroyed stream", record_destroyed, EIO, "ZERNEL_CUDA_FAILED" },
	{ "record without a free lane", record_twice, EBUSY, "ZERNEL_NO_LANE" },
	{ "no place for a graph", record_nowhere, EINVAL, "ZERNEL_BAD_ARGUMENT" },
	{ "no graph to launch", exec_null, EINVAL, "ZERNEL_BAD_ARGUMENT" },
	{ "a graph to launch of another", exec_other, EBADE, "ZERNEL_FOREIGN_GRAPH" },
	{ "a destroyed graph to launch", exec_gone, EBADE, "ZERNEL_FOREIGN_GRAPH" },
	{ "a graph with a request under way", exec_busy, EBUSY, "ZERNEL_NO_LANE" },
	{ "a begin before instantiation", begin_early, ENOEXEC, "ZERNEL_NOT_INSTANTIATED" },
	{ "a graph without a record", begin_none, EBADR, "ZERNEL_UNKNOWN_GRAPH" },
	{ "a graph that has ended", begin_ended, EBADR, "ZERNEL_UNKNOWN_GRAPH" },
	{ "a second end of a graph", destroy_ended, EBADR, "ZERNEL_UNKNOWN_GRAPH" },
	{ "a graph of another runtime", begin_elsewhere, EBADR, "ZERNEL_UNKNOWN_GRAPH" },
	{ "a graph's request in a stream", begin_inline, EINVAL, "ZERNEL_BAD_ARGUMENT" },
};

static struct world world_new(void)
{
	/* One lane is free. */
	struct world w = { .l = launched_new(3) };
	struct zernel_options options = required;
	CUgraph graph;

	CHECK(zernel_tsg(w.l.runtime, &options.tsg) == 0);
	CHECK(zernel_attach(&options, &w.second) == 0);
	capture_begin(w.l.stream);
	CHECK(zernel_graph_record(w.l.runtime, w.l.stream, &w.recorded) == 0);
	CHECK(zernel_graph_record(w.l.runtime, w.l.stream, &w.ended) == 0);
	CHECK(zernel_graph_destroy(w.l.runtime, w.ended) == 0);
	CHECK(cuStreamEndCapture(w.l.stream, &graph) == CUDA_SUCCESS);
	capture_begin(w.l.stream);
	w.plain = capture_end(&w.l.program, w.l.stream, TICK_NS);
	CHECK(cuGraphInstantiateWithFlags(&w.gone, graph, 0) == CUDA_SUCCESS);
	CHECK(cuGraphExecDestroy(w.gone) == CUDA_SUCCESS);
	CHECK(cuStreamCreate(&w.destroyed, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	CHECK(cuStreamDestroy(w.destroyed) == CUDA_SUCCESS);
	CHECK(cuCtxCreate_v2(&w.other, 0, 0) == CUDA_SUCCESS);
	CHECK(cuStreamCreate(&w.foreign, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	CHECK(cuCtxSetCurrent(w.l.program.context) == CUDA_SUCCESS);
	w.alive = graph_begin(&w.l, &later);
	CHECK(w.alive != 0);
	return w;
}

void graph_bad_input(void)
{
	struct world w = world_new();
	struct zernel_counters before = counters_of(w.l.runtime), after;
	struct zernel_stats one = stats_of(w.l.runtime), other;

	for (size_t at = 0; at < sizeof(table) / sizeof(table[0]); at++) {
		const struct row *row = &table[at];

		w.spec = later;
		w.graph = w.request = 7;
		check_error(row->what, row->call(&w), row->error, row->name);
		CHECK(w.graph == 7 && w.request == 7);
		after = counters_of(w.l.runtime);
		other = stats_of(w.l.runtime);
		CHECK(memcmp(&before, &after, sizeof(before)) == 0);
		CHECK(memcmp(&one, &other, sizeof(one)) == 0);
	}
	/* The request that was there all along goes on. */
	launch(&w.l);
	CHECK(zernel_ready(w.l.runtime, w.alive) == 0);
	wait_idle(&w.l);
	CHECK(zernel_done(w.l.runtime, w.alive) == 0);
	zernel_detach(w.second);
	zernel_detach(w.l.runtime);
	CHECK(cuCtxDestroy(w.other) == CUDA_SUCCESS &&
	      cuCtxDestroy(w.l.program.context) == CUDA_SUCCESS);
}
