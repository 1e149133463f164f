// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The driver's operations for other modules of the kernel, as nvidia-modeset.ko uses them. The driver
 * hands them out to who names its own version.
 */
#include "stock.h"

/* As nvidia-modeset.ko is handed them. */
struct stock_operations {
	const char *version;
	NvBool write_combining;
	int (*alloc_stack)(nvidia_stack_t **sp);
	void (*free_stack)(nvidia_stack_t *sp);
	NvU32 (*enumerate_gpus)(void *info);
	void *open_gpu, *close_gpu;
	void (*op)(nvidia_stack_t *sp, void *op);
	void *set_callbacks;
};

/* Exported by nvidia.ko. */
NV_STATUS nvidia_get_rm_ops(struct stock_operations *operations);

static const char * const stock_versions[] = { "550.163.01", "595.45.04" };

DECLARE_RWSEM(nv_system_pm_lock);
const char *stock_version;
static struct stock_operations stock_operations;

int nv_kmem_cache_alloc_stack(nvidia_stack_t **sp)
{
	return stock_operations.alloc_stack(sp);
}

void nv_kmem_cache_free_stack(nvidia_stack_t *sp)
{
	stock_operations.free_stack(sp);
}

void rm_kernel_rmapi_op(nvidia_stack_t *sp, void *op)
{
	stock_operations.op(sp, op);
}

/* The driver's names are out of reach. */
const char *rm_get_device_name(u16 device, u16 subsystem_vendor, u16 subsystem)
{
	return NULL;
}

/* Fills in STOCK_GPUS_MAX entries of STOCK_GPU_INFO_SIZE at most; returns their number. */
u32 stock_rm_gpus(void *info)
{
	return stock_operations.enumerate_gpus(info);
}

/* 0, or -EPROTONOSUPPORT: the driver is of a version that the module does not know. */
int stock_rm_init(void)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(stock_versions); i++) {
		stock_operations.version = stock_versions[i];
		if (nvidia_get_rm_ops(&stock_operations) == NV_OK) {
			stock_version = stock_versions[i];
			return 0;
		}
	}
	pr_err("zernel_nvidia_stock: nvidia.ko is version %s, which this module does not know; patch it (nvidia-patch)\n",
	       stock_operations.version);
	return -EPROTONOSUPPORT;
}
