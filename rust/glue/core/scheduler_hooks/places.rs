// SPDX-License-Identifier: GPL-2.0
//! Places for records: how many there are, of each user, and how many threads got none.
//!
//! # Locking
//!
//! One spinlock protects the numbers of the users. A thread takes it as it makes another, so nothing
//! is done under it but to count.

use crate::glue::{
    errno,
    identity::Uid,
    lock,
    memory::account_nowait,
    module::this_module, //
};
use kernel::{
    bindings,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::atomic::{
        ordering::{
            Full,
            Relaxed, //
        },
        Atomic, //
    },
};

/// Most records at a time, those of threads that have still to let theirs go included.
pub(crate) const MAX: u32 = 1 << 17;

/// Most records of the threads of a user other than root.
pub(crate) const MAX_PER_USER: u32 = MAX / 4;

/// Records that the record reaper has not been through.
static LIVE: Atomic<u32> = Atomic::new(0);

/// Threads that were to be tracked and are not, because there was no memory or no room.
static MISSED: Atomic<u64> = Atomic::new(0);

lock::global!(USERS: RBTree<Uid, u32>, SpinLock);

/// The number of records.
pub(crate) fn live() -> u32 {
    LIVE.load(Relaxed)
}

/// The number of threads that were missed.
pub(crate) fn missed() -> u64 {
    MISSED.load(Relaxed)
}

/// One more thread was missed.
pub(crate) fn miss() {
    MISSED.fetch_add(1, Relaxed);
}

/// A reference to the module and a place among [`MAX`] records, and among those of a user.
pub(super) struct Place(Uid);

impl Place {
    /// One for a thread of this user.
    ///
    /// # Errors
    ///
    /// `ENOSPC` there are [`MAX`], `EDQUOT` the user has [`MAX_PER_USER`], `ENOMEM`.
    pub(super) fn take(uid: Uid) -> Result<Self> {
        charge(uid)?;
        // The module may be on its way out: the cgroup sync and the record reaper run until it is.
        // SAFETY: The module's code runs, so it is there.
        let there = unsafe { bindings::try_module_get(this_module()) };
        if LIVE.fetch_add(1, Full) >= MAX || !there {
            LIVE.fetch_sub(1, Full);
            if there {
                // SAFETY: Just taken.
                unsafe { bindings::module_put(this_module()) };
            }
            discharge(uid);
            return Err(ENOSPC);
        }
        Ok(Self(uid))
    }

    /// Gives one back that was taken when a record was made.
    pub(super) fn give_back(uid: Uid) {
        drop(Self(uid));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        discharge(self.0);
        LIVE.fetch_sub(1, Full);
        // SAFETY: Taken in `take`. The end of the module waits for every caller: it has a file
        // open, is a thread with a record, runs in task work, or on the workqueue.
        unsafe { bindings::module_put(this_module()) };
    }
}

fn charge(uid: Uid) -> Result {
    if uid == Uid::ROOT {
        return Ok(());
    }
    let mut room: Option<RBTreeNodeReservation<Uid, u32>> = None;
    loop {
        let mut guard = lock().lock();
        let users = guard.get_or_insert_with(RBTree::new);
        if let Some(held) = users.get_mut(&uid) {
            if *held >= MAX_PER_USER {
                return Err(errno::over_quota());
            }
            *held += 1;
            return Ok(());
        }
        if let Some(room) = room.take() {
            users.insert(room.into_node(uid, 1));
            return Ok(());
        }
        drop(guard);
        room = Some(RBTreeNodeReservation::new(account_nowait())?);
    }
}

fn discharge(uid: Uid) {
    let mut guard = lock().lock();
    let Some(users) = guard.as_mut() else {
        return;
    };
    match users.get_mut(&uid) {
        Some(held) if *held > 1 => *held -= 1,
        _ => drop(users.remove(&uid)),
    }
}
