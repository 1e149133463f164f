// SPDX-License-Identifier: GPL-2.0
//! Subscriptions of prefetch signals: eventfds, words, files that are read ahead.

mod ends;
mod permissions;
mod program;
mod quotas;
mod races;
mod reading;
mod refusals;
mod ways;

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use anyhow::{Context as _, Result};
use libzernel::{Phase, Process, Subscription, Target, Tracking, Zernel};
use rustix::event::{eventfd, EventfdFlags};
use rustix::io::Errno;

use crate::common::{tune, wait_until};
use crate::harness::{case, suite, Suite};
use crate::track::wait_recorded;

/// The suite.
pub const SUITE: Suite = suite(
    "prefetch",
    &[
        case("eventfds_count", ways::eventfds_count),
        case("words_count", ways::words_count),
        case("words_end_with_their_file", ways::words_end_with_their_file),
        case("epoll_tells_of_signals", ways::epoll_tells_of_signals),
        case("of_another_process", ways::of_another_process),
        case("bad_files", refusals::bad_files),
        case("no_such_process", refusals::no_such_process),
        case("no_such_slot", refusals::no_such_slot),
        case("handles", refusals::handles),
        case("subscriptions_of_a_user", quotas::subscriptions_of_a_user),
        case("bytes_of_a_user", quotas::bytes_of_a_user),
        case("who_may_subscribe", permissions::who_may_subscribe),
        case("other_pid_namespaces", permissions::other_pid_namespaces),
        case(
            "who_has_become_another",
            permissions::who_has_become_another,
        ),
        case("fills_the_page_cache", reading::fills_the_page_cache),
        case("span_begins_anew", reading::span_begins_anew),
        case("end_of_the_file", reading::end_of_the_file),
        case("is_charged_to_who_asked", reading::is_charged),
        case("blocked_reading_blocks_nobody", reading::blocked),
        case("process_is_killed", ends::process_is_killed),
        case("file_is_closed", ends::file_is_closed),
        case("module_stays", ends::module_stays),
        case("beside_signals", races::beside_signals),
        case("program_shows_signals", program::shows_signals),
        case("program_reads_ahead", program::reads_ahead),
        case("program_says_what_is_wrong", program::says_what_is_wrong),
    ],
);

const LONG: Duration = Duration::from_secs(60);

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
        signaller
            .zernel
            .hint(&Target::Thread(pid), Phase::GpuCompute, LONG)?;
        signaller.wait_sampled()?;
        signaller.end_computation()?;
        Ok(signaller)
    }

    /// The calling process.
    pub fn own(zernel: &'a Zernel) -> Result<Self> {
        Self::new(zernel, std::process::id())
    }

    fn process(&self) -> Result<Process> {
        for process in self.zernel.processes() {
            let process = process?;
            if process.pid == self.pid {
                return Ok(process);
            }
        }
        anyhow::bail!("process {} is not listed", self.pid)
    }

    /// Waits until what was said just now was seen.
    fn wait_sampled(&self) -> Result<()> {
        let samples = || -> Result<u64> {
            for thread in self.zernel.phases() {
                let thread = thread?;
                if thread.tid == self.pid {
                    return Ok(thread.samples);
                }
            }
            Ok(0)
        };
        let before = samples()?;
        wait_until("samples are taken", || Ok(samples()? > before + 3))
    }

    /// Has what it computes be over.
    fn end_computation(&self) -> Result<()> {
        self.zernel
            .hint(&Target::Thread(self.pid), Phase::Unknown, LONG)?;
        self.wait_sampled()
    }

    fn computation(&self) -> Result<()> {
        let before = self.process()?.prefetch;
        self.zernel
            .hint(&Target::Thread(self.pid), Phase::GpuCompute, LONG)?;
        wait_until("there is a signal", || {
            Ok(self.process()?.prefetch.signals > before.signals)
        })?;
        self.end_computation()
    }

    /// Gives so many signals.
    pub fn signal(&self, count: u32) -> Result<()> {
        let before = self.process()?.prefetch.signals;
        for _ in 0..count {
            self.computation()?;
        }
        let signals = self.process()?.prefetch.signals - before;
        crate::check_eq!(signals, u64::from(count), "signals");
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
        let subscription = zernel.subscribe_eventfd(target, bell.0.as_fd())?;
        Ok((bell, subscription))
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

/// Waits until so many subscriptions count.
fn wait_subscriptions(zernel: &Zernel, count: u64) -> Result<()> {
    wait_until(&format!("there are {count} subscriptions"), || {
        Ok(zernel.stats()?.subscriptions == count)
    })
}
