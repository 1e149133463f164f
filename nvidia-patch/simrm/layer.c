// SPDX-License-Identifier: GPL-2.0
/*
 * Calls of the interface layer to a resource manager besides objects: its start and end, GPUs that
 * come, start, sleep and go, and questions with short answers.
 */
#include <linux/ctype.h>
#include <linux/kernel.h>
#include <linux/pci_ids.h>
#include <linux/string.h>

#include "os-interface.h"
#include "nv.h"
#include "nvlink_export.h"
#include "nv-gpu-info.h"
#include "nv-hypervisor.h"

#include "simrm.h"
#include "versions.h"
#include "../stock/layout.h"

#define VENDOR_NVIDIA	0x10de
#define UUID_LENGTH	41

/* zernel_nvidia_stock.ko counts on these, in any version that it takes. */
static_assert(offsetof(struct nv_file_private_t, ctl_nvfp) == STOCK_FILE_CONTROL_AT);
static_assert(offsetof(nv_state_t, gpu_id) == STOCK_GPU_ID_AT);
static_assert(NV_POWER_STATE_RUNNING == STOCK_STATE_RUNNING);
static_assert(sizeof(nv_gpu_info_t) == STOCK_GPU_INFO_SIZE);

const char *pNVRM_ID = "software resource manager of the zernel tests";

NvBool NV_API_CALL rm_init_rm(nvidia_stack_t *sp)
{
	unsigned int gpu, engine;

	for (gpu = 0; gpu < SIMRM_MAX_GPUS; gpu++) {
		for (engine = 0; engine < RM_ENGINE_COUNT; engine++) {
			ida_init(&simrm_gpus[gpu].tsgs[engine]);
			ida_init(&simrm_gpus[gpu].channels[engine]);
		}
	}
	simrm_fecs_init();
	simrm_truth_init();
	return NV_TRUE;
}

void NV_API_CALL rm_shutdown_rm(nvidia_stack_t *sp)
{
	unsigned int gpu, engine;

	simrm_truth_exit();
	simrm_pin_exit();
	simrm_clients_exit();
	simrm_fecs_exit();
	for (gpu = 0; gpu < SIMRM_MAX_GPUS; gpu++) {
		for (engine = 0; engine < RM_ENGINE_COUNT; engine++) {
			WARN_ON(!ida_is_empty(&simrm_gpus[gpu].tsgs[engine]));
			WARN_ON(!ida_is_empty(&simrm_gpus[gpu].channels[engine]));
		}
	}
	WARN_ON(!list_empty(&simrm_tsgs));
}

NvBool NV_API_CALL rm_is_altstack_in_use(void)
{
	return NV_FALSE;
}

HYPERVISOR_TYPE NV_API_CALL nv_get_hypervisor_type(void)
{
	return OS_HYPERVISOR_UNKNOWN;
}

NvlStatus nvlink_lib_initialize(void)
{
	return NVL_SUCCESS;
}

NvlStatus nvlink_lib_unload(void)
{
	return NVL_SUCCESS;
}

NvBool NV_API_CALL rm_is_supported_pci_device(NvU8 class, NvU8 subclass, NvU16 vendor,
					      NvU16 device, NvU16 subvendor, NvU16 subdevice,
					      NvBool print)
{
	return class == PCI_BASE_CLASS_DISPLAY && vendor == VENDOR_NVIDIA;
}

/* The fake GPU's registers are there at once. */
NvBool NV_API_CALL rm_wait_for_bar_firewall(nvidia_stack_t *sp, NvU32 domain, NvU8 bus, NvU8 slot,
					    NvU8 function, NvU16 device, NvU16 subsystem)
{
	return NV_TRUE;
}

NV_STATUS NV_API_CALL rm_is_supported_device(nvidia_stack_t *sp, nv_state_t *nv)
{
	return RM_OK;
}

NvBool NV_API_CALL rm_init_private_state(nvidia_stack_t *sp, nv_state_t *nv)
{
	unsigned int i;
	NvBool found = NV_FALSE;

	down_write(&simrm_api);
	for (i = 0; i < SIMRM_MAX_GPUS && !found; i++) {
		if (simrm_gpus[i].nv)
			continue;
		simrm_gpus[i].nv = nv;
		simrm_gpus[i].instance = i;
		simrm_gpus[i].id = nv->pci_info.domain << 16 | nv->pci_info.bus << 8 |
				   nv->pci_info.slot;
		nv->gpu_id = simrm_gpus[i].id;
		found = NV_TRUE;
	}
	up_write(&simrm_api);
	return found;
}

void NV_API_CALL rm_free_private_state(nvidia_stack_t *sp, nv_state_t *nv)
{
	struct simrm_gpu *gpu = simrm_gpu_of(nv);

	if (!gpu)
		return;
	simrm_gpu_free_objects(gpu);
	down_write(&simrm_api);
	gpu->nv = NULL;
	up_write(&simrm_api);
}

/* No client waits for the news. */
void NV_API_CALL rm_notify_gpu_addition(nvidia_stack_t *sp, nv_state_t *nv)
{
}

void NV_API_CALL rm_notify_gpu_removal(nvidia_stack_t *sp, nv_state_t *nv)
{
}

NvBool NV_API_CALL rm_init_adapter(nvidia_stack_t *sp, nv_state_t *nv)
{
	struct simrm_gpu *gpu = simrm_gpu_of(nv);

	if (simrm_fault(SIMRM_ON_START, 0, true) != RM_OK)
		return NV_FALSE;
	if (!nv->regs->map)
		nv->regs->map = os_map_kernel_space(nv->regs->cpu_address, nv->regs->size,
						    NV_MEMORY_UNCACHED);
	if (!nv->regs->map)
		return NV_FALSE;
	down_write(&simrm_api);
	gpu->started = true;
	gpu->regs = nv->regs->map;
	gpu->regs_size = nv->regs->size;
	simrm_engine_started(gpu);
	up_write(&simrm_api);
	return NV_TRUE;
}

/* A GPU that stops takes the devices on it along, in any client. */
void NV_API_CALL rm_disable_adapter(nvidia_stack_t *sp, nv_state_t *nv)
{
	simrm_gpu_free_objects(simrm_gpu_of(nv));
}

void NV_API_CALL rm_shutdown_adapter(nvidia_stack_t *sp, nv_state_t *nv)
{
	struct simrm_gpu *gpu = simrm_gpu_of(nv);

	simrm_gpu_free_objects(gpu);
	down_write(&simrm_api);
	if (gpu->regs)
		simrm_engine_stopped(gpu);
	gpu->regs = NULL;
	up_write(&simrm_api);
	if (nv->regs->map)
		os_unmap_kernel_space(nv->regs->map, nv->regs->size);
	nv->regs->map = NULL;
}

NV_STATUS NV_API_CALL rm_get_adapter_status_external(nvidia_stack_t *sp, nv_state_t *nv)
{
	return RM_OK;
}

/* TSGs keep their state while the machine sleeps, as the driver restores it. */
NV_STATUS NV_API_CALL rm_power_management(nvidia_stack_t *sp, nv_state_t *nv, nv_pm_action_t action)
{
	struct simrm_gpu *gpu = simrm_gpu_of(nv);
	u32 status = simrm_fault(SIMRM_ON_POWER, action, true);

	if (status != RM_OK)
		return status;
	down_write(&simrm_api);
	gpu->suspended = action != NV_PM_ACTION_RESUME;
	simrm_engine_suspended(gpu);
	up_write(&simrm_api);
	return RM_OK;
}

NV_STATUS NV_API_CALL rm_stop_user_channels(nvidia_stack_t *sp, nv_state_t *nv)
{
	return RM_OK;
}

NV_STATUS NV_API_CALL rm_restart_user_channels(nvidia_stack_t *sp, nv_state_t *nv)
{
	return RM_OK;
}

NV_STATUS NV_API_CALL rm_ref_dynamic_power(nvidia_stack_t *sp, nv_state_t *nv,
					   nv_dynamic_power_mode_t mode)
{
	return RM_OK;
}

void NV_API_CALL rm_unref_dynamic_power(nvidia_stack_t *sp, nv_state_t *nv,
					nv_dynamic_power_mode_t mode)
{
}

void NV_API_CALL rm_init_dynamic_power_management(nvidia_stack_t *sp, nv_state_t *nv, NvBool acpi)
{
}

void NV_API_CALL rm_enable_dynamic_power_management(nvidia_stack_t *sp, nv_state_t *nv)
{
}

void NV_API_CALL rm_cleanup_dynamic_power_management(nvidia_stack_t *sp, nv_state_t *nv)
{
}

void NV_API_CALL rm_request_dnotifier_state(nvidia_stack_t *sp, nv_state_t *nv)
{
}

void NV_API_CALL rm_set_rm_firmware_requested(nvidia_stack_t *sp, nv_state_t *nv)
{
}

void NV_API_CALL rm_check_for_gpu_surprise_removal(nvidia_stack_t *sp, nv_state_t *nv)
{
}

void NV_API_CALL rm_i2c_remove_adapters(nvidia_stack_t *sp, nv_state_t *nv)
{
}

NvBool NV_API_CALL rm_get_device_remove_flag(nvidia_stack_t *sp, NvU32 gpu_id)
{
	return NV_FALSE;
}

NvBool NV_API_CALL rm_is_device_sequestered(nvidia_stack_t *sp, nv_state_t *nv)
{
	return NV_FALSE;
}

NvBool NV_API_CALL rm_init_event_locks(nvidia_stack_t *sp, nv_state_t *nv)
{
	return NV_TRUE;
}

void NV_API_CALL rm_destroy_event_locks(nvidia_stack_t *sp, nv_state_t *nv)
{
}

/* The fake GPU interrupts nobody; a line that is shared may. */
NvBool NV_API_CALL rm_isr(nvidia_stack_t *sp, nv_state_t *nv, NvU32 *bottom_half)
{
	*bottom_half = 0;
	return NV_FALSE;
}

NV_STATUS NV_API_CALL rm_gpu_handle_mmu_faults(nvidia_stack_t *sp, nv_state_t *nv, NvU32 *count)
{
	*count = 0;
	return RM_OK;
}

NvBool NV_API_CALL rm_is_msix_allowed(nvidia_stack_t *sp, nv_state_t *nv)
{
	return NV_FALSE;
}

char * NV_API_CALL rm_get_gpu_uuid(nvidia_stack_t *sp, nv_state_t *nv)
{
	const struct simrm_gpu *gpu = simrm_gpu_of(nv);
	void *text;

	if (!gpu || os_alloc_mem(&text, UUID_LENGTH) != RM_OK)
		return NULL;
	snprintf(text, UUID_LENGTH, "GPU-00000000-0000-0000-0000-0000%08x", gpu->id);
	return text;
}

const NvU8 * NV_API_CALL rm_get_gpu_uuid_raw(nvidia_stack_t *sp, nv_state_t *nv)
{
	return NULL;
}

const char * NV_API_CALL rm_get_device_name(NvU16 device, NvU16 vendor, NvU16 subdevice)
{
	return "zernel test GPU";
}

void NV_API_CALL rm_get_vbios_version(nvidia_stack_t *sp, nv_state_t *nv, char *version)
{
	strscpy(version, "??.??.??.??.??", 15);
}

void NV_API_CALL rm_get_firmware_version(nvidia_stack_t *sp, nv_state_t *nv, char *version,
					 NvLength size)
{
	strscpy(version, "N/A", size);
}

NV_STATUS NV_API_CALL rm_perform_version_check(nvidia_stack_t *sp, void *data, NvU32 size)
{
	return RM_OK;
}

/* The registry of the driver: what its module parameters say, of which one matters. */
NV_STATUS NV_API_CALL rm_read_registry_dword(nvidia_stack_t *sp, nv_state_t *nv, const char *name,
					     NvU32 *value)
{
	if (strcmp(name, "EnableMSI"))
		return RM_OBJECT_NOT_FOUND;
	*value = 1;
	return RM_OK;
}

NV_STATUS NV_API_CALL rm_write_registry_dword(nvidia_stack_t *sp, nv_state_t *nv, const char *name,
					      NvU32 value)
{
	return RM_OK;
}

NV_STATUS NV_API_CALL rm_write_registry_string(nvidia_stack_t *sp, nv_state_t *nv,
					       const char *name, const char *value, NvU32 size)
{
	return RM_OK;
}

void NV_API_CALL rm_parse_option_string(nvidia_stack_t *sp, const char *options)
{
}

char * NV_API_CALL rm_remove_spaces(const char *text)
{
	void *copy;
	char *to;

	if (os_alloc_mem(&copy, strlen(text) + 1) != RM_OK)
		return NULL;
	for (to = copy; *text; text++) {
		if (!isspace(*text))
			*to++ = *text;
	}
	*to = '\0';
	return copy;
}
