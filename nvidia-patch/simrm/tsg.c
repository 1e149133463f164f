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

struct simrm_tsg *simrm_tsg_new(struct simrm_gpu *gpu, u32 engine, bool hidden)
{
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
	tsg->gpu = gpu;
	tsg->id = id;
	tsg->engine = engine;
	tsg->runlist = engine;
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
	ida_free(&tsg->gpu->tsgs[tsg->runlist], tsg->id);
	mutex_destroy(&tsg->lock);
	kfree(tsg);
}

void simrm_tsg_put(struct simrm_tsg *tsg)
{
	kref_put_mutex(&tsg->ref, release, &simrm_tsgs_lock);
}

void simrm_tsg_add_channel(struct simrm_tsg *tsg)
{
	mutex_lock(&tsg->lock);
	tsg->channels++;
	mutex_unlock(&tsg->lock);
}

void simrm_tsg_drop_channel(struct simrm_tsg *tsg, bool disabled)
{
	mutex_lock(&tsg->lock);
	tsg->channels--;
	if (disabled)
		tsg->disabled--;
	mutex_unlock(&tsg->lock);
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
		seq_printf(out, "gpu=%#x runlist=%u tsg=%u engine=%u slice_us=%llu interleave=%u ",
			   tsg->gpu->id, tsg->runlist, tsg->id, tsg->engine, tsg->slice_us,
			   tsg->interleave);
		seq_printf(out, "scheduled=%u preempts=%u channels=%u disabled=%u process=%d handles=",
			   tsg->scheduled, tsg->preempts, tsg->channels, tsg->disabled,
			   tsg->process);
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

u32 simrm_tsg_schedule(struct simrm_object *object, const struct simrm_caller *who, void *params)
{
	mutex_lock(&object->tsg->lock);
	object->tsg->scheduled = *(u8 *)params != 0;
	mutex_unlock(&object->tsg->lock);
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

	if (preempt->manual && preempt->timeout_us > RM_PREEMPT_MAX_US)
		return RM_INVALID_ARGUMENT;
	mutex_lock(&object->tsg->lock);
	object->tsg->preempts++;
	mutex_unlock(&object->tsg->lock);
	return RM_OK;
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
	mutex_unlock(&object->tsg->lock);
	return RM_OK;
}
