/* SPDX-License-Identifier: GPL-2.0 */
/* C side of rust/glue/core/nice.rs: nice values of threads, and of those that they make. */
#ifndef ZERNEL_NICE_H
#define ZERNEL_NICE_H

#include <linux/types.h>

struct task_struct;

/* The scheduler's account of a thread. */
struct zernel_niceness {
	s32 now;
	/* The lowest that it may have by itself: 20 if it may not lower it. */
	s32 lowest;
	/* Its policy is SCHED_NORMAL or SCHED_BATCH. */
	bool fair;
	bool exits;
};

void zernel_helper_niceness(struct task_struct *task, struct zernel_niceness *niceness);
void zernel_helper_set_nice(struct task_struct *task, s32 nice);
int zernel_helper_births_on(void *table);
void zernel_helper_births_off(void *table);

/* Defined in rust/glue/core/nice.rs. */
s32 zernel_rust_nice_base(void *table, struct task_struct *task);

#endif /* ZERNEL_NICE_H */
