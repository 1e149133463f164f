/* SPDX-License-Identifier: GPL-2.0 */
/* C side of rust/glue/simrm/. */
#ifndef ZERNEL_SIMRM_HELPERS_H
#define ZERNEL_SIMRM_HELPERS_H

#include <linux/types.h>

void zernel_simrm_helper_write(void *reg, u32 value);

#endif /* ZERNEL_SIMRM_HELPERS_H */
