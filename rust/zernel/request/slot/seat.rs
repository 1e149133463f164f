// SPDX-License-Identifier: GPL-2.0
//! The place in the order of deadlines that a request has before it begins.

use crate::{
    policy::deadline::line::Place,
    request::device::Device, //
};
use kernel::sync::Arc;

/// A place of a request that is to begin. Dropped without locks.
pub(crate) struct Seat {
    pub(super) gpu: Arc<Device>,
    /// `None`: the slot has it.
    pub(super) place: Option<Place>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.gpu.order.give_back(place);
        }
    }
}
