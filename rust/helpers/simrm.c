// SPDX-License-Identifier: GPL-2.0
/* C side of zernel_simrm.ko: that of zernel_sim.ko, and helpers of rust/glue/simrm/. */

/* The fake GPUs that there can be. */
#define ZERNEL_SIM_GPUS 4

#include "sim.c"

#include <linux/io.h>

#include "simrm_helpers.h"

void zernel_simrm_helper_write(void *reg, u32 value)
{
	writel(value, (void __iomem *)reg);
}
