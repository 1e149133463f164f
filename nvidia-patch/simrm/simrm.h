/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The software resource manager: declarations shared by its files.
 *
 * Order of locks: simrm_api (read or write), a client's lock (of two clients, the
 * lower handle first), simrm_tsgs_lock, a TSG's lock.
 */
#ifndef SIMRM_H
#define SIMRM_H

#include <linux/atomic.h>
#include <linux/idr.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/types.h>
#include <linux/xarray.h>

#include "abi.h"
#include "engine.h"

#define SIMRM_MAX_GPUS		32
#define SIMRM_DEFAULT_SLICE_US	1024
#define SIMRM_MAX_PARAMS	(1U << 20)

struct seq_file;

enum simrm_kind {
	SIMRM_ROOT,
	SIMRM_DEVICE,
	SIMRM_SUBDEVICE,
	SIMRM_TSG,
	SIMRM_CHANNEL,
	SIMRM_VASPACE,
	SIMRM_CTXSHARE,
	SIMRM_ENGINE,		/* compute, graphics and copy objects on channels */
	SIMRM_MIG_GPU,
	SIMRM_MIG_COMPUTE,
	SIMRM_MPS,
	SIMRM_BUFFER,		/* of events */
	SIMRM_PLAIN,		/* memory, events and what else only exists */
	SIMRM_KINDS
};

/* The caller, and the user that it calls for. */
struct simrm_caller {
	const void *file;	/* of a user, NULL for the kernel */
	bool kernel;
	bool admin;
	bool nice;
};

struct simrm_gpu {
	void *nv;		/* nv_state_t, NULL: no GPU in this place */
	u32 id;
	u32 instance;
	bool started;
	unsigned int interleaved;	/* subdevices that set the policy */
	struct ida tsgs[RM_ENGINE_COUNT];	/* one per run list */
	struct ida channels[RM_ENGINE_COUNT];
	void *regs;		/* BAR 0 while it is started, with simrm_api held */
	u64 regs_size;
	bool suspended;
	unsigned long instances;	/* of MIG, that programs have taken since it was started */
};

/* A TSG, with any number of handles. */
struct simrm_tsg {
	struct kref ref;
	struct list_head node;
	struct simrm_gpu *gpu;
	u32 id;
	u32 engine;
	u32 runlist;
	u8 mig, compute;	/* the instances of its client; SIMRM_NO_MIG: none */
	bool hidden;		/* made for a channel without a TSG */
	bool legacy;		/* channels came without context shares */
	pid_t process;
	struct mutex lock;	/* protects what follows */
	struct list_head handles;	/* simrm_object.alias */
	u64 slice_us;
	u32 interleave;
	bool scheduled;
	bool computes;		/* a compute or 3D object was made on it */
	u32 preempts;
	u32 channels;
	u32 disabled;		/* channels that are disabled */
	struct list_head members;	/* simrm_object.member */
	u32 restarts;		/* of the run list, by its channels */
	u64 attached;		/* the engine's name of it, 0: the engine has it not */
	u64 serial;		/* its name in steps that a test tells of */
};

/* An address space, with any number of handles. */
struct simrm_vas {
	struct kref ref;
};

struct simrm_object;
struct simrm_buffer;

/* That an object goes when another one goes. */
struct simrm_dep {
	struct list_head node;	/* in simrm_object.dependants of the other one */
	struct simrm_object *dependant;
};

struct simrm_object {
	u32 handle;
	u32 class;
	enum simrm_kind kind;
	struct simrm_client *client;
	struct simrm_object *parent;
	struct list_head children;
	struct list_head sibling;
	struct list_head dependants;
	struct simrm_dep deps[2];
	struct list_head pending;
	bool lost;		/* its resource is gone, its handle is not */
	u32 shared;		/* RM_SHARE_* that others may duplicate it by, 0 none */
	u32 shared_with;
	/* The GPU that it stands for. */
	struct simrm_gpu *gpu;
	struct simrm_tsg *tsg;
	struct list_head alias;
	struct simrm_vas *vas;
	bool disabled;		/* of a channel */
	u32 chid;		/* of a channel: number on its run list */
	struct list_head member;
	bool attached;		/* of a channel: it was there when the engine got its TSG */
	u32 context;		/* of a channel: records of switches name it by this */
	bool policy;		/* of a subdevice: it set the policy of the run lists */
	void *memory;		/* of an object of memory that the kernel made */
	u64 memory_size;
	bool mapped;
	struct simrm_buffer *buffer;
	u32 mig;
};

struct simrm_client {
	u32 handle;
	const void *file;
	pid_t process;
	bool active;
	struct list_head node;
	struct list_head dying;
	struct mutex lock;	/* protects what follows */
	struct xarray objects;
	struct simrm_object *root;
	u32 generated;
};

struct simrm_class {
	u32 class;
	enum simrm_kind kind;
	u32 parents;		/* bits of enum simrm_kind, 0: any */
	u16 params;		/* bytes that are read */
	bool required;		/* parameters must be given */
	bool single;		/* one per parent */
	bool dup;
	u16 kernel_params;	/* as params, of the kernel; 0: as many */
};

extern struct rw_semaphore simrm_api;
extern struct simrm_gpu simrm_gpus[SIMRM_MAX_GPUS];
extern struct mutex simrm_tsgs_lock;
extern struct list_head simrm_tsgs;
extern struct list_head simrm_clients;
extern atomic_t simrm_alive[SIMRM_KINDS];
extern bool simrm_serialize;

/* client.c */
struct simrm_client *simrm_client_find(u32 handle);
u32 simrm_client_check(const struct simrm_client *client, const struct simrm_caller *who);
u32 simrm_client_create(const struct simrm_caller *who, u32 wish, struct simrm_client **made);
void simrm_client_destroy(struct simrm_client *client);
void simrm_clients_of_file_close(const void *file);
void simrm_clients_exit(void);

/* object.c */
struct simrm_object *simrm_object_find(struct simrm_client *client, u32 handle);
u32 simrm_object_new(struct simrm_client *client, struct simrm_object *parent, u32 *handle,
		     const struct simrm_class *class, u32 number, struct simrm_object **made);
void simrm_object_depend(struct simrm_object *object, struct simrm_object *on);
void simrm_object_free(struct simrm_object *target);
void simrm_object_drop(struct simrm_object *object);

/* class.c */
const struct simrm_class *simrm_class_find(u32 number, struct simrm_class *pattern);
u32 simrm_class_construct(struct simrm_object *object, const struct simrm_class *class,
			  void *params);
u32 simrm_class_copy(struct simrm_object *object, struct simrm_object *source);
void simrm_class_destroy(struct simrm_object *object);

/* tsg.c */
struct simrm_tsg *simrm_tsg_new(const struct simrm_object *device, u32 engine, bool hidden);
void simrm_tsg_put(struct simrm_tsg *tsg);
u32 simrm_tsg_add_channel(struct simrm_object *channel);
void simrm_tsg_drop_channel(struct simrm_object *channel, struct simrm_tsg *tsg);
void simrm_tsg_show(struct seq_file *out);
void simrm_channel_disable(struct simrm_object *channel, bool disable);
u32 simrm_channel_stop(struct simrm_object *object, const struct simrm_caller *who, void *params);
u32 simrm_channel_schedule(struct simrm_object *object, const struct simrm_caller *who,
			   void *params);
u32 simrm_tsg_schedule(struct simrm_object *object, const struct simrm_caller *who, void *params);
u32 simrm_tsg_bind(struct simrm_object *object, const struct simrm_caller *who, void *params);
u32 simrm_tsg_set_slice(struct simrm_object *object, const struct simrm_caller *who, void *params);
u32 simrm_tsg_get_slice(struct simrm_object *object, const struct simrm_caller *who, void *params);
u32 simrm_tsg_preempt(struct simrm_object *object, const struct simrm_caller *who, void *params);
u32 simrm_tsg_info(struct simrm_object *object, const struct simrm_caller *who, void *params);
u32 simrm_tsg_set_level(struct simrm_object *object, const struct simrm_caller *who, void *params);

/* alloc.c, dup.c, control.c: the operations themselves */
u32 simrm_alloc(const struct simrm_caller *who, u32 root, u32 parent, u32 *object, u32 class,
		u64 params, bool serialized);
u32 simrm_free(const struct simrm_caller *who, u32 root, u32 object);
u32 simrm_dup(const struct simrm_caller *who, struct rm_dup *dup);
u32 simrm_share(const struct simrm_caller *who, struct rm_share *share);
u32 simrm_control(const struct simrm_caller *who, struct rm_control *control);
int simrm_control_calls(char *buffer, size_t size);

/* runlist.c */
#define SIMRM_NO_MIG	0xff

void simrm_instances_of(const struct simrm_object *device, u8 *mig, u8 *compute);
u32 simrm_runlist_of(const struct simrm_object *device, u32 engine);
u32 simrm_runlist_base(u32 runlist);
u32 simrm_runlist_bases(struct simrm_object *object, const struct simrm_caller *who, void *params);

/* gpu.c */
struct simrm_gpu *simrm_gpu_of(const void *nv);
struct simrm_gpu *simrm_gpu_by_instance(u32 instance);
u32 simrm_gpu_ids(struct simrm_object *object, const struct simrm_caller *who, void *params);
u32 simrm_gpu_probed(struct simrm_object *object, const struct simrm_caller *who, void *params);
u32 simrm_gpu_info(struct simrm_object *object, const struct simrm_caller *who, void *params);
u32 simrm_gpu_info_v2(struct simrm_object *object, const struct simrm_caller *who, void *params);
u32 simrm_gpu_virtual_mode(struct simrm_object *object, const struct simrm_caller *who,
			   void *params);
u32 simrm_gpu_id(struct simrm_object *object, const struct simrm_caller *who, void *params);
u32 simrm_gpu_policy(struct simrm_object *object, const struct simrm_caller *who, void *params);
u32 simrm_gpu_disable_channels(struct simrm_object *object, const struct simrm_caller *who,
			       void *params);
void simrm_gpu_policy_drop(struct simrm_gpu *gpu);
void simrm_gpu_free_objects(struct simrm_gpu *gpu);

/* memory.c */
u32 simrm_memory(struct simrm_object *object, const struct rm_memory_params *params);
void simrm_memory_end(struct simrm_object *object);
u32 simrm_map(struct rm_map *params);
u32 simrm_unmap(const struct rm_unmap *params);
unsigned int simrm_memory_objects(void);
unsigned int simrm_memory_maps(void);

/* fecs.c */
void simrm_fecs_init(void);
void simrm_fecs_exit(void);
u32 simrm_fecs_new_context(void);
unsigned int simrm_fecs_bound(void);
u32 simrm_fecs_buffer(struct simrm_object *object, const struct rm_event_buffer *params);
void simrm_fecs_buffer_end(struct simrm_buffer *buffer);
u32 simrm_fecs_time(struct simrm_object *object, const struct simrm_caller *who, void *params);
u32 simrm_fecs_context(struct simrm_object *object, const struct simrm_caller *who, void *params);
u32 simrm_fecs_bind(struct simrm_object *object, const struct simrm_caller *who, void *params);
u32 simrm_fecs_enable(struct simrm_object *object, const struct simrm_caller *who, void *params);
u32 simrm_fecs_get(struct simrm_object *object, const struct simrm_caller *who, void *params);
u32 simrm_fecs_flush(struct simrm_object *object, const struct simrm_caller *who, void *params);

/* engine.c */
void simrm_engine_catch_up(struct simrm_gpu *gpu);
void simrm_engine_update(struct simrm_tsg *tsg);
void simrm_engine_update_all(struct simrm_gpu *gpu);
void simrm_engine_lose(struct simrm_tsg *tsg, struct simrm_object *channel);
void simrm_engine_started(struct simrm_gpu *gpu);
void simrm_engine_stopped(struct simrm_gpu *gpu);
void simrm_engine_suspended(struct simrm_gpu *gpu);
u32 simrm_engine_preempt(struct simrm_tsg *tsg, const struct rm_preempt *preempt);
u32 simrm_engine_restart(struct simrm_object *object, const struct simrm_caller *who,
			 void *params);
u32 simrm_engine_table(struct simrm_object *object, const struct simrm_caller *who, void *params);
int simrm_engine_show(struct seq_file *out);
u32 simrm_engine_channels(struct simrm_object *object, const struct simrm_caller *who,
			  void *params);

/* fault.c */
enum simrm_what {
	SIMRM_ON_CONTROL,
	SIMRM_ON_COPY,
	SIMRM_ON_ALLOC,
	SIMRM_ON_FREE,
	SIMRM_ON_DUP,
	SIMRM_ON_START,
	SIMRM_ON_POWER,
	SIMRM_ON_MAP,
};
u32 simrm_fault(enum simrm_what what, u32 number, bool kernel);

/* truth.c */
void simrm_stub(const char *name);
void simrm_truth_init(void);
void simrm_truth_exit(void);

/* Shared and exclusive use of the whole resource manager. */
static inline bool simrm_lock(bool exclusive)
{
	exclusive = exclusive || READ_ONCE(simrm_serialize);
	if (exclusive)
		down_write(&simrm_api);
	else
		down_read(&simrm_api);
	return exclusive;
}

static inline void simrm_unlock(bool exclusive)
{
	if (exclusive)
		up_write(&simrm_api);
	else
		up_read(&simrm_api);
}

u32 simrm_pin(struct simrm_object *root, const struct simrm_caller *who, void *params);
void simrm_pin_exit(void);

#endif /* SIMRM_H */
