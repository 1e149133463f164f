/* SPDX-License-Identifier: GPL-2.0 */
/* Frees after a grace period: see later.c. */
#ifndef ZERNEL_LATER_H
#define ZERNEL_LATER_H

#include <linux/rcupdate.h>

void zernel_helper_free_later(struct callback_head *head, rcu_callback_t free);
void zernel_helper_free_wait(void);

#endif /* ZERNEL_LATER_H */
