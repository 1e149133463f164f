// SPDX-License-Identifier: GPL-2.0
/*
 * Controls: their numbers, permission, and the way of the parameters.
 */
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "simrm.h"

#define SHARED		0x1U	/* with simrm_api held for read */
#define PRIVILEGED	0x2U	/* CAP_SYS_NICE or administrator */
#define KERNEL_ONLY	0x4U

struct command {
	u32 number;
	enum simrm_kind kind;
	u16 size;
	u16 other_size;		/* of another version of the driver, or 0 */
	u32 flags;
	u32 (*run)(struct simrm_object *object, const struct simrm_caller *who, void *params);
};

/* The class of an object and its parents. A lost object is reported like any other. */
static u32 handle_info(struct simrm_object *root, const struct simrm_caller *who, void *params)
{
	struct rm_handle_info *info = params;
	const struct simrm_object *object = simrm_object_find(root->client, info->object);

	if (!object)
		return RM_OBJECT_NOT_FOUND;
	switch (info->index) {
	case RM_HANDLE_PARENT:
		info->handle = object->parent ? object->parent->handle : 0;
		return RM_OK;
	case RM_HANDLE_CLASS:
		info->number = object->class;
		return RM_OK;
	}
	return RM_INVALID_ARGUMENT;
}

/*
 * NVA06C_CTRL_CMD_GET_INTERLEAVE_LEVEL is not here: neither 550.163.01 nor
 * 595.45.04 offers it.
 */
static const struct command commands[] = {
	{ 0x00000201, SIMRM_ROOT, 128, 0, SHARED, simrm_gpu_ids },
	{ 0x00000202, SIMRM_ROOT, sizeof(struct rm_id_info), 0, SHARED, simrm_gpu_info },
	{ 0x00000205, SIMRM_ROOT, sizeof(struct rm_id_info_v2), 0, SHARED, simrm_gpu_info_v2 },
	{ 0x00000214, SIMRM_ROOT, 384, 256, SHARED, simrm_gpu_probed },
	{ RM_CMD_PIN, SIMRM_ROOT, sizeof(struct rm_pin), 0, PRIVILEGED, simrm_pin },
	{ 0x00000d02, SIMRM_ROOT, sizeof(struct rm_handle_info), 0, SHARED, handle_info },
	{ 0x00800289, SIMRM_DEVICE, 8, 4, SHARED, simrm_gpu_virtual_mode },
	{ 0x0080170d, SIMRM_DEVICE, sizeof(struct rm_channel_list), 0, SHARED | KERNEL_ONLY,
	  simrm_engine_channels },
	{ 0x20800142, SIMRM_SUBDEVICE, 4, 0, SHARED, simrm_gpu_id },
	{ 0x20800179, SIMRM_SUBDEVICE, sizeof(struct rm_bases), 0, SHARED | PRIVILEGED,
	  simrm_runlist_bases },
	{ 0x20800403, SIMRM_SUBDEVICE, 8, 0, SHARED, simrm_fecs_time },
	{ 0x20801238, SIMRM_SUBDEVICE, sizeof(struct rm_event_bind), 0, 0, simrm_fecs_bind },
	{ 0x90cd0101, SIMRM_BUFFER, sizeof(struct rm_event_enable), 0, 0, simrm_fecs_enable },
	{ 0x90cd0102, SIMRM_BUFFER, sizeof(struct rm_event_get), 0, 0, simrm_fecs_get },
	{ 0x90cd0104, SIMRM_BUFFER, 0, 0, 0, simrm_fecs_flush },
	{ 0x2080110b, SIMRM_SUBDEVICE, sizeof(struct rm_disable_channels), 0, 0,
	  simrm_gpu_disable_channels },
	{ 0x20801112, SIMRM_SUBDEVICE, sizeof(struct rm_device_table), 0, SHARED | KERNEL_ONLY,
	  simrm_engine_table },
	{ 0x20801115, SIMRM_SUBDEVICE, sizeof(struct rm_policy), 0, PRIVILEGED,
	  simrm_gpu_policy },
	{ 0xa06c0101, SIMRM_TSG, 3, 2, 0, simrm_tsg_schedule },
	{ 0xa06c0102, SIMRM_TSG, 4, 0, 0, simrm_tsg_bind },
	{ 0xa06c0103, SIMRM_TSG, 8, 0, 0, simrm_tsg_set_slice },
	{ 0xa06c0104, SIMRM_TSG, 8, 0, SHARED, simrm_tsg_get_slice },
	{ 0xa06c0105, SIMRM_TSG, sizeof(struct rm_preempt), 0, 0, simrm_tsg_preempt },
	{ 0xa06c0106, SIMRM_TSG, 4, 0, SHARED, simrm_tsg_info },
	{ 0xa06c0107, SIMRM_TSG, 4, 0, PRIVILEGED, simrm_tsg_set_level },
	{ 0xa06f0103, SIMRM_CHANNEL, 3, 2, 0, simrm_channel_schedule },
	{ 0xa06f0111, SIMRM_CHANNEL, sizeof(struct rm_restart), 0, PRIVILEGED,
	  simrm_engine_restart },
	{ 0xa06f0112, SIMRM_CHANNEL, 1, 0, 0, simrm_channel_stop },
	{ 0xa06f0113, SIMRM_CHANNEL, 4, 0, SHARED, simrm_fecs_context },
	{ 0xc36f0103, SIMRM_CHANNEL, 3, 2, 0, simrm_channel_schedule },
};

/* Calls of each command, by users and by the kernel; the last is for unknown ones. */
static atomic_t calls[ARRAY_SIZE(commands) + 1][2];
/*
 * Calls of the kernel for a TSG that was gone. Its own clients may go with their GPU at any time, so
 * that calls for these do not count.
 */
static atomic_t dead_calls;
/* The last of these, in a ring that is not locked. */
static struct dead_call {
	u32 control, client, object, status;
	char comm[TASK_COMM_LEN];
} dead_ring[4];

static const struct command *find(u32 number)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(commands); i++) {
		if (commands[i].number == number)
			return &commands[i];
	}
	return NULL;
}

static bool exists(u32 handle)
{
	bool exclusive = simrm_lock(false);
	bool found = simrm_client_find(handle);

	simrm_unlock(exclusive);
	return found;
}

/* With simrm_api and the lock of the client held. */
static u32 run(struct simrm_client *client, const struct simrm_caller *who,
	       const struct command *command, const struct rm_control *control, void *params)
{
	struct simrm_object *object;
	u32 status;

	object = simrm_object_find(client, control->object);
	if (!object)
		return RM_OBJECT_NOT_FOUND;
	if (object->lost)
		return RM_RESOURCE_LOST;
	if (!command || object->kind != command->kind)
		return RM_NOT_SUPPORTED;
	if ((command->flags & PRIVILEGED) && !who->kernel && !who->admin && !who->nice)
		return RM_INSUFFICIENT_PERMISSIONS;
	if ((command->flags & KERNEL_ONLY) && !who->kernel)
		return RM_INSUFFICIENT_PERMISSIONS;
	/* A slow one is slow with the locks held, as on a GPU. */
	status = simrm_fault(SIMRM_ON_CONTROL, control->cmd, who->kernel);
	if (status != RM_OK)
		return status;
	return command->run(object, who, params);
}

static u32 locked(const struct simrm_caller *who, const struct command *command,
		  const struct rm_control *control, void *params)
{
	bool exclusive = simrm_lock(command && !(command->flags & SHARED));
	struct simrm_client *client = simrm_client_find(control->client);
	u32 status;

	if (!client) {
		status = RM_INVALID_OBJECT_HANDLE;
	} else if (!client->active) {
		status = RM_INVALID_STATE;
	} else {
		mutex_lock(&client->lock);
		status = simrm_client_check(client, who);
		if (status == RM_OK)
			status = run(client, who, command, control, params);
		mutex_unlock(&client->lock);
	}
	simrm_unlock(exclusive);
	return status;
}

static u32 check_size(const struct command *command, const struct rm_control *control)
{
	if (!control->size != !control->params)
		return RM_INVALID_ARGUMENT;
	if (control->size > SIMRM_MAX_PARAMS)
		return RM_INVALID_ARGUMENT;
	if (command && control->size != command->size && control->size != command->other_size)
		return RM_INVALID_ARGUMENT;
	return RM_OK;
}

/*
 * Parameters are copied in before any lock is taken, and out, if all went well,
 * when none is held any more: user memory may keep the caller waiting.
 */
static u32 carry_out(const struct simrm_caller *who, const struct command *command,
		     struct rm_control *control)
{
	void *copy = NULL;
	u32 status;

	if (!(control->cmd & 0xffff))
		return RM_OK;
	if (control->flags & (RM_CONTROL_IRQL_RAISED | RM_CONTROL_LOCK_BYPASS))
		return RM_INVALID_ARGUMENT;
	if (!exists(control->client))
		return RM_INVALID_CLIENT;
	status = check_size(command, control);
	if (status != RM_OK)
		return status;
	if (control->flags & RM_CONTROL_SERIALIZED)
		return RM_VERSION_MISMATCH;
	if (who->kernel)
		return locked(who, command, control, (void *)(uintptr_t)control->params);
	if (control->size) {
		copy = kvzalloc(control->size, GFP_KERNEL);
		if (!copy)
			return RM_INSUFFICIENT_RESOURCES;
		status = simrm_fault(SIMRM_ON_COPY, control->cmd, false);
		if (status != RM_OK)
			goto out;
		if (copy_from_user(copy, u64_to_user_ptr(control->params), control->size)) {
			status = RM_INVALID_ADDRESS;
			goto out;
		}
	}
	status = locked(who, command, control, copy);
	if (status == RM_OK && copy)
		status = simrm_fault(SIMRM_ON_COPY, control->cmd, false);
	if (status == RM_OK && copy &&
	    copy_to_user(u64_to_user_ptr(control->params), copy, control->size))
		status = RM_INVALID_ADDRESS;
out:
	kvfree(copy);
	return status;
}

static bool is_gone(u32 status)
{
	switch (status) {
	case RM_INVALID_CLIENT:
	case RM_INVALID_OBJECT_HANDLE:
	case RM_OBJECT_NOT_FOUND:
	case RM_RESOURCE_LOST:
		return true;
	default:
		return false;
	}
}

u32 simrm_control(const struct simrm_caller *who, struct rm_control *control)
{
	const struct command *command = find(control->cmd);
	u32 status;

	/* Counted before its outcome can be seen. */
	atomic_inc(&calls[command ? command - commands : ARRAY_SIZE(commands)][who->kernel]);
	status = carry_out(who, command, control);
	if (who->kernel && command && command->kind == SIMRM_TSG && is_gone(status)) {
		unsigned int at = atomic_fetch_inc(&dead_calls);
		struct dead_call *dead = &dead_ring[at % ARRAY_SIZE(dead_ring)];

		dead->control = control->cmd;
		dead->client = control->client;
		dead->object = control->object;
		dead->status = status;
		get_task_comm(dead->comm, current);
	}
	return status;
}

/* @size: of @buffer. Returns how much of it was used. */
int simrm_control_calls(char *buffer, size_t size)
{
	unsigned int i;
	int used = 0;

	for (i = 0; i <= ARRAY_SIZE(commands); i++)
		used += scnprintf(buffer + used, size - used, "%#010x kernel %d user %d\n",
				  i < ARRAY_SIZE(commands) ? commands[i].number : U32_MAX,
				  atomic_read(&calls[i][1]), atomic_read(&calls[i][0]));
	used += scnprintf(buffer + used, size - used, "dead %d of", atomic_read(&dead_calls));
	for (i = 0; i < ARRAY_SIZE(dead_ring); i++)
		used += scnprintf(buffer + used, size - used, " %#x(%#x:%#x)=%#x[%s]",
				  dead_ring[i].control, dead_ring[i].client, dead_ring[i].object,
				  dead_ring[i].status, dead_ring[i].comm);
	return used + scnprintf(buffer + used, size - used, "\n");
}
