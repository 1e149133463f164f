// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * TSGs, and the reports about them to the listener.
 *
 * All under the table lock. A TSG that changes is put in a list, and told of once
 * when everything that belongs to the change has been done.
 */
#include "nv-zernel-private.h"

#include <linux/hashtable.h>
#include <linux/pid.h>
#include <linux/slab.h>

static struct rb_root nvz_tsgs = RB_ROOT;
static DEFINE_HASHTABLE(nvz_numbers, 8);	/* the same TSGs, for who looks at many of them */
static LIST_HEAD(nvz_changed);
static u64 nvz_last_tsg;
static u32 nvz_tsgs_held;
static u32 nvz_adoptions;	/* TSGs that were adopted */

static bool nvz_tsg_less(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct nvz_tsg, node)->id < rb_entry(b, struct nvz_tsg, node)->id;
}

/* A TSG that belongs to the caller's process; in the table when it gets a handle. */
struct nvz_tsg *nvz_tsg_new(void)
{
	struct nvz_tsg *tsg = kzalloc(sizeof(*tsg), GFP_KERNEL_ACCOUNT);

	if (!tsg)
		return NULL;
	INIT_LIST_HEAD(&tsg->handles);
	INIT_LIST_HEAD(&tsg->channels);
	INIT_LIST_HEAD(&tsg->changed);
	INIT_LIST_HEAD(&tsg->stray);
	tsg->process = nvz_caller_pid(PIDTYPE_TGID);
	tsg->thread = nvz_caller_pid(PIDTYPE_PID);
	tsg->gpu_id = NV_ZERNEL_UNKNOWN;
	tsg->hw_tsg = NV_ZERNEL_UNKNOWN;
	tsg->engine = NV_ZERNEL_UNKNOWN;
	tsg->mig = NV_ZERNEL_UNKNOWN;
	tsg->compute = NV_ZERNEL_UNKNOWN;
	tsg->level = NVZ_LEVEL_DEFAULT;
	return tsg;
}

void nvz_tsg_discard(struct nvz_tsg *tsg)
{
	if (!tsg)
		return;
	list_del(&tsg->stray);
	put_pid(tsg->process);
	put_pid(tsg->thread);
	kfree(tsg);
}

struct nvz_tsg *nvz_tsg_find(u64 id)
{
	struct nvz_tsg *tsg;

	hash_for_each_possible(nvz_numbers, tsg, numbered, id) {
		if (tsg->id == id)
			return tsg;
	}
	return NULL;
}

/* The first TSG numbered above @after. */
struct nvz_tsg *nvz_tsg_next(u64 after)
{
	struct rb_node *node = nvz_tsgs.rb_node;
	struct nvz_tsg *best = NULL;

	while (node) {
		struct nvz_tsg *tsg = rb_entry(node, struct nvz_tsg, node);

		if (tsg->id > after) {
			best = tsg;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	return best;
}

/*
 * The first TSG numbered above @after that may be the same one of the core as @of:
 * one of the two was adopted, and GPU and number agree, as far as known. Numbers may
 * repeat from one run list to another, so it may be a different one, too.
 */
struct nvz_tsg *nvz_tsg_twin(u64 of, u64 after)
{
	struct nvz_tsg *tsg = nvz_tsg_find(of), *twin;
	struct rb_node *node;

	if (!tsg || !nvz_adoptions || tsg->hw_tsg == NV_ZERNEL_UNKNOWN)
		return NULL;
	for (node = rb_first(&nvz_tsgs); node; node = rb_next(node)) {
		twin = rb_entry(node, struct nvz_tsg, node);
		if (twin->id > after && twin != tsg && (twin->adopted || tsg->adopted) &&
		    (twin->gpu_id == tsg->gpu_id || twin->guessed || tsg->guessed) &&
		    twin->hw_tsg == tsg->hw_tsg)
			return twin;
	}
	return NULL;
}

/*
 * Twins keep theirs: which engine an adopted TSG is on is not known, so a twin may be
 * a different TSG of another tenant.
 */
void nvz_tsg_set_level(u64 id, u32 level)
{
	struct nvz_tsg *tsg;

	mutex_lock(&nvz_table_lock);
	tsg = nvz_tsg_find(id);
	if (tsg)
		tsg->level = level;
	mutex_unlock(&nvz_table_lock);
}

void nvz_tsg_set_disabled(u64 id, bool disabled)
{
	struct nvz_tsg *tsg;

	mutex_lock(&nvz_table_lock);
	tsg = nvz_tsg_find(id);
	if (tsg)
		tsg->disabled = disabled;
	mutex_unlock(&nvz_table_lock);
}

/* Those settings that the core cannot be asked for. 0 or -ENOENT. */
int nvz_tsg_remembered(u64 id, struct nv_zernel_tsg_settings *settings)
{
	struct nvz_tsg *tsg;

	mutex_lock(&nvz_table_lock);
	tsg = nvz_tsg_find(id);
	if (tsg) {
		settings->interleave = tsg->level;
		settings->enabled = !tsg->disabled;
	}
	mutex_unlock(&nvz_table_lock);
	return tsg ? 0 : -ENOENT;
}

/*
 * @tsg was adopted for a handle of @file that is not in the table. The call of that file that is
 * under way may have made it, and may have still to record it.
 */
void nvz_tsg_stray(struct nvz_tsg *tsg, struct nvz_file *file, u32 client, u32 handle)
{
	tsg->stray_client = client;
	tsg->stray_handle = handle;
	list_move(&tsg->stray, &file->strays);
}

/* The call has recorded the handle as one of @tsg, which the strays for it turn out to be. */
void nvz_tsg_gather(struct nvz_tsg *tsg, struct nvz_file *file, u32 client, u32 handle)
{
	struct nvz_tsg *stray, *next;
	struct nvz_object *object;

	list_for_each_entry_safe(stray, next, &file->strays, stray) {
		if (stray->stray_client != client || stray->stray_handle != handle)
			continue;
		list_del_init(&stray->stray);
		list_for_each_entry(object, &stray->handles, in_tsg)
			object->tsg = tsg;
		list_splice_tail_init(&stray->handles, &tsg->handles);
		list_for_each_entry(object, &stray->channels, in_tsg)
			object->tsg = tsg;
		list_splice_tail_init(&stray->channels, &tsg->channels);
		tsg->channel_count += stray->channel_count;
		tsg->context_count += stray->context_count;
		tsg->flags |= stray->flags & NV_ZERNEL_TSG_MPS;
		tsg->level = stray->level;
		tsg->disabled = stray->disabled;
		nvz_tsg_touch(stray);
		nvz_tsg_touch(tsg);
	}
}

/* The file's strays are what they seem: no call that began before is under way. */
void nvz_tsg_settle(struct nvz_file *file)
{
	while (!list_empty(&file->strays))
		list_del_init(file->strays.next);
}

void nvz_tsg_touch(struct nvz_tsg *tsg)
{
	if (list_empty(&tsg->changed))
		list_add_tail(&tsg->changed, &nvz_changed);
}

void nvz_tsg_flag(struct nvz_tsg *tsg, u32 flags)
{
	if ((tsg->flags & flags) == flags)
		return;
	tsg->flags |= flags;
	nvz_tsg_touch(tsg);
}

static void nvz_tsg_tell(struct nvz_tsg *tsg)
{
	struct nv_zernel_tsg desc = {
		.size = sizeof(desc),
		.gpu_id = tsg->gpu_id,
		.id = tsg->id,
		.flags = tsg->flags,
		.hw_tsg = tsg->hw_tsg,
		.engine = tsg->engine,
		.mig = tsg->mig,
		.channels = tsg->channel_count,
		.runlist = tsg->runlist,
		.process = tsg->process,
		.thread = tsg->thread,
		.compute = tsg->compute,
	};

	if (!nvz_listener.ops || !nvz_gpu_known(tsg->gpu_id))
		return;
	if (tsg->context_count && tsg->context_count == tsg->channel_count)
		desc.flags |= NV_ZERNEL_TSG_TRACED;
	if (tsg->announced)
		nvz_listener.ops->tsg_changed(nvz_listener.priv, &desc);
	else
		nvz_listener.ops->tsg_added(nvz_listener.priv, &desc);
	tsg->announced = true;
}

/* The numbers of the first channels, so that a look at a TSG needs no walk. */
static void nvz_tsg_number(struct nvz_tsg *tsg)
{
	struct nvz_object *channel;
	u32 count = 0;

	list_for_each_entry(channel, &tsg->channels, in_tsg) {
		if (count == ARRAY_SIZE(tsg->chids))
			break;
		tsg->chids[count++] = channel->chid;
	}
}

/*
 * Tells of every TSG that changed since the table lock was taken: once each,
 * however much of it changed. Must come before the lock is given back.
 */
void nvz_tell(void)
{
	struct nvz_tsg *tsg, *next;

	lockdep_assert_held(&nvz_table_lock);
	list_for_each_entry_safe(tsg, next, &nvz_changed, changed) {
		list_del_init(&tsg->changed);
		if (!list_empty(&tsg->handles)) {
			nvz_tsg_number(tsg);
			if (!tsg->id) {
				tsg->id = ++nvz_last_tsg;
				rb_add(&tsg->node, &nvz_tsgs, nvz_tsg_less);
				hash_add(nvz_numbers, &tsg->numbered, tsg->id);
				nvz_tsgs_held++;
				nvz_adoptions += tsg->adopted;
			}
			nvz_tsg_tell(tsg);
			continue;
		}
		/* Channels are children of handles, so they are gone too. */
		WARN_ON_ONCE(!list_empty(&tsg->channels));
		if (tsg->announced)
			nvz_listener.ops->tsg_removed(nvz_listener.priv, tsg->gpu_id, tsg->id);
		if (tsg->id) {
			rb_erase(&tsg->node, &nvz_tsgs);
			hash_del(&tsg->numbered);
			nvz_tsgs_held--;
			nvz_adoptions -= tsg->adopted;
		}
		nvz_tsg_discard(tsg);
	}
}

/* The GPU was told as added: now its TSGs are. */
void nvz_gpu_announce(u32 gpu_id)
{
	struct rb_node *node;

	for (node = rb_first(&nvz_tsgs); node; node = rb_next(node)) {
		struct nvz_tsg *tsg = rb_entry(node, struct nvz_tsg, node);

		if (tsg->gpu_id == gpu_id)
			nvz_tsg_touch(tsg);
	}
	nvz_tell();
}

/* The GPU will be told as removed, which says the same of its TSGs. */
void nvz_gpu_withdraw(u32 gpu_id)
{
	struct rb_node *node;

	for (node = rb_first(&nvz_tsgs); node; node = rb_next(node)) {
		struct nvz_tsg *tsg = rb_entry(node, struct nvz_tsg, node);

		if (tsg->gpu_id == gpu_id)
			tsg->announced = false;
	}
}

void nvz_tsg_announce_all(void)
{
	struct rb_node *node;

	for (node = rb_first(&nvz_tsgs); node; node = rb_next(node))
		nvz_tsg_touch(rb_entry(node, struct nvz_tsg, node));
	nvz_tell();
}

void nvz_tsg_withdraw_all(void)
{
	struct rb_node *node;

	for (node = rb_first(&nvz_tsgs); node; node = rb_next(node))
		rb_entry(node, struct nvz_tsg, node)->announced = false;
}

u32 nvz_tsg_count(void)
{
	return nvz_tsgs_held;
}
