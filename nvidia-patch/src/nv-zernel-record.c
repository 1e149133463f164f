// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The table records the work of the core. The caller holds the file lock, so no object of the file
 * comes or goes meanwhile but by a stop of its GPU.
 *
 * The parameters of an allocation are in the tenant's memory, which it can change
 * while the core reads it: values from there are hints. Wrong hints may cost the
 * tenant attribution. They must not hide a TSG, nor make one look less like
 * compute.
 */
#include "nv-zernel-private.h"

#include <linux/slab.h>

/* Makes room for the records of a call, before the core is asked. */
int nvz_made_prepare(struct nvz_made *made, bool tsg)
{
	made->client = kzalloc(sizeof(*made->client), GFP_KERNEL_ACCOUNT);
	made->object = kzalloc(sizeof(*made->object), GFP_KERNEL_ACCOUNT);
	made->tsg = tsg ? nvz_tsg_new() : NULL;
	if (made->client && made->object && (made->tsg || !tsg))
		return 0;
	nvz_made_discard(made);
	return -ENOMEM;
}

/* Drops the entries that were not used. */
void nvz_made_discard(struct nvz_made *made)
{
	kfree(made->client);
	kfree(made->object);
	nvz_tsg_discard(made->tsg);
}

u32 nvz_hint(const struct nvz_alloc *alloc, u32 at)
{
	u32 value;

	if (!alloc->params || alloc->serialized ||
	    !nvz_caller_read(&value, alloc->params + at, sizeof(value)))
		return NV_ZERNEL_UNKNOWN;
	return value;
}

/* Where the hint is in the parameters of an object; NV_ZERNEL_UNKNOWN: there is none. */
u32 nvz_hint_at(enum nvz_kind kind)
{
	switch (kind) {
	case NVZ_DEVICE:
		return NVZ_DEVICE_INSTANCE_AT;
	case NVZ_MIG:
		return NVZ_MIG_INSTANCE_AT;
	case NVZ_TSG:
		return NVZ_TSG_ENGINE_AT;
	case NVZ_CHANNEL:
		return NVZ_CHANNEL_USERD_AT;
	default:
		return NV_ZERNEL_UNKNOWN;
	}
}

/* Before the core reads the parameters; may sleep for as long as the tenant likes. */
void nvz_hints_read(struct nvz_alloc *alloc)
{
	u32 at = nvz_hint_at(alloc->kind);

	alloc->hint = at == NV_ZERNEL_UNKNOWN ? at : nvz_hint(alloc, at);
}

/* The client, recorded now if it is not; NULL: it is another file's. */
static struct nvz_client *nvz_client_of(struct nvz_file *file, u32 handle, struct nvz_made *made)
{
	struct nvz_client *client = nvz_client_find(handle);

	if (!client) {
		client = made->client;
		made->client = NULL;
		nvz_client_add(client, file, handle);
	}
	return client->file == file ? client : NULL;
}

struct nvz_object *nvz_lookup(u32 client_handle, u32 handle)
{
	struct nvz_client *client = nvz_client_find(client_handle);

	return client ? nvz_object_find(client, handle) : NULL;
}

/*
 * Records the objects that a free, which the core has carried out, took away for certain. A driver
 * that was told to be lax lets one file free the objects of another: those are left to be found
 * out, because the other file's lock would be needed.
 */
void nvz_forget(struct nvz_file *file, u32 client_handle, u32 handle)
{
	struct nvz_client *client;
	struct nvz_object *object;

	mutex_lock(&nvz_table_lock);
	client = nvz_client_find(client_handle);
	if (client && client->file != file)
		client = NULL;
	if (client && handle == client_handle) {
		nvz_client_drop(client);
	} else if (client) {
		object = nvz_object_find(client, handle);
		if (object)
			nvz_object_drop(object);
	}
	nvz_tell();
	mutex_unlock(&nvz_table_lock);
}

/*
 * With an address space, a context share or the memory of a channel the core ends its dependants.
 * It is asked about each possible one, because dependence is known from hints only. That can be
 * many calls of the core, so only calls on the same file wait for them.
 */
void nvz_verify(nvidia_stack_t *sp, struct nvz_file *file, u32 client_handle)
{
	struct nvz_client *client;
	struct nvz_object *object;
	u32 handle, kind;
	u64 next = 0;

	while (next <= U32_MAX) {
		mutex_lock(&nvz_table_lock);
		client = nvz_client_find(client_handle);
		object = client ? nvz_object_next(client, next) : NULL;
		if (object) {
			handle = object->handle;
			kind = object->kind;
		}
		mutex_unlock(&nvz_table_lock);
		if (!object)
			return;
		next = (u64)handle + 1;
		if (kind != NVZ_TSG && kind != NVZ_CHANNEL && kind != NVZ_SUPPORT)
			continue;
		if (nvz_rm_gone(sp, client_handle, handle))
			nvz_forget(file, client_handle, handle);
	}
}

/*
 * A failed copy back to the tenant's memory makes the core report an error for an object that it
 * has made. So does a failed copy from there, before the core looks at the named object: that can
 * be anybody's, and made long ago. So the client must be the caller's own, and the core is asked
 * where the object hangs.
 */
static bool nvz_was_made(nvidia_stack_t *sp, nv_state_t *nv, nv_file_private_t *nvfp,
			 struct nvz_file *file, struct nvz_alloc *alloc)
{
	u32 handle = alloc->kind == NVZ_CLIENT ? *alloc->object : *alloc->client;
	struct nvz_client *client;
	bool known, own;
	u32 class;

	if (*alloc->status == NV_OK)
		return true;
	if (*alloc->status != NV_ERR_INVALID_ADDRESS || !*alloc->object)
		return false;
	mutex_lock(&nvz_table_lock);
	client = nvz_client_find(handle);
	own = client && client->file == file;
	known = client && (!own || alloc->kind == NVZ_CLIENT ||
			   nvz_object_find(client, *alloc->object));
	mutex_unlock(&nvz_table_lock);
	if (known || nvz_rm_class(sp, handle, *alloc->object, &class) != NV_OK ||
	    nvz_kind_of(class) != alloc->kind)
		return false;
	if (!own && !nvz_rm_owner(sp, nv, nvfp, handle))
		return false;
	if (alloc->kind == NVZ_CLIENT)
		return true;
	alloc->parent = &alloc->real_parent;
	return nvz_rm_parent(sp, handle, *alloc->object, alloc->parent) == NV_OK;
}

/*
 * The core gives no handle twice, so a client that had this one has gone by a way unseen, or its
 * free is about to be recorded. Only a success proves that: beside an error the handle is only the
 * tenant's claim.
 */
static void nvz_record_client(struct nvz_file *file, const struct nvz_alloc *alloc,
			      struct nvz_made *made)
{
	struct nvz_client *old = nvz_client_find(*alloc->object);

	if (old && *alloc->status == NV_OK)
		nvz_client_bury(old);
	nvz_file_sweep(file);
	nvz_client_of(file, *alloc->object, made);
}

/* NULL: the client is another file's. */
static struct nvz_object *nvz_record_object(struct nvz_file *file, u32 client_handle,
					    u32 parent, u32 handle, u32 class, u32 hint,
					    struct nvz_made *made, struct nvz_tsg *tsg)
{
	struct nvz_object *object = made->object;
	struct nvz_client *client;

	client = nvz_client_of(file, client_handle, made);
	if (!client) {
		nvz_forgotten++;
		return NULL;
	}
	made->object = NULL;
	object->handle = handle;
	object->class = class;
	object->kind = nvz_kind_of(class);
	object->gpu_id = NV_ZERNEL_UNKNOWN;
	object->instance = hint;
	object->chid = NV_ZERNEL_UNKNOWN;
	object->context = NV_ZERNEL_UNKNOWN;
	if (object->kind == NVZ_CHANNEL && hint != NV_ZERNEL_UNKNOWN)
		object->userd = hint;
	nvz_object_add(object, client, parent, tsg);
	if (tsg)
		nvz_tsg_gather(tsg, file, client_handle, handle);
	if (tsg && tsg == made->tsg)
		made->tsg = NULL;
	return object;
}

/* Records a call that makes no object of the table but tells something about one. */
static void nvz_record_remark(struct nvz_file *file, const struct nvz_alloc *alloc)
{
	struct nvz_object *parent = nvz_lookup(*alloc->client, *alloc->parent);

	if (parent && parent->client->file != file)
		return;
	switch (alloc->kind) {
	case NVZ_COMPUTE:
		if (parent && parent->tsg)
			nvz_tsg_flag(parent->tsg, NV_ZERNEL_TSG_COMPUTE);
		break;
	case NVZ_MPS:
		nvz_file_flag_mps(file);
		break;
	default:
		break;
	}
}

void nvz_record_alloc(nvidia_stack_t *sp, nv_state_t *nv, nv_file_private_t *nvfp,
		      struct nvz_file *file, struct nvz_alloc *alloc, struct nvz_made *made)
{
	struct nvz_object *object;
	u32 chid = NV_ZERNEL_UNKNOWN, context = NV_ZERNEL_UNKNOWN;

	if (!nvz_was_made(sp, nv, nvfp, file, alloc))
		return;
	if (alloc->kind == NVZ_TSG) {
		/* Beside an error it may as well be one that was imported. */
		made->tsg->adopted = *alloc->status != NV_OK;
		if (made->tsg->adopted)
			made->tsg->flags |= NV_ZERNEL_TSG_COMPUTE;
		else
			nvz_learn_engine(alloc, made->tsg);
		nvz_learn_tsg(sp, *alloc->client, *alloc->parent, *alloc->object, made->tsg);
	} else if (alloc->kind == NVZ_CHANNEL) {
		nvz_adopt(sp, file, *alloc->client, *alloc->parent);
		chid = nvz_learn_chid(sp, *alloc->client, *alloc->parent, *alloc->object);
		context = nvz_learn_context(sp, *alloc->client, *alloc->object);
	} else if (alloc->kind == NVZ_COMPUTE) {
		nvz_learn_compute(sp, file, *alloc->client, *alloc->parent);
	} else if (alloc->kind == NVZ_SUBDEVICE) {
		nvz_learn_gpu(sp, *alloc->client, *alloc->parent, *alloc->object);
	}

	mutex_lock(&nvz_table_lock);
	if (alloc->kind == NVZ_CLIENT) {
		nvz_record_client(file, alloc, made);
	} else if (nvz_kind_recorded(alloc->kind)) {
		object = nvz_record_object(file, *alloc->client, *alloc->parent, *alloc->object,
					   alloc->class, alloc->hint, made,
					   alloc->kind == NVZ_TSG ? made->tsg : NULL);
		if (object) {
			object->chid = chid;
			nvz_context_add(object, context);
		}
	} else {
		nvz_record_remark(file, alloc);
	}
	nvz_tell();
	mutex_unlock(&nvz_table_lock);
}

void nvz_record_dup(nvidia_stack_t *sp, struct nvz_file *file, const struct nvz_esc_dup *dup,
		    struct nvz_made *made)
{
	struct nvz_object like = {
		.gpu_id = NV_ZERNEL_UNKNOWN,
		.instance = NV_ZERNEL_UNKNOWN,
	};
	struct nvz_object *source, *object;
	u32 class = NVZ_CLASS_ROOT;
	struct nvz_client *client;
	bool known;

	mutex_lock(&nvz_table_lock);
	known = nvz_lookup(dup->source_client, dup->source);
	mutex_unlock(&nvz_table_lock);
	if (!known) {
		/* Of something that is not followed, or that was got by a way unseen. */
		if (nvz_rm_class(sp, dup->client, dup->object, &class) != NV_OK ||
		    !nvz_kind_recorded(nvz_kind_of(class)))
			return;
		made->tsg->flags |= NV_ZERNEL_TSG_COMPUTE;
		made->tsg->adopted = true;
		if (class == NVZ_CLASS_TSG)
			nvz_learn_tsg(sp, dup->client, dup->parent, dup->object, made->tsg);
	}

	mutex_lock(&nvz_table_lock);
	source = nvz_lookup(dup->source_client, dup->source);
	if (source)
		like = *source;
	else if (class == NVZ_CLASS_TSG)
		like.tsg = made->tsg;
	/* Else its GPU was stopped meanwhile, and that took the duplicate along. */
	if (source || !known) {
		if (source)
			class = like.class;
		object = nvz_record_object(file, dup->client, dup->parent, dup->object, class,
					   like.instance, made,
					   class == NVZ_CLASS_TSG ? like.tsg : NULL);
		if (object)
			object->gpu_id = like.gpu_id;
		client = nvz_client_find(dup->source_client);
		if (object && object->tsg && object->tsg->adopted && !source && client &&
		    mutex_is_locked(&client->file->lock))
			nvz_tsg_stray(object->tsg, client->file, dup->source_client, dup->source);
		nvz_tell();
	}
	mutex_unlock(&nvz_table_lock);
}

/*
 * A TSG with a handle from an unseen way (an import from a file) is recorded as one of its own at
 * the first call for it.
 *
 * An import that fails half-way frees its objects, unseen as well. Such an entry
 * goes when a control finds its handle dead, or when the handle is given anew.
 */
void nvz_adopt(nvidia_stack_t *sp, struct nvz_file *file, u32 client, u32 handle)
{
	struct nvz_made made;
	u32 class, parent;
	bool known;

	mutex_lock(&nvz_table_lock);
	known = nvz_lookup(client, handle);
	mutex_unlock(&nvz_table_lock);
	if (known || nvz_rm_class(sp, client, handle, &class) != NV_OK || class != NVZ_CLASS_TSG ||
	    nvz_rm_parent(sp, client, handle, &parent) != NV_OK)
		return;
	if (nvz_made_prepare(&made, true)) {
		mutex_lock(&nvz_table_lock);
		nvz_forgotten++;
		mutex_unlock(&nvz_table_lock);
		return;
	}
	made.tsg->flags |= NV_ZERNEL_TSG_COMPUTE;
	made.tsg->adopted = true;
	nvz_learn_tsg(sp, client, parent, handle, made.tsg);
	/* A handle can outlive its TSG. */
	known = made.tsg->hw_tsg != NV_ZERNEL_UNKNOWN;
	if (known) {
		mutex_lock(&nvz_table_lock);
		nvz_record_object(file, client, parent, handle, class, NV_ZERNEL_UNKNOWN, &made,
				  made.tsg);
		nvz_tell();
		mutex_unlock(&nvz_table_lock);
	}
	nvz_made_discard(&made);
}
