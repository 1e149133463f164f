/* SPDX-License-Identifier: GPL-2.0 */
/* Exports of nvidia.ko, with what coreprobe.c needs to know of their types. */
#ifndef COREPROBE_H
#define COREPROBE_H

#include <linux/types.h>

/* As nvidia-modeset.ko is handed them. */
struct operations {
	const char *version;
	u8 write_combining;
	int (*alloc_stack)(void **sp);
	void (*free_stack)(void *sp);
	u32 (*enumerate_gpus)(void *info);
	void *open_gpu, *close_gpu;
	void (*op)(void *sp, void *op);
	void *set_callbacks;
};

/* Exported by nvidia.ko. */
u32 nvidia_get_rm_ops(struct operations *operations);
u32 nvUvmInterfaceSessionCreate(void **session, void *platform);
u32 nvUvmInterfaceSessionDestroy(void *session);
u32 nvUvmInterfaceRetainChannel(void *space, u32 client, u32 channel, void **retained, void *info);

#endif /* COREPROBE_H */
