// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Records of context switches. The GPU's own switcher (FECS) writes them, and the core formats them
 * into a ring in memory, 30 times a second or when it is asked to, for who has bound an event
 * buffer. That is done here for as long as the listener reads, by a client of zernel for each
 * GPU, and undone two seconds after the last read. With MIG the core wants a client that has
 * subscribed to an instance: then there is one for each.
 *
 * A record names a context, by a number that the core gives each channel. Only the core's own answer
 * to the kernel tells whose that is: the parameters of a channel, where the core writes it too,
 * are in the tenant's memory.
 */
#include "nv-zernel-private.h"

#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/workqueue.h>

/* Handles in a client of nvz_own_make(). */
#define NVZ_RING_HEADER		0x7a65003eU
#define NVZ_RING_RECORDS	0x7a65013eU

/* In system memory, of any pages, cached. */
#define NVZ_MEMORY_ATTRIBUTES	(1U << 25 | 1U << 27 | 5U << 29)

/* More MIG instances than a GPU has. Another number means something else to the core. */
#define NVZ_INSTANCES_MAX	15

/* At most so many records are between two reads, else some are lost; the ring has one more. */
#define NVZ_RING_COUNT		8192

#define NVZ_RING_KEEP_OLDEST	1
#define NVZ_RING_RECORD_FECS	2	/* the second version of these */
#define NVZ_BIND_FULL		0	/* every step of a switch */

#define NVZ_RING_IDLE		(2 * HZ)

struct nvz_memory_params {
	u32 owner, type, flags, width, height, pitch, attributes, attributes2, format;
	u32 compression, depth, pad;
	u64 range_low, range_high, size, alignment, offset, limit, address;
	u32 tag_offset, va_space, internal_flags, tag, node, pad2;
};

struct nvz_event_buffer_params {
	u64 header_address, records_address;
	u32 record_size, record_count;
	u64 data_address;
	u32 data_size, records_threshold;
	u64 notification;
	u32 data_threshold, subdevice, flags, header, records, data;
};

struct nvz_bind_params {
	u32 buffer, record_size, detail, filter;
	u8 all_users, pad[3];
	u32 reason;
};

struct nvz_enable_params {
	u8 enable, pad[3];
	u32 policy;
};

struct nvz_instance_params {
	u64 capability;
	u32 instance, pad;
};

struct nvz_get_params {
	u32 records, data;
};

/* In the memory that the core writes; @get is written by it, too, when it is told. */
struct nvz_ring_header {
	u32 get, put;
	u64 count, dropped, data_dropped;
};

struct nvz_ring_record {
	u16 type, subtype;
	u32 data;
	u8 tag, vm;
	u16 number;
	u32 context, process;
	u16 reserved;
	u8 mig, compute;
	u64 at;
};

static_assert(sizeof(struct nvz_memory_params) == 128);
static_assert(sizeof(struct nvz_event_buffer_params) == 72);
static_assert(sizeof(struct nvz_bind_params) == 24);
static_assert(sizeof(struct nvz_instance_params) == 16);
static_assert(sizeof(struct nvz_ring_header) == 32);
static_assert(sizeof(struct nvz_ring_record) == 32);

/**
 * struct nvz_ring - the records of a GPU, or of a MIG instance of it
 * @list: in nvz_gpu.rings
 * @instance: NV_ZERNEL_UNKNOWN: the GPU has none
 * @client: of zernel, with all that belongs to it
 * @number: no other ring has it
 * @header: mapped
 * @records: mapped
 * @get: the next one to read
 * @dropped: by the core, and not told yet
 * @read: when it was read last
 */
struct nvz_ring {
	struct list_head list;
	u32 instance;
	u32 client;
	u32 number;
	const struct nvz_ring_header *header;
	const struct nvz_ring_record *records;
	u32 get;
	u64 dropped;
	unsigned long read;
};

static u32 nvz_rings;		/* that there were; own lock */
static bool nvz_rings_off;	/* the driver is suspended, or about to be; own lock */

static void nvz_rings_retire(struct work_struct *work);
static DECLARE_DELAYED_WORK(nvz_retire, nvz_rings_retire);

/* Memory of the ring, mapped and zero. */
static u32 nvz_ring_memory(nvidia_stack_t *sp, u32 client, u32 memory, u32 size, const void **map)
{
	struct nvz_memory_params params = {
		.attributes = NVZ_MEMORY_ATTRIBUTES,
		.size = size,
	};
	void *address;
	u32 status;

	status = nvz_rm_alloc(sp, client, NVZ_OWN_DEVICE, &memory, NVZ_CLASS_MEMORY, &params);
	if (status != NV_OK)
		return status;
	status = nvz_rm_map(sp, client, NVZ_OWN_DEVICE, memory, size, &address);
	if (status == NV_OK) {
		memset(address, 0, size);
		*map = address;
	}
	return status;
}

/* An event buffer in the ring's memory, that all context switches of the GPU are written to. */
static u32 nvz_ring_bind(nvidia_stack_t *sp, u32 client)
{
	struct nvz_event_buffer_params params = {
		.record_size = sizeof(struct nvz_ring_record),
		.record_count = NVZ_RING_COUNT,
		.subdevice = NVZ_OWN_SUBDEVICE,
		.header = NVZ_RING_HEADER,
		.records = NVZ_RING_RECORDS,
	};
	struct nvz_bind_params bind = {
		.buffer = NVZ_OWN_RING,
		.record_size = sizeof(struct nvz_ring_record),
		.detail = NVZ_BIND_FULL,
		.all_users = true,
	};
	struct nvz_enable_params enable = {
		.enable = true,
		.policy = NVZ_RING_KEEP_OLDEST,
	};
	u32 buffer = NVZ_OWN_RING, status;

	status = nvz_rm_alloc(sp, client, client, &buffer, NVZ_CLASS_EVENT_BUFFER, &params);
	if (status == NV_OK)
		status = nvz_own_control(sp, client, NVZ_CTRL_BIND_SWITCHES, &bind, sizeof(bind));
	if (status == NV_OK)
		status = nvz_own_control(sp, client, NVZ_CTRL_RING_ENABLE, &enable, sizeof(enable));
	return status;
}

/* Frees all of a ring, however much of it there is. */
static void nvz_ring_free(nvidia_stack_t *sp, struct nvz_ring *ring)
{
	/* The core writes to the memory until the client's event buffer goes. */
	nvz_rm_free(sp, ring->client, NVZ_OWN_RING);
	if (ring->records)
		nvz_rm_unmap(sp, ring->client, NVZ_OWN_DEVICE, NVZ_RING_RECORDS, ring->records);
	if (ring->header)
		nvz_rm_unmap(sp, ring->client, NVZ_OWN_DEVICE, NVZ_RING_HEADER, ring->header);
	nvz_rm_free(sp, ring->client, ring->client);
	kfree(ring);
}

/* A client whose event buffers get the records of a MIG instance, or of a GPU without. */
static u32 nvz_ring_client(nvidia_stack_t *sp, u32 gpu_id, u32 instance, u32 *client)
{
	struct nvz_instance_params params = { .instance = instance };
	u32 object = NVZ_OWN_INSTANCE, status;

	status = nvz_own_make(sp, gpu_id, client);
	if (status != NV_OK || instance == NV_ZERNEL_UNKNOWN)
		return status;
	status = nvz_rm_alloc(sp, *client, NVZ_OWN_SUBDEVICE, &object, NVZ_CLASS_MIG_INSTANCE,
			      &params);
	if (status != NV_OK)
		nvz_rm_free(sp, *client, *client);
	return status;
}

/*
 * The core decides by the current task whether other users' records may be seen, so that has to be
 * a kernel thread. 0, -EAGAIN not now, -EOPNOTSUPP there are none (of a GPU as a whole: until the next
 * start), -ENOMEM.
 */
static int nvz_ring_make(nvidia_stack_t *sp, struct nvz_gpu *gpu, u32 instance)
{
	bool whole = instance == NV_ZERNEL_UNKNOWN;
	struct nvz_ring *ring;
	const void *map;
	u32 status;

	lockdep_assert_held(&nvz_own_lock);
	if (whole && gpu->ringless)
		return -EOPNOTSUPP;
	if (nvz_rings_off || !(current->flags & PF_KTHREAD))
		return -EAGAIN;
	ring = kzalloc(sizeof(*ring), GFP_KERNEL);
	if (!ring)
		return -ENOMEM;
	status = nvz_ring_client(sp, gpu->desc.gpu_id, instance, &ring->client);
	if (status != NV_OK) {
		kfree(ring);
		return !whole && nvz_status_final(status) ? -EOPNOTSUPP : -EAGAIN;
	}
	status = nvz_ring_memory(sp, ring->client, NVZ_RING_HEADER, sizeof(*ring->header), &map);
	if (status == NV_OK) {
		ring->header = map;
		status = nvz_ring_memory(sp, ring->client, NVZ_RING_RECORDS,
					 NVZ_RING_COUNT * sizeof(*ring->records), &map);
	}
	if (status == NV_OK) {
		ring->records = map;
		status = nvz_ring_bind(sp, ring->client);
	}
	if (status != NV_OK) {
		nvz_ring_free(sp, ring);
		/* Its client has not subscribed to an instance, and the GPU has some. */
		if (status != NV_ERR_OBJECT_NOT_FOUND && !nvz_status_final(status))
			return -EAGAIN;
		gpu->ringless |= whole;
		return -EOPNOTSUPP;
	}
	ring->instance = instance;
	ring->number = ++nvz_rings;
	list_add_tail(&ring->list, &gpu->rings);
	schedule_delayed_work(&nvz_retire, NVZ_RING_IDLE);
	return 0;
}

/* The caller keeps suspends away, as for nvz_gpu_let_go(). */
static void nvz_ring_drop(struct nvz_ring *ring)
{
	nvidia_stack_t *sp = NULL;

	lockdep_assert_held(&nvz_own_lock);
	list_del(&ring->list);
	if (nv_kmem_cache_alloc_stack(&sp)) {
		nv_printf(NV_DBG_ERRORS, "NVRM: zernel's client 0x%x is left over: no memory\n",
			  ring->client);
		kfree(ring);
		return;
	}
	nvz_ring_free(sp, ring);
	nv_kmem_cache_free_stack(sp);
}

/* The same of all rings of a GPU, which may have records from now on if it had none. */
void nvz_rings_drop(struct nvz_gpu *gpu)
{
	struct nvz_ring *ring, *next;

	lockdep_assert_held(&nvz_own_lock);
	gpu->ringless = false;
	list_for_each_entry_safe(ring, next, &gpu->rings, list)
		nvz_ring_drop(ring);
}

/* Drops the rings that nobody has read for a while. Returns whether others are left. */
static bool nvz_rings_sweep(bool all)
{
	struct nvz_ring *ring, *next;
	struct nvz_gpu *gpu;
	bool left = false;

	lockdep_assert_held(&nvz_own_lock);
	for (gpu = nvz_gpu_after(NULL); gpu; gpu = nvz_gpu_after(gpu)) {
		list_for_each_entry_safe(ring, next, &gpu->rings, list) {
			if (all || time_after(jiffies, ring->read + NVZ_RING_IDLE))
				nvz_ring_drop(ring);
		}
		left = left || !list_empty(&gpu->rings);
	}
	return left;
}

static void nvz_rings_retire(struct work_struct *work)
{
	bool left = true;

	if (!nvz_rm_stay()) {
		mutex_lock(&nvz_own_lock);
		left = nvz_rings_sweep(false);
		mutex_unlock(&nvz_own_lock);
		nvz_rm_release();
	}
	if (left)
		schedule_delayed_work(&nvz_retire, NVZ_RING_IDLE / 2);
}

/* The driver is about to be suspended, and not yet; or it is awake again. */
void nvz_rings_stop(bool stop)
{
	mutex_lock(&nvz_own_lock);
	nvz_rings_off = stop;
	if (stop)
		nvz_rings_sweep(true);
	mutex_unlock(&nvz_own_lock);
}

/* All rings are gone, and the listener with them, so that none comes. */
void nvz_rings_end(void)
{
	cancel_delayed_work_sync(&nvz_retire);
}

/* The GPU's clock, and the kernel's in the middle of the question. */
static void nvz_ring_time(nvidia_stack_t *sp, const struct nvz_ring *ring,
			  struct nv_zernel_records *records)
{
	u64 time = 0, begin, end;
	u32 status;

	begin = ktime_get_ns();
	status = nvz_own_control(sp, ring->client, NVZ_CTRL_TIME, &time, sizeof(time));
	end = ktime_get_ns();
	records->gpu_ns = time;
	records->cpu_ns = begin + (end - begin) / 2;
	records->error_ns = status == NV_OK ? (end - begin + 1) / 2 : U64_MAX;
}

/* Copies records, with the TSGs of their contexts. False: the ring makes no sense. */
static bool nvz_ring_copy(struct nvz_ring *ring, u32 gpu_id, struct nv_zernel_records *records,
			  struct nv_zernel_record *list)
{
	/* The core writes a record before it moves the end of the ring. */
	u32 put = smp_load_acquire(&ring->header->put), room = records->count;

	if (put >= NVZ_RING_COUNT)
		return false;
	records->count = 0;
	mutex_lock(&nvz_table_lock);
	while (ring->get != put && records->count < room) {
		const struct nvz_ring_record *record = &ring->records[ring->get];

		if (record->type == NVZ_RING_RECORD_FECS)
			list[records->count++] = (struct nv_zernel_record) {
				.tsg = nvz_context_tsg(record->context, gpu_id),
				.at_ns = record->at,
				.context = record->context,
				.number = record->number,
				.tag = record->tag,
				.compute = record->compute,
			};
		ring->get = (ring->get + 1) % NVZ_RING_COUNT;
	}
	mutex_unlock(&nvz_table_lock);
	records->left = (put + NVZ_RING_COUNT - ring->get) % NVZ_RING_COUNT;
	return true;
}

/* 0, or -EIO the core has failed the ring. */
static int nvz_ring_read(nvidia_stack_t *sp, struct nvz_ring *ring, u32 gpu_id,
			 struct nv_zernel_records *records, struct nv_zernel_record *list)
{
	struct nvz_get_params get = {};

	nvz_ring_time(sp, ring, records);
	if (records->flags & NV_ZERNEL_RECORDS_FLUSH &&
	    nvz_own_control(sp, ring->client, NVZ_CTRL_RING_FLUSH, NULL, 0) != NV_OK)
		return -EIO;
	if (!nvz_ring_copy(ring, gpu_id, records, list))
		return -EIO;
	/* The core forgets how many it dropped when it is told where the reader is. */
	ring->dropped += READ_ONCE(ring->header->dropped);
	get.records = ring->get;
	if (nvz_own_control(sp, ring->client, NVZ_CTRL_RING_GET, &get, sizeof(get)) != NV_OK)
		return -EIO;
	records->ring = ring->number;
	records->dropped = records->left ? 0 : ring->dropped;
	ring->dropped -= records->dropped;
	ring->read = jiffies;
	return 0;
}

/* NULL: nobody reads its records. */
static struct nvz_ring *nvz_ring_find(const struct nvz_gpu *gpu, u32 instance)
{
	struct nvz_ring *ring;

	list_for_each_entry(ring, &gpu->rings, list) {
		if (ring->instance == instance)
			return ring;
	}
	return NULL;
}

/* On a GPU that is awake, and kept so. */
static int nvz_records_read(nvidia_stack_t *sp, u32 gpu_id, struct nv_zernel_records *records,
			    struct nv_zernel_record *list)
{
	u32 instance = NV_ZERNEL_UNKNOWN;
	struct nvz_ring *ring;
	struct nvz_gpu *gpu;
	int ret = 0;

	if (records->flags & NV_ZERNEL_RECORDS_INSTANCE)
		instance = records->instance;
	mutex_lock(&nvz_own_lock);
	gpu = nvz_gpu_find(gpu_id);
	if (!nvz_listening_now())
		ret = -ENODEV;
	else if (!gpu || !gpu->started)
		ret = -ENOENT;
	else if (!nvz_ring_find(gpu, instance))
		ret = nvz_ring_make(sp, gpu, instance);
	if (!ret) {
		ring = nvz_ring_find(gpu, instance);
		ret = nvz_ring_read(sp, ring, gpu_id, records, list);
		if (ret)
			nvz_ring_drop(ring);
	}
	mutex_unlock(&nvz_own_lock);
	return ret;
}

int nv_zernel_records_read(u32 gpu_id, struct nv_zernel_records *records,
			   struct nv_zernel_record *list)
{
	struct nvz_vigil vigil;
	nvidia_stack_t *sp;
	int ret;

	might_sleep();
	if (records->size < sizeof(*records) || !records->count ||
	    (records->flags & NV_ZERNEL_RECORDS_INSTANCE &&
	     records->instance >= NVZ_INSTANCES_MAX))
		return -EINVAL;
	if (os_cc_enabled)
		return -EOPNOTSUPP;
	ret = nvz_rm_enter(&sp, gpu_id);
	if (ret)
		return ret;
	ret = nvz_vigil_begin(&vigil, gpu_id);
	if (!ret) {
		ret = nvz_records_read(sp, gpu_id, records, list);
		nvz_vigil_end(&vigil);
	}
	nvz_rm_leave(sp);
	return ret;
}
EXPORT_SYMBOL_GPL(nv_zernel_records_read);
