// SPDX-License-Identifier: GPL-2.0
//! The quotas of users, and counters.
//!
//! Its mutex may be taken under that of the table of subscriptions. Nothing is locked under it.

use crate::{
    error::Failure,
    glue::{
        identity::{
            self,
            Uid, //
        },
        lock, //
    },
    policy::prefetch::share::{
        Most,
        Share, //
    },
    registry,
};
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
};

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

/// The subscriptions of each user, and the counters.
struct Quotas {
    users: RBTree<Uid, Share>,
    counters: Counters,
}

lock::global!(QUOTAS: KBox<Quotas>);

/// Keeps the quotas there.
pub(super) struct Installed(());

impl Installed {
    /// Makes them usable; called once, when the module is loaded.
    pub(super) fn new() -> Result<Self> {
        let quotas = Quotas {
            users: RBTree::new(),
            counters: Counters::default(),
        };
        *lock().lock() = Some(KBox::new(quotas, GFP_KERNEL)?);
        Ok(Self(()))
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let quotas = lock().lock().take();
        drop(quotas);
    }
}

/// Calls `f` with the quotas locked.
///
/// # Errors
///
/// `ENODEV` the module is on its way out.
fn with<T>(f: impl FnOnce(&mut Quotas) -> T) -> Result<T> {
    let mut guard = lock().lock();
    let quotas = guard.as_mut().ok_or(ENODEV)?;
    Ok(f(quotas))
}

/// The counters.
pub(crate) fn counters() -> Result<Counters> {
    with(|q| q.counters)
}

/// Counts something. It has not been read before `f` is through.
pub(super) fn count(f: impl FnOnce(&mut Counters)) {
    // Without quotas nothing is counted.
    let _ = with(|q| f(&mut q.counters));
}

impl Quotas {
    /// Forgets a user without subscriptions.
    fn forget(&mut self, user: Uid) {
        if self.users.get(&user).is_some_and(Share::is_empty) {
            self.users.remove(&user);
        }
    }
}

/// The subscription in the user's quota as long as it is there.
///
/// # Invariants
///
/// The quotas count it.
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
        let charged = with(|q| {
            if q.users.get(&user).is_none() {
                q.users.insert(node);
            }
            let share = q.users.get_mut(&user);
            let charged = share.is_some_and(|share| share.add(bytes, most));
            q.counters.subscriptions += u64::from(charged);
            q.forget(user);
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
        // Without quotas nothing is counted.
        let _ = with(|q| {
            if let Some(share) = q.users.get_mut(&self.user) {
                share.remove(self.bytes);
                q.counters.subscriptions -= 1;
            }
            q.forget(self.user);
        });
    }
}
