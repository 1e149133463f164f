// SPDX-License-Identifier: GPL-2.0
//! The keys of a user that learn from features: a bounded number, as each takes 2 KiB more.
//!
//! A user with that many loses one with each new one: that of a key that was not used of late. It is
//! taken out of the order with the shares locked, and emptied without: the key finds it empty.

use super::{
    learner::{
        Learner,
        Name, //
    },
    with,
    Shares, //
};
use crate::{
    glue::{
        identity::Uid,
        memory::account_nowait, //
    },
    policy::predict::features::tuning::{
        Epoch,
        Tuning, //
    },
    tuned, //
};
use kernel::{
    prelude::*,
    rbtree::{
        RBTreeNode,
        RBTreeNodeReservation, //
    },
    sync::Arc, //
};

/// Most keys of a user that learn from features.
const PER_USER: u32 = 1_024;

/// Most steps of [`give_back`]: two for each key that there can be.
const GIVEN_BACK: u32 = 131_072;

/// Those looked at before one is lost although it was used since the last look.
const CHANCES: u32 = 8;

/// One that is in the order no more, to be dropped without the lock.
struct Displaced {
    learner: Arc<Learner>,
    #[expect(dead_code, reason = "it is only dropped")]
    node: Option<RBTreeNode<Name, Arc<Learner>>>,
    count: Option<RBTreeNode<Uid, u32>>,
}

/// The memory for a learner, and the one that it displaces.
struct Memory {
    learner: Arc<Learner>,
    epoch: Epoch,
    node: Option<RBTreeNodeReservation<Name, Arc<Learner>>>,
    count: Option<RBTreeNodeReservation<Uid, u32>>,
    displaced: Option<Displaced>,
    /// Old ones that may still keep their places.
    chances: u32,
}

impl Memory {
    fn new(user: Uid, epoch: Epoch) -> Result<Self> {
        Ok(Self {
            learner: Learner::new(user, epoch)?,
            epoch,
            node: Some(RBTreeNodeReservation::new(account_nowait())?),
            count: Some(RBTreeNodeReservation::new(account_nowait())?),
            displaced: None,
            chances: CHANCES,
        })
    }
}

/// The outcome of a look.
enum Admission {
    Done,
    /// An old one keeps its place: the next look concerns another one.
    Later,
    /// Other features count by now.
    Void,
}

impl Shares {
    /// Gives a learner a place. Looks at one old one at most, and frees nothing.
    fn admit(&mut self, memory: &mut Memory) -> Admission {
        // With the lock held: those who give back what is void take it once the epoch is over.
        if tuned::features().epoch != memory.epoch {
            return Admission::Void;
        }
        let user = memory.learner.user;
        let before = self.learners.get(&user).copied();
        if before.is_some_and(|count| count >= PER_USER) {
            if memory.chances > 0 && self.spare_first(user) {
                memory.chances -= 1;
                return Admission::Later;
            }
            if let Some(first) = self.first(user) {
                memory.displaced = self.take_out(first);
            }
        }
        let (Some(node), Some(count)) = (memory.node.take(), memory.count.take()) else {
            return Admission::Void;
        };
        self.last_learner += 1;
        memory.learner.put(self.last_learner);
        let name = (user, self.last_learner);
        self.seats
            .insert(node.into_node(name, memory.learner.clone()));
        match self.learners.get_mut(&user) {
            Some(all) => {
                *all += 1;
                // Dropped without the lock.
                memory.count = Some(count);
            }
            None => {
                self.learners.insert(count.into_node(user, 1));
            }
        }
        Admission::Done
    }

    /// The first one of a user.
    fn first(&self, user: Uid) -> Option<Name> {
        let cursor = self.seats.cursor_lower_bound(&(user, 0))?;
        let name = *cursor.current().0;
        (name.0 == user).then_some(name)
    }

    /// Moves the first one of a user to the end if it was used again. Returns whether it did.
    fn spare_first(&mut self, user: Uid) -> bool {
        let Some(first) = self.first(user) else {
            return false;
        };
        let learner = self.seats.get(&first);
        let learner = learner.filter(|one| one.look());
        let Some(learner) = learner.cloned() else {
            return false;
        };
        let Some(node) = self.seats.remove_node(&first) else {
            return false;
        };
        self.last_learner += 1;
        learner.put(self.last_learner);
        let name = (user, self.last_learner);
        // This is not the last reference to it.
        self.seats
            .insert(node.into_reservation().into_node(name, learner));
        true
    }

    /// Takes one out of the order. Returns what is to be dropped without the lock.
    fn take_out(&mut self, name: Name) -> Option<Displaced> {
        let learner = self.seats.get(&name)?.clone();
        learner.put(0);
        let mut displaced = Displaced {
            learner,
            node: self.seats.remove_node(&name),
            count: None,
        };
        // INVARIANT: A count that becomes zero goes.
        let mut left = 0;
        if let Some(count) = self.learners.get_mut(&name.0) {
            *count -= 1;
            left = *count;
        }
        if left == 0 {
            displaced.count = self.learners.remove_node(&name.0);
        }
        Some(displaced)
    }

    /// Takes out the first one from here on that has its place since `last` at the latest. `None`, and
    /// none is left from here on, or the first one of another user is looked for next.
    fn take_older(&mut self, from: &mut Option<Name>, last: u64) -> Option<Displaced> {
        let cursor = self.seats.cursor_lower_bound(&(*from)?);
        let Some((user, place)) = cursor.map(|cursor| *cursor.current().0) else {
            *from = None;
            return None;
        };
        if place > last {
            *from = user.0.checked_add(1).map(|next| (Uid(next), 0));
            return None;
        }
        *from = Some((user, place));
        self.take_out((user, place))
    }
}

/// A key's place among those of its user that learn from features.
pub(crate) struct Seat(Arc<Learner>);

impl Seat {
    /// One for a key of a user. `None`: without memory, and if other features count by now, or none.
    /// Does not wait for memory.
    pub(crate) fn new(user: Uid, tuning: Tuning) -> Option<Self> {
        tuning.memory?;
        let mut memory = Memory::new(user, tuning.epoch).ok()?;
        loop {
            match with(|shares| shares.admit(&mut memory)).ok()? {
                Admission::Done => break,
                Admission::Later => {}
                Admission::Void => return None,
            }
        }
        if let Some(displaced) = &memory.displaced {
            displaced.learner.empty();
        }
        Some(Self(memory.learner.clone()))
    }

    /// The knowledge.
    pub(crate) fn learner(&self) -> Arc<Learner> {
        self.0.clone()
    }

    /// True if it has its place.
    pub(crate) fn is_kept(&self) -> bool {
        self.0.name().is_some()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // Without shares nothing is counted.
        let unused = with(|shares| shares.take_out(self.0.name()?));
        // Dropped without the lock.
        drop(unused);
    }
}

/// Gives back all that was learned until now, as no features count. The shares are locked for one key at a
/// time.
pub(crate) fn give_back() {
    let mut from = Some((Uid(0), 0));
    let Ok(last) = with(|shares| shares.last_learner) else {
        return;
    };
    for _ in 0..GIVEN_BACK {
        if from.is_none() {
            break;
        }
        if let Ok(Some(displaced)) = with(|shares| shares.take_older(&mut from, last)) {
            displaced.learner.empty();
        }
    }
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_request_share_seat)]
mod tests {
    use crate::{
        policy::predict::features::Memory as Remembered,
        request::share::seat::*, //
    };

    /// Users of the tests alone.
    const OWNER: Uid = Uid(u32::MAX - 5);
    const OTHER: Uid = Uid(u32::MAX - 6);

    fn seat(user: Uid) -> Option<Seat> {
        let mut tuning = tuned::features();
        tuning.memory = Some(Remembered::DEFAULT);
        Seat::new(user, tuning)
    }

    fn count(user: Uid) -> Result<Option<u32>> {
        with(|shares| shares.learners.get(&user).copied())
    }

    /// Seats of a user, as many as it can have.
    fn all(user: Uid) -> Result<KVec<Seat>> {
        let mut seats = KVec::new();
        for _ in 0..PER_USER {
            seats.push(seat(user).ok_or(EINVAL)?, GFP_KERNEL)?;
        }
        Ok(seats)
    }

    fn has_lost(seat: &Seat) -> bool {
        let is_empty = seat.0.knowledge().is_none();
        assert_eq!(is_empty, !seat.is_kept());
        is_empty
    }

    #[test]
    fn those_of_a_user_are_bounded() -> Result {
        let mut seats = all(OWNER)?;
        assert_eq!(count(OWNER)?, Some(PER_USER));
        // Others have their own share.
        let other = seat(OTHER).ok_or(EINVAL)?;
        assert_eq!(count(OTHER)?, Some(1));
        for _ in 0..3 {
            seats.push(seat(OWNER).ok_or(EINVAL)?, GFP_KERNEL)?;
        }
        assert_eq!(count(OWNER)?, Some(PER_USER));
        assert!(!has_lost(&other));
        // Those that lost their place count no more when they go.
        let lost = seats.iter().filter(|seat| has_lost(seat)).count();
        assert_eq!(lost, 3);
        drop(seats);
        assert_eq!(count(OWNER)?, None);
        drop(other);
        assert_eq!(count(OTHER)?, None);
        Ok(())
    }

    #[test]
    fn the_key_that_was_not_used_of_late_loses() -> Result {
        let seats = all(OWNER)?;
        for (n, seat) in seats.iter().enumerate() {
            // Each was made for a begin; all but one have had more.
            seat.0.touch();
            if n != 3 {
                seat.0.touch();
            }
        }
        let _one = seat(OWNER).ok_or(EINVAL)?;
        let mut lost = seats.iter().enumerate().filter(|(_, seat)| has_lost(seat));
        assert_eq!(lost.next().map(|(n, _)| n), Some(3));
        assert!(lost.next().is_none());
        // A look passes some at most, if all were used.
        let _second = seat(OWNER).ok_or(EINVAL)?;
        let lost = |seats: &KVec<Seat>| seats.iter().filter(|seat| has_lost(seat)).count();
        assert_eq!(lost(&seats), 2);
        // One that makes room without end keeps what is used.
        let mut crowd = KVec::new();
        let kept = seats.iter().position(Seat::is_kept).ok_or(EINVAL)?;
        for _ in 0..4 * PER_USER {
            seats[kept].0.touch();
            seats[kept].0.touch();
            crowd.push(seat(OWNER).ok_or(EINVAL)?, GFP_KERNEL)?;
        }
        assert!(seats[kept].is_kept());
        assert_eq!(lost(&seats), seats.len() - 1);
        Ok(())
    }

    #[test]
    fn another_epoch_gives_no_place() -> Result {
        let now = tuned::features();
        let next = now.then(Some(Remembered::DEFAULT), !now.measured);
        assert!(next.epoch != now.epoch);
        assert!(Seat::new(OWNER, next).is_none());
        assert!(Seat::new(
            OWNER,
            Tuning {
                memory: None,
                ..now
            }
        )
        .is_none());
        assert_eq!(count(OWNER)?, None);
        Ok(())
    }

    #[test]
    fn all_until_now_are_given_back() -> Result {
        let (one, other) = (seat(OWNER).ok_or(EINVAL)?, seat(OTHER).ok_or(EINVAL)?);
        give_back();
        assert!(has_lost(&one) && has_lost(&other));
        assert_eq!((count(OWNER)?, count(OTHER)?), (None, None));
        let last = with(|shares| shares.last_learner)?;
        let later = seat(OWNER).ok_or(EINVAL)?;
        let mut from = Some((OTHER, 0));
        while from.is_some() {
            assert!(with(|shares| shares.take_older(&mut from, last))?.is_none());
        }
        assert!(!has_lost(&later));
        Ok(())
    }
}
