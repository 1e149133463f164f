/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program with a context and a kernel that takes time. */
#ifndef LANGUAGES_PROGRAM_H
#define LANGUAGES_PROGRAM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

/* Ends the program, and so the test, with the place. */
#define CHECK(condition)                                                                   \
	do {                                                                               \
		if (!(condition)) {                                                        \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);    \
			exit(1);                                                           \
		}                                                                          \
	} while (0)

/* A test of a program. */
struct test_case {
	const char *name;
	void (*run)(void);
};

/* Runs the test that the argument names; the exit status of the program. */
static inline int run_case(const struct test_case *cases, size_t count, int argc, char **argv)
{
	for (size_t at = 0; at < count; at++) {
		if (argc == 2 && strcmp(argv[1], cases[at].name) == 0) {
			cases[at].run();
			return 0;
		}
	}
	fprintf(stderr, "usage: %s CASE\n", argv[0]);
	return 2;
}

/* A context, current, with two kernels: one takes the time that it is told, one is a fault. */
struct program {
	CUcontext context;
	CUfunction spin;
	CUfunction fault;
};

static inline struct program program_new(void)
{
	static const char text[] = ".version 6.4\n.target sm_70\n.address_size 64\n"
				   ".visible .entry zernel_spin(.param .u64 ns) { ret; }\n"
				   ".visible .entry zernel_fault() { ret; }\n";
	struct program made;
	CUmodule module;

	CHECK(cuInit(0) == 0);
	CHECK(cuCtxCreate_v2(&made.context, 0, 0) == 0);
	CHECK(cuModuleLoadData(&module, text) == 0);
	CHECK(cuModuleGetFunction(&made.spin, module, "zernel_spin") == 0);
	CHECK(cuModuleGetFunction(&made.fault, module, "zernel_fault") == 0);
	return made;
}

/* The status of launching a kernel of so many nanoseconds. */
static inline CUresult program_work(const struct program *program, CUstream stream, uint64_t ns)
{
	void *arguments[] = { &ns };

	return cuLaunchKernel(program->spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

static inline CUresult program_fail(const struct program *program, CUstream stream)
{
	return cuLaunchKernel(program->fault, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}

#endif /* LANGUAGES_PROGRAM_H */
