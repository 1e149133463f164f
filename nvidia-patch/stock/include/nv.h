/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Types, statuses and functions of the driver by their names; see nv-linux.h. */
#ifndef _NV_H_
#define _NV_H_

#include <linux/printk.h>
#include <linux/types.h>

struct device;

typedef u32 NV_STATUS;
typedef u32 NvU32;
typedef u8 NvBool;

#define NV_OK				0x00
#define NV_ERR_INSUFFICIENT_PERMISSIONS	0x1b
#define NV_ERR_INVALID_ADDRESS		0x1e
#define NV_ERR_INVALID_ARGUMENT		0x1f
#define NV_ERR_INVALID_CLASS		0x22
#define NV_ERR_INVALID_CLIENT		0x23
#define NV_ERR_INVALID_COMMAND		0x24
#define NV_ERR_INVALID_OBJECT		0x31
#define NV_ERR_INVALID_OBJECT_HANDLE	0x33
#define NV_ERR_INVALID_PARAM_STRUCT	0x3a
#define NV_ERR_INVALID_STATE		0x40
#define NV_ERR_NO_MEMORY		0x51
#define NV_ERR_NOT_SUPPORTED		0x56
#define NV_ERR_OBJECT_NOT_FOUND		0x57
#define NV_ERR_RESOURCE_LOST		0x6e
#define NV_ERR_GENERIC			0xffff

/* The driver's stack and file: their addresses are enough. */
typedef struct nvidia_stack_s nvidia_stack_t;
typedef struct nv_file_private_t nv_file_private_t;
typedef u32 nv_pm_action_t;

struct nv_registers {
	u64 size;
	u32 *map;
};

/**
 * struct nv_state_t - a GPU
 * @flags: NV_FLAG_*
 * @gpu_id: the driver's number of it
 * @pci_info: as rm_get_device_name() wants it
 * @subsystem_vendor: the same
 * @subsystem_id: the same
 * @regs: never mapped
 */
typedef struct nv_state_t {
	u32 flags;
	u32 gpu_id;
	struct {
		u16 device_id;
	} pci_info;
	u16 subsystem_vendor;
	u16 subsystem_id;
	const struct nv_registers *regs;
} nv_state_t;

#define NV_FLAG_CONTROL			(1U << 0)
#define NV_FLAG_INITIALIZED		(1U << 1)
#define NV_FLAG_OPEN			NV_FLAG_INITIALIZED
#define NV_FLAG_SUSPENDED		(1U << 2)
#define NV_FLAG_IN_SURPRISE_REMOVAL	(1U << 3)

#define NV_DBG_ERRORS			KERN_ERR
#define nv_printf(level, text, ...)	printk(level text, ##__VA_ARGS__)

const char *rm_get_device_name(u16 device, u16 subsystem_vendor, u16 subsystem);
NV_STATUS rm_ioctl(nvidia_stack_t *sp, nv_state_t *nv, nv_file_private_t *nvfp, u32 escape,
		   void *data, u32 size);
void rm_kernel_rmapi_op(nvidia_stack_t *sp, void *op);

#endif /* _NV_H_ */
