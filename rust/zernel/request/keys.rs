// SPDX-License-Identifier: GPL-2.0
//! The keys of all users, and those that are forgotten when there is no room.

mod key;

use crate::glue::{
    identity::Uid,
    memory::account_nowait, //
};
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode,
        RBTreeNodeReservation, //
    },
    sync::Arc, //
};

pub(crate) use key::Key;
use key::OFTEN;
pub(super) use key::{
    Prediction,
    Thought, //
};

/// Most keys at a time.
pub(crate) const MAX: u32 = 65_536;

/// Keys looked at before one is forgotten although it was used since the last look.
const CHANCES: u32 = 8;

/// A key of a user, with its place in the user's order.
struct Held {
    place: u64,
    key: Arc<Key>,
}

/// The first user and name that a key can have.
pub(crate) const FIRST: (Uid, u64) = (Uid(0), 0);

/// The next one in the order of users and names.
pub(crate) fn after((uid, name): (Uid, u64)) -> Option<(Uid, u64)> {
    match name.checked_add(1) {
        Some(next) => Some((uid, next)),
        None => uid.0.checked_add(1).map(|next| (Uid(next), 0)),
    }
}

/// The answer to a look for a key.
pub(crate) enum Found {
    /// Its history.
    Key(Arc<Key>),
    /// It is new, and takes memory.
    TakesMemory,
    /// An old key keeps its place: the next look concerns another one.
    Later,
}

/// Memory for a new key, and that of the one in whose place it comes: taken and given back without a
/// lock.
pub(crate) struct Memory {
    new: Option<New>,
    unused: Option<(NewUser, NewCount)>,
    forgotten: Option<Forgotten>,
    /// Old keys that may still keep their places.
    chances: u32,
}

/// A new key.
struct New {
    key: Arc<Key>,
    held: RBTreeNodeReservation<(Uid, u64), Held>,
    order: RBTreeNodeReservation<(Uid, u64), u64>,
    user: NewUser,
    count: NewCount,
}

type NewUser = RBTreeNodeReservation<Uid, u32>;
type NewCount = RBTreeNodeReservation<(u32, Uid), ()>;

/// A key that was forgotten, with its user where that has no other.
#[derive(Default)]
#[expect(dead_code, reason = "it is only dropped")]
struct Forgotten {
    held: Option<RBTreeNode<(Uid, u64), Held>>,
    order: Option<RBTreeNode<(Uid, u64), u64>>,
    user: Option<RBTreeNode<Uid, u32>>,
    count: Option<RBTreeNode<(u32, Uid), ()>>,
}

impl Memory {
    /// For one new key. Does not wait for memory.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let new = New {
            key: Key::new()?,
            held: RBTreeNodeReservation::new(account_nowait())?,
            order: RBTreeNodeReservation::new(account_nowait())?,
            user: RBTreeNodeReservation::new(account_nowait())?,
            count: RBTreeNodeReservation::new(account_nowait())?,
        };
        Ok(Self {
            new: Some(new),
            unused: None,
            forgotten: None,
            chances: CHANCES,
        })
    }
}

/// All keys.
///
/// A user loses keys to others only with more than an even share of all, and the one with most
/// first.
///
/// # Invariants
///
/// `order` has exactly one entry per key of `held`, `users` counts them per user; no count is 0.
/// `counts` has exactly one entry per user, with its count.
pub(crate) struct Keys {
    held: RBTree<(Uid, u64), Held>,
    order: RBTree<(Uid, u64), u64>,
    users: RBTree<Uid, u32>,
    counts: RBTree<(u32, Uid), ()>,
    nr_users: u32,
    count: u32,
    /// Most keys.
    most: u32,
    last_place: u64,
}

impl Keys {
    /// None.
    pub(crate) fn new() -> Self {
        Self::with_most(MAX)
    }

    fn with_most(most: u32) -> Self {
        Self {
            held: RBTree::new(),
            order: RBTree::new(),
            users: RBTree::new(),
            counts: RBTree::new(),
            nr_users: 0,
            count: 0,
            most,
            last_place: 0,
        }
    }

    /// Looks for the history of a user's key; a new one takes `memory`, and forgets an old one where
    /// there is no room. Looks at one old key at most, and frees nothing.
    pub(crate) fn find(&mut self, uid: Uid, name: u64, memory: &mut Option<Memory>) -> Found {
        if let Some(held) = self.held.get(&(uid, name)) {
            held.key.touch();
            return Found::Key(held.key.clone());
        }
        let Some(memory) = memory.as_mut() else {
            return Found::TakesMemory;
        };
        if self.count >= self.most {
            if let Some(loser) = self.loser(uid) {
                if memory.chances > 0 && self.spare_first(loser) {
                    memory.chances -= 1;
                    return Found::Later;
                }
                memory.forgotten = self.forget_first(loser);
            }
        }
        let Some(new) = memory.new.take() else {
            return Found::TakesMemory;
        };
        // INVARIANT: One entry each.
        self.last_place += 1;
        let held = Held {
            place: self.last_place,
            key: new.key.clone(),
        };
        self.held.insert(new.held.into_node((uid, name), held));
        self.order
            .insert(new.order.into_node((uid, self.last_place), name));
        match self.users.get_mut(&uid) {
            Some(before) => {
                *before += 1;
                let after = *before;
                self.recount(uid, after - 1, after);
                memory.unused = Some((new.user, new.count));
            }
            None => {
                self.users.insert(new.user.into_node(uid, 1));
                self.counts.insert(new.count.into_node((1, uid), ()));
                self.nr_users += 1;
            }
        }
        self.count += 1;
        Found::Key(new.key)
    }

    /// The count of a user has changed.
    fn recount(&mut self, uid: Uid, before: u32, after: u32) {
        if let Some(node) = self.counts.remove_node(&(before, uid)) {
            self.counts
                .insert(node.into_reservation().into_node((after, uid), ()));
        }
    }

    /// The first key from this one on, in the order of users and names.
    pub(crate) fn first_from(&self, from: (Uid, u64)) -> Option<((Uid, u64), Arc<Key>)> {
        let cursor = self.held.cursor_lower_bound(&from)?;
        let (name, held) = cursor.current();
        Some((*name, held.key.clone()))
    }

    /// The user that loses a key to `uid`: itself, if it has an even share already, else the one
    /// with most. One of them exists where there is no room.
    fn loser(&self, uid: Uid) -> Option<Uid> {
        let known = self.users.get(&uid).copied();
        let sharers = self.nr_users + u32::from(known.is_none());
        let share = self.most.checked_div(sharers).unwrap_or(self.most);
        if known.is_some_and(|count| count >= share) {
            return Some(uid);
        }
        let most = self.counts.cursor_back().map(|cursor| *cursor.current().0);
        most.filter(|&(count, _)| count > share)
            .map(|(_, user)| user)
            .or(known.map(|_| uid))
    }

    /// Forgets the first key of a user.
    fn forget_first(&mut self, uid: Uid) -> Option<Forgotten> {
        let (place, name) = self.first(uid)?;
        let mut forgotten = Forgotten {
            held: self.held.remove_node(&(uid, name)),
            order: self.order.remove_node(&(uid, place)),
            ..Forgotten::default()
        };
        self.count -= 1;
        // INVARIANT: A count that becomes zero goes.
        let mut left = 0;
        if let Some(count) = self.users.get_mut(&uid) {
            *count -= 1;
            left = *count;
        }
        if left == 0 {
            forgotten.user = self.users.remove_node(&uid);
            forgotten.count = self.counts.remove_node(&(1, uid));
            self.nr_users -= 1;
        } else {
            self.recount(uid, left + 1, left);
        }
        Some(forgotten)
    }

    fn first(&self, uid: Uid) -> Option<(u64, u64)> {
        let cursor = self.order.cursor_lower_bound(&(uid, 0))?;
        let (&(owner, place), &name) = cursor.current();
        (owner == uid).then_some((place, name))
    }

    /// Moves the first key of a user to the end if it was used again. Returns whether it did.
    fn spare_first(&mut self, uid: Uid) -> bool {
        let Some((place, name)) = self.first(uid) else {
            return false;
        };
        let Some(held) = self.held.get_mut(&(uid, name)) else {
            return false;
        };
        if held.key.look() < OFTEN {
            return false;
        }
        let Some(node) = self.order.remove_node(&(uid, place)) else {
            return false;
        };
        self.last_place += 1;
        held.place = self.last_place;
        self.order
            .insert(node.into_reservation().into_node((uid, held.place), name));
        true
    }
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_request_keys)]
mod tests {
    use crate::{
        glue::time::now_ns,
        request::keys::*, //
    };

    const MOST: u32 = 64;

    /// A key, and the number of looks for it.
    fn get(keys: &mut Keys, user: u32, name: u64) -> Result<(Arc<Key>, u32)> {
        let mut memory = None;
        for look in 1.. {
            match keys.find(Uid(user), name, &mut memory) {
                Found::Key(key) => return Ok((key, look)),
                Found::TakesMemory => memory = Some(Memory::new()?),
                Found::Later => {}
            }
        }
        Err(EINVAL)
    }

    fn fill(keys: &mut Keys, user: u32, names: core::ops::Range<u64>) -> Result {
        for name in names {
            get(keys, user, name)?;
        }
        Ok(())
    }

    fn counts<const N: usize>(keys: &Keys) -> [u32; N] {
        let mut user = 0;
        [(); N].map(|()| {
            user += 1;
            keys.users.get(&Uid(user)).copied().unwrap_or(0)
        })
    }

    #[test]
    fn a_key_is_one_users_own() -> Result {
        let mut keys = Keys::with_most(MOST);
        let first = get(&mut keys, 1, 1)?.0;
        assert!(!Arc::ptr_eq(&first, &get(&mut keys, 1, 2)?.0));
        assert!(!Arc::ptr_eq(&first, &get(&mut keys, 2, 1)?.0));
        assert!(Arc::ptr_eq(&first, &get(&mut keys, 1, 1)?.0));
        Ok(())
    }

    #[test]
    fn the_user_with_most_keys_loses_some_to_others() -> Result {
        let mut keys = Keys::with_most(MOST);
        fill(&mut keys, 1, 0..23)?;
        fill(&mut keys, 2, 0..41)?;
        assert_eq!(counts(&keys), [23, 41]);
        // Both have more than a third, and the first one keeps all until the other has fewer.
        fill(&mut keys, 3, 0..18)?;
        assert_eq!(counts(&keys), [23, 23, 18]);
        fill(&mut keys, 3, 18..40)?;
        assert_eq!(counts(&keys), [22, 21, 21]);
        assert_eq!(keys.count, MOST);
        Ok(())
    }

    #[test]
    fn a_user_with_an_even_share_loses_its_own() -> Result {
        let mut keys = Keys::with_most(MOST);
        fill(&mut keys, 1, 0..32)?;
        fill(&mut keys, 2, 0..200)?;
        assert_eq!(counts(&keys), [32, 32]);
        // The oldest ones go.
        assert!(keys.held.get(&(Uid(2), 199)).is_some());
        assert!(keys.held.get(&(Uid(2), 1)).is_none());
        Ok(())
    }

    #[test]
    fn a_look_passes_one_old_key_and_some_are_passed_at_most() -> Result {
        let mut keys = Keys::with_most(MOST);
        let all = 0..u64::from(MOST);
        for _ in 0..=OFTEN {
            fill(&mut keys, 1, all.clone())?;
        }
        // One that tells that it takes memory, and one at the end.
        assert_eq!(get(&mut keys, 1, 1_000)?.1, CHANCES + 2);
        assert!(keys.held.get(&(Uid(1), u64::from(CHANCES))).is_none());
        let mut kept = all.filter(|&name| name != u64::from(CHANCES));
        assert!(kept.all(|name| keys.held.get(&(Uid(1), name)).is_some()));
        assert_eq!(get(&mut keys, 1, 1_000)?.1, 1);
        assert_eq!(keys.count, MOST);
        Ok(())
    }

    #[test]
    fn users_without_keys_are_forgotten() -> Result {
        let mut keys = Keys::with_most(MOST);
        for user in 0..10 * MOST {
            fill(&mut keys, user, 0..1)?;
        }
        assert_eq!(keys.nr_users, MOST);
        assert_eq!(keys.users.iter().count(), MOST as usize);
        let sum: u32 = keys.counts.iter().map(|(&(count, _), ())| count).sum();
        assert_eq!(sum, MOST);
        Ok(())
    }

    /// The least time that the first key of a new user takes where there is no room, beside so many
    /// users with one key and one with the rest.
    fn time_beside(users: u32) -> Result<u64> {
        const NEW: u32 = 64;
        let most = users + 4 * NEW;
        let mut keys = Keys::with_most(most);
        for user in 0..users {
            fill(&mut keys, user, 0..1)?;
        }
        fill(&mut keys, users + NEW, 0..u64::from(4 * NEW))?;
        let mut least = u64::MAX;
        for user in users..users + NEW {
            let begin = now_ns();
            fill(&mut keys, user, 0..1)?;
            least = least.min(now_ns() - begin);
        }
        assert!(keys.count == most && keys.nr_users == users + NEW + 1);
        Ok(least)
    }

    #[test]
    fn a_key_takes_no_longer_beside_many_users() -> Result {
        let (few, many) = (time_beside(256)?, time_beside(8_192)?);
        pr_info!("{few} ns beside few users, {many} beside many\n");
        // A walk through the users would take some 20 times as long.
        assert!(many < 5 * few);
        Ok(())
    }
}
