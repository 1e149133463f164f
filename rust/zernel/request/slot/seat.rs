// SPDX-License-Identifier: GPL-2.0
//! The place in the order of deadlines that a request has before it begins.

use super::state::State;
use crate::{
    policy::{
        deadline::line::{
            Lane,
            Place, //
        },
        units::Ns, //
    },
    request::{
        device::Device,
        keys::Thought, //
    },
};
use kernel::sync::Arc;

/// A place of a request that is to begin. Dropped without locks.
pub(crate) struct Seat {
    pub(super) gpu: Arc<Device>,
    /// The requests that it was admitted among.
    pub(super) lane: Lane,
    /// `None`: the slot has it.
    pub(super) place: Option<Place>,
    /// The time of the trigger that was counted with, at the latest.
    pub(super) due: Ns,
    /// The prediction from its features that was counted with, if it has some.
    pub(super) thought: Option<Thought>,
}

impl Seat {
    /// The time to its trigger, which is no later than was counted with.
    #[cold]
    #[inline(never)]
    pub(super) fn lead(&self, lead: Ns, now: Ns) -> Ns {
        lead.min(self.due.saturating_sub(now))
    }
}

impl State {
    /// True if a request that begins now is one of those that it was admitted among.
    #[cold]
    #[inline(never)]
    pub(super) fn belongs_to(&self, seat: &Seat) -> bool {
        self.group.as_ref().is_some_and(|group| {
            let is_gpu = core::ptr::eq::<Device>(&*group.gpu, &*seat.gpu);
            let is_level = group.level() == Some(seat.lane.level);
            is_gpu && is_level && group.runlist() == seat.lane.runlist
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.gpu.order.give_back(place);
        }
    }
}
