// SPDX-License-Identifier: MIT OR Apache-2.0
/* Bad input in C: each has an error of its own, and changes nothing. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>

#include "test.h"

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
ROW(attach_word, w->options.release_word = 3; return attach(w);)
ROW(attach_gpu_word, w->options.release_word = ZERNEL_WORD_GPU;
    CHECK(zernel_tsg(w->runtime, &w->options.tsg) == 0); return attach(w);)
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
ROW(begin_features, w->spec.features = 9; return begin(w);)
ROW(begin_feature, w->spec.features = 1; w->spec.feature[7] = -1; return begin(w);)
ROW(begin_reserved, w->spec.reserved = 1; return begin(w);)
ROW(begin_admitted, return zernel_begin_admitted(w->runtime, &w->spec, 1, &w->request, NULL);)
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
	{ "an unknown release word", attach_word, EINVAL, "ZERNEL_BAD_ARGUMENT" },
	{ "no library for a GPU's word", attach_gpu_word, ENOPKG, "ZERNEL_NO_GPU_WORD" },
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
	{ "too many features", begin_features, EINVAL, "ZERNEL_BAD_ARGUMENT" },
	{ "a feature too many", begin_feature, EINVAL, "ZERNEL_BAD_ARGUMENT" },
	{ "a reserved field of a kind", begin_reserved, EINVAL, "ZERNEL_BAD_ARGUMENT" },
	{ "a promise without a deadline", begin_admitted, EINVAL, "ZERNEL_BAD_ARGUMENT" },
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

void bad_input(void)
{
	struct world w = world_new();
	struct zernel_counters before = counters_of(w.runtime), after;
	struct zernel_stats one = stats_of(w.runtime), other;

	for (size_t at = 0; at < sizeof(table) / sizeof(table[0]); at++) {
		const struct row *row = &table[at];

		w.options = required;
		w.spec = later;
		w.attached = NULL;
		w.request = 7;
		check_error(row->what, row->call(&w), row->error, row->name);
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

static void on_fault(int signal)
{
	_exit(signal);
}

/* A child that unmaps the slots under a request and touches it; returns the status of its end. */
static int unmap_in_a_child(int (*touch)(struct zernel_runtime *runtime, uint64_t request))
{
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		struct program program = program_new();
		struct zernel_runtime *runtime;
		unsigned long from, to;
		uint64_t request;

		(void)program;
		/* One that is handled is not in the kernel's log, where it would be a fault. */
		CHECK(signal(SIGSEGV, on_fault) != SIG_ERR);
		CHECK(zernel_attach(&required, &runtime) == 0);
		CHECK(zernel_begin(runtime, &later, &request) == 0 && request != 0);
		find_slots(&from, &to);
		CHECK(munmap((void *)from, to - from) == 0);
		_exit(touch(runtime, request));
	}
	CHECK(waitpid(child, &status, 0) == child);
	return status;
}

static int touch_ready(struct zernel_runtime *runtime, uint64_t request)
{
	return zernel_ready(runtime, request);
}

/* Calls that leave the words alone go on. */
static int touch_nothing(struct zernel_runtime *runtime, uint64_t request)
{
	uint64_t ns;

	CHECK(zernel_predicted(runtime, request, &ns) == 0);
	CHECK(zernel_get_counters(runtime, &(struct zernel_counters){ .size = 56 }) == 0);
	CHECK(stats_of(runtime).in_flight == 1);
	return 7;
}

/*
 * A program that takes the words of its request away gets the fault that any access to memory that is
 * not there gets; nothing is left of it, as the guest's suite verifies behind each case.
 */
void page_unmapped(void)
{
	int status = unmap_in_a_child(touch_ready);

	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == SIGSEGV);
	status = unmap_in_a_child(touch_nothing);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}
