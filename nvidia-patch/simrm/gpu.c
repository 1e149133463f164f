// SPDX-License-Identifier: GPL-2.0
/*
 * GPUs, and the controls of clients and subdevices that ask for them.
 */
#include <linux/string.h>

#include "simrm.h"

#define GPU_FLAGS_IN_USE	0x1U
#define INVALID_ID		0xffffffffU

struct simrm_gpu simrm_gpus[SIMRM_MAX_GPUS];

struct simrm_gpu *simrm_gpu_of(const void *nv)
{
	unsigned int i;

	for (i = 0; i < SIMRM_MAX_GPUS; i++) {
		if (simrm_gpus[i].nv == nv)
			return &simrm_gpus[i];
	}
	return NULL;
}

struct simrm_gpu *simrm_gpu_by_instance(u32 instance)
{
	return simrm_gpus[instance].nv ? &simrm_gpus[instance] : NULL;
}

static struct simrm_gpu *by_id(u32 id)
{
	unsigned int i;

	for (i = 0; i < SIMRM_MAX_GPUS; i++) {
		if (simrm_gpus[i].nv && simrm_gpus[i].id == id)
			return &simrm_gpus[i];
	}
	return NULL;
}

static void list_ids(u32 *ids, bool all)
{
	unsigned int i, count = 0;

	for (i = 0; i < SIMRM_MAX_GPUS; i++) {
		if (simrm_gpus[i].nv && (all || simrm_gpus[i].started))
			ids[count++] = simrm_gpus[i].id;
	}
	while (count < SIMRM_MAX_GPUS)
		ids[count++] = INVALID_ID;
}

u32 simrm_gpu_ids(struct simrm_object *object, const struct simrm_caller *who, void *params)
{
	list_ids(params, false);
	return RM_OK;
}

/* Later versions of the driver answer more after these, and simrm nothing there. */
u32 simrm_gpu_probed(struct simrm_object *object, const struct simrm_caller *who, void *params)
{
	struct rm_ids *probed = params;
	struct rm_ids *excluded = probed + 1;

	list_ids(probed->ids, true);
	memset(excluded->ids, 0xff, sizeof(excluded->ids));
	return RM_OK;
}

u32 simrm_gpu_info(struct simrm_object *object, const struct simrm_caller *who, void *params)
{
	struct rm_id_info *info = params;
	struct simrm_gpu *gpu = by_id(info->id);

	if (!gpu || !gpu->started)
		return RM_INVALID_ARGUMENT;
	*info = (struct rm_id_info) {
		.id = gpu->id, .flags = GPU_FLAGS_IN_USE, .device = gpu->instance,
		.name = info->name, .board = gpu->id, .instance = gpu->instance, .node = -1,
	};
	return RM_OK;
}

u32 simrm_gpu_info_v2(struct simrm_object *object, const struct simrm_caller *who, void *params)
{
	struct rm_id_info_v2 *info = params;
	struct simrm_gpu *gpu = by_id(info->id);

	if (!gpu || !gpu->started)
		return RM_INVALID_ARGUMENT;
	*info = (struct rm_id_info_v2) {
		.id = gpu->id, .flags = GPU_FLAGS_IN_USE, .device = gpu->instance,
		.board = gpu->id, .instance = gpu->instance, .node = -1,
	};
	return RM_OK;
}

/* The GPU is no part of another machine's. */
u32 simrm_gpu_virtual_mode(struct simrm_object *object, const struct simrm_caller *who,
			   void *params)
{
	*(u32 *)params = 0;
	return RM_OK;
}

u32 simrm_gpu_id(struct simrm_object *object, const struct simrm_caller *who, void *params)
{
	*(u32 *)params = object->gpu->id;
	return RM_OK;
}

void simrm_gpu_policy_drop(struct simrm_gpu *gpu)
{
	mutex_lock(&simrm_tsgs_lock);
	gpu->interleaved--;
	simrm_engine_update_all(gpu);
	mutex_unlock(&simrm_tsgs_lock);
}

/* The policy goes with the subdevice that set it. */
u32 simrm_gpu_policy(struct simrm_object *object, const struct simrm_caller *who, void *params)
{
	const struct rm_policy *policy = params;
	bool set = policy->policy && !(policy->flags & RM_POLICY_RESTORE);

	if (policy->policy > RM_POLICY_MAX)
		return RM_INVALID_ARGUMENT;
	if (object->policy == set)
		return RM_OK;
	object->policy = set;
	if (!set) {
		simrm_gpu_policy_drop(object->gpu);
		return RM_OK;
	}
	mutex_lock(&simrm_tsgs_lock);
	object->gpu->interleaved++;
	simrm_engine_update_all(object->gpu);
	mutex_unlock(&simrm_tsgs_lock);
	return RM_OK;
}

static struct simrm_object *find_channel(const struct simrm_caller *who, u32 handle, u32 channel)
{
	struct simrm_client *client = simrm_client_find(handle);
	struct simrm_object *object;

	if (!client || !client->active || simrm_client_check(client, who) != RM_OK)
		return NULL;
	object = simrm_object_find(client, channel);
	return object && object->kind == SIMRM_CHANNEL && !object->lost ? object : NULL;
}

/* With simrm_api held for write, so that channels of other clients stay as they are. */
u32 simrm_gpu_disable_channels(struct simrm_object *object, const struct simrm_caller *who,
			       void *params)
{
	const struct rm_disable_channels *list = params;
	struct simrm_object *channel;
	unsigned int i;

	if (list->event && !who->kernel)
		return RM_INSUFFICIENT_PERMISSIONS;
	if (list->count > RM_DISABLE_MAX)
		return RM_INVALID_ARGUMENT;
	for (i = 0; i < list->count; i++) {
		channel = find_channel(who, list->clients[i], list->channels[i]);
		if (!channel || channel->gpu != object->gpu)
			return RM_INVALID_ARGUMENT;
	}
	for (i = 0; i < list->count; i++) {
		channel = find_channel(who, list->clients[i], list->channels[i]);
		simrm_channel_disable(channel, list->disable);
	}
	return RM_OK;
}

/* The GPU stops: the devices on it end in all clients, which themselves stay. */
void simrm_gpu_free_objects(struct simrm_gpu *gpu)
{
	struct simrm_object *object, *next;
	struct simrm_client *client;

	down_write(&simrm_api);
	gpu->started = false;
	WRITE_ONCE(gpu->instances, 0);
	list_for_each_entry(client, &simrm_clients, node) {
		mutex_lock(&client->lock);
		list_for_each_entry_safe(object, next, &client->root->children, sibling) {
			if (object->kind == SIMRM_DEVICE && object->gpu == gpu)
				simrm_object_free(object);
		}
		mutex_unlock(&client->lock);
	}
	up_write(&simrm_api);
}
