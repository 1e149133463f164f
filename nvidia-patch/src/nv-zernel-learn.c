// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Questions to the core about new TSGs and channels: the GPU, the run list, their numbers. Under the
 * file lock, so the tenant's objects stay.
 */
#include "nv-zernel-private.h"

#include <linux/slab.h>

#define NVZ_GPUS_MAX	32

/*
 * Parameters of NVZ_CTRL_RUNLIST_BASES: the engines, then the bases of their run lists, in newer
 * versions of the driver then the numbers. A version refuses the size of another one.
 */
static const struct {
	u32 engines, arrays;
} nvz_runlist_bases[] = {
	{ 0x40, 2 },	/* 550 */
	{ 0x54, 3 },	/* 595 */
};

#define NVZ_RUNLIST_BASES_MAX	(0x54 * 3)

/* Above it are values that stand for no base. */
#define NVZ_RUNLIST_BASE_END	0xfffffff0U

struct nvz_gpu_id_info {
	u32 gpu_id, flags, device_instance, subdevice_instance, sli, board, gpu_instance, numa;
};

/* The GPU of a device, as one of its subdevices tells. */
u32 nvz_learn_gpu(nvidia_stack_t *sp, u32 client, u32 device, u32 subdevice)
{
	u32 gpu_id = NV_ZERNEL_UNKNOWN;
	struct nvz_object *object;

	if (nvz_rm_control(sp, client, subdevice, NVZ_CTRL_GPU_ID, &gpu_id, sizeof(gpu_id)) !=
	    NV_OK)
		return NV_ZERNEL_UNKNOWN;
	mutex_lock(&nvz_table_lock);
	object = nvz_lookup(client, device);
	if (object && object->kind == NVZ_DEVICE)
		object->gpu_id = gpu_id;
	mutex_unlock(&nvz_table_lock);
	return gpu_id;
}

/*
 * The address of a run list's registers in BAR 0, by an engine. The core knows the engines that the
 * subdevice's client has subscribed to. 0: it does not tell, as for GPUs before Ampere.
 */
static u32 nvz_ask_runlist(nvidia_stack_t *sp, u32 client, u32 subdevice, u32 engine)
{
	static u32 fits;	/* the layout that was taken last */
	u32 *params, base, i;

	params = kmalloc_array(NVZ_RUNLIST_BASES_MAX, sizeof(*params), GFP_KERNEL);
	if (!params)
		return 0;
	for (i = 0, base = 0; i < ARRAY_SIZE(nvz_runlist_bases) && !base; i++) {
		u32 layout = (i + READ_ONCE(fits)) % ARRAY_SIZE(nvz_runlist_bases);
		u32 engines = nvz_runlist_bases[layout].engines;
		u32 size = engines * nvz_runlist_bases[layout].arrays * sizeof(*params);

		memset(params, 0, size);
		params[0] = engine;
		if (nvz_rm_control(sp, client, subdevice, NVZ_CTRL_RUNLIST_BASES, params, size) !=
		    NV_OK)
			continue;
		WRITE_ONCE(fits, layout);
		if (params[engines] < NVZ_RUNLIST_BASE_END)
			base = params[engines];
	}
	kfree(params);
	return base;
}

/*
 * The run list of an engine, as above. An engine without one is a lie of the tenant's memory, where
 * the core tells at all: nobody gets a run list to itself by that.
 */
static u32 nvz_learn_runlist(nvidia_stack_t *sp, u32 client, u32 subdevice, u32 engine)
{
	u32 base = 0;

	if (engine && engine != NV_ZERNEL_UNKNOWN)
		base = nvz_ask_runlist(sp, client, subdevice, engine);
	return base ?: nvz_ask_runlist(sp, client, subdevice, NVZ_ENGINE_GR_FIRST);
}

/*
 * A subdevice for questions: @subdevice, or one that the client is lent where that is 0, so that
 * nobody escapes by doing without. @lent: to be freed after them, or 0. 0: there is none.
 */
static u32 nvz_lend_subdevice(nvidia_stack_t *sp, u32 client, u32 device, u32 subdevice, u32 *lent)
{
	*lent = 0;
	if (!subdevice &&
	    nvz_rm_alloc(sp, client, device, lent, NVZ_CLASS_SUBDEVICE, NULL) != NV_OK)
		*lent = 0;
	return subdevice ?: *lent;
}

/* A subdevice of the device in the table, and the MIG instances below it. 0: there is none. */
static u32 nvz_walk_device(const struct nvz_object *device, struct nvz_tsg *tsg)
{
	const struct nvz_object *subdevice, *instance, *compute;
	u32 handle = 0;

	lockdep_assert_held(&nvz_table_lock);
	list_for_each_entry(subdevice, &device->children, sibling) {
		if (subdevice->kind != NVZ_SUBDEVICE)
			continue;
		handle = handle ?: subdevice->handle;
		list_for_each_entry(instance, &subdevice->children, sibling) {
			if (instance->kind != NVZ_MIG)
				continue;
			tsg->mig = instance->instance;
			list_for_each_entry(compute, &instance->children, sibling)
				tsg->compute = compute->instance;
		}
	}
	return handle;
}

/*
 * The GPU of a device that the core does not tell about: by the instance it was asked for, else the
 * first one there is. A TSG must not stay out of sight.
 */
static u32 nvz_guess_gpu(nvidia_stack_t *sp, u32 client, u32 instance)
{
	u32 ids[NVZ_GPUS_MAX], count, i;

	mutex_lock(&nvz_table_lock);
	count = min_t(u32, nvz_gpu_ids(ids, NVZ_GPUS_MAX), NVZ_GPUS_MAX);
	mutex_unlock(&nvz_table_lock);
	for (i = 0; count > 1 && i < count; i++) {
		struct nvz_gpu_id_info info = { .gpu_id = ids[i] };

		if (nvz_rm_control(sp, client, client, NVZ_CTRL_GPU_ID_INFO, &info,
				   sizeof(info)) == NV_OK && info.device_instance == instance)
			return ids[i];
	}
	return count ? ids[0] : NV_ZERNEL_UNKNOWN;
}

/* Fills in the properties of a TSG, except for its engine. */
void nvz_learn_tsg(nvidia_stack_t *sp, u32 client, u32 parent, u32 handle, struct nvz_tsg *tsg)
{
	u32 instance = NV_ZERNEL_UNKNOWN, number = NV_ZERNEL_UNKNOWN, subdevice = 0, lent;
	struct nvz_object *device;

	mutex_lock(&nvz_table_lock);
	device = nvz_lookup(client, parent);
	if (device && device->kind == NVZ_DEVICE) {
		tsg->gpu_id = device->gpu_id;
		instance = device->instance;
		subdevice = nvz_walk_device(device, tsg);
	}
	mutex_unlock(&nvz_table_lock);
	subdevice = nvz_lend_subdevice(sp, client, parent, subdevice, &lent);
	if (subdevice) {
		if (tsg->gpu_id == NV_ZERNEL_UNKNOWN)
			tsg->gpu_id = nvz_learn_gpu(sp, client, parent, subdevice);
		tsg->runlist = nvz_learn_runlist(sp, client, subdevice, tsg->engine);
	}
	if (lent)
		nvz_rm_free(sp, client, lent);
	tsg->guessed = tsg->gpu_id == NV_ZERNEL_UNKNOWN;
	if (tsg->guessed)
		tsg->gpu_id = nvz_guess_gpu(sp, client, instance);
	if (nvz_rm_control(sp, client, handle, NVZ_CTRL_TSG_INFO, &number,
			   sizeof(number)) == NV_OK)
		tsg->hw_tsg = number;
}

/* The number of a new channel of a TSG on its run list. */
u32 nvz_learn_chid(nvidia_stack_t *sp, u32 client, u32 tsg, u32 channel)
{
	u32 chid = NV_ZERNEL_UNKNOWN, device = 0;
	struct {
		u32 count, pad;
		u64 handles, numbers;
	} params = {
		.count = 1,
		.handles = (unsigned long)&channel,
		.numbers = (unsigned long)&chid,
	};
	const struct nvz_object *parent;

	mutex_lock(&nvz_table_lock);
	parent = nvz_lookup(client, tsg);
	if (parent && parent->kind == NVZ_TSG && parent->parent)
		device = parent->parent->handle;
	mutex_unlock(&nvz_table_lock);
	if (device && nvz_rm_control(sp, client, device, NVZ_CTRL_CHANNEL_LIST, &params,
				     sizeof(params)) == NV_OK)
		return chid;
	return NV_ZERNEL_UNKNOWN;
}

/*
 * The number by which records of context switches name a channel. 550 does not tell: it is in the
 * parameters of the channel alone, which are in the tenant's memory.
 */
u32 nvz_learn_context(nvidia_stack_t *sp, u32 client, u32 channel)
{
	u32 context = NV_ZERNEL_UNKNOWN;

	if (nvz_rm_control(sp, client, channel, NVZ_CTRL_CONTEXT, &context, sizeof(context)) !=
	    NV_OK)
		return NV_ZERNEL_UNKNOWN;
	return context;
}

/* The engine is believed only if it read the same before and after the core read it. */
void nvz_learn_engine(const struct nvz_alloc *alloc, struct nvz_tsg *tsg)
{
	u32 engine = alloc->hint;

	if (engine == NV_ZERNEL_UNKNOWN || nvz_hint(alloc, NVZ_TSG_ENGINE_AT) != engine) {
		tsg->flags |= NV_ZERNEL_TSG_COMPUTE;
		return;
	}
	tsg->engine = engine;
	if (engine >= NVZ_ENGINE_GR_FIRST && engine <= NVZ_ENGINE_GR_LAST)
		tsg->flags |= NV_ZERNEL_TSG_COMPUTE;
}

/* The TSG of a channel of this file, if its engine is none for compute. */
static struct nvz_tsg *nvz_misplaced(const struct nvz_file *file, u32 client, u32 channel)
{
	const struct nvz_object *object = nvz_lookup(client, channel);
	struct nvz_tsg *tsg;

	lockdep_assert_held(&nvz_table_lock);
	if (!object || object->client->file != file || object->kind != NVZ_CHANNEL)
		return NULL;
	tsg = object->tsg;
	if (tsg && tsg->engine >= NVZ_ENGINE_GR_FIRST && tsg->engine <= NVZ_ENGINE_GR_LAST)
		return NULL;
	return tsg;
}

/*
 * A compute or 3D object was made on a channel: the TSG is on an engine that computes, although the
 * tenant's memory said otherwise when it was made.
 */
void nvz_learn_compute(nvidia_stack_t *sp, struct nvz_file *file, u32 client, u32 channel)
{
	u32 device = 0, subdevice = 0, runlist = 0, lent;
	const struct nvz_object *above;
	struct nvz_tsg *tsg, like;

	mutex_lock(&nvz_table_lock);
	tsg = nvz_misplaced(file, client, channel);
	/* Of a channel of a TSG, the parent is that one's handle. */
	above = tsg ? nvz_lookup(client, channel)->parent->parent : NULL;
	if (above && above->kind == NVZ_DEVICE) {
		device = above->handle;
		subdevice = nvz_walk_device(above, &like);
	}
	mutex_unlock(&nvz_table_lock);
	if (!tsg)
		return;
	subdevice = nvz_lend_subdevice(sp, client, device, subdevice, &lent);
	if (subdevice)
		runlist = nvz_learn_runlist(sp, client, subdevice, NVZ_ENGINE_GR_FIRST);
	if (lent)
		nvz_rm_free(sp, client, lent);

	mutex_lock(&nvz_table_lock);
	tsg = nvz_misplaced(file, client, channel);
	if (tsg) {
		tsg->engine = NVZ_ENGINE_GR_FIRST;
		tsg->runlist = runlist;
		nvz_tsg_touch(tsg);
		nvz_tell();
	}
	mutex_unlock(&nvz_table_lock);
}
