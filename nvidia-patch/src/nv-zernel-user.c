// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A process that changes the time slice or interleave level of its own TSG.
 *
 * The core lets every client set the time slice of its TSGs, so a tenant could
 * undo what zernel has set. Who is registered decides. All other controls go
 * straight to the core.
 *
 * No lock is held while the core works: it reads the parameters from the tenant's
 * memory and may be kept there. So the answer may be old when the core acts on
 * it, and the handle may even be another TSG's by then. That is why the one who is
 * registered is told of every control that went through, whatever it answered.
 */
#include "nv-zernel-private.h"

/**
 * struct nvz_target - a TSG of the caller
 * @id: number in the table; 0: none
 * @gpu_id: its GPU
 */
struct nvz_target {
	u64 id;
	u32 gpu_id;
};

/* As which of the two controls of a TSG a control counts, or 0. */
static u32 nvz_user_cmd(u32 cmd)
{
	switch (cmd) {
	case NV_ZERNEL_CTRL_SET_TIMESLICE:
		return NV_ZERNEL_CTRL_SET_TIMESLICE;
	case NV_ZERNEL_CTRL_SET_INTERLEAVE:
	case NVZ_CTRL_CHANNEL_INTERLEAVE:
	case NVZ_CTRL_MAKE_REALTIME:
		return NV_ZERNEL_CTRL_SET_INTERLEAVE;
	}
	return 0;
}

/* The TSG that an object of the caller's own client is, or is a channel of. */
static struct nvz_target nvz_find_target(nv_file_private_t *nvfp, u32 client_handle, u32 handle,
					 bool *unknown)
{
	struct nvz_target target = {};
	struct nvz_client *client;
	struct nvz_object *object;

	*unknown = false;
	mutex_lock(&nvz_table_lock);
	client = nvz_client_find(client_handle);
	if (client && client->file->owner == nvz_owner(nvfp)) {
		object = nvz_object_find(client, handle);
		*unknown = !object;
		if (object && object->tsg) {
			target.id = object->tsg->id;
			target.gpu_id = object->tsg->gpu_id;
		}
	}
	mutex_unlock(&nvz_table_lock);
	return target;
}

static struct nvz_target nvz_target(nvidia_stack_t *sp, nv_file_private_t *nvfp,
				    const struct nvz_esc_control *control)
{
	struct nvz_target target;
	struct nvz_file *file;
	bool unknown;

	target = nvz_find_target(nvfp, control->client, control->object, &unknown);
	if (!unknown || control->object == control->client)
		return target;
	file = nvz_file_lock(nvfp);
	if (IS_ERR(file))
		return target;
	nvz_adopt(sp, file, control->client, control->object);
	mutex_unlock(&file->lock);
	return nvz_find_target(nvfp, control->client, control->object, &unknown);
}

/*
 * Another entry for what may be the same TSG of the core: one that was imported
 * has an entry of its own. The next one after @target, which becomes it.
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

	if (!target->id || !nvz_listener_enter(&listener, &cookie))
		return NV_ZERNEL_ALLOW;
	answer = listener.ops->user_control(listener.priv, each.gpu_id, each.id, cmd);
	each.id = 0;
	while (answer != NV_ZERNEL_DENY && nvz_next_twin(&each, target->id))
		answer = listener.ops->user_control(listener.priv, each.gpu_id, each.id, cmd);
	nvz_listener_leave(cookie);
	return answer;
}

static void nvz_tell_controlled(const struct nvz_target *target, u32 cmd)
{
	struct nvz_target each = *target;
	struct nvz_listener listener;
	int cookie;

	if (!target->id || !nvz_listener_enter(&listener, &cookie))
		return;
	listener.ops->user_controlled(listener.priv, each.gpu_id, each.id, cmd);
	each.id = 0;
	while (nvz_next_twin(&each, target->id))
		listener.ops->user_controlled(listener.priv, each.gpu_id, each.id, cmd);
	nvz_listener_leave(cookie);
}

NV_STATUS nvz_user_control(nvidia_stack_t *sp, nv_state_t *nv, nv_file_private_t *nvfp,
			   u32 escape, struct nvz_esc_control *control, u32 size)
{
	u32 cmd = nvz_user_cmd(control->cmd);
	struct nvz_target before = {}, after;
	NV_STATUS ret;

	if (likely(!cmd))
		return rm_ioctl(sp, nv, nvfp, escape, control, size);

	if (nvz_listening_now()) {
		before = nvz_target(sp, nvfp, control);
		if (nvz_ask(&before, cmd) == NV_ZERNEL_DENY) {
			control->status = NV_ERR_INSUFFICIENT_PERMISSIONS;
			return NV_OK;
		}
	}
	ret = rm_ioctl(sp, nv, nvfp, escape, control, size);
	if (ret == NV_OK && control->status == NV_OK && nvz_listening_now()) {
		after = nvz_target(sp, nvfp, control);
		nvz_tell_controlled(&after, cmd);
		if (before.id != after.id)
			nvz_tell_controlled(&before, cmd);
	}
	return ret;
}
