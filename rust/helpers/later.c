// SPDX-License-Identifier: GPL-2.0
/*
 * Frees after a grace period, by a work. RCU's own callbacks run in a softirq, some hundred in one
 * section without preemption: a tenant who lets thousands of objects go would hold up a CPU.
 */

#include <linux/bitops.h>
#include <linux/llist.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

#include "later.h"

static void free_due(struct work_struct *work);

/* Objects that were let go, and those of them whose grace period has begun. */
static LLIST_HEAD(let_go);
static struct llist_node *due;
/* Bit 0: the work waits or runs; due belongs to it. */
static unsigned long busy;
static struct rcu_work freer = {
	.work = __WORK_INITIALIZER(freer.work, free_due),
};

static void free_next(void)
{
	while (!llist_empty(&let_go) && !test_and_set_bit(0, &busy)) {
		due = llist_del_all(&let_go);
		if (due) {
			queue_rcu_work(system_dfl_wq, &freer);
			return;
		}
		/* Another one was faster, and has done them already. */
		clear_bit_unlock(0, &busy);
		/* As in free_due(). */
		smp_mb__after_atomic();
	}
}

static void free_due(struct work_struct *work)
{
	struct llist_node *at = due;

	while (at) {
		/* Linked by its first word. */
		struct callback_head *head = (struct callback_head *)at;

		at = at->next;
		head->func(head);
		cond_resched();
	}
	clear_bit_unlock(0, &busy);
	/* A call that let one go before that has left it to this one. */
	smp_mb__after_atomic();
	free_next();
}

/* Calls free with head, in process context, when no reader can have it any more. In any context. */
void zernel_helper_free_later(struct callback_head *head, rcu_callback_t free)
{
	static_assert(offsetof(struct callback_head, next) == offsetof(struct llist_node, next));

	head->func = free;
	llist_add((struct llist_node *)head, &let_go);
	free_next();
}

/* Waits until all that was let go is freed. Sleeps. */
void zernel_helper_free_wait(void)
{
	while (!llist_empty(&let_go) || test_bit(0, &busy)) {
		free_next();
		flush_rcu_work(&freer);
		cond_resched();
	}
	/* The last one is on its way out of the work. */
	flush_rcu_work(&freer);
}
