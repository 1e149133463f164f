// SPDX-License-Identifier: GPL-2.0
//! The memory of preparation times, per user and key.

use crate::{
    glue::{
        identity::Uid,
        irqlock::{
            new_irq_lock,
            IrqLock, //
        },
        memory::account_nowait, //
    },
    policy::{
        predict::{
            Choice,
            History, //
        },
        units::Ns, //
    }, //
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
    }, //
};

/// Most keys at a time.
pub(crate) const MAX: u32 = 65_536;

/// Keys looked at before one is forgotten although it was used since the last look.
const CHANCES: u32 = 8;

/// Uses of a key until its place is kept. Making a key takes fewer: a program that makes keys
/// without end keeps none of them.
const OFTEN: u32 = 2;

/// The history of one key.
#[pin_data]
pub(crate) struct Key {
    /// Fed when a request of the key was ready.
    #[pin]
    history: IrqLock<History>,
    /// Times that it was fed. Wraps.
    version: Atomic<u32>,
    /// Uses since it was last looked at for being forgotten, up to [`OFTEN`].
    used: Atomic<u32>,
}

/// The prediction of a key.
#[derive(Clone, Copy)]
pub(super) struct Prediction {
    /// The question.
    pub(super) choice: Choice,
    version: u32,
    /// The time from begin at which the GPU shall be free; `None` if nothing is known.
    pub(super) time: Option<Ns>,
}

impl Key {
    fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                history <- new_irq_lock!(History::NEW, c"zernel_key"),
                version: Atomic::new(0),
                used: Atomic::new(0),
            }),
            account_nowait(),
        )
    }

    /// Learns from a preparation, and how it was predicted.
    pub(super) fn learn(&self, took: Ns, choice: Choice) {
        self.touch();
        let mut history = self.history.lock();
        history.observe(took, choice);
        let version = self.version.load(Relaxed);
        self.version.store(version.wrapping_add(1), Relaxed);
    }

    /// The time from begin at which the GPU shall be free.
    pub(super) fn predict(&self, choice: Choice) -> Prediction {
        let history = self.history.lock();
        Prediction {
            choice,
            version: self.version.load(Relaxed),
            time: history.predict(choice),
        }
    }

    /// True if this is still the answer of [`Self::predict`].
    pub(super) fn predicts(&self, prediction: &Prediction) -> bool {
        prediction.version == self.version.load(Relaxed)
    }

    /// Keeps it from being the next that is forgotten.
    fn touch(&self) {
        let used = self.used.load(Relaxed);
        if used < OFTEN {
            self.used.store(used + 1, Relaxed);
        }
    }
}

/// A key of a user, with its place in the user's order.
struct Held {
    place: u64,
    key: Arc<Key>,
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

    /// The history of a user's key; a new one forgets an old one where there is no room.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; nothing has changed then.
    pub(crate) fn get(&mut self, uid: Uid, name: u64) -> Result<Arc<Key>> {
        if let Some(held) = self.held.get(&(uid, name)) {
            held.key.touch();
            return Ok(held.key.clone());
        }
        let key = Key::new()?;
        let place = self.last_place + 1;
        let held = Held {
            place,
            key: key.clone(),
        };
        let held = RBTreeNode::new((uid, name), held, account_nowait())?;
        let order = RBTreeNode::new((uid, place), name, account_nowait())?;
        let user = RBTreeNode::new(uid, 1, account_nowait())?;
        let count = RBTreeNode::new((1, uid), (), account_nowait())?;
        if self.count >= self.most {
            if let Some(loser) = self.loser(uid) {
                self.forget_one(loser);
            }
        }
        // INVARIANT: One entry each.
        self.last_place = place;
        self.held.insert(held);
        self.order.insert(order);
        match self.users.get_mut(&uid) {
            Some(before) => {
                *before += 1;
                let after = *before;
                self.recount(uid, after - 1, after);
            }
            None => {
                self.users.insert(user);
                self.counts.insert(count);
                self.nr_users += 1;
            }
        }
        self.count += 1;
        Ok(key)
    }

    /// The count of a user has changed.
    fn recount(&mut self, uid: Uid, before: u32, after: u32) {
        if let Some(node) = self.counts.remove_node(&(before, uid)) {
            self.counts
                .insert(node.into_reservation().into_node((after, uid), ()));
        }
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

    /// Forgets the key of a user that was not used for longest.
    fn forget_one(&mut self, uid: Uid) {
        for _ in 0..CHANCES {
            if !self.spare_first(uid) {
                break;
            }
        }
        let Some((place, name)) = self.first(uid) else {
            return;
        };
        self.order.remove(&(uid, place));
        self.held.remove(&(uid, name));
        self.count -= 1;
        // INVARIANT: A count that becomes zero goes.
        let mut left = 0;
        if let Some(count) = self.users.get_mut(&uid) {
            *count -= 1;
            left = *count;
        }
        if left == 0 {
            self.users.remove(&uid);
            self.counts.remove(&(1, uid));
            self.nr_users -= 1;
        } else {
            self.recount(uid, left + 1, left);
        }
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
        if held.key.used.xchg(1, Relaxed) < OFTEN {
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

    fn fill(keys: &mut Keys, user: u32, names: core::ops::Range<u64>) -> Result {
        for name in names {
            keys.get(Uid(user), name)?;
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
