// SPDX-License-Identifier: MIT OR Apache-2.0
/* Tests of runtime.h, gpu.h and config.h in C11: runs the case that its argument names. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <zernel/config.h>
#include <zernel/gpu.h>
#include <zernel/runtime.h>

#include "program.h"

static const struct zernel_options required = { .size = sizeof(required),
						.mode = ZERNEL_MODE_REQUIRE };
/* Triggered when the data is ready. */
static const struct zernel_spec later = { .size = sizeof(later),
					  .flags = ZERNEL_SPEC_EXACT,
					  .key = 1,
					  .expected_ns = 5000000000 };
static const struct zernel_spec now = { .size = sizeof(now),
					.flags = ZERNEL_SPEC_EXACT,
					.key = 1 };

static struct zernel_counters counters_of(struct zernel_runtime *runtime)
{
	struct zernel_counters counters = { .size = sizeof(counters) };

	CHECK(zernel_get_counters(runtime, &counters) == 0);
	return counters;
}

static struct zernel_stats stats_of(struct zernel_runtime *runtime)
{
	struct zernel_stats stats = { .size = sizeof(stats) };

	CHECK(zernel_get_stats(runtime, &stats) == 0);
	CHECK(stats.begun == stats.done + stats.cancelled + stats.expired + stats.ended +
				     stats.in_flight);
	return stats;
}

static void requests(void)
{
	enum { COUNT = 10000 };
	struct program program = program_new();
	struct zernel_runtime *runtime;
	struct zernel_counters counters;
	struct zernel_stats stats;
	CUstream stream;
	uint64_t request, id;

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
	CHECK(cuCtxDestroy(program.context) == 0);
}

/* The things that rows of the table may need. */
struct world {
	struct program program;
	CUcontext other;
	CUstream own, foreign, destroyed;
	struct zernel_runtime *runtime, *second;
	struct zernel_gpu *gpu;
	uint64_t alive, ended, request;
	struct zernel_options options;
	struct zernel_spec spec;
	struct zernel_runtime *attached;
};

/* A structure that is longer, with something in the part that nobody knows. */
struct longer {
	union {
		struct zernel_options options;
		struct zernel_spec spec;
		struct zernel_config config;
	} known;
	uint64_t more[8];
};

static int attach(struct world *w)
{
	return zernel_attach(&w->options, &w->attached);
}

static int begin(struct world *w)
{
	return zernel_begin(w->runtime, &w->spec, &w->request);
}

static int begin_in(struct world *w, void *stream)
{
	w->spec.flags = ZERNEL_SPEC_INLINE;
	w->spec.stream = stream;
	return begin(w);
}

#define ROW(name, ...) static int name(struct world *w) { (void)w; __VA_ARGS__ }
ROW(attach_null, return zernel_attach(&w->options, NULL);)
ROW(attach_short, w->options.size = 39; return attach(w);)
ROW(attach_empty, w->options.size = 0; return attach(w);)
ROW(attach_mode, w->options.mode = 4; return attach(w);)
ROW(attach_reserved, w->options.reserved = 1; return attach(w);)
ROW(attach_lanes, w->options.lanes = 65; return attach(w);)
ROW(attach_bound, w->options.bound_ns = 999; return attach(w);)
ROW(attach_linger, w->options.linger_ns = UINT64_MAX; return attach(w);)
ROW(attach_ambiguous, return attach(w);)
ROW(attach_tsg, w->options.tsg = UINT64_MAX; return attach(w);)
ROW(begin_runtime, return zernel_begin(NULL, NULL, &w->request);)
ROW(begin_null, return zernel_begin(w->runtime, &w->spec, NULL);)
ROW(begin_short, w->spec.size = 8; return begin(w);)
ROW(begin_flag, w->spec.flags = 4; return begin(w);)
ROW(begin_stream, w->spec.stream = w->own; return begin(w);)
ROW(begin_foreign, return begin_in(w, w->foreign);)
ROW(begin_destroyed, return begin_in(w, w->destroyed);)
ROW(begin_misaligned, return begin_in(w, (char *)w->own + 1);)
ROW(ready_ended, return zernel_ready(w->runtime, w->ended);)
ROW(done_ended, return zernel_done(w->runtime, w->ended);)
ROW(cancel_ended, return zernel_cancel(w->runtime, w->ended);)
ROW(done_in_ended, return zernel_done_in(w->runtime, w->ended, w->own);)
ROW(predicted_ended, return zernel_predicted(w->runtime, w->ended, &w->request);)
ROW(ready_none, return zernel_ready(w->runtime, UINT64_MAX);)
ROW(ready_elsewhere, return zernel_ready(w->second, w->alive);)
ROW(predicted_null, return zernel_predicted(w->runtime, w->alive, NULL);)
ROW(done_in_foreign, return zernel_done_in(w->runtime, w->alive, w->foreign);)
ROW(done_in_destroyed, return zernel_done_in(w->runtime, w->alive, w->destroyed);)
ROW(level_8, return zernel_set_level(w->runtime, 8);)
ROW(slice_9, return zernel_set_timeslice(w->runtime, 9);)
ROW(tsg_null, return zernel_tsg(w->runtime, NULL);)
ROW(counters_null, return zernel_get_counters(w->runtime, NULL);)
ROW(counters_short, struct zernel_counters c = { .size = 55 };
    return zernel_get_counters(w->runtime, &c);)
ROW(stats_reserved, struct zernel_stats s = { .size = sizeof(s), .reserved = 1 };
    return zernel_get_stats(w->runtime, &s);)
ROW(config_null, return zernel_config_read(NULL, NULL);)
ROW(config_short, struct zernel_config c = { .size = 79 }; return zernel_config_read(NULL, &c);)
ROW(config_none, struct zernel_config c = { .size = sizeof(c) };
    return zernel_config_read("/nonexistent/zernel.yaml", &c);)
ROW(config_folder, struct zernel_config c = { .size = sizeof(c) };
    return zernel_config_read("/", &c);)
ROW(gpu_null, return zernel_gpu_open(0, NULL);)
ROW(gpu_device, struct zernel_gpu *gpu; return zernel_gpu_open(99, &gpu);)
ROW(gpu_stream, return zernel_stream_synchronize(w->gpu, w->own);)
ROW(gpu_urgent, void *stream; return zernel_stream_create(w->gpu, 2, &stream);)

static int attach_long(struct world *w)
{
	struct longer longer = { .known.options = w->options, .more = { 0, 1 } };

	longer.known.options.size = sizeof(longer);
	return zernel_attach(&longer.known.options, &w->attached);
}

static int begin_long(struct world *w)
{
	struct longer longer = { .known.spec = w->spec, .more = { 0, 1 } };

	longer.known.spec.size = sizeof(longer);
	return zernel_begin(w->runtime, &longer.known.spec, &w->request);
}

static int attach_nowhere(struct world *w)
{
	CUcontext current = w->other;
	int result;

	/* Each of those that were made current before comes up again. */
	while (current != NULL)
		CHECK(cuCtxSetCurrent(NULL) == 0 && cuCtxGetCurrent(&current) == 0);
	result = attach(w);
	CHECK(cuCtxSetCurrent(w->program.context) == 0);
	return result;
}

static int attach_environment(struct world *w)
{
	int result;

	w->options.mode = ZERNEL_MODE_ENVIRONMENT;
	CHECK(setenv("ZERNEL", "on", 1) == 0);
	result = attach(w);
	CHECK(unsetenv("ZERNEL") == 0);
	return result;
}

static int begin_capturing(struct world *w)
{
	CUgraph graph;
	int result;

	CHECK(cuStreamBeginCapture(w->own, CU_STREAM_CAPTURE_MODE_GLOBAL) == 0);
	result = begin_in(w, w->own);
	CHECK(cuStreamEndCapture(w->own, &graph) == 0);
	CHECK(graph == NULL || cuGraphDestroy(graph) == 0);
	return result;
}

static int gpu_destroyed(struct world *w)
{
	void *stream;

	CHECK(zernel_stream_create(w->gpu, 0, &stream) == 0);
	CHECK(zernel_stream_synchronize(w->gpu, stream) == 0);
	CHECK(zernel_stream_destroy(w->gpu, stream) == 0);
	return zernel_stream_destroy(w->gpu, stream);
}

static const struct row {
	const char *what;
	int (*call)(struct world *w);
	int error;
	const char *name;
} table[] = {
	{ "no place for a runtime", attach_null, EINVAL, "ZERNEL_BAD_ARGUMENT" },
	{ "short options", attach_short, EINVAL, "ZERNEL_BAD_ARGUMENT" },
	{ "options of no size", attach_empty, EINVAL, "ZERNEL_BAD_ARGUMENT" },
	{ "long options", attach_long, E2BIG, "ZERNEL_BAD_SIZE" },
	{ "an unknown mode", attach_mode, EINVAL, "ZERNEL_BAD_ARGUMENT" },
	{ "a reserved field", attach_reserved, EINVAL, "ZERNEL_BAD_ARGUMENT" },
	{ "too many lanes", attach_lanes, EINVAL, "ZERNEL_BAD_LANES" },
	{ "a short bound", attach_bound, EINVAL, "ZERNEL_BAD_BOUND" },
	{ "a long linger", attach_linger, EINVAL, "ZERNEL_BAD_BOUND" },
	{ "a mode in the environment", attach_environment, EINVAL, "ZERNEL_BAD_MODE" },
	{ "no context", attach_nowhere, EBADF, "ZERNEL_NO_CONTEXT" },
	{ "several TSGs", attach_ambiguous, ENOTUNIQ, "ZERNEL_AMBIGUOUS_TSG" },
	{ "another TSG", attach_tsg, EXDEV, "ZERNEL_WRONG_TSG" },
	{ "no runtime", begin_runtime, EINVAL, "ZERNEL_BAD_ARGUMENT" },
	{ "no place for a request", begin_null, EINVAL, "ZERNEL_BAD_ARGUMENT" },
	{ "a short kind", begin_short, EINVAL, "ZERNEL_BAD_ARGUMENT" },
	{ "a long kind", begin_long, E2BIG, "ZERNEL_BAD_SIZE" },
	{ "an unknown flag", begin_flag, EINVAL, "ZERNEL_BAD_ARGUMENT" },
	{ "a stream without its flag", begin_stream, EINVAL, "ZERNEL_BAD_ARGUMENT" },
	{ "a foreign stream", begin_foreign, EREMOTE, "ZERNEL_FOREIGN_STREAM" },
	{ "a destroyed stream", begin_destroyed, EIO, "ZERNEL_CUDA_FAILED" },
	{ "a misaligned stream", begin_misaligned, EIO, "ZERNEL_CUDA_FAILED" },
	{ "a captured stream", begin_capturing, EINPROGRESS, "ZERNEL_CAPTURING" },
	{ "ready of an ended one", ready_ended, ESTALE, "ZERNEL_REQUEST_OVER" },
	{ "done of an ended one", done_ended, ESTALE, "ZERNEL_REQUEST_OVER" },
	{ "cancel of an ended one", cancel_ended, ESTALE, "ZERNEL_REQUEST_OVER" },
	{ "done in a stream of an ended one", done_in_ended, ESTALE, "ZERNEL_REQUEST_OVER" },
	{ "prediction of an ended one", predicted_ended, ESTALE, "ZERNEL_REQUEST_OVER" },
	{ "a number that is none", ready_none, ESTALE, "ZERNEL_REQUEST_OVER" },
	{ "a request of another runtime", ready_elsewhere, ESTALE, "ZERNEL_REQUEST_OVER" },
	{ "no place for a prediction", predicted_null, EINVAL, "ZERNEL_BAD_ARGUMENT" },
	{ "done in a foreign stream", done_in_foreign, EREMOTE, "ZERNEL_FOREIGN_STREAM" },
	{ "done in a destroyed stream", done_in_destroyed, EIO, "ZERNEL_CUDA_FAILED" },
	{ "a level above 7", level_8, EINVAL, "ZERNEL_BAD_ARGUMENT" },
	{ "a short time slice", slice_9, EINVAL, "ZERNEL_BAD_ARGUMENT" },
	{ "no place for a TSG", tsg_null, EINVAL, "ZERNEL_BAD_ARGUMENT" },
	{ "no place for counters", counters_null, EINVAL, "ZERNEL_BAD_ARGUMENT" },
	{ "short counters", counters_short, EINVAL, "ZERNEL_BAD_ARGUMENT" },
	{ "a reserved field of statistics", stats_reserved, EINVAL, "ZERNEL_BAD_ARGUMENT" },
	{ "no place for a configuration", config_null, EINVAL, "ZERNEL_BAD_ARGUMENT" },
	{ "a short configuration", config_short, EINVAL, "ZERNEL_BAD_ARGUMENT" },
	{ "no file", config_none, ENOENT, "ZERNEL_CONFIG_UNREADABLE" },
	{ "a folder for a file", config_folder, EISDIR, "ZERNEL_CONFIG_UNREADABLE" },
	{ "no place for a GPU", gpu_null, EINVAL, "ZERNEL_BAD_ARGUMENT" },
	{ "no such device", gpu_device, ENXIO, "ZERNEL_NO_DEVICE" },
	{ "a stream that was not made there", gpu_stream, EBADSLT, "ZERNEL_UNKNOWN_STREAM" },
	{ "a stream that was destroyed", gpu_destroyed, EBADSLT, "ZERNEL_UNKNOWN_STREAM" },
	{ "a stream of no urgency", gpu_urgent, EINVAL, "ZERNEL_BAD_ARGUMENT" },
};

static struct world world_new(void)
{
	struct world w = { .program = program_new() };
	struct zernel_options options = required;

	CHECK(zernel_attach(&required, &w.runtime) == 0);
	CHECK(zernel_tsg(w.runtime, &options.tsg) == 0);
	CHECK(zernel_attach(&options, &w.second) == 0);
	CHECK(cuStreamCreate(&w.own, 1) == 0);
	CHECK(cuStreamCreate(&w.destroyed, 1) == 0 && cuStreamDestroy(w.destroyed) == 0);
	CHECK(cuCtxCreate_v2(&w.other, 0, 0) == 0);
	CHECK(cuStreamCreate(&w.foreign, 1) == 0);
	CHECK(cuCtxSetCurrent(w.program.context) == 0);
	CHECK(zernel_gpu_open(0, &w.gpu) == 0);
	CHECK(zernel_begin(w.runtime, &later, &w.ended) == 0 && w.ended != 0);
	CHECK(zernel_cancel(w.runtime, w.ended) == 0);
	CHECK(zernel_begin(w.runtime, &later, &w.alive) == 0 && w.alive != 0);
	return w;
}

static void bad_input(void)
{
	struct world w = world_new();
	struct zernel_counters before = counters_of(w.runtime), after;
	struct zernel_stats one = stats_of(w.runtime), other;

	for (size_t at = 0; at < sizeof(table) / sizeof(table[0]); at++) {
		const struct row *row = &table[at];
		int result;

		w.options = required;
		w.spec = later;
		w.attached = NULL;
		w.request = 7;
		result = row->call(&w);
		if (result != -row->error || strcmp(zernel_error_name(), row->name) != 0) {
			fprintf(stderr, "%s: %d %s: %s\n", row->what, result, zernel_error_name(),
				zernel_error());
			exit(1);
		}
		CHECK(strlen(zernel_error()) > 0);
		CHECK(w.attached == NULL && w.request == 7);
		after = counters_of(w.runtime);
		other = stats_of(w.runtime);
		CHECK(memcmp(&before, &after, sizeof(before)) == 0);
		CHECK(memcmp(&one, &other, sizeof(one)) == 0);
	}
	CHECK(zernel_ready(w.runtime, w.alive) == 0);
	CHECK(zernel_done(w.runtime, w.alive) == 0);
	zernel_detach(NULL);
	zernel_gpu_close(NULL);
	zernel_gpu_close(w.gpu);
	zernel_detach(w.second);
	zernel_detach(w.runtime);
	CHECK(cuCtxDestroy(w.other) == CUDA_SUCCESS &&
	      cuCtxDestroy(w.program.context) == CUDA_SUCCESS);
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
	char line[512];
	FILE *maps;

	CHECK(zernel_attach(&required, &runtime) == 0);
	maps = fopen("/proc/self/maps", "r");
	CHECK(maps != NULL);
	while (fgets(line, sizeof(line), maps) != NULL) {
		if (strstr(line, "/dev/zernel\n") != NULL)
			CHECK(sscanf(line, "%lx-%lx", &from, &to) == 2);
	}
	CHECK(fclose(maps) == 0 && to - from >= SLOTS * WORDS * sizeof(uint32_t));
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
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{ "requests", requests },
		{ "bad_input", bad_input },
		{ "two_runtimes", two_runtimes },
		{ "fork", fork_in_a_request },
		{ "hostile_words", hostile_words },
		{ "inert", inert },
	};

	for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
		if (argc == 2 && strcmp(argv[1], cases[at].name) == 0) {
			cases[at].run();
			return 0;
		}
	}
	fprintf(stderr, "usage: %s CASE\n", argv[0]);
	return 2;
}
