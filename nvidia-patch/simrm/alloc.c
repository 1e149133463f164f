// SPDX-License-Identifier: GPL-2.0
/*
 * Making and freeing objects: the checks, in the order in which the driver does
 * them, for each its own answer.
 */
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "simrm.h"

static bool is_root(u32 class)
{
	return class == 0x00 || class == 0x01 || class == 0x41;
}

static u32 copy_in(const struct simrm_caller *who, void *to, u64 from, u32 size)
{
	if (who->kernel)
		memcpy(to, (const void *)(uintptr_t)from, size);
	else if (copy_from_user(to, u64_to_user_ptr(from), size))
		return RM_INVALID_ADDRESS;
	return RM_OK;
}

static u32 copy_out(const struct simrm_caller *who, u64 to, const void *from, u32 size)
{
	if (who->kernel)
		memcpy((void *)(uintptr_t)to, from, size);
	else if (copy_to_user(u64_to_user_ptr(to), from, size))
		return RM_INVALID_ADDRESS;
	return RM_OK;
}

static u32 alloc_client(const struct simrm_caller *who, u32 root, u32 *object, u64 params)
{
	struct simrm_client *client;
	u32 status, handle = 0;
	bool exclusive;

	if (params) {
		status = copy_in(who, &handle, params, sizeof(handle));
		if (status != RM_OK)
			return status;
	}
	exclusive = simrm_lock(true);
	status = simrm_client_create(who, root, &client);
	if (status == RM_OK)
		*object = handle = client->handle;
	simrm_unlock(exclusive);
	if (status == RM_OK && params)
		status = copy_out(who, params, &handle, sizeof(handle));
	return status;
}

static bool has_child(const struct simrm_object *parent, enum simrm_kind kind)
{
	const struct simrm_object *child;

	list_for_each_entry(child, &parent->children, sibling) {
		if (child->kind == kind)
			return true;
	}
	return false;
}

/* Under the lock of the client. */
static u32 alloc_below(struct simrm_client *client, u32 parent, u32 *handle,
		       const struct simrm_class *class, u32 number, void *params)
{
	struct simrm_object *above, *object;
	u32 status;

	if (*handle == client->handle && class->parents)
		return RM_INVALID_OBJECT_PARENT;
	above = simrm_object_find(client, parent);
	if (!above)
		return RM_OBJECT_NOT_FOUND;
	if (class->single && has_child(above, class->kind))
		return RM_STATE_IN_USE;
	if (class->parents && !(class->parents & (1U << above->kind)))
		return RM_INVALID_OBJECT_PARENT;
	if (above->lost)
		return RM_RESOURCE_LOST;
	status = simrm_object_new(client, above, handle, class, number, &object);
	if (status != RM_OK)
		return status;
	status = simrm_class_construct(object, class, params);
	if (status != RM_OK)
		simrm_object_drop(object);
	return status;
}

/*
 * @object: the handle that is wanted (0: any), then the one it got. The class decides how much of
 * @params is read, against any size of the caller.
 *
 * The answer in @params is written when no lock is held any more: when that fails the caller sees
 * an error, and the object is there all the same.
 */
u32 simrm_alloc(const struct simrm_caller *who, u32 root, u32 parent, u32 *object, u32 number,
		u64 params, bool serialized)
{
	const struct simrm_class *class;
	struct simrm_client *client;
	struct simrm_class pattern;
	void *copy = NULL;
	bool exclusive;
	u32 status, size;

	status = simrm_fault(SIMRM_ON_ALLOC, number, who->kernel);
	if (status != RM_OK)
		return status;
	if (is_root(number))
		return alloc_client(who, root, object, params);
	class = simrm_class_find(number, &pattern);
	if (!class)
		return RM_INVALID_CLASS;
	/* No class that is known here has a serialized form. */
	if (serialized)
		return RM_VERSION_MISMATCH;
	if (class->required && !params)
		return RM_INVALID_ARGUMENT;
	size = who->kernel && class->kernel_params ? class->kernel_params : class->params;
	if (size && params) {
		copy = kzalloc(size, GFP_KERNEL);
		if (!copy)
			return RM_INSUFFICIENT_RESOURCES;
		status = copy_in(who, copy, params, size);
		if (status != RM_OK)
			goto out;
	}
	exclusive = simrm_lock(false);
	client = simrm_client_find(root);
	if (!client) {
		status = RM_INVALID_OBJECT_HANDLE;
	} else if (!client->active) {
		status = RM_INVALID_STATE;
	} else {
		status = simrm_client_check(client, who);
		if (status == RM_OK) {
			mutex_lock(&client->lock);
			status = alloc_below(client, parent, object, class, number, copy);
			mutex_unlock(&client->lock);
		}
	}
	simrm_unlock(exclusive);
	if (status == RM_OK && copy)
		status = copy_out(who, params, copy, size);
out:
	kfree(copy);
	return status;
}

/* An object that is not there is freed successfully: so does the driver. */
u32 simrm_free(const struct simrm_caller *who, u32 root, u32 handle)
{
	struct simrm_object *object;
	struct simrm_client *client;
	bool exclusive;
	u32 status;

	status = simrm_fault(SIMRM_ON_FREE, 0, who->kernel);
	if (status != RM_OK)
		return status;
	exclusive = simrm_lock(root == handle);
	client = simrm_client_find(root);
	if (!client) {
		status = RM_INVALID_OBJECT_HANDLE;
	} else {
		status = simrm_client_check(client, who);
		/* One that ends with its file does so by itself. */
		if (status == RM_OK && !client->active)
			status = RM_INVALID_STATE;
	}
	if (status != RM_OK)
		goto out;
	if (root == handle) {
		simrm_client_destroy(client);
		goto out;
	}
	mutex_lock(&client->lock);
	object = simrm_object_find(client, handle);
	if (object)
		simrm_object_free(object);
	mutex_unlock(&client->lock);
out:
	simrm_unlock(exclusive);
	return status;
}
