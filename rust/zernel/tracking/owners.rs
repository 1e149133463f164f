// SPDX-License-Identifier: GPL-2.0
//! Processes that have a TSG now and are to be tracked: later, as their provider may hold locks.

use crate::glue::{
    identity::Pid,
    scheduler_hooks,
    work::Kick, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

/// The processes.
#[pin_data]
pub(crate) struct Owners {
    #[pin]
    list: Mutex<KVVec<Pid>>,
}

impl Owners {
    /// None.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                list <- new_mutex!(KVVec::new(), "zernel_owners"),
            }),
            GFP_KERNEL,
        )
    }

    /// One more; `reaper` takes it from here.
    pub(crate) fn add(&self, owner: Pid, reaper: &Kick) {
        match self.list.lock().push(owner, GFP_KERNEL) {
            Ok(()) => reaper.kick(),
            Err(_) => scheduler_hooks::miss(),
        }
    }

    /// All of them, which are to be tracked now.
    pub(crate) fn take(&self) -> KVVec<Pid> {
        core::mem::take(&mut *self.list.lock())
    }
}
