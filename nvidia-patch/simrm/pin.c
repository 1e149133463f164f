// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of programs that a GPU is given, as for cuMemHostRegister(): pinned by the interface
 * layer's own os_lock_user_pages(), and then looked at and stored to as a GPU does.
 */
#include <linux/mm.h>

#include "os-interface.h"

#include "simrm.h"

/* With simrm_api held for write. */
static void *pages;
static u64 count;

static u32 *word_of(u64 number)
{
	u64 page = number / (PAGE_SIZE / sizeof(u32));
	struct page **pinned = pages;

	if (!pinned || page >= count)
		return NULL;
	return (u32 *)page_address(pinned[page]) + number % (PAGE_SIZE / sizeof(u32));
}

/* Later versions of the driver take the flags here, too; earlier ones do not look for them. */
static void unpin(void)
{
	NV_STATUS (*unlock)(NvU64, void *, NvU32) = (void *)os_unlock_user_pages;

	if (pages)
		unlock(count, pages, NV_LOCK_USER_PAGES_FLAGS_WRITE_YES);
	pages = NULL;
	count = 0;
}

u32 simrm_pin(struct simrm_object *root, const struct simrm_caller *who, void *params)
{
	struct rm_pin *pin = params;
	u32 *word;

	switch (pin->action) {
	case RM_PIN:
		if (pages)
			return RM_STATE_IN_USE;
		count = pin->count;
		return os_lock_user_pages((void *)pin->address, count, &pages,
					  NV_LOCK_USER_PAGES_FLAGS_WRITE_YES);
	case RM_UNPIN:
		unpin();
		return RM_OK;
	}
	word = word_of(pin->word);
	if (!word)
		return RM_INVALID_ARGUMENT;
	if (pin->action == RM_PIN_STORE) {
		/* As an engine does: its earlier writes are seen with the word. */
		smp_store_release(word, pin->value);
	}
	/* Likewise; pairs with the stores of programs and of zernel. */
	pin->value = smp_load_acquire(word);
	return RM_OK;
}

void simrm_pin_exit(void)
{
	unpin();
}
