// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Keeps handles alive while somebody else than their file uses them.
 *
 * A control of zernel, or a duplication by another file, pins the client. A free first marks the
 * client, so that no new pin is given, then waits for the pins there are, then asks the core. A
 * wish for a pin meanwhile waits for the outcome. Both waits end as soon as the core answers a call
 * with parameters in kernel memory, so a tenant cannot draw them out. That the core serialises
 * these calls anyway makes the pins cost no concurrency.
 */
#include "nv-zernel-private.h"

/* For how long a free yields at most: enough for a waiter to be scheduled. */
#define NVZ_YIELD	(HZ / 10)

static DECLARE_WAIT_QUEUE_HEAD(nvz_wait);
static unsigned long nvz_outcomes;

#ifdef CONFIG_LOCKDEP
/* Two locks that do not look like any, for lockdep: readers hold a pin, a free waits for them. */
static struct lockdep_map nvz_free_map = STATIC_LOCKDEP_MAP_INIT("nv_zernel_free", &nvz_free_map);
static struct lockdep_map nvz_pin_map = STATIC_LOCKDEP_MAP_INIT("nv_zernel_pin", &nvz_pin_map);
#endif

/* False while a free is under way: then nvz_wait_outcome() and look the client up again. */
bool nvz_pin(struct nvz_client *client)
{
	lockdep_assert_held(&nvz_table_lock);
	if (client->freeing)
		return false;
	WRITE_ONCE(client->busy, client->busy + 1);
	return true;
}

/* The table lock was given back; the handles are about to be used. */
void nvz_pinned(void)
{
	lock_map_acquire_read(&nvz_pin_map);
}

void nvz_unpin(struct nvz_client *client)
{
	lockdep_assert_held(&nvz_table_lock);
	WRITE_ONCE(client->busy, client->busy - 1);
	if (!client->busy && client->freeing)
		wake_up_all(&nvz_wait);
}

/* All handles are done with and the table lock was given back. */
void nvz_unpinned(void)
{
	lock_map_release(&nvz_pin_map);
}

/*
 * Waits for the outcome of a free that @client is marked for; it may be gone then.
 * @killable: for a call of user space; otherwise the file's next free lets the caller
 * have its turn. 0, or -EINTR when @killable and the caller was killed.
 */
int nvz_wait_outcome(struct nvz_client *client, bool killable)
{
	unsigned long seen = nvz_outcomes;
	u32 handle = client->handle;
	int ret = 0;

	/* A tenant may wait for this as often as it likes, which must not delay another one's frees. */
	if (!killable)
		WRITE_ONCE(client->wanted, client->wanted + 1);
	mutex_unlock(&nvz_table_lock);
	lock_map_acquire_read(&nvz_free_map);
	lock_map_release(&nvz_free_map);
	if (killable)
		ret = wait_event_killable(nvz_wait, READ_ONCE(nvz_outcomes) != seen);
	else
		wait_event(nvz_wait, READ_ONCE(nvz_outcomes) != seen);
	mutex_lock(&nvz_table_lock);
	/* Another client of the same handle only loses its turn. */
	client = killable ? NULL : nvz_client_find(handle);
	if (client && client->wanted) {
		WRITE_ONCE(client->wanted, client->wanted - 1);
		wake_up_all(&nvz_wait);
	}
	return ret ? -EINTR : 0;
}

/*
 * The caller has marked clients of @file as freeing. Only the file's own calls
 * change its list of clients, one at a time, and this is one of them, so the list
 * stays as it is while this waits without the table lock.
 */
void nvz_free_begin(struct nvz_file *file)
{
	struct nvz_client *client;

	mutex_unlock(&nvz_table_lock);
	lock_map_acquire(&nvz_free_map);
	lock_map_acquire(&nvz_pin_map);
	list_for_each_entry(client, &file->clients, in_file) {
		if (client->freeing)
			wait_event(nvz_wait, !READ_ONCE(client->busy));
	}
	lock_map_release(&nvz_pin_map);
	mutex_lock(&nvz_table_lock);
}

/* The clients that are left may be used again. */
void nvz_free_end(struct nvz_file *file)
{
	lockdep_assert_held(&nvz_table_lock);
	lock_map_release(&nvz_free_map);
	if (file->freeing)
		file->freeing->freeing = false;
	file->freeing = NULL;
	WRITE_ONCE(nvz_outcomes, nvz_outcomes + 1);
	wake_up_all(&nvz_wait);
}

/*
 * Lets the controls of zernel take their turn that waited for the outcome, lest a file
 * that frees one object after the other keeps them waiting. The caller holds the file
 * lock, so the clients stay.
 */
void nvz_free_yield(struct nvz_file *file)
{
	struct nvz_client *client;

	list_for_each_entry(client, &file->clients, in_file)
		wait_event_timeout(nvz_wait, !READ_ONCE(client->wanted), NVZ_YIELD);
}
