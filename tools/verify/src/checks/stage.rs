// SPDX-License-Identifier: MIT OR Apache-2.0
//! A latency-critical context beside a best-effort one, and the requests of the former.

use std::time::Duration;

use anyhow::{Context as _, Result};
use libzernel::request::{Number, Of, RequestStats, Slot, Slots};
use libzernel::{Level, Timestamp};

use crate::lab::Lab;
use crate::work::Context;

/// A slice that nothing but an effect ends in the time that it is waited for.
pub const LONG_SLICE_US: u32 = 5_000_000;

/// An effect that has not come by then does not come: a slow machine may sleep for a second.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// A context that had no GPU time for so long is off the GPU.
const QUIET: Duration = Duration::from_millis(20);

/// The stage.
pub struct Stage<'l> {
    /// The lab.
    pub lab: &'l Lab<'l>,
    /// The latency-critical context.
    pub lc: Box<dyn Context>,
    /// The best-effort context.
    pub be: Box<dyn Context>,
    slots: Slots,
}

impl<'l> Stage<'l> {
    /// Both contexts, idle. Best-effort TSGs have slices of this length and no turns, and requests
    /// without a holder the GPU in this way: `kick` or `exclude`.
    pub fn new(lab: &'l Lab<'l>, slice_us: u32, no_holder: &str) -> Result<Self> {
        lab.set("no_holder", no_holder)?;
        lab.set("rotation", "none")?;
        lab.set("slice_policy", "table")?;
        lab.set("level7_timeslice_us", slice_us)?;
        // No request ends by itself, and no budget.
        lab.set("lease_us", 10_000_000)?;
        let period = lab.tunable("level0_period_us")?;
        lab.set("level0_budget_us", period)?;
        let be = lab.context(Level::BE)?;
        lab.wait_slice(&*be, slice_us)?;
        let lc = lab.context(Level::LC)?;
        let slots = lab.slots()?;
        Ok(Self { lab, lc, be, slots })
    }

    /// As [`Self::new`], with best-effort work without end.
    pub fn spinning(lab: &'l Lab<'l>, slice_us: u32, no_holder: &str) -> Result<Self> {
        let stage = Self::new(lab, slice_us, no_holder)?;
        stage.be.spin()?;
        lab.wait_runs(&*stage.be)?;
        Ok(stage)
    }

    /// The slot of its requests.
    pub fn slot(&self) -> Result<Slot<'_>> {
        self.slots.slot(0).context("it was mapped")
    }

    /// Begins a request without a holder, which is triggered at once. Returns its number and when it
    /// is triggered.
    pub fn begin(&self) -> Result<(Number, Timestamp)> {
        let request = self.lab.request(&*self.lc).without_holder();
        let begun = self.slot()?.begin(&request)?;
        Ok((begun.number, begun.trigger_at))
    }

    /// Ends a request whose data was not told to be ready.
    pub fn end(&self, request: Number) -> Result<()> {
        let slot = self.slot()?;
        slot.ready_call(request)?;
        Ok(slot.done_call(request)?)
    }

    /// Waits until the best-effort context is off the GPU; tells whether it is.
    pub fn wait_off(&self) -> Result<bool> {
        let mut last = (self.be.progress()?, Timestamp::now());
        let off = self.lab.within(PATIENCE, || {
            let (progress, now) = (self.be.progress()?, Timestamp::now());
            if progress != last.0 {
                last = (progress, now);
            }
            Ok((now.since(last.1) >= QUIET).then_some(()))
        });
        Ok(off?.is_some())
    }

    /// Waits until the best-effort context has the GPU again; tells whether it has.
    pub fn wait_on(&self) -> Result<bool> {
        let before = self.be.progress()?;
        let on = self.lab.within(
            PATIENCE,
            || Ok((self.be.progress()? > before).then_some(())),
        );
        Ok(on?.is_some())
    }

    /// Outcomes of exclusion so far.
    pub fn outcomes(&self) -> Result<RequestStats> {
        let gpu = self.lab.gpu()?.id;
        let of = Of::LevelOn(gpu, Some(Level::LC));
        Ok(self.lab.zernel.request_stats(of)?)
    }

    /// Waits until exclusion has an outcome more than in `before`; tells that outcome.
    pub fn wait_outcome(&self, before: &RequestStats) -> Result<Option<Outcome>> {
        self.lab.within(PATIENCE, || {
            let now = self.outcomes()?;
            let (then, is) = (Outcome::counts(before), Outcome::counts(&now));
            let more = then.iter().zip(is).find(|(then, is)| is.1 > then.1);
            Ok(more.map(|(_, is)| is.0))
        })
    }
}

/// The outcome of exclusion for a TSG.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Off the GPU, but late.
    TimedOut,
    /// Off the GPU.
    Preempted,
    /// Still on it.
    Failed,
}

impl Outcome {
    /// Times of each so far. One that timed out is counted as preempted, too.
    fn counts(stats: &RequestStats) -> [(Self, u64); 3] {
        let failed = stats.preempt_no_memory + stats.preempt_unresponsive + stats.preempt_invalid;
        [
            (Self::TimedOut, stats.preempt_timeouts),
            (Self::Preempted, stats.preempt_done),
            (Self::Failed, failed),
        ]
    }
}

/// Microseconds from one time to another, 0 if that is earlier.
pub fn us(from: Timestamp, to: Timestamp) -> f64 {
    to.since(from).as_nanos() as f64 / 1e3
}
