// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The registered observer, and the GPUs of the driver.
 *
 * The list of GPUs changes under the GPU, own and table locks, so each of them is enough
 * to read it. gpu_added and gpu_removed are called under the GPU lock alone, because the
 * listener may wait there for its own controls, which take the other two.
 */
#include "nv-zernel-private.h"

#include <linux/slab.h>
#include <linux/srcu.h>

static DEFINE_MUTEX(nvz_register_lock);
static DEFINE_MUTEX(nvz_gpu_lock);
DEFINE_MUTEX(nvz_own_lock);
static LIST_HEAD(nvz_gpus);

/*
 * Changes under the GPU lock and the table lock, and while nobody is in the
 * SRCU section of user_control.
 */
struct nvz_listener nvz_listener;
static u32 nvz_suspends;	/* why the driver answers no control; GPU lock */
static struct nvz_listener __rcu *nvz_listening;
DEFINE_STATIC_SRCU(nvz_srcu);

struct nvz_gpu *nvz_gpu_find(u32 gpu_id)
{
	struct nvz_gpu *gpu;

	list_for_each_entry(gpu, &nvz_gpus, list) {
		if (gpu->desc.gpu_id == gpu_id)
			return gpu;
	}
	return NULL;
}

/* The next one in the list; of NULL, the first one. NULL: there is none. */
struct nvz_gpu *nvz_gpu_after(struct nvz_gpu *gpu)
{
	gpu = list_prepare_entry(gpu, &nvz_gpus, list);
	gpu = list_next_entry(gpu, list);
	return list_entry_is_head(gpu, &nvz_gpus, list) ? NULL : gpu;
}

static struct nvz_gpu *nvz_gpu_of(const nv_state_t *nv)
{
	struct nvz_gpu *gpu;

	list_for_each_entry(gpu, &nvz_gpus, list) {
		if (gpu->nv == nv)
			return gpu;
	}
	return NULL;
}

bool nvz_gpu_known(u32 gpu_id)
{
	lockdep_assert_held(&nvz_table_lock);
	return nvz_gpu_find(gpu_id);
}

/* True if the GPU did not come back from a suspend. The driver is awake, and kept so. */
bool nvz_gpu_failed(u32 gpu_id)
{
	struct nvz_gpu *gpu;
	bool failed;

	mutex_lock(&nvz_table_lock);
	gpu = nvz_gpu_find(gpu_id);
	failed = gpu && READ_ONCE(gpu->nv->flags) & NV_FLAG_SUSPENDED;
	mutex_unlock(&nvz_table_lock);
	return failed;
}

/* Returns the number of GPUs; @ids gets the first @max of them. */
u32 nvz_gpu_ids(u32 *ids, u32 max)
{
	struct nvz_gpu *gpu;
	u32 count = 0;

	lockdep_assert_held(&nvz_table_lock);
	list_for_each_entry(gpu, &nvz_gpus, list) {
		if (count < max)
			ids[count] = gpu->desc.gpu_id;
		count++;
	}
	return count;
}

/* The GPU is in the driver's list: it was bound, or kept although it was to go. */
void nv_zernel_gpu_added(nv_state_t *nv)
{
	nv_linux_state_t *nvl = NV_GET_NVL_FROM_NV_STATE(nv);
	struct nvz_gpu *gpu;
	const char *name;

	gpu = kzalloc(sizeof(*gpu), GFP_KERNEL);
	mutex_lock(&nvz_gpu_lock);
	if (!gpu || nvz_gpu_find(nv->gpu_id)) {
		if (!gpu)
			nv_printf(NV_DBG_ERRORS, "NVRM: zernel cannot follow GPU 0x%x: no memory\n",
				  nv->gpu_id);
		kfree(gpu);
		mutex_unlock(&nvz_gpu_lock);
		return;
	}
	INIT_LIST_HEAD(&gpu->rings);
	gpu->nv = nv;
	gpu->desc.size = sizeof(gpu->desc);
	gpu->desc.gpu_id = nv->gpu_id;
	name = rm_get_device_name(nv->pci_info.device_id, nv->subsystem_vendor, nv->subsystem_id);
	strscpy(gpu->desc.name, name ? name : "NVIDIA GPU");
	strscpy(gpu->desc.bus, nvl->dev ? dev_name(nvl->dev) : "");
	nvz_caller_describe(&gpu->desc);
	if (nvz_listener.ops)
		nvz_listener.ops->gpu_added(nvz_listener.priv, &gpu->desc);
	/* The flag of a GPU that is about to stop is taken back after the hook was told. */
	down(&nvl->ldata_lock);
	mutex_lock(&nvz_own_lock);
	gpu->started = nv->flags & NV_FLAG_INITIALIZED;
	mutex_lock(&nvz_table_lock);
	list_add_tail(&gpu->list, &nvz_gpus);
	nvz_gpu_announce(gpu->desc.gpu_id);
	mutex_unlock(&nvz_table_lock);
	mutex_unlock(&nvz_own_lock);
	up(&nvl->ldata_lock);
	mutex_unlock(&nvz_gpu_lock);
}

/* Of a GPU; NULL: the core is still to be asked. */
struct nvz_registers *nvz_gpu_registers(u32 gpu_id, nv_state_t **nv)
{
	struct nvz_gpu *gpu;

	lockdep_assert_held(&nvz_table_lock);
	gpu = nvz_gpu_find(gpu_id);
	if (!gpu)
		return NULL;
	*nv = gpu->nv;
	return gpu->registers;
}

static void nvz_let_go_of_all(void)
{
	struct nvz_gpu *gpu;

	nvz_rm_hold();
	mutex_lock(&nvz_own_lock);
	list_for_each_entry(gpu, &nvz_gpus, list)
		nvz_gpu_let_go(gpu);
	mutex_unlock(&nvz_own_lock);
	nvz_rm_release();
}

/* The driver answers no control from now on; told for the first reason. */
static void nvz_tell_suspended(void)
{
	lockdep_assert_held(&nvz_gpu_lock);
	if (nvz_suspends++)
		return;
	if (nvz_listener.ops)
		nvz_listener.ops->suspended(nvz_listener.priv);
	nvz_rings_stop(true);
}

/* It does again, when the last reason is gone. */
static void nvz_tell_resumed(void)
{
	lockdep_assert_held(&nvz_gpu_lock);
	if (--nvz_suspends)
		return;
	nvz_rings_stop(false);
	if (nvz_listener.ops)
		nvz_listener.ops->resumed(nvz_listener.priv);
}

static void nvz_gpu_wake(struct nvz_gpu *gpu)
{
	if (!gpu->asleep)
		return;
	gpu->asleep--;
	nvz_rm_wake();
	nvz_tell_resumed();
}

/*
 * Objects of user space on it stay in the table until they are freed or the GPU is stopped, because
 * the driver may keep the GPU after all.
 */
void nv_zernel_gpu_removed(nv_state_t *nv)
{
	struct nvz_gpu *gpu;

	mutex_lock(&nvz_gpu_lock);
	gpu = nvz_gpu_of(nv);
	if (gpu) {
		mutex_lock(&nvz_own_lock);
		nvz_gpu_let_go(gpu);
		mutex_lock(&nvz_table_lock);
		list_del(&gpu->list);
		nvz_gpu_withdraw(nv->gpu_id);
		mutex_unlock(&nvz_table_lock);
		mutex_unlock(&nvz_own_lock);
		if (nvz_listener.ops)
			nvz_listener.ops->gpu_removed(nvz_listener.priv, nv->gpu_id);
		/* One that went while the machine slept will not come back. */
		while (gpu->asleep)
			nvz_gpu_wake(gpu);
		kfree(gpu);
	}
	mutex_unlock(&nvz_gpu_lock);
}

void nv_zernel_gpu_started(nv_state_t *nv)
{
	struct nvz_gpu *gpu;

	mutex_lock(&nvz_own_lock);
	gpu = nvz_gpu_of(nv);
	if (gpu)
		gpu->started = true;
	mutex_unlock(&nvz_own_lock);
}

/*
 * The core is about to forget the GPU, with all remaining objects of user space on it.
 * The device's locks are held, so this waits for no control: one that is under way
 * gets the core's own error.
 *
 * One that was pulled out is stopped when its last user leaves. By then another one may be in its
 * place, with its number, and entries under that number may be the other one's: the rest show as
 * dead when they are used.
 */
void nv_zernel_gpu_stopped(nv_state_t *nv)
{
	struct nvz_gpu *gpu;
	bool replaced;

	mutex_lock(&nvz_own_lock);
	gpu = nvz_gpu_of(nv);
	replaced = !gpu && nvz_gpu_find(nv->gpu_id);
	if (gpu) {
		gpu->started = false;
		nvz_gpu_let_go(gpu);
	}
	mutex_unlock(&nvz_own_lock);
	if (replaced)
		return;

	mutex_lock(&nvz_table_lock);
	nvz_gpu_drop_devices(nv->gpu_id);
	nvz_tell();
	mutex_unlock(&nvz_table_lock);
}

void nv_zernel_suspended(void)
{
	mutex_lock(&nvz_gpu_lock);
	nvz_tell_suspended();
	mutex_unlock(&nvz_gpu_lock);
}

/* The core may have mapped the registers of a GPU anew, and may have records for it now. */
static void nvz_gpu_renew(struct nvz_gpu *gpu)
{
	mutex_lock(&nvz_own_lock);
	nvz_registers_drop(gpu);
	nvz_rings_drop(gpu);
	mutex_unlock(&nvz_own_lock);
}

void nv_zernel_resumed(void)
{
	struct nvz_gpu *gpu;

	mutex_lock(&nvz_gpu_lock);
	list_for_each_entry(gpu, &nvz_gpus, list)
		nvz_gpu_renew(gpu);
	nvz_tell_resumed();
	mutex_unlock(&nvz_gpu_lock);
}

static struct nvz_gpu *nvz_gpu_of_device(struct device *dev)
{
	nv_linux_state_t *nvl = dev_get_drvdata(dev);

	return nvl ? nvz_gpu_of(NV_STATE_PTR(nvl)) : NULL;
}

/*
 * The PM core suspends a device, perhaps in the middle of a suspend through
 * /proc/driver/nvidia/suspend: then both must be over again. Newer drivers leave a device with a
 * failed suspend as suspended, and resume it at once. A device without users is not suspended at
 * all, and may not be resumed either.
 */
NV_STATUS nv_zernel_device_suspend(NV_STATUS (*suspend)(struct device *, nv_pm_action_t, NvBool),
				   struct device *dev, nv_pm_action_t action, NvBool procfs)
{
	struct nvz_gpu *gpu;
	NV_STATUS status;

	mutex_lock(&nvz_gpu_lock);
	gpu = nvz_gpu_of_device(dev);
	if (gpu) {
		gpu->asleep++;
		nvz_tell_suspended();
		nvz_rm_sleep();
	}
	mutex_unlock(&nvz_gpu_lock);

	status = suspend(dev, action, procfs);

	mutex_lock(&nvz_gpu_lock);
	gpu = nvz_gpu_of_device(dev);
	if (gpu && !(gpu->nv->flags & NV_FLAG_SUSPENDED))
		nvz_gpu_wake(gpu);
	mutex_unlock(&nvz_gpu_lock);
	return status;
}

/* A device with a failed resume may never come back: it alone stays out of reach. */
NV_STATUS nv_zernel_device_resume(NV_STATUS (*resume)(struct device *, nv_pm_action_t),
				  struct device *dev, nv_pm_action_t action)
{
	NV_STATUS status = resume(dev, action);
	struct nvz_gpu *gpu;

	mutex_lock(&nvz_gpu_lock);
	gpu = nvz_gpu_of_device(dev);
	if (gpu) {
		if (status == NV_OK)
			nvz_gpu_renew(gpu);
		nvz_gpu_wake(gpu);
	}
	mutex_unlock(&nvz_gpu_lock);
	return status;
}

bool nvz_listening_now(void)
{
	return rcu_access_pointer(nvz_listening);
}

/* False: there is no listener. True: it stays until nvz_listener_leave(@cookie). */
bool nvz_listener_enter(struct nvz_listener *listener, int *cookie)
{
	const struct nvz_listener *now;

	*cookie = srcu_read_lock(&nvz_srcu);
	now = srcu_dereference(nvz_listening, &nvz_srcu);
	if (now) {
		*listener = *now;
		return true;
	}
	srcu_read_unlock(&nvz_srcu, *cookie);
	return false;
}

void nvz_listener_leave(int cookie)
{
	srcu_read_unlock(&nvz_srcu, cookie);
}

static bool nvz_ops_complete(const struct nv_zernel_ops *ops)
{
	return ops->size >= sizeof(*ops) && ops->gpu_added && ops->gpu_removed &&
	       ops->tsg_added && ops->tsg_changed && ops->tsg_removed && ops->user_control &&
	       ops->user_controlled && ops->suspended && ops->resumed;
}

int nv_zernel_register(const struct nv_zernel_ops *ops, void *priv)
{
	struct nvz_gpu *gpu;
	int ret = -EBUSY;

	if (!ops || ops->size < offsetofend(struct nv_zernel_ops, abi))
		return -EINVAL;
	if (ops->abi != NV_ZERNEL_ABI)
		return -EPROTO;
	if (!nvz_ops_complete(ops))
		return -EINVAL;

	mutex_lock(&nvz_register_lock);
	mutex_lock(&nvz_gpu_lock);
	if (!nvz_listener.ops) {
		list_for_each_entry(gpu, &nvz_gpus, list)
			ops->gpu_added(priv, &gpu->desc);
		mutex_lock(&nvz_table_lock);
		nvz_listener.ops = ops;
		nvz_listener.priv = priv;
		rcu_assign_pointer(nvz_listening, &nvz_listener);
		nvz_tsg_announce_all();
		mutex_unlock(&nvz_table_lock);
		ret = 0;
	}
	mutex_unlock(&nvz_gpu_lock);
	mutex_unlock(&nvz_register_lock);
	return ret;
}
EXPORT_SYMBOL_GPL(nv_zernel_register);

void nv_zernel_unregister(const struct nv_zernel_ops *ops)
{
	mutex_lock(&nvz_register_lock);
	if (ops && nvz_listener.ops == ops) {
		rcu_assign_pointer(nvz_listening, NULL);
		synchronize_srcu(&nvz_srcu);
		mutex_lock(&nvz_gpu_lock);
		mutex_lock(&nvz_table_lock);
		nvz_listener.ops = NULL;
		nvz_listener.priv = NULL;
		nvz_tsg_withdraw_all();
		mutex_unlock(&nvz_table_lock);
		mutex_unlock(&nvz_gpu_lock);
		nvz_let_go_of_all();
		nvz_rings_end();
	}
	mutex_unlock(&nvz_register_lock);
}
EXPORT_SYMBOL_GPL(nv_zernel_unregister);
