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

/* A hook on a thread; the first part of a record. */
struct zernel_hook;

int zernel_helper_hooks_on(void *cgroup_sync);
void zernel_helper_hooks_off(void);
void zernel_helper_hooks_wait(void);
void zernel_helper_hook_listen(struct zernel_hook *hook);
int zernel_helper_hook_queue(struct zernel_hook *hook, struct task_struct *task);
u64 zernel_helper_hook_put_on(struct zernel_hook *hook);
u64 zernel_helper_hook_begin_anew(struct zernel_hook *hook);
u64 zernel_helper_hook_take_off(struct zernel_hook *hook);

/* Defined in rust/glue/core/scheduler_hooks/calls.rs. */
void zernel_rust_hook_work(struct zernel_hook *hook, bool exiting);
void zernel_rust_hook_begins(struct zernel_hook *hook, u64 now);
void zernel_rust_hook_enters(struct zernel_hook *hook, u64 now, u64 queued);
void zernel_rust_hook_leaves(struct zernel_hook *hook, u64 now, u32 cause);
void zernel_rust_hook_rings(struct zernel_hook *hook);
void zernel_rust_hook_exits(struct zernel_hook *hook);
void zernel_rust_hook_stops(struct zernel_hook *hook, u64 now);
bool zernel_rust_hook_forks(struct zernel_hook *hook, struct task_struct *child, bool thread);

#endif /* ZERNEL_HOOKS_H */
