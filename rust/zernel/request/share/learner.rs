// SPDX-License-Identifier: GPL-2.0
//! The knowledge from features of a key, in a place that it can lose.

use crate::{
    glue::{
        identity::Uid,
        memory::account_nowait, //
    },
    policy::predict::features::{
        knowledge::Knowledge,
        tuning::Epoch, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc,
        Mutex,
        MutexGuard, //
    },
};

/// Uses until a place is kept. The begin that makes it is one.
const OFTEN: u32 = 2;

/// The knowledge from features of a key.
#[pin_data]
pub(crate) struct Learner {
    pub(super) user: Uid,
    /// Its place in the order of its user; 0: it has lost it. Changed with the shares locked.
    place: Atomic<u64>,
    /// Uses since it was last looked at, up to [`OFTEN`].
    used: Atomic<u32>,
    /// `None` when it has lost its place.
    #[pin]
    knowledge: Mutex<Option<KBox<Knowledge>>>,
}

impl Learner {
    /// Of a key of a user, without a place yet. Does not wait for memory.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(user: Uid, epoch: Epoch) -> Result<Arc<Self>> {
        let knowledge = KBox::new(Knowledge::new(epoch), account_nowait())?;
        Arc::pin_init(
            pin_init!(Self {
                user,
                place: Atomic::new(0),
                used: Atomic::new(0),
                knowledge <- new_mutex!(Some(knowledge), "zernel_features"),
            }),
            account_nowait(),
        )
    }

    /// All that was learned.
    pub(crate) fn knowledge(&self) -> MutexGuard<'_, Option<KBox<Knowledge>>> {
        self.knowledge.lock()
    }

    /// Keeps it from being the next that is lost.
    pub(crate) fn touch(&self) {
        let used = self.used.load(Relaxed);
        if used < OFTEN {
            self.used.store(used + 1, Relaxed);
        }
    }

    /// True if it was used again since the last look.
    pub(super) fn look(&self) -> bool {
        self.used.xchg(1, Relaxed) >= OFTEN
    }

    /// Its place, if it has one.
    pub(super) fn name(&self) -> Option<Name> {
        let place = self.place.load(Relaxed);
        (place > 0).then_some((self.user, place))
    }

    /// Gives it a place; 0: it has none any more. With the shares locked.
    pub(super) fn put(&self, place: u64) {
        self.place.store(place, Relaxed);
    }

    /// Gives the memory back of one that has lost its place.
    pub(super) fn empty(&self) {
        let unused = self.knowledge.lock().take();
        // Dropped without the lock.
        drop(unused);
    }
}

/// A place in the order of a user.
pub(super) type Name = (Uid, u64);
