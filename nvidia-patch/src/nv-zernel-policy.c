// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * zernel's own client on a GPU: it holds the run lists' policy, which goes with it.
 */
#include "nv-zernel-private.h"

/* Handles in the client of zernel, which has nothing else. */
#define NVZ_OWN_DEVICE		0x7a650080U
#define NVZ_OWN_SUBDEVICE	0x7a652080U

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

/* Sets the policy with a new client, @own; nothing has changed when that fails. */
u32 nvz_policy_make(nvidia_stack_t *sp, u32 gpu_id, u32 *own)
{
	struct nvz_runlist_policy policy = { .policy = NVZ_POLICY_INTERLEAVED };
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
	status = nvz_rm_control(sp, client, subdevice, NVZ_CTRL_RUNLIST_POLICY, &policy,
				sizeof(policy));
	if (status != NV_OK)
		goto fail;
	*own = client;
	return NV_OK;

fail:
	nvz_rm_free(sp, client, client);
	return status;
}

/* The run lists get their policy back. */
void nvz_policy_free(u32 client)
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
