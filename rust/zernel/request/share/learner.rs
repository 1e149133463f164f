// SPDX-License-Identifier: GPL-2.0
//! The keys of a user that learn from features: a bounded number, as each takes 2 KiB more.

use super::{
    with,
    Shares, //
};
use crate::{
    error::Failure,
    glue::{
        identity::Uid,
        memory::account_nowait, //
    },
};
use kernel::{
    prelude::*,
    rbtree::RBTreeNode, //
};

/// Most keys of a user that learn from features. A program that needs more has a feature that tells them
/// apart.
pub(crate) const PER_USER: u32 = 1_024;

/// A key that learns from features.
///
/// # Invariants
///
/// It is counted for `user`.
pub(crate) struct Learner {
    user: Uid,
}

impl Shares {
    /// Counts one more learner of a user that has some. Returns false if it has none.
    fn learn(&mut self, user: Uid) -> Result<bool, Failure> {
        let Some(count) = self.learners.get_mut(&user) else {
            return Ok(false);
        };
        if *count >= PER_USER {
            return Err(Failure::OverQuota);
        }
        *count += 1;
        Ok(true)
    }

    /// Counts one less. Returns what is to be dropped without the lock.
    fn forget(&mut self, user: Uid) -> Option<RBTreeNode<Uid, u32>> {
        let count = self.learners.get_mut(&user)?;
        *count -= 1;
        match *count {
            0 => self.learners.remove_node(&user),
            _ => None,
        }
    }
}

impl Learner {
    /// One more of a user. Does not wait for memory.
    ///
    /// # Errors
    ///
    /// [`Failure::OverQuota`] the user has [`PER_USER`], `ENOMEM`.
    pub(crate) fn new(user: Uid) -> Result<Self, Failure> {
        if with(|shares| shares.learn(user))?? {
            // INVARIANT: Just counted.
            return Ok(Self { user });
        }
        let mut node = Some(RBTreeNode::new(user, 0, account_nowait())?);
        with(|shares| {
            // Unless another thread was faster.
            if shares.learners.get(&user).is_none() {
                if let Some(node) = node.take() {
                    shares.learners.insert(node);
                }
            }
            shares.learn(user)
        })??;
        // INVARIANT: Just counted.
        Ok(Self { user })
    }
}

impl Drop for Learner {
    fn drop(&mut self) {
        // Without shares nothing is counted.
        let unused = with(|shares| shares.forget(self.user));
        // Dropped without the lock.
        drop(unused);
    }
}

/// True if some key learns from features.
pub(crate) fn are_some() -> bool {
    with(|shares| shares.learners.iter().next().is_some()).unwrap_or(false)
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_request_share_learner)]
mod tests {
    use crate::request::share::learner::*;

    /// Users of the tests alone.
    const OWNER: Uid = Uid(u32::MAX - 5);
    const OTHER: Uid = Uid(u32::MAX - 6);

    fn count(user: Uid) -> Result<Option<u32>> {
        with(|shares| shares.learners.get(&user).copied())
    }

    #[test]
    fn those_of_a_user_are_bounded() -> Result {
        let mut learners = KVec::new();
        for _ in 0..PER_USER {
            learners.push(Learner::new(OWNER)?, GFP_KERNEL)?;
        }
        let refused = |user| Learner::new(user).err();
        assert_eq!(refused(OWNER), Some(Failure::OverQuota));
        // Others have their own share.
        assert_eq!(refused(OTHER), None);
        assert_eq!(count(OTHER)?, None);
        assert!(are_some());
        drop(learners.pop());
        assert_eq!(refused(OWNER), None);
        assert_eq!(count(OWNER)?, Some(PER_USER - 1));
        drop(learners);
        assert_eq!(count(OWNER)?, None);
        Ok(())
    }
}
