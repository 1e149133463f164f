// SPDX-License-Identifier: GPL-2.0
//! Subscriptions to prefetch signals, and their actions.
//!
//! # Locking
//!
//! One mutex protects the table. Nothing else of zernel is locked under it, nothing is allocated,
//! and entries that leave the table are dropped without it. It is taken in system calls, by the
//! sampler, and when a range of a file was read.

mod bell;
pub(crate) mod file;
mod reader;

use crate::{
    error::Failure,
    glue::{
        detached::{
            Detached,
            Queue, //
        },
        identity::{
            self,
            Pid,
            Uid,
            Viewer, //
        },
        lock,
        slots::{
            SlotWords,
            Words, //
        },
        thread::Thread, //
    },
    policy::prefetch::share::{
        Most,
        Share, //
    },
    registry,
};
pub(crate) use bell::Bell;
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc, //
    },
};
pub(crate) use reader::Reader;

static LAST_ID: Atomic<u64> = Atomic::new(0);

/// Most subscriptions of a user.
const MAX_PER_USER: u32 = 64;

/// Counters since the module was loaded; see `struct zernel_system_info`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) subscriptions: u64,
    pub(crate) readaheads: u64,
    pub(crate) bytes: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

/// Names a subscription: the key of its process, and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(usize, u64);

/// The subscriptions of all open files, by process: a signal costs its own subscriptions alone.
pub(crate) struct Table {
    subscriptions: RBTree<Key, Subscription>,
    users: RBTree<Uid, Share>,
    counters: Counters,
    /// Reads ahead; and signals eventfds, which a file system that does not answer must not delay.
    readers: Queue,
    bells: Queue,
}

lock::global!(PREFETCH: KBox<Table>);

/// Keeps the table there; it is emptied when this is dropped.
pub(crate) struct Installed(());

impl Installed {
    /// Makes it usable; called once, when the module is loaded.
    pub(crate) fn new() -> Result<Self> {
        let table = Table {
            subscriptions: RBTree::new(),
            users: RBTree::new(),
            counters: Counters::default(),
            readers: Queue::new()?,
            bells: Queue::new()?,
        };
        *lock().lock() = Some(KBox::new(table, GFP_KERNEL)?);
        Ok(Self(()))
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

/// The counters.
pub(crate) fn counters() -> Result<Counters> {
    with(|t| t.counters)
}

/// It is time for a process to load its next batch: carries out the subscriptions that may see it.
/// `thread`: one of it.
pub(crate) fn signal(process: &Pid, thread: &Thread) {
    // Without a table there is no subscription.
    let _ = with(|t| t.signal(process, thread));
}

/// The subscription in the user's quota as long as it is there.
///
/// # Invariants
///
/// The table counts it.
pub(crate) struct Charge {
    user: Uid,
    bytes: u64,
}

impl Charge {
    /// One more subscription of the caller, which reads so many bytes ahead.
    ///
    /// # Errors
    ///
    /// [`Failure::OverQuota`], `ENOMEM`.
    pub(crate) fn new(bytes: u64) -> Result<Self, Failure> {
        let user = identity::caller_uid();
        let readahead = registry::with(|r| r.tunables().phases().readahead())?;
        let most = (!identity::caller_is_unbound()).then_some(Most {
            count: MAX_PER_USER,
            bytes: readahead,
        });
        let node = RBTreeNode::new(user, Share::default(), GFP_KERNEL_ACCOUNT)?;
        let charged = with(|t| {
            if t.users.get(&user).is_none() {
                t.users.insert(node);
            }
            let share = t.users.get_mut(&user);
            let charged = share.is_some_and(|share| share.add(bytes, most));
            t.counters.subscriptions += u64::from(charged);
            t.forget(user);
            charged
        })?;
        if !charged {
            return Err(Failure::OverQuota);
        }
        // INVARIANT: Just counted.
        Ok(Self { user, bytes })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        // Without a table nothing is counted.
        let _ = with(|t| {
            if let Some(share) = t.users.get_mut(&self.user) {
                share.remove(self.bytes);
                t.counters.subscriptions -= 1;
            }
            t.forget(self.user);
        });
    }
}

/// The action at a signal.
pub(crate) enum Way {
    /// 1 is added to an eventfd.
    Eventfd(Arc<Detached<Bell>>),
    /// The word of a slot counts it.
    Word {
        words: SlotWords,
        signals: u32,
        _charge: Charge,
    },
    /// A range of a file is read ahead.
    ReadAhead(Arc<Detached<Reader>>),
}

impl Way {
    /// Counts in the word of a slot, from its present value.
    ///
    /// # Errors
    ///
    /// `ENOENT` there is no such slot.
    pub(crate) fn word(words: SlotWords, charge: Charge) -> Result<Self> {
        let signals = words.get().map(Words::signals).ok_or(ENOENT)?;
        Ok(Self::Word {
            words,
            signals,
            _charge: charge,
        })
    }
}

/// A subscription.
pub(crate) struct Subscription {
    /// The process of the signals. The reference keeps its key from being another's.
    process: Pid,
    /// The subscriber.
    viewer: Viewer,
    way: Way,
}

impl Subscription {
    /// Has something be done at each signal for a process, as long as `viewer` may see it.
    pub(crate) fn new(process: Pid, viewer: Viewer, way: Way) -> Self {
        Self {
            process,
            viewer,
            way,
        }
    }

    fn signal(
        &mut self,
        process: &Pid,
        thread: &Thread,
        (readers, bells): (&Queue, &Queue),
        counters: &mut Counters,
    ) {
        if !thread.is_seen_by(&self.viewer) || !self.viewer.is_in_reach(process) {
            return;
        }
        match &mut self.way {
            Way::Eventfd(bell) => {
                bell.owe();
                // The open file of the subscription keeps the module there.
                bells.start_again(bell);
            }
            Way::Word { words, signals, .. } => {
                *signals = signals.wrapping_add(1);
                if let Some(words) = words.get() {
                    words.set_signals(*signals);
                }
            }
            // As above.
            Way::ReadAhead(reader) if readers.start(reader) => counters.readaheads += 1,
            Way::ReadAhead(_) => counters.skipped += 1,
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        match &self.way {
            Way::Eventfd(bell) => bell.end(),
            Way::ReadAhead(reader) => reader.end(),
            Way::Word { .. } => {}
        }
    }
}

/// A subscription in the table. Dropped, it is taken out: no signal reaches it any more.
///
/// # Invariants
///
/// The table has it.
struct Registered(Key);

impl Registered {
    /// # Errors
    ///
    /// `ENOMEM`.
    fn new(subscription: Subscription) -> Result<Self> {
        let key = Key(subscription.process.key(), LAST_ID.fetch_add(1, Relaxed));
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
                let queues = (&self.readers, &self.bells);
                subscription.signal(process, thread, queues, &mut self.counters);
            }
            from.1 = key.1.saturating_add(1);
        }
    }

    /// Forgets a user without subscriptions.
    fn forget(&mut self, user: Uid) {
        if self.users.get(&user).is_some_and(Share::is_empty) {
            self.users.remove(&user);
        }
    }
}
