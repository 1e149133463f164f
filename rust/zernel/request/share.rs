// SPDX-License-Identifier: GPL-2.0
//! The shares of users: pages of slots, the expiry of their timers, and keys that learn from features.
//!
//! Their spinlock is taken as these come and go, and nothing is locked or allocated under it.

pub(crate) mod learner;
pub(crate) mod seat;

use crate::{
    error::Failure,
    glue::{
        identity::Uid,
        lock,
        memory::account_nowait,
        random,
        slots::PER_PAGE, //
    },
    policy::{
        spread::{
            self,
            Cells,
            Place,
            CELLS, //
        },
        units::Ns, //
    },
};
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
use learner::Learner;

/// Most pages of slots of a user.
const PAGES_PER_USER: u32 = 256;

/// The timers of a user's slots.
pub(crate) struct Timers {
    cells: KVec<Atomic<u32>>,
    /// There are so many slots that they are spread.
    many: Atomic<bool>,
}

impl Timers {
    /// None. Does not wait for memory.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        let mut cells = KVec::with_capacity(CELLS, account_nowait())?;
        for _ in 0..CELLS {
            // There is room.
            let _ = cells.push_within_capacity(Atomic::new(0));
        }
        let timers = Self {
            cells,
            many: Atomic::new(false),
        };
        Ok(Arc::new(timers, account_nowait())?)
    }

    /// True if they are to be spread. Those of one page are not: even all at once they take no more
    /// than a tenth of a millisecond.
    #[inline]
    pub(super) fn are_many(&self) -> bool {
        self.many.load(Relaxed)
    }

    /// The place of a timer that is wanted `at` then, so that few of the user's expire at a time.
    pub(super) fn place(&self, at: Ns, now: Ns) -> Place {
        spread::place(&mut &*self, at, now, random::number)
    }

    /// Takes back the place of a timer that was counted for this time and does not expire then.
    pub(super) fn give_back(&self, at: Ns) {
        spread::give_back(&mut &*self, at);
    }
}

impl Cells for &Timers {
    #[inline]
    fn change(&mut self, cell: usize, next: impl Fn(u32) -> Option<u32>) -> bool {
        let Some(cell) = self.cells.get(cell) else {
            return false;
        };
        let mut value = cell.load(Relaxed);
        while let Some(new) = next(value) {
            match cell.cmpxchg(value, new, Relaxed) {
                Ok(_) => return true,
                Err(seen) => value = seen,
            }
        }
        false
    }
}

/// A user with pages.
struct User {
    pages: u32,
    timers: Arc<Timers>,
}

/// All of them.
struct Shares {
    users: RBTree<Uid, User>,
    /// Keys that learn from features; no count is 0.
    learners: RBTree<Uid, u32>,
    /// Their places, those of each user in the order in which they are lost.
    seats: RBTree<learner::Name, Arc<Learner>>,
    /// The last place that was given.
    last_learner: u64,
    /// Pages of all users.
    pages: u64,
}

lock::global!(SHARES: KBox<Shares>, SpinLock);

/// Keeps the shares there.
pub(crate) struct Installed(());

impl Installed {
    /// Makes them usable; called once, when the module is loaded.
    pub(crate) fn new() -> Result<Self> {
        let shares = Shares::new();
        *lock().lock() = Some(KBox::new(shares, GFP_KERNEL)?);
        Ok(Self(()))
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let shares = lock().lock().take();
        drop(shares);
    }
}

impl Shares {
    fn new() -> Self {
        Self {
            users: RBTree::new(),
            learners: RBTree::new(),
            seats: RBTree::new(),
            last_learner: 0,
            pages: 0,
        }
    }

    /// Counts one more page of a user that has some. `None`: it has none.
    fn more(&mut self, user: Uid, unbound: bool) -> Result<Option<Arc<Timers>>, Failure> {
        let Some(user) = self.users.get_mut(&user) else {
            return Ok(None);
        };
        if user.pages >= PAGES_PER_USER && !unbound {
            return Err(Failure::OverQuota);
        }
        user.pages += 1;
        self.pages += 1;
        user.timers.many.store(user.pages > 1, Relaxed);
        Ok(Some(user.timers.clone()))
    }

    /// Counts one page less. Returns what is to be dropped without the lock.
    fn less(&mut self, user: Uid) -> Option<RBTreeNode<Uid, User>> {
        let found = self.users.get_mut(&user)?;
        found.pages -= 1;
        self.pages -= 1;
        found.timers.many.store(found.pages > 1, Relaxed);
        match found.pages {
            0 => self.users.remove_node(&user),
            _ => None,
        }
    }
}

/// Calls `f` with the shares locked.
///
/// # Errors
///
/// `ENODEV` the module is on its way out.
fn with<T>(f: impl FnOnce(&mut Shares) -> T) -> Result<T> {
    let mut guard = lock().lock();
    let shares = guard.as_mut().ok_or(ENODEV)?;
    Ok(f(shares))
}

/// A page that counts against the share of its user.
///
/// # Invariants
///
/// It is counted for `user`.
pub(crate) struct Charge {
    user: Uid,
    /// The timers of the user's slots.
    pub(crate) timers: Arc<Timers>,
}

impl Charge {
    /// One more page of a user. Does not wait for memory.
    ///
    /// # Errors
    ///
    /// [`Failure::OverQuota`] the user has [`PAGES_PER_USER`] and is bound by that, `ENOMEM`.
    pub(crate) fn new(user: Uid, unbound: bool) -> Result<Self, Failure> {
        if let Some(timers) = with(|shares| shares.more(user, unbound))?? {
            // INVARIANT: Just counted.
            return Ok(Self { user, timers });
        }
        let timers = Timers::new()?;
        let new = User {
            pages: 0,
            timers: timers.clone(),
        };
        let mut node = Some(RBTreeNode::new(user, new, account_nowait())?);
        let timers = with(|shares| {
            // Unless another thread was faster.
            if shares.users.get(&user).is_none() {
                if let Some(node) = node.take() {
                    shares.users.insert(node);
                }
            }
            shares.more(user, unbound)
        })??;
        // INVARIANT: Just counted.
        Ok(Self {
            user,
            timers: timers.ok_or(ENOMEM)?,
        })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        // Without shares nothing is counted.
        let unused = with(|shares| shares.less(self.user));
        // Dropped without the lock.
        drop(unused);
    }
}

/// Slots that are allocated.
pub(crate) fn slots() -> u64 {
    with(|shares| shares.pages).unwrap_or(0) * PER_PAGE as u64
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_request_share)]
mod tests {
    use crate::request::share::*;

    /// Users of the tests alone.
    const OWNER: Uid = Uid(u32::MAX - 3);
    const OTHER: Uid = Uid(u32::MAX - 4);

    #[test]
    fn pages_of_a_user_are_counted() -> Result {
        let before = slots();
        let mut pages = KVec::new();
        for _ in 0..PAGES_PER_USER {
            pages.push(Charge::new(OWNER, false)?, GFP_KERNEL)?;
        }
        let refused = |user| Charge::new(user, false).err();
        assert_eq!(refused(OWNER), Some(Failure::OverQuota));
        // Others have their own share, and without a bound there are as many as one likes.
        assert_eq!(refused(OTHER), None);
        let more = Charge::new(OWNER, true)?;
        drop(pages.pop());
        assert_eq!(refused(OWNER), Some(Failure::OverQuota));
        drop(more);
        assert_eq!(refused(OWNER), None);
        drop(pages);
        assert_eq!(slots(), before);
        Ok(())
    }

    #[test]
    fn timers_of_a_user_are_spread_over_all_its_pages() -> Result {
        const TIMERS: u32 = 100;
        const AT: Ns = Ns(1 << 50);
        let (one, two) = (Charge::new(OWNER, false)?, Charge::new(OWNER, false)?);
        let other = Charge::new(OTHER, false)?;
        let mut at_once = 0;
        for timer in 0..TIMERS {
            let timers = &if timer % 2 == 0 { &one } else { &two }.timers;
            assert!(timers.are_many());
            at_once += u32::from(timers.place(AT, Ns(1)).at == AT);
        }
        assert!(at_once > 0);
        assert!(at_once < TIMERS / 10);
        // Another user's does not wait for them.
        assert_eq!(other.timers.place(AT, Ns(1)).at, AT);
        assert!(!other.timers.are_many());
        drop(two);
        assert!(!one.timers.are_many());
        Ok(())
    }
}
