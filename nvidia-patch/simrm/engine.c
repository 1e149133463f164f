// SPDX-License-Identifier: GPL-2.0
/*
 * TSGs on an engine: which of them it has, what it is told of them, and the controls that are
 * about registers and run lists.
 *
 * The engine is registered, and taken away, with simrm_api held for write, and is called with it
 * held.
 */
#include <linux/delay.h>
#include <linux/export.h>
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "simrm.h"

/* The time after which a preemption has failed, unless it is given. */
#define PREEMPT_US	RM_PREEMPT_MAX_US

static const struct simrm_engine_ops *engine;
static void *private;

int simrm_engine_register(const struct simrm_engine_ops *ops, void *data)
{
	struct simrm_gpu *gpu;
	int err = 0;

	down_write(&simrm_api);
	if (engine) {
		err = -EBUSY;
		goto out;
	}
	engine = ops;
	private = data;
	for (gpu = simrm_gpus; gpu < simrm_gpus + SIMRM_MAX_GPUS; gpu++) {
		if (!gpu->regs)
			continue;
		engine->started(private, gpu->instance, gpu->regs, gpu->regs_size);
		if (gpu->suspended)
			engine->suspended(private, gpu->instance, true);
	}
out:
	up_write(&simrm_api);
	return err;
}
EXPORT_SYMBOL_GPL(simrm_engine_register);

/* With the TSG's lock held: the engine does not have it any more. */
static void forget(struct simrm_tsg *tsg)
{
	struct simrm_object *channel;

	tsg->attached = 0;
	list_for_each_entry(channel, &tsg->members, member)
		channel->attached = false;
}

void simrm_engine_unregister(void)
{
	struct simrm_tsg *tsg;

	down_write(&simrm_api);
	engine = NULL;
	list_for_each_entry(tsg, &simrm_tsgs, node)
		forget(tsg);
	up_write(&simrm_api);
}
EXPORT_SYMBOL_GPL(simrm_engine_unregister);

/* Levels count once the run lists have a policy, which is the GPU's. */
static struct simrm_engine_state state_of(const struct simrm_tsg *tsg)
{
	return (struct simrm_engine_state) {
		.slice_us = clamp(tsg->slice_us, 1ULL, U32_MAX),
		.interleave = READ_ONCE(tsg->gpu->interleaved) ? tsg->interleave : 0,
		.runs = tsg->scheduled && !tsg->disabled,
	};
}

/* With the TSG's lock held. */
static int attach(struct simrm_tsg *tsg, void *cookie)
{
	struct simrm_engine_tsg desc = {
		.gpu = tsg->gpu->instance, .runlist = tsg->runlist, .id = tsg->id,
		.state = state_of(tsg),
	};
	struct simrm_object *channel;
	u64 handle;
	int err;

	if (tsg->attached)
		return -EBUSY;
	list_for_each_entry(channel, &tsg->members, member) {
		if (desc.nr_channels == SIMRM_ENGINE_CHANNELS)
			return -ERANGE;
		desc.chids[desc.nr_channels++] = channel->chid;
	}
	if (!desc.nr_channels)
		return -ERANGE;
	err = engine->attach(private, cookie, &desc, &handle);
	if (err)
		return err;
	tsg->attached = handle;
	list_for_each_entry(channel, &tsg->members, member)
		channel->attached = true;
	return 0;
}

int simrm_engine_attach(u32 handle, u32 number, void *cookie)
{
	bool exclusive = simrm_lock(false);
	struct simrm_client *client = simrm_client_find(handle);
	struct simrm_object *object;
	int err;

	if (!engine || !client || !client->active) {
		err = -ENOENT;
	} else if (client->process != current->tgid) {
		err = -EPERM;
	} else {
		mutex_lock(&client->lock);
		object = simrm_object_find(client, number);
		if (!object || object->lost) {
			err = -ENOENT;
		} else if (object->kind != SIMRM_TSG) {
			err = -EINVAL;
		} else {
			mutex_lock(&object->tsg->lock);
			err = attach(object->tsg, cookie);
			mutex_unlock(&object->tsg->lock);
		}
		mutex_unlock(&client->lock);
	}
	simrm_unlock(exclusive);
	return err;
}
EXPORT_SYMBOL_GPL(simrm_engine_attach);

void simrm_engine_detach(u64 handle)
{
	bool exclusive = simrm_lock(false);
	struct simrm_tsg *tsg;

	mutex_lock(&simrm_tsgs_lock);
	list_for_each_entry(tsg, &simrm_tsgs, node) {
		mutex_lock(&tsg->lock);
		if (tsg->attached == handle)
			forget(tsg);
		mutex_unlock(&tsg->lock);
	}
	mutex_unlock(&simrm_tsgs_lock);
	simrm_unlock(exclusive);
}
EXPORT_SYMBOL_GPL(simrm_engine_detach);

/* With the TSG's lock held, after a change of its settings. */
void simrm_engine_update(struct simrm_tsg *tsg)
{
	struct simrm_engine_state state = state_of(tsg);

	if (tsg->attached)
		engine->update(private, tsg->gpu->instance, tsg->attached, &state);
}

/* With simrm_tsgs_lock held, after a change of the policy. */
void simrm_engine_update_all(struct simrm_gpu *gpu)
{
	struct simrm_tsg *tsg;

	list_for_each_entry(tsg, &simrm_tsgs, node) {
		if (tsg->gpu != gpu)
			continue;
		mutex_lock(&tsg->lock);
		simrm_engine_update(tsg);
		mutex_unlock(&tsg->lock);
	}
}

/* With the TSG's lock held: a channel of it goes, and its work with it. */
void simrm_engine_lose(struct simrm_tsg *tsg, struct simrm_object *channel)
{
	if (!channel->attached)
		return;
	engine->ended(private, tsg->gpu->instance, tsg->attached);
	forget(tsg);
}

void simrm_engine_started(struct simrm_gpu *gpu)
{
	if (engine)
		engine->started(private, gpu->instance, gpu->regs, gpu->regs_size);
}

/* Time goes on in the engine when something happens there, or somebody asks. */
void simrm_engine_catch_up(struct simrm_gpu *gpu)
{
	if (engine && gpu->regs)
		engine->catch_up(private, gpu->instance);
}

void simrm_engine_stopped(struct simrm_gpu *gpu)
{
	if (engine)
		engine->stopped(private, gpu->instance);
}

void simrm_engine_suspended(struct simrm_gpu *gpu)
{
	if (engine && gpu->regs)
		engine->suspended(private, gpu->instance, gpu->suspended);
}

/* With the TSG's lock held. The engine is given away at the end of blocks that have begun. */
static u32 wait_until_left(const struct simrm_tsg *tsg, u32 timeout_us)
{
	unsigned long deadline = jiffies + usecs_to_jiffies(timeout_us);

	while (engine->leaving(private, tsg->gpu->instance, tsg->attached)) {
		if (time_after(jiffies, deadline))
			return RM_TIMEOUT;
		fsleep(20);
	}
	return RM_OK;
}

/* With the TSG's lock held. */
u32 simrm_engine_preempt(struct simrm_tsg *tsg, const struct rm_preempt *preempt)
{
	if (!tsg->attached)
		return RM_OK;
	engine->preempt(private, tsg->gpu->instance, tsg->attached);
	if (!preempt->wait)
		return RM_OK;
	return wait_until_left(tsg, preempt->manual ? preempt->timeout_us : PREEMPT_US);
}

u32 simrm_engine_restart(struct simrm_object *object, const struct simrm_caller *who, void *params)
{
	const struct rm_restart *restart = params;
	struct simrm_tsg *tsg = object->tsg;
	u32 status = RM_OK;

	mutex_lock(&tsg->lock);
	tsg->restarts++;
	if (tsg->attached) {
		engine->restart(private, tsg->gpu->instance, tsg->attached, restart->force);
		if (!restart->bypass_wait)
			status = wait_until_left(tsg, PREEMPT_US);
	}
	mutex_unlock(&tsg->lock);
	return status;
}

/* The engines whose run lists have registers, in pages of a fixed number. */
u32 simrm_engine_table(struct simrm_object *object, const struct simrm_caller *who, void *params)
{
	struct rm_device_table *table = params;
	u32 base = table->base, type;
	struct rm_device *device;

	if (base % RM_DEVICE_ENTRIES || base > RM_DEVICE_MAX)
		return RM_INVALID_ARGUMENT;
	memset(table, 0, sizeof(*table));
	table->base = base;
	for (type = SIMRM_ENGINE_GR0 + base; type <= SIMRM_ENGINE_LAST; type++) {
		if (table->count == RM_DEVICE_ENTRIES) {
			table->more = true;
			break;
		}
		device = &table->devices[table->count++];
		device->data[RM_DEVICE_TYPE] = type;
		device->data[RM_DEVICE_RUNLIST] = type;
		device->data[RM_DEVICE_RUNLIST_BASE] = SIMRM_RUNLIST_BASE +
						       type * SIMRM_RUNLIST_SIZE;
		device->data[RM_DEVICE_HOST_DRIVEN] = 1;
		device->data[RM_DEVICE_CHRAM_BASE] = SIMRM_CHRAM_BASE + type * SIMRM_CHRAM_SIZE;
		snprintf(device->name, sizeof(device->name), "%s%u",
			 type < SIMRM_ENGINE_COPY0 ? "GR" : "CE",
			 type < SIMRM_ENGINE_COPY0 ? type - SIMRM_ENGINE_GR0 :
			 type - SIMRM_ENGINE_COPY0);
	}
	return RM_OK;
}

/* One line per engine, as in README. */
int simrm_engine_show(struct seq_file *out)
{
	struct rm_device_table *table = kzalloc(sizeof(*table), GFP_KERNEL);
	u32 i;

	if (!table)
		return -ENOMEM;
	do {
		simrm_engine_table(NULL, NULL, table);
		for (i = 0; i < table->count; i++)
			seq_printf(out, "engine=%u runlist=%u registers=%#x channels=%#x\n",
				   table->devices[i].data[RM_DEVICE_TYPE],
				   table->devices[i].data[RM_DEVICE_RUNLIST],
				   table->devices[i].data[RM_DEVICE_RUNLIST_BASE],
				   table->devices[i].data[RM_DEVICE_CHRAM_BASE]);
		table->base += RM_DEVICE_ENTRIES;
	} while (table->more);
	kfree(table);
	return 0;
}

/* The lists are in memory of the caller, which is the kernel. */
u32 simrm_engine_channels(struct simrm_object *object, const struct simrm_caller *who,
			  void *params)
{
	const struct rm_channel_list *list = params;
	const u32 *handles = (const u32 *)(uintptr_t)list->handles;
	u32 *ids = (u32 *)(uintptr_t)list->ids;
	const struct simrm_object *channel;
	u32 i;

	if (!list->count)
		return RM_INVALID_ARGUMENT;
	for (i = 0; i < list->count; i++) {
		channel = simrm_object_find(object->client, handles[i]);
		ids[i] = channel && channel->kind == SIMRM_CHANNEL && !channel->lost ?
			 channel->chid : RM_INVALID_CHANNEL;
	}
	return RM_OK;
}
