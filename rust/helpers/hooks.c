// SPDX-License-Identifier: GPL-2.0
/* Helpers of rust/glue/core/scheduler_hooks.rs. Included like irqlock.c, after threads.c. */

#include <linux/compat.h>
#include <linux/ktime.h>
#include <linux/nospec.h>
#include <linux/preempt.h>
#include <linux/ptrace.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/task_work.h>
#include <linux/tracepoint.h>
#include <asm/syscall.h>
#include <asm/unistd.h>
#include <trace/events/sched.h>

#include "hooks.h"
#include "members.h"
#include "threads.h"

#ifdef CONFIG_PREEMPT_NOTIFIERS

/* As Hook in rust/glue/core/scheduler_hooks/record.rs. */
struct zernel_hook {
	/* The first pointer of it is for Rust once the record is over. */
	struct callback_head work;
	struct preempt_notifier notifier;
	u64 run_delay;
	/* Odd while the record is written. */
	u32 seq;
	u32 state;
};

static_assert(offsetof(struct zernel_hook, seq) == 6 * sizeof(u64));
static_assert(sizeof(struct zernel_hook) == 7 * sizeof(u64));

/* The thread alone writes, with preemption off. Here, where none of this is a call. */
static void begin_write(struct zernel_hook *hook)
{
	WRITE_ONCE(hook->seq, hook->seq + 1);
	/* Before the writes; pairs with the smp_rmb() of Record::read(). */
	smp_wmb();
}

static void end_write(struct zernel_hook *hook)
{
	/* After the writes; pairs with the first load of Record::read(). */
	smp_store_release(&hook->seq, hook->seq + 1);
}

/* Causes of sleeps by system call, all before ZERNEL_LEAVE_OTHER. Architectures lack some. */
static const u8 waits_for[] = {
#define WAITS(call, cause) \
	[__NR_##call] = ZERNEL_LEAVE_OTHER - ZERNEL_LEAVE_##cause
	WAITS(futex, FUTEX),
#ifdef __NR_futex_wait
	WAITS(futex_wait, FUTEX),
#endif
#ifdef __NR_futex_waitv
	WAITS(futex_waitv, FUTEX),
#endif
#ifdef __NR_poll
	WAITS(poll, POLL),
#endif
#ifdef __NR_select
	WAITS(select, POLL),
#endif
#ifdef __NR_epoll_wait
	WAITS(epoll_wait, POLL),
#endif
#ifdef __NR_epoll_pwait2
	WAITS(epoll_pwait2, POLL),
#endif
	WAITS(ppoll, POLL),
	WAITS(pselect6, POLL),
	WAITS(epoll_pwait, POLL),
	WAITS(read, READ_WRITE),
	WAITS(write, READ_WRITE),
	WAITS(readv, READ_WRITE),
	WAITS(writev, READ_WRITE),
	WAITS(pread64, READ_WRITE),
	WAITS(pwrite64, READ_WRITE),
	WAITS(preadv, READ_WRITE),
	WAITS(pwritev, READ_WRITE),
	WAITS(preadv2, READ_WRITE),
	WAITS(pwritev2, READ_WRITE),
	WAITS(ioctl, IOCTL),
#undef WAITS
};

/* Of the current task, in the scheduler. */
static enum zernel_leave why_it_leaves(void)
{
	unsigned int nr;

	if (task_is_runnable(current))
		return ZERNEL_LEAVE_RUNNABLE;
	if (current->in_iowait)
		return ZERNEL_LEAVE_IO;
	/* The numbers of another ABI mean other calls. */
	if (in_compat_syscall())
		return ZERNEL_LEAVE_OTHER;
	nr = syscall_get_nr(current, current_pt_regs());
	if (nr >= ARRAY_SIZE(waits_for))
		return ZERNEL_LEAVE_OTHER;
	return ZERNEL_LEAVE_OTHER - waits_for[array_index_nospec(nr, ARRAY_SIZE(waits_for))];
}

static void hook_in(struct preempt_notifier *notifier, int cpu)
{
	struct zernel_hook *hook = container_of(notifier, struct zernel_hook, notifier);
	u64 delay = run_delay();

	begin_write(hook);
	zernel_rust_hook_enters(hook, ktime_get(), delay - hook->run_delay);
	hook->run_delay = delay;
	end_write(hook);
}

/* Under the lock of the run queue. */
static void hook_out(struct preempt_notifier *notifier, struct task_struct *next)
{
	struct zernel_hook *hook = container_of(notifier, struct zernel_hook, notifier);

	begin_write(hook);
	zernel_rust_hook_leaves(hook, ktime_get(), why_it_leaves());
	end_write(hook);
}

static struct preempt_ops hook_ops = {
	.sched_in = hook_in,
	.sched_out = hook_out,
};

static void hook_in_ring(struct preempt_notifier *notifier, int cpu)
{
	struct zernel_hook *hook = container_of(notifier, struct zernel_hook, notifier);

	hook_in(notifier, cpu);
	/* Once; a listener asks again. */
	WRITE_ONCE(notifier->ops, &hook_ops);
	zernel_rust_hook_rings(hook);
}

/* So that threads without a listener pay nothing. */
static struct preempt_ops bell_ops = {
	.sched_in = hook_in_ring,
	.sched_out = hook_out,
};

static bool is_ours(struct preempt_notifier *notifier)
{
	struct preempt_ops *ops = READ_ONCE(notifier->ops);

	return ops == &hook_ops || ops == &bell_ops;
}

/* The thread has the hook, or had it. Rings when it has a CPU again. */
void zernel_helper_hook_listen(struct zernel_hook *hook)
{
	WRITE_ONCE(hook->notifier.ops, &bell_ops);
}

/* As the three below, in the thread. Returns since when it is recorded. */
static u64 begin(struct zernel_hook *hook)
{
	u64 now = ktime_get();

	begin_write(hook);
	zernel_rust_hook_begins(hook, now);
	hook->run_delay = run_delay();
	end_write(hook);
	return now;
}

u64 zernel_helper_hook_put_on(struct zernel_hook *hook)
{
	u64 now;

	preempt_disable();
	now = begin(hook);
	preempt_notifier_init(&hook->notifier, &hook_ops);
	preempt_notifier_register(&hook->notifier);
	preempt_enable();
	return now;
}

u64 zernel_helper_hook_begin_anew(struct zernel_hook *hook)
{
	u64 now;

	preempt_disable();
	now = begin(hook);
	preempt_enable();
	return now;
}

/* Returns until when it was recorded. */
u64 zernel_helper_hook_take_off(struct zernel_hook *hook)
{
	u64 now;

	preempt_disable();
	preempt_notifier_unregister(&hook->notifier);
	now = ktime_get();
	begin_write(hook);
	zernel_rust_hook_stops(hook, now);
	end_write(hook);
	preempt_enable();
	return now;
}

static void run_work(struct callback_head *work)
{
	/* do_exit() comes to the probe below before it runs task work. */
	zernel_rust_hook_work(container_of(work, struct zernel_hook, work),
			      current->flags & PF_EXITING);
}

/* Not TWA_SIGNAL: that interrupts system calls. */
int zernel_helper_hook_queue(struct zernel_hook *hook, struct task_struct *task)
{
	init_task_work(&hook->work, run_work);
	return task_work_add(task, &hook->work, TWA_RESUME);
}

/* The list is changed by its task alone. */
static void on_exit_of(void *data, struct task_struct *task, bool group_dead)
{
	struct preempt_notifier *notifier;
	struct hlist_node *next;

	hlist_for_each_entry_safe(notifier, next, &current->preempt_notifiers, link) {
		struct zernel_hook *hook = container_of(notifier, struct zernel_hook, notifier);

		if (is_ours(notifier))
			zernel_rust_hook_exits(hook);
	}
}

/* The hook on the list of the current task, which changes that alone, outside of the scheduler. */
static struct zernel_hook *carried_hook(void)
{
	struct preempt_notifier *notifier;

	hlist_for_each_entry(notifier, &current->preempt_notifiers, link)
		if (is_ours(notifier))
			return container_of(notifier, struct zernel_hook, notifier);
	return NULL;
}

static void on_fork(void *data, struct task_struct *parent, struct task_struct *child)
{
	struct zernel_hook *hook = carried_hook();
	bool thread = same_thread_group(current, child);

	/* The child is there; a call that begins to follow it from now on finds it. */
	smp_mb();
	/* A hook that is on its way in task work is in the table. */
	if ((hook || READ_ONCE(current->task_works)) && zernel_helper_thread_is_program(child) &&
	    zernel_rust_hook_forks(hook, child, thread))
		return;
	if (thread)
		return;
	/* Nobody moves it to where it was made. */
	rcu_read_lock();
	if (may_be_tracked(child))
		zernel_rust_cgroup_changed(data);
	rcu_read_unlock();
}

static struct tracepoint *exit_point, *fork_point;
static void *fork_data;

static void find_point(struct tracepoint *point, void *data)
{
	if (!strcmp(point->name, "sched_process_exit"))
		exit_point = point;
	else if (!strcmp(point->name, "sched_process_fork"))
		fork_point = point;
}

int zernel_helper_hooks_on(void *cgroup_sync)
{
	int ret;

	check_trace_callback_type_sched_process_exit(on_exit_of);
	check_trace_callback_type_sched_process_fork(on_fork);
	for_each_kernel_tracepoint(find_point, NULL);
	if (!exit_point || !fork_point)
		return -EOPNOTSUPP;
	ret = tracepoint_probe_register(exit_point, on_exit_of, NULL);
	if (ret)
		return ret;
	fork_data = cgroup_sync;
	ret = tracepoint_probe_register(fork_point, on_fork, fork_data);
	if (ret) {
		tracepoint_probe_unregister(exit_point, on_exit_of, NULL);
		tracepoint_synchronize_unregister();
		return ret;
	}
	preempt_notifier_inc();
	return 0;
}

void zernel_helper_hooks_off(void)
{
	preempt_notifier_dec();
	tracepoint_probe_unregister(fork_point, on_fork, fork_data);
	tracepoint_probe_unregister(exit_point, on_exit_of, NULL);
}

/* Waits for threads in the probes, the notifiers and task work: it can take long. */
void zernel_helper_hooks_wait(void)
{
	tracepoint_synchronize_unregister();
	synchronize_rcu_tasks();
}

#else

void zernel_helper_hook_listen(struct zernel_hook *hook)
{
}

int zernel_helper_hooks_on(void *cgroup_sync)
{
	return -EOPNOTSUPP;
}

void zernel_helper_hooks_off(void)
{
}

void zernel_helper_hooks_wait(void)
{
}

int zernel_helper_hook_queue(struct zernel_hook *hook, struct task_struct *task)
{
	return -EOPNOTSUPP;
}

u64 zernel_helper_hook_put_on(struct zernel_hook *hook)
{
	return 0;
}

u64 zernel_helper_hook_begin_anew(struct zernel_hook *hook)
{
	return 0;
}

u64 zernel_helper_hook_take_off(struct zernel_hook *hook)
{
	return 0;
}

#endif /* CONFIG_PREEMPT_NOTIFIERS */
