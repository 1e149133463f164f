// SPDX-License-Identifier: MIT OR Apache-2.0
//! Modules that come and go: alone, in use, under load, two hundred times.

mod alone;
mod busy;
mod rounds;

use std::path::Path;

use anyhow::{ensure, Result};
use rustix::io::Errno;

use crate::check_eq;
use crate::common::{is_loaded, try_unload};
use crate::harness::{case, suite, Suite, BARE};

/// The suite.
pub const SUITE: Suite = suite(
    "life",
    &[
        case("zernel_alone", alone::zernel_alone),
        case("bad_parameters", alone::bad_parameters),
        case("provider_keeps_zernel", busy::provider_keeps_zernel),
        case("open_files_keep_modules", busy::open_files),
        case("attributes_keep_nothing_broken", busy::attributes),
        case("mapped_words_keep_the_provider", busy::mapped_words),
        case("busy_provider", busy::busy_provider),
        case("provider_leaves_during_a_call", busy::leaves_during_a_call),
        case(
            "provider_leaves_right_after_use",
            busy::leaves_right_after_use,
        ),
        case("rounds_under_load", rounds::rounds_under_load),
    ],
)
.surrounded_by(BARE);

/// The files that zernel.ko puts into the file system.
const TRACES: [&str; 4] = [
    "/dev/zernel",
    "/sys/class/misc/zernel",
    "/sys/kernel/debug/zernel",
    "/sys/kernel/tracing/events/zernel",
];

/// Fails unless a module that is gone left nothing.
fn nothing_left() -> Result<()> {
    for path in TRACES.iter().chain(&[
        "/dev/zernel-sim",
        "/sys/class/misc/zernel-sim",
        "/sys/module/zernel",
        "/sys/module/zernel_sim",
    ]) {
        ensure!(!Path::new(path).exists(), "{path} is still there");
    }
    let modules = std::fs::read_to_string("/proc/modules")?;
    ensure!(!modules.contains("zernel"), "{modules}");
    Ok(())
}

/// Fails unless the module is in use.
fn in_use(name: &str, by: &str) -> Result<()> {
    check_eq!(try_unload(name), Err(Errno::AGAIN), "{name} with {by}");
    ensure!(is_loaded(name), "{name} is gone in spite of {by}");
    Ok(())
}
