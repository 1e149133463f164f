/* SPDX-License-Identifier: GPL-2.0 */
/*
 * C side of scheduler_hooks.rs and thread.rs in rust/glue/core: threads, and the
 * scheduler's word on when they have a CPU.
 */
#ifndef ZERNEL_TASKS_H
#define ZERNEL_TASKS_H

#include <linux/types.h>

struct cred;
struct pid;
struct pid_namespace;
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

struct task_struct *zernel_helper_thread_of(struct pid *pid);
void zernel_helper_thread_get(struct task_struct *task);
void zernel_helper_thread_put(struct task_struct *task);
struct pid *zernel_helper_thread_process(struct task_struct *task);
void zernel_helper_thread_numbers(struct task_struct *task, struct pid_namespace *ns, u32 *tid,
				  u32 *pid);
u32 zernel_helper_thread_uid(struct task_struct *task);
void zernel_helper_thread_comm(struct task_struct *task, char *comm);
bool zernel_helper_thread_is_of(struct task_struct *task, u32 uid);
bool zernel_helper_thread_is_program(struct task_struct *task);
int zernel_helper_thread_maps_any(struct task_struct *task, const char *names);

/* As Charge in rust/glue/core/thread.rs. */
struct zernel_charge {
	struct mem_cgroup *memcg;
	struct mem_cgroup *before;
};

bool zernel_helper_charge_begin(struct zernel_charge *charge, struct task_struct *task);
void zernel_helper_charge_end(struct zernel_charge *charge);
size_t zernel_helper_thread_count(struct pid *process);
size_t zernel_helper_threads_of(struct pid *process, struct task_struct **tasks, size_t room);

int zernel_helper_hooks_on(void *cgroup_sync);
void zernel_helper_hooks_off(void);
void zernel_helper_hooks_wait(void);
void zernel_helper_hook_listen(struct zernel_hook *hook);
int zernel_helper_hook_queue(struct zernel_hook *hook, struct task_struct *task);

/* Defined in rust/glue/core/scheduler_hooks.rs. */
u32 zernel_rust_hook_work(struct zernel_hook *hook, bool exiting, bool begun);
void zernel_rust_hook_begins(struct zernel_hook *hook, u64 now);
void zernel_rust_hook_enters(struct zernel_hook *hook, u64 now, u64 queued);
void zernel_rust_hook_leaves(struct zernel_hook *hook, u64 now, u32 cause);
void zernel_rust_hook_rings(struct zernel_hook *hook);
bool zernel_rust_hook_exits(struct zernel_hook *hook);
void zernel_rust_hook_stops(struct zernel_hook *hook, u64 now);
void zernel_rust_hook_ends(struct zernel_hook *hook);
bool zernel_rust_hook_forks(struct zernel_hook *hook, struct task_struct *child, bool thread);

#endif /* ZERNEL_TASKS_H */
