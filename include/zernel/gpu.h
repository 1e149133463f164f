/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A context of CUDA and its streams, for libraries that build upon requests (runtime.hpp) and link
 * no CUDA. A program that has CUDA's own interface does not need them.
 *
 * Calls return 0 or a negative errno, as those of runtime.h, and have its errors. Also:
 *
 * -ELIBACC    ZERNEL_NO_CUDA         libcuda.so.1 is missing, too old or lacks a function
 * -ENXIO      ZERNEL_NO_DEVICE       CUDA has no such device
 * -EBADSLT    ZERNEL_UNKNOWN_STREAM  the stream is none of zernel_stream_create(), or is destroyed
 * -EIO        ZERNEL_CUDA_FAILED     a call of CUDA failed
 */
#ifndef ZERNEL_GPU_H
#define ZERNEL_GPU_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A context. Threads share it. */
struct zernel_gpu;

/*
 * The context that is current in this thread, if it is on the device of this number; else the
 * primary context of the device, which is retained until zernel_gpu_close().
 */
int zernel_gpu_open(uint32_t device, struct zernel_gpu **gpu);

/*
 * Ends it and destroys its streams; work in them goes on. NULL is none. No other call on it may be
 * under way. A context that was the program's must live until then.
 */
void zernel_gpu_close(struct zernel_gpu *gpu);

/* Makes it the context of this thread's calls from now on. */
int zernel_gpu_enter(struct zernel_gpu *gpu);

/*
 * A new stream of it, apart from the default stream; a CUstream or cudaStream_t. @is_urgent: 1 for
 * the highest priority that streams have, 0 for the usual one.
 */
int zernel_stream_create(struct zernel_gpu *gpu, int is_urgent, void **stream);

/* Destroys a stream; work in it goes on. */
int zernel_stream_destroy(struct zernel_gpu *gpu, void *stream);

/* Waits until all that is in a stream is over. */
int zernel_stream_synchronize(struct zernel_gpu *gpu, void *stream);

#ifdef __cplusplus
}
#endif

#endif /* ZERNEL_GPU_H */
