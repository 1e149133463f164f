// SPDX-License-Identifier: GPL-2.0
/*
 * Records of context switches: the engine writes them as the GPU's switcher (FECS) does, and 30 times
 * a second, or when somebody wants them now, they go into the event buffers that are bound.
 */
#include <linux/capability.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "simrm.h"

/* Steps that wait to be handed out; the driver has room for about as many. */
#define STEPS		2048
#define PERIOD		msecs_to_jiffies(33)

/* A step of a switch, as the engine tells it. */
struct step {
	u64 tsg;		/* the engine's name of it, or its serial number */
	u64 at;			/* by the GPU's clock */
	u8 tag;
};

struct recorder {
	raw_spinlock_t lock;
	unsigned int buffers;	/* that are bound to the GPU */
	unsigned int first;
	unsigned int count;
	u64 lost;		/* for want of room, and not told to the buffers yet */
	struct step steps[STEPS];
};

/* An event buffer. */
struct simrm_buffer {
	struct list_head node;	/* in buffers */
	struct simrm_gpu *gpu;	/* NULL: it is not bound */
	struct rm_event_header *header;
	u8 *records;
	u32 record_size;
	u32 record_count;
	bool enabled;
	bool keep_oldest;
	bool sees_all;		/* the task that bound it is an administrator */
	u8 mig;			/* gets records of this instance alone, once there are some */
	u16 number;		/* of the next record */
};

static struct recorder recorders[SIMRM_MAX_GPUS];
static LIST_HEAD(buffers);
static DEFINE_MUTEX(buffers_lock);	/* after a client's lock */
static atomic_t contexts;

static long simrm_clock_ns;
module_param(simrm_clock_ns, long, 0644);
MODULE_PARM_DESC(simrm_clock_ns, "how far the GPUs' clocks are ahead of CLOCK_MONOTONIC");
static int simrm_clock_ppb;
module_param(simrm_clock_ppb, int, 0644);
MODULE_PARM_DESC(simrm_clock_ppb, "their drift, in 10^-9");

static void hand_out(struct work_struct *work);
static DECLARE_DELAYED_WORK(timer, hand_out);

/* The GPU's time at one of CLOCK_MONOTONIC. */
static u64 gpu_time(u64 ns)
{
	s64 drift = div_s64((s64)(ns >> 10) * READ_ONCE(simrm_clock_ppb), NSEC_PER_SEC >> 10);

	return ns + READ_ONCE(simrm_clock_ns) + drift;
}

u32 simrm_fecs_time(struct simrm_object *object, const struct simrm_caller *who, void *params)
{
	*(u64 *)params = gpu_time(ktime_get_ns());
	return RM_OK;
}

/* The number that records name a channel by. */
u32 simrm_fecs_context(struct simrm_object *object, const struct simrm_caller *who, void *params)
{
	*(u32 *)params = object->context;
	return RM_OK;
}

u32 simrm_fecs_new_context(void)
{
	return atomic_inc_return(&contexts);
}

static void add(struct recorder *recorder, u64 tsg, u8 tag, u64 at)
{
	if (recorder->count == STEPS) {
		recorder->lost++;
		return;
	}
	recorder->steps[(recorder->first + recorder->count++) % STEPS] = (struct step) {
		.tsg = tsg, .at = gpu_time(at), .tag = tag,
	};
}

/* In any context. Half of a switch is over: of a TSG's save, or of a restore. */
void simrm_engine_switched(u32 gpu, u64 tsg, bool restore, u64 start_ns, u64 end_ns)
{
	struct recorder *recorder;
	unsigned long flags;

	if (gpu >= SIMRM_MAX_GPUS)
		return;
	recorder = &recorders[gpu];
	raw_spin_lock_irqsave(&recorder->lock, flags);
	if (recorder->buffers && restore) {
		add(recorder, tsg, RM_SWITCH_RESTORES, start_ns);
		add(recorder, tsg, RM_SWITCH_RUNS, end_ns);
	} else if (recorder->buffers) {
		add(recorder, tsg, RM_SWITCH_ASKED, start_ns);
		add(recorder, tsg, RM_SWITCH_ACKNOWLEDGED, start_ns);
		add(recorder, tsg, RM_SWITCH_SAVED, end_ns);
	}
	raw_spin_unlock_irqrestore(&recorder->lock, flags);
}
EXPORT_SYMBOL_GPL(simrm_engine_switched);

/* The channel that the driver names for a step, and the instances that it is in. */
struct named {
	u32 context;
	u8 mig, compute;
};

/* As the driver: by the newest policy old records are written over. */
static void append(struct simrm_buffer *buffer, const struct step *step,
		   const struct named *channel)
{
	bool mig = READ_ONCE(buffer->gpu->instances);
	struct rm_event_header *header = buffer->header;
	u32 put = header->put, next = (put + 1) % buffer->record_count;
	struct rm_event_record *record = (void *)(buffer->records + put * buffer->record_size);
	u16 number;

	if (mig && buffer->mig != channel->mig)
		return;
	number = buffer->number++;
	if (!buffer->enabled)
		return;
	if (buffer->keep_oldest && next == READ_ONCE(header->get)) {
		header->dropped++;
		return;
	}
	*record = (struct rm_event_record) {
		.type = RM_EVENT_SWITCH, .tag = step->tag, .number = number,
		.context = buffer->sees_all ? channel->context : 0, .at = step->at,
		.mig = mig ? channel->mig : SIMRM_NO_MIG,
		.compute = mig && channel->compute == SIMRM_NO_MIG ? RM_EVENT_NO_COMPUTE :
								     channel->compute,
	};
	/* The reader finds the record whole when it sees that there is one. */
	smp_store_release(&header->put, next);
}

/* False: the TSG or its channels have gone, and the driver forgets the step. */
static bool channel_of(const struct simrm_gpu *gpu, const struct step *step, struct named *named)
{
	const struct simrm_object *channel;
	struct simrm_tsg *tsg;

	*named = (struct named) {};
	mutex_lock(&simrm_tsgs_lock);
	list_for_each_entry(tsg, &simrm_tsgs, node) {
		if (tsg->gpu != gpu || (tsg->attached != step->tsg && tsg->serial != step->tsg))
			continue;
		mutex_lock(&tsg->lock);
		if (!list_empty(&tsg->members)) {
			channel = step->tag == RM_SWITCH_RUNS ?
				  list_last_entry(&tsg->members, struct simrm_object, member) :
				  list_first_entry(&tsg->members, struct simrm_object, member);
			*named = (struct named) {
				.context = channel->context, .mig = tsg->mig,
				.compute = tsg->compute,
			};
		}
		mutex_unlock(&tsg->lock);
		break;
	}
	mutex_unlock(&simrm_tsgs_lock);
	return named->context;
}

static bool take(struct recorder *recorder, struct step *step, u64 *lost)
{
	bool some;

	raw_spin_lock_irq(&recorder->lock);
	some = recorder->count;
	if (some) {
		*step = recorder->steps[recorder->first];
		recorder->first = (recorder->first + 1) % STEPS;
		recorder->count--;
	}
	/* The youngest are lost. */
	*lost = recorder->count ? 0 : recorder->lost;
	recorder->lost -= *lost;
	raw_spin_unlock_irq(&recorder->lock);
	return some;
}

/* With simrm_api held for write. */
static void hand_out_of(struct simrm_gpu *gpu)
{
	struct simrm_buffer *buffer;
	struct named channel;
	struct step step;
	bool there;
	u64 lost;

	while (take(&recorders[gpu->instance], &step, &lost)) {
		there = channel_of(gpu, &step, &channel);
		list_for_each_entry(buffer, &buffers, node) {
			if (buffer->gpu != gpu)
				continue;
			if (there)
				append(buffer, &step, &channel);
			buffer->number += lost;
		}
	}
}

static void hand_out(struct work_struct *work)
{
	unsigned int i;
	bool bound;

	down_write(&simrm_api);
	for (i = 0; i < SIMRM_MAX_GPUS; i++) {
		if (simrm_gpus[i].nv)
			hand_out_of(&simrm_gpus[i]);
	}
	bound = !list_empty(&buffers);
	up_write(&simrm_api);
	if (bound)
		schedule_delayed_work(&timer, PERIOD);
}

/* Of all GPUs, as in the driver, when the engine has come to the present. */
u32 simrm_fecs_flush(struct simrm_object *object, const struct simrm_caller *who, void *params)
{
	unsigned int i;

	for (i = 0; i < SIMRM_MAX_GPUS; i++) {
		if (!simrm_gpus[i].nv || !recorders[i].buffers)
			continue;
		simrm_engine_catch_up(&simrm_gpus[i]);
		hand_out_of(&simrm_gpus[i]);
	}
	return RM_OK;
}

static bool is_memory(const struct simrm_object *object, u64 size)
{
	return object && object->memory && object->memory_size >= size;
}

/* In memory of the kernel. A user's has to be one that it cannot write, which none is here. */
u32 simrm_fecs_buffer(struct simrm_object *object, const struct rm_event_buffer *params)
{
	u64 size = (u64)params->record_size * params->record_count;
	struct simrm_object *header, *records, *subdevice;
	struct simrm_buffer *buffer;

	header = simrm_object_find(object->client, params->header);
	records = simrm_object_find(object->client, params->records);
	subdevice = simrm_object_find(object->client, params->subdevice);
	if (!header || !records)
		return RM_OBJECT_NOT_FOUND;
	if (!is_memory(header, sizeof(*buffer->header)) || !is_memory(records, size))
		return RM_INVALID_ARGUMENT;
	if (params->record_size < sizeof(struct rm_event_record) || !params->record_count)
		return RM_INVALID_ARGUMENT;
	if (!subdevice || subdevice->kind != SIMRM_SUBDEVICE)
		return RM_INVALID_OBJECT_HANDLE;
	buffer = kzalloc(sizeof(*buffer), GFP_KERNEL);
	if (!buffer)
		return RM_NO_MEMORY;
	INIT_LIST_HEAD(&buffer->node);
	buffer->header = header->memory;
	buffer->records = records->memory;
	buffer->record_size = params->record_size;
	buffer->record_count = params->record_count;
	object->buffer = buffer;
	simrm_object_depend(object, header);
	simrm_object_depend(object, records);
	return RM_OK;
}

static void count_buffer(const struct simrm_gpu *gpu, int more)
{
	struct recorder *recorder = &recorders[gpu->instance];

	raw_spin_lock_irq(&recorder->lock);
	recorder->buffers += more;
	/* The ones before are nobody's. */
	if (!recorder->buffers || (more > 0 && recorder->buffers == 1))
		recorder->count = recorder->lost = 0;
	raw_spin_unlock_irq(&recorder->lock);
}

void simrm_fecs_buffer_end(struct simrm_buffer *buffer)
{
	mutex_lock(&buffers_lock);
	list_del(&buffer->node);
	mutex_unlock(&buffers_lock);
	if (buffer->gpu)
		count_buffer(buffer->gpu, -1);
	kfree(buffer);
}

/* With simrm_api held for write, as the other controls of event buffers. */
u32 simrm_fecs_bind(struct simrm_object *object, const struct simrm_caller *who, void *params)
{
	struct rm_event_bind *bind = params;
	struct simrm_object *target = simrm_object_find(object->client, bind->buffer);
	struct simrm_buffer *buffer = target ? target->buffer : NULL;
	u8 compute;

	bind->reason = 0;
	if (!buffer)
		return RM_INVALID_OBJECT_HANDLE;
	if (bind->detail || !bind->all_users)
		return RM_NOT_SUPPORTED;
	if (buffer->gpu)
		return RM_OK;
	simrm_instances_of(object->parent, &buffer->mig, &compute);
	if (buffer->mig == SIMRM_NO_MIG) {
		if (READ_ONCE(object->gpu->instances))
			return RM_OBJECT_NOT_FOUND;
		/* So the driver has it, should there be instances later. */
		buffer->mig = 0;
	}
	buffer->sees_all = capable(CAP_SYS_ADMIN);
	buffer->gpu = object->gpu;
	count_buffer(buffer->gpu, 1);
	mutex_lock(&buffers_lock);
	list_add_tail(&buffer->node, &buffers);
	mutex_unlock(&buffers_lock);
	schedule_delayed_work(&timer, PERIOD);
	return RM_OK;
}

/*
 * "CLIENT TSG TAG NS" tells of a step of a switch, at a time of CLOCK_MONOTONIC: the engine runs no
 * instances.
 */
static int step_set(const char *value, const struct kernel_param *kp)
{
	unsigned int client, object, tag;
	struct simrm_object *found;
	struct recorder *recorder;
	struct simrm_client *of;
	int err = -ENOENT;
	bool exclusive;
	u64 at;

	if (sscanf(value, "%i %i %i %llu", &client, &object, &tag, &at) != 4)
		return -EINVAL;
	exclusive = simrm_lock(false);
	of = simrm_client_find(client);
	if (of && of->active) {
		mutex_lock(&of->lock);
		found = simrm_object_find(of, object);
		if (found && !found->lost && found->kind == SIMRM_TSG) {
			recorder = &recorders[found->gpu->instance];
			raw_spin_lock_irq(&recorder->lock);
			if (recorder->buffers)
				add(recorder, found->tsg->serial, tag, at);
			raw_spin_unlock_irq(&recorder->lock);
			err = 0;
		}
		mutex_unlock(&of->lock);
	}
	simrm_unlock(exclusive);
	return err;
}

static const struct kernel_param_ops step_ops = { .set = step_set };
module_param_cb(simrm_step, &step_ops, NULL, 0200);
MODULE_PARM_DESC(simrm_step, "a step of a context switch, see nvidia-patch/simrm/README");

u32 simrm_fecs_enable(struct simrm_object *object, const struct simrm_caller *who, void *params)
{
	const struct rm_event_enable *enable = params;

	if (enable->policy > RM_EVENT_KEEP_OLDEST + RM_EVENT_KEEP_NEWEST)
		return RM_INVALID_ARGUMENT;
	object->buffer->enabled = enable->enable;
	if (enable->policy)
		object->buffer->keep_oldest = enable->policy == RM_EVENT_KEEP_OLDEST;
	return RM_OK;
}

/* The reader has come to a record; the driver counts dropped ones from here. */
u32 simrm_fecs_get(struct simrm_object *object, const struct simrm_caller *who, void *params)
{
	const struct rm_event_get *get = params;

	if (get->records >= object->buffer->record_count || get->data)
		return RM_INVALID_ARGUMENT;
	WRITE_ONCE(object->buffer->header->get, get->records);
	object->buffer->header->dropped = 0;
	return RM_OK;
}

unsigned int simrm_fecs_bound(void)
{
	return list_count_nodes(&buffers);
}

void simrm_fecs_init(void)
{
	unsigned int i;

	for (i = 0; i < SIMRM_MAX_GPUS; i++)
		raw_spin_lock_init(&recorders[i].lock);
}

void simrm_fecs_exit(void)
{
	cancel_delayed_work_sync(&timer);
	WARN_ON(!list_empty(&buffers));
}
