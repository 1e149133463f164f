// SPDX-License-Identifier: GPL-2.0
//! The completions of a file, and the pollers for them.

use super::{
    records::Records,
    uapi::{
        zernel_sim_completion,
        ZERNEL_SIM_STATUS_HOLD_EXPIRED,
        ZERNEL_SIM_STATUS_OK, //
    }, //
};
use crate::{
    glue::irqlock::{
        new_irq_lock,
        IrqLock, //
    },
    model::event::{
        Completion,
        Status, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        poll::PollCondVar,
        Arc, //
    }, //
};

/// Completions that a file keeps.
pub(crate) const CAPACITY: usize = 1024;

/// The completions of a file.
#[pin_data]
pub(crate) struct Inbox {
    #[pin]
    records: IrqLock<Records<zernel_sim_completion>>,
    /// The pollers of the file.
    #[pin]
    pub(crate) readable: PollCondVar,
}

impl Inbox {
    /// An empty inbox, which has no storage before [`Inbox::prepare`].
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                records <- new_irq_lock!(Records::new(), c"zernel_sim_inbox"),
                readable <- kernel::new_poll_condvar!("zernel_sim_readable"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Makes sure that there is storage: files without contexts need none.
    pub(crate) fn prepare(&self) -> Result {
        if !self.records.lock().is_unset() {
            return Ok(());
        }
        let mut records = Records::with_capacity(CAPACITY, zernel_sim_completion::default())?;
        let mut current = self.records.lock();
        if current.is_unset() {
            core::mem::swap(&mut *current, &mut records);
        }
        // The lock goes before the rest of `records`.
        drop(current);
        Ok(())
    }

    /// Adds a completion and wakes the pollers.
    pub(crate) fn push(&self, context: u32, completion: &Completion) {
        self.records.lock().push(zernel_sim_completion {
            context,
            channel: completion.channel,
            seq: completion.seq,
            tag: completion.tag,
            queued_ns: completion.queued.0,
            start_ns: completion.start.0,
            end_ns: completion.end.0,
            status: match completion.status {
                Status::Done => ZERNEL_SIM_STATUS_OK,
                Status::Expired => ZERNEL_SIM_STATUS_HOLD_EXPIRED,
            },
            reserved: 0,
        });
        self.readable.notify_all();
    }

    /// True if there is a completion to take.
    pub(crate) fn is_readable(&self) -> bool {
        !self.records.lock().is_empty()
    }

    /// Calls `f` with the records.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut Records<zernel_sim_completion>) -> R) -> R {
        f(&mut self.records.lock())
    }
}
