// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * zernel's own clients on a GPU. One holds the run lists' policy, which goes with it. The other is
 * for controls of the GPU that name channels of tenants, who cannot take that one away.
 */
#include "nv-zernel-private.h"
#include "nv-zernel-compat.h"

#include <linux/pm_runtime.h>
#include <linux/slab.h>

#define NVZ_POLICY_INTERLEAVED	1

struct nvz_gpu_id_info {
	u32 gpu_id, flags, device_instance, subdevice_instance, sli, board, gpu_instance, numa;
};

struct nvz_device_params {
	u32 device, client_share, target_client, target_device, flags, pad;
	u64 va_size, va_start, va_limit;
	u32 va_mode, pad2;
};

struct nvz_subdevice_params {
	u32 subdevice;
};

struct nvz_runlist_policy {
	u32 flags, policy;
};

/* A new client with a device and a subdevice of the GPU. */
u32 nvz_own_make(nvidia_stack_t *sp, u32 gpu_id, u32 *own)
{
	struct nvz_gpu_id_info info = { .gpu_id = gpu_id };
	u32 device = NVZ_OWN_DEVICE, subdevice = NVZ_OWN_SUBDEVICE;
	struct nvz_subdevice_params subdevice_params = {};
	struct nvz_device_params device_params = {};
	u32 client = 0, made = 0, status;

	status = nvz_rm_alloc(sp, 0, 0, &client, NVZ_CLASS_ROOT, &made);
	if (status != NV_OK)
		return status;
	if (!client)
		client = made;
	status = nvz_rm_control(sp, client, client, NVZ_CTRL_GPU_ID_INFO, &info, sizeof(info));
	if (status != NV_OK)
		goto fail;
	device_params.device = info.device_instance;
	device_params.client_share = client;
	status = nvz_rm_alloc(sp, client, client, &device, NVZ_CLASS_DEVICE, &device_params);
	if (status != NV_OK)
		goto fail;
	subdevice_params.subdevice = info.subdevice_instance;
	status = nvz_rm_alloc(sp, client, device, &subdevice, NVZ_CLASS_SUBDEVICE,
			      &subdevice_params);
	if (status != NV_OK)
		goto fail;
	*own = client;
	return NV_OK;

fail:
	nvz_rm_free(sp, client, client);
	return status;
}

/* A control of the device, subdevice or ring, by its class, in a client of nvz_own_make(). */
u32 nvz_own_control(nvidia_stack_t *sp, u32 own, u32 cmd, void *params, u32 size)
{
	u32 object = NVZ_OWN_SUBDEVICE;

	if (cmd >> 16 == NVZ_CLASS_DEVICE)
		object = NVZ_OWN_DEVICE;
	else if (cmd >> 16 == NVZ_CLASS_EVENT_BUFFER)
		object = NVZ_OWN_RING;
	return nvz_rm_control(sp, own, object, cmd, params, size);
}

/* Sets the policy with a new client, @own; nothing has changed when that fails. */
static u32 nvz_policy_make(nvidia_stack_t *sp, u32 gpu_id, u32 *own)
{
	struct nvz_runlist_policy policy = { .policy = NVZ_POLICY_INTERLEAVED };
	u32 client, status;

	status = nvz_own_make(sp, gpu_id, &client);
	if (status != NV_OK)
		return status;
	status = nvz_own_control(sp, client, NVZ_CTRL_RUNLIST_POLICY, &policy, sizeof(policy));
	if (status != NV_OK) {
		nvz_rm_free(sp, client, client);
		return status;
	}
	*own = client;
	return NV_OK;
}

/* With the client of the policy, the run lists get theirs back. */
static void nvz_own_free(u32 client)
{
	nvidia_stack_t *sp = NULL;

	if (nv_kmem_cache_alloc_stack(&sp)) {
		nv_printf(NV_DBG_ERRORS, "NVRM: zernel's client 0x%x is left over: no memory\n",
			  client);
		return;
	}
	nvz_rm_free(sp, client, client);
	nv_kmem_cache_free_stack(sp);
}

/* Frees a client of zernel, if it is there. */
static void nvz_own_drop(u32 *client)
{
	lockdep_assert_held(&nvz_own_lock);
	if (*client)
		nvz_own_free(*client);
	*client = 0;
}

/* Nobody reads them any more when this returns. */
void nvz_registers_drop(struct nvz_gpu *gpu)
{
	struct nvz_registers *registers = gpu->registers;

	lockdep_assert_held(&nvz_own_lock);
	mutex_lock(&nvz_table_lock);
	gpu->registers = NULL;
	mutex_unlock(&nvz_table_lock);
	nvz_registers_free(registers);
}

/*
 * 0, -ENOENT the GPU is not there or not started, -EIO it is being pulled out or did not come back
 * from a suspend, -EHOSTDOWN it sleeps.
 */
int nvz_vigil_begin(struct nvz_vigil *vigil, u32 gpu_id)
{
	const struct nvz_gpu *gpu;
	int ret = 0, active;

	mutex_lock(&nvz_own_lock);
	gpu = nvz_gpu_find(gpu_id);
	if (!gpu || !gpu->started) {
		ret = -ENOENT;
	} else if (nvz_nv_away(gpu->nv)) {
		ret = -EIO;
	} else {
		vigil->dev = NV_GET_NVL_FROM_NV_STATE(gpu->nv)->dev;
		/* -EINVAL: nobody manages its power. */
		active = nv_zernel_get_if_active(vigil->dev);
		vigil->held = active > 0;
		if (active)
			get_device(vigil->dev);
		else
			ret = -EHOSTDOWN;
	}
	mutex_unlock(&nvz_own_lock);
	return ret;
}

void nvz_vigil_end(const struct nvz_vigil *vigil)
{
	if (vigil->held)
		pm_runtime_put(vigil->dev);
	put_device(vigil->dev);
}

/* Stores @registers, if nobody has been faster, and takes them over then. As nvz_gpu_learn(). */
static int nvz_registers_store(u32 gpu_id, const struct device *dev,
			       struct nvz_registers **registers)
{
	struct nvz_gpu *gpu;
	int ret = 0;

	mutex_lock(&nvz_own_lock);
	gpu = nvz_gpu_find(gpu_id);
	if (!gpu || !gpu->started || NV_GET_NVL_FROM_NV_STATE(gpu->nv)->dev != dev) {
		ret = -ENOENT;
	} else if (!gpu->registers) {
		ret = nvz_registers_open(*registers, gpu->nv);
		if (!ret) {
			mutex_lock(&nvz_table_lock);
			swap(gpu->registers, *registers);
			mutex_unlock(&nvz_table_lock);
		}
	}
	mutex_unlock(&nvz_own_lock);
	return ret;
}

/*
 * Asks the core for the registers of a GPU, once for each start and resume of it. 0, -ENOENT it is
 * not there or not started, -EHOSTDOWN it sleeps, and is not woken, -EIO, -EAGAIN not now, -ENOMEM.
 */
int nvz_gpu_learn(u32 gpu_id)
{
	struct nvz_registers *registers;
	struct nvz_vigil vigil;
	nvidia_stack_t *sp;
	int ret;

	ret = nvz_rm_enter(&sp, gpu_id);
	if (ret)
		return ret;
	ret = nvz_vigil_begin(&vigil, gpu_id);
	if (ret)
		goto leave;
	registers = nvz_registers_learn(sp, gpu_id);
	if (IS_ERR(registers)) {
		ret = PTR_ERR(registers);
	} else {
		ret = nvz_registers_store(gpu_id, vigil.dev, &registers);
		kfree(registers);
	}
	nvz_vigil_end(&vigil);
leave:
	nvz_rm_leave(sp);
	return ret;
}

/*
 * Frees zernel's clients on the GPU, and lets go of its registers; the run lists get their policy
 * back. The caller is in a call of the driver that keeps suspends away as far as that is needed, or
 * holds the power lock.
 */
void nvz_gpu_let_go(struct nvz_gpu *gpu)
{
	nvz_rings_drop(gpu);
	nvz_registers_drop(gpu);
	nvz_own_drop(&gpu->policy);
	nvz_own_drop(&gpu->hand);
}

/* The policy is given back for certain, or it would outlive zernel. */
static int nvz_policy_off(u32 gpu_id, u32 *status)
{
	struct nvz_gpu *gpu;

	nvz_rm_hold();
	mutex_lock(&nvz_own_lock);
	gpu = nvz_gpu_find(gpu_id);
	if (gpu && gpu->started) {
		nvz_own_drop(&gpu->policy);
		nvz_own_drop(&gpu->hand);
		*status = NV_OK;
	} else {
		gpu = NULL;
	}
	mutex_unlock(&nvz_own_lock);
	nvz_rm_release();
	return gpu ? 0 : -ENOENT;
}

int nv_zernel_runlists_interleave(u32 gpu_id, bool on, u32 *status)
{
	struct nvz_gpu *gpu;
	nvidia_stack_t *sp;
	int ret;

	might_sleep();
	if (!on)
		return nvz_policy_off(gpu_id, status);
	ret = nvz_rm_enter(&sp, gpu_id);
	if (ret)
		return ret;
	mutex_lock(&nvz_own_lock);
	gpu = nvz_gpu_find(gpu_id);
	if (gpu && gpu->started)
		*status = gpu->policy ? NV_OK : nvz_policy_make(sp, gpu_id, &gpu->policy);
	else
		ret = -ENOENT;
	mutex_unlock(&nvz_own_lock);
	nvz_rm_leave(sp);
	return ret;
}
EXPORT_SYMBOL_GPL(nv_zernel_runlists_interleave);

/*
 * A control of the GPU by zernel's own device or subdevice. Status of the core. Its client is not kept: when
 * the GPU is stopped meanwhile, the core finds that it is no more.
 */
u32 nvz_gpu_control(nvidia_stack_t *sp, u32 gpu_id, u32 cmd, void *params, u32 size)
{
	u32 status = NV_ERR_INVALID_STATE, hand = 0;
	struct nvz_gpu *gpu;

	mutex_lock(&nvz_own_lock);
	gpu = nvz_gpu_find(gpu_id);
	if (gpu && gpu->started) {
		status = gpu->hand ? NV_OK : nvz_own_make(sp, gpu_id, &gpu->hand);
		hand = gpu->hand;
	}
	mutex_unlock(&nvz_own_lock);
	return status == NV_OK ? nvz_own_control(sp, hand, cmd, params, size) : status;
}
