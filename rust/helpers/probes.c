// SPDX-License-Identifier: GPL-2.0
/* Waits for the GPU: what providers tell, and probes. Included like irqlock.c, after hooks.c. */

#include <linux/capability.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/path.h>
#include <linux/sched/signal.h>
#include <linux/sched/task_stack.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/uprobes.h>

#include "probes.h"

/*
 * True if a thread has left a function that it called with that stack pointer: it was in the kernel
 * since with one that lies above, or executes another program. A stack pointer on an alternate
 * signal stack tells nothing. The thread need not be there any more.
 */
bool zernel_helper_thread_has_left(struct task_struct *task, u64 sp, u64 program)
{
	unsigned long base, at = 0;
	struct pt_regs regs;

	if (READ_ONCE(task->self_exec_id) != program)
		return true;
	/* A stack is freed after a grace period, or kept for another thread. */
	rcu_read_lock();
	if (task_stack_page(task) &&
	    !copy_from_kernel_nofault(&regs, task_pt_regs(task), sizeof(regs)))
		at = user_stack_pointer(&regs);
	rcu_read_unlock();
	base = READ_ONCE(task->sas_ss_sp);
	return at > sp && at - base >= READ_ONCE(task->sas_ss_size);
}

#ifdef CONFIG_PREEMPT_NOTIFIERS

/* Wakes a resting sampler, as hook_in_ring() does. */
static void answer_bell(struct zernel_hook *hook)
{
	if (READ_ONCE(hook->notifier.ops) != &bell_ops)
		return;
	WRITE_ONCE(hook->notifier.ops, &hook_ops);
	zernel_rust_hook_rings(hook);
}

void zernel_gpu_wait_begin(void)
{
	struct zernel_hook *hook = carried_hook();

	if (hook) {
		zernel_rust_wait_enters(hook);
		answer_bell(hook);
	}
}

void zernel_gpu_wait_end(void)
{
	struct zernel_hook *hook = carried_hook();

	if (hook) {
		zernel_rust_wait_leaves(hook);
		answer_bell(hook);
	}
}

#else

void zernel_gpu_wait_begin(void)
{
}

void zernel_gpu_wait_end(void)
{
}

#endif /* CONFIG_PREEMPT_NOTIFIERS */

/*
 * Returns true if the caller may probe. A probe changes the memory of all programs that map the
 * file: of the reasons that a lockdown knows the nearest, which forbids that at its lowest level,
 * too.
 */
bool zernel_helper_may_probe(void)
{
	return capable(CAP_SYS_ADMIN) && !security_locked_down(LOCKDOWN_BPF_WRITE_USER);
}

/* Reads up to @length bytes; less at the end of the file. */
ssize_t zernel_helper_probe_read(struct file *file, u64 offset, void *bytes, size_t length)
{
	loff_t at = offset;
	size_t done = 0;
	ssize_t some;

	while (done < length) {
		if (fatal_signal_pending(current))
			return -EINTR;
		some = kernel_read(file, bytes + done, length - done, &at);
		if (some < 0)
			return some;
		if (!some)
			break;
		done += some;
	}
	return done;
}

void zernel_helper_probe_put(struct file *file)
{
	fput(file);
}

#if defined(CONFIG_PREEMPT_NOTIFIERS) && defined(CONFIG_UPROBES)

struct zernel_probe_point {
	struct uprobe_consumer consumer;
	struct uprobe *uprobe;
	/* Keeps the file and its mount. */
	struct path path;
	u64 id;
};

/* In the thread, as it calls the function. May sleep. */
static int on_call(struct uprobe_consumer *consumer, struct pt_regs *regs, __u64 *began)
{
	struct zernel_probe_point *point = container_of(consumer, struct zernel_probe_point, consumer);
	struct zernel_hook *hook = carried_hook();

	/* A thread that is not looked at, or waits already, need not be seen to return. */
	if (!hook)
		return UPROBE_HANDLER_IGNORE;
	*began = zernel_rust_wait_calls(hook, point->id, user_stack_pointer(regs),
					current->self_exec_id);
	answer_bell(hook);
	return *began ? 0 : UPROBE_HANDLER_IGNORE;
}

static int on_return(struct uprobe_consumer *consumer, unsigned long func, struct pt_regs *regs,
		     __u64 *began)
{
	struct zernel_hook *hook = carried_hook();

	if (hook && began) {
		zernel_rust_wait_returns(hook, *began);
		answer_bell(hook);
	}
	return 0;
}

/* The error for user space, where the kernel has more to say, or one that it must not see. */
static int told(int error)
{
	switch (error) {
	case -EINVAL:
	case -ENOMEM:
		return error;
	case -ENOEXEC:
	case -ENOTSUPP:
		return -ENOEXEC;
	default:
		return -EIO;
	}
}

/*
 * The caller's file, to be probed at @offset. The mapped inode may differ from that of the file:
 * a file system of layers maps the file of a layer.
 */
struct file *zernel_helper_probe_file(int fd, u64 offset)
{
	struct file *file = fget(fd);
	struct inode *inode;
	int error = 0;

	if (!file)
		return ERR_PTR(-EBADF);
	inode = d_real_inode(file->f_path.dentry);
	if (!(file->f_mode & FMODE_READ))
		error = -EACCES;
	else if (!S_ISREG(inode->i_mode))
		error = -ENODEV;
	else if (offset >= i_size_read(inode))
		error = -ERANGE;
	if (!error)
		return file;
	fput(file);
	return ERR_PTR(error);
}

struct zernel_probe_point *zernel_helper_probe_begin(struct file *file, u64 offset, u64 id)
{
	struct inode *inode = d_real_inode(file->f_path.dentry);
	struct zernel_probe_point *point;
	int error;

	point = kzalloc(sizeof(*point), GFP_KERNEL_ACCOUNT);
	if (!point)
		return ERR_PTR(-ENOMEM);
	point->id = id;
	point->path = file->f_path;
	path_get(&point->path);
	point->consumer.handler = on_call;
	point->consumer.ret_handler = on_return;
	point->uprobe = uprobe_register(inode, offset, 0, &point->consumer);
	if (IS_ERR(point->uprobe)) {
		error = told(PTR_ERR(point->uprobe));
		point->uprobe = NULL;
		zernel_helper_probe_free(point);
		return ERR_PTR(error);
	}
	return point;
}

void zernel_helper_probe_end(struct zernel_probe_point *point)
{
	uprobe_unregister_nosync(point->uprobe, &point->consumer);
	point->uprobe = NULL;
}

void zernel_helper_probes_wait(void)
{
	uprobe_unregister_sync();
}

void zernel_helper_probe_free(struct zernel_probe_point *point)
{
	path_put(&point->path);
	kfree(point);
}

#else

struct file *zernel_helper_probe_file(int fd, u64 offset)
{
	return ERR_PTR(-EOPNOTSUPP);
}

struct zernel_probe_point *zernel_helper_probe_begin(struct file *file, u64 offset, u64 id)
{
	return ERR_PTR(-EOPNOTSUPP);
}

void zernel_helper_probe_end(struct zernel_probe_point *point)
{
}

void zernel_helper_probes_wait(void)
{
}

void zernel_helper_probe_free(struct zernel_probe_point *point)
{
}

#endif /* CONFIG_PREEMPT_NOTIFIERS && CONFIG_UPROBES */
