// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The table of files, clients and objects. It asks the core nothing; nv-zernel-record.c puts in the
 * results of the core.
 */
#include "nv-zernel-private.h"

#include <linux/slab.h>

DEFINE_MUTEX(nvz_table_lock);
u32 nvz_forgotten;

static struct rb_root nvz_files = RB_ROOT;
static struct rb_root nvz_clients = RB_ROOT;
static struct rb_root nvz_contexts = RB_ROOT;	/* channels, by context */
static u32 nvz_held[NVZ_KINDS];	/* how many of each kind; of NVZ_TSG: handles */

enum nvz_kind nvz_kind_of(u32 class)
{
	switch (class) {
	case NVZ_CLASS_ROOT:
	case NVZ_CLASS_ROOT_NON_PRIV:
	case NVZ_CLASS_ROOT_CLIENT:
		return NVZ_CLIENT;
	case NVZ_CLASS_DEVICE:
		return NVZ_DEVICE;
	case NVZ_CLASS_SUBDEVICE:
		return NVZ_SUBDEVICE;
	case NVZ_CLASS_TSG:
		return NVZ_TSG;
	case NVZ_CLASS_CONTEXT_SHARE:
	case NVZ_CLASS_VA_SPACE:
		return NVZ_SUPPORT;
	case NVZ_CLASS_MPS:
		return NVZ_MPS;
	case NVZ_CLASS_MIG_INSTANCE:
	case NVZ_CLASS_MIG_COMPUTE:
		return NVZ_MIG;
	}
	if (class < 0x5000 || class > 0xffff)
		return NVZ_OTHER;
	switch (class & 0xff) {
	case 0x6f:
		return NVZ_CHANNEL;
	case 0x97:
	case 0xc0:
		return NVZ_COMPUTE;
	}
	return NVZ_OTHER;
}

/* Files */

static int nvz_file_order(const void *owner, const struct rb_node *node)
{
	return nvz_order((unsigned long)owner,
			 (unsigned long)rb_entry(node, struct nvz_file, node)->owner);
}

static bool nvz_file_less(struct rb_node *a, const struct rb_node *b)
{
	return nvz_file_order(rb_entry(a, struct nvz_file, node)->owner, b) < 0;
}

struct nvz_file *nvz_file_find(nv_file_private_t *owner)
{
	struct rb_node *node = rb_find(owner, &nvz_files, nvz_file_order);

	return node ? rb_entry(node, struct nvz_file, node) : NULL;
}

/* The owner of some file, for who forgets all; NULL: there is none. Takes the lock. */
nv_file_private_t *nvz_file_any(void)
{
	struct rb_node *node;

	mutex_lock(&nvz_table_lock);
	node = rb_first(&nvz_files);
	mutex_unlock(&nvz_table_lock);
	return node ? rb_entry(node, struct nvz_file, node)->owner : NULL;
}

void nvz_file_add(struct nvz_file *file)
{
	rb_add(&file->node, &nvz_files, nvz_file_less);
}

void nvz_file_drop(struct nvz_file *file)
{
	while (!list_empty(&file->clients))
		nvz_client_drop(list_first_entry(&file->clients, struct nvz_client, in_file));
	nvz_tsg_settle(file);
	rb_erase(&file->node, &nvz_files);
}

/* Marks the file's present and later objects. */
void nvz_file_flag_mps(struct nvz_file *file)
{
	struct nvz_client *client;
	struct nvz_object *object;
	struct rb_node *node;

	if (file->mps)
		return;
	file->mps = true;
	list_for_each_entry(client, &file->clients, in_file) {
		for (node = rb_first(&client->objects); node; node = rb_next(node)) {
			object = rb_entry(node, struct nvz_object, node);
			if (object->kind == NVZ_TSG)
				nvz_tsg_flag(object->tsg, NV_ZERNEL_TSG_MPS);
		}
	}
}

/* Clients */

static int nvz_client_order(const void *handle, const struct rb_node *node)
{
	return nvz_order(*(const u32 *)handle, rb_entry(node, struct nvz_client, node)->handle);
}

static bool nvz_client_less(struct rb_node *a, const struct rb_node *b)
{
	return nvz_client_order(&rb_entry(a, struct nvz_client, node)->handle, b) < 0;
}

struct nvz_client *nvz_client_find(u32 handle)
{
	struct rb_node *node = rb_find(&handle, &nvz_clients, nvz_client_order);

	return node ? rb_entry(node, struct nvz_client, node) : NULL;
}

void nvz_client_add(struct nvz_client *client, struct nvz_file *file, u32 handle)
{
	client->file = file;
	client->handle = handle;
	client->objects = RB_ROOT;
	client->userd = RB_ROOT;
	list_add_tail(&client->in_file, &file->clients);
	rb_add(&client->node, &nvz_clients, nvz_client_less);
	nvz_held[NVZ_CLIENT]++;
}

static bool nvz_client_buried(const struct nvz_client *client)
{
	return RB_EMPTY_NODE(&client->node);
}

/* With its objects, so that nobody finds it any more. */
static void nvz_client_unlink(struct nvz_client *client)
{
	struct rb_node *node;

	while ((node = rb_first(&client->objects)))
		nvz_object_drop(rb_entry(node, struct nvz_object, node));
	rb_erase(&client->node, &nvz_clients);
	RB_CLEAR_NODE(&client->node);
	nvz_held[NVZ_CLIENT]--;
}

void nvz_client_drop(struct nvz_client *client)
{
	WARN_ON_ONCE(client->busy);
	if (nvz_client_buried(client))
		client->file->buried--;
	else
		nvz_client_unlink(client);
	if (client->file->freeing == client)
		client->file->freeing = NULL;
	list_del(&client->in_file);
	kfree(client);
}

/*
 * The core has this client no more, as shown by its handle being another one's. The client's file
 * may be any, and its lock is not held: a walk through the list of its clients, and a holder of a
 * pin, still meet the entry.
 */
void nvz_client_bury(struct nvz_client *client)
{
	nvz_client_unlink(client);
	/* A waiter looks the handle up, and finds the other client. */
	WRITE_ONCE(client->wanted, 0);
	client->file->buried++;
}

/* Lets go of the buried clients, lest a file gathers them. */
void nvz_file_sweep(struct nvz_file *file)
{
	struct nvz_client *client, *next;

	lockdep_assert_held(&file->lock);
	if (!file->buried)
		return;
	list_for_each_entry_safe(client, next, &file->clients, in_file) {
		if (nvz_client_buried(client) && !client->busy)
			nvz_client_drop(client);
	}
}

/* Objects */

static int nvz_object_order(const void *handle, const struct rb_node *node)
{
	return nvz_order(*(const u32 *)handle, rb_entry(node, struct nvz_object, node)->handle);
}

static bool nvz_object_less(struct rb_node *a, const struct rb_node *b)
{
	return nvz_object_order(&rb_entry(a, struct nvz_object, node)->handle, b) < 0;
}

static int nvz_userd_order(const void *handle, const struct rb_node *node)
{
	return nvz_order(*(const u32 *)handle,
			 rb_entry(node, struct nvz_object, userd_node)->userd);
}

static bool nvz_userd_less(struct rb_node *a, const struct rb_node *b)
{
	return nvz_userd_order(&rb_entry(a, struct nvz_object, userd_node)->userd, b) < 0;
}

struct nvz_object *nvz_object_find(struct nvz_client *client, u32 handle)
{
	struct rb_node *node = rb_find(&handle, &client->objects, nvz_object_order);

	return node ? rb_entry(node, struct nvz_object, node) : NULL;
}

/* The object with the smallest handle that is not below @from. */
struct nvz_object *nvz_object_next(struct nvz_client *client, u32 from)
{
	struct rb_node *node = client->objects.rb_node;
	struct nvz_object *best = NULL;

	while (node) {
		struct nvz_object *object = rb_entry(node, struct nvz_object, node);

		if (object->handle >= from) {
			best = object;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	return best;
}

/* True if a channel said that it needs this memory object. */
bool nvz_userd_hint(struct nvz_client *client, u32 handle)
{
	return rb_find(&handle, &client->userd, nvz_userd_order);
}

/* @tsg: of a new handle; a channel takes that of its parent. */
void nvz_object_add(struct nvz_object *object, struct nvz_client *client, u32 parent,
		    struct nvz_tsg *tsg)
{
	struct nvz_object *old = nvz_object_find(client, object->handle);

	/* The core gives no handle twice: this one's last object has gone by a way unseen. */
	if (old)
		nvz_object_drop(old);
	object->client = client;
	object->parent = nvz_object_find(client, parent);
	INIT_LIST_HEAD(&object->children);
	if (object->parent)
		list_add_tail(&object->sibling, &object->parent->children);
	else
		INIT_LIST_HEAD(&object->sibling);
	rb_add(&object->node, &client->objects, nvz_object_less);
	nvz_held[object->kind]++;

	if (object->kind == NVZ_CHANNEL) {
		if (object->userd)
			rb_add(&object->userd_node, &client->userd, nvz_userd_less);
		if (object->parent && object->parent->kind == NVZ_TSG) {
			object->tsg = object->parent->tsg;
			object->tsg->channel_count++;
			list_add_tail(&object->in_tsg, &object->tsg->channels);
			nvz_tsg_touch(object->tsg);
		}
	} else if (object->kind == NVZ_TSG) {
		object->tsg = tsg;
		list_add_tail(&object->in_tsg, &tsg->handles);
		if (client->file->mps)
			tsg->flags |= NV_ZERNEL_TSG_MPS;
		nvz_tsg_touch(tsg);
	}
}

static void nvz_object_remove(struct nvz_object *object)
{
	struct nvz_client *client = object->client;

	list_del(&object->sibling);
	rb_erase(&object->node, &client->objects);
	if (object->kind == NVZ_CHANNEL && object->userd)
		rb_erase(&object->userd_node, &client->userd);
	nvz_context_drop(object);
	if (object->tsg) {
		list_del(&object->in_tsg);
		if (object->kind == NVZ_CHANNEL)
			object->tsg->channel_count--;
		nvz_tsg_touch(object->tsg);
	}
	nvz_held[object->kind]--;
	kfree(object);
}

/*
 * True if the core may free objects outside of the object's subtree with it: dependants of an
 * address space, a context share (which belongs to a TSG, but to any handle of it) or memory (which
 * belongs to a device, and is not recorded).
 */
bool nvz_object_supports(struct nvz_object *object)
{
	struct nvz_object *child;

	if (object->kind == NVZ_DEVICE || object->kind == NVZ_SUPPORT)
		return true;
	list_for_each_entry(child, &object->children, sibling) {
		if (child->kind == NVZ_SUPPORT)
			return true;
	}
	return false;
}

/* With everything under it. */
void nvz_object_drop(struct nvz_object *top)
{
	struct nvz_object *object = top;
	bool last;

	do {
		struct nvz_object *parent = object->parent;

		if (!list_empty(&object->children)) {
			object = list_first_entry(&object->children, struct nvz_object, sibling);
			last = false;
			continue;
		}
		last = object == top;
		nvz_object_remove(object);
		object = parent;
	} while (!last);
}

void nvz_gpu_drop_devices(u32 gpu_id)
{
	struct nvz_object *object;
	struct nvz_client *client;
	struct rb_node *node;
	u64 next;

	for (node = rb_first(&nvz_clients); node; node = rb_next(node)) {
		client = rb_entry(node, struct nvz_client, node);
		/* By handle, because a device takes neighbours along. */
		for (next = 0; next <= U32_MAX; ) {
			object = nvz_object_next(client, next);
			if (!object)
				break;
			next = (u64)object->handle + 1;
			if (object->kind == NVZ_DEVICE && object->gpu_id == gpu_id)
				nvz_object_drop(object);
		}
	}
}

/* True if it has a client that the core has, too. */
static bool nvz_file_lives(const struct nvz_file *file)
{
	const struct nvz_client *client;

	list_for_each_entry(client, &file->clients, in_file) {
		if (!nvz_client_buried(client))
			return true;
	}
	return false;
}

/* Contexts */

static int nvz_context_order(const void *context, const struct rb_node *node)
{
	return nvz_order(*(const u32 *)context,
			 rb_entry(node, struct nvz_object, context_node)->context);
}

static bool nvz_context_less(struct rb_node *a, const struct rb_node *b)
{
	return nvz_context_order(&rb_entry(a, struct nvz_object, context_node)->context, b) < 0;
}

/*
 * The context of a channel of a TSG. The core gives no number twice: one that is there is that of a
 * channel that has gone by a way unseen.
 */
void nvz_context_add(struct nvz_object *channel, u32 context)
{
	struct rb_node *old;

	lockdep_assert_held(&nvz_table_lock);
	if (context == NV_ZERNEL_UNKNOWN || channel->kind != NVZ_CHANNEL || !channel->tsg)
		return;
	old = rb_find(&context, &nvz_contexts, nvz_context_order);
	if (old)
		nvz_context_drop(rb_entry(old, struct nvz_object, context_node));
	channel->context = context;
	channel->tsg->context_count++;
	rb_add(&channel->context_node, &nvz_contexts, nvz_context_less);
	nvz_tsg_touch(channel->tsg);
}

void nvz_context_drop(struct nvz_object *channel)
{
	lockdep_assert_held(&nvz_table_lock);
	if (channel->context == NV_ZERNEL_UNKNOWN)
		return;
	rb_erase(&channel->context_node, &nvz_contexts);
	channel->context = NV_ZERNEL_UNKNOWN;
	channel->tsg->context_count--;
	nvz_tsg_touch(channel->tsg);
}

/* The TSG of a context on a GPU; 0: not known. */
u64 nvz_context_tsg(u32 context, u32 gpu_id)
{
	const struct nvz_object *channel;
	struct rb_node *node;

	node = rb_find(&context, &nvz_contexts, nvz_context_order);
	if (!node)
		return 0;
	channel = rb_entry(node, struct nvz_object, context_node);
	return channel->tsg->gpu_id == gpu_id ? channel->tsg->id : 0;
}

void nv_zernel_count(struct nv_zernel_counts *counts)
{
	struct rb_node *node;
	u32 files = 0;

	mutex_lock(&nvz_table_lock);
	for (node = rb_first(&nvz_files); node; node = rb_next(node))
		files += nvz_file_lives(rb_entry(node, struct nvz_file, node));
	*counts = (struct nv_zernel_counts) {
		.size = sizeof(*counts),
		.files = files,
		.clients = nvz_held[NVZ_CLIENT],
		.devices = nvz_held[NVZ_DEVICE],
		.subdevices = nvz_held[NVZ_SUBDEVICE],
		.tsg_handles = nvz_held[NVZ_TSG],
		.tsgs = nvz_tsg_count(),
		.channels = nvz_held[NVZ_CHANNEL],
		.gpus = nvz_gpu_ids(NULL, 0),
		.forgotten = nvz_forgotten + nvz_caller_unseen(),
	};
	mutex_unlock(&nvz_table_lock);
}
EXPORT_SYMBOL_GPL(nv_zernel_count);
