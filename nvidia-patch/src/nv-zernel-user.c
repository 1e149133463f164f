// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A process that changes its own TSG: time slice, interleave level, or that it is scheduled.
 *
 * The core lets every client set the time slice of its TSGs, and enable what zernel has disabled,
 * so a tenant could undo both. The listener decides. All other controls go straight to the core.
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

/* Of a control that sets no interleave level. */
#define NVZ_NO_LEVEL	0xffffffffU

/* Objects that are looked at in one hold of the table lock. */
#define NVZ_BATCH	64

/**
 * struct nvz_target - a TSG of the caller
 * @id: number in the table; 0: none
 * @next: handle from which on the client's objects are yet to be looked at
 * @client: whose they are, where the control concerns all of the file; NULL: the first one's.
 *	It stays in the list of the file as long as the lock of that is held.
 * @gpu_id: its GPU
 * @bare: not a TSG, but a channel without one that is known
 */
struct nvz_target {
	u64 id;
	u64 next;
	struct nvz_client *client;
	u32 gpu_id;
	bool bare;
};

/*
 * As which of four controls a control counts, or 0. Those of channels and devices have the same
 * effect by another way.
 *
 * Every program schedules its TSGs, or their channels, before their first work, and a reset may
 * leave a channel scheduled. By the words of the driver's headers a disabled channel stays so; no
 * more is known of it. Stopping a channel, or restarting its run list, is no part of a program's
 * usual life.
 */
u32 nvz_user_cmd(u32 cmd)
{
	switch (cmd) {
	case NV_ZERNEL_CTRL_SET_TIMESLICE:
	case NVZ_CTRL_CHANNEL_PROPERTIES:
		return NV_ZERNEL_CTRL_SET_TIMESLICE;
	case NV_ZERNEL_CTRL_SET_INTERLEAVE:
	case NVZ_CTRL_CHANNEL_INTERLEAVE:
	case NVZ_CTRL_MAKE_REALTIME:
		return NV_ZERNEL_CTRL_SET_INTERLEAVE;
	case NV_ZERNEL_CTRL_SCHEDULE:
	case NVZ_CTRL_START_CHANNELS:
	case NVZ_CTRL_CHANNEL_RESET:
	case NVZ_CTRL_CHANNEL_RESET_A06F:
	case NVZ_CTRL_CHANNEL_SCHEDULE:
	case NVZ_CTRL_CHANNEL_SCHEDULE_A16F:
	case NVZ_CTRL_CHANNEL_SCHEDULE_A26F:
	case NVZ_CTRL_CHANNEL_SCHEDULE_B06F:
	case NVZ_CTRL_CHANNEL_SCHEDULE_C06F:
	case NVZ_CTRL_CHANNEL_SCHEDULE_C36F:
		return NV_ZERNEL_CTRL_SCHEDULE;
	case NV_ZERNEL_CTRL_DISABLE_CHANNELS:
	case NVZ_CTRL_RESTART_RUNLIST:
	case NVZ_CTRL_STOP_CHANNEL:
		return NV_ZERNEL_CTRL_DISABLE_CHANNELS;
	}
	return 0;
}

/* The kind of object that such a control must name, lest the core refuses it. */
static enum nvz_kind nvz_user_kind(u32 cmd)
{
	switch (cmd) {
	case NVZ_CTRL_CHANNEL_PROPERTIES:
	case NVZ_CTRL_START_CHANNELS:
		return NVZ_DEVICE;
	case NV_ZERNEL_CTRL_DISABLE_CHANNELS:
		return NVZ_SUBDEVICE;
	case NV_ZERNEL_CTRL_SET_TIMESLICE:
	case NV_ZERNEL_CTRL_SET_INTERLEAVE:
	case NV_ZERNEL_CTRL_SCHEDULE:
	case NVZ_CTRL_MAKE_REALTIME:
		return NVZ_TSG;
	}
	return NVZ_CHANNEL;
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

/* Looks for the next one among some objects of a client. @more: there are others. Table lock. */
static bool nvz_next_in(struct nvz_client *client, struct nvz_target *target, bool *more)
{
	struct nvz_object *object;
	u32 i;

	for (i = 0; i < NVZ_BATCH; i++) {
		object = target->next <= U32_MAX ? nvz_object_next(client, target->next) : NULL;
		*more = object;
		if (!object)
			return false;
		target->next = (u64)object->handle + 1;
		if (nvz_is_target(object, target))
			return true;
	}
	return false;
}

/*
 * The next TSG that a control of a device can change. Which channel is meant is said in
 * the tenant's memory, so it may be in any TSG of the client. For a channel below the
 * device itself the core makes a TSG that the hook does not see.
 */
static bool nvz_next_of_client(struct nvz_file *file, u32 handle, struct nvz_target *target)
{
	struct nvz_client *client;
	bool found, more;

	do {
		more = false;
		mutex_lock(&nvz_table_lock);
		client = nvz_client_find(handle);
		found = client && client->file == file && nvz_next_in(client, target, &more);
		mutex_unlock(&nvz_table_lock);
	} while (more && !found);
	return found;
}

/*
 * The next TSG that a control can change whose parameters name channels together with their
 * clients: any of the file. It is the core that keeps it from those of other files.
 */
static bool nvz_next_of_file(struct nvz_file *file, struct nvz_target *target)
{
	struct nvz_client *client;
	bool found, more, end;

	lockdep_assert_held(&file->lock);
	do {
		more = false;
		found = false;
		mutex_lock(&nvz_table_lock);
		client = target->client;
		if (!client)
			client = list_first_entry(&file->clients, struct nvz_client, in_file);
		end = list_entry_is_head(client, &file->clients, in_file);
		if (!end) {
			found = nvz_next_in(client, target, &more);
			if (!more) {
				client = list_next_entry(client, in_file);
				target->next = 0;
			}
		}
		target->client = client;
		mutex_unlock(&nvz_table_lock);
	} while (!end && !found);
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
	if (kind == NVZ_SUBDEVICE)
		return nvz_next_of_file(file, target);

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

/* The size of the level in the parameters of a control that sets one; 0: it sets none. */
u32 nvz_level_size(u32 cmd)
{
	switch (cmd) {
	case NV_ZERNEL_CTRL_SET_INTERLEAVE:
	case NVZ_CTRL_CHANNEL_INTERLEAVE:
		return sizeof(u32);
	case NVZ_CTRL_MAKE_REALTIME:
		return sizeof(u8);
	}
	return 0;
}

/*
 * The interleave level that a control which went through has set. By now its parameters may say
 * something else; a process that may set any level lies only about its own level after the end of
 * its class.
 */
static u32 nvz_level_set(const struct nvz_esc_control *control)
{
	u32 size = nvz_level_size(control->cmd), level = 0;

	/* In another layout, which is not read. */
	if (!size || control->flags & NVZ_CONTROL_SERIALIZED ||
	    !nvz_caller_read(&level, control->params, size))
		return NVZ_NO_LEVEL;
	if (control->cmd == NVZ_CTRL_MAKE_REALTIME)
		return level ? NVZ_LEVEL_MAX : NVZ_LEVEL_DEFAULT;
	return min_t(u32, level, NVZ_LEVEL_MAX);
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
 * Somebody registered while the core worked on a control that no lock was held for, or it is seen
 * only now: its handle may be another TSG's since, so it may have been any.
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
	bool more, unknown, deny;
	NV_STATUS ret;

	if (nvz_listening_now()) {
		more = nvz_first_target(sp, file, control, &target);
		for (; more; more = nvz_next_target(file, control, &target, &unknown)) {
			/* One that the hook does not see has settings, but is never disabled. */
			if (target.bare)
				deny = cmd == NV_ZERNEL_CTRL_SET_TIMESLICE;
			else
				deny = nvz_ask(&target, cmd) == NV_ZERNEL_DENY;
			if (deny && nvz_caller_waits()) {
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

	/* Nobody's business then, but for a level, which is to be remembered. */
	if (cmd != NV_ZERNEL_CTRL_SET_INTERLEAVE && !nvz_listening_now()) {
		ret = rm_ioctl(sp, nv, nvfp, escape, control, size);
		if (nvz_listening_now())
			nvz_tell_all_controlled(cmd);
		return ret;
	}
	file = nvz_file_lock(nvfp);
	if (IS_ERR(file))
		return nvz_not_locked(file, &control->status);
	ret = nvz_control(sp, nv, nvfp, file, escape, control, size, cmd);
	if (!nvz_caller_ordered())
		nvz_tell_all_controlled(cmd);
	mutex_unlock(&file->lock);
	return ret;
}
