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
 *   policy lock		zernel's own client on each GPU
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

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rbtree.h>
#include <linux/wait.h>

/* That the GPU is started, as 550 and older drivers name it. */
#ifndef NV_FLAG_INITIALIZED
#define NV_FLAG_INITIALIZED	NV_FLAG_OPEN
#endif

/* Escapes that the hook looks at, with the layouts of their parameters. */
#define NVZ_ESC_ALLOC_OBJECT		0x28
#define NVZ_ESC_FREE			0x29
#define NVZ_ESC_CONTROL			0x2a
#define NVZ_ESC_ALLOC			0x2b
#define NVZ_ESC_DUP			0x34
#define NVZ_ESC_HEAP_CONTROL		0x4a
#define NVZ_ESC_ALLOC_CONTEXT_DMA	0x54
#define NVZ_ESC_REGISTER_FD		0xc9

struct nvz_esc_alloc_object {
	u32 client, parent, object, class, status;
};

struct nvz_esc_free {
	u32 client, parent, object, status;
};

struct nvz_esc_control {
	u32 client, object, cmd, flags;
	u64 params;
	u32 size, status;
};

struct nvz_esc_alloc {
	u32 client, parent, object, class;
	u64 params;
	u32 size, status;
};

struct nvz_esc_alloc_rights {
	u32 client, parent, object, class;
	u64 params, rights;
	u32 size, flags, status, pad;
};

struct nvz_esc_dup {
	u32 client, parent, object, source_client, source, flags, status;
};

struct nvz_esc_heap_control {
	u32 client, parent, function, va_space, heap, status;
	u64 total, free;
	union {
		struct {
			u32 owner, object, flags;
		} of_free;
		struct {
			u32 object, flags;
		} of_hw_free;
	};
};

struct nvz_esc_alloc_context_dma {
	u32 client, subdevice, object, class, flags, selector, memory, pad;
	u64 offset, limit;
	u32 status, pad2;
};

#define NVZ_ALLOC_SERIALIZED		0x1	/* flags of nvz_esc_alloc_rights */
#define NVZ_CONTROL_SERIALIZED		0x4	/* flags of nvz_esc_control */

/* Functions of nvz_esc_heap_control that free an object of any class. */
#define NVZ_HEAP_FREE			3
#define NVZ_HEAP_HW_FREE		20

/* Classes that are followed; channels, compute and 3D classes are known by their low byte. */
#define NVZ_CLASS_ROOT			0x0000
#define NVZ_CLASS_ROOT_NON_PRIV		0x0001
#define NVZ_CLASS_ROOT_CLIENT		0x0041
#define NVZ_CLASS_DEVICE		0x0080
#define NVZ_CLASS_SUBDEVICE		0x2080
#define NVZ_CLASS_MPS			0x900e
#define NVZ_CLASS_CONTEXT_SHARE		0x9067
#define NVZ_CLASS_VA_SPACE		0x90f1
#define NVZ_CLASS_TSG			0xa06c
#define NVZ_CLASS_MIG_INSTANCE		0xc637

/* Controls that the hook uses or looks at, beside those of nv-zernel.h. */
#define NVZ_CTRL_GPU_ID_INFO		0x00000205U
#define NVZ_CTRL_HANDLE_INFO		0x00000d02U
#define NVZ_CTRL_CHANNEL_PROPERTIES	0x0080170fU
#define NVZ_CTRL_GPU_ID			0x20800142U
#define NVZ_CTRL_DISABLE_CHANNELS	0x2080110bU
#define NVZ_CTRL_RUNLIST_POLICY		0x20801115U
#define NVZ_CTRL_CHANNEL_INTERLEAVE	0xa06f0109U
#define NVZ_CTRL_MAKE_REALTIME		0xa06c0110U

/* Interleave levels: that of a new TSG in the core, and the highest. */
#define NVZ_LEVEL_DEFAULT	1
#define NVZ_LEVEL_MAX		2

/* Engine types of graphics and compute; 1 is the first. */
#define NVZ_ENGINE_GR_FIRST		1
#define NVZ_ENGINE_GR_LAST		8

enum nvz_kind {
	NVZ_OTHER,
	NVZ_CLIENT,
	NVZ_DEVICE,
	NVZ_SUBDEVICE,
	NVZ_TSG,
	NVZ_CHANNEL,
	NVZ_SUPPORT,	/* address space or context share: its dependants go with it */
	NVZ_COMPUTE,	/* compute or 3D object on a channel; not recorded itself */
	NVZ_MPS,	/* not recorded itself */
	NVZ_MIG,	/* not recorded itself */
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
 * struct nvz_object - a device, subdevice, TSG, channel or support object
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
 * @instance: of a device: the number it was asked for by (a hint)
 * @mig: of a device: instance that was subscribed to (a hint)
 * @userd: of a channel: memory object it needs (a hint), or 0
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
	u32 mig;
	u32 userd;
};

/**
 * struct nvz_tsg - a TSG, shared by the handles that were duplicated from one another
 * @node: in the tree of TSGs, by @id
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
 * @channel_count: length of @channels
 * @level: interleave level that it was last given
 * @announced: the listener knows it
 * @adopted: it may be the same TSG of the core as another one
 * @guessed: @gpu_id may be wrong
 */
struct nvz_tsg {
	struct rb_node node;
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
	u32 channel_count;
	u32 level;
	u32 stray_client;
	u32 stray_handle;
	bool announced;
	bool adopted;
	bool guessed;
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
	return kind >= NVZ_DEVICE && kind <= NVZ_SUPPORT;
}

static inline int nvz_order(u64 a, u64 b)
{
	return a < b ? -1 : a > b;
}

/* nv-zernel-table.c: all under the table lock unless said otherwise */
extern struct mutex nvz_table_lock;
extern u32 nvz_forgotten;

enum nvz_kind nvz_kind_of(u32 class);
struct nvz_file *nvz_file_find(nv_file_private_t *owner);
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
u32 nvz_rm_class(nvidia_stack_t *sp, u32 client, u32 object, u32 *class);
u32 nvz_rm_parent(nvidia_stack_t *sp, u32 client, u32 object, u32 *parent);
bool nvz_status_dead(u32 status);
bool nvz_rm_gone(nvidia_stack_t *sp, u32 client, u32 object);
bool nvz_rm_owner(nvidia_stack_t *sp, nv_state_t *nv, nv_file_private_t *nvfp, u32 client);
int nvz_rm_enter(nvidia_stack_t **sp);
void nvz_rm_leave(nvidia_stack_t *sp);
void nvz_rm_hold(void);
void nvz_rm_release(void);
void nvz_rm_sleep(void);
void nvz_rm_wake(void);

/* nv-zernel-policy.c: policy lock */
u32 nvz_policy_make(nvidia_stack_t *sp, u32 gpu_id, u32 *own);
void nvz_policy_free(u32 client);

/* nv-zernel-gpu.c */
extern struct nvz_listener nvz_listener;

bool nvz_gpu_known(u32 gpu_id);	/* table lock */
u32 nvz_gpu_ids(u32 *ids, u32 max);	/* table lock */
bool nvz_listening_now(void);	/* no lock */
bool nvz_listener_enter(struct nvz_listener *listener, int *cookie);	/* no lock */
void nvz_listener_leave(int cookie);	/* no lock */

/* nv-zernel-record.c: under the file lock, not under the table lock */
int nvz_made_prepare(struct nvz_made *made, bool tsg);
void nvz_made_discard(struct nvz_made *made);
void nvz_hints_read(struct nvz_alloc *alloc);	/* no lock */
void nvz_record_alloc(nvidia_stack_t *sp, nv_state_t *nv, nv_file_private_t *nvfp,
		      struct nvz_file *file, struct nvz_alloc *alloc, struct nvz_made *made);
void nvz_record_dup(nvidia_stack_t *sp, struct nvz_file *file, const struct nvz_esc_dup *dup,
		    struct nvz_made *made);
void nvz_adopt(nvidia_stack_t *sp, struct nvz_file *file, u32 client, u32 handle);
void nvz_forget(struct nvz_file *file, u32 client, u32 object);
void nvz_verify(nvidia_stack_t *sp, struct nvz_file *file, u32 client);

/* nv-zernel-user.c: no lock */
NV_STATUS nvz_user_control(nvidia_stack_t *sp, nv_state_t *nv, nv_file_private_t *nvfp,
			   u32 escape, struct nvz_esc_control *control, u32 size);

/* nv-zernel.c: no lock */
nv_file_private_t *nvz_owner(nv_file_private_t *nvfp);
struct nvz_file *nvz_file_lock(nv_file_private_t *nvfp);
NV_STATUS nvz_not_locked(struct nvz_file *file, u32 *status);

#endif /* NV_ZERNEL_PRIVATE_H */
