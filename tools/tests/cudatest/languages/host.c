// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * All of runtime.h, gpu.h and config.h that works on a machine without zernel and without a GPU, in
 * C11: runs the case that its argument names, for tools that look at memory and instructions.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <zernel/config.h>
#include <zernel/gpu.h>
#include <zernel/runtime.h>

#include "program.h"

enum { COUNT = 1000 };

static struct zernel_runtime *attach_in(uint32_t mode)
{
	struct zernel_options options = { .size = sizeof(options), .mode = mode };
	struct zernel_runtime *runtime = NULL;

	CHECK(zernel_attach(&options, &runtime) == 0 && runtime != NULL);
	return runtime;
}

/* The calls of a program for a request, which a tool counts. */
__attribute__((noinline, noclone)) static void one_request(struct zernel_runtime *runtime,
							    const struct zernel_spec *spec)
{
	uint64_t request;

	CHECK(zernel_begin(runtime, spec, &request) == 0);
	CHECK(zernel_ready(runtime, request) == 0);
	CHECK(zernel_done(runtime, request) == 0);
}

static void instructions(void)
{
	struct zernel_spec spec = { .size = sizeof(spec), .key = 7 };
	struct zernel_runtime *runtime = attach_in(ZERNEL_MODE_OFF);

	for (int at = 0; at < COUNT; at++)
		one_request(runtime, &spec);
	zernel_detach(runtime);
}

/* Each call, with good and with bad arguments. */
static void use(struct zernel_runtime *runtime)
{
	struct zernel_counters counters = { .size = sizeof(counters) };
	struct zernel_stats stats = { .size = sizeof(stats) };
	struct zernel_usage usage = { .size = sizeof(usage) };
	struct zernel_spec spec = { .size = sizeof(spec), .key = 7, .features = 2, .feature = { 5, -1 } };
	uint64_t request = 7, word = 7;

	CHECK(zernel_is_inert(runtime) == 1 && strlen(zernel_error_name()) > 0);
	CHECK(zernel_tsg(runtime, &word) == 0 && word == 0);
	for (int at = 0; at < 10; at++) {
		CHECK(zernel_begin(runtime, at % 2 ? &spec : NULL, &request) == 0);
		CHECK(request == 0);
		CHECK(zernel_predicted(runtime, request, &word) == 0 && word == 0);
		CHECK(zernel_ready(runtime, request) == 0);
		CHECK(zernel_done(runtime, request) == 0);
		CHECK(zernel_done_in(runtime, request, NULL) == 0);
		CHECK(zernel_cancel(runtime, request) == 0);
	}
	CHECK(zernel_set_level(runtime, 0) == 0 && zernel_set_timeslice(runtime, 200) == 0);
	CHECK(zernel_clear_level(runtime) == 0);
	CHECK(zernel_get_counters(runtime, &counters) == 0 && counters.begun == 0);
	CHECK(zernel_get_stats(runtime, &stats) == 0 && stats.begun == 0);
	CHECK(zernel_get_usage(runtime, &usage) == 0 && usage.busy_ns == 0);
	CHECK(zernel_done(runtime, 129) == -ESTALE && strlen(zernel_error()) > 0);
	CHECK(zernel_begin_admitted(runtime, &spec, 1, &request, &word) == -EINVAL);
	spec.slo_ns = 1;
	CHECK(zernel_begin_admitted(runtime, &spec, 1, &request, &word) == 0 && word == 0);
	spec.features = 1;
	CHECK(zernel_begin(runtime, &spec, &request) == -EINVAL && request == 0);
	CHECK(zernel_set_level(runtime, 8) == -EINVAL);
	CHECK(zernel_get_stats(runtime, NULL) == -EINVAL);
}

/* Classes that are wanted. */
static void want(struct zernel_runtime *runtime)
{
	uint64_t one = 0, two = 0;

	CHECK(zernel_want_class(runtime, 0, 0, &one) == 0);
	CHECK(zernel_want_class(runtime, 7, 500, &two) == 0);
	CHECK(zernel_want_class(runtime, 3, 0, &one) == 0);
	CHECK(zernel_drop_class(runtime, one) == 0);
	CHECK(zernel_drop_class(runtime, one) == -EIDRM);
}

/* Graphs. */
static void graph(struct zernel_runtime *runtime)
{
	struct zernel_spec spec = { .size = sizeof(spec), .flags = ZERNEL_SPEC_INLINE };
	uint64_t one = 0, left = 0, request = 7;

	CHECK(zernel_graph_record(runtime, NULL, &one) == 0 && one != 0);
	CHECK(zernel_graph_record(runtime, NULL, &left) == 0 && left != one);
	CHECK(zernel_graph_begin(runtime, one, NULL, &request) == -ENOEXEC && request == 7);
	CHECK(zernel_graph_instantiated(runtime, one, NULL) == -EINVAL);
	/* Nothing is recorded in it, so nobody looks at it. */
	CHECK(zernel_graph_instantiated(runtime, one, &spec) == 0);
	CHECK(zernel_graph_begin(runtime, one, &spec, &request) == -EINVAL && request == 7);
	CHECK(zernel_graph_begin(runtime, one, NULL, &request) == 0 && request == 0);
	CHECK(zernel_ready(runtime, request) == 0 && zernel_done(runtime, request) == 0);
	CHECK(zernel_graph_destroy(runtime, one) == 0);
	CHECK(zernel_graph_destroy(runtime, one) == -EBADR);
	CHECK(strcmp(zernel_error_name(), "ZERNEL_UNKNOWN_GRAPH") == 0);
}

static void inert(void)
{
	struct zernel_options options = { .size = sizeof(options), .lanes = 65 };
	struct zernel_runtime *runtime = NULL;
	int status;
	pid_t child;

	CHECK(zernel_attach(&options, &runtime) == -EINVAL && runtime == NULL);
	options.lanes = 0;
	options.mode = ZERNEL_MODE_REQUIRE;
	CHECK(zernel_attach(&options, &runtime) == -ENOENT && runtime == NULL);
	CHECK(strcmp(zernel_error_name(), "ZERNEL_NO_MODULE") == 0);
	for (uint32_t mode = ZERNEL_MODE_AUTO; mode <= ZERNEL_MODE_OFF; mode++) {
		runtime = attach_in(mode);
		use(runtime);
		want(runtime);
		graph(runtime);
		zernel_detach(runtime);
	}
	zernel_detach(NULL);
	runtime = attach_in(ZERNEL_MODE_OFF);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		uint64_t one = 0;

		use(runtime);
		/* A thread of the parent may have had the lock. */
		CHECK(zernel_want_class(runtime, 0, 0, &one) == -ECHILD && one == 0);
		CHECK(zernel_drop_class(runtime, 1) == -ECHILD);
		CHECK(zernel_graph_record(runtime, NULL, &one) == -ECHILD && one == 0);
		CHECK(zernel_graph_begin(runtime, 1, NULL, &one) == 0);
		zernel_detach(runtime);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	zernel_detach(runtime);
}

static void write_config(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void config(void)
{
	static const struct {
		const char *text;
		int error;
	} files[] = {
		{ "preemption: {lanes: 8}\npolicy: {name: credit}\n", 0 },
		{ "a: [", EBADMSG },
		{ "policy: {nam: fair}", ENOKEY },
		{ "policy: fair", EPROTOTYPE },
		{ "preemption: {lanes: 65}", ERANGE },
		{ "priorities: {best_effort: x}", EDOM },
		{ "priorities: {best_effort: 0, latency_critical: 1}", EDEADLK },
		{ "policy: {name: x}", ENOSTR },
	};
	char path[] = "/tmp/zernel-XXXXXX";
	int fd = mkstemp(path);

	CHECK(fd >= 0 && close(fd) == 0);
	for (size_t at = 0; at < sizeof(files) / sizeof(files[0]); at++) {
		struct zernel_config config = { .size = sizeof(config) };

		write_config(path, files[at].text);
		CHECK(zernel_config_read(path, &config) == -files[at].error);
		CHECK(files[at].error == 0 || strstr(zernel_error(), path) != NULL);
		CHECK(config.lanes == (files[at].error == 0 ? 8u : 0u));
	}
	CHECK(unlink(path) == 0);
	CHECK(zernel_config_read(path, &(struct zernel_config){ .size = 80 }) == -ENOENT);
	CHECK(zernel_config_read(NULL, &(struct zernel_config){ .size = 80 }) == 0);
	CHECK(zernel_config_read(NULL, NULL) == -EINVAL);
}

/* CUDA, or the stand-in for it, is there, and has no GPU. */
static void no_gpu(void)
{
	struct zernel_gpu *gpu = NULL;

	CHECK(zernel_gpu_open(0, &gpu) < 0 && gpu == NULL);
	CHECK(strlen(zernel_error()) > 0);
	zernel_gpu_close(gpu);
	CHECK(zernel_gpu_enter(gpu) == -EINVAL);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "inert", inert },
		{ "config", config },
		{ "no_gpu", no_gpu },
		{ "instructions", instructions },
	};

	return run_case(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
