/* SPDX-License-Identifier: GPL-2.0 */
/* Memory of user space: helpers of rust/glue/kernel/abi.rs. */
#ifndef ZERNEL_USER_H
#define ZERNEL_USER_H

#include <linux/types.h>

bool zernel_helper_read_words(u64 *to, const void __user *from, size_t count);
bool zernel_helper_write_words_nofault(void __user *to, const u64 *from, size_t count);

#endif /* ZERNEL_USER_H */
