// SPDX-License-Identifier: GPL-2.0
/* Helpers of rust/glue/core/nice.rs. Included like irqlock.c. */

#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/prio.h>
#include <linux/sched/rt.h>
#include <linux/sched/signal.h>
#include <linux/tracepoint.h>
#include <linux/user_namespace.h>
#include <trace/events/task.h>

#include "nice.h"

/*
 * As can_nice(), of another thread than the current one. A program that took other rights by exec
 * has other limits than its starter, which can still give hints of its phases.
 */
static s32 lowest_nice(struct task_struct *task)
{
	unsigned long limit = min(task_rlimit(task, RLIMIT_NICE), MAX_NICE - MIN_NICE + 1UL);
	const struct cred *cred;
	bool capable;

	rcu_read_lock();
	cred = __task_cred(task);
	capable = cred->user_ns == &init_user_ns && cap_raised(cred->cap_effective, CAP_SYS_NICE) &&
		  uid_eq(cred->uid, GLOBAL_ROOT_UID) && uid_eq(cred->euid, cred->uid) &&
		  uid_eq(cred->suid, cred->uid);
	rcu_read_unlock();
	return capable ? MIN_NICE : rlimit_to_nice(limit);
}

void zernel_helper_niceness(struct task_struct *task, struct zernel_niceness *niceness)
{
	unsigned int policy = READ_ONCE(task->policy);

	niceness->now = task_nice(task);
	niceness->lowest = lowest_nice(task);
	niceness->fair = policy == SCHED_NORMAL || policy == SCHED_BATCH;
	niceness->exits = READ_ONCE(task->flags) & PF_EXITING;
}

/* In any context in which nobody holds a lock of the scheduler. */
void zernel_helper_set_nice(struct task_struct *task, s32 nice)
{
	set_user_nice(task, nice);
}

/*
 * A thread has made another, which has not run yet and has the nice value that its maker had
 * meanwhile, be that its own or not. Also of the threads that the kernel makes for a program.
 */
static void on_birth(void *table, struct task_struct *child, u64 flags)
{
	s32 nice;

	if (current->flags & PF_KTHREAD)
		return;
	nice = zernel_rust_nice_base(table, current);
	/* As sched_fork() does. */
	if (current->sched_reset_on_fork && (nice < 0 || rt_or_dl_task_policy(current)))
		nice = 0;
	if (task_nice(child) != nice)
		set_user_nice(child, nice);
}

static struct tracepoint *birth_point;

static void find_birth(struct tracepoint *point, void *data)
{
	if (!strcmp(point->name, "task_newtask"))
		birth_point = point;
}

int zernel_helper_births_on(void *table)
{
	check_trace_callback_type_task_newtask(on_birth);
	for_each_kernel_tracepoint(find_birth, NULL);
	if (!birth_point)
		return -EOPNOTSUPP;
	return tracepoint_probe_register(birth_point, on_birth, table);
}

/* Waits for threads in the probe. */
void zernel_helper_births_off(void *table)
{
	tracepoint_probe_unregister(birth_point, on_birth, table);
	tracepoint_synchronize_unregister();
}
