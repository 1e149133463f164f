// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of the kernel's own clients, which it can map. That of users is an object, and nothing else.
 */
#include <linux/mm.h>

#include "simrm.h"

#define MOST	(16ULL << 20)

static atomic_t objects;
static atomic_t maps;

u32 simrm_memory(struct simrm_object *object, const struct rm_memory_params *params)
{
	if (!params->size || params->size > MOST)
		return RM_INVALID_ARGUMENT;
	object->memory = kvzalloc(PAGE_ALIGN(params->size), GFP_KERNEL);
	if (!object->memory)
		return RM_NO_MEMORY;
	object->memory_size = params->size;
	/* Nothing is said of its content. */
	memset(object->memory, 0xa5, params->size);
	atomic_inc(&objects);
	return RM_OK;
}

/* The driver unmaps it, too. */
void simrm_memory_end(struct simrm_object *object)
{
	if (!object->memory)
		return;
	if (object->mapped)
		atomic_dec(&maps);
	kvfree(object->memory);
	object->memory = NULL;
	atomic_dec(&objects);
}

/* Under the client's lock. */
static u32 map(struct simrm_object *object, struct rm_map *params)
{
	if (!object || object->lost)
		return RM_OBJECT_NOT_FOUND;
	if (!object->memory || params->offset || params->length > object->memory_size)
		return RM_INVALID_ARGUMENT;
	if (object->mapped)
		return RM_STATE_IN_USE;
	object->mapped = true;
	atomic_inc(&maps);
	params->address = (uintptr_t)object->memory;
	return RM_OK;
}

static u32 unmap(struct simrm_object *object, const struct rm_unmap *params)
{
	if (!object || object->lost)
		return RM_OBJECT_NOT_FOUND;
	if (!object->mapped || params->address != (uintptr_t)object->memory)
		return RM_INVALID_ARGUMENT;
	object->mapped = false;
	atomic_dec(&maps);
	return RM_OK;
}

static struct simrm_client *lock(u32 handle, bool *exclusive)
{
	struct simrm_client *client;

	*exclusive = simrm_lock(false);
	client = simrm_client_find(handle);
	if (client)
		mutex_lock(&client->lock);
	return client;
}

static void unlock(struct simrm_client *client, bool exclusive)
{
	if (client)
		mutex_unlock(&client->lock);
	simrm_unlock(exclusive);
}

u32 simrm_map(struct rm_map *params)
{
	u32 status = simrm_fault(SIMRM_ON_MAP, 0, true);
	struct simrm_client *client;
	bool exclusive;

	if (status != RM_OK)
		return status;
	client = lock(params->client, &exclusive);
	status = client ? map(simrm_object_find(client, params->memory), params) :
			  RM_INVALID_OBJECT_HANDLE;
	unlock(client, exclusive);
	return status;
}

u32 simrm_unmap(const struct rm_unmap *params)
{
	struct simrm_client *client;
	bool exclusive;
	u32 status;

	client = lock(params->client, &exclusive);
	status = client ? unmap(simrm_object_find(client, params->memory), params) :
			  RM_INVALID_OBJECT_HANDLE;
	unlock(client, exclusive);
	return status;
}

unsigned int simrm_memory_objects(void)
{
	return atomic_read(&objects);
}

unsigned int simrm_memory_maps(void)
{
	return atomic_read(&maps);
}
