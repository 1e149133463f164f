// SPDX-License-Identifier: GPL-2.0
//! Whether the whole system sleeps, or is about to: no request begins then.

use kernel::sync::atomic::{
    ordering::Relaxed,
    Atomic, //
};

static ASLEEP: Atomic<bool> = Atomic::new(false);

/// Whether it does.
pub(crate) fn is_asleep() -> bool {
    ASLEEP.load(Relaxed)
}

/// It does from now on, or does not any more.
pub(crate) fn set_asleep(asleep: bool) {
    ASLEEP.store(asleep, Relaxed);
}
