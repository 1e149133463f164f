// SPDX-License-Identifier: GPL-2.0
/*
 * The tree of objects of a client, and the order in which a part of it ends.
 *
 * All of it with the lock of the client held.
 */
#include <linux/slab.h>

#include "simrm.h"

#define GENERATED_BASE	0xcaf00000U
#define GENERATED_COUNT	0x00080000U

/* Of user space: objects of the kernel's own clients are not followed. */
atomic_t simrm_alive[SIMRM_KINDS];

struct simrm_object *simrm_object_find(struct simrm_client *client, u32 handle)
{
	return xa_load(&client->objects, handle);
}

static u32 assign_handle(struct simrm_client *client, u32 *handle)
{
	u32 tries;

	if (*handle)
		return xa_load(&client->objects, *handle) ? RM_INSERT_DUPLICATE_NAME : RM_OK;
	for (tries = 0; tries < GENERATED_COUNT; tries++) {
		*handle = client->generated++;
		if (client->generated == GENERATED_BASE + GENERATED_COUNT)
			client->generated = GENERATED_BASE;
		if (!xa_load(&client->objects, *handle))
			return RM_OK;
	}
	*handle = 0;
	return RM_INSUFFICIENT_RESOURCES;
}

/* Put an object that stands for nothing yet into the tree. @handle: 0 takes any */
u32 simrm_object_new(struct simrm_client *client, struct simrm_object *parent, u32 *handle,
		     const struct simrm_class *class, u32 number, struct simrm_object **made)
{
	struct simrm_object *object;
	unsigned int i;
	u32 status;

	/* Some controls name the client where an object is expected. */
	if (parent && *handle == client->handle)
		return RM_INVALID_OBJECT_HANDLE;
	status = assign_handle(client, handle);
	if (status != RM_OK)
		return status;
	object = kzalloc(sizeof(*object), GFP_KERNEL);
	if (!object)
		return RM_NO_MEMORY;
	object->handle = *handle;
	object->class = number;
	object->kind = class->kind;
	object->client = client;
	object->parent = parent;
	object->gpu = parent ? parent->gpu : NULL;
	INIT_LIST_HEAD(&object->children);
	INIT_LIST_HEAD(&object->sibling);
	INIT_LIST_HEAD(&object->dependants);
	INIT_LIST_HEAD(&object->pending);
	INIT_LIST_HEAD(&object->alias);
	INIT_LIST_HEAD(&object->member);
	for (i = 0; i < ARRAY_SIZE(object->deps); i++)
		INIT_LIST_HEAD(&object->deps[i].node);
	if (xa_err(xa_store(&client->objects, *handle, object, GFP_KERNEL))) {
		kfree(object);
		return RM_NO_MEMORY;
	}
	if (parent)
		list_add_tail(&object->sibling, &parent->children);
	if (client->file)
		atomic_inc(&simrm_alive[object->kind]);
	*made = object;
	return RM_OK;
}

void simrm_object_depend(struct simrm_object *object, struct simrm_object *on)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(object->deps); i++) {
		if (!object->deps[i].dependant) {
			object->deps[i].dependant = object;
			list_add_tail(&object->deps[i].node, &on->dependants);
			return;
		}
	}
	WARN_ON_ONCE(1);
}

/* End the object's resource; the handle stays. */
static void lose(struct simrm_object *object)
{
	struct simrm_dep *dep, *next;
	unsigned int i;

	if (object->lost)
		return;
	object->lost = true;
	simrm_class_destroy(object);
	for (i = 0; i < ARRAY_SIZE(object->deps); i++)
		list_del_init(&object->deps[i].node);
	list_for_each_entry_safe(dep, next, &object->dependants, node)
		list_del_init(&dep->node);
	if (object->client->file)
		atomic_dec(&simrm_alive[object->kind]);
}

/* Take an object without children out of the tree. */
void simrm_object_drop(struct simrm_object *object)
{
	WARN_ON(!list_empty(&object->children));
	lose(object);
	list_del(&object->pending);
	list_del(&object->sibling);
	xa_erase(&object->client->objects, object->handle);
	kfree(object);
}

static bool within(const struct simrm_object *object, const struct simrm_object *tree)
{
	for (; object; object = object->parent) {
		if (object == tree)
			return true;
	}
	return false;
}

/*
 * Everything that goes before @object is put in front of it: first the children, then its
 * dependants, each with its own. The tree is five levels deep at most, and a dependant is never
 * above its own support, so this ends.
 */
static void collect(struct simrm_object *object, struct list_head *list)
{
	struct simrm_object *child;
	struct simrm_dep *dep;

	list_move(&object->pending, list);
	list_for_each_entry(child, &object->children, sibling)
		collect(child, list);
	list_for_each_entry(dep, &object->dependants, node)
		collect(dep->dependant, list);
}

/*
 * Free @target with everything below it. Its dependants elsewhere in the tree end as well, and
 * their handles live on until they are freed themselves: as the driver does it.
 */
void simrm_object_free(struct simrm_object *target)
{
	struct simrm_object *object;
	LIST_HEAD(list);

	collect(target, &list);
	while (!list_empty(&list)) {
		object = list_first_entry(&list, struct simrm_object, pending);
		list_del_init(&object->pending);
		if (within(object, target))
			simrm_object_drop(object);
		else
			lose(object);
	}
}
