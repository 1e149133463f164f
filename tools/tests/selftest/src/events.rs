// SPDX-License-Identifier: GPL-2.0
//! The event stream, and what happens when a provider fails: each event and each counter.

mod failures;
mod filters;
mod going;
mod raw;
mod reading;
mod records;
mod rings;
mod viewers;
mod watching;

use std::time::Duration;

use anyhow::{bail, Result};
use libzernel::event::{Kind, Wanted};
use libzernel::sim::{Context, ContextSpec, Fault, Operation, Sim};
use libzernel::{Event, EventStream, Level, Stats, Target, Tsg};
use rustix::io::Errno;

use crate::common::{wait_until, Lab, SOON};
use crate::harness::{case, suite, Suite};

pub use watching::{Watched, KINDS};

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
        case(
            "own_changes_follow_the_call",
            records::own_changes_follow_the_call,
        ),
        case("ring_overflows_exactly", rings::ring_overflows_exactly),
        case("ring_keeps_its_size", rings::ring_keeps_its_size),
        case("readers_are_complete", rings::readers_are_complete),
        case("unread_streams_count", rings::unread_streams_count),
        case(
            "four_writers_lose_nothing",
            rings::four_writers_lose_nothing,
        ),
        case("read_sizes", reading::read_sizes),
        case("read_to_bad_address", reading::read_to_bad_address),
        case("blocked_read_wakes", reading::blocked_read_wakes),
        case("poll_wakes", reading::poll_wakes),
        case("epoll_tells", watching::epoll_tells),
        case("epoll_wakes", watching::epoll_wakes),
        case("signal_ends_a_read", reading::signal_ends_a_read),
        case("restarted_read_goes_on", reading::restarted_read_goes_on),
        case("kill_ends_a_read", reading::kill_ends_a_read),
        case("users_see_their_own", viewers::users_see_their_own),
        case("opener_decides", viewers::opener_decides),
        case("stream_quota", viewers::stream_quota),
        case("filters", filters::filters),
        case("kinds", filters::kinds),
        case("changes_and_ends", filters::changes_and_ends),
        case("gpus_tell_their_state", filters::gpus_tell_their_state),
        case("follows_a_list", filters::follows_a_list),
        case("not_now_is_retried", failures::not_now_is_retried),
        case("not_now_keeps_the_order", failures::not_now_keeps_the_order),
        case(
            "hard_errors_are_told_once",
            failures::hard_errors_are_told_once,
        ),
        case("half_a_change", failures::half_a_change),
        case("unreadable_slice", failures::unreadable_slice),
        case("gone_tsg_is_dropped", failures::gone_tsg_is_dropped),
        case(
            "suspended_gpu_gets_its_changes",
            failures::suspended_gpu_gets_its_changes,
        ),
        case("destroyed_during_a_call", going::destroyed_during_a_call),
        case("closed_during_a_call", going::closed_during_a_call),
        case("killed_during_a_call", going::killed_during_a_call),
        case("cleared_during_a_call", going::cleared_during_a_call),
        case("restored_when_cleared", going::restored_when_cleared),
        case(
            "restored_when_the_owner_ends",
            going::restored_when_the_owner_ends,
        ),
        case(
            "restored_when_switched_off",
            going::restored_when_switched_off,
        ),
    ],
);

/// Time slice of a new TSG.
const DEFAULT_US: u32 = 1024;
/// Time slice of best-effort where it takes turns.
const BE_US: u32 = 50;
/// Time slice of latency-critical.
const LC_US: u32 = 5_000_000;

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
    fn new(lab: &Lab) -> Result<Self> {
        Ok(Self::of(
            lab.zernel.events_of(&Wanted::only(&Kind::OF_TSGS))?,
        ))
    }

    fn of(stream: EventStream) -> Self {
        Self {
            stream,
            seq: 0,
            dropped: 0,
            read: 0,
        }
    }

    /// The next event that is there already; fails for a gap that `dropped` does not tell.
    fn try_next(&mut self) -> Result<Option<Event>> {
        self.within(Duration::ZERO)
    }

    fn within(&mut self, patience: Duration) -> Result<Option<Event>> {
        let Some(event) = self.stream.next_within(Some(patience))? else {
            return Ok(None);
        };
        let gap = event.seq.wrapping_sub(self.seq + 1);
        let more = event.dropped.wrapping_sub(self.dropped);
        // A read tells what was dropped until then, which lies before its first event.
        if gap != more {
            bail!("{gap} events are missing, {more} were dropped: {event:?}");
        }
        (self.seq, self.dropped) = (event.seq, event.dropped);
        self.read += 1;
        Ok(Some(event))
    }

    /// The next event.
    fn next(&mut self) -> Result<Event> {
        match self.within(SOON)? {
            Some(event) => Ok(event),
            None => bail!("no event after number {}", self.seq),
        }
    }

    /// The next event, which is of this kind.
    fn expect(&mut self, kind: Kind) -> Result<Event> {
        let event = self.next()?;
        if event.kind != kind {
            bail!("expected {kind}: {event:?}");
        }
        Ok(event)
    }

    /// Everything that is there.
    fn drain(&mut self) -> Result<Vec<Event>> {
        let mut all = Vec::new();
        while let Some(event) = self.try_next()? {
            all.push(event);
        }
        Ok(all)
    }

    /// Events that this stream got so far, read or not.
    fn total(&self) -> u64 {
        self.read + self.dropped
    }
}

/// A fault of a provider operation; dropped, it ends.
pub(crate) struct Broken<'a> {
    sim: &'a Sim,
    fault: Fault,
    before: u64,
}

impl<'a> Broken<'a> {
    /// Breaks `operation` on GPU 0 for the TSG of `context`, or for all.
    pub(crate) fn new(
        sim: &'a Sim,
        operation: Operation,
        context: Option<&Context>,
        count: u32,
        error: Option<Errno>,
        delay: Duration,
    ) -> Result<Self> {
        let fault = Fault {
            gpu: 0,
            operation,
            count,
            error,
            delay,
            tsg: context.map(Context::tsg),
        };
        let before = sim.injected(0, operation)?;
        sim.inject(&fault)?;
        Ok(Self { sim, fault, before })
    }

    /// Every call to set a time slice fails.
    pub(crate) fn slices(sim: &'a Sim, context: Option<&Context>, error: Errno) -> Result<Self> {
        let none = Duration::ZERO;
        Self::new(
            sim,
            Operation::SetTimeslice,
            context,
            u32::MAX,
            Some(error),
            none,
        )
    }

    /// The next call to set a time slice takes this long.
    fn slow(sim: &'a Sim, context: &Context, delay: Duration) -> Result<Self> {
        Self::new(sim, Operation::SetTimeslice, Some(context), 1, None, delay)
    }

    /// Calls hit so far.
    pub(crate) fn hits(&self) -> Result<u64> {
        Ok(self.sim.injected(0, self.fault.operation)? - self.before)
    }

    /// Waits until that many calls were hit.
    pub(crate) fn wait_hits(&self, hits: u64) -> Result<()> {
        wait_until(
            &format!("{hits} calls are hit"),
            || Ok(self.hits()? >= hits),
        )
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
fn known(lab: &Lab) -> Result<(Context, Tsg)> {
    let (context, tsg) = lab.context(&ContextSpec::compute("events"))?;
    wait_until("zernel has read the time slice", || {
        Ok(lab.tsg(tsg.id)?.timeslice_us == DEFAULT_US)
    })?;
    let tsg = lab.tsg(tsg.id)?;
    Ok((context, tsg))
}

/// Gives a TSG a class of its own.
fn classify(lab: &Lab, tsg: &Tsg, level: Level) -> Result<()> {
    lab.zernel.set_class(&Target::Tsg(tsg.id), level)?;
    Ok(())
}

fn clear(lab: &Lab, tsg: &Tsg) -> Result<()> {
    lab.zernel.clear_class(&Target::Tsg(tsg.id))?;
    Ok(())
}

/// The growth of a counter.
fn grown(lab: &Lab, before: &Stats, counter: fn(&Stats) -> u64) -> Result<u64> {
    Ok(counter(&lab.stats()?) - counter(before))
}

/// The level of this number.
fn level(number: usize) -> Level {
    Level::new((number % 8) as u8).unwrap_or(Level::BE)
}
