/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The needs of the files of the hook, where they are a module beside an unpatched driver. Types of the
 * interface layer have members of their own here: the driver's are never looked into through them.
 */
#ifndef _NV_LINUX_H_
#define _NV_LINUX_H_

#include <linux/device.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/rwsem.h>
#include <linux/semaphore.h>

#include "nv.h"

/**
 * struct nv_linux_state_t - a GPU of the driver
 * @nv_state: as the files of the hook know it
 * @ldata_lock: nobody else's; the driver's own lock is out of reach
 * @dev: the GPU, referenced
 */
typedef struct nv_linux_state_t {
	nv_state_t nv_state;
	struct semaphore ldata_lock;
	struct device *dev;
} nv_linux_state_t;

#define NV_GET_NVL_FROM_NV_STATE(nv)	container_of(nv, nv_linux_state_t, nv_state)
#define NV_STATE_PTR(nvl)		(&(nvl)->nv_state)

/* Read like the driver's. Suspends are told of otherwise, so nobody writes it. */
extern struct rw_semaphore nv_system_pm_lock;

int nv_kmem_cache_alloc_stack(nvidia_stack_t **sp);
void nv_kmem_cache_free_stack(nvidia_stack_t *sp);

#endif /* _NV_LINUX_H_ */
