/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A graph that is captured from a stream. */
#ifndef LANGUAGES_CAPTURE_H
#define LANGUAGES_CAPTURE_H

#include "program.h"

/* A captured graph, and one of it that can be launched. */
struct captured {
	CUgraph graph;
	CUgraphExec exec;
};

static inline void capture_begin(CUstream stream)
{
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
}

/* The end of a capture, with a kernel of so many nanoseconds as its last node. */
static inline struct captured capture_end(const struct program *program, CUstream stream,
					  uint64_t ns)
{
	struct captured captured;

	CHECK(program_work(program, stream, ns) == CUDA_SUCCESS);
	CHECK(cuStreamEndCapture(stream, &captured.graph) == CUDA_SUCCESS);
	CHECK(cuGraphInstantiateWithFlags(&captured.exec, captured.graph, 0) == CUDA_SUCCESS);
	return captured;
}

static inline void captured_destroy(const struct captured *captured)
{
	CHECK(cuGraphExecDestroy(captured->exec) == CUDA_SUCCESS);
	CHECK(cuGraphDestroy(captured->graph) == CUDA_SUCCESS);
}

#endif /* LANGUAGES_CAPTURE_H */
