// SPDX-License-Identifier: MIT OR Apache-2.0
/* A server and a job in C, which are processes of their own on one GPU. */
#define _GNU_SOURCE
#include <poll.h>

#include "test.h"

enum { COUNT = 50, PREPARE_US = 300, ANSWER_NS = 200000, JOB_NS = 1000000, PATIENCE_MS = 10000 };

/* Best-effort work until the input ends; it says when it has begun. */
void job(void)
{
	struct program program = program_new();
	struct zernel_usage usage = { .size = sizeof(usage) };
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	struct zernel_runtime *runtime;

	CHECK(zernel_attach(&required, &runtime) == 0 && zernel_set_level(runtime, 7) == 0);
	for (int round = 0; poll(&input, 1, 0) == 0; round++) {
		for (int at = 0; at < 4; at++)
			CHECK(program_work(&program, NULL, JOB_NS) == CUDA_SUCCESS);
		CHECK(cuStreamSynchronize(NULL) == CUDA_SUCCESS);
		if (round == 0)
			CHECK(puts("it works") >= 0 && fflush(stdout) == 0);
	}
	/* Others had the GPU meanwhile, which zernel looks at from time to time. */
	for (int at = 0; at < PATIENCE_MS && usage.times_preempted == 0; at++) {
		CHECK(zernel_get_usage(runtime, &usage) == 0 && usleep(1000) == 0);
	}
	CHECK(usage.times_preempted > 0);
	zernel_detach(runtime);
	CHECK(cuCtxDestroy(program.context) == CUDA_SUCCESS);
}

/* Answers, with requests of these flags or without. */
static void serve(int has_requests, uint32_t flags)
{
	struct program program = program_new();
	struct zernel_runtime *runtime;
	struct zernel_stats stats;
	struct zernel_spec spec = { .size = sizeof(spec), .flags = flags, .key = 7 };
	uint64_t request = 0;
	CUstream stream;

	CHECK(zernel_attach(&required, &runtime) == 0 && zernel_set_level(runtime, 0) == 0);
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	if (flags & ZERNEL_SPEC_INLINE)
		spec.stream = stream;
	for (int at = 0; at < COUNT; at++) {
		if (has_requests)
			CHECK(zernel_begin(runtime, &spec, &request) == 0 && request != 0);
		CHECK(usleep(PREPARE_US) == 0);
		CHECK(program_work(&program, stream, ANSWER_NS) == CUDA_SUCCESS);
		CHECK(zernel_ready(runtime, request) == 0);
		CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
		CHECK(zernel_done(runtime, request) == 0);
	}
	stats = stats_of(runtime);
	CHECK(stats.begun == (has_requests ? COUNT : 0));
	CHECK(stats.done + stats.in_flight == stats.begun && stats.in_flight <= 1);
	CHECK(!has_requests || stats.triggers > 0);
	zernel_detach(runtime);
	CHECK(cuCtxDestroy(program.context) == CUDA_SUCCESS);
}

void serve_by_class(void)
{
	serve(0, 0);
}

void serve_beside(void)
{
	serve(1, 0);
}

void serve_inline(void)
{
	serve(1, ZERNEL_SPEC_INLINE);
}
