// SPDX-License-Identifier: GPL-2.0
//! The table of subscriptions.

use super::{
    quota,
    subscription::{
        Queues,
        Subscription, //
    },
};
use crate::glue::{
    identity::Pid,
    lock,
    thread::Thread, //
};
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::atomic::{
        ordering::Relaxed,
        Atomic, //
    },
};

static LAST_ID: Atomic<u64> = Atomic::new(0);

/// Names a subscription: the key of its process, and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(usize, u64);

/// The subscriptions of all open files, by process: a signal costs its own subscriptions alone.
struct Table {
    subscriptions: RBTree<Key, Subscription>,
    queues: Queues,
}

lock::global!(PREFETCH: KBox<Table>);

/// Keeps the table there; it is emptied when this is dropped.
pub(crate) struct Installed {
    // After the table, whose work counts in them.
    _quotas: quota::Installed,
}

impl Installed {
    /// Makes it usable; called once, when the module is loaded.
    pub(crate) fn new() -> Result<Self> {
        let quotas = quota::Installed::new()?;
        let table = Table {
            subscriptions: RBTree::new(),
            queues: Queues::new()?,
        };
        *lock().lock() = Some(KBox::new(table, GFP_KERNEL)?);
        Ok(Self { _quotas: quotas })
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        // There are no subscriptions, for these take open files. Waits for the rest of the work.
        let table = lock().lock().take();
        drop(table);
    }
}

/// Calls `f` with the table locked.
///
/// # Errors
///
/// `ENODEV` the module is on its way out.
fn with<T>(f: impl FnOnce(&mut Table) -> T) -> Result<T> {
    let mut guard = lock().lock();
    let table = guard.as_mut().ok_or(ENODEV)?;
    Ok(f(table))
}

/// It is time for a process to load its next batch: carries out the subscriptions that may see it.
/// `thread`: one of it.
pub(crate) fn signal(process: &Pid, thread: &Thread) {
    // Without a table there is no subscription.
    let _ = with(|t| t.signal(process, thread));
}

/// A subscription in the table. Dropped, it is taken out: no signal reaches it any more.
///
/// # Invariants
///
/// The table has it.
pub(super) struct Registered(Key);

impl Registered {
    /// Has a subscription be signalled.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(subscription: Subscription) -> Result<Self> {
        let key = Key(subscription.process().key(), LAST_ID.fetch_add(1, Relaxed));
        let node = RBTreeNode::new(key, subscription, GFP_KERNEL_ACCOUNT)?;
        with(|t| t.subscriptions.insert(node).is_none())?;
        // INVARIANT: Just inserted.
        Ok(Self(key))
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let subscription = with(|t| t.subscriptions.remove(&self.0));
        // Dropped without the lock.
        drop(subscription);
    }
}

impl Table {
    fn signal(&mut self, process: &Pid, thread: &Thread) {
        let mut from = Key(process.key(), 0);
        while let Some(cursor) = self.subscriptions.cursor_lower_bound(&from) {
            let &key = cursor.current().0;
            if key.0 != from.0 {
                return;
            }
            if let Some(subscription) = self.subscriptions.get_mut(&key) {
                subscription.signal(process, thread, &self.queues);
            }
            from.1 = key.1.saturating_add(1);
        }
    }
}
