/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The border to the engine that TSGs run on, which zernel_simrm.ko is, and the registers in BAR 0
 * through which it shows what they do.
 */
#ifndef SIMRM_ENGINE_H
#define SIMRM_ENGINE_H

#include <linux/types.h>

/* Most channels of a TSG that the engine runs. */
#define SIMRM_ENGINE_CHANNELS	16

/*
 * The registers of a run list, whose number is that of its engine type, and of its channels. Each
 * run list has one engine.
 */
#define SIMRM_RUNLIST_BASE	0x00c00000
#define SIMRM_RUNLIST_SIZE	0x00001000
#define SIMRM_CHRAM_BASE	0x00d00000
#define SIMRM_CHRAM_SIZE	0x00002000
#define SIMRM_CHANNELS		2048		/* of a run list */

/* Engine types: those that compute, then those that copy. */
#define SIMRM_ENGINE_GR0	1
#define SIMRM_ENGINE_COPY0	9
#define SIMRM_ENGINE_LAST	18

/* A TSG's settings. */
struct simrm_engine_state {
	u32 slice_us;
	u32 interleave;		/* 0 low to 2 high */
	u32 runs;		/* it is scheduled, and no channel is disabled */
};

/* A TSG that gets work. */
struct simrm_engine_tsg {
	u32 gpu;		/* instance */
	u32 runlist;
	u32 id;			/* on the run list */
	u32 nr_channels;
	u32 chids[SIMRM_ENGINE_CHANNELS];	/* on the run list, in the order of making */
	struct simrm_engine_state state;
};

/*
 * All are called in process context with the resource manager's lock held, most of them with that
 * of a TSG, and must not call it back. @handle is the name that @attach gave, perhaps of a TSG
 * that has ended.
 */
struct simrm_engine_ops {
	/* Returns 0 and gives @handle, not 0, or a negative errno. */
	int (*attach)(void *private, void *cookie, const struct simrm_engine_tsg *tsg, u64 *handle);
	void (*update)(void *private, u32 gpu, u64 handle, const struct simrm_engine_state *state);
	void (*preempt)(void *private, u32 gpu, u64 handle);
	void (*restart)(void *private, u32 gpu, u64 handle, bool force);
	/* The engine of the TSG is to be given away, and blocks that have begun keep it. */
	bool (*leaving)(void *private, u32 gpu, u64 handle);
	void (*ended)(void *private, u32 gpu, u64 handle);
	/* A GPU starts; its registers are there until it stops. */
	void (*started)(void *private, u32 gpu, void *regs, u64 size);
	void (*stopped)(void *private, u32 gpu);
	void (*suspended)(void *private, u32 gpu, bool suspended);
	/* All context switches until now are told of when it returns. */
	void (*catch_up)(void *private, u32 gpu);
};

/* -EBUSY: there is an engine. It hears of the GPUs that are started first. */
int simrm_engine_register(const struct simrm_engine_ops *ops, void *private);
void simrm_engine_unregister(void);

/*
 * Gives a TSG of the calling process to the engine: @ops->attach is called with @cookie.
 *
 * -ENOENT	no such client, or it has no such object
 * -EPERM	the client was made by another process
 * -EINVAL	the object is no TSG
 * -EBUSY	the engine has it
 * -ERANGE	it has no channel, or too many
 * or the errno of @ops->attach.
 */
int simrm_engine_attach(u32 client, u32 object, void *cookie);
/* Takes it back. */
void simrm_engine_detach(u64 handle);

/*
 * Half of a context switch of the compute engine is over: the save of a TSG, or the restore of one.
 * Times are those of ktime_get_ns(). In any context.
 */
void simrm_engine_switched(u32 gpu, u64 handle, bool restore, u64 start_ns, u64 end_ns);

#endif /* SIMRM_ENGINE_H */
