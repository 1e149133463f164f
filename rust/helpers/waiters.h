/* SPDX-License-Identifier: GPL-2.0 */
/* Wake-ups of long wait queues in short holds: helpers of rust/glue/core/waiters.rs. */
#ifndef ZERNEL_WAITERS_H
#define ZERNEL_WAITERS_H

#include <linux/types.h>

struct wait_queue_head;

bool zernel_helper_waiters_any(struct wait_queue_head *queue);
u64 zernel_helper_waiters_wake(struct wait_queue_head *queue);

#endif /* ZERNEL_WAITERS_H */
