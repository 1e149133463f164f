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
use kernel::prelude::*;

lock::global!(WINDOW: Window);

/// The present state. Nothing is counted before the first request that asks. Process context.
pub(crate) fn state() -> Machine {
    let now = Ns(now_ns());
    let mut window = lock().lock();
    let window = window.get_or_insert_with(|| Window::new(now, load::counts()));
    window.look(now, load::counts)
}
