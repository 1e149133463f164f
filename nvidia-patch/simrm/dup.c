// SPDX-License-Identifier: GPL-2.0
/*
 * Duplicates of objects, and permission for them.
 *
 * Simplified: a process may duplicate between its own clients, the kernel may
 * duplicate anything, and clients that an object is shared with may duplicate it.
 */
#include "simrm.h"

static bool may_duplicate(const struct simrm_object *object, const struct simrm_client *to)
{
	const struct simrm_client *owner = object->client;

	if (owner == to || owner->process == to->process)
		return true;
	switch (object->shared) {
	case RM_SHARE_ALL:
		return true;
	case RM_SHARE_CLIENT:
		return object->shared_with == to->handle;
	default:
		return false;
	}
}

static bool can_copy(const struct simrm_object *object)
{
	struct simrm_class pattern;
	const struct simrm_class *class = simrm_class_find(object->class, &pattern);

	return class && class->dup;
}

static u32 copy_below(const struct simrm_caller *who, struct simrm_client *to, u32 parent,
		      u32 *handle, struct simrm_client *from, u32 source_handle)
{
	struct simrm_object *source, *above, *object;
	struct simrm_class pattern;
	u32 status;

	source = simrm_object_find(from, source_handle);
	if (!source)
		return RM_OBJECT_NOT_FOUND;
	if (source->lost)
		return RM_RESOURCE_LOST;
	above = simrm_object_find(to, parent);
	if (!above)
		return RM_OBJECT_NOT_FOUND;
	if (!can_copy(source))
		return RM_INVALID_ARGUMENT;
	if (!who->kernel && !may_duplicate(source, to))
		return RM_INSUFFICIENT_PERMISSIONS;
	if (above->lost)
		return RM_RESOURCE_LOST;
	/* A TSG stays on its GPU, and a part of one goes below a handle of the same. */
	if (above->gpu != source->gpu)
		return RM_INVALID_OBJECT_PARENT;
	if (source->kind == SIMRM_CTXSHARE ? above->tsg != source->parent->tsg :
	    source->kind == SIMRM_TSG && above->kind != SIMRM_DEVICE)
		return RM_INVALID_OBJECT_PARENT;
	status = simrm_object_new(to, above, handle,
				  simrm_class_find(source->class, &pattern), source->class,
				  &object);
	if (status != RM_OK)
		return status;
	status = simrm_class_copy(object, source);
	if (status != RM_OK)
		simrm_object_drop(object);
	return status;
}

/* Of two clients, the lower handle is locked first. */
static void lock_both(struct simrm_client *a, struct simrm_client *b)
{
	if (a == b) {
		mutex_lock(&a->lock);
		return;
	}
	if (a->handle > b->handle)
		swap(a, b);
	mutex_lock(&a->lock);
	mutex_lock_nested(&b->lock, SINGLE_DEPTH_NESTING);
}

static void unlock_both(struct simrm_client *a, struct simrm_client *b)
{
	mutex_unlock(&a->lock);
	if (a != b)
		mutex_unlock(&b->lock);
}

u32 simrm_dup(const struct simrm_caller *who, struct rm_dup *dup)
{
	struct simrm_client *to, *from;
	bool exclusive;
	u32 status;

	status = simrm_fault(SIMRM_ON_DUP, 0, who->kernel);
	if (status != RM_OK)
		return status;
	exclusive = simrm_lock(false);
	to = simrm_client_find(dup->client);
	from = simrm_client_find(dup->source_client);
	if (!to || !from) {
		status = RM_INVALID_OBJECT_HANDLE;
	} else if (!to->active || !from->active) {
		status = RM_INVALID_STATE;
	} else {
		status = simrm_client_check(to, who);
		if (status == RM_OK) {
			lock_both(to, from);
			status = copy_below(who, to, dup->parent, &dup->object, from,
					    dup->source_object);
			unlock_both(to, from);
		}
	}
	simrm_unlock(exclusive);
	return status;
}

/* Each call replaces the one before; no rights: the process itself alone. */
u32 simrm_share(const struct simrm_caller *who, struct rm_share *share)
{
	struct simrm_object *object;
	struct simrm_client *client;
	bool exclusive;
	u32 status;

	exclusive = simrm_lock(false);
	client = simrm_client_find(share->client);
	status = client ? simrm_client_check(client, who) : RM_INVALID_OBJECT_HANDLE;
	if (status == RM_OK && !client->active)
		status = RM_INVALID_STATE;
	if (status == RM_OK) {
		mutex_lock(&client->lock);
		object = simrm_object_find(client, share->object);
		if (!object) {
			status = RM_OBJECT_NOT_FOUND;
		} else {
			object->shared = share->rights & RM_RIGHT_DUP ? share->type : 0;
			object->shared_with = share->target;
		}
		mutex_unlock(&client->lock);
	}
	simrm_unlock(exclusive);
	return status;
}
