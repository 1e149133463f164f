// SPDX-License-Identifier: GPL-2.0
/*
 * The state of the resource manager, for tests to compare with.
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>

#include "simrm.h"

#define MAX_STUBS	32

static struct dentry *folder;

static DEFINE_SPINLOCK(stubs_lock);
static const char *stubs[MAX_STUBS];
static unsigned int stubs_count;

/* A symbol of the real resource manager was called that nobody has written here. */
void simrm_stub(const char *name)
{
	unsigned long flags;
	unsigned int i;
	bool known;

	spin_lock_irqsave(&stubs_lock, flags);
	for (i = 0; i < stubs_count && stubs[i] != name; i++)
		;
	known = i < stubs_count;
	if (!known && stubs_count < MAX_STUBS)
		stubs[stubs_count++] = name;
	spin_unlock_irqrestore(&stubs_lock, flags);
	WARN(!known && i < MAX_STUBS, "simrm: %s() is only a stub\n", name);
}

static int alive(enum simrm_kind kind)
{
	return atomic_read(&simrm_alive[kind]);
}

static unsigned int tsgs(void)
{
	unsigned int number = 0;
	struct simrm_tsg *tsg;

	mutex_lock(&simrm_tsgs_lock);
	list_for_each_entry(tsg, &simrm_tsgs, node)
		number += !tsg->hidden;
	mutex_unlock(&simrm_tsgs_lock);
	return number;
}

static unsigned int files(void)
{
	const struct simrm_client *client, *other;
	unsigned int number = 0;

	list_for_each_entry(client, &simrm_clients, node) {
		if (!client->file || !client->active)
			continue;
		list_for_each_entry(other, &simrm_clients, node) {
			if (other->file == client->file)
				break;
		}
		number += other == client;
	}
	return number;
}

/* One moment of all of it. */
static int counts_get(char *buffer, const struct kernel_param *kp)
{
	unsigned int i, gpus = 0, started = 0, kernel = 0, dying = 0;
	const struct simrm_client *client;
	int used;

	down_write(&simrm_api);
	for (i = 0; i < SIMRM_MAX_GPUS; i++) {
		gpus += simrm_gpus[i].nv != NULL;
		started += simrm_gpus[i].started;
	}
	list_for_each_entry(client, &simrm_clients, node) {
		kernel += !client->file;
		dying += !client->active;
	}
	used = scnprintf(buffer, PAGE_SIZE,
			 "files %u\nclients %d\ndevices %d\nsubdevices %d\n"
			 "tsg_handles %d\ntsgs %u\nchannels %d\ngpus %u\n",
			 files(), alive(SIMRM_ROOT), alive(SIMRM_DEVICE), alive(SIMRM_SUBDEVICE),
			 alive(SIMRM_TSG), tsgs(), alive(SIMRM_CHANNEL), gpus);
	used += scnprintf(buffer + used, PAGE_SIZE - used,
			  "vaspaces %d\ncontext_shares %d\nengine_objects %d\n"
			  "kernel_clients %u\ndying_clients %u\nstarted_gpus %u\n"
			  "stubs_called %u\nkernel_memory %u\nkernel_maps %u\n"
			  "bound_buffers %u\n",
			  alive(SIMRM_VASPACE), alive(SIMRM_CTXSHARE), alive(SIMRM_ENGINE),
			  kernel, dying, started, READ_ONCE(stubs_count), simrm_memory_objects(),
			  simrm_memory_maps(), simrm_fecs_bound());
	up_write(&simrm_api);
	return used;
}

static const struct kernel_param_ops counts_ops = { .get = counts_get };
module_param_cb(simrm_counts, &counts_ops, NULL, 0400);
MODULE_PARM_DESC(simrm_counts, "objects of the resource manager");

static int calls_get(char *buffer, const struct kernel_param *kp)
{
	return simrm_control_calls(buffer, PAGE_SIZE);
}

static const struct kernel_param_ops calls_ops = { .get = calls_get };
module_param_cb(simrm_calls, &calls_ops, NULL, 0400);
MODULE_PARM_DESC(simrm_calls, "calls of each control");

static int tsgs_show(struct seq_file *out, void *unused)
{
	simrm_tsg_show(out);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(tsgs);

static int gpus_show(struct seq_file *out, void *unused)
{
	const struct simrm_gpu *gpu;
	unsigned int i;

	down_write(&simrm_api);
	for (i = 0; i < SIMRM_MAX_GPUS; i++) {
		gpu = &simrm_gpus[i];
		if (gpu->nv)
			seq_printf(out, "gpu=%#x instance=%u started=%u interleaved=%u\n",
				   gpu->id, gpu->instance, gpu->started, gpu->interleaved);
	}
	up_write(&simrm_api);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(gpus);

static int engines_show(struct seq_file *out, void *unused)
{
	return simrm_engine_show(out);
}
DEFINE_SHOW_ATTRIBUTE(engines);

static int stubs_show(struct seq_file *out, void *unused)
{
	unsigned int i;

	for (i = 0; i < READ_ONCE(stubs_count); i++)
		seq_printf(out, "%s\n", stubs[i]);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stubs);

void simrm_truth_init(void)
{
	folder = debugfs_create_dir("simrm", NULL);
	debugfs_create_file("tsgs", 0400, folder, NULL, &tsgs_fops);
	debugfs_create_file("gpus", 0400, folder, NULL, &gpus_fops);
	debugfs_create_file("engines", 0400, folder, NULL, &engines_fops);
	debugfs_create_file("stubs", 0400, folder, NULL, &stubs_fops);
}

void simrm_truth_exit(void)
{
	debugfs_remove(folder);
}
