// SPDX-License-Identifier: GPL-2.0
/* Helpers of rust/glue/core/cgroup.rs about members of cgroups. Included like irqlock.c. */

#include <linux/atomic.h>
#include <linux/cgroup.h>
#include <linux/hash.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "members.h"
#include "threads.h"

#ifdef CONFIG_CGROUPS
/* Tracked cgroups with an id of that hash: without one there is no need to look further. */
#define KNOWN_BITS 10
static atomic_t known[1 << KNOWN_BITS];

static atomic_t *known_of(struct cgroup *cgrp)
{
	return &known[hash_64(cgroup_id(cgrp), KNOWN_BITS)];
}

/* Process context. */
void zernel_helper_cgroup_known(struct cgroup *cgrp, bool is)
{
	atomic_add(is ? 1 : -1, known_of(cgrp));
	/* A look from now on sees a process that is made, or its maker sees this: on_fork(). */
	smp_mb();
}

/* The first cgroup from this one up to the root that may be tracked. */
struct cgroup *zernel_helper_cgroup_next_known(struct cgroup *cgrp)
{
	for (; cgrp; cgrp = cgroup_parent(cgrp))
		if (atomic_read(known_of(cgrp)))
			return cgrp;
	return NULL;
}

/* Under RCU: may be true where it is not. */
static bool may_be_tracked(struct task_struct *task)
{
	return zernel_helper_cgroup_next_known(task_dfl_cgroup(task));
}

bool zernel_helper_cgroup_is_below(struct cgroup *cgrp, struct cgroup *top)
{
	return cgroup_is_descendant(cgrp, top);
}

/*
 * Takes references to the processes of a few pids from a number on that are in a cgroup or below;
 * without one, that may be in a tracked one. Says where to go on, 0 at the end.
 */
size_t zernel_helper_processes_in(struct cgroup *cgrp, int *from, struct pid **found, size_t room)
{
	unsigned int left = 1024;
	struct task_struct *task;
	size_t count = 0;
	struct pid *pid;

	rcu_read_lock();
	while (left-- && count < room) {
		pid = find_ge_pid(*from, &init_pid_ns);
		if (!pid) {
			*from = 0;
			break;
		}
		*from = pid_nr(pid) + 1;
		task = pid_task(pid, PIDTYPE_TGID);
		task = task ? first_living(task) : NULL;
		if (!task || !zernel_helper_thread_is_program(task))
			continue;
		if (cgrp ? cgroup_is_descendant(task_dfl_cgroup(task), cgrp) : may_be_tracked(task))
			found[count++] = get_pid(pid);
	}
	rcu_read_unlock();
	cond_resched();
	return count;
}
#else
void zernel_helper_cgroup_known(struct cgroup *cgrp, bool is)
{
}

struct cgroup *zernel_helper_cgroup_next_known(struct cgroup *cgrp)
{
	return NULL;
}

bool zernel_helper_cgroup_is_below(struct cgroup *cgrp, struct cgroup *top)
{
	return false;
}

static bool may_be_tracked(struct task_struct *task)
{
	return false;
}

size_t zernel_helper_processes_in(struct cgroup *cgrp, int *from, struct pid **found, size_t room)
{
	*from = 0;
	return 0;
}
#endif /* CONFIG_CGROUPS */
