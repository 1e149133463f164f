// SPDX-License-Identifier: GPL-2.0
//! The sleep of the whole system: no request begins during it, or shortly before.

use kernel::sync::atomic::{
    ordering::Relaxed,
    Atomic, //
};

static ASLEEP: Atomic<bool> = Atomic::new(false);

/// True if it sleeps.
pub(crate) fn is_asleep() -> bool {
    ASLEEP.load(Relaxed)
}

/// It does from now on, or does not any more.
pub(crate) fn set_asleep(asleep: bool) {
    ASLEEP.store(asleep, Relaxed);
}
