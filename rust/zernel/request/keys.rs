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
const CHANCES: u32 = 64;

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
/// A user loses keys to others only with more than an even share of [`MAX`].
///
/// # Invariants
///
/// `order` has exactly one entry per key of `held`, `users` counts them per user; no count is 0.
pub(crate) struct Keys {
    held: RBTree<(Uid, u64), Held>,
    order: RBTree<(Uid, u64), u64>,
    users: RBTree<Uid, u32>,
    nr_users: u32,
    count: u32,
    last_place: u64,
}

impl Keys {
    /// None.
    pub(crate) fn new() -> Self {
        Self {
            held: RBTree::new(),
            order: RBTree::new(),
            users: RBTree::new(),
            nr_users: 0,
            count: 0,
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
        if self.count >= MAX {
            if let Some(loser) = self.loser(uid) {
                self.forget_one(loser);
            }
        }
        // INVARIANT: One entry each.
        self.last_place = place;
        self.held.insert(held);
        self.order.insert(order);
        match self.users.get_mut(&uid) {
            Some(count) => *count += 1,
            None => {
                self.users.insert(user);
                self.nr_users += 1;
            }
        }
        self.count += 1;
        Ok(key)
    }

    /// The user that loses a key to `uid`: itself, if it has an even share already, else the first
    /// with more than that. One of them exists where there is no room.
    fn loser(&self, uid: Uid) -> Option<Uid> {
        let known = self.users.get(&uid).copied();
        let sharers = self.nr_users + u32::from(known.is_none());
        let share = MAX.checked_div(sharers).unwrap_or(MAX);
        if known.is_some_and(|count| count >= share) {
            return Some(uid);
        }
        self.users
            .iter()
            .find(|(_, &count)| count > share)
            .map(|(&user, _)| user)
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
            self.nr_users -= 1;
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
