// SPDX-License-Identifier: MIT OR Apache-2.0
//! Subscriptions of prefetch signals: eventfds, words, files that are read ahead.

mod permissions;
mod reading;
mod subscriptions;

use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context as _, Result};
use libzernel::prefetch::Ranges;
use libzernel::{Phase, Subscription, Target, Tracking, Zernel};
use rustix::event::{eventfd, EventfdFlags};
use rustix::io::Errno;

use crate::check_eq;
use crate::common::{tune, wait_until};
use crate::harness::{case, suite, Outcome, Suite};
use crate::phase::{phases_of, process, LONG};
use crate::track::wait_recorded;

/// The suite.
pub const SUITE: Suite = suite(
    "prefetch",
    &[
        case("eventfds_count", subscriptions::eventfds_count),
        case("words_count", subscriptions::words_count),
        case(
            "epoll_tells_of_signals",
            subscriptions::epoll_tells_of_signals,
        ),
        case("bad_files", subscriptions::bad_files),
        case("handles", subscriptions::handles),
        case("quotas_of_a_user", permissions::of_a_user),
        case("who_may_subscribe", permissions::who_may_subscribe),
        case("who_sees_signals", permissions::who_sees),
        case("other_pid_namespaces", permissions::other_pid_namespaces),
        case("fills_the_page_cache", reading::fill_the_page_cache),
        case("is_charged_to_who_asked", reading::is_charged),
        case("blocked_reading_blocks_nobody", reading::blocked),
        case("file_is_closed", subscriptions::file_is_closed),
        case("module_stays", subscriptions::module_stays),
        case("beside_signals", subscriptions::beside_signals),
        case("program_shows_and_reads", reading::shows_and_reads),
        case("program_says_what_is_wrong", reading::says_what_is_wrong),
    ],
);

/// Gives signals for a process: as often as it is said to compute, for each computation is
/// signalled as soon as it begins.
pub struct Signaller<'a> {
    zernel: &'a Zernel,
    pid: u32,
}

impl<'a> Signaller<'a> {
    /// Tracks the process, and has it compute once, so that it has a history.
    fn new(zernel: &'a Zernel, pid: u32) -> Result<Self> {
        tune("prefetch_lead_ns", u32::MAX)?;
        zernel.track(&Target::Process(pid), Tracking::ML)?;
        wait_recorded(zernel, pid, 1)?;
        let signaller = Self { zernel, pid };
        signaller.pass(Phase::GpuCompute)?;
        signaller.pass(Phase::Unknown)?;
        Ok(signaller)
    }

    /// The calling process.
    pub fn own(zernel: &'a Zernel) -> Result<Self> {
        Self::new(zernel, std::process::id())
    }

    fn hint(&self, phase: Phase) -> Outcome {
        Ok(self.zernel.hint(&Target::Thread(self.pid), phase, LONG)?)
    }

    /// Has it be in a phase, and waits until that was seen.
    fn pass(&self, phase: Phase) -> Outcome {
        self.hint(phase)?;
        let samples = || -> Result<u64> {
            Ok(phases_of(self.zernel, self.pid)?.map_or(0, |thread| thread.samples))
        };
        let before = samples()?;
        wait_until("samples are taken", || Ok(samples()? > before + 3))
    }

    fn signals(&self) -> Result<u64> {
        let process = process(self.zernel, self.pid)?.context("it is not listed")?;
        Ok(process.prefetch.signals)
    }

    /// Gives so many signals.
    pub fn signal(&self, count: u64) -> Outcome {
        let before = self.signals()?;
        for number in 1..=count {
            self.hint(Phase::GpuCompute)?;
            wait_until("there is a signal", || {
                Ok(self.signals()? >= before + number)
            })?;
            self.pass(Phase::Unknown)?;
        }
        check_eq!(self.signals()? - before, count, "signals");
        Ok(())
    }
}

/// An eventfd that is never waited for.
struct Bell(OwnedFd);

impl Bell {
    fn new() -> Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(eventfd(0, flags)?))
    }

    /// One that rings for a process.
    fn of(zernel: &Zernel, target: &Target) -> Result<(Self, Subscription)> {
        let bell = Self::new()?;
        let subscription = bell.subscribe(zernel, target)?;
        Ok((bell, subscription))
    }

    /// It rings for a process, too.
    fn subscribe(&self, zernel: &Zernel, target: &Target) -> libzernel::Result<Subscription> {
        zernel.subscribe_eventfd(target, self.0.as_fd())
    }

    /// Rings it.
    fn ring(&self) -> Outcome {
        rustix::io::write(&self.0, &1u64.to_ne_bytes())?;
        Ok(())
    }

    /// The number of rings since the last question. A ring comes a moment after the signal; waits
    /// for at least so many.
    fn rings(&self, at_least: u64) -> Result<u64> {
        let mut rings = 0;
        let enough = wait_until(&format!("it rings {at_least} times"), || {
            rings += self.take()?;
            Ok(rings >= at_least)
        });
        enough.with_context(|| format!("it has rung {rings} times"))?;
        Ok(rings)
    }

    fn take(&self) -> Result<u64> {
        let mut count = [0; 8];
        match rustix::io::read(&self.0, &mut count) {
            Ok(_) => Ok(u64::from_ne_bytes(count)),
            Err(Errno::AGAIN) => Ok(0),
            Err(errno) => Err(errno).context("read an eventfd"),
        }
    }
}

/// Has a file read ahead at signals of the calling process: from an offset on, a length, in a span.
fn read_ahead(
    zernel: &Zernel,
    file: impl AsFd,
    [offset, length, span]: [u64; 3],
) -> libzernel::Result<Subscription> {
    let ranges = Ranges {
        offset,
        length,
        span,
    };
    zernel.subscribe_read_ahead(&Target::current_process(), file.as_fd(), &ranges)
}

/// Waits until so many subscriptions count.
fn wait_subscriptions(zernel: &Zernel, count: u64) -> Result<()> {
    wait_until(&format!("there are {count} subscriptions"), || {
        Ok(zernel.stats()?.subscriptions == count)
    })
}
