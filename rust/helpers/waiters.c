// SPDX-License-Identifier: GPL-2.0
/*
 * Helpers of rust/glue/core/waiters.rs. Included like irqlock.c.
 *
 * wake_up() walks a whole wait queue with its lock held and interrupts off, and a program decides
 * how long the queue of its file is. Here the walk lets go of the lock after a few waiters and finds
 * its way back by a bookmark, an entry of its own in the queue.
 */

#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/wait.h>

#include "waiters.h"

/* Waiters woken in one hold: each takes some 200 (epoll) to 2,000 (a thread) instructions. */
#define ZERNEL_WAKE_AT_ONCE 4

/* Another walk comes upon a bookmark. */
static int zernel_bookmark(struct wait_queue_entry *entry, unsigned int mode, int flags, void *key)
{
	return 0;
}

bool zernel_helper_waiters_any(struct wait_queue_head *queue)
{
	/* No barrier: a waiter looks at its condition under a lock that the caller holds. */
	return waitqueue_active(queue);
}

/*
 * Wakes all that waited when it was called. May sleep, between holds of the lock of the queue.
 * Returns the time of the holds in ns: no other thread ran in it.
 */
u64 zernel_helper_waiters_wake(struct wait_queue_head *queue)
{
	struct wait_queue_entry here, end;
	bool more = true;
	u64 spent = 0;

	might_sleep();
	init_waitqueue_func_entry(&here, zernel_bookmark);
	init_waitqueue_func_entry(&end, zernel_bookmark);
	spin_lock_irq(&queue->lock);
	list_add(&here.entry, &queue->head);
	/* Those who come later look at the condition later, and need not be woken. */
	list_add_tail(&end.entry, &queue->head);
	for (;;) {
		u64 began = local_clock();

		for (int i = 0; i < ZERNEL_WAKE_AT_ONCE; i++) {
			struct wait_queue_entry *next = list_next_entry(&here, entry);

			more = next != &end;
			if (!more)
				break;
			/* First, for a waiter that is woken may be gone. */
			list_move(&here.entry, &next->entry);
			/* Without a key: for events, or because none come any more. */
			next->func(next, TASK_NORMAL, 0, NULL);
		}
		spent += local_clock() - began;
		if (!more)
			break;
		spin_unlock_irq(&queue->lock);
		cond_resched();
		spin_lock_irq(&queue->lock);
	}
	list_del(&here.entry);
	list_del(&end.entry);
	spin_unlock_irq(&queue->lock);
	return spent;
}
