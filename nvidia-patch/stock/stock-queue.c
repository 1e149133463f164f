// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The records of the probes, in the order in which the core answered, and their worker.
 *
 * Probes run with preemption disabled, so records are allocated without locks and none is waited for
 * there. Such an allocation fails when another CPU is at the same slabs, however much memory there
 * is: then a record comes from a reserve, which the worker fills. A caller waits on its way back to
 * user space, where it holds nothing.
 */
#include "stock.h"

#include <linux/moduleparam.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

/* A caller sleeps uninterruptibly, and a suspend gives up after 20 s. */
#define STOCK_PATIENCE_MAX	10000

/* Records in the queue, of calls. */
#define STOCK_QUEUE_MAX	65536

/* Records in the reserve: as many allocations may fail before the worker runs. Calls leave some. */
#define STOCK_RESERVE	64
#define STOCK_SPARED	16

static void stock_work(struct work_struct *work);

static DEFINE_RAW_SPINLOCK(stock_lock);
static LIST_HEAD(stock_queue);
static LIST_HEAD(stock_reserve);
static u64 stock_last;
static u32 stock_length;
static u32 stock_reserved;
static atomic_t stock_lost;
static struct workqueue_struct *stock_worker;
static DECLARE_WORK(stock_worker_work, stock_work);
static DECLARE_WAIT_QUEUE_HEAD(stock_wait);

static unsigned int stock_patience_ms = 100;

static int stock_set_patience(const char *value, const struct kernel_param *param)
{
	return param_set_uint_minmax(value, param, 0, STOCK_PATIENCE_MAX);
}

static const struct kernel_param_ops stock_patience_ops = {
	.set = stock_set_patience,
	.get = param_get_uint,
};

module_param_cb(patience_ms, &stock_patience_ops, &stock_patience_ms, 0644);
MODULE_PARM_DESC(patience_ms, "longest time that a call waits for its replay (0 to 10000 ms)");

/* The number of the last record. */
u64 stock_queue_last(void)
{
	return READ_ONCE(stock_last);
}

/* Records that could not be made, since load. */
u32 stock_queue_lost(void)
{
	return atomic_read(&stock_lost);
}

static void stock_put(struct stock_record *record)
{
	if (!refcount_dec_and_test(&record->refs))
		return;
	put_pid(record->process);
	put_pid(record->thread);
	kfree(record);
}

static struct stock_record *stock_take(void)
{
	struct stock_record *record;

	raw_spin_lock_irq(&stock_lock);
	record = list_first_entry_or_null(&stock_queue, struct stock_record, list);
	if (record) {
		list_del(&record->list);
		stock_length--;
	}
	raw_spin_unlock_irq(&stock_lock);
	return record;
}

/* NULL: there are no more than @spared. */
static struct stock_record *stock_reserve_take(u32 spared)
{
	struct stock_record *record = NULL;
	unsigned long flags;

	raw_spin_lock_irqsave(&stock_lock, flags);
	if (stock_reserved > spared) {
		record = list_first_entry(&stock_reserve, struct stock_record, list);
		list_del(&record->list);
		WRITE_ONCE(stock_reserved, stock_reserved - 1);
	}
	raw_spin_unlock_irqrestore(&stock_lock, flags);
	return record;
}

/* Fills the reserve, as far as there is memory. */
static void stock_reserve_fill(void)
{
	struct stock_record *record;

	while (READ_ONCE(stock_reserved) < STOCK_RESERVE) {
		record = kzalloc(sizeof(*record), GFP_KERNEL);
		if (!record)
			return;
		raw_spin_lock_irq(&stock_lock);
		list_add_tail(&record->list, &stock_reserve);
		WRITE_ONCE(stock_reserved, stock_reserved + 1);
		raw_spin_unlock_irq(&stock_lock);
	}
}

static void stock_work(struct work_struct *work)
{
	struct stock_record *record;

	while ((record = stock_take())) {
		stock_replay(record);
		smp_store_release(&record->done, true);
		wake_up_all(&stock_wait);
		stock_put(record);
		stock_reserve_fill();
		cond_resched();
	}
}

/* The caller is on its way back to user space. */
static void stock_wait_for(struct callback_head *work)
{
	struct stock_record *record = container_of(work, struct stock_record, work);

	wait_event_timeout(stock_wait, smp_load_acquire(&record->done),
			   msecs_to_jiffies(READ_ONCE(stock_patience_ms)));
	stock_put(record);
	module_put(THIS_MODULE);
}

/* NULL: it is lost. */
static struct stock_record *stock_make(enum stock_kind kind)
{
	struct stock_record *record = NULL;

	/*
	 * Not charged to a memory cgroup: at its limit a tenant would make calls that nobody sees. All
	 * but calls are bounded by files and GPUs, and must not be lost for others' calls.
	 */
	if (kind != STOCK_CALL || READ_ONCE(stock_length) < STOCK_QUEUE_MAX)
		record = kmalloc_nolock(sizeof(*record), __GFP_ZERO, NUMA_NO_NODE) ?:
			 stock_reserve_take(kind == STOCK_CALL ? STOCK_SPARED : 0);
	if (!record) {
		atomic_inc(&stock_lost);
		return NULL;
	}
	record->kind = kind;
	refcount_set(&record->refs, 1);
	return record;
}

static void stock_add(struct stock_record *record)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&stock_lock, flags);
	record->number = stock_last + 1;
	WRITE_ONCE(stock_last, record->number);
	list_add_tail(&record->list, &stock_queue);
	WRITE_ONCE(stock_length, stock_length + 1);
	raw_spin_unlock_irqrestore(&stock_lock, flags);
	queue_work(stock_worker, &stock_worker_work);
}

/*
 * Has the current process wait for @record, which is not in the queue yet. The module stays until it
 * has: nvidia.ko may keep it from its return for as long as it likes, in memory of its own.
 */
static void stock_let_wait(struct stock_record *record)
{
	if (!try_module_get(THIS_MODULE))
		return;
	init_task_work(&record->work, stock_wait_for);
	refcount_inc(&record->refs);
	if (task_work_add(current, &record->work, TWA_RESUME)) {
		/* It will not go back to user space. */
		refcount_dec(&record->refs);
		module_put(THIS_MODULE);
	}
}

/* Something other than a call happened. */
void stock_queue_tell(enum stock_kind kind, u32 gpu_id, nv_file_private_t *owner)
{
	struct stock_record *record = stock_make(kind);

	if (!record)
		return;
	record->gpu_id = gpu_id;
	record->call.owner = owner;
	if (kind == STOCK_CLOSE && !(current->flags & PF_KTHREAD))
		stock_let_wait(record);
	stock_add(record);
}

/* The core has answered a call of the current process; from a probe. */
void stock_queue_call(const struct stock_call *call)
{
	struct stock_record *record = stock_make(STOCK_CALL);

	if (!record)
		return;
	record->call = *call;
	record->process = get_pid(task_tgid(current));
	record->thread = get_pid(task_pid(current));
	stock_let_wait(record);
	stock_add(record);
}

/* Returns when all that the probes have seen so far has been replayed. */
void stock_queue_flush(void)
{
	flush_work(&stock_worker_work);
}

int stock_queue_init(void)
{
	/* Suspends of the machine wait for it, while callers wait for nothing else. */
	stock_worker = alloc_ordered_workqueue("zernel_stock", WQ_FREEZABLE);
	if (!stock_worker)
		return -ENOMEM;
	stock_reserve_fill();
	return 0;
}

/* The probes are gone, and no caller waits. The last ones leave this module's code. */
void stock_queue_exit(void)
{
	struct stock_record *record;

	synchronize_rcu_tasks();
	destroy_workqueue(stock_worker);
	while ((record = stock_reserve_take(0)))
		kfree(record);
}
