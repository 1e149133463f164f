// SPDX-License-Identifier: GPL-2.0
//! The sleep of the whole system ends all requests.

use super::{
    after::Walk,
    tsg,
    Registry, //
};
use crate::request::sleep;

/// The whole system is about to sleep, or is back.
pub(crate) fn system_sleeps(asleep: bool) {
    // Without a registry there is nothing to end.
    let _ = super::with(|r| r.system_sleeps(asleep));
}

impl Registry {
    /// The whole system is about to sleep, or is back. Its drivers tell of their GPUs later than
    /// that: until then no timer may trigger any more.
    pub(super) fn system_sleeps(&mut self, asleep: bool) {
        // First, so that none begins that is not ended here.
        sleep::set_asleep(asleep);
        if !asleep {
            return;
        }
        self.walk(Walk::Sleep(tsg::Id::FIRST));
    }
}
