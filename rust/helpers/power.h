/* SPDX-License-Identifier: GPL-2.0 */
/* The sleep of the whole system: helpers of rust/glue/core/power.rs. */
#ifndef ZERNEL_POWER_H
#define ZERNEL_POWER_H

#include <linux/types.h>

int zernel_helper_power_watch(void);
void zernel_helper_power_ignore(void);
void zernel_rust_system_sleeps(bool asleep);

#endif /* ZERNEL_POWER_H */
