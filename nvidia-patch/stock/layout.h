/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Where the driver has what the probes read: the same in the versions that the module takes. Builds
 * of the interface layer with the software resource manager check it against the driver's headers.
 */
#ifndef STOCK_LAYOUT_H
#define STOCK_LAYOUT_H

#define STOCK_FILE_CONTROL_AT		88	/* nv_file_private_t.ctl_nvfp */
#define STOCK_GPU_ID_AT			36	/* nv_state_t.gpu_id */
#define STOCK_STATE_RUNNING		2	/* NV_POWER_STATE_RUNNING */
#define STOCK_GPU_INFO_SIZE		24	/* sizeof(nv_gpu_info_t) */

#endif /* STOCK_LAYOUT_H */
