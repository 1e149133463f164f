/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The configuration file of programs with a scheduler, for C.
 *
 * Errors have the file, the line and the field in zernel_error() (runtime.h):
 *
 * that of the call  ZERNEL_CONFIG_UNREADABLE     the file cannot be read
 * -EFBIG            ZERNEL_CONFIG_TOO_LONG       it has more than 64 KiB
 * -EILSEQ           ZERNEL_CONFIG_NOT_TEXT       it is not UTF-8
 * -EBADMSG          ZERNEL_CONFIG_NOT_YAML       it is not YAML
 * -ENOKEY           ZERNEL_CONFIG_UNKNOWN_FIELD  a section or field is not known
 * -EPROTOTYPE       ZERNEL_CONFIG_WRONG_TYPE     a value has another type
 * -ERANGE           ZERNEL_CONFIG_OUT_OF_RANGE   a number is out of range
 * -EDOM             ZERNEL_CONFIG_NO_LEVEL       a value is no level
 * -EDEADLK          ZERNEL_CONFIG_WRONG_ORDER    best-effort work would be the more urgent
 * -ENOSTR           ZERNEL_CONFIG_UNKNOWN_WORD   a word is none of a list
 */
#ifndef ZERNEL_CONFIG_H
#define ZERNEL_CONFIG_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct zernel_config - a configuration
 * @size: in: sizeof(struct zernel_config)
 * @gpu: scheduler.gpu_id: number of the device as CUDA counts them
 * @lc_level: priorities.latency_critical: 0 (most urgent) to 7
 * @be_level: priorities.best_effort: likewise
 * @lc_slice_us: slices.latency_critical_us; 0: that of the level
 * @be_slice_us: slices.best_effort_us; 0: that of the level
 * @preemption: preemption.enabled: 0 or 1
 * @lanes: preemption.lanes: 1 to 64
 * @linger_ns: preemption.linger_us, in nanoseconds
 * @bound_ns: preemption.bound_us, in nanoseconds; 0: the usual
 * @is_inline: preemption.inline: 0 or 1
 * @workers: resources.workers: threads for each type of task
 * @queue: resources.queue: calls of each type that may wait
 * @window: monitoring.window: latest latencies that percentiles are taken of
 * @policy: policy.name, with its zero
 * @release_word: preemption.release_word: enum zernel_word (runtime.h)
 * @reserved: 0
 */
struct zernel_config {
	uint32_t size;
	uint32_t gpu;
	uint32_t lc_level;
	uint32_t be_level;
	uint32_t lc_slice_us;
	uint32_t be_slice_us;
	uint32_t preemption;
	uint32_t lanes;
	uint64_t linger_ns;
	uint64_t bound_ns;
	uint32_t is_inline;
	uint32_t workers;
	uint32_t queue;
	uint32_t window;
	char policy[16];
	uint32_t release_word;
	uint32_t reserved;
};

/* Reads a file; NULL: one with nothing in it, for the defaults. */
int zernel_config_read(const char *path, struct zernel_config *config);

#ifdef __cplusplus
}
#endif

#endif /* ZERNEL_CONFIG_H */
