/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions of the resource manager that the interface layer of one version of the driver declares
 * and calls, and that of another does not.
 */
#ifndef SIMRM_VERSIONS_H
#define SIMRM_VERSIONS_H

#include "nv.h"

/* 550 */
void NV_API_CALL rm_get_vbios_version(nvidia_stack_t *sp, nv_state_t *nv, char *version);
void NV_API_CALL rm_get_firmware_version(nvidia_stack_t *sp, nv_state_t *nv, char *version,
					 NvLength size);

/* 595 */
NV_STATUS NV_API_CALL rm_validate_ioctls(NvU32 cmd, NvU32 size);
NvBool NV_API_CALL rm_wait_for_bar_firewall(nvidia_stack_t *sp, NvU32 domain, NvU8 bus, NvU8 slot,
					    NvU8 function, NvU16 device, NvU16 subsystem);
void NV_API_CALL rm_notify_gpu_addition(nvidia_stack_t *sp, nv_state_t *nv);
void NV_API_CALL rm_notify_gpu_removal(nvidia_stack_t *sp, nv_state_t *nv);

#endif /* SIMRM_VERSIONS_H */
