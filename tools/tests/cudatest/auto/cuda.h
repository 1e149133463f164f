/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The functions of CUDA's driver that the test programs use, reached in one of several ways:
 * linked (LINKED), by dlopen() and dlsym(), or by cuGetProcAddress(); PER_THREAD: with the default
 * streams of threads.
 */
#ifndef ZERNEL_TEST_CUDA_H
#define ZERNEL_TEST_CUDA_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int result;
typedef unsigned long long address;
typedef void *handle;

/* A launch of cuLaunchKernelEx. */
struct launch {
	unsigned int grid[3], block[3], shared;
	handle stream;
	void *attributes;
	unsigned int count;
};

/* Rows of cuMemcpy2D. */
struct rows {
	size_t from_x, from_y;
	unsigned int from_kind;
	const void *from_host;
	address from_device;
	handle from_array;
	size_t from_pitch, to_x, to_y;
	unsigned int to_kind;
	void *to_host;
	address to_device;
	handle to_array;
	size_t to_pitch, width, height;
};

#ifdef PER_THREAD
#define D(symbol) symbol##_ptds
#define Z(symbol) symbol##_ptsz
#define IS_PER_THREAD 1
#else
#define D(symbol) symbol
#define Z(symbol) symbol
#define IS_PER_THREAD 0
#endif

/* Field, symbol, name and version for cuGetProcAddress(), arguments. */
#define FUNCTIONS(F) \
	F(init, cuInit, "cuInit", 2000, (unsigned int)) \
	F(context_create, cuCtxCreate_v2, "cuCtxCreate", 3020, (handle *, unsigned int, int)) \
	F(context_destroy, cuCtxDestroy_v2, "cuCtxDestroy", 4000, (handle)) \
	F(context_current, cuCtxGetCurrent, "cuCtxGetCurrent", 4000, (handle *)) \
	F(context_set, cuCtxSetCurrent, "cuCtxSetCurrent", 4000, (handle)) \
	F(context_wait, cuCtxSynchronize, "cuCtxSynchronize", 2000, (void)) \
	F(primary_retain, cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, \
	  (handle *, int)) \
	F(primary_release, cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, (int)) \
	F(primary_reset, cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, (int)) \
	F(module_load, cuModuleLoadData, "cuModuleLoadData", 2000, (handle *, const void *)) \
	F(module_unload, cuModuleUnload, "cuModuleUnload", 2000, (handle)) \
	F(function, cuModuleGetFunction, "cuModuleGetFunction", 2000, \
	  (handle *, handle, const char *)) \
	F(alloc, cuMemAlloc_v2, "cuMemAlloc", 3020, (address *, size_t)) \
	F(free, cuMemFree_v2, "cuMemFree", 3020, (address)) \
	F(alloc_host, cuMemHostAlloc, "cuMemHostAlloc", 2020, (void **, size_t, unsigned int)) \
	F(free_host, cuMemFreeHost, "cuMemFreeHost", 2000, (void *)) \
	F(in, D(cuMemcpyHtoD_v2), "cuMemcpyHtoD", 3020, (address, const void *, size_t)) \
	F(in_later, Z(cuMemcpyHtoDAsync_v2), "cuMemcpyHtoDAsync", 3020, \
	  (address, const void *, size_t, handle)) \
	F(out, D(cuMemcpyDtoH_v2), "cuMemcpyDtoH", 3020, (void *, address, size_t)) \
	F(out_later, Z(cuMemcpyDtoHAsync_v2), "cuMemcpyDtoHAsync", 3020, \
	  (void *, address, size_t, handle)) \
	F(within_later, Z(cuMemcpyDtoDAsync_v2), "cuMemcpyDtoDAsync", 3020, \
	  (address, address, size_t, handle)) \
	F(any, D(cuMemcpy), "cuMemcpy", 4000, (address, address, size_t)) \
	F(any_later, Z(cuMemcpyAsync), "cuMemcpyAsync", 4000, (address, address, size_t, handle)) \
	F(rows, D(cuMemcpy2D_v2), "cuMemcpy2D", 3020, (const struct rows *)) \
	F(rows_later, Z(cuMemcpy2DAsync_v2), "cuMemcpy2DAsync", 3020, \
	  (const struct rows *, handle)) \
	F(set_later, Z(cuMemsetD32Async), "cuMemsetD32Async", 3020, \
	  (address, unsigned int, size_t, handle)) \
	F(launch, Z(cuLaunchKernel), "cuLaunchKernel", 4000, \
	  (handle, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, \
	   unsigned int, unsigned int, handle, void **, void **)) \
	F(launch_ex, Z(cuLaunchKernelEx), "cuLaunchKernelEx", 11060, \
	  (const struct launch *, handle, void **, void **)) \
	F(launch_together, Z(cuLaunchCooperativeKernel), "cuLaunchCooperativeKernel", 9000, \
	  (handle, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, \
	   unsigned int, unsigned int, handle, void **)) \
	F(stream_create, cuStreamCreate, "cuStreamCreate", 2000, (handle *, unsigned int)) \
	F(stream_destroy, cuStreamDestroy_v2, "cuStreamDestroy", 4000, (handle)) \
	F(stream_wait, Z(cuStreamSynchronize), "cuStreamSynchronize", 2000, (handle)) \
	F(stream_query, Z(cuStreamQuery), "cuStreamQuery", 2000, (handle)) \
	F(event_create, cuEventCreate, "cuEventCreate", 2000, (handle *, unsigned int)) \
	F(event_destroy, cuEventDestroy_v2, "cuEventDestroy", 4000, (handle)) \
	F(event_record, Z(cuEventRecord), "cuEventRecord", 2000, (handle, handle)) \
	F(event_wait, cuEventSynchronize, "cuEventSynchronize", 2000, (handle)) \
	F(event_query, cuEventQuery, "cuEventQuery", 2000, (handle)) \
	F(capture_begin, Z(cuStreamBeginCapture_v2), "cuStreamBeginCapture", 10010, (handle, int)) \
	F(capture_end, Z(cuStreamEndCapture), "cuStreamEndCapture", 10000, (handle, handle *)) \
	F(instantiate, cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", 11040, \
	  (handle *, handle, address)) \
	F(graph_launch, Z(cuGraphLaunch), "cuGraphLaunch", 10000, (handle, handle)) \
	F(graph_destroy, cuGraphDestroy, "cuGraphDestroy", 10000, (handle)) \
	F(exec_destroy, cuGraphExecDestroy, "cuGraphExecDestroy", 10000, (handle))

#define FIELD(field, symbol, name, version, arguments) result(*field) arguments;
static struct {
	FUNCTIONS(FIELD)
} cuda;
#undef FIELD

static void fail(const char *what, int status)
{
	fprintf(stderr, "%s: %d\n", what, status);
	exit(1);
}

#define CHECK(call) \
	do { \
		int status_ = (call); \
		if (status_) \
			fail(#call, status_); \
	} while (0)

#define TEXT_(text) #text
#define TEXT(text) TEXT_(text)

#ifdef LINKED
#define DECLARE(field, symbol, name, version, arguments) extern result symbol arguments;
FUNCTIONS(DECLARE)

static void reach(const char *way)
{
	if (strcmp(way, "linked"))
		fail(way, 0);
#define TAKE(field, symbol, name, version, arguments) cuda.field = symbol;
	FUNCTIONS(TAKE)
}
#else
static void *library;

static void *by_symbol(const char *symbol)
{
	void *found = dlsym(library, symbol);

	if (!found)
		fail(symbol, 0);
	return found;
}

static void *by_name(const char *way, const char *name, int version)
{
	/* 11: the first form, without a status, as programs of CUDA 11 have it. */
	const int is_old = !strcmp(way, "name11");
	static result (*first)(const char *, void **, int, address);
	static result (*second)(const char *, void **, int, address, int *);
	void *found = NULL;
	int status = 0;
	static int newest;

	if (!second) {
		first = (result(*)(const char *, void **, int, address))by_symbol("cuGetProcAddress");
		second = (result(*)(const char *, void **, int, address, int *))
			by_symbol("cuGetProcAddress_v2");
		CHECK(((result(*)(int *))by_symbol("cuDriverGetVersion"))(&newest));
		/* As libcudart does: the function is asked for itself. */
		if (newest >= 12000) {
			CHECK(second("cuGetProcAddress", &found, 12000, 0, &status));
			second = (result(*)(const char *, void **, int, address, int *))found;
		}
	}
	/* With the newest version that the driver has, as libcudart asks; newer ones are refused. */
	if (strcmp(name, "cuCtxCreate")) {
		version = is_old ? 11080 : 12080;
		if (version > newest)
			version = newest;
	}
	if (is_old)
		CHECK(first(name, &found, version, IS_PER_THREAD ? 2 : 0));
	else
		CHECK(second(name, &found, version, IS_PER_THREAD ? 2 : 1, &status));
	if (!found || status)
		fail(name, status);
	return found;
}

static void *find(const char *way, const char *symbol, const char *name, int version)
{
	return strcmp(way, "symbol") ? by_name(way, name, version) : by_symbol(symbol);
}

static void reach(const char *way)
{
	library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		fail(dlerror(), 0);
	if (strcmp(way, "symbol") && strcmp(way, "name") && strcmp(way, "name11"))
		fail(way, 0);
#define TAKE(field, symbol, name, version, arguments) \
	cuda.field = (result(*) arguments)find(way, TEXT(symbol), name, version);
	FUNCTIONS(TAKE)
}
#endif

static const char kernels[] =
	".version 6.4\n.target sm_70\n.address_size 64\n"
	".visible .entry zernel_spin(.param .u64 ns) { ret; }\n"
	".visible .entry zernel_mac(.param .u64 out, .param .u32 n, .param .u32 seed,"
	" .param .u32 rounds) { ret; }\n"
	".visible .entry saxpy(.param .u32 n, .param .f32 a, .param .u64 x, .param .u64 y)"
	" { ret; }\n";

#endif
