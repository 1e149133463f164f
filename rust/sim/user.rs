// SPDX-License-Identifier: GPL-2.0
//! Quotas: the use of the files of one user id together.

use crate::glue::{
    errno,
    sim::task, //
};
use kernel::{
    new_mutex,
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
        Arc,
        Mutex, //
    }, //
};

/// Something that a user has a limited number of.
pub(crate) struct Quota(Atomic<u32>);

impl Quota {
    /// Takes `count` of `limit`. Privileged callers get more.
    ///
    /// # Errors
    ///
    /// `EDQUOT`
    pub(crate) fn charge(&self, count: u32, limit: u32) -> Result {
        let before = self.0.fetch_add(count, Relaxed);
        if before.saturating_add(count) <= limit || task::has_resources() {
            return Ok(());
        }
        self.release(count);
        Err(errno::over_quota())
    }

    /// Gives `count` back.
    pub(crate) fn release(&self, count: u32) {
        self.0.fetch_sub(count, Relaxed);
    }
}

/// A user id that has the device open.
pub(crate) struct User {
    uid: u32,
    /// Contexts.
    pub(crate) contexts: Quota,
    /// Items that have not completed.
    pub(crate) items: Quota,
}

/// A user and the number of its files.
struct Entry {
    user: Arc<User>,
    files: u32,
}

/// All users.
#[pin_data]
pub(crate) struct Users {
    #[pin]
    users: Mutex<RBTree<u32, Entry>>,
}

impl Users {
    /// Nobody.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self { users <- new_mutex!(RBTree::new(), "zernel_sim_users") })
    }

    /// The caller opens a file.
    pub(crate) fn enter(&self) -> Result<Arc<User>> {
        let uid = task::uid();
        // Without the lock: the user's cgroup may have it wait for memory.
        let (contexts, items) = (Quota(Atomic::new(0)), Quota(Atomic::new(0)));
        let user = Arc::new(
            User {
                uid,
                contexts,
                items,
            },
            GFP_KERNEL_ACCOUNT,
        )?;
        let entry = Entry {
            user: user.clone(),
            files: 1,
        };
        let node = RBTreeNode::new(uid, entry, GFP_KERNEL_ACCOUNT)?;
        let mut users = self.users.lock();
        if let Some(entry) = users.get_mut(&uid) {
            entry.files = entry.files.saturating_add(1);
            return Ok(entry.user.clone());
        }
        users.insert(node);
        Ok(user)
    }

    /// A file of `user` is closed.
    pub(crate) fn leave(&self, user: &User) {
        let mut users = self.users.lock();
        let last = match users.get_mut(&user.uid) {
            Some(entry) => {
                entry.files = entry.files.saturating_sub(1);
                entry.files == 0
            }
            None => false,
        };
        if last {
            users.remove(&user.uid);
        }
    }
}

impl User {
    /// The user id, in the initial namespace.
    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }
}
