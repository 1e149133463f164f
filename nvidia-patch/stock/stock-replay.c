// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A record is replayed: the files of the hook handle the call as they would have done, and when they
 * hand it to the core, they get the answer that the core gave.
 *
 * The records of calls that ran side by side may be in another order than the core's: an allocation
 * may be given the handle that a free before it took away, and return first. So after such a free the
 * core is asked whether the object is gone.
 */
#include "stock.h"

#include <linux/hash.h>
#include <linux/pid.h>

#define STOCK_CLIENTS_BITS	8

/* Under replay, and the parameters as the core has them at that point. */
static const struct stock_record *stock_now;
static u8 stock_data[STOCK_DATA] __aligned(8);
static bool stock_answered;

/*
 * Numbers of the last records in which clients made objects, and in which their handles changed;
 * some clients share one.
 */
static u64 stock_made[1 << STOCK_CLIENTS_BITS];
static u64 stock_changed[1 << STOCK_CLIENTS_BITS];

/* The reason to be suspended that the driver's own interface gives. */
static bool stock_suspended;

/* The file was found when the core was asked. */
nv_file_private_t *nvz_owner(nv_file_private_t *nvfp)
{
	return nvfp;
}

struct pid *nvz_caller_pid(enum pid_type type)
{
	return get_pid(type == PIDTYPE_TGID ? stock_now->process : stock_now->thread);
}

bool nvz_caller_read(void *to, u64 from, u32 size)
{
	const struct stock_hint *hint = &stock_now->call.hint;

	if (!hint->at || from != hint->at || size > hint->size || !hint->read[stock_answered])
		return false;
	memcpy(to, &hint->value[stock_answered], size);
	return true;
}

/* It has its answer. */
bool nvz_caller_waits(void)
{
	return false;
}

bool nvz_caller_ordered(void)
{
	const struct nvz_esc_control *control = (const void *)stock_now->call.after;

	return stock_changed[hash_32(control->client, STOCK_CLIENTS_BITS)] <= stock_now->call.begun;
}

void nvz_caller_describe(struct nv_zernel_gpu *gpu)
{
	snprintf(gpu->driver, sizeof(gpu->driver), "%s observe+control", stock_version);
	gpu->flags |= NV_ZERNEL_GPU_OBSERVED;
}

u32 nvz_caller_unseen(void)
{
	return stock_queue_lost() + stock_probe_missed();
}

/* True if the call is a free that an allocation in the same client may have overtaken. */
static bool stock_overtaken(const struct stock_call *call)
{
	const struct nvz_esc_free *free = (const void *)call->after;

	if (call->escape != NVZ_ESC_FREE && call->escape != NVZ_ESC_HEAP_CONTROL)
		return false;
	/* The client is at the same place in both. */
	return stock_made[hash_32(free->client, STOCK_CLIENTS_BITS)] > call->begun;
}

/* Has the files of the hook take a free for one that failed: then they ask the core. */
static void stock_doubt(u32 escape)
{
	struct nvz_esc_heap_control *heap = (void *)stock_data;
	struct nvz_esc_free *free = (void *)stock_data;

	if (escape == NVZ_ESC_FREE)
		free->status = NV_ERR_GENERIC;
	else
		heap->status = NV_ERR_GENERIC;
}

/* In place of the core. It has nothing to say to other questions than the call under replay. */
NV_STATUS rm_ioctl(nvidia_stack_t *sp, nv_state_t *nv, nv_file_private_t *nvfp, u32 escape,
		   void *data, u32 size)
{
	const struct stock_call *call = &stock_now->call;

	if (data != stock_data)
		return NV_ERR_NOT_SUPPORTED;
	memcpy(stock_data, call->after, sizeof(stock_data));
	if (stock_overtaken(call))
		stock_doubt(escape);
	stock_answered = true;
	return call->answer;
}

/* Remembers the clients whose handles change. */
static void stock_note(const struct stock_record *record)
{
	/* The client is at the same place in all escapes. */
	const struct nvz_esc_alloc *alloc = (const void *)record->call.after;
	u32 slot = hash_32(alloc->client, STOCK_CLIENTS_BITS);

	switch (record->call.escape) {
	case NVZ_ESC_ALLOC:
	case NVZ_ESC_ALLOC_OBJECT:
	case NVZ_ESC_ALLOC_CONTEXT_DMA:
	case NVZ_ESC_DUP:
		stock_made[slot] = record->number;
		fallthrough;
	case NVZ_ESC_FREE:
	case NVZ_ESC_HEAP_CONTROL:
		stock_changed[slot] = record->number;
	}
}

static void stock_replay_call(const struct stock_record *record)
{
	static nv_state_t control = { .flags = NV_FLAG_CONTROL };
	const struct stock_call *call = &record->call;
	nvidia_stack_t *sp;

	if (nv_kmem_cache_alloc_stack(&sp)) {
		mutex_lock(&nvz_table_lock);
		nvz_forgotten++;
		mutex_unlock(&nvz_table_lock);
		return;
	}
	stock_answered = false;
	memcpy(stock_data, call->before, sizeof(stock_data));
	nvz_rm_hold();
	nv_zernel_rm_ioctl(sp, &control, call->owner, call->escape, stock_data, call->size);
	nvz_rm_release();
	nv_kmem_cache_free_stack(sp);
	stock_note(record);
}

static void stock_suspend(bool suspend)
{
	if (suspend == stock_suspended)
		return;
	stock_suspended = suspend;
	if (suspend) {
		nv_zernel_suspended();
		nvz_rm_sleep();
	} else {
		nvz_rm_wake();
		nv_zernel_resumed();
	}
}

void stock_replay(const struct stock_record *record)
{
	stock_now = record;
	switch (record->kind) {
	case STOCK_CALL:
		stock_replay_call(record);
		break;
	case STOCK_CLOSE:
		nv_zernel_file_close(record->call.owner);
		break;
	case STOCK_GPUS:
		stock_gpu_look();
		break;
	case STOCK_START:
	case STOCK_STOP:
		stock_gpu_started(record->gpu_id, record->kind == STOCK_START);
		break;
	case STOCK_SUSPEND:
	case STOCK_RESUME:
		stock_suspend(record->kind == STOCK_SUSPEND);
		break;
	}
	stock_now = NULL;
}
