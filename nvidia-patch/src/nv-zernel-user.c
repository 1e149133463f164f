// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A process that changes the time slice or interleave level of its own TSG.
 *
 * The core lets every client set the time slice of its TSGs, so a tenant could undo zernel's
 * settings. The listener decides. All other controls go straight to the core.
 *
 * The question, the control and its report are one under the lock of the caller's file,
 * so the handle is the same TSG's all along: handles come and go under that lock. The
 * core reads the parameters from the tenant's memory and may be kept there for as long
 * as the tenant likes. Then only calls on the same file wait.
 *
 * The answer may be old when the core acts on it, because the TSG can get a class meanwhile; an
 * import from a file can even give the handle meanwhile. So the listener is told of every control
 * that went to the core, after any answer of both: a control that failed to write its parameters
 * back, or took too long, has had its effect.
 */
#include "nv-zernel-private.h"

#include <linux/uaccess.h>

/* Of a control that sets no interleave level. */
#define NVZ_NO_LEVEL	0xffffffffU

/* Objects that are looked at in one hold of the table lock. */
#define NVZ_BATCH	64

/**
 * struct nvz_target - a TSG of the caller
 * @id: number in the table; 0: none
 * @next: handle from which on the client's objects are yet to be looked at
 * @gpu_id: its GPU
 * @bare: not a TSG, but a channel without one that is known
 */
struct nvz_target {
	u64 id;
	u64 next;
	u32 gpu_id;
	bool bare;
};

/*
 * As which of the two controls of a TSG a control counts, or 0. Those of channels
 * and devices have the same effect by another way.
 */
static u32 nvz_user_cmd(u32 cmd)
{
	switch (cmd) {
	case NV_ZERNEL_CTRL_SET_TIMESLICE:
	case NVZ_CTRL_CHANNEL_PROPERTIES:
		return NV_ZERNEL_CTRL_SET_TIMESLICE;
	case NV_ZERNEL_CTRL_SET_INTERLEAVE:
	case NVZ_CTRL_CHANNEL_INTERLEAVE:
	case NVZ_CTRL_MAKE_REALTIME:
		return NV_ZERNEL_CTRL_SET_INTERLEAVE;
	}
	return 0;
}

/* The kind of object that such a control must name, lest the core refuses it. */
static enum nvz_kind nvz_user_kind(u32 cmd)
{
	switch (cmd) {
	case NVZ_CTRL_CHANNEL_PROPERTIES:
		return NVZ_DEVICE;
	case NVZ_CTRL_CHANNEL_INTERLEAVE:
		return NVZ_CHANNEL;
	}
	return NVZ_TSG;
}

static bool nvz_is_target(const struct nvz_object *object, struct nvz_target *target)
{
	if (object->kind != NVZ_TSG && (object->kind != NVZ_CHANNEL || object->tsg))
		return false;
	target->bare = !object->tsg;
	target->id = target->bare ? 0 : object->tsg->id;
	target->gpu_id = target->bare ? NV_ZERNEL_UNKNOWN : object->tsg->gpu_id;
	return true;
}

/*
 * The next TSG that a control of a device can change. Which channel is meant is said in
 * the tenant's memory, so it may be in any TSG of the client. For a channel below the
 * device itself the core makes a TSG that the hook does not see.
 */
static bool nvz_next_of_client(struct nvz_file *file, u32 handle, struct nvz_target *target)
{
	struct nvz_object *object;
	struct nvz_client *client;
	bool found = false;
	u32 i;

	do {
		mutex_lock(&nvz_table_lock);
		client = nvz_client_find(handle);
		for (i = 0; i < NVZ_BATCH && !found; i++) {
			object = NULL;
			if (client && client->file == file && target->next <= U32_MAX)
				object = nvz_object_next(client, target->next);
			if (!object)
				break;
			target->next = (u64)object->handle + 1;
			found = nvz_is_target(object, target);
		}
		mutex_unlock(&nvz_table_lock);
	} while (object && !found);
	return found;
}

/*
 * The next TSG after @target, which becomes it, that a control of an object in a
 * client of the caller's file can change. The core refuses those of others.
 */
static bool nvz_next_target(struct nvz_file *file, const struct nvz_esc_control *control,
			    struct nvz_target *target, bool *unknown)
{
	enum nvz_kind kind = nvz_user_kind(control->cmd);
	struct nvz_object *object = NULL;
	struct nvz_tsg *tsg = NULL;
	struct nvz_client *client;

	if (kind == NVZ_DEVICE)
		return nvz_next_of_client(file, control->client, target);

	mutex_lock(&nvz_table_lock);
	client = nvz_client_find(control->client);
	if (client && client->file == file) {
		object = nvz_object_find(client, control->object);
		*unknown = !object && control->object != control->client;
	}
	if (object && object->kind == kind && !target->id)
		tsg = object->tsg;
	if (tsg) {
		target->id = tsg->id;
		target->gpu_id = tsg->gpu_id;
	}
	mutex_unlock(&nvz_table_lock);
	return tsg;
}

/* The first one; an object that is not known is looked at more closely. */
static bool nvz_first_target(nvidia_stack_t *sp, struct nvz_file *file,
			     const struct nvz_esc_control *control, struct nvz_target *target)
{
	bool unknown = false;

	*target = (struct nvz_target) { 0 };
	if (nvz_next_target(file, control, target, &unknown))
		return true;
	if (!unknown)
		return false;
	nvz_adopt(sp, file, control->client, control->object);
	return nvz_next_target(file, control, target, &unknown);
}

/*
 * Another entry for possibly the same TSG of the core: an imported one has an entry of its own. The
 * next one after @target, which becomes it.
 */
static bool nvz_next_twin(struct nvz_target *target, u64 of)
{
	struct nvz_tsg *tsg;

	mutex_lock(&nvz_table_lock);
	tsg = nvz_tsg_twin(of, target->id);
	if (tsg) {
		target->id = tsg->id;
		target->gpu_id = tsg->gpu_id;
	}
	mutex_unlock(&nvz_table_lock);
	return tsg;
}

static u32 nvz_ask(const struct nvz_target *target, u32 cmd)
{
	struct nvz_target each = *target;
	struct nvz_listener listener;
	u32 answer;
	int cookie;

	if (!nvz_listener_enter(&listener, &cookie))
		return NV_ZERNEL_ALLOW;
	answer = listener.ops->user_control(listener.priv, each.gpu_id, each.id, cmd);
	each.id = 0;
	while (answer != NV_ZERNEL_DENY && nvz_next_twin(&each, target->id))
		answer = listener.ops->user_control(listener.priv, each.gpu_id, each.id, cmd);
	nvz_listener_leave(cookie);
	return answer;
}

/*
 * The interleave level that a control which went through has set. By now its parameters may say
 * something else; a process that may set any level lies only about its own level after the end of
 * its class.
 */
static u32 nvz_level_set(const struct nvz_esc_control *control)
{
	void __user *params = (void __user *)(unsigned long)control->params;
	u32 level;
	u8 realtime;

	/* In another layout, which is not read. */
	if (control->flags & NVZ_CONTROL_SERIALIZED)
		return NVZ_NO_LEVEL;
	switch (control->cmd) {
	case NV_ZERNEL_CTRL_SET_INTERLEAVE:
	case NVZ_CTRL_CHANNEL_INTERLEAVE:
		if (get_user(level, (u32 __user *)params))
			return NVZ_NO_LEVEL;
		return min_t(u32, level, NVZ_LEVEL_MAX);
	case NVZ_CTRL_MAKE_REALTIME:
		if (get_user(realtime, (u8 __user *)params))
			return NVZ_NO_LEVEL;
		return realtime ? NVZ_LEVEL_MAX : NVZ_LEVEL_DEFAULT;
	}
	return NVZ_NO_LEVEL;
}

static void nvz_tell_controlled(const struct nvz_target *target, u32 cmd)
{
	struct nvz_target each = *target;
	struct nvz_listener listener;
	int cookie;

	if (!nvz_listener_enter(&listener, &cookie))
		return;
	listener.ops->user_controlled(listener.priv, each.gpu_id, each.id, cmd);
	each.id = 0;
	while (nvz_next_twin(&each, target->id))
		listener.ops->user_controlled(listener.priv, each.gpu_id, each.id, cmd);
	nvz_listener_leave(cookie);
}

/*
 * Somebody registered while the core worked on a control that no lock was held for: by
 * now its handle may be another TSG's, so it may have been any.
 */
static void nvz_tell_all_controlled(u32 cmd)
{
	struct nvz_listener listener;
	struct nvz_tsg *tsg;
	u32 gpu_id = 0;
	u64 id = 0;
	int cookie;

	if (!nvz_listener_enter(&listener, &cookie))
		return;
	for (;;) {
		mutex_lock(&nvz_table_lock);
		tsg = nvz_tsg_next(id);
		if (tsg) {
			id = tsg->id;
			gpu_id = tsg->gpu_id;
		}
		mutex_unlock(&nvz_table_lock);
		if (!tsg)
			break;
		listener.ops->user_controlled(listener.priv, gpu_id, id, cmd);
	}
	nvz_listener_leave(cookie);
}

/* Under the lock of the caller's file. */
static NV_STATUS nvz_control(nvidia_stack_t *sp, nv_state_t *nv, nv_file_private_t *nvfp,
			     struct nvz_file *file, u32 escape, struct nvz_esc_control *control,
			     u32 size, u32 cmd)
{
	u32 level = NVZ_NO_LEVEL;
	struct nvz_target target;
	bool more, unknown;
	NV_STATUS ret;

	if (nvz_listening_now()) {
		more = nvz_first_target(sp, file, control, &target);
		for (; more; more = nvz_next_target(file, control, &target, &unknown)) {
			if (target.bare || nvz_ask(&target, cmd) == NV_ZERNEL_DENY) {
				control->status = NV_ERR_INSUFFICIENT_PERMISSIONS;
				return NV_OK;
			}
		}
	}
	ret = rm_ioctl(sp, nv, nvfp, escape, control, size);
	if (ret == NV_OK && control->status == NV_OK)
		level = nvz_level_set(control);
	if (level == NVZ_NO_LEVEL && !nvz_listening_now())
		return ret;
	more = nvz_first_target(sp, file, control, &target);
	for (; more; more = nvz_next_target(file, control, &target, &unknown)) {
		if (target.bare)
			continue;
		if (level != NVZ_NO_LEVEL)
			nvz_tsg_set_level(target.id, level);
		nvz_tell_controlled(&target, cmd);
	}
	return ret;
}

NV_STATUS nvz_user_control(nvidia_stack_t *sp, nv_state_t *nv, nv_file_private_t *nvfp,
			   u32 escape, struct nvz_esc_control *control, u32 size)
{
	u32 cmd = nvz_user_cmd(control->cmd);
	struct nvz_file *file;
	NV_STATUS ret;

	if (likely(!cmd))
		return rm_ioctl(sp, nv, nvfp, escape, control, size);

	/* A time slice is nobody's business then; a level is to be remembered. */
	if (cmd == NV_ZERNEL_CTRL_SET_TIMESLICE && !nvz_listening_now()) {
		ret = rm_ioctl(sp, nv, nvfp, escape, control, size);
		if (nvz_listening_now())
			nvz_tell_all_controlled(cmd);
		return ret;
	}
	file = nvz_file_lock(nvfp);
	if (IS_ERR(file))
		return nvz_not_locked(file, &control->status);
	ret = nvz_control(sp, nv, nvfp, file, escape, control, size, cmd);
	mutex_unlock(&file->lock);
	return ret;
}
