/* SPDX-License-Identifier: GPL-2.0 */
/* Counters of the machine: helpers of rust/glue/core/load.rs. */

#ifndef ZERNEL_LOAD_H
#define ZERNEL_LOAD_H

#include <linux/build_bug.h>
#include <linux/stddef.h>
#include <linux/types.h>

/* As Raw in rust/glue/core/load.rs. */
struct zernel_load {
	u64 busy_ns;
	u64 io_ns;
	u64 stalls;
	u32 cpus;
};
static_assert(offsetof(struct zernel_load, cpus) == 3 * sizeof(u64));
static_assert(sizeof(struct zernel_load) == 4 * sizeof(u64));

void zernel_helper_load(struct zernel_load *load);

#endif
