// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Calls of the driver's core with the privilege of the kernel.
 *
 * The core takes semaphores and may sleep for long, so none of this is done
 * under the table lock. In an ioctl the caller's stack is used and the system's
 * power lock is held already: taking it again could deadlock with a suspend that
 * waits for it.
 */
#include "nv-zernel-private.h"

#include <linux/random.h>

/* Operations of rm_kernel_rmapi_op(). */
#define NVZ_OP_FREE		0x00
#define NVZ_OP_ALLOC		0x15
#define NVZ_OP_MAP		0x21
#define NVZ_OP_UNMAP		0x22
#define NVZ_OP_CONTROL		0x36

struct nvz_map {
	u32 client, device, memory, pad;
	u64 offset, length, address;
	u32 status, flags;
};

struct nvz_unmap {
	u32 client, device, memory, pad;
	u64 address;
	u32 status, flags;
};

struct nvz_op {
	u32 op, pad;
	union {
		struct nvz_map map;
		struct nvz_unmap unmap;
		struct nvz_esc_free free;
		struct nvz_esc_alloc alloc;
		struct nvz_esc_alloc_rights alloc_rights;
		struct nvz_esc_control control;
	};
};

/* Questions about a handle. */
#define NVZ_INFO_PARENT		1
#define NVZ_INFO_CLASS		2

/*
 * The PM core suspends devices without the driver's power lock, which may even be held
 * across that by a suspend through /proc/driver/nvidia/suspend.
 */
static DECLARE_RWSEM(nvz_awake);
static u32 nvz_asleep;	/* devices, by suspends; under nvz_awake */

/* A value that no core returns: tells whether it filled in a field. */
#define NVZ_UNTOUCHED		0x7a65726eU

/* True if a status can mean that the named object is no more. */
bool nvz_status_dead(u32 status)
{
	switch (status) {
	case NV_ERR_INVALID_CLIENT:
	case NV_ERR_INVALID_OBJECT:
	case NV_ERR_INVALID_OBJECT_HANDLE:
	case NV_ERR_OBJECT_NOT_FOUND:
	case NV_ERR_RESOURCE_LOST:
		return true;
	default:
		return false;
	}
}

/* True if the core does not have a class or control, in these parameters, and will not. */
bool nvz_status_final(u32 status)
{
	switch (status) {
	case NV_ERR_INSUFFICIENT_PERMISSIONS:
	case NV_ERR_INVALID_ARGUMENT:
	case NV_ERR_INVALID_CLASS:
	case NV_ERR_INVALID_COMMAND:
	case NV_ERR_INVALID_PARAM_STRUCT:
	case NV_ERR_NOT_SUPPORTED:
		return true;
	default:
		return false;
	}
}

struct nvz_handle_info {
	u32 object, index;
	u64 result;
};

/* Status of the core. */
u32 nvz_rm_control(nvidia_stack_t *sp, u32 client, u32 object, u32 cmd, void *params, u32 size)
{
	struct nvz_op op = {
		.op = NVZ_OP_CONTROL,
		.control = {
			.client = client,
			.object = object,
			.cmd = cmd,
			.params = (unsigned long)params,
			.size = size,
			.status = NV_ERR_GENERIC,
		},
	};

	might_sleep();
	rm_kernel_rmapi_op(sp, &op);
	return op.control.status;
}

/*
 * @object: wished for, or 0; then the one that was given. The size is left to
 * the class.
 *
 * 550 takes the short layout here and 595 the long one. With no rights asked for
 * and no size given they only differ in where the status comes back.
 */
u32 nvz_rm_alloc(nvidia_stack_t *sp, u32 client, u32 parent, u32 *object, u32 class,
		 void *params)
{
	struct nvz_op op = {
		.op = NVZ_OP_ALLOC,
		.alloc_rights = {
			.client = client,
			.parent = parent,
			.object = *object,
			.class = class,
			.params = (unsigned long)params,
			.status = NVZ_UNTOUCHED,
		},
	};

	might_sleep();
	rm_kernel_rmapi_op(sp, &op);
	*object = op.alloc.object;
	return op.alloc_rights.status == NVZ_UNTOUCHED ? op.alloc.status : op.alloc_rights.status;
}

void nvz_rm_free(nvidia_stack_t *sp, u32 client, u32 object)
{
	struct nvz_op op = {
		.op = NVZ_OP_FREE,
		.free = { .client = client, .object = object },
	};

	might_sleep();
	rm_kernel_rmapi_op(sp, &op);
}

/* Maps an object of memory for the kernel. */
u32 nvz_rm_map(nvidia_stack_t *sp, u32 client, u32 device, u32 memory, u64 size, void **map)
{
	struct nvz_op op = {
		.op = NVZ_OP_MAP,
		.map = {
			.client = client,
			.device = device,
			.memory = memory,
			.length = size,
			.status = NV_ERR_GENERIC,
		},
	};

	might_sleep();
	rm_kernel_rmapi_op(sp, &op);
	*map = (void *)(unsigned long)op.map.address;
	return op.map.status;
}

void nvz_rm_unmap(nvidia_stack_t *sp, u32 client, u32 device, u32 memory, const void *map)
{
	struct nvz_op op = {
		.op = NVZ_OP_UNMAP,
		.unmap = {
			.client = client,
			.device = device,
			.memory = memory,
			.address = (unsigned long)map,
		},
	};

	might_sleep();
	rm_kernel_rmapi_op(sp, &op);
}

static u32 nvz_rm_info(nvidia_stack_t *sp, u32 client, u32 object, u32 index, u32 *result)
{
	struct nvz_handle_info info = { .object = object, .index = index };
	u32 status = nvz_rm_control(sp, client, client, NVZ_CTRL_HANDLE_INFO, &info, sizeof(info));

	if (status == NV_OK)
		*result = info.result;
	return status;
}

/* The handle of an object's parent. */
u32 nvz_rm_parent(nvidia_stack_t *sp, u32 client, u32 object, u32 *parent)
{
	return nvz_rm_info(sp, client, object, NVZ_INFO_PARENT, parent);
}

/* The class of an object. */
u32 nvz_rm_class(nvidia_stack_t *sp, u32 client, u32 object, u32 *class)
{
	return nvz_rm_info(sp, client, object, NVZ_INFO_CLASS, class);
}

/*
 * True if the core says clearly that an object is no more. A dependant of a freed object keeps its
 * handle, and even its class can be asked for; but a control, one of TSGs as good as any, finds
 * that it is lost before it finds out whether the object has that control. So this serves for
 * clients and devices, too: those that live answer that they have no such control.
 */
bool nvz_rm_gone(nvidia_stack_t *sp, u32 client, u32 object)
{
	u32 number = 0;

	return nvz_status_dead(nvz_rm_control(sp, client, object, NVZ_CTRL_TSG_INFO, &number,
					      sizeof(number)));
}

/*
 * True if the core takes the caller for the owner of a client: no other may free anything in it,
 * not even a missing object.
 */
bool nvz_rm_owner(nvidia_stack_t *sp, nv_state_t *nv, nv_file_private_t *nvfp, u32 client)
{
	struct nvz_esc_free nothing = { .client = client, .status = NV_ERR_GENERIC };
	u32 class;

	/* No tenant can have handles wherever this may look. */
	do {
		nothing.object = get_random_u32();
	} while (nvz_rm_class(sp, client, nothing.object, &class) == NV_OK);
	return rm_ioctl(sp, nv, nvfp, NVZ_ESC_FREE, &nothing, sizeof(nothing)) == NV_OK &&
	       nothing.status == NV_OK;
}

/* Keeps the driver awake until nvz_rm_release(): 0, or -EAGAIN it is suspended or about to be. */
int nvz_rm_stay(void)
{
	if (!down_read_trylock(&nv_system_pm_lock))
		return -EAGAIN;
	if (!down_read_trylock(&nvz_awake))
		goto unlock;
	if (!nvz_asleep)
		return 0;
	up_read(&nvz_awake);
unlock:
	up_read(&nv_system_pm_lock);
	return -EAGAIN;
}

/*
 * For callers that are in no ioctl: 0, -ENOMEM, as nvz_rm_stay(), or -EIO if the GPU did not come
 * back from a suspend.
 */
int nvz_rm_enter(nvidia_stack_t **sp, u32 gpu_id)
{
	int ret;

	might_sleep();
	if (nv_kmem_cache_alloc_stack(sp))
		return -ENOMEM;
	ret = nvz_rm_stay();
	if (!ret && nvz_gpu_failed(gpu_id)) {
		nvz_rm_release();
		ret = -EIO;
	}
	if (ret)
		nv_kmem_cache_free_stack(*sp);
	return ret;
}

void nvz_rm_leave(nvidia_stack_t *sp)
{
	nvz_rm_release();
	nv_kmem_cache_free_stack(sp);
}

/*
 * For calls that cannot be put off: waits while the driver is suspended. It does not wait for a
 * device that the PM core has suspended: user space is frozen then and makes no calls.
 */
void nvz_rm_hold(void)
{
	down_read(&nv_system_pm_lock);
	down_read(&nvz_awake);
}

void nvz_rm_release(void)
{
	up_read(&nvz_awake);
	up_read(&nv_system_pm_lock);
}

/* A device is about to be suspended; no control is under way any more. */
void nvz_rm_sleep(void)
{
	down_write(&nvz_awake);
	nvz_asleep++;
	up_write(&nvz_awake);
}

/* One that was suspended is back, or failed. */
void nvz_rm_wake(void)
{
	down_write(&nvz_awake);
	nvz_asleep--;
	up_write(&nvz_awake);
}
