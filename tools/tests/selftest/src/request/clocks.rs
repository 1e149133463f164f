// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clock on the wall is set, and clocks that are not the system's: requests go by
//! `CLOCK_MONOTONIC` as the kernel knows it.

use std::fs;
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::request::{Of, Word};
use libzernel::Timestamp;
use rustix::time::{clock_gettime, clock_settime, ClockId, Timespec};
use testkit::harness::Skip;

use super::{in_so_long, lab, longest_lease, Since};
use crate::check_eq;
use crate::child::in_child;
use crate::common::{tune, wait_until};
use crate::harness::Outcome;

/// Sets the clock on the wall forward, or back.
fn step(days: i64) -> Result<()> {
    let now = clock_gettime(ClockId::Realtime);
    let tv_sec = now.tv_sec + days * 86_400;
    clock_settime(ClockId::Realtime, Timespec { tv_sec, ..now }).context("set the clock")
}

/// Neither the trigger nor the end of the lease moves when the clock on the wall does.
pub(super) fn stepped() -> Outcome {
    let (lab, client) = lab()?;
    let wait = Duration::from_millis(300);
    tune("lease_us", wait.as_micros())?;
    let slot = client.slot(0);
    for days in [1, -1, 30, -30] {
        let since = Since::now(&lab.zernel)?;
        let begun = slot.begin(&in_so_long(client.tsg, wait))?;
        let before = Timestamp::now();
        step(days)?;
        let triggered = wait_until("the trigger", || {
            Ok(begun.number.is_reached_by(slot.load(Word::Trigger)))
        });
        let at = Timestamp::now();
        // The other way, while the lease runs.
        step(-days)?;
        triggered?;
        ensure!(at >= begun.trigger_at, "{days} days: early");
        since.wait(ends!(expired: 1))?;
        let over = Timestamp::now();
        let least = begun.trigger_at + wait;
        ensure!(over >= least, "{days} days: expired early");
        let took = over.since(before);
        ensure!(took < Duration::from_secs(60), "{days} days: {took:?}");
    }
    Ok(())
}

/// The offset of the clocks of the children of a new time namespace, in seconds.
const AHEAD: u64 = 1_000_000;

/// A process whose `CLOCK_MONOTONIC` is ahead: what it stores is taken for now, and what it is told
/// is the kernel's.
pub(super) fn in_a_time_namespace() -> Outcome {
    longest_lease()?;
    if !fs::exists("/proc/self/timens_offsets")? {
        return Err(Skip("this kernel has no time namespaces").into());
    }
    let outside = Timestamp::now();
    in_child(|| {
        crate::sys::unshare(libc::CLONE_NEWTIME)?;
        fs::write("/proc/self/timens_offsets", format!("monotonic {AHEAD} 0"))?;
        // Its children are in it.
        in_child(|| {
            let began = Timestamp::now();
            let ahead = began.since(outside);
            ensure!(ahead >= Duration::from_secs(AHEAD), "{ahead:?} ahead");
            let (lab, client) = lab()?;
            let since = Since::of(&lab.zernel, Of::Tsg(client.tsg))?;
            let slot = client.slot(0);
            let told = in_so_long(client.tsg, Duration::from_millis(50));
            let begun = slot.begin(&told)?;
            ensure!(begun.trigger_at < began, "{begun:?} is not the kernel's");
            wait_until("the trigger", || {
                Ok(begun.number.is_reached_by(slot.load(Word::Trigger)))
            })?;
            // Stores with the clock of the process.
            slot.ready(begun.number);
            slot.done(begun.number);
            let next = slot.begin(&told)?.number;
            slot.cancel(next)?;
            let most = Timestamp::now().since(began).as_nanos();
            let stats = since.stats()?;
            check_eq!((stats.done, stats.cancelled), (1, 1), "{stats:?}");
            for (what, ns) in [("longest", stats.latency_max_ns), ("early", stats.early_ns)] {
                ensure!(u128::from(ns) <= most, "{what}: {ns} ns of {most} ns");
            }
            Ok(())
        })
    })
}
