// SPDX-License-Identifier: MIT OR Apache-2.0
//! `/dev/zernel-sim`: its calls, good and bad, and what the software GPU makes of them.

mod accounts;
mod calls;
mod items;
mod owners;
pub(crate) mod raw;
mod refusals;
pub(crate) mod turns;
mod words;

use std::time::Duration;

use anyhow::{bail, Result};
use libzernel::sim::{Context, Item};
use libzernel::Timestamp;
use rustix::io::Errno;

use crate::harness::{case, suite, Suite};

/// The suite.
pub const SUITE: Suite = suite(
    "sim",
    &[
        case("version_and_gpus", calls::version_and_gpus),
        case("every_call_works", calls::every_call_works),
        case("addresses", calls::addresses),
        case("sizes_and_numbers", calls::sizes_and_numbers),
        case("fields", refusals::fields),
        case("strangers", refusals::strangers),
        case("context_quota", refusals::context_quota),
        case("item_quota", refusals::item_quota),
        case("full_of_items", refusals::full_of_items),
        case("completions", items::completions),
        case("eventfd_counts", items::eventfd_counts),
        case("release_ends_a_wait", words::release_ends_a_wait),
        case("store_is_seen", words::store_is_seen),
        case("mappings", words::mappings),
        case("words_outlive_their_context", words::outlive_their_context),
        case("times_add_up", accounts::times_add_up),
        case("trace_has_no_gap", accounts::trace_has_no_gap),
        case("engines_are_independent", turns::engines_are_independent),
        case("suspended_gpu_keeps_its_work", turns::suspended),
        case("waiters", owners::waiters),
        case("ended_process", owners::ended_process),
        case("shared_file", owners::shared_file),
    ],
);

/// As a duration.
const fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// Fails unless the call was refused for this reason.
fn refused<T>(what: &str, result: libzernel::Result<T>, errno: Errno) -> Result<()> {
    match result {
        Ok(_) => bail!("{what}: done, expected {errno:?}"),
        Err(error) if error.errno() == Some(errno) => Ok(()),
        Err(error) => bail!("{what}: {error}, expected {errno:?}"),
    }
}

/// Submits to channel 0 and waits for the end of the last item; returns when the GPU saw the
/// items and when it had completed them.
fn run(context: &Context, items: &[Item]) -> Result<(Timestamp, Timestamp)> {
    let submission = context.submit(0, items)?;
    let waited = context.wait(0, submission.last_seq, Timestamp::NEVER)?;
    Ok((submission.at, waited.at))
}
