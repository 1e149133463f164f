/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Shared by the files of the hook; nobody else includes this.
 *
 * Locks, outermost first
 *
 *   register lock		the listener
 *   GPU lock			the list of GPUs; gpu_added, gpu_removed, suspended and
 *				resumed are called under it
 *   file lock (per file)	calls of one control file that change the table, which so
 *				changes in the core's order
 *   "freeing" of a client	a free is under way, its outcome is waited for
 *   "busy" of a client		handles in use by a control; a free waits for them
 *   power locks		the driver's, and "awake" for suspends without that one
 *   ldata_lock			the driver's, of a GPU: it starts and stops under it
 *   own lock			zernel's own clients on each GPU
 *   table lock			everything in the table; tsg_* are called under it
 *
 * A tenant can stop the core for as long as it likes in the middle of an allocation or a control,
 * because the core reads the parameters from the tenant's memory (userfaultfd, FUSE). Its own file
 * lock is then held. So nobody waits for a file lock but calls on that same file: no control of
 * zernel, no registration, no other tenant. The listener is asked under the caller's file lock, and
 * must not wait for one. The core never touches user memory under "freeing" or "busy", so these are
 * held for as long as the core needs and no longer. The core is never called under the table lock.
 *
 * The core bounds the entries that a tenant can make in the table: one of some hundred bytes stands
 * for an object of the core that costs more, and is charged to the tenant's memory cgroup.
 */
#ifndef NV_ZERNEL_PRIVATE_H
#define NV_ZERNEL_PRIVATE_H

#include "nv-linux.h"
#include "nv.h"
#include "os-interface.h"
#include "nv-zernel.h"
#include "nv-zernel-core.h"

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/rbtree.h>
#include <linux/wait.h>

enum nvz_kind {
	NVZ_OTHER,
	NVZ_CLIENT,
	NVZ_DEVICE,
	NVZ_SUBDEVICE,
	NVZ_TSG,
	NVZ_CHANNEL,
	NVZ_SUPPORT,	/* address space or context share: its dependants go with it */
	NVZ_MIG,	/* instance of a GPU, or compute instance below it */
	NVZ_COMPUTE,	/* compute or 3D object on a channel; not recorded itself */
	NVZ_MPS,	/* not recorded itself */
	NVZ_KINDS
};

/**
 * struct nvz_file - a control file that made at least one call of interest
 * @node: in the tree of files, by @owner
 * @owner: the driver's private data of the file
 * @lock: file lock
 * @clients: of this file, buried ones too
 * @strays: TSGs that were adopted by a duplicate of a handle of this file, as the call of this file
 *	that is under way may not have recorded it yet
 * @freeing: of @clients, the one that a free is under way in
 * @buried: how many of @clients are
 * @mps: it serves MPS clients
 *
 * Lives until the file is closed. A user of it holds a reference to the file.
 */
struct nvz_file {
	struct rb_node node;
	nv_file_private_t *owner;
	struct mutex lock;
	struct list_head clients;
	struct list_head strays;
	struct nvz_client *freeing;
	u32 buried;
	bool mps;
};

/**
 * struct nvz_client - a client of the core that user space made
 * @node: in the tree of clients, by @handle; empty: the client is buried
 * @in_file: in nvz_file.clients
 * @file: to which it belongs
 * @objects: tree of its objects, by handle
 * @userd: tree of its channels, by nvz_object.userd
 * @handle: of the client
 * @busy: how many calls of the core use handles of it, not being calls of its file
 * @wanted: how many controls of zernel wait for the outcome of a free
 * @freeing: a free is under way that may take handles of it away
 */
struct nvz_client {
	struct rb_node node;
	struct list_head in_file;
	struct nvz_file *file;
	struct rb_root objects;
	struct rb_root userd;
	u32 handle;
	u32 busy;
	u32 wanted;
	bool freeing;
};

/**
 * struct nvz_object - a device, subdevice, TSG, channel, support object or MIG instance
 * @node: in nvz_client.objects, by @handle
 * @client: to which it belongs
 * @parent: the recorded object it goes away with, or NULL
 * @children: that go away with it
 * @sibling: in @children of the parent
 * @tsg: of a handle of a TSG, or of a channel in one
 * @in_tsg: in nvz_tsg.handles or .channels
 * @userd_node: of a channel with @userd, in nvz_client.userd
 * @handle: of the object
 * @class: as the core recorded it
 * @kind: NVZ_*
 * @gpu_id: of a device; NV_ZERNEL_UNKNOWN until it is certain
 * @instance: of a device or MIG instance: the number it was asked for by (a hint)
 * @userd: of a channel: memory object it needs (a hint), or 0
 * @chid: of a channel of a TSG: its number on the run list, or NV_ZERNEL_UNKNOWN
 * @context_node: of a channel with @context, in the tree of contexts
 * @context: of a channel of a TSG: the number that records name it by, or NV_ZERNEL_UNKNOWN
 */
struct nvz_object {
	struct rb_node node;
	struct nvz_client *client;
	struct nvz_object *parent;
	struct list_head children;
	struct list_head sibling;
	struct nvz_tsg *tsg;
	struct list_head in_tsg;
	struct rb_node userd_node;
	u32 handle;
	u32 class;
	u32 kind;
	u32 gpu_id;
	u32 instance;
	u32 userd;
	u32 chid;
	struct rb_node context_node;
	u32 context;
};

/**
 * struct nvz_tsg - a TSG, shared by the handles that were duplicated from one another
 * @node: in the tree of TSGs, by @id
 * @numbered: in the table of TSGs, by @id
 * @handles: objects that are handles of it, oldest first; never empty outside the table lock
 * @channels: objects that are channels of it
 * @changed: in the list of TSGs to report
 * @stray: in nvz_file.strays
 * @stray_client: of the handle that it was adopted for, as a stray
 * @stray_handle: that handle
 * @process: its maker
 * @thread: its maker
 * @id: number in the table
 * @gpu_id: its GPU
 * @flags: NV_ZERNEL_TSG_*
 * @hw_tsg: see struct nv_zernel_tsg
 * @engine: see struct nv_zernel_tsg
 * @mig: see struct nv_zernel_tsg
 * @compute: see struct nv_zernel_tsg
 * @runlist: see struct nv_zernel_tsg
 * @channel_count: length of @channels
 * @context_count: how many of @channels have a context that is known
 * @chids: numbers of the first of @channels, as of the last nvz_tell()
 * @level: interleave level that it was last given
 * @announced: the listener knows it
 * @adopted: it may be the same TSG of the core as another one
 * @guessed: @gpu_id may be wrong
 */
struct nvz_tsg {
	struct rb_node node;
	struct hlist_node numbered;
	struct list_head handles;
	struct list_head channels;
	struct list_head changed;
	struct list_head stray;
	struct pid *process;
	struct pid *thread;
	u64 id;
	u32 gpu_id;
	u32 flags;
	u32 hw_tsg;
	u32 engine;
	u32 mig;
	u32 compute;
	u32 runlist;
	u32 channel_count;
	u32 context_count;
	u32 chids[NV_ZERNEL_SAMPLE_MAX];
	u32 level;
	u32 stray_client;
	u32 stray_handle;
	bool disabled;
	bool announced;
	bool adopted;
	bool guessed;
};

/**
 * struct nvz_gpu - a GPU that the driver has
 * @list: in the list of GPUs
 * @nv: the driver's; a GPU that was plugged in anew has the same number, but another one
 * @desc: as told
 * @asleep: how often the PM core has suspended it; GPU lock
 * @started: the core drives it; own lock
 * @policy: client of zernel that holds the run lists' policy; 0: none; own lock
 * @hand: client of zernel for controls of the GPU; 0: none; own lock
 * @registers: NULL: the core is still to be asked; changes under the own lock and the table lock
 * @rings: of records, one for each MIG instance or one for the GPU, that somebody reads; own lock
 * @ringless: the core has no records for it as a whole, until it starts anew; own lock
 */
struct nvz_gpu {
	struct list_head list;
	nv_state_t *nv;
	struct nv_zernel_gpu desc;
	u32 asleep;
	bool started;
	u32 policy;
	u32 hand;
	struct nvz_registers *registers;
	struct list_head rings;
	bool ringless;
};

/* Run lists of a GPU, over all MIG instances. */
#define NVZ_RUNLISTS_MAX	64

struct nvz_chip;
struct nvz_ring;

/**
 * struct nvz_registers - registers of a GPU that can be read
 * @map: of the core; NULL: none can be read
 * @size: of @map
 * @chip: of the GPU; NULL: none can be read
 * @own: the GPU is no part of another machine's
 * @count: of @tables
 * @tables: of channels, by the address of the run list
 */
struct nvz_registers {
	void __iomem *map;
	u32 size;
	const struct nvz_chip *chip;
	bool own;
	u32 count;
	struct nvz_table {
		u32 runlist;
		u32 channels;
	} tables[NVZ_RUNLISTS_MAX];
};

/**
 * struct nvz_listener - the registered receiver of reports
 * @ops: its functions; NULL: there is none
 * @priv: handed to @ops
 */
struct nvz_listener {
	const struct nv_zernel_ops *ops;
	void *priv;
};

/**
 * struct nvz_alloc - an allocation that is asked for
 * @client: in the escape's parameters
 * @parent: in the escape's parameters, or @real_parent
 * @object: in the escape's parameters; valid when the core has answered
 * @status: in the escape's parameters; valid when the core has answered
 * @params: of the class, in the caller's memory
 * @real_parent: as the core says, where the caller may have lied
 * @class: asked for
 * @kind: of @class
 * @hint: read from @params before the core did
 * @serialized: @params have another layout, which is not read
 */
struct nvz_alloc {
	u32 *client;
	u32 *parent;
	u32 *object;
	u32 *status;
	u64 params;
	u32 real_parent;
	u32 class;
	u32 kind;
	u32 hint;
	bool serialized;
};

/**
 * struct nvz_made - room for objects that the core may make; used ones are taken out
 * @client: of an allocation of a client
 * @object: of an allocation or duplication
 * @tsg: of an allocation of a TSG
 */
struct nvz_made {
	struct nvz_client *client;
	struct nvz_object *object;
	struct nvz_tsg *tsg;
};

/* True if objects of this kind are in the table. */
static inline bool nvz_kind_recorded(enum nvz_kind kind)
{
	return kind >= NVZ_DEVICE && kind <= NVZ_MIG;
}

/* True if a GPU is being pulled out, or did not come back from a suspend. */
static inline bool nvz_nv_away(const nv_state_t *nv)
{
	return READ_ONCE(nv->flags) & (NV_FLAG_IN_SURPRISE_REMOVAL | NV_FLAG_SUSPENDED);
}

static inline int nvz_order(u64 a, u64 b)
{
	return a < b ? -1 : a > b;
}

/* nv-zernel-table.c: all under the table lock unless said otherwise */
extern struct mutex nvz_table_lock;
extern u32 nvz_forgotten;
void nvz_context_add(struct nvz_object *channel, u32 context);
void nvz_context_drop(struct nvz_object *channel);
u64 nvz_context_tsg(u32 context, u32 gpu_id);

enum nvz_kind nvz_kind_of(u32 class);
struct nvz_file *nvz_file_find(nv_file_private_t *owner);
nv_file_private_t *nvz_file_any(void);	/* takes the lock */
void nvz_file_add(struct nvz_file *file);
void nvz_file_drop(struct nvz_file *file);
struct nvz_client *nvz_client_find(u32 handle);
void nvz_client_add(struct nvz_client *client, struct nvz_file *file, u32 handle);
void nvz_client_drop(struct nvz_client *client);
void nvz_client_bury(struct nvz_client *client);
void nvz_file_sweep(struct nvz_file *file);	/* file lock, too */
struct nvz_object *nvz_object_find(struct nvz_client *client, u32 handle);
struct nvz_object *nvz_object_next(struct nvz_client *client, u32 from);
bool nvz_userd_hint(struct nvz_client *client, u32 handle);
bool nvz_object_supports(struct nvz_object *object);
void nvz_object_add(struct nvz_object *object, struct nvz_client *client, u32 parent,
		    struct nvz_tsg *tsg);
void nvz_object_drop(struct nvz_object *object);
void nvz_file_flag_mps(struct nvz_file *file);
void nvz_gpu_drop_devices(u32 gpu_id);

/* nv-zernel-tsg.c: all under the table lock unless said otherwise */
struct nvz_tsg *nvz_tsg_new(void);	/* no lock */
void nvz_tsg_discard(struct nvz_tsg *tsg);	/* no lock */
struct nvz_tsg *nvz_tsg_find(u64 id);
struct nvz_tsg *nvz_tsg_next(u64 after);
struct nvz_tsg *nvz_tsg_twin(u64 of, u64 after);
void nvz_tsg_set_level(u64 id, u32 level);	/* takes the lock */
void nvz_tsg_set_disabled(u64 id, bool disabled);	/* takes the lock */
int nvz_tsg_remembered(u64 id, struct nv_zernel_tsg_settings *settings);	/* takes the lock */
void nvz_tsg_stray(struct nvz_tsg *tsg, struct nvz_file *file, u32 client, u32 handle);
void nvz_tsg_gather(struct nvz_tsg *tsg, struct nvz_file *file, u32 client, u32 handle);
void nvz_tsg_settle(struct nvz_file *file);
void nvz_tsg_touch(struct nvz_tsg *tsg);
void nvz_tsg_flag(struct nvz_tsg *tsg, u32 flags);
void nvz_gpu_announce(u32 gpu_id);
void nvz_gpu_withdraw(u32 gpu_id);
void nvz_tsg_announce_all(void);
void nvz_tsg_withdraw_all(void);
void nvz_tell(void);
u32 nvz_tsg_count(void);

/* nv-zernel-pin.c: under the table lock unless said otherwise */
bool nvz_pin(struct nvz_client *client);
void nvz_pinned(void);	/* no lock */
void nvz_unpin(struct nvz_client *client);
void nvz_unpinned(void);	/* no lock */
int nvz_wait_outcome(struct nvz_client *client, bool killable);	/* gives the lock back for a while */
void nvz_free_begin(struct nvz_file *file);	/* gives the lock back for a while */
void nvz_free_end(struct nvz_file *file);
void nvz_free_yield(struct nvz_file *file);	/* file lock only */

/* nv-zernel-rm.c: not under the table lock */
u32 nvz_rm_control(nvidia_stack_t *sp, u32 client, u32 object, u32 cmd, void *params, u32 size);
u32 nvz_rm_alloc(nvidia_stack_t *sp, u32 client, u32 parent, u32 *object, u32 class,
		 void *params);
void nvz_rm_free(nvidia_stack_t *sp, u32 client, u32 object);
u32 nvz_rm_map(nvidia_stack_t *sp, u32 client, u32 device, u32 memory, u64 size, void **map);
void nvz_rm_unmap(nvidia_stack_t *sp, u32 client, u32 device, u32 memory, const void *map);
u32 nvz_rm_class(nvidia_stack_t *sp, u32 client, u32 object, u32 *class);
u32 nvz_rm_parent(nvidia_stack_t *sp, u32 client, u32 object, u32 *parent);
bool nvz_status_dead(u32 status);
bool nvz_status_final(u32 status);
bool nvz_rm_gone(nvidia_stack_t *sp, u32 client, u32 object);
bool nvz_rm_owner(nvidia_stack_t *sp, nv_state_t *nv, nv_file_private_t *nvfp, u32 client);
int nvz_rm_enter(nvidia_stack_t **sp, u32 gpu_id);
void nvz_rm_leave(nvidia_stack_t *sp);
int nvz_rm_stay(void);
void nvz_rm_hold(void);
void nvz_rm_release(void);
void nvz_rm_sleep(void);
void nvz_rm_wake(void);

/* nv-zernel-own.c */
extern struct mutex nvz_own_lock;

/* Handles in a client of nvz_own_make(); the last two are for a ring. */
#define NVZ_OWN_DEVICE		0x7a650080U
#define NVZ_OWN_SUBDEVICE	0x7a652080U
#define NVZ_OWN_INSTANCE	0x7a65c637U
#define NVZ_OWN_RING		0x7a6590cdU

/**
 * struct nvz_vigil - a time in which a GPU does not go to sleep
 * @dev: the GPU, referenced
 * @held: it is kept awake; else nobody manages its power
 */
struct nvz_vigil {
	struct device *dev;
	bool held;
};

u32 nvz_own_make(nvidia_stack_t *sp, u32 gpu_id, u32 *own);
u32 nvz_own_control(nvidia_stack_t *sp, u32 own, u32 cmd, void *params, u32 size);
int nvz_vigil_begin(struct nvz_vigil *vigil, u32 gpu_id);	/* no lock */
void nvz_vigil_end(const struct nvz_vigil *vigil);	/* no lock */

void nvz_gpu_let_go(struct nvz_gpu *gpu);	/* own lock */
void nvz_registers_drop(struct nvz_gpu *gpu);	/* own lock */
int nvz_gpu_learn(u32 gpu_id);	/* no lock */
u32 nvz_gpu_control(nvidia_stack_t *sp, u32 gpu_id, u32 cmd, void *params, u32 size);	/* no lock */

/* nv-zernel-fecs.c */
void nvz_rings_drop(struct nvz_gpu *gpu);	/* own lock */
void nvz_rings_stop(bool stop);	/* not under the own lock */
void nvz_rings_end(void);	/* no lock that a ring is dropped under */

/* nv-zernel-gpu.c */
extern struct nvz_listener nvz_listener;

struct nvz_gpu *nvz_gpu_find(u32 gpu_id);	/* see nv-zernel-gpu.c */
struct nvz_gpu *nvz_gpu_after(struct nvz_gpu *gpu);	/* likewise */
bool nvz_gpu_known(u32 gpu_id);	/* table lock */
bool nvz_gpu_failed(u32 gpu_id);	/* no lock */
u32 nvz_gpu_ids(u32 *ids, u32 max);	/* table lock */
struct nvz_registers *nvz_gpu_registers(u32 gpu_id, nv_state_t **nv);	/* table lock */
bool nvz_listening_now(void);	/* no lock */
bool nvz_listener_enter(struct nvz_listener *listener, int *cookie);	/* no lock */
void nvz_listener_leave(int cookie);	/* no lock */

/* nv-zernel-load.c */
struct nvz_registers *nvz_registers_learn(nvidia_stack_t *sp, u32 gpu_id);	/* no lock */
int nvz_registers_open(struct nvz_registers *registers, const nv_state_t *nv);	/* own lock */
void nvz_registers_free(struct nvz_registers *registers);	/* no table lock */

/* nv-zernel-learn.c: under the file lock, not under the table lock */
u32 nvz_learn_gpu(nvidia_stack_t *sp, u32 client, u32 device, u32 subdevice);
void nvz_learn_tsg(nvidia_stack_t *sp, u32 client, u32 parent, u32 handle, struct nvz_tsg *tsg);
u32 nvz_learn_chid(nvidia_stack_t *sp, u32 client, u32 tsg, u32 channel);
u32 nvz_learn_context(nvidia_stack_t *sp, u32 client, u32 channel);
void nvz_learn_compute(nvidia_stack_t *sp, struct nvz_file *file, u32 client, u32 channel);
void nvz_learn_engine(const struct nvz_alloc *alloc, struct nvz_tsg *tsg);

/* nv-zernel-record.c: under the file lock, not under the table lock */
int nvz_made_prepare(struct nvz_made *made, bool tsg);
void nvz_made_discard(struct nvz_made *made);
void nvz_hints_read(struct nvz_alloc *alloc);	/* no lock */
u32 nvz_hint(const struct nvz_alloc *alloc, u32 at);	/* no lock */
u32 nvz_hint_at(enum nvz_kind kind);	/* no lock */
struct nvz_object *nvz_lookup(u32 client_handle, u32 handle);	/* table lock */
void nvz_record_alloc(nvidia_stack_t *sp, nv_state_t *nv, nv_file_private_t *nvfp,
		      struct nvz_file *file, struct nvz_alloc *alloc, struct nvz_made *made);
void nvz_record_dup(nvidia_stack_t *sp, struct nvz_file *file, const struct nvz_esc_dup *dup,
		    struct nvz_made *made);
void nvz_adopt(nvidia_stack_t *sp, struct nvz_file *file, u32 client, u32 handle);
void nvz_forget(struct nvz_file *file, u32 client, u32 object);
void nvz_verify(nvidia_stack_t *sp, struct nvz_file *file, u32 client);

/* nv-zernel-caller.c: no lock */
nv_file_private_t *nvz_owner(nv_file_private_t *nvfp);
struct pid *nvz_caller_pid(enum pid_type type);
bool nvz_caller_read(void *to, u64 from, u32 size);
bool nvz_caller_waits(void);
bool nvz_caller_ordered(void);
u32 nvz_caller_unseen(void);
void nvz_caller_describe(struct nv_zernel_gpu *gpu);

/* nv-zernel-user.c: no lock */
u32 nvz_user_cmd(u32 cmd);
u32 nvz_level_size(u32 cmd);
NV_STATUS nvz_user_control(nvidia_stack_t *sp, nv_state_t *nv, nv_file_private_t *nvfp,
			   u32 escape, struct nvz_esc_control *control, u32 size);

/* nv-zernel.c: no lock */
struct nvz_file *nvz_file_lock(nv_file_private_t *nvfp);
NV_STATUS nvz_not_locked(struct nvz_file *file, u32 *status);

#endif /* NV_ZERNEL_PRIVATE_H */
