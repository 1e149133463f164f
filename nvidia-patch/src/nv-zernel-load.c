// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The work of a TSG, as registers of its run list tell. They are read, never written.
 *
 * Nothing is read from a GPU that sleeps, is suspended or is being pulled out, in a guest, with
 * confidential computing, or of a chip that is not known. The core maps the registers until it
 * stops the GPU; who reads is in an SRCU section, which the stop waits for.
 */
#include "nv-zernel-private.h"
#include "nv-zernel-compat.h"

#include <linux/io.h>
#include <linux/pm_runtime.h>
#include <linux/slab.h>
#include <linux/srcu.h>

#define NVZ_PMC_BOOT_42			0xa00
#define NVZ_CHIP(boot_42)		(((boot_42) >> 24) & 0x3f)

#define NVZ_CHANNELS_MAX		2048	/* of a run list */
#define NVZ_PCCSR_CHANNEL		0x800004

/* Logarithms of the distance from a channel to the next. */
#define NVZ_CHRAM_SHIFT			2
#define NVZ_PCCSR_SHIFT			3

/* Modes of virtualization in which the GPU is the machine's own: none, and passed through. */
#define NVZ_VIRTUAL_NONE		0
#define NVZ_VIRTUAL_PASSED		1

/* A table of engines comes in parts. */
#define NVZ_DEVICES_PART		32
#define NVZ_DEVICES_MAX			256
#define NVZ_DEVICE_RUNLIST_BASE		11
#define NVZ_DEVICE_CHRAM_BASE		14

struct nvz_device_table {
	u32 base, count;
	u8 more, pad[3];
	struct {
		u32 data[16], pbdmas[2], pbdma_faults[2], pbdma_count;
		char name[16];
	} devices[NVZ_DEVICES_PART];
};

/**
 * struct nvz_chip - where a generation of GPUs has its registers
 * @number: as PMC_BOOT_42 has it
 * @per_runlist: channels are in a table for each run list, else in one for the GPU
 * @engine: ENGINE_STATUS0 of the first engine, from the base of a run list; 0: not known
 */
struct nvz_chip {
	u32 number;
	bool per_runlist;
	u32 engine;
};

static const struct nvz_chip nvz_chips[] = {
	{ 0x16, false },		/* Turing */
	{ 0x17, true, 0x200 },		/* Ampere */
	{ 0x18, true, 0x200 },		/* Hopper */
	{ 0x19, true, 0x200 },		/* Ada */
	{ 0x1a, true },			/* Blackwell */
	{ 0x1b, true },
};

DEFINE_STATIC_SRCU(nvz_registers_srcu);

/* Under the SRCU section; the caller has looked whether anything may be read. */
static u32 nvz_read(const struct nvz_registers *registers, u32 at)
{
	if (at > registers->size - sizeof(u32))
		return NV_ZERNEL_UNKNOWN;
	return readl(registers->map + at);
}

/* 0 or -EAGAIN. @mode: NV_ZERNEL_UNKNOWN, if the core does not tell. */
static int nvz_virtual_mode(nvidia_stack_t *sp, u32 gpu_id, u32 *mode)
{
	static const u32 sizes[] = { 8, 4 };	/* 595, 550 */
	u32 params[2], status, i;

	*mode = NV_ZERNEL_UNKNOWN;
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		memset(params, 0, sizeof(params));
		status = nvz_gpu_control(sp, gpu_id, NVZ_CTRL_VIRTUAL_MODE, params, sizes[i]);
		if (status == NV_OK) {
			*mode = params[0];
			return 0;
		}
		if (!nvz_status_final(status))
			return -EAGAIN;
	}
	return 0;
}

/* The tables of channels of the run lists. 0, -ENOMEM or -EAGAIN. */
static int nvz_learn_tables(nvidia_stack_t *sp, u32 gpu_id, struct nvz_registers *registers)
{
	struct nvz_device_table *table = kmalloc(sizeof(*table), GFP_KERNEL);
	u32 base, status = NV_OK, i;

	if (!table)
		return -ENOMEM;
	for (base = 0; base < NVZ_DEVICES_MAX; base += NVZ_DEVICES_PART) {
		memset(table, 0, sizeof(*table));
		table->base = base;
		status = nvz_gpu_control(sp, gpu_id, NVZ_CTRL_DEVICE_TABLE, table, sizeof(*table));
		if (status != NV_OK)
			break;
		for (i = 0; i < min_t(u32, table->count, NVZ_DEVICES_PART); i++) {
			const u32 *data = table->devices[i].data;

			if (!data[NVZ_DEVICE_RUNLIST_BASE] || !data[NVZ_DEVICE_CHRAM_BASE] ||
			    registers->count == ARRAY_SIZE(registers->tables))
				continue;
			registers->tables[registers->count++] = (struct nvz_table) {
				.runlist = data[NVZ_DEVICE_RUNLIST_BASE],
				.channels = data[NVZ_DEVICE_CHRAM_BASE],
			};
		}
		if (!table->more)
			break;
	}
	kfree(table);
	return status == NV_OK || nvz_status_final(status) ? 0 : -EAGAIN;
}

/*
 * Asks the core for all that reading needs, which is the same until the GPU stops. A refusal for good
 * is an answer; -EAGAIN another one, which may pass, -ENOMEM.
 */
struct nvz_registers *nvz_registers_learn(nvidia_stack_t *sp, u32 gpu_id)
{
	struct nvz_registers *registers = kzalloc(sizeof(*registers), GFP_KERNEL);
	u32 mode;
	int ret;

	if (!registers)
		return ERR_PTR(-ENOMEM);
	if (os_cc_enabled)
		return registers;
	ret = nvz_virtual_mode(sp, gpu_id, &mode);
	registers->own = mode == NVZ_VIRTUAL_NONE || mode == NVZ_VIRTUAL_PASSED;
	if (registers->own)
		ret = nvz_learn_tables(sp, gpu_id, registers);
	if (ret) {
		kfree(registers);
		return ERR_PTR(ret);
	}
	return registers;
}

/*
 * With the mapping of the core, which stays until nvz_registers_free() has returned. The GPU is
 * awake. 0, or -EAGAIN it does not answer.
 */
int nvz_registers_open(struct nvz_registers *registers, const nv_state_t *nv)
{
	u32 boot_42, i;

	if (!registers->own || !nv->regs->map || nv->regs->size <= NVZ_PMC_BOOT_42)
		return 0;
	registers->map = (void __iomem *)nv->regs->map;
	registers->size = min_t(u64, nv->regs->size, U32_MAX);
	boot_42 = nvz_read(registers, NVZ_PMC_BOOT_42);
	if (boot_42 == NV_ZERNEL_UNKNOWN)
		return -EAGAIN;
	for (i = 0; i < ARRAY_SIZE(nvz_chips); i++) {
		if (nvz_chips[i].number == NVZ_CHIP(boot_42))
			registers->chip = &nvz_chips[i];
	}
	return 0;
}

/* Nobody finds them any more. When this returns, nobody reads them. */
void nvz_registers_free(struct nvz_registers *registers)
{
	if (!registers)
		return;
	synchronize_srcu(&nvz_registers_srcu);
	kfree(registers);
}

/* The address of the first channel of a run list; 0: not known. */
static u32 nvz_channels_at(const struct nvz_registers *registers, u32 runlist)
{
	u32 i;

	if (!registers->chip->per_runlist)
		return NVZ_PCCSR_CHANNEL;
	for (i = 0; i < registers->count; i++) {
		if (registers->tables[i].runlist == runlist)
			return registers->tables[i].channels;
	}
	return 0;
}

/**
 * struct nvz_reading - a time in which the registers of a GPU may be read
 * @registers: of the GPU
 * @dev: the GPU, kept awake if @held
 * @cookie: of the SRCU section
 * @held: see @dev
 */
struct nvz_reading {
	const struct nvz_registers *registers;
	struct device *dev;
	int cookie;
	bool held;
};

/*
 * Under the table lock and in the SRCU section. 0, -ENXIO the core is still to be asked,
 * -EOPNOTSUPP nothing can be read, -EIO the GPU is being pulled out or did not come back from a
 * suspend, -EHOSTDOWN it sleeps.
 */
static int nvz_reading_begin(struct nvz_reading *reading, u32 gpu_id)
{
	nv_state_t *nv;
	int active;

	reading->registers = nvz_gpu_registers(gpu_id, &nv);
	if (!reading->registers)
		return -ENXIO;
	if (!reading->registers->chip)
		return -EOPNOTSUPP;
	if (nvz_nv_away(nv))
		return -EIO;
	reading->dev = NV_GET_NVL_FROM_NV_STATE(nv)->dev;
	/* -EINVAL: nobody manages its power. */
	active = nv_zernel_get_if_active(reading->dev);
	reading->held = active > 0;
	return active ? 0 : -EHOSTDOWN;
}

static void nvz_reading_end(const struct nvz_reading *reading)
{
	if (reading->held)
		pm_runtime_put(reading->dev);
}

/* The numbers of some channels of a TSG; table lock. */
static void nvz_channels_list(struct nvz_tsg *tsg, struct nv_zernel_sample *sample)
{
	struct list_head *at = tsg->channels.next;
	u32 i;

	sample->channels = tsg->channel_count;
	if (sample->first >= sample->channels)
		sample->first = 0;
	sample->count = min_t(u32, sample->channels - sample->first, NV_ZERNEL_SAMPLE_MAX);
	if (!sample->first) {
		/* By the compiler: NVIDIA's build would call a function. */
		__builtin_memcpy(sample->words, tsg->chids, sizeof(tsg->chids));
		return;
	}
	for (i = 0; i < sample->first; i++)
		at = at->next;
	for (i = 0; i < sample->count; i++, at = at->next)
		sample->words[i] = list_entry(at, struct nvz_object, in_tsg)->chid;
}

/*
 * Puts the run lists of TSGs in place of the engines, and the numbers of channels in place of the
 * words. Table lock, which is given back for a while before a long walk.
 */
static void nvz_samples_list(u32 gpu_id, struct nv_zernel_sample *samples, u32 count)
{
	struct nv_zernel_sample *sample;
	struct nvz_tsg *tsg;

	for (sample = samples; sample < samples + count; sample++) {
		if (sample->first) {
			mutex_unlock(&nvz_table_lock);
			mutex_lock(&nvz_table_lock);
		}
		tsg = nvz_tsg_find(sample->tsg);
		if (!tsg || tsg->gpu_id != gpu_id) {
			sample->flags = NV_ZERNEL_SAMPLE_GONE;
			sample->channels = sample->count = sample->engine = 0;
			continue;
		}
		sample->flags = 0;
		nvz_channels_list(tsg, sample);
		sample->engine = tsg->runlist;
	}
}

/* The GPU sleeps: its TSGs are there, and nothing of them is read. */
static void nvz_samples_asleep(struct nv_zernel_sample *samples, u32 count)
{
	struct nv_zernel_sample *sample;

	for (sample = samples; sample < samples + count; sample++) {
		sample->first = sample->channels = sample->count = sample->engine = 0;
		sample->flags |= NV_ZERNEL_SAMPLE_ASLEEP;
	}
}

/* ENGINE_STATUS0 of the first engine of a run list; @channels: address of its channels, or 0. */
static const void __iomem *nvz_engine_at(const struct nvz_registers *registers, u32 runlist,
					 u32 channels)
{
	u32 at = runlist + registers->chip->engine;

	/* The core has told of those with channels. */
	if (!registers->chip->engine || !channels || at > registers->size - sizeof(u32))
		return NULL;
	return registers->map + at;
}

static u32 nvz_engine_read(const void __iomem *engine)
{
	return engine ? readl(engine) : NV_ZERNEL_UNKNOWN;
}

/**
 * struct nvz_place - the registers of a run list
 * @runlist: its address
 * @count: channels that can be read
 * @first: of them
 * @engine: ENGINE_STATUS0 of the first engine, or NULL
 */
struct nvz_place {
	u32 runlist;
	u32 count;
	const void __iomem *first;
	const void __iomem *engine;
};

static void nvz_place_find(const struct nvz_registers *registers, u32 runlist,
			   struct nvz_place *place)
{
	u32 shift = registers->chip->per_runlist ? NVZ_CHRAM_SHIFT : NVZ_PCCSR_SHIFT;
	u32 first = nvz_channels_at(registers, runlist);

	place->runlist = runlist;
	place->first = registers->map + first;
	place->engine = nvz_engine_at(registers, runlist, first);
	place->count = 0;
	if (first && first < registers->size)
		place->count = min_t(u32, NVZ_CHANNELS_MAX, (registers->size - first) >> shift);
}

/* Reads what the numbers in @sample stand for; @shift: a constant. */
static __always_inline void nvz_sample_read(const struct nvz_place *place,
					    struct nv_zernel_sample *sample, u32 shift)
{
	u32 *word = sample->words, *end = word + sample->count, count = place->count;
	const void __iomem *first = place->first;

	sample->engine = nvz_engine_read(place->engine);
	for (; word < end; word++)
		*word = *word < count ? readl(first + ((size_t)*word << shift)) :
					NV_ZERNEL_UNKNOWN;
}

/* Reads for each sample of a TSG that there is. Returns the number of values. */
static int nvz_samples_read(const struct nvz_registers *registers,
			     struct nv_zernel_sample *samples, u32 count)
{
	struct nv_zernel_sample *sample;
	struct nvz_place place;
	int reads = 0;

	nvz_place_find(registers, samples->engine, &place);
	for (sample = samples; sample < samples + count; sample++) {
		if (sample->flags & NV_ZERNEL_SAMPLE_GONE)
			continue;
		/* Most TSGs are on the run list of the one before. */
		if (sample->engine != place.runlist)
			nvz_place_find(registers, sample->engine, &place);
		if (registers->chip->per_runlist) {
			nvz_sample_read(&place, sample, NVZ_CHRAM_SHIFT);
		} else {
			nvz_sample_read(&place, sample, NVZ_PCCSR_SHIFT);
			sample->flags = NV_ZERNEL_SAMPLE_PCCSR;
		}
		reads += 1 + sample->count;
	}
	return reads;
}

/*
 * As nv_zernel_tsgs_sample(); -ENXIO the core is still to be asked. @asleep: it was, and the GPU
 * sleeps.
 */
static int nvz_tsgs_sample(u32 gpu_id, struct nv_zernel_sample *samples, u32 count, bool asleep)
{
	struct nvz_reading reading;
	int ret;

	ret = nvz_rm_stay();
	if (ret)
		return ret;
	reading.cookie = srcu_read_lock(&nvz_registers_srcu);
	mutex_lock(&nvz_table_lock);
	ret = asleep ? -EHOSTDOWN : nvz_reading_begin(&reading, gpu_id);
	if (!ret || ret == -EHOSTDOWN)
		nvz_samples_list(gpu_id, samples, count);
	mutex_unlock(&nvz_table_lock);
	if (!ret) {
		ret = nvz_samples_read(reading.registers, samples, count);
		nvz_reading_end(&reading);
	} else if (ret == -EHOSTDOWN) {
		nvz_samples_asleep(samples, count);
		ret = 0;
	}
	srcu_read_unlock(&nvz_registers_srcu, reading.cookie);
	nvz_rm_release();
	return ret;
}

int nv_zernel_tsgs_sample(u32 gpu_id, struct nv_zernel_sample *samples, u32 count)
{
	int ret;

	might_sleep();
	if (!count || count > NV_ZERNEL_LOOKS_MAX)
		return -EINVAL;
	ret = nvz_tsgs_sample(gpu_id, samples, count, false);
	if (ret != -ENXIO)
		return ret;
	ret = nvz_gpu_learn(gpu_id);
	if (!ret || ret == -EHOSTDOWN)
		ret = nvz_tsgs_sample(gpu_id, samples, count, ret == -EHOSTDOWN);
	/* Stopped, or in between. */
	return ret == -ENXIO || ret == -ENOENT ? -EAGAIN : ret;
}
EXPORT_SYMBOL_GPL(nv_zernel_tsgs_sample);

/* As nv_zernel_engines_sample(); -ENXIO the core is still to be asked. */
static int nvz_engines_sample(u32 gpu_id, const u32 *runlists, u32 *values, u32 count)
{
	struct nvz_reading reading;
	u32 i;
	int ret;

	memset(values, 0, count * sizeof(*values));
	ret = nvz_rm_stay();
	if (ret)
		return ret;
	reading.cookie = srcu_read_lock(&nvz_registers_srcu);
	mutex_lock(&nvz_table_lock);
	ret = nvz_reading_begin(&reading, gpu_id);
	mutex_unlock(&nvz_table_lock);
	if (!ret) {
		for (i = 0; i < count; i++) {
			u32 channels = nvz_channels_at(reading.registers, runlists[i]);

			values[i] = nvz_engine_read(nvz_engine_at(reading.registers, runlists[i],
								  channels));
		}
		nvz_reading_end(&reading);
	} else if (ret == -EHOSTDOWN) {
		ret = 0;
	}
	srcu_read_unlock(&nvz_registers_srcu, reading.cookie);
	nvz_rm_release();
	return ret;
}

int nv_zernel_engines_sample(u32 gpu_id, const u32 *runlists, u32 *values, u32 count)
{
	int ret;

	might_sleep();
	if (count > NV_ZERNEL_SAMPLE_MAX)
		return -EINVAL;
	ret = nvz_engines_sample(gpu_id, runlists, values, count);
	if (ret == -ENXIO) {
		ret = nvz_gpu_learn(gpu_id);
		if (!ret)
			ret = nvz_engines_sample(gpu_id, runlists, values, count);
		else if (ret == -EHOSTDOWN)
			ret = 0;
	}
	return ret == -ENXIO ? -EAGAIN : ret;
}
EXPORT_SYMBOL_GPL(nv_zernel_engines_sample);
