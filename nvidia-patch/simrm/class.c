// SPDX-License-Identifier: GPL-2.0
/*
 * Classes: their numbers, their parents, and the resources of their objects.
 */
#include <linux/slab.h>

#include "simrm.h"

#define BIT_OF(kind)	(1U << (kind))
#define ON_ROOT		BIT_OF(SIMRM_ROOT)
#define ON_DEVICE	BIT_OF(SIMRM_DEVICE)
#define ON_SUBDEVICE	BIT_OF(SIMRM_SUBDEVICE)
#define ON_TSG		BIT_OF(SIMRM_TSG)
#define ON_CHANNEL	BIT_OF(SIMRM_CHANNEL)
#define ON_MIG_GPU	BIT_OF(SIMRM_MIG_GPU)
#define ON_ANY		0

static const struct simrm_class classes[] = {
	{ 0x0080, SIMRM_DEVICE, ON_ROOT, sizeof(struct rm_device_params) },
	{ 0x2080, SIMRM_SUBDEVICE, ON_DEVICE, sizeof(u32) },
	{ 0xa06c, SIMRM_TSG, ON_DEVICE, sizeof(struct rm_tsg_params), true, false, true },
	{ 0x90f1, SIMRM_VASPACE, ON_DEVICE | ON_SUBDEVICE, sizeof(u32), true, false, true },
	{ 0x9067, SIMRM_CTXSHARE, ON_TSG, sizeof(struct rm_share_params), true, false, true },
	{ 0xc637, SIMRM_MIG_GPU, ON_SUBDEVICE, sizeof(struct rm_mig_params), true, true, true },
	{ 0xc638, SIMRM_MIG_COMPUTE, ON_MIG_GPU, sizeof(struct rm_mig_params), true, true, true },
	{ 0x900e, SIMRM_MPS, ON_ROOT, 0, false, true },
	/* memory */
	{ 0x003e, SIMRM_PLAIN, ON_DEVICE, 0, true, false, true, sizeof(struct rm_memory_params) },
	{ 0x0040, SIMRM_PLAIN, ON_DEVICE | ON_SUBDEVICE, 0, true, false, true },
	{ 0x0070, SIMRM_PLAIN, ON_DEVICE, 0, true, false, true },
	{ 0x50a0, SIMRM_PLAIN, ON_DEVICE, 0, true, false, true },
	{ 0x0071, SIMRM_PLAIN, ON_DEVICE, 0, true, false, true },
	/* DMA contexts and events */
	{ 0x90cd, SIMRM_BUFFER, ON_ROOT, sizeof(struct rm_event_buffer), true },
	{ 0x0002, SIMRM_PLAIN, ON_DEVICE, 0, true },
	{ 0x0005, SIMRM_PLAIN, ON_ANY, 0, true },
	{ 0x0079, SIMRM_PLAIN, ON_ANY, 0, true },
	/* inline to memory, 2D */
	{ 0xa140, SIMRM_ENGINE, ON_CHANNEL },
	{ 0x902d, SIMRM_ENGINE, ON_CHANNEL },
};

#define FAMILY_COMPUTE	0xc0
#define FAMILY_3D	0x97

/* Families of which each generation of GPUs has its own member, by the low byte. */
static const struct simrm_class families[] = {
	{ 0x6f, SIMRM_CHANNEL, ON_DEVICE | ON_TSG, sizeof(struct rm_channel_params), true },
	{ FAMILY_COMPUTE, SIMRM_ENGINE, ON_CHANNEL },
	{ FAMILY_3D, SIMRM_ENGINE, ON_CHANNEL },
	{ 0xb5, SIMRM_ENGINE, ON_CHANNEL },	/* copy */
	{ 0x61, SIMRM_PLAIN, ON_SUBDEVICE },	/* doorbells */
};

#define FIRST_GENERATION	0xa000U
#define LAST_GENERATION		0xcfffU

/* @pattern: filled in for a member of a family */
const struct simrm_class *simrm_class_find(u32 number, struct simrm_class *pattern)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(classes); i++) {
		if (classes[i].class == number)
			return &classes[i];
	}
	if (number < FIRST_GENERATION || number > LAST_GENERATION)
		return NULL;
	for (i = 0; i < ARRAY_SIZE(families); i++) {
		if (families[i].class == (number & 0xff)) {
			*pattern = families[i];
			pattern->class = number;
			return pattern;
		}
	}
	return NULL;
}

static void vas_release(struct kref *ref)
{
	kfree(container_of(ref, struct simrm_vas, ref));
}

static u32 device(struct simrm_object *object, const struct rm_device_params *params)
{
	if (!params || params->instance >= SIMRM_MAX_GPUS)
		return RM_INVALID_ARGUMENT;
	object->gpu = simrm_gpu_by_instance(params->instance);
	return object->gpu && object->gpu->started ? RM_OK : RM_INVALID_STATE;
}

static u32 vaspace(struct simrm_object *object)
{
	object->vas = kzalloc(sizeof(*object->vas), GFP_KERNEL);
	if (!object->vas)
		return RM_NO_MEMORY;
	kref_init(&object->vas->ref);
	return RM_OK;
}

/* The address space that something is to depend on. @handle: 0 none */
static u32 depend_on_vaspace(struct simrm_object *object, u32 handle)
{
	struct simrm_object *space;

	if (!handle)
		return RM_OK;
	space = simrm_object_find(object->client, handle);
	if (!space)
		return RM_OBJECT_NOT_FOUND;
	if (space->kind != SIMRM_VASPACE)
		return RM_INVALID_OBJECT_HANDLE;
	if (space->lost)
		return RM_RESOURCE_LOST;
	simrm_object_depend(object, space);
	kref_get(&space->vas->ref);
	object->vas = space->vas;
	return RM_OK;
}

static bool has_mig(const struct simrm_object *device)
{
	const struct simrm_object *sub, *object;

	list_for_each_entry(sub, &device->children, sibling) {
		list_for_each_entry(object, &sub->children, sibling) {
			if (object->kind == SIMRM_MIG_GPU && !object->lost)
				return true;
		}
	}
	return false;
}

static bool engine_exists(const struct simrm_object *device, u32 engine)
{
	if (engine == RM_ENGINE_NULL || engine >= RM_ENGINE_COUNT)
		return false;
	return engine <= RM_ENGINE_GR0 || engine > RM_ENGINE_GR7 || has_mig(device);
}

static u32 tsg(struct simrm_object *object, const struct rm_tsg_params *params)
{
	u32 status;

	if (!engine_exists(object->parent, params->engine))
		return RM_INVALID_ARGUMENT;
	status = depend_on_vaspace(object, params->vaspace);
	if (status != RM_OK)
		return status;
	object->tsg = simrm_tsg_new(object->parent, params->engine, false);
	if (!object->tsg)
		return RM_NO_MEMORY;
	mutex_lock(&object->tsg->lock);
	list_add_tail(&object->alias, &object->tsg->handles);
	mutex_unlock(&object->tsg->lock);
	return RM_OK;
}

/* A channel below a device gets a TSG of its own, which has no handle. */
static u32 bare_channel(struct simrm_object *object, const struct rm_channel_params *params)
{
	u32 status;

	if (params->context_share || !engine_exists(object->parent, params->engine))
		return RM_INVALID_ARGUMENT;
	status = depend_on_vaspace(object, params->vaspace);
	if (status != RM_OK)
		return status;
	object->tsg = simrm_tsg_new(object->parent, params->engine, true);
	return object->tsg ? RM_OK : RM_NO_MEMORY;
}

/* All channels of a TSG name a context share, or none does. */
static u32 group_channel(struct simrm_object *object, const struct rm_channel_params *params)
{
	struct simrm_tsg *group = object->parent->tsg;
	bool legacy = !params->context_share;
	struct simrm_object *share;
	bool mixed;

	if (params->vaspace)
		return RM_INVALID_ARGUMENT;
	mutex_lock(&group->lock);
	mixed = group->channels && group->legacy != legacy;
	if (!mixed)
		group->legacy = legacy;
	mutex_unlock(&group->lock);
	if (mixed)
		return RM_INVALID_ARGUMENT;
	if (!legacy) {
		share = simrm_object_find(object->client, params->context_share);
		if (!share || share->kind != SIMRM_CTXSHARE)
			return RM_INVALID_OBJECT_HANDLE;
		if (share->lost)
			return RM_RESOURCE_LOST;
		if (share->parent != object->parent)
			return RM_INVALID_OBJECT_PARENT;
		simrm_object_depend(object, share);
	}
	kref_get(&group->ref);
	object->tsg = group;
	return RM_OK;
}

/* A channel ends with the memory of its control page (USERD). @handle: 0 none */
static u32 depend_on_memory(struct simrm_object *object, u32 handle)
{
	struct simrm_object *memory;

	if (!handle)
		return RM_OK;
	memory = simrm_object_find(object->client, handle);
	if (!memory)
		return RM_OBJECT_NOT_FOUND;
	if (memory->kind != SIMRM_PLAIN)
		return RM_INVALID_OBJECT_HANDLE;
	simrm_object_depend(object, memory);
	return RM_OK;
}

/* The driver refuses one on an engine that does not compute; here the TSG only tells of it. */
static u32 engine_object(struct simrm_object *object)
{
	struct simrm_tsg *group = object->parent->tsg;
	u32 family = object->class & 0xff;

	if (group && (family == FAMILY_COMPUTE || family == FAMILY_3D)) {
		mutex_lock(&group->lock);
		group->computes = true;
		mutex_unlock(&group->lock);
	}
	return RM_OK;
}

static u32 channel(struct simrm_object *object, struct rm_channel_params *params)
{
	u32 status;

	status = depend_on_memory(object, params->user_memory[0]);
	if (status != RM_OK)
		return status;
	if (object->parent->kind == SIMRM_TSG)
		status = group_channel(object, params);
	else
		status = bare_channel(object, params);
	if (status == RM_OK)
		status = simrm_tsg_add_channel(object);
	params->id = object->chid;
	return status;
}

/* Make the object stand for something new. @params: in kernel memory, also answered in */
u32 simrm_class_construct(struct simrm_object *object, const struct simrm_class *class,
			  void *params)
{
	switch (class->kind) {
	case SIMRM_DEVICE:
		return device(object, params);
	case SIMRM_VASPACE:
		return vaspace(object);
	case SIMRM_TSG:
		return tsg(object, params);
	case SIMRM_CTXSHARE:
		return depend_on_vaspace(object, ((struct rm_share_params *)params)->vaspace);
	case SIMRM_CHANNEL:
		return channel(object, params);
	case SIMRM_ENGINE:
		return engine_object(object);
	case SIMRM_MIG_GPU:
	case SIMRM_MIG_COMPUTE:
		object->mig = ((struct rm_mig_params *)params)->id;
		if (object->mig >= RM_MIG_MAX)
			return RM_INVALID_ARGUMENT;
		/* There is an instance once a program has it. */
		if (object->client->file && class->kind == SIMRM_MIG_GPU)
			set_bit(object->mig, &object->gpu->instances);
		return test_bit(object->mig, &object->gpu->instances) ||
		       class->kind == SIMRM_MIG_COMPUTE ? RM_OK : RM_INVALID_ARGUMENT;
	case SIMRM_BUFFER:
		return object->client->file ? RM_INVALID_ARGUMENT :
					      simrm_fecs_buffer(object, params);
	case SIMRM_PLAIN:
		/* Only of the kernel's memory is anything read. */
		return params ? simrm_memory(object, params) : RM_OK;
	default:
		return RM_OK;
	}
}

/* A copy depends on the copy of the same address space below the same device. */
static void depend_on_copy(struct simrm_object *object, const struct simrm_vas *vas)
{
	struct simrm_object *device = object->parent;
	struct simrm_object *space;

	while (device->kind != SIMRM_DEVICE)
		device = device->parent;
	list_for_each_entry(space, &device->children, sibling) {
		if (space->kind == SIMRM_VASPACE && !space->lost && space->vas == vas) {
			simrm_object_depend(object, space);
			return;
		}
	}
}

/* Give the object the resource of @source, perhaps of another client. */
u32 simrm_class_copy(struct simrm_object *object, struct simrm_object *source)
{
	object->gpu = source->gpu;
	object->mig = source->mig;
	if (source->vas) {
		kref_get(&source->vas->ref);
		object->vas = source->vas;
		if (object->kind != SIMRM_VASPACE)
			depend_on_copy(object, object->vas);
	}
	if (source->tsg) {
		kref_get(&source->tsg->ref);
		object->tsg = source->tsg;
		mutex_lock(&object->tsg->lock);
		list_add_tail(&object->alias, &object->tsg->handles);
		mutex_unlock(&object->tsg->lock);
	}
	return RM_OK;
}

/* End the object's resource, also when it was only half made. */
void simrm_class_destroy(struct simrm_object *object)
{
	struct simrm_tsg *group = object->tsg;

	if (object->policy) {
		object->policy = false;
		simrm_gpu_policy_drop(object->gpu);
	}
	if (object->buffer) {
		simrm_fecs_buffer_end(object->buffer);
		object->buffer = NULL;
	}
	simrm_memory_end(object);
	if (group) {
		object->tsg = NULL;
		if (object->kind == SIMRM_CHANNEL) {
			simrm_tsg_drop_channel(object, group);
		} else {
			mutex_lock(&group->lock);
			list_del_init(&object->alias);
			mutex_unlock(&group->lock);
		}
		simrm_tsg_put(group);
	}
	if (object->vas) {
		kref_put(&object->vas->ref, vas_release);
		object->vas = NULL;
	}
}
