// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The controls of a TSG that zernel sends to the core, on any living handle of the TSG.
 */
#include "nv-zernel-private.h"

#include <linux/slab.h>

#define NVZ_DISABLE_MAX		64

struct nvz_disable_channels {
	u8 disable, pad[3];
	u32 count;
	u8 only_scheduling, rewind, pad2[6];
	u64 event;
	u32 clients[NVZ_DISABLE_MAX];
	u32 channels[NVZ_DISABLE_MAX];
};

struct nvz_preempt {
	u8 wait, own_timeout, pad[2];
	u32 timeout_us;
};

struct nvz_restart {
	u8 force, bypass_wait;
};

#define NVZ_TSG_FIELDS \
	(NV_ZERNEL_TSG_TIMESLICE | NV_ZERNEL_TSG_INTERLEAVE | NV_ZERNEL_TSG_ENABLED)

/**
 * struct nvz_handle - a handle that is pinned
 * @client: pinned
 * @object: handle of the TSG, or of a channel of it
 * @gpu_id: of the TSG
 */
struct nvz_handle {
	struct nvz_client *client;
	u32 object;
	u32 gpu_id;
};

/* A client that may be about to lose a handle of the TSG. */
static struct nvz_client *nvz_tsg_freeing(struct nvz_tsg *tsg)
{
	struct nvz_object *object;

	list_for_each_entry(object, &tsg->handles, in_tsg) {
		if (object->client->freeing)
			return object->client;
	}
	return NULL;
}

/*
 * Pins a handle of the TSG, or for a control of channels one of these. 0, -ENOENT, or -ENODATA it has
 * no channel. Waits while every handle of the TSG may be about to go.
 */
static int nvz_tsg_pin(u64 id, u32 cmd, struct nvz_handle *handle)
{
	bool of_channel = cmd == NVZ_CTRL_RESTART_RUNLIST;
	struct nvz_object *object;
	struct list_head *list;
	struct nvz_tsg *tsg;
	int ret = -ENOENT;

	mutex_lock(&nvz_table_lock);
	while ((tsg = nvz_tsg_find(id))) {
		list = of_channel ? &tsg->channels : &tsg->handles;
		if (list_empty(list)) {
			ret = -ENODATA;
			break;
		}
		list_for_each_entry(object, list, in_tsg) {
			if (!nvz_pin(object->client))
				continue;
			handle->client = object->client;
			handle->object = object->handle;
			handle->gpu_id = tsg->gpu_id;
			mutex_unlock(&nvz_table_lock);
			nvz_pinned();
			return 0;
		}
		/* A client with a channel of the TSG has a handle of it, too. */
		nvz_wait_outcome(nvz_tsg_freeing(tsg), false);
	}
	mutex_unlock(&nvz_table_lock);
	return ret;
}

/* @gone: the core has no such handle any more, by a way that the hook does not see. */
static void nvz_tsg_unpin(u64 id, const struct nvz_handle *handle, bool gone)
{
	struct nvz_object *object;

	mutex_lock(&nvz_table_lock);
	object = nvz_object_find(handle->client, handle->object);
	if (gone && object && object->tsg && object->tsg->id == id)
		nvz_object_drop(object);
	nvz_tell();
	nvz_unpin(handle->client);
	mutex_unlock(&nvz_table_lock);
	nvz_unpinned();
}

/* 0 when the core answered, or the TSG has no channel for a control of these; -ENOENT, -EAGAIN, -ENOMEM. */
static int nvz_tsg_control(u64 tsg, u32 cmd, void *params, u32 size, u32 *status)
{
	struct nvz_handle handle;
	nvidia_stack_t *sp;
	bool gone;
	int ret;

	do {
		ret = nvz_tsg_pin(tsg, cmd, &handle);
		if (ret == -ENODATA) {
			/* Nothing runs on it, nor will before it has a channel. */
			*status = NV_OK;
			return 0;
		}
		if (ret)
			return ret;
		gone = false;
		ret = nvz_rm_enter(&sp, handle.gpu_id);
		if (!ret) {
			*status = nvz_rm_control(sp, handle.client->handle, handle.object, cmd,
						 params, size);
			gone = nvz_status_dead(*status) &&
			       nvz_rm_gone(sp, handle.client->handle, handle.object);
			nvz_rm_leave(sp);
		}
		nvz_tsg_unpin(tsg, &handle, gone);
		/* Never again on a dead handle, but a duplicate may live. */
	} while (gone);
	return ret;
}

/**
 * struct nvz_channels - the channels of a TSG, pinned
 * @gpu_id: of the TSG
 * @count: of channels
 * @room: for channels
 * @of: client and channel of each
 */
struct nvz_channels {
	u32 gpu_id;
	u32 count;
	u32 room;
	struct nvz_handle of[] __counted_by(room);
};

/*
 * All channels at once or none: a caller that waited for a free with a pin in hand could wait for
 * itself.
 */
static int nvz_channels_pin(u64 id, struct nvz_channels **pinned)
{
	struct nvz_channels *channels = NULL;
	struct nvz_client *client;
	struct nvz_object *object;
	struct nvz_tsg *tsg;
	u32 room = 0;
	int ret;

again:
	if (room) {
		kvfree(channels);
		channels = kvzalloc(struct_size(channels, of, room), GFP_KERNEL);
		if (!channels)
			return -ENOMEM;
		channels->room = room;
	}
	mutex_lock(&nvz_table_lock);
	while ((tsg = nvz_tsg_find(id)) && (client = nvz_tsg_freeing(tsg)))
		nvz_wait_outcome(client, false);
	ret = -ENOENT;
	if (!tsg)
		goto fail;
	/* Room for one at least, so that there is a list for a TSG without channels. */
	if (tsg->channel_count >= room) {
		room = tsg->channel_count + 1;
		mutex_unlock(&nvz_table_lock);
		goto again;
	}
	list_for_each_entry(object, &tsg->channels, in_tsg) {
		nvz_pin(object->client);
		channels->of[channels->count++] = (struct nvz_handle) {
			.client = object->client,
			.object = object->handle,
			.gpu_id = tsg->gpu_id,
		};
	}
	channels->gpu_id = tsg->gpu_id;
	mutex_unlock(&nvz_table_lock);
	nvz_pinned();
	*pinned = channels;
	return 0;

fail:
	mutex_unlock(&nvz_table_lock);
	kvfree(channels);
	return ret;
}

static void nvz_channels_unpin(struct nvz_channels *channels)
{
	u32 i;

	mutex_lock(&nvz_table_lock);
	for (i = 0; i < channels->count; i++)
		nvz_unpin(channels->of[i].client);
	mutex_unlock(&nvz_table_lock);
	nvz_unpinned();
	kvfree(channels);
}

/*
 * Drops the channels from the list and the table that the core does not have any more, gone by a way
 * that the hook does not see: the core refuses a lot with one of them. True if there were any.
 */
static bool nvz_channels_clean(nvidia_stack_t *sp, u64 id, struct nvz_channels *channels)
{
	u32 count = channels->count, kept = 0, i;

	for (i = 0; i < count; i++) {
		const struct nvz_handle handle = channels->of[i];
		struct nvz_object *object;

		if (!nvz_rm_gone(sp, handle.client->handle, handle.object)) {
			channels->of[kept++] = handle;
			continue;
		}
		mutex_lock(&nvz_table_lock);
		object = nvz_object_find(handle.client, handle.object);
		if (object && object->kind == NVZ_CHANNEL && object->tsg && object->tsg->id == id)
			nvz_object_drop(object);
		nvz_tell();
		nvz_unpin(handle.client);
		mutex_unlock(&nvz_table_lock);
	}
	channels->count = kept;
	return kept < count;
}

/* Those from @from on, as many as one control takes. Status of the core. */
static u32 nvz_channels_switch(nvidia_stack_t *sp, const struct nvz_channels *channels, u32 from,
			       bool enable, struct nvz_disable_channels *params)
{
	u32 i;

	memset(params, 0, sizeof(*params));
	params->disable = !enable;
	params->count = min_t(u32, channels->count - from, NVZ_DISABLE_MAX);
	for (i = 0; i < params->count; i++) {
		params->clients[i] = channels->of[from + i].client->handle;
		params->channels[i] = channels->of[from + i].object;
	}
	return nvz_gpu_control(sp, channels->gpu_id, NV_ZERNEL_CTRL_DISABLE_CHANNELS, params,
			       sizeof(*params));
}

/* Lot by lot, until one is refused; @done: the channels before that lot. Status of the core. */
static u32 nvz_channels_switch_all(nvidia_stack_t *sp, const struct nvz_channels *channels,
				   bool enable, struct nvz_disable_channels *params, u32 *done)
{
	u32 status = NV_OK;

	for (*done = 0; *done < channels->count; *done += NVZ_DISABLE_MAX) {
		status = nvz_channels_switch(sp, channels, *done, enable, params);
		if (status != NV_OK)
			break;
	}
	return status;
}

/* As nvz_tsg_control(). */
static int nvz_tsg_enable(u64 tsg, bool enable, u32 *status)
{
	struct nvz_disable_channels *params;
	struct nvz_channels *channels;
	nvidia_stack_t *sp;
	u32 done, from;
	int ret;

	params = kzalloc(sizeof(*params), GFP_KERNEL);
	if (!params)
		return -ENOMEM;
	ret = nvz_channels_pin(tsg, &channels);
	if (ret)
		goto out;
	ret = nvz_rm_enter(&sp, channels->gpu_id);
	if (ret)
		goto unpin;
	*status = nvz_channels_switch_all(sp, channels, enable, params, &done);
	if (*status != NV_OK && nvz_channels_clean(sp, tsg, channels))
		*status = nvz_channels_switch_all(sp, channels, enable, params, &done);
	/* A TSG must not run in part, and a lot that was refused may have been carried out in part. */
	for (from = 0; *status != NV_OK && from <= done; from += NVZ_DISABLE_MAX)
		nvz_channels_switch(sp, channels, from, !enable, params);
	nvz_rm_leave(sp);
unpin:
	nvz_channels_unpin(channels);
out:
	kfree(params);
	return ret;
}

/* Changes one setting. As nvz_tsg_control(). */
static int nvz_tsg_set(u64 tsg, u32 field, const struct nv_zernel_tsg_settings *settings, u32 *status)
{
	u64 timeslice = settings->timeslice_us;
	u32 level = settings->interleave;
	int ret;

	switch (field) {
	case NV_ZERNEL_TSG_TIMESLICE:
		return nvz_tsg_control(tsg, NV_ZERNEL_CTRL_SET_TIMESLICE, &timeslice,
				       sizeof(timeslice), status);
	case NV_ZERNEL_TSG_INTERLEAVE:
		ret = nvz_tsg_control(tsg, NV_ZERNEL_CTRL_SET_INTERLEAVE, &level, sizeof(level),
				      status);
		if (!ret && *status == NV_OK)
			nvz_tsg_set_level(tsg, level);
		return ret;
	}
	ret = nvz_tsg_enable(tsg, settings->enabled, status);
	/* A refusal leaves the opposite. */
	if (!ret)
		nvz_tsg_set_disabled(tsg, settings->enabled != (*status == NV_OK));
	return ret;
}

static bool nvz_settings_name(const struct nv_zernel_tsg_settings *settings)
{
	return settings->size >= sizeof(*settings) && settings->fields &&
	       !(settings->fields & ~NVZ_TSG_FIELDS) && !settings->reserved;
}

int nv_zernel_tsg_configure(u64 tsg, struct nv_zernel_tsg_settings *settings, u32 *status)
{
	u32 wanted = settings->fields, field;
	int ret;

	might_sleep();
	if (!nvz_settings_name(settings) ||
	    (wanted & NV_ZERNEL_TSG_INTERLEAVE && settings->interleave > NVZ_LEVEL_MAX) ||
	    (wanted & NV_ZERNEL_TSG_ENABLED && settings->enabled > 1))
		return -EINVAL;
	settings->fields = 0;
	for (field = 1; field & NVZ_TSG_FIELDS; field <<= 1) {
		if (!(wanted & field))
			continue;
		ret = nvz_tsg_set(tsg, field, settings, status);
		if (ret || *status != NV_OK)
			return ret;
		settings->fields |= field;
	}
	return 0;
}
EXPORT_SYMBOL_GPL(nv_zernel_tsg_configure);

int nv_zernel_tsg_query(u64 tsg, struct nv_zernel_tsg_settings *settings, u32 *status)
{
	u64 timeslice = 0;
	int ret;

	might_sleep();
	if (!nvz_settings_name(settings))
		return -EINVAL;
	*status = NV_OK;
	if (settings->fields & NV_ZERNEL_TSG_TIMESLICE) {
		ret = nvz_tsg_control(tsg, NVZ_CTRL_GET_TIMESLICE, &timeslice, sizeof(timeslice),
				      status);
		if (ret || *status != NV_OK) {
			settings->fields = 0;
			return ret;
		}
		settings->timeslice_us = timeslice;
	}
	ret = nvz_tsg_remembered(tsg, settings);
	if (ret)
		settings->fields = 0;
	return ret;
}
EXPORT_SYMBOL_GPL(nv_zernel_tsg_query);

int nv_zernel_tsg_preempt(u64 tsg, u32 timeout_us, u32 *status)
{
	struct nvz_preempt params = {
		.wait = 1,
		.own_timeout = 1,
		.timeout_us = timeout_us,
	};

	might_sleep();
	return nvz_tsg_control(tsg, NVZ_CTRL_PREEMPT, &params, sizeof(params), status);
}
EXPORT_SYMBOL_GPL(nv_zernel_tsg_preempt);

int nv_zernel_tsg_restart(u64 tsg, u32 *status)
{
	struct nvz_restart params = {
		.bypass_wait = 1,
	};

	might_sleep();
	return nvz_tsg_control(tsg, NVZ_CTRL_RESTART_RUNLIST, &params, sizeof(params), status);
}
EXPORT_SYMBOL_GPL(nv_zernel_tsg_restart);
