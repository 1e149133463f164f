/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The stream of CUDA's runtime API, where CUDA's own header is not installed. */
#ifndef LANGUAGES_CUDA_RUNTIME_API_H
#define LANGUAGES_CUDA_RUNTIME_API_H

typedef struct CUstream_st *cudaStream_t;

#endif /* LANGUAGES_CUDA_RUNTIME_API_H */
