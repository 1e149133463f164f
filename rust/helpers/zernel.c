// SPDX-License-Identifier: GPL-2.0
/* C side of zernel.ko: exports, tracepoints and helpers of rust/glue/. */

#include <linux/cgroup.h>
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/time_namespace.h>
#include <linux/tracepoint.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>
#include <linux/zernel_provider.h>
#include <uapi/linux/pidfd.h>
#ifdef CONFIG_CGROUPS
#include <trace/events/cgroup.h>
#endif

#include "irqlock.c"
#include "later.c"
#include "threads.c"
#include "members.c"
#include "nice.c"
#include "hooks.c"
#include "probes.c"
#include "timer.c"
#include "user.c"
#include "waiters.c"
#include "power.c"
#include "readahead.c"
#include "load.c"
#include "zernel_helpers.h"

#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include "zernel_trace.h"

/* Defined in rust/glue/core/provider.rs. */
EXPORT_SYMBOL_GPL(zernel_provider_register);
EXPORT_SYMBOL_GPL(zernel_provider_unregister);
EXPORT_SYMBOL_GPL(zernel_gpu_added);
EXPORT_SYMBOL_GPL(zernel_gpu_removed);
EXPORT_SYMBOL_GPL(zernel_tsg_added);
EXPORT_SYMBOL_GPL(zernel_tsg_removed);
EXPORT_SYMBOL_GPL(zernel_tsg_changed);
EXPORT_SYMBOL_GPL(zernel_tsg_user_control);
EXPORT_SYMBOL_GPL(zernel_tsg_refresh);
EXPORT_SYMBOL_GPL(zernel_tsg_rescheduled);
EXPORT_SYMBOL_GPL(zernel_gpu_refresh);
EXPORT_SYMBOL_GPL(zernel_gpu_suspended);
EXPORT_SYMBOL_GPL(zernel_gpu_activity);
EXPORT_SYMBOL_GPL(zernel_tsg_activity);
EXPORT_SYMBOL_GPL(zernel_tsg_ended);
EXPORT_SYMBOL_GPL(zernel_tsg_started);
/* Defined in probes.c. */
EXPORT_SYMBOL_GPL(zernel_gpu_wait_begin);
EXPORT_SYMBOL_GPL(zernel_gpu_wait_end);

static enum pid_type pid_type(bool process)
{
	return process ? PIDTYPE_TGID : PIDTYPE_PID;
}

void zernel_helper_get_pid(struct pid *pid)
{
	get_pid(pid);
}

struct pid *zernel_helper_current_pid(bool process)
{
	return get_task_pid(current, pid_type(process));
}

struct pid *zernel_helper_process_of(struct pid *thread)
{
	struct task_struct *task;
	struct pid *process = NULL;

	rcu_read_lock();
	task = pid_task(thread, PIDTYPE_PID);
	if (task)
		process = get_pid(task_tgid(task));
	rcu_read_unlock();
	return process;
}

/*
 * pidfd_pid() is not exported; this does the same, by the magic number of the file system instead
 * of by its file operations.
 */
struct pid *zernel_helper_pid_from_fd(int fd, bool *thread)
{
	struct file *file = fget(fd);
	struct pid *pid = NULL;

	if (!file)
		return NULL;
	if (file_inode(file)->i_sb->s_magic == PID_FS_MAGIC) {
		pid = get_pid(file_inode(file)->i_private);
		*thread = file->f_flags & PIDFD_THREAD;
	}
	fput(file);
	return pid;
}

/* A number without a task may be somebody else's by now. */
int zernel_helper_pid_number(struct pid *pid, struct pid_namespace *ns)
{
	return pid_has_task(pid, PIDTYPE_PID) ? pid_nr_ns(pid, ns) : 0;
}

/* As pidfd_poll() tells it: a leader lives on while other threads do. */
bool zernel_helper_pid_alive(struct pid *pid, bool process)
{
	struct task_struct *task;
	bool alive;

	rcu_read_lock();
	task = pid_task(pid, pid_type(process));
	alive = task && (!READ_ONCE(task->exit_state) || delay_group_leader(task));
	rcu_read_unlock();
	return alive;
}

int zernel_helper_task_of(struct pid *pid, bool process, u32 *uid, char *comm)
{
	struct task_struct *task;
	int ret = -ESRCH;

	rcu_read_lock();
	task = pid_task(pid, pid_type(process));
	if (task) {
		*uid = __kuid_val(task_uid(task));
		strscpy_pad(comm, task->comm, TASK_COMM_LEN);
		ret = 0;
	}
	rcu_read_unlock();
	return ret;
}

/* The rule of sched_setscheduler(2). */
bool zernel_helper_same_owner(struct pid *pid, bool process)
{
	const struct cred *cred = current_cred(), *theirs;
	struct task_struct *task;
	bool same = false;

	rcu_read_lock();
	task = pid_task(pid, pid_type(process));
	if (task) {
		theirs = __task_cred(task);
		same = uid_eq(cred->euid, theirs->euid) || uid_eq(cred->euid, theirs->uid);
	}
	rcu_read_unlock();
	return same;
}

/* As zernel_helper_same_owner(), of a caller with that effective user. */
bool zernel_helper_is_owner(struct pid *process, u32 uid)
{
	const struct cred *theirs;
	struct task_struct *task;
	bool is = false;

	rcu_read_lock();
	task = pid_task(process, PIDTYPE_TGID);
	if (task) {
		theirs = __task_cred(task);
		is = __kuid_val(theirs->euid) == uid || __kuid_val(theirs->uid) == uid;
	}
	rcu_read_unlock();
	return is;
}

struct pid_namespace *zernel_helper_get_pid_ns(void)
{
	return get_pid_ns(task_active_pid_ns(current));
}

const struct cred *zernel_helper_get_cred(void)
{
	return get_current_cred();
}

void zernel_helper_put_cred(const struct cred *cred)
{
	put_cred(cred);
}

u32 zernel_helper_uid_seen(const struct cred *cred, u32 uid)
{
	return from_kuid_munged(cred->user_ns, KUIDT_INIT(uid));
}

u32 zernel_helper_euid(void)
{
	return __kuid_val(current_euid());
}

/*
 * Not audited: these are asked for every caller, also where the answer only
 * tells how much it sees.
 */
bool zernel_helper_perfmon_capable(void)
{
	return ns_capable_noaudit(&init_user_ns, CAP_PERFMON) ||
	       ns_capable_noaudit(&init_user_ns, CAP_SYS_ADMIN);
}

/* The caller's CLOCK_MONOTONIC less the host's. */
s64 zernel_helper_clock_offset(void)
{
	struct timespec64 now = { };

	timens_add_monotonic(&now);
	return timespec64_to_ns(&now);
}

bool zernel_helper_nice_capable(void)
{
	return ns_capable_noaudit(&init_user_ns, CAP_SYS_NICE);
}

bool zernel_helper_resource_capable(void)
{
	return ns_capable_noaudit(&init_user_ns, CAP_SYS_RESOURCE);
}

bool zernel_helper_in_group(u32 gid)
{
	return in_egroup_p(KGIDT_INIT(gid));
}

void zernel_helper_watch_init(struct wait_queue_entry *entry, wait_queue_func_t func)
{
	init_waitqueue_func_entry(entry, func);
}

void zernel_helper_watch_add(struct pid *pid, struct wait_queue_entry *entry)
{
	add_wait_queue(&pid->wait_pidfd, entry);
}

void zernel_helper_watch_del(struct pid *pid, struct wait_queue_entry *entry)
{
	remove_wait_queue(&pid->wait_pidfd, entry);
}

/* At the limit of its memory cgroup the caller is told so, not killed. */
struct page *zernel_helper_slots_alloc(void)
{
	return alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_RETRY_MAYFAIL | __GFP_NOWARN);
}

void *zernel_helper_slots_address(struct page *page)
{
	return page_address(page);
}

/* Stays as long as somebody has it mapped or pinned. */
void zernel_helper_slots_free(struct page *page)
{
	__free_page(page);
}

struct workqueue_struct *zernel_helper_wq_create(bool urgent)
{
	if (urgent)
		return alloc_workqueue("zernel", WQ_UNBOUND | WQ_HIGHPRI, 0);
	return alloc_workqueue("zernel_ordinary", WQ_UNBOUND, 0);
}

void zernel_helper_work_init(struct delayed_work *work, work_func_t func)
{
	INIT_DELAYED_WORK(work, func);
}

#ifdef CONFIG_CGROUPS
struct cgroup *zernel_helper_cgroup_from_fd(int fd, u32 *owner)
{
	struct file *file = fget_raw(fd);
	struct cgroup *cgrp;

	if (!file)
		return ERR_PTR(-EBADF);
	cgrp = cgroup_get_from_fd(fd);
	/* The fd may have been replaced in between: both must be the same directory. */
	if (!IS_ERR(cgrp) && file_inode(file)->i_private != cgrp->kn) {
		cgroup_put(cgrp);
		cgrp = ERR_PTR(-EBADF);
	}
	/* The cgroup is delegated to its directory's owner. */
	if (!IS_ERR(cgrp))
		*owner = __kuid_val(file_inode(file)->i_uid);
	fput(file);
	return cgrp;
}

struct cgroup *zernel_helper_cgroup_of(struct pid *process)
{
	struct task_struct *task;
	struct cgroup *cgrp = NULL;

	rcu_read_lock();
	task = pid_task(process, PIDTYPE_TGID);
	if (task) {
		task = first_living(task) ?: task;
		do {
			cgrp = task_dfl_cgroup(task);
		} while (!cgroup_tryget(cgrp));
	}
	rcu_read_unlock();
	return cgrp;
}

struct cgroup *zernel_helper_cgroup_parent(struct cgroup *cgrp)
{
	return cgroup_parent(cgrp);
}

struct cgroup *zernel_helper_cgroup_above(struct cgroup *cgrp, int level)
{
	return cgroup_ancestor(cgrp, level) ?: cgrp;
}

u64 zernel_helper_cgroup_id(struct cgroup *cgrp)
{
	return cgroup_id(cgrp);
}

bool zernel_helper_cgroup_dead(struct cgroup *cgrp)
{
	return cgroup_is_dead(cgrp);
}

void zernel_helper_cgroup_put(struct cgroup *cgrp)
{
	cgroup_put(cgrp);
}

static void probe_attach(void *data, struct cgroup *dst, const char *path,
			 struct task_struct *task, bool threadgroup)
{
	zernel_rust_cgroup_changed(data);
}

static void probe_rmdir(void *data, struct cgroup *cgrp, const char *path)
{
	zernel_rust_cgroup_changed(data);
}

static struct {
	const char *name;
	void *probe;
	struct tracepoint *tp;
} cgroup_hooks[] = {
	{ "cgroup_attach_task", probe_attach },
	{ "cgroup_transfer_tasks", probe_attach },
	{ "cgroup_rmdir", probe_rmdir },
};

static void *cgroup_hook_data;

static void find_cgroup_hook(struct tracepoint *tp, void *priv)
{
	for (int i = 0; i < ARRAY_SIZE(cgroup_hooks); i++)
		if (!strcmp(tp->name, cgroup_hooks[i].name))
			cgroup_hooks[i].tp = tp;
}

int zernel_helper_cgroup_hooks_add(void *data)
{
	int i, ret;

	cgroup_hook_data = data;
	check_trace_callback_type_cgroup_attach_task(probe_attach);
	check_trace_callback_type_cgroup_transfer_tasks(probe_attach);
	check_trace_callback_type_cgroup_rmdir(probe_rmdir);
	for_each_kernel_tracepoint(find_cgroup_hook, NULL);
	for (i = 0; i < ARRAY_SIZE(cgroup_hooks); i++) {
		ret = -ENOENT;
		if (cgroup_hooks[i].tp)
			ret = tracepoint_probe_register(cgroup_hooks[i].tp,
							cgroup_hooks[i].probe, cgroup_hook_data);
		if (ret)
			goto undo;
	}
	return 0;

undo:
	while (i--)
		tracepoint_probe_unregister(cgroup_hooks[i].tp, cgroup_hooks[i].probe, cgroup_hook_data);
	tracepoint_synchronize_unregister();
	return ret;
}

void zernel_helper_cgroup_hooks_del(void)
{
	for (int i = 0; i < ARRAY_SIZE(cgroup_hooks); i++)
		tracepoint_probe_unregister(cgroup_hooks[i].tp, cgroup_hooks[i].probe, cgroup_hook_data);
	tracepoint_synchronize_unregister();
}
#else
struct cgroup *zernel_helper_cgroup_from_fd(int fd, u32 *owner)
{
	return ERR_PTR(-EBADF);
}

struct cgroup *zernel_helper_cgroup_of(struct pid *process)
{
	return NULL;
}

struct cgroup *zernel_helper_cgroup_parent(struct cgroup *cgrp)
{
	return NULL;
}

struct cgroup *zernel_helper_cgroup_above(struct cgroup *cgrp, int level)
{
	return cgrp;
}

u64 zernel_helper_cgroup_id(struct cgroup *cgrp)
{
	return 0;
}

bool zernel_helper_cgroup_dead(struct cgroup *cgrp)
{
	return true;
}

void zernel_helper_cgroup_put(struct cgroup *cgrp)
{
}

int zernel_helper_cgroup_hooks_add(void *data)
{
	return 0;
}

void zernel_helper_cgroup_hooks_del(void)
{
}
#endif /* CONFIG_CGROUPS */
