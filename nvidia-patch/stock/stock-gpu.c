// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The GPUs of the driver: those in its list, which is looked at when a PCI device was bound or let go.
 * Only the worker is here.
 */
#include "stock.h"

#include <linux/pci.h>
#include <linux/slab.h>

#define STOCK_CTRL_ATTACHED_IDS	0x00000201U

/* An entry of the driver's list begins so. */
struct stock_gpu_info {
	u32 gpu_id;
	u32 domain;
	u8 bus, slot, function;
};

/**
 * struct stock_gpu - a GPU
 * @list: in stock_gpus
 * @nvl: as the files of the hook know it
 * @seen: it is in the driver's list
 */
struct stock_gpu {
	struct list_head list;
	nv_linux_state_t nvl;
	bool seen;
};

static LIST_HEAD(stock_gpus);
static const struct nv_registers stock_registers;

static struct stock_gpu *stock_gpu_find(u32 gpu_id)
{
	struct stock_gpu *gpu;

	list_for_each_entry(gpu, &stock_gpus, list) {
		if (gpu->nvl.nv_state.gpu_id == gpu_id)
			return gpu;
	}
	return NULL;
}

/* True if the core drives the GPU already. */
static bool stock_gpu_attached(u32 gpu_id)
{
	u32 ids[STOCK_GPUS_MAX], client = 0, made = 0, i;
	nvidia_stack_t *sp;
	bool found = false;

	if (nv_kmem_cache_alloc_stack(&sp))
		return false;
	if (nvz_rm_alloc(sp, 0, 0, &client, NVZ_CLASS_ROOT, &made) == NV_OK) {
		client = client ?: made;
		if (nvz_rm_control(sp, client, client, STOCK_CTRL_ATTACHED_IDS, ids, sizeof(ids)) ==
		    NV_OK) {
			for (i = 0; i < STOCK_GPUS_MAX && !found; i++)
				found = ids[i] == gpu_id;
		}
		nvz_rm_free(sp, client, client);
	}
	nv_kmem_cache_free_stack(sp);
	return found;
}

static void stock_gpu_add(const struct stock_gpu_info *info)
{
	struct pci_dev *pdev = pci_get_domain_bus_and_slot(info->domain, info->bus,
							   PCI_DEVFN(info->slot, info->function));
	struct stock_gpu *gpu;

	/* Pulled out meanwhile. */
	if (!pdev)
		return;
	gpu = kzalloc(sizeof(*gpu), GFP_KERNEL);
	if (!gpu) {
		pr_err("zernel_nvidia_stock: cannot follow GPU %s: no memory\n", pci_name(pdev));
		pci_dev_put(pdev);
		return;
	}
	sema_init(&gpu->nvl.ldata_lock, 1);
	gpu->nvl.dev = &pdev->dev;
	gpu->nvl.nv_state = (nv_state_t) {
		.flags = stock_gpu_attached(info->gpu_id) ? NV_FLAG_INITIALIZED : 0,
		.gpu_id = info->gpu_id,
		.pci_info.device_id = pdev->device,
		.subsystem_vendor = pdev->subsystem_vendor,
		.subsystem_id = pdev->subsystem_device,
		.regs = &stock_registers,
	};
	gpu->seen = true;
	list_add_tail(&gpu->list, &stock_gpus);
	nv_zernel_gpu_added(&gpu->nvl.nv_state);
}

static void stock_gpu_remove(struct stock_gpu *gpu)
{
	list_del(&gpu->list);
	nv_zernel_gpu_removed(&gpu->nvl.nv_state);
	put_device(gpu->nvl.dev);
	kfree(gpu);
}

/* A GPU at the same place is another one if its device is. */
static bool stock_gpu_same(const struct stock_gpu *gpu, const struct stock_gpu_info *info)
{
	struct pci_dev *pdev = pci_get_domain_bus_and_slot(info->domain, info->bus,
							   PCI_DEVFN(info->slot, info->function));
	bool same = pdev && &pdev->dev == gpu->nvl.dev;

	pci_dev_put(pdev);
	return same;
}

void stock_gpu_look(void)
{
	void *infos = kcalloc(STOCK_GPUS_MAX, STOCK_GPU_INFO_SIZE, GFP_KERNEL);
	struct stock_gpu *gpu, *next;
	u32 count, i;

	if (!infos) {
		pr_err("zernel_nvidia_stock: cannot look for GPUs: no memory\n");
		return;
	}
	count = stock_rm_gpus(infos);
	list_for_each_entry(gpu, &stock_gpus, list)
		gpu->seen = false;
	for (i = 0; i < count; i++) {
		const struct stock_gpu_info *info = infos + i * STOCK_GPU_INFO_SIZE;

		gpu = stock_gpu_find(info->gpu_id);
		if (gpu)
			gpu->seen = stock_gpu_same(gpu, info);
	}
	list_for_each_entry_safe(gpu, next, &stock_gpus, list) {
		if (!gpu->seen)
			stock_gpu_remove(gpu);
	}
	for (i = 0; i < count; i++) {
		const struct stock_gpu_info *info = infos + i * STOCK_GPU_INFO_SIZE;

		if (!stock_gpu_find(info->gpu_id))
			stock_gpu_add(info);
	}
	kfree(infos);
}

void stock_gpu_started(u32 gpu_id, bool started)
{
	struct stock_gpu *gpu = stock_gpu_find(gpu_id);
	nv_state_t *nv;

	if (!gpu)
		return;
	nv = &gpu->nvl.nv_state;
	nv->flags = started ? NV_FLAG_INITIALIZED : 0;
	if (started)
		nv_zernel_gpu_started(nv);
	else
		nv_zernel_gpu_stopped(nv);
}

/* The worker is gone. */
void stock_gpu_exit(void)
{
	struct stock_gpu *gpu, *next;

	list_for_each_entry_safe(gpu, next, &stock_gpus, list)
		stock_gpu_remove(gpu);
}
