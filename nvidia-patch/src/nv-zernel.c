// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The way of user space's calls to the driver's core.
 *
 * Everything that can change the table is handed to the core under the file lock
 * and recorded before that is given back, so the table changes in the order in
 * which the core's objects do. All else goes straight on after one switch.
 */
#include "nv-zernel-private.h"

#include <linux/slab.h>

/* The answer to a call that cannot be carried out, told as the core tells it. */
static NV_STATUS nvz_refuse(u32 *status, u32 why)
{
	*status = why;
	return NV_OK;
}

static struct nvz_file *nvz_file_get(nv_file_private_t *owner)
{
	struct nvz_file *file, *fresh;

	mutex_lock(&nvz_table_lock);
	file = nvz_file_find(owner);
	mutex_unlock(&nvz_table_lock);
	if (file)
		return file;
	fresh = kzalloc(sizeof(*fresh), GFP_KERNEL_ACCOUNT);
	if (!fresh)
		return ERR_PTR(-ENOMEM);
	fresh->owner = owner;
	mutex_init(&fresh->lock);
	INIT_LIST_HEAD(&fresh->clients);
	INIT_LIST_HEAD(&fresh->strays);
	mutex_lock(&nvz_table_lock);
	file = nvz_file_find(owner);
	if (!file) {
		nvz_file_add(fresh);
		file = fresh;
		fresh = NULL;
	}
	mutex_unlock(&nvz_table_lock);
	if (fresh) {
		mutex_destroy(&fresh->lock);
		kfree(fresh);
	}
	return file;
}

/* The calls before this one are over. */
static void nvz_file_settle(struct nvz_file *file)
{
	if (list_empty_careful(&file->strays))
		return;
	mutex_lock(&nvz_table_lock);
	nvz_tsg_settle(file);
	mutex_unlock(&nvz_table_lock);
}

/*
 * Takes the file lock. A file can be linked to another one once (REGISTER_FD), and its calls then
 * count as that one's. That happens under the lock of the first, so its holder knows the file that
 * the core will take for the caller's.
 */
struct nvz_file *nvz_file_lock(nv_file_private_t *nvfp)
{
	nv_file_private_t *owner;
	struct nvz_file *file;

	for (;;) {
		owner = nvz_owner(nvfp);
		file = nvz_file_get(owner);
		if (IS_ERR(file))
			return file;
		if (mutex_lock_killable(&file->lock))
			return ERR_PTR(-EINTR);
		if (nvz_owner(nvfp) == owner) {
			nvz_file_settle(file);
			return file;
		}
		mutex_unlock(&file->lock);
	}
}

/* A file lock could not be had: the core is not asked. */
NV_STATUS nvz_not_locked(struct nvz_file *file, u32 *status)
{
	if (PTR_ERR(file) == -EINTR)
		return NV_ERR_GENERIC;	/* the caller is being killed */
	return nvz_refuse(status, NV_ERR_NO_MEMORY);
}

/**
 * struct nvz_free - a free that is asked for
 * @client: in which the object is
 * @object: the object, or @client for the client itself
 * @status: in the escape's parameters; valid when the core has answered
 */
struct nvz_free {
	u32 client;
	u32 object;
	u32 *status;
};

/*
 * The calls that free an object, told by their numbers or functions. Those of memory
 * take the handle of any object. False: it is none.
 */
static bool nvz_parse_free(u32 escape, void *data, u32 size, struct nvz_free *free)
{
	struct nvz_esc_heap_control *heap = data;
	struct nvz_esc_free *plain = data;

	if (escape == NVZ_ESC_FREE) {
		if (size != sizeof(*plain))
			return false;
		free->client = plain->client;
		free->object = plain->object;
		free->status = &plain->status;
		return true;
	}
	if (size < sizeof(*heap))
		return false;
	free->client = heap->client;
	free->status = &heap->status;
	switch (heap->function) {
	case NVZ_HEAP_FREE:
		free->object = heap->of_free.object;
		return true;
	case NVZ_HEAP_HW_FREE:
		free->object = heap->of_hw_free.object;
		return true;
	}
	return false;
}

/*
 * A free that reports an error may have freed after all, and an object that the core has ended by
 * itself (with a stopped GPU) shows as an error.
 */
static NV_STATUS nvz_free(nvidia_stack_t *sp, nv_state_t *nv, nv_file_private_t *nvfp,
			  u32 escape, void *data, u32 size)
{
	struct nvz_client *client;
	struct nvz_object *object;
	bool mine, verify, freed;
	struct nvz_file *file;
	struct nvz_free free;
	NV_STATUS ret;

	if (!nvz_parse_free(escape, data, size, &free))
		return rm_ioctl(sp, nv, nvfp, escape, data, size);

	file = nvz_file_lock(nvfp);
	if (IS_ERR(file))
		return nvz_not_locked(file, free.status);

	mutex_lock(&nvz_table_lock);
	verify = false;
	client = nvz_client_find(free.client);
	mine = client && client->file == file;
	if (mine && free.object != free.client) {
		object = nvz_object_find(client, free.object);
		verify = object ? nvz_object_supports(object) :
				  nvz_userd_hint(client, free.object);
		mine = object || verify;
	}
	if (mine) {
		client->freeing = true;
		file->freeing = client;
		nvz_free_begin(file);
	}
	mutex_unlock(&nvz_table_lock);

	ret = rm_ioctl(sp, nv, nvfp, escape, data, size);

	if (mine) {
		freed = (ret == NV_OK && *free.status == NV_OK) ||
			nvz_rm_gone(sp, free.client, free.object);
		if (freed)
			nvz_forget(file, free.client, free.object);
		mutex_lock(&nvz_table_lock);
		nvz_free_end(file);
		mutex_unlock(&nvz_table_lock);
		nvz_free_yield(file);
		if (freed && verify)
			nvz_verify(sp, file, free.client);
	}
	mutex_unlock(&file->lock);
	return ret;
}

/*
 * A duplicate is another handle of the same object. The source may be another file's. That lock is
 * not taken: a pin keeps the source alive, and the core decides about permission.
 */
static NV_STATUS nvz_dup(nvidia_stack_t *sp, nv_state_t *nv, nv_file_private_t *nvfp,
			 u32 escape, struct nvz_esc_dup *params, u32 size)
{
	struct nvz_client *source;
	struct nvz_file *file;
	struct nvz_made made;
	NV_STATUS ret;

	file = nvz_file_lock(nvfp);
	if (IS_ERR(file))
		return nvz_not_locked(file, &params->status);
	if (nvz_made_prepare(&made, true)) {
		ret = nvz_refuse(&params->status, NV_ERR_NO_MEMORY);
		goto unlock;
	}

	mutex_lock(&nvz_table_lock);
	while ((source = nvz_client_find(params->source_client)) && source->file != file) {
		if (nvz_pin(source))
			break;
		if (nvz_wait_outcome(source, true)) {
			mutex_unlock(&nvz_table_lock);
			ret = NV_ERR_GENERIC;
			goto discard;
		}
	}
	if (source && source->file == file)
		source = NULL;
	mutex_unlock(&nvz_table_lock);
	if (source)
		nvz_pinned();

	ret = rm_ioctl(sp, nv, nvfp, escape, params, size);
	if (ret == NV_OK && params->status == NV_OK)
		nvz_record_dup(sp, file, params, &made);

	if (source) {
		mutex_lock(&nvz_table_lock);
		nvz_unpin(source);
		mutex_unlock(&nvz_table_lock);
		nvz_unpinned();
	}
discard:
	nvz_made_discard(&made);
unlock:
	mutex_unlock(&file->lock);
	return ret;
}

static NV_STATUS nvz_register_fd(nvidia_stack_t *sp, nv_state_t *nv, nv_file_private_t *nvfp,
				 u32 escape, void *params, u32 size)
{
	struct nvz_file *file;
	NV_STATUS ret;

	file = nvz_file_lock(nvfp);
	if (IS_ERR(file))
		return PTR_ERR(file) == -EINTR ? NV_ERR_GENERIC : NV_ERR_NO_MEMORY;
	ret = rm_ioctl(sp, nv, nvfp, escape, params, size);
	mutex_unlock(&file->lock);
	return ret;
}

/* The three layouts that ask for an object. */
static bool nvz_parse(u32 escape, void *data, u32 size, struct nvz_alloc *alloc)
{
	struct nvz_esc_alloc *plain = data;
	struct nvz_esc_alloc_rights *rights = data;
	struct nvz_esc_alloc_object *bare = data;

	memset(alloc, 0, sizeof(*alloc));
	if (escape == NVZ_ESC_ALLOC_OBJECT) {
		if (size != sizeof(*bare))
			return false;
		alloc->status = &bare->status;
	} else if (size == sizeof(*plain)) {
		alloc->status = &plain->status;
		alloc->params = plain->params;
	} else if (size == sizeof(*rights)) {
		alloc->status = &rights->status;
		alloc->params = rights->params;
		alloc->serialized = rights->flags & NVZ_ALLOC_SERIALIZED;
	} else {
		return false;
	}
	/* These are at the same place in all of them. */
	alloc->client = &bare->client;
	alloc->parent = &bare->parent;
	alloc->object = &bare->object;
	alloc->class = bare->class;
	alloc->kind = nvz_kind_of(alloc->class);
	return true;
}

static NV_STATUS nvz_alloc(nvidia_stack_t *sp, nv_state_t *nv, nv_file_private_t *nvfp,
			   u32 escape, void *data, u32 size)
{
	struct nvz_alloc alloc;
	struct nvz_file *file;
	struct nvz_made made;
	NV_STATUS ret;

	if (!nvz_parse(escape, data, size, &alloc) || alloc.kind == NVZ_OTHER)
		return rm_ioctl(sp, nv, nvfp, escape, data, size);

	nvz_hints_read(&alloc);
	file = nvz_file_lock(nvfp);
	if (IS_ERR(file))
		return nvz_not_locked(file, alloc.status);
	if (nvz_made_prepare(&made, alloc.kind == NVZ_TSG)) {
		ret = nvz_refuse(alloc.status, NV_ERR_NO_MEMORY);
	} else {
		ret = rm_ioctl(sp, nv, nvfp, escape, data, size);
		if (ret == NV_OK)
			nvz_record_alloc(sp, nv, nvfp, file, &alloc, &made);
		nvz_made_discard(&made);
	}
	mutex_unlock(&file->lock);
	return ret;
}

/*
 * An old way to make context DMA objects, which takes any class. The object has the parent of the
 * named memory, and its parameters are not the class's own, so there are no hints.
 */
static NV_STATUS nvz_alloc_context_dma(nvidia_stack_t *sp, nv_state_t *nv,
				       nv_file_private_t *nvfp, u32 escape,
				       struct nvz_esc_alloc_context_dma *params, u32 size)
{
	u32 client = params->client, parent;
	struct nvz_alloc alloc = {
		.client = &client,
		.parent = &parent,
		.object = &params->object,
		.status = &params->status,
		.class = params->class,
		.kind = nvz_kind_of(params->class),
		.hint = NV_ZERNEL_UNKNOWN,
	};
	struct nvz_file *file;
	struct nvz_made made;
	NV_STATUS ret;

	if (alloc.kind == NVZ_OTHER)
		return rm_ioctl(sp, nv, nvfp, escape, params, size);

	file = nvz_file_lock(nvfp);
	if (IS_ERR(file))
		return nvz_not_locked(file, &params->status);
	if (nvz_made_prepare(&made, alloc.kind == NVZ_TSG)) {
		ret = nvz_refuse(&params->status, NV_ERR_NO_MEMORY);
	} else {
		ret = rm_ioctl(sp, nv, nvfp, escape, params, size);
		if (ret == NV_OK && params->status == NV_OK) {
			if (nvz_rm_parent(sp, client, params->object, &parent) != NV_OK)
				parent = 0;
			nvz_record_alloc(sp, nv, nvfp, file, &alloc, &made);
		}
		nvz_made_discard(&made);
	}
	mutex_unlock(&file->lock);
	return ret;
}

/* In place of rm_ioctl() in the ioctl of the driver. */
NV_STATUS nv_zernel_rm_ioctl(nvidia_stack_t *sp, nv_state_t *nv, nv_file_private_t *nvfp,
			     NvU32 cmd, void *data, NvU32 size)
{
	/* The core takes these from control files only. */
	if (!(nv->flags & NV_FLAG_CONTROL))
		return rm_ioctl(sp, nv, nvfp, cmd, data, size);

	switch (cmd) {
	case NVZ_ESC_CONTROL:
		if (size != sizeof(struct nvz_esc_control))
			break;
		return nvz_user_control(sp, nv, nvfp, cmd, data, size);
	case NVZ_ESC_ALLOC:
	case NVZ_ESC_ALLOC_OBJECT:
		return nvz_alloc(sp, nv, nvfp, cmd, data, size);
	case NVZ_ESC_FREE:
	case NVZ_ESC_HEAP_CONTROL:
		return nvz_free(sp, nv, nvfp, cmd, data, size);
	case NVZ_ESC_DUP:
		if (size != sizeof(struct nvz_esc_dup))
			break;
		return nvz_dup(sp, nv, nvfp, cmd, data, size);
	case NVZ_ESC_ALLOC_CONTEXT_DMA:
		if (size != sizeof(struct nvz_esc_alloc_context_dma))
			break;
		return nvz_alloc_context_dma(sp, nv, nvfp, cmd, data, size);
	case NVZ_ESC_REGISTER_FD:
		return nvz_register_fd(sp, nv, nvfp, cmd, data, size);
	}
	return rm_ioctl(sp, nv, nvfp, cmd, data, size);
}

/*
 * The core is about to free the clients of the file, some of them perhaps later.
 * No call on the file is under way, nor will be, so its lock is not needed.
 */
void nv_zernel_file_close(nv_file_private_t *nvfp)
{
	struct nvz_client *client;
	struct nvz_file *file;

	mutex_lock(&nvz_table_lock);
	file = nvz_file_find(nvfp);
	if (!file) {
		mutex_unlock(&nvz_table_lock);
		return;
	}
	list_for_each_entry(client, &file->clients, in_file)
		client->freeing = true;
	nvz_free_begin(file);
	nvz_file_drop(file);
	nvz_tell();
	nvz_free_end(file);
	mutex_unlock(&nvz_table_lock);
	mutex_destroy(&file->lock);
	kfree(file);
}
