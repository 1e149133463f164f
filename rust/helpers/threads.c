// SPDX-License-Identifier: GPL-2.0
/* Helpers of rust/glue/core/thread.rs. Included like irqlock.c. */

#include <linux/dcache.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>

#include "threads.h"

/* For how long the current task has waited for a CPU in all, in ns. */
static u64 run_delay(void)
{
#ifdef CONFIG_SCHED_INFO
	return current->sched_info.run_delay;
#else
	return 0;
#endif
}

u64 zernel_helper_run_delay(void)
{
	return run_delay();
}

struct task_struct *zernel_helper_thread_of(struct pid *pid)
{
	return get_pid_task(pid, PIDTYPE_PID);
}

/* Under RCU: a leader that has exited is left behind when its process moves. */
static struct task_struct *first_living(struct task_struct *leader)
{
	struct task_struct *thread;

	for_each_thread(leader, thread)
		if (!(READ_ONCE(thread->flags) & PF_EXITING))
			return thread;
	return NULL;
}

struct task_struct *zernel_helper_living_thread_of(struct pid *process)
{
	struct task_struct *task;

	rcu_read_lock();
	task = pid_task(process, PIDTYPE_TGID);
	task = task ? first_living(task) : NULL;
	if (task)
		get_task_struct(task);
	rcu_read_unlock();
	return task;
}

void zernel_helper_thread_get(struct task_struct *task)
{
	get_task_struct(task);
}

void zernel_helper_thread_put(struct task_struct *task)
{
	put_task_struct(task);
}

struct pid *zernel_helper_thread_process(struct task_struct *task)
{
	struct pid *process;

	rcu_read_lock();
	process = get_pid(task_tgid(task));
	rcu_read_unlock();
	return process;
}

/* 0 where it is not visible, or was reaped. */
void zernel_helper_thread_numbers(struct task_struct *task, struct pid_namespace *ns, u32 *tid,
				  u32 *pid)
{
	*tid = task_pid_nr_ns(task, ns);
	*pid = *tid ? task_tgid_nr_ns(task, ns) : 0;
}

u32 zernel_helper_thread_uid(struct task_struct *task)
{
	return __kuid_val(task_uid(task));
}

void zernel_helper_thread_comm(struct task_struct *task, char *comm)
{
	strscpy_pad(comm, task->comm, TASK_COMM_LEN);
}

/* All of its users are this one: it has taken no other's rights by exec. */
bool zernel_helper_thread_is_of(struct task_struct *task, u32 uid)
{
	const struct cred *cred;
	bool is;

	rcu_read_lock();
	cred = __task_cred(task);
	is = uid_eq(cred->uid, KUIDT_INIT(uid)) && uid_eq(cred->euid, cred->uid) &&
	     uid_eq(cred->suid, cred->uid);
	rcu_read_unlock();
	return is;
}

size_t zernel_helper_thread_count(struct pid *process)
{
	struct task_struct *task;
	size_t count = 0;

	rcu_read_lock();
	task = pid_task(process, PIDTYPE_TGID);
	if (task)
		count = get_nr_threads(task);
	rcu_read_unlock();
	return count;
}

/* True if it ever returns to user space, where task work runs. */
bool zernel_helper_thread_is_program(struct task_struct *task)
{
	return !(READ_ONCE(task->flags) & (PF_KTHREAD | PF_USER_WORKER | PF_IO_WORKER));
}

/* Returns the number of threads; takes references to those that there is room for. */
size_t zernel_helper_threads_of(struct pid *process, struct task_struct **tasks, size_t room)
{
	struct task_struct *leader, *task;
	size_t count = 0;

	/* A task that is made from now on is followed by its maker, if it is to be. */
	smp_mb();
	rcu_read_lock();
	leader = pid_task(process, PIDTYPE_TGID);
	if (leader) {
		for_each_thread(leader, task) {
			if (READ_ONCE(task->flags) & PF_EXITING || !zernel_helper_thread_is_program(task))
				continue;
			if (count < room)
				tasks[count] = get_task_struct(task);
			count++;
		}
	}
	rcu_read_unlock();
	return count;
}

/* True for a file in shared memory with a name that begins with a word of @names. */
static bool is_collective(struct file *file, const char *names)
{
	struct name_snapshot name;
	bool is = false;
	size_t length;

	if (file_inode(file)->i_sb->s_magic != TMPFS_MAGIC)
		return false;
	take_dentry_name_snapshot(&name, file->f_path.dentry);
	for (; *names && !is; names += length + (names[length] == ' ')) {
		length = strcspn(names, " ");
		is = !strncmp(name.name.name, names, length);
	}
	release_dentry_name_snapshot(&name);
	return is;
}

/*
 * Returns 1 if its process maps any, among its first mappings; less than 0 if that cannot be told
 * now. Does not wait for the process, which can keep its lock for as long as it likes.
 */
int zernel_helper_thread_maps_any(struct task_struct *task, const char *names)
{
	struct mm_struct *mm = get_task_mm(task);
	unsigned int left = 4096;
	struct vm_area_struct *vma;
	int found = -EAGAIN;

	if (!mm)
		return 0;
	if (mmap_read_trylock(mm)) {
		VMA_ITERATOR(vmi, mm, 0);

		found = 0;
		for_each_vma(vmi, vma) {
			found = vma->vm_file && is_collective(vma->vm_file, names);
			if (found || !--left)
				break;
		}
		mmap_read_unlock(mm);
	}
	mmput_async(mm);
	return found;
}

/* Allocations from now on are charged to the memory cgroup of the process of @task, if any. */
bool zernel_helper_charge_begin(struct zernel_charge *charge, struct task_struct *task)
{
	bool found;

	/*
	 * Without a reference to the address space: its end would wait for ours, and with it the
	 * mappings that keep other modules.
	 */
	task_lock(task);
	found = task->mm && !(task->flags & PF_KTHREAD);
	if (found)
		charge->memcg = get_mem_cgroup_from_mm(task->mm);
	task_unlock(task);
	if (found)
		charge->before = set_active_memcg(charge->memcg);
	return found;
}

void zernel_helper_charge_end(struct zernel_charge *charge)
{
	set_active_memcg(charge->before);
	mem_cgroup_put(charge->memcg);
}
