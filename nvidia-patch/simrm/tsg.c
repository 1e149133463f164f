// SPDX-License-Identifier: GPL-2.0
/*
 * TSGs: their state, and the controls that look at it and change it.
 */
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "simrm.h"

#define DEFAULT_LEVEL	1
#define MAX_LEVEL	2

LIST_HEAD(simrm_tsgs);
DEFINE_MUTEX(simrm_tsgs_lock);

struct simrm_tsg *simrm_tsg_new(const struct simrm_object *device, u32 engine, bool hidden)
{
	static atomic64_t serial;
	struct simrm_gpu *gpu = device->gpu;
	struct simrm_tsg *tsg = kzalloc(sizeof(*tsg), GFP_KERNEL);
	int id;

	if (!tsg)
		return NULL;
	id = ida_alloc(&gpu->tsgs[engine], GFP_KERNEL);
	if (id < 0) {
		kfree(tsg);
		return NULL;
	}
	kref_init(&tsg->ref);
	mutex_init(&tsg->lock);
	INIT_LIST_HEAD(&tsg->handles);
	INIT_LIST_HEAD(&tsg->members);
	tsg->gpu = gpu;
	tsg->id = id;
	tsg->engine = engine;
	tsg->runlist = simrm_runlist_of(device, engine);
	simrm_instances_of(device, &tsg->mig, &tsg->compute);
	/* The engine's names have not this bit. */
	tsg->serial = BIT_ULL(63) | atomic64_inc_return(&serial);
	tsg->hidden = hidden;
	tsg->process = current->tgid;
	tsg->slice_us = SIMRM_DEFAULT_SLICE_US;
	tsg->interleave = DEFAULT_LEVEL;
	mutex_lock(&simrm_tsgs_lock);
	list_add_tail(&tsg->node, &simrm_tsgs);
	mutex_unlock(&simrm_tsgs_lock);
	return tsg;
}

static void release(struct kref *ref)
{
	struct simrm_tsg *tsg = container_of(ref, struct simrm_tsg, ref);

	list_del(&tsg->node);
	mutex_unlock(&simrm_tsgs_lock);
	WARN_ON(tsg->channels || !list_empty(&tsg->handles));
	ida_free(&tsg->gpu->tsgs[tsg->engine], tsg->id);
	mutex_destroy(&tsg->lock);
	kfree(tsg);
}

void simrm_tsg_put(struct simrm_tsg *tsg)
{
	kref_put_mutex(&tsg->ref, release, &simrm_tsgs_lock);
}

u32 simrm_tsg_add_channel(struct simrm_object *channel)
{
	struct simrm_tsg *tsg = channel->tsg;
	int id = ida_alloc_max(&tsg->gpu->channels[tsg->engine], SIMRM_CHANNELS - 1, GFP_KERNEL);

	mutex_lock(&tsg->lock);
	tsg->channels++;
	list_add_tail(&channel->member, &tsg->members);
	channel->chid = id < 0 ? RM_INVALID_CHANNEL : id;
	channel->context = simrm_fecs_new_context();
	mutex_unlock(&tsg->lock);
	return id < 0 ? RM_INSUFFICIENT_RESOURCES : RM_OK;
}

/* The channel may be half made: without a number, or not even counted. */
void simrm_tsg_drop_channel(struct simrm_object *channel, struct simrm_tsg *tsg)
{
	if (list_empty(&channel->member))
		return;
	mutex_lock(&tsg->lock);
	simrm_engine_lose(tsg, channel);
	list_del_init(&channel->member);
	tsg->channels--;
	if (channel->disabled)
		tsg->disabled--;
	simrm_engine_update(tsg);
	mutex_unlock(&tsg->lock);
	if (channel->chid != RM_INVALID_CHANNEL)
		ida_free(&tsg->gpu->channels[tsg->engine], channel->chid);
}

/* One line per TSG, as in README. */
void simrm_tsg_show(struct seq_file *out)
{
	struct simrm_object *object;
	struct simrm_tsg *tsg;
	const char *comma;

	mutex_lock(&simrm_tsgs_lock);
	list_for_each_entry(tsg, &simrm_tsgs, node) {
		mutex_lock(&tsg->lock);
		seq_printf(out, "gpu=%#x runlist=%#x tsg=%u engine=%u slice_us=%llu interleave=%u ",
			   tsg->gpu->id, simrm_runlist_base(tsg->runlist), tsg->id, tsg->engine,
			   tsg->slice_us, tsg->interleave);
		seq_printf(out, "scheduled=%u preempts=%u restarts=%u channels=%u disabled=%u ",
			   tsg->scheduled, tsg->preempts, tsg->restarts, tsg->channels,
			   tsg->disabled);
		seq_printf(out, "computes=%u process=%d attached=%#llx chids=", tsg->computes,
			   tsg->process, tsg->attached);
		comma = "";
		list_for_each_entry(object, &tsg->members, member) {
			seq_printf(out, "%s%u", comma, object->chid);
			comma = ",";
		}
		seq_puts(out, " handles=");
		comma = "";
		list_for_each_entry(object, &tsg->handles, alias) {
			seq_printf(out, "%s%#x:%#x", comma, object->client->handle, object->handle);
			comma = ",";
		}
		seq_puts(out, tsg->hidden ? "hidden\n" : "\n");
		mutex_unlock(&tsg->lock);
	}
	mutex_unlock(&simrm_tsgs_lock);
}

/* With simrm_api held for write. */
void simrm_channel_disable(struct simrm_object *channel, bool disable)
{
	if (channel->disabled == disable)
		return;
	channel->disabled = disable;
	mutex_lock(&channel->tsg->lock);
	channel->tsg->disabled += disable ? 1 : -1;
	simrm_engine_update(channel->tsg);
	mutex_unlock(&channel->tsg->lock);
}

static void set_scheduled(struct simrm_tsg *tsg, bool scheduled)
{
	mutex_lock(&tsg->lock);
	tsg->scheduled = scheduled;
	simrm_engine_update(tsg);
	mutex_unlock(&tsg->lock);
}

/* As bad as can be: what is scheduled is enabled, too. */
u32 simrm_channel_schedule(struct simrm_object *object, const struct simrm_caller *who,
			   void *params)
{
	bool on = *(u8 *)params != 0;

	set_scheduled(object->tsg, on);
	if (on)
		simrm_channel_disable(object, false);
	return RM_OK;
}

u32 simrm_tsg_schedule(struct simrm_object *object, const struct simrm_caller *who, void *params)
{
	struct simrm_object *handle, *child;
	bool on = *(u8 *)params != 0;

	set_scheduled(object->tsg, on);
	if (!on)
		return RM_OK;
	list_for_each_entry(handle, &object->tsg->handles, alias) {
		list_for_each_entry(child, &handle->children, sibling) {
			if (child->kind == SIMRM_CHANNEL && !child->lost)
				simrm_channel_disable(child, false);
		}
	}
	return RM_OK;
}

u32 simrm_channel_stop(struct simrm_object *object, const struct simrm_caller *who, void *params)
{
	simrm_channel_disable(object, true);
	return RM_OK;
}

u32 simrm_tsg_bind(struct simrm_object *object, const struct simrm_caller *who, void *params)
{
	return *(u32 *)params == object->tsg->engine ? RM_OK : RM_INVALID_ARGUMENT;
}

u32 simrm_tsg_set_slice(struct simrm_object *object, const struct simrm_caller *who, void *params)
{
	mutex_lock(&object->tsg->lock);
	object->tsg->slice_us = *(u64 *)params;
	simrm_engine_update(object->tsg);
	mutex_unlock(&object->tsg->lock);
	return RM_OK;
}

u32 simrm_tsg_get_slice(struct simrm_object *object, const struct simrm_caller *who, void *params)
{
	mutex_lock(&object->tsg->lock);
	*(u64 *)params = object->tsg->slice_us;
	mutex_unlock(&object->tsg->lock);
	return RM_OK;
}

u32 simrm_tsg_preempt(struct simrm_object *object, const struct simrm_caller *who, void *params)
{
	const struct rm_preempt *preempt = params;
	u32 status;

	if (preempt->manual && preempt->timeout_us > RM_PREEMPT_MAX_US)
		return RM_INVALID_ARGUMENT;
	mutex_lock(&object->tsg->lock);
	object->tsg->preempts++;
	status = simrm_engine_preempt(object->tsg, preempt);
	mutex_unlock(&object->tsg->lock);
	return status;
}

u32 simrm_tsg_info(struct simrm_object *object, const struct simrm_caller *who, void *params)
{
	*(u32 *)params = object->tsg->id;
	return RM_OK;
}

u32 simrm_tsg_set_level(struct simrm_object *object, const struct simrm_caller *who, void *params)
{
	if (*(u32 *)params > MAX_LEVEL)
		return RM_INVALID_ARGUMENT;
	mutex_lock(&object->tsg->lock);
	object->tsg->interleave = *(u32 *)params;
	simrm_engine_update(object->tsg);
	mutex_unlock(&object->tsg->lock);
	return RM_OK;
}
