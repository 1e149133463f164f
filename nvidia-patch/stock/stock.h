/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * zernel_nvidia_stock.ko: the interface of nv-zernel.h beside an unpatched driver.
 *
 * Probes see the calls of user space to the driver's core, and queue a record of each. One worker
 * takes them out in the order in which they returned, and replays each to the files of the hook
 * (nvidia-patch/src), which then record it as if they had handed it to the core. They ask the core,
 * and everything else, with the operations that nvidia.ko exports for the kernel.
 *
 * A caller goes back to user space when its call has been replayed, or after the parameter
 * patience_ms: a tenant with very many objects can keep the worker busy for longer.
 */
#ifndef STOCK_H
#define STOCK_H

#include "nv-zernel-private.h"
#include "layout.h"

#include <linux/task_work.h>

/* Most of the parameters of an escape that the hook looks at. */
#define STOCK_DATA	sizeof(struct nvz_esc_heap_control)

#define STOCK_GPUS_MAX	32

enum stock_kind {
	STOCK_CALL,		/* to the core, which has answered */
	STOCK_CLOSE,		/* of a control file */
	STOCK_GPUS,		/* perhaps another list of GPUs */
	STOCK_START,		/* of a GPU */
	STOCK_STOP,
	STOCK_SUSPEND,		/* of the driver */
	STOCK_RESUME,
};

/**
 * struct stock_hint - a value in the parameters of a call, in the caller's memory
 * @at: address; 0: there is none
 * @size: of the value
 * @read: it could be read before the core was asked, and after that
 * @value: then
 */
struct stock_hint {
	u64 at;
	u32 size;
	bool read[2];
	u32 value[2];
};

/**
 * struct stock_call - a call to the core
 * @owner: file that it counts for
 * @data: parameters in the kernel's memory; valid until the core has answered
 * @begun: number of the last record when it began
 * @escape: number of the call
 * @size: of @data
 * @answer: of the core
 * @before: @data before the core was asked
 * @after: @data then
 * @hint: see there
 */
struct stock_call {
	nv_file_private_t *owner;
	void *data;
	u64 begun;
	u32 escape;
	u32 size;
	NV_STATUS answer;
	u8 before[STOCK_DATA] __aligned(8);
	u8 after[STOCK_DATA] __aligned(8);
	struct stock_hint hint;
};

/**
 * struct stock_record - what a probe saw
 * @list: in the queue
 * @work: of a caller that waits
 * @refs: the worker, and a caller that waits
 * @number: of records before it, and it
 * @kind: STOCK_*
 * @done: it was replayed
 * @gpu_id: of STOCK_START and STOCK_STOP
 * @process: the caller
 * @thread: the caller
 * @call: of STOCK_CALL; of STOCK_CLOSE the owner
 */
struct stock_record {
	struct list_head list;
	struct callback_head work;
	refcount_t refs;
	u64 number;
	enum stock_kind kind;
	bool done;
	u32 gpu_id;
	struct pid *process;
	struct pid *thread;
	struct stock_call call;
};

/* stock-rm.c */
extern const char *stock_version;

int stock_rm_init(void);
u32 stock_rm_gpus(void *info);

/* stock-probe.c */
int stock_probe_init(void);
void stock_probe_exit(void);
u32 stock_probe_missed(void);

/* stock-queue.c */
int stock_queue_init(void);
void stock_queue_exit(void);
void stock_queue_flush(void);
u64 stock_queue_last(void);
void stock_queue_tell(enum stock_kind kind, u32 gpu_id, nv_file_private_t *owner);
void stock_queue_call(const struct stock_call *call);
u32 stock_queue_lost(void);

/* stock-replay.c: the worker alone */
void stock_replay(const struct stock_record *record);

/* stock-gpu.c: the worker alone */
void stock_gpu_look(void);
void stock_gpu_started(u32 gpu_id, bool started);
void stock_gpu_exit(void);

#endif /* STOCK_H */
