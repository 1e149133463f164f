/* SPDX-License-Identifier: GPL-2.0 */
/* High-resolution timers: helpers of rust/glue/kernel/timer.rs. */
#ifndef ZERNEL_TIMER_H
#define ZERNEL_TIMER_H

#include <linux/types.h>

struct hrtimer;

bool zernel_helper_timer_again(struct hrtimer *timer, s64 at);

#endif /* ZERNEL_TIMER_H */
