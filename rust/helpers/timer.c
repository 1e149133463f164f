// SPDX-License-Identifier: GPL-2.0
/* Helpers of rust/glue/kernel/timer.rs. Included like irqlock.c. */

#include <linux/hrtimer.h>

#include "timer.h"

/*
 * In the callback of a timer, with the lock under which it is started: has it expire again at
 * @at if the callback returns HRTIMER_RESTART. False if somebody has started it meanwhile.
 */
bool zernel_helper_timer_again(struct hrtimer *timer, s64 at)
{
	if (hrtimer_is_queued(timer))
		return false;
	hrtimer_set_expires(timer, at);
	return true;
}
