/* SPDX-License-Identifier: GPL-2.0 */
/* Spinlocks that keep interrupts off: helpers of rust/glue/kernel/irqlock.rs. */
#ifndef ZERNEL_IRQLOCK_H
#define ZERNEL_IRQLOCK_H

#include <linux/spinlock_types.h>
#include <linux/types.h>

struct lock_class_key;

void zernel_helper_irqlock_init(spinlock_t *lock, const char *name, struct lock_class_key *key);
unsigned long zernel_helper_irqlock_lock(spinlock_t *lock);
bool zernel_helper_irqlock_trylock(spinlock_t *lock, unsigned long *flags);
void zernel_helper_irqlock_unlock(spinlock_t *lock, unsigned long flags);
void zernel_helper_irqlock_assert_held(spinlock_t *lock);
void zernel_helper_rawlock_init(raw_spinlock_t *lock, const char *name, struct lock_class_key *key);
bool zernel_helper_rawlock_trylock(raw_spinlock_t *lock, unsigned long *flags);
void zernel_helper_rawlock_assert_held(raw_spinlock_t *lock);

#endif /* ZERNEL_IRQLOCK_H */
