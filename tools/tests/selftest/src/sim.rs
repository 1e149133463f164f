// SPDX-License-Identifier: GPL-2.0
//! `/dev/zernel-sim`: its calls, good and bad, and what the software GPU makes of them.

mod accounts;
mod calls;
mod items;
mod owners;
pub(crate) mod raw;
mod refusals;
mod settings;
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
        case("no_such_call", calls::no_such_call),
        case("bad_addresses", calls::bad_addresses),
        case("no_answer_no_effect", calls::no_answer_no_effect),
        case("bad_sizes", calls::bad_sizes),
        case("bad_reserved_fields", calls::bad_reserved_fields),
        case("context_refusals", refusals::contexts),
        case("item_refusals", refusals::items),
        case("wait_refusals", refusals::waits),
        case("eventfd_refusals", refusals::eventfds),
        case("trace_refusals", refusals::traces),
        case("fault_and_suspend_refusals", refusals::tests),
        case("setting_refusals", settings::refusals),
        case("stats_refusals", refusals::stats),
        case("context_quota", refusals::context_quota),
        case("item_quota", refusals::item_quota),
        case("full_gpu_and_channel", refusals::full),
        case("gpu_full_of_items", refusals::full_of_items),
        case("work_takes_its_time", items::work_takes_its_time),
        case(
            "completions_tell_everything",
            items::completions_tell_everything,
        ),
        case(
            "completion_ring_drops_exactly",
            items::completion_ring_drops_exactly,
        ),
        case("eventfd_counts", items::eventfd_counts),
        case("channels_share_by_demand", items::channels_share_by_demand),
        case("wait_is_interrupted", items::wait_is_interrupted),
        case("release_ends_a_wait", words::release_ends_a_wait),
        case("conditions", words::conditions),
        case("store_is_seen", words::store_is_seen),
        case(
            "store_is_seen_among_calls",
            words::store_is_seen_among_calls,
        ),
        case("hold_ends_with_its_word", words::hold_ends_with_its_word),
        case("hold_has_a_bound", words::hold_has_a_bound),
        case("mappings", words::mappings),
        case("memory_of_the_program", words::memory),
        case(
            "words_outlive_their_context",
            words::words_outlive_their_context,
        ),
        case(
            "engine_time_is_conserved",
            accounts::engine_time_is_conserved,
        ),
        case("tsg_times_add_up", accounts::tsg_times_add_up),
        case("trace_has_no_gap", accounts::trace_has_no_gap),
        case("trace_drops_exactly", accounts::trace_drops_exactly),
        case("slices_are_respected", turns::slices_are_respected),
        case("no_idle_while_work_waits", turns::no_idle_while_work_waits),
        case("engines_are_independent", turns::engines_are_independent),
        case(
            "suspended_gpu_keeps_its_work",
            turns::suspended_gpu_keeps_its_work,
        ),
        case("destroyed_context", owners::destroyed_context),
        case("close_ends_contexts", owners::close_ends_contexts),
        case("sigkill_ends_contexts", owners::sigkill_ends_contexts),
        case("fork_shares_the_file", owners::fork_shares_the_file),
        case("passed_file_works", owners::passed_file_works),
        case("handles_match_zernel", owners::handles_match_zernel),
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
