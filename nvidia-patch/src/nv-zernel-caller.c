// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The process whose call is handed to the core: here the current one. Without the hook, calls are
 * recorded after the core has answered them, by somebody else (nvidia-patch/stock).
 */
#include "nv-zernel-private.h"

#include <linux/sched.h>
#include <linux/uaccess.h>

/* The file that the core takes a call to come from. */
nv_file_private_t *nvz_owner(nv_file_private_t *nvfp)
{
	nv_file_private_t *ctl = READ_ONCE(nvfp->ctl_nvfp);

	return ctl ? ctl : nvfp;
}

/* The caller, referenced. */
struct pid *nvz_caller_pid(enum pid_type type)
{
	return get_task_pid(current, type);
}

/* False: the caller's memory cannot be read. May sleep for as long as the caller likes. */
bool nvz_caller_read(void *to, u64 from, u32 size)
{
	return !copy_from_user(to, (void __user *)(unsigned long)from, size);
}

/* True if the core has not been asked yet, so that the call can still be refused. */
bool nvz_caller_waits(void)
{
	return true;
}

/* True if handles of the caller's client name the same objects as when the core looked them up. */
bool nvz_caller_ordered(void)
{
	return true;
}

/* Calls that were not seen, since load. */
u32 nvz_caller_unseen(void)
{
	return 0;
}

/* The version of the driver, and how calls are seen. */
void nvz_caller_describe(struct nv_zernel_gpu *gpu)
{
	strscpy(gpu->driver, NV_VERSION_STRING);
}
