// SPDX-License-Identifier: GPL-2.0
/* Helpers of rust/glue/kernel/abi.rs. Included like irqlock.c. */

#include <linux/fault-inject-usercopy.h>
#include <linux/uaccess.h>

#include "user.h"

/*
 * Reads @count words, without the call and the loop over bytes that copy_from_user() is on many
 * CPUs: most structures of the ABI are that small. False if one of them is not there.
 */
bool zernel_helper_read_words(u64 *to, const void __user *from, size_t count)
{
	const u64 __user *words = from;

	might_fault();
	if (should_fail_usercopy())
		return false;
	if (!user_read_access_begin(words, count * sizeof(*words)))
		return false;
	for (size_t i = 0; i < count; i++)
		unsafe_get_user(to[i], &words[i], fault);
	user_read_access_end();
	return true;
fault:
	user_read_access_end();
	return false;
}

/* Writes @count words without sleeping: false also if the memory has to be faulted in first. */
bool zernel_helper_write_words_nofault(void __user *to, const u64 *from, size_t count)
{
	u64 __user *words = to;
	bool written = false;

	if (should_fail_usercopy())
		return false;
	pagefault_disable();
	if (user_write_access_begin(words, count * sizeof(*words))) {
		for (size_t i = 0; i < count; i++)
			unsafe_put_user(from[i], &words[i], fault);
		written = true;
fault:
		user_write_access_end();
	}
	pagefault_enable();
	return written;
}
