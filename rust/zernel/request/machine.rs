// SPDX-License-Identifier: GPL-2.0
//! The state of the machine, as requests with features are told it.

use crate::{
    glue::{
        load,
        lock,
        time::now_ns, //
    },
    policy::{
        predict::features::machine::{
            Machine,
            Window, //
        },
        units::Ns, //
    },
};
use kernel::{
    prelude::*,
    sync::atomic::{
        ordering::Relaxed,
        Atomic, //
    }, //
};

lock::global!(WINDOW: Window);

/// The last state that was told, packed.
static LAST: Atomic<u64> = Atomic::new(0);

/// The present state; the last one while another thread works that out, so that nobody waits for a
/// thread that does not run. Nothing is counted before the first request that asks. Process context.
pub(crate) fn state() -> Machine {
    let Some(mut window) = lock().try_lock() else {
        return Machine::unpacked(LAST.load(Relaxed));
    };
    let now = Ns(now_ns());
    let window = window.get_or_insert_with(|| Window::new(now, load::counts()));
    let state = window.look(now, load::counts);
    LAST.store(state.packed(), Relaxed);
    state
}
