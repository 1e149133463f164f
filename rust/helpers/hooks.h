/* SPDX-License-Identifier: GPL-2.0 */
/* C side of rust/glue/core/scheduler_hooks.rs: the scheduler's word on when threads have a CPU. */
#ifndef ZERNEL_HOOKS_H
#define ZERNEL_HOOKS_H

#include <linux/types.h>

struct task_struct;

/* Why a thread leaves its CPU: the causes of rust/policy/phase/activity.rs, by their numbers. */
enum zernel_leave {
	ZERNEL_LEAVE_IO,
	ZERNEL_LEAVE_FUTEX,
	ZERNEL_LEAVE_POLL,
	ZERNEL_LEAVE_READ_WRITE,
	ZERNEL_LEAVE_IOCTL,
	ZERNEL_LEAVE_OTHER,
	/* It does not sleep. */
	ZERNEL_LEAVE_RUNNABLE,
};

/* Kinds of task work: Work of rust/policy/attachment.rs. */
enum zernel_work {
	ZERNEL_WORK_PUT_ON,
	ZERNEL_WORK_BEGIN_ANEW,
	ZERNEL_WORK_TAKE_OFF,
	ZERNEL_WORK_GIVE_UP,
};

/* A hook on a thread; the first part of a record. */
struct zernel_hook;

int zernel_helper_hooks_on(void *cgroup_sync);
void zernel_helper_hooks_off(void);
void zernel_helper_hooks_wait(void);
void zernel_helper_hook_listen(struct zernel_hook *hook);
int zernel_helper_hook_queue(struct zernel_hook *hook, struct task_struct *task);

/* Defined in rust/glue/core/scheduler_hooks/calls.rs. */
u32 zernel_rust_hook_work(struct zernel_hook *hook, bool exiting, bool begun);
void zernel_rust_hook_begins(struct zernel_hook *hook, u64 now);
void zernel_rust_hook_enters(struct zernel_hook *hook, u64 now, u64 queued);
void zernel_rust_hook_leaves(struct zernel_hook *hook, u64 now, u32 cause);
void zernel_rust_hook_rings(struct zernel_hook *hook);
bool zernel_rust_hook_exits(struct zernel_hook *hook);
void zernel_rust_hook_stops(struct zernel_hook *hook, u64 now);
void zernel_rust_hook_ends(struct zernel_hook *hook);
bool zernel_rust_hook_forks(struct zernel_hook *hook, struct task_struct *child, bool thread);

#endif /* ZERNEL_HOOKS_H */
