// SPDX-License-Identifier: GPL-2.0
/* Helpers of rust/glue/core/power.rs. Included like irqlock.c. */

#include <linux/notifier.h>
#include <linux/suspend.h>

#include "power.h"

static int power_notify(struct notifier_block *nb, unsigned long event, void *data)
{
	switch (event) {
	case PM_SUSPEND_PREPARE:
	case PM_HIBERNATION_PREPARE:
	case PM_RESTORE_PREPARE:
		zernel_rust_system_sleeps(true);
		break;
	case PM_POST_SUSPEND:
	case PM_POST_HIBERNATION:
	case PM_POST_RESTORE:
		zernel_rust_system_sleeps(false);
		break;
	}
	return NOTIFY_DONE;
}

static struct notifier_block power_notifier = {
	.notifier_call = power_notify,
};

int zernel_helper_power_watch(void)
{
	return register_pm_notifier(&power_notifier);
}

/* Waits for a call that is under way. */
void zernel_helper_power_ignore(void)
{
	unregister_pm_notifier(&power_notifier);
}
