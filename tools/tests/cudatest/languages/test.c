// SPDX-License-Identifier: MIT OR Apache-2.0
/* Tests of runtime.h, gpu.h and config.h in C11: runs the case that its argument names. */
#define _GNU_SOURCE
#include "test.h"

static void requests(void)
{
	enum { COUNT = 10000 };
	struct program program = program_new();
	struct zernel_runtime *runtime;
	struct zernel_counters counters;
	struct zernel_stats stats;
	CUstream stream;
	uint64_t request, id;
	unsigned int files;

	/* The library of CUDA is open from the first time on. */
	CHECK(zernel_attach(&required, &runtime) == 0);
	zernel_detach(runtime);
	files = count_files();
	CHECK(zernel_version() == ZERNEL_RUNTIME_VERSION);
	CHECK(zernel_attach(&required, &runtime) == 0);
	CHECK(zernel_is_inert(runtime) == 0);
	CHECK(zernel_tsg(runtime, &id) == 0 && id != 0);
	CHECK(zernel_set_level(runtime, 0) == 0);
	CHECK(zernel_set_timeslice(runtime, 5000) == 0);
	CHECK(cuStreamCreate(&stream, 1) == 0);
	for (int at = 0; at < COUNT; at++) {
		CHECK(zernel_begin(runtime, at % 2 ? &later : &now, &request) == 0);
		CHECK(request != 0);
		CHECK(zernel_ready(runtime, request) == 0);
		CHECK(zernel_ready(runtime, request) == 0);
		CHECK(program_work(&program, stream, 10000) == 0);
		if (at % 3 == 0) {
			CHECK(zernel_done_in(runtime, request, stream) == 0);
			continue;
		}
		CHECK(cuStreamSynchronize(stream) == 0);
		CHECK(zernel_done(runtime, request) == 0);
	}
	CHECK(cuStreamSynchronize(stream) == 0);
	/* The done words of the last ones are seen when their lanes begin again. */
	CHECK(zernel_begin(runtime, &later, &request) == 0);
	CHECK(zernel_cancel(runtime, request) == 0);
	counters = counters_of(runtime);
	CHECK(counters.begun == COUNT + 1);
	CHECK(counters.no_lane + counters.refused + counters.lost + counters.forked == 0);
	CHECK(counters.failed_calls == 0);
	stats = stats_of(runtime);
	CHECK(stats.begun == COUNT + 1 && stats.cancelled == 1);
	CHECK(stats.expired == 0 && stats.ended == 0 && stats.in_flight <= 3);
	zernel_detach(runtime);
	CHECK(count_mappings() == 0 && count_files() == files);
	CHECK(cuCtxDestroy(program.context) == 0);
}

/* Holders that wait for a word in memory of the GPU, by GDRCopy. */
static void gpu_word(void)
{
	struct program program = program_new();
	struct zernel_options options = required;
	struct zernel_runtime *runtime;
	uint64_t request;

	options.release_word = ZERNEL_WORD_GPU;
	CHECK(zernel_attach(&options, &runtime) == 0 && zernel_is_inert(runtime) == 0);
	for (int at = 0; at < 20; at++) {
		CHECK(zernel_begin(runtime, at % 2 ? &later : &now, &request) == 0);
		CHECK(request != 0 && zernel_ready(runtime, request) == 0);
		CHECK(program_work(&program, NULL, 10000) == 0);
		CHECK(cuStreamSynchronize(NULL) == 0);
		CHECK(zernel_done(runtime, request) == 0);
	}
	CHECK(counters_of(runtime).begun == 20 && counters_of(runtime).failed_calls == 0);
	CHECK(stats_of(runtime).expired == 0);
	zernel_detach(runtime);
	CHECK(cuCtxDestroy(program.context) == 0);
}

/* Two runtimes of one context have lanes and requests of their own. */
static void two_runtimes(void)
{
	struct program program = program_new();
	struct zernel_options options = required;
	struct zernel_runtime *runtimes[2];
	uint64_t requests[2][2], more;

	options.lanes = 2;
	/* Before any holder: a module that is loaded waits for those of its context. */
	for (int at = 0; at < 2; at++)
		CHECK(zernel_attach(&options, &runtimes[at]) == 0);
	for (int at = 0; at < 2; at++) {
		for (int lane = 0; lane < 2; lane++)
			CHECK(zernel_begin(runtimes[at], &later, &requests[at][lane]) == 0);
		/* Nested begins beyond the lanes do nothing, and are counted. */
		CHECK(zernel_begin(runtimes[at], &later, &more) == 0 && more == 0);
		CHECK(zernel_ready(runtimes[at], more) == 0);
		CHECK(zernel_done(runtimes[at], more) == 0);
		CHECK(counters_of(runtimes[at]).no_lane == 1);
	}
	CHECK(stats_of(runtimes[0]).in_flight == 4);
	for (int lane = 0; lane < 2; lane++) {
		CHECK(zernel_ready(runtimes[1], requests[1][lane]) == 0);
		CHECK(zernel_done(runtimes[1], requests[1][lane]) == 0);
	}
	/* The end of one ends its requests, and leaves the other. */
	zernel_detach(runtimes[0]);
	CHECK(zernel_begin(runtimes[1], &later, &more) == 0 && more != 0);
	CHECK(stats_of(runtimes[1]).in_flight <= 2);
	CHECK(zernel_cancel(runtimes[1], more) == 0);
	zernel_detach(runtimes[1]);
	CHECK(cuCtxDestroy(program.context) == 0);
}

/* A child of fork() does nothing, and takes nothing away from its parent. */
static void fork_in_a_request(void)
{
	struct program program = program_new();
	struct zernel_runtime *runtime;
	uint64_t request, other;
	int status;
	pid_t child;

	CHECK(zernel_attach(&required, &runtime) == 0);
	CHECK(zernel_begin(runtime, &later, &request) == 0 && request != 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK(zernel_is_inert(runtime) == 1);
		CHECK(strcmp(zernel_error_name(), "ZERNEL_FORKED") == 0);
		CHECK(zernel_begin(runtime, &later, &other) == 0 && other == 0);
		CHECK(zernel_set_level(runtime, 7) == -ECHILD);
		CHECK(zernel_set_timeslice(runtime, 200) == -ECHILD);
		CHECK(zernel_done_in(runtime, request, NULL) == -ECHILD);
		CHECK(zernel_done(runtime, request) == 0);
		zernel_detach(runtime);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(stats_of(runtime).in_flight == 1);
	CHECK(counters_of(runtime).forked == 0);
	CHECK(zernel_ready(runtime, request) == 0 && zernel_done(runtime, request) == 0);
	zernel_detach(runtime);
	CHECK(cuCtxDestroy(program.context) == 0);
}

/* The words of a request are the program's own, which can store anything to them. */
static void hostile_words(void)
{
	enum { ROUNDS = 200, SLOTS = 5, WORDS = 16 };
	struct program program = program_new();
	struct zernel_runtime *runtime;
	unsigned long from = 0, to = 0;
	uint64_t request, last = 0;
	uint32_t random = 7;

	CHECK(zernel_attach(&required, &runtime) == 0);
	find_slots(&from, &to);
	CHECK(to - from >= SLOTS * WORDS * sizeof(uint32_t));
	for (int round = 0; round < ROUNDS; round++) {
		volatile uint32_t *words = (volatile uint32_t *)from;

		CHECK(zernel_begin(runtime, round % 2 ? &later : &now, &request) == 0);
		CHECK(request == 0 || request != last);
		last = request;
		for (int word = 0; word < SLOTS * WORDS; word++) {
			random = random * 1664525 + 1013904223;
			words[word] = random;
		}
		CHECK(zernel_ready(runtime, request) == 0);
		if (round % 3 == 0)
			CHECK(zernel_cancel(runtime, request) == 0);
		else
			CHECK(zernel_done(runtime, request) == 0);
	}
	/* All of them are counted, and nothing is left. */
	CHECK(counters_of(runtime).begun + counters_of(runtime).refused == ROUNDS);
	CHECK(stats_of(runtime).begun == counters_of(runtime).begun);
	zernel_detach(runtime);
	CHECK(cuCtxDestroy(program.context) == 0);
}

/* Deadlines that are promised, with the tunable order at edf. */
static void admitted(void)
{
	struct zernel_spec spec = now;
	struct program program = program_new();
	struct zernel_runtime *runtime;
	uint64_t first = 7, second = 7, earliest = 7;

	CHECK(zernel_attach(&required, &runtime) == 0);
	CHECK(zernel_set_level(runtime, 0) == 0);
	/* One without a history of bursts. */
	spec.key = (uint64_t)getpid();
	spec.slo_ns = 9000000000;
	CHECK(zernel_begin_admitted(runtime, &spec, 3000000000, &first, &earliest) == 0);
	CHECK(first != 0 && earliest == 0);
	spec.slo_ns = 2000000000;
	check_error("a late one",
		    zernel_begin_admitted(runtime, &spec, 1000000000, &second, &earliest), EBUSY,
		    "ZERNEL_LATE");
	CHECK(second == 7 && earliest > spec.slo_ns && earliest < 9000000000);
	check_error("without a place",
		    zernel_begin_admitted(runtime, &spec, 1000000000, &second, NULL), EBUSY,
		    "ZERNEL_LATE");
	CHECK(counters_of(runtime).refused == 2 && counters_of(runtime).begun == 1);
	spec.slo_ns = earliest;
	CHECK(zernel_begin_admitted(runtime, &spec, 1000000000, &second, &earliest) == 0);
	CHECK(second != 0 && earliest == 0);
	CHECK(zernel_ready(runtime, first) == 0 && zernel_done(runtime, first) == 0);
	CHECK(zernel_ready(runtime, second) == 0 && zernel_done(runtime, second) == 0);
	CHECK(stats_of(runtime).done == 2);
	/* Nothing is known of the burst. */
	spec.key <<= 32;
	CHECK(zernel_begin_admitted(runtime, &spec, 0, &second, &earliest) == 0);
	CHECK(second == 0 && earliest == 0 && counters_of(runtime).refused == 3);
	zernel_detach(runtime);
	CHECK(cuCtxDestroy(program.context) == 0);
}

/* Where deadlines have no order none is promised, and the program goes on. */
static void not_admitted(void)
{
	struct zernel_spec spec = now;
	struct program program = program_new();
	struct zernel_runtime *runtime;
	uint64_t request = 7, earliest = 7;

	CHECK(zernel_attach(&required, &runtime) == 0);
	CHECK(zernel_set_level(runtime, 0) == 0);
	spec.slo_ns = 9000000000;
	CHECK(zernel_begin_admitted(runtime, &spec, 1, &request, &earliest) == 0);
	CHECK(request == 0 && earliest == 0 && counters_of(runtime).refused == 1);
	CHECK(zernel_ready(runtime, request) == 0 && zernel_done(runtime, request) == 0);
	zernel_detach(runtime);
	CHECK(cuCtxDestroy(program.context) == 0);
}

/* Off, everything succeeds and does nothing. */
static void inert(void)
{
	struct zernel_options off = { .size = sizeof(off), .mode = ZERNEL_MODE_OFF };
	struct zernel_runtime *runtime;
	uint64_t request = 7;

	CHECK(zernel_attach(&off, &runtime) == 0);
	CHECK(zernel_is_inert(runtime) == 1);
	CHECK(strcmp(zernel_error_name(), "ZERNEL_OFF") == 0);
	CHECK(zernel_begin(runtime, &now, &request) == 0 && request == 0);
	CHECK(zernel_ready(runtime, request) == 0 && zernel_done(runtime, request) == 0);
	CHECK(stats_of(runtime).begun == 0 && counters_of(runtime).begun == 0);
	zernel_detach(runtime);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "requests", requests },
		{ "gpu_word", gpu_word },
		{ "admitted", admitted },
		{ "not_admitted", not_admitted },
		{ "bad_input", bad_input },
		{ "page_unmapped", page_unmapped },
		{ "classes", classes },
		{ "wants", wants },
		{ "sizes", sizes },
		{ "graphs", graphs },
		{ "graph_ends", graph_ends },
		{ "graph_bad_input", graph_bad_input },
		{ "job", job },
		{ "serve_by_class", serve_by_class },
		{ "serve_beside", serve_beside },
		{ "serve_inline", serve_inline },
		{ "two_runtimes", two_runtimes },
		{ "fork", fork_in_a_request },
		{ "hostile_words", hostile_words },
		{ "inert", inert },
	};

	return run_case(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
