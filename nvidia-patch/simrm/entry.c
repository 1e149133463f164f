// SPDX-License-Identifier: GPL-2.0
/*
 * The entrances: escapes of control files, operations of other kernel modules,
 * and files that are closed.
 */
#include <linux/capability.h>
#include <linux/ioctl.h>
#include <linux/kernel.h>

#include "os-interface.h"
#include "nv.h"

#include "simrm.h"
#include "versions.h"

static struct simrm_caller user(const nv_file_private_t *file)
{
	const nv_file_private_t *control = READ_ONCE(file->ctl_nvfp);

	return (struct simrm_caller) {
		.file = control ?: file,
		.admin = os_is_administrator(),
		.nice = capable(CAP_SYS_NICE),
	};
}

static const struct simrm_caller kernel = { .kernel = true, .admin = true, .nice = true };

static NV_STATUS fits(bool right)
{
	return right ? RM_OK : RM_INVALID_ARGUMENT;
}

static NV_STATUS check_size(NvU32 cmd, NvU32 size)
{
	switch (cmd) {
	case RM_ESC_FREE:
		return fits(size == sizeof(struct rm_free));
	case RM_ESC_CONTROL:
		return fits(size == sizeof(struct rm_control));
	case RM_ESC_ALLOC:
		return fits(size == sizeof(struct rm_alloc) ||
			    size == sizeof(struct rm_alloc_access));
	case RM_ESC_DUP:
		return fits(size == sizeof(struct rm_dup));
	case RM_ESC_SHARE:
		return fits(size == sizeof(struct rm_share));
	case RM_ESC_HEAP_CONTROL:
		return fits(size == sizeof(struct rm_heap_control));
	case RM_ESC_REGISTER_FD:
		return fits(size == sizeof(struct rm_register_fd));
	default:
		return RM_INVALID_COMMAND;
	}
}

/* Newer layers ask before they copy the parameters, with the whole number of the ioctl. */
NV_STATUS NV_API_CALL rm_validate_ioctls(NvU32 cmd, NvU32 size)
{
	return check_size(_IOC_NR(cmd), size);
}

static void alloc_escape(nv_file_private_t *file, void *data, NvU32 size)
{
	struct simrm_caller who = user(file);
	struct rm_alloc_access *longer = data;
	struct rm_alloc *shorter = data;
	bool serialized = false;
	u32 status;

	if (shorter->class <= 1)
		shorter->class = 0x41;
	if (size == sizeof(*longer))
		serialized = longer->flags & RM_ALLOC_SERIALIZED;
	if (shorter->class == 0x41)
		file->bCleanupRmapi = NV_TRUE;
	status = simrm_alloc(&who, shorter->root, shorter->parent, &shorter->object,
			     shorter->class, shorter->params, serialized);
	if (size == sizeof(*longer))
		longer->status = status;
	else
		shorter->status = status;
}

/* Two of its functions free an object of any class. */
static u32 heap_control(const struct simrm_caller *who, const struct rm_heap_control *heap)
{
	/* Of another machine's memory. */
	if (heap->heap > 0)
		return RM_NOT_SUPPORTED;
	switch (heap->function) {
	case RM_HEAP_FREE:
		if (!(heap->of_free.flags & RM_HEAP_FREE_HANDLE))
			return RM_INVALID_ARGUMENT;
		return simrm_free(who, heap->root, heap->of_free.object);
	case RM_HEAP_HW_FREE:
		return simrm_free(who, heap->root, heap->of_hw_free.object);
	}
	return RM_INVALID_ARGUMENT;
}

/* Calls on @file are carried out for the control file, from now until it is closed. */
static NV_STATUS register_fd(nv_file_private_t *file, const struct rm_register_fd *params)
{
	nv_file_private_t *control;
	NV_STATUS status = RM_OK;
	void *hold;

	down_write(&simrm_api);
	if (file->ctl_nvfp) {
		status = RM_INVALID_STATE;
		goto out;
	}
	control = nv_get_file_private(params->control, NV_TRUE, &hold);
	if (!control) {
		status = RM_INVALID_ARGUMENT;
		goto out;
	}
	if (control == file || control->ctl_nvfp) {
		nv_put_file_private(hold);
		status = RM_INVALID_ARGUMENT;
		goto out;
	}
	file->ctl_nvfp_priv = hold;
	WRITE_ONCE(file->ctl_nvfp, control);
out:
	up_write(&simrm_api);
	return status;
}

NV_STATUS NV_API_CALL rm_ioctl(nvidia_stack_t *sp, nv_state_t *nv, nv_file_private_t *file,
			       NvU32 cmd, void *data, NvU32 size)
{
	struct simrm_caller who = user(file);
	struct rm_heap_control *heap = data;
	struct rm_control *control = data;
	struct rm_share *share = data;
	struct rm_free *free = data;
	struct rm_dup *dup = data;
	NV_STATUS status;

	might_sleep();
	status = check_size(cmd, size);
	if (status == RM_OK && cmd != RM_ESC_REGISTER_FD && !(nv->flags & NV_FLAG_CONTROL))
		status = RM_INVALID_ARGUMENT;
	if (status != RM_OK)
		return status;
	switch (cmd) {
	case RM_ESC_FREE:
		free->status = simrm_free(&who, free->root, free->object);
		return RM_OK;
	case RM_ESC_HEAP_CONTROL:
		heap->status = heap_control(&who, heap);
		return RM_OK;
	case RM_ESC_CONTROL:
		control->status = simrm_control(&who, control);
		return RM_OK;
	case RM_ESC_ALLOC:
		alloc_escape(file, data, size);
		return RM_OK;
	case RM_ESC_DUP:
		dup->status = simrm_dup(&who, dup);
		return RM_OK;
	case RM_ESC_SHARE:
		share->status = simrm_share(&who, share);
		return RM_OK;
	default:
		return register_fd(file, data);
	}
}

void NV_API_CALL rm_kernel_rmapi_op(nvidia_stack_t *sp, void *data)
{
	struct rm_kernel_op *op = data;
	struct rm_alloc_access *alloc = &op->alloc;

	might_sleep();
	switch (op->op) {
	case RM_KOP_FREE:
		op->free.status = simrm_free(&kernel, op->free.root, op->free.object);
		break;
	case RM_KOP_ALLOC:
		alloc->status = simrm_alloc(&kernel, alloc->root, alloc->parent, &alloc->object,
					    alloc->class, alloc->params,
					    alloc->flags & RM_ALLOC_SERIALIZED);
		break;
	case RM_KOP_CONTROL:
		op->control.status = simrm_control(&kernel, &op->control);
		break;
	case RM_KOP_MAP:
		op->map.status = simrm_map(&op->map);
		break;
	case RM_KOP_UNMAP:
		op->unmap.status = simrm_unmap(&op->unmap);
		break;
	case RM_KOP_DUP:
		op->dup.status = simrm_dup(&kernel, &op->dup);
		break;
	case RM_KOP_SHARE:
		op->share.status = simrm_share(&kernel, &op->share);
		break;
	default:
		WARN_ONCE(1, "simrm: no operation %#x\n", op->op);
	}
}

void NV_API_CALL rm_cleanup_file_private(nvidia_stack_t *sp, nv_state_t *nv,
					 nv_file_private_t *file)
{
	if (file->bCleanupRmapi)
		simrm_clients_of_file_close(file);
	if (file->ctl_nvfp) {
		nv_put_file_private(file->ctl_nvfp_priv);
		file->ctl_nvfp = NULL;
		file->ctl_nvfp_priv = NULL;
	}
}
