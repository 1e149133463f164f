// SPDX-License-Identifier: GPL-2.0
/*
 * Helpers of rust/glue/kernel/irqlock.rs, spinlocks that keep interrupts off. Included by the C
 * side of each module that has such locks: an object file belongs to one module only.
 */

#include <linux/spinlock.h>

#include "irqlock.h"

void zernel_helper_irqlock_init(spinlock_t *lock, const char *name, struct lock_class_key *key)
{
#if !defined(CONFIG_DEBUG_SPINLOCK)
	spin_lock_init(lock);
#elif defined(CONFIG_PREEMPT_RT)
	__spin_lock_init(lock, name, key, false);
#else
	__raw_spin_lock_init(spinlock_check(lock), name, key, LD_WAIT_CONFIG);
#endif
}

#ifdef CONFIG_PREEMPT_RT
unsigned long zernel_helper_irqlock_lock(spinlock_t *lock)
{
	unsigned long flags;

	spin_lock_irqsave(lock, flags);
	return flags;
}

void zernel_helper_irqlock_unlock(spinlock_t *lock, unsigned long flags)
{
	spin_unlock_irqrestore(lock, flags);
}
#endif

bool zernel_helper_irqlock_trylock(spinlock_t *lock, unsigned long *flags)
{
	return spin_trylock_irqsave(lock, *flags);
}

void zernel_helper_irqlock_assert_held(spinlock_t *lock)
{
	lockdep_assert_held(lock);
}

void zernel_helper_rawlock_init(raw_spinlock_t *lock, const char *name, struct lock_class_key *key)
{
#ifdef CONFIG_DEBUG_SPINLOCK
	__raw_spin_lock_init(lock, name, key, LD_WAIT_SPIN);
#else
	raw_spin_lock_init(lock);
#endif
}

bool zernel_helper_rawlock_trylock(raw_spinlock_t *lock, unsigned long *flags)
{
	return raw_spin_trylock_irqsave(lock, *flags);
}

void zernel_helper_rawlock_assert_held(raw_spinlock_t *lock)
{
	lockdep_assert_held(lock);
}
