// SPDX-License-Identifier: MIT OR Apache-2.0
//! The event stream, and what happens when a provider fails: each event and each counter.

mod failures;
mod filters;
mod raw;
mod reading;
mod records;
mod rings;
mod viewers;
mod watchers;

use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::event::{Kind, Wanted};
use libzernel::sim::{Context, Fault, Operation, Sim};
use libzernel::{Event, EventStream, Level, Target, Tsg};
use rustix::io::Errno;

use crate::common::{wait_until, Lab, SOON};
use crate::harness::{case, suite, Suite};

pub use reading::{Watched, KINDS};

/// The suite.
pub const SUITE: Suite = suite(
    "events",
    &[
        case("every_field", records::every_field),
        case(
            "change_comes_before_slice",
            records::change_comes_before_slice,
        ),
        case("changes_coalesce", records::changes_coalesce),
        case("ring_overflows_exactly", rings::ring_overflows_exactly),
        case("each_ring_is_its_own", rings::each_ring_is_its_own),
        case(
            "four_writers_lose_nothing",
            rings::four_writers_lose_nothing,
        ),
        case("read_sizes", reading::read_sizes),
        case("read_to_bad_address", reading::read_to_bad_address),
        case("sleepers_wake", reading::sleepers_wake),
        case("signals_meet_a_read", reading::signals_meet_a_read),
        case("epoll_tells", reading::epoll_tells),
        case("callers_wake_nobody", watchers::callers_wake_nobody),
        case("crowds_are_told", watchers::crowds_are_told),
        case(
            "sleepers_learn_of_the_end",
            watchers::sleepers_learn_of_the_end,
        ),
        case("users_see_their_own", viewers::users_see_their_own),
        case("opener_decides", viewers::opener_decides),
        case("stream_quota", viewers::stream_quota),
        case("filters", filters::filters),
        case("changes_and_ends", filters::changes_and_ends),
        case("gpus_tell_their_state", filters::gpus_tell_their_state),
        case("follows_a_list", filters::follows_a_list),
        case("not_now_is_retried", failures::not_now_is_retried),
        case(
            "hard_errors_are_told_once",
            failures::hard_errors_are_told_once,
        ),
        case("gone_tsg_is_dropped", failures::gone_tsg_is_dropped),
        case("destroyed_during_a_call", failures::destroyed_during_a_call),
        case("killed_during_a_call", failures::killed_during_a_call),
        case(
            "restored_when_the_owner_ends",
            failures::restored_when_the_owner_ends,
        ),
    ],
);

/// Time slice of a new TSG.
pub(crate) const DEFAULT_US: u32 = 1024;
/// Time slice of best-effort where it takes turns.
const BE_US: u32 = 50;
/// Time slice of latency-critical.
const LC_US: u32 = 5_000_000;
/// The time of a slow call.
const SLOW: Duration = Duration::from_secs(5);

/// A stream of which no event is missed unnoticed.
struct Reader {
    stream: EventStream,
    /// Last sequence number.
    seq: u64,
    /// Events dropped so far.
    dropped: u64,
    /// Events read so far.
    read: u64,
}

impl Reader {
    /// All events of TSGs.
    fn new(lab: &Lab) -> Result<Self> {
        Self::wanting(lab, &Wanted::only(&Kind::OF_TSGS))
    }

    fn wanting(lab: &Lab, wanted: &Wanted<'_>) -> Result<Self> {
        Ok(Self::of(lab.zernel.events_of(wanted)?))
    }

    fn of(stream: EventStream) -> Self {
        Self {
            stream,
            seq: 0,
            dropped: 0,
            read: 0,
        }
    }

    /// The next event, if it comes in time; fails for a gap that `dropped` does not tell.
    fn within(&mut self, patience: Duration) -> Result<Option<Event>> {
        let Some(event) = self.stream.next_within(Some(patience))? else {
            return Ok(None);
        };
        let gap = event.seq.wrapping_sub(self.seq + 1);
        let more = event.dropped.wrapping_sub(self.dropped);
        // A read tells what was dropped until then, which lies before its first event.
        ensure!(
            gap == more,
            "{gap} are missing, {more} were dropped: {event:?}"
        );
        (self.seq, self.dropped) = (event.seq, event.dropped);
        self.read += 1;
        Ok(Some(event))
    }

    /// The next event, which is of this kind.
    fn expect(&mut self, kind: Kind) -> Result<Event> {
        let event = self.within(SOON)?;
        let event = event.with_context(|| format!("no {kind} after number {}", self.seq))?;
        ensure!(event.kind == kind, "expected {kind}: {event:?}");
        Ok(event)
    }

    /// Everything that is there.
    fn drain(&mut self) -> Result<Vec<Event>> {
        let next = || self.within(Duration::ZERO).transpose();
        std::iter::from_fn(next).collect()
    }

    /// Events that this stream got so far, read or not.
    fn total(&self) -> u64 {
        self.read + self.dropped
    }
}

/// A fault of an operation of GPU 0; dropped, it ends.
pub(crate) struct Broken<'a> {
    sim: &'a Sim,
    fault: Fault,
    before: u64,
}

impl<'a> Broken<'a> {
    /// Calls fail for the TSG of `context`, or for all.
    pub(crate) fn new(
        sim: &'a Sim,
        operation: Operation,
        context: Option<&Context>,
        error: Errno,
    ) -> Result<Self> {
        let fault = Fault {
            gpu: 0,
            operation,
            count: u32::MAX,
            error: Some(error),
            delay: Duration::ZERO,
            tsg: context.map(Context::tsg),
        };
        Self::inject(sim, fault)
    }

    /// The next call to set a time slice takes [`SLOW`].
    fn slow(sim: &'a Sim, context: &Context) -> Result<Self> {
        let fault = Fault {
            gpu: 0,
            operation: Operation::SetTimeslice,
            count: 1,
            error: None,
            delay: SLOW,
            tsg: Some(context.tsg()),
        };
        Self::inject(sim, fault)
    }

    fn inject(sim: &'a Sim, fault: Fault) -> Result<Self> {
        let before = sim.injected(0, fault.operation)?;
        sim.inject(&fault)?;
        Ok(Self { sim, fault, before })
    }

    /// Calls hit so far.
    pub(crate) fn hits(&self) -> Result<u64> {
        Ok(self.sim.injected(0, self.fault.operation)? - self.before)
    }

    /// Waits until that many calls were hit.
    pub(crate) fn wait_hits(&self, hits: u64) -> Result<()> {
        let what = format!("{hits} calls are hit");
        wait_until(&what, || Ok(self.hits()? >= hits))
    }
}

impl Drop for Broken<'_> {
    fn drop(&mut self) {
        self.fault.count = 0;
        // Fails only when the device is gone.
        let _ = self.sim.inject(&self.fault);
    }
}

/// A context and its TSG, of which zernel has read what it has.
pub(crate) fn known(lab: &Lab) -> Result<(Context, Tsg)> {
    let (context, tsg) = lab.compute()?;
    wait_until("zernel has read the time slice", || {
        Ok(lab.tsg(tsg.id)?.timeslice_us == DEFAULT_US)
    })?;
    let tsg = lab.tsg(tsg.id)?;
    Ok((context, tsg))
}

/// Gives a TSG a class of its own.
fn classify(lab: &Lab, tsg: &Tsg, level: Level) -> Result<()> {
    Ok(lab.zernel.set_class(&Target::Tsg(tsg.id), level)?)
}

/// The level of this number.
fn level(number: usize) -> Level {
    crate::common::level((number % 8) as u8)
}
