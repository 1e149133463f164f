/* SPDX-License-Identifier: GPL-2.0 */
/* Counters of the machine: helpers of rust/glue/core/load.rs. */

#ifndef ZERNEL_LOAD_H
#define ZERNEL_LOAD_H

#include <linux/types.h>

/* As Raw in rust/glue/core/load.rs. */
struct zernel_load {
	u64 busy_ns;
	u64 io_ns;
	u64 stalls;
	u32 cpus;
};

void zernel_helper_load(struct zernel_load *load);

#endif
