// SPDX-License-Identifier: GPL-2.0
/*
 * Clients: their handles, their files, and their end with these.
 */
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "simrm.h"

#define CLIENT_BASE	0xc1d00000U
#define CLIENT_MASK	0x000fffffU
#define OBJECT_BASE	0xcaf00000U

DECLARE_RWSEM(simrm_api);
LIST_HEAD(simrm_clients);	/* changed with simrm_api held for write */
bool simrm_serialize;
module_param(simrm_serialize, bool, 0644);
MODULE_PARM_DESC(simrm_serialize, "run one operation at a time");

static unsigned int simrm_deferred_ms;
module_param(simrm_deferred_ms, uint, 0644);
MODULE_PARM_DESC(simrm_deferred_ms, "delay until the clients of a closed file are freed (0: none)");

static DEFINE_XARRAY(by_handle);
static LIST_HEAD(dying);
static u32 next_handle;

static void free_dying(struct work_struct *work);
static DECLARE_DELAYED_WORK(reaper, free_dying);

/* With simrm_api held, as long as the client is used. */
struct simrm_client *simrm_client_find(u32 handle)
{
	return xa_load(&by_handle, handle);
}

u32 simrm_client_check(const struct simrm_client *client, const struct simrm_caller *who)
{
	if (who->kernel || client->file == who->file)
		return RM_OK;
	return RM_INVALID_CLIENT;
}

static u32 generate(void)
{
	u32 tries, handle;

	for (tries = 0; tries <= CLIENT_MASK; tries++) {
		handle = CLIENT_BASE | (next_handle++ & CLIENT_MASK);
		if (!xa_load(&by_handle, handle))
			return handle;
	}
	return 0;
}

/* With simrm_api held for write. @wish: the handle that the caller wants, 0 any */
u32 simrm_client_create(const struct simrm_caller *who, u32 wish, struct simrm_client **made)
{
	static const struct simrm_class root = { .class = 0x41, .kind = SIMRM_ROOT };
	struct simrm_client *client;
	u32 handle = wish ?: generate();
	u32 status;

	if (!handle)
		return RM_INSUFFICIENT_RESOURCES;
	if (xa_load(&by_handle, handle))
		return RM_INSERT_DUPLICATE_NAME;
	client = kzalloc(sizeof(*client), GFP_KERNEL);
	if (!client)
		return RM_NO_MEMORY;
	client->handle = handle;
	client->file = who->file;
	client->process = current->tgid;
	client->active = true;
	client->generated = OBJECT_BASE;
	mutex_init(&client->lock);
	xa_init(&client->objects);
	INIT_LIST_HEAD(&client->dying);
	status = simrm_object_new(client, NULL, &handle, &root, root.class, &client->root);
	if (status == RM_OK && xa_err(xa_store(&by_handle, handle, client, GFP_KERNEL))) {
		simrm_object_free(client->root);
		status = RM_NO_MEMORY;
	}
	if (status != RM_OK) {
		xa_destroy(&client->objects);
		kfree(client);
		return status;
	}
	list_add_tail(&client->node, &simrm_clients);
	*made = client;
	return RM_OK;
}

/* With simrm_api held for write: nobody else can have found the client. */
void simrm_client_destroy(struct simrm_client *client)
{
	mutex_lock(&client->lock);
	simrm_object_free(client->root);
	mutex_unlock(&client->lock);
	WARN_ON(!xa_empty(&client->objects));
	xa_erase(&by_handle, client->handle);
	xa_destroy(&client->objects);
	list_del(&client->node);
	list_del(&client->dying);
	mutex_destroy(&client->lock);
	kfree(client);
}

static void free_dying(struct work_struct *work)
{
	struct simrm_client *client, *next;

	down_write(&simrm_api);
	list_for_each_entry_safe(client, next, &dying, dying)
		simrm_client_destroy(client);
	up_write(&simrm_api);
}

/*
 * A file is gone: its clients answer nobody any more, and are freed now or, as
 * the driver may be told to, in a moment.
 */
void simrm_clients_of_file_close(const void *file)
{
	unsigned int later = READ_ONCE(simrm_deferred_ms);
	struct simrm_client *client, *next;

	down_write(&simrm_api);
	list_for_each_entry_safe(client, next, &simrm_clients, node) {
		if (client->file != file || !client->active)
			continue;
		if (later) {
			client->active = false;
			/* A file that is opened next may have the same address. */
			client->file = ZERO_SIZE_PTR;
			list_add_tail(&client->dying, &dying);
		} else {
			simrm_client_destroy(client);
		}
	}
	up_write(&simrm_api);
	if (later)
		schedule_delayed_work(&reaper, msecs_to_jiffies(min(later, 60000U)));
}

/* The module goes. Clients of the kernel that are left are somebody's mistake. */
void simrm_clients_exit(void)
{
	struct simrm_client *client, *next;

	cancel_delayed_work_sync(&reaper);
	free_dying(NULL);
	down_write(&simrm_api);
	list_for_each_entry_safe(client, next, &simrm_clients, node) {
		WARN(1, "simrm: client %#x is left\n", client->handle);
		simrm_client_destroy(client);
	}
	up_write(&simrm_api);
	xa_destroy(&by_handle);
}
