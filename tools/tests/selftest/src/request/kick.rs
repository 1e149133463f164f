// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests without a holder, and risen levels, on a GPU whose run lists can begin anew: the slice of
//! others ends, and nobody is kept off.

use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::request::{Begin, Of};
use libzernel::sim::{self, Item, Operation};
use libzernel::{Level, Target};
use rustix::io::Errno;

use super::{at_once, Client};
use crate::check_eq;
use crate::common::{slice_of, tune, wait_until, Lab};
use crate::harness::Outcome;
use crate::sim::turns::Suspended;

/// Longer than all that is waited for here.
const SLICE_US: u64 = 10_000_000;

/// A client beside best-effort work without end, in slices that nothing but a kick ends in time.
struct Stage {
    lab: Lab,
    client: Client,
    other: sim::Context,
}

impl Stage {
    /// With a client of this class.
    fn new(level: Option<Level>) -> Result<Self> {
        tune("rotation", "none")?;
        tune("level7_timeslice_us", SLICE_US)?;
        tune("rotation_timeslice_us", SLICE_US)?;
        tune("max_timeslice_us", SLICE_US)?;
        tune("level0_budget_us", 100_000)?;
        let (lab, client) = super::lab()?;
        if let Some(level) = level {
            lab.zernel.set_class(&Target::Tsg(client.tsg), level)?;
            lab.wait_slice(&client.context, slice_of(level.number()))?;
        }
        let (other, tsg) = lab.compute()?;
        lab.zernel.set_class(&Target::Tsg(tsg.id), Level::BE)?;
        lab.wait_slice(&other, u32::try_from(SLICE_US)?)?;
        other.submit(0, &[Item::work(Duration::from_secs(60)); 20])?;
        let stage = Self { lab, client, other };
        stage.wait_other_runs()?;
        Ok(stage)
    }

    fn wait_other_runs(&self) -> Outcome {
        let before = self.other.stats()?.busy_ns;
        wait_until("the other one runs", || {
            Ok(self.other.stats()?.busy_ns > before)
        })
    }

    fn begin(&self) -> Begin {
        at_once(self.client.tsg).without_holder()
    }

    /// Gives the client something to run. Returns the number of its end.
    fn submit(&self) -> Result<u64> {
        let work = [Item::work(super::SHORTEST).notify()];
        Ok(self.client.context.submit(0, &work)?.last_seq)
    }

    /// The client has something to run, and waits for the slice of the other one.
    fn submit_behind(&self) -> Result<u64> {
        let seq = self.submit()?;
        let before = self.client.context.stats()?.busy_ns;
        std::thread::sleep(Duration::from_millis(50));
        check_eq!(self.client.context.stats()?.busy_ns, before, "it ran");
        Ok(seq)
    }

    /// Calls that took the engine away from the other one, or kept it off.
    fn taken(&self) -> Result<u64> {
        let now = self.lab.zernel.request_stats(Of::Level(Level::LC))?;
        ensure!(self.other.stats()?.enabled, "the other one is kept off");
        Ok(now.preempt_done + now.preempt_timeouts + now.preempt_invalid)
    }

    /// Kicks that failed.
    fn failed(&self) -> Result<u64> {
        Ok(self.lab.sim.injected(0, Operation::Kick)?)
    }

    fn can_kick(&self) -> Result<bool> {
        let gpu = self.lab.zernel.gpus().next().transpose()?;
        Ok(gpu.context("no GPU")?.can.kick)
    }

    /// The next such calls fail.
    fn inject(&self, error: Errno, count: u32) -> Result<()> {
        super::fail_next(&self.lab, Operation::Kick, error, count)
    }
}

/// At the trigger, what the TSG has to run begins at once.
pub(super) fn at_the_trigger() -> Outcome {
    let stage = Stage::new(Some(Level::LC))?;
    ensure!(stage.can_kick()?, "the GPU cannot");
    let before = stage.taken()?;
    let slot = stage.client.slot(0);
    for _ in 0..3 {
        let seq = stage.submit_behind()?;
        let begun = slot.begin(&stage.begin())?;
        stage.client.wait(seq)?;
        stage.wait_other_runs()?;
        slot.done_call(begun.number)?;
    }
    check_eq!(stage.taken()?, before, "the other one");
    Ok(())
}

/// When the data is ready, too; not at another end.
pub(super) fn when_ready() -> Outcome {
    let stage = Stage::new(Some(Level::LC))?;
    let before = stage.taken()?;
    let slot = stage.client.slot(0);
    for is_ready in [true, false, true] {
        let begun = slot.begin(&stage.begin())?;
        // The trigger finds nothing to run.
        let kicks = stage.failed()?;
        stage.wait_other_runs()?;
        std::thread::sleep(Duration::from_millis(20));
        let seq = stage.submit_behind()?;
        match is_ready {
            true => slot.ready_call(begun.number)?,
            false => {
                slot.cancel(begun.number)?;
                std::thread::sleep(Duration::from_millis(50));
                ensure!(
                    stage
                        .client
                        .context
                        .wait(0, seq, libzernel::Timestamp::now())
                        .is_err(),
                    "a request that was given up took the GPU"
                );
                slot.begin(&stage.begin())?;
            }
        }
        stage.client.wait(seq)?;
        check_eq!(stage.failed()?, kicks, "faults");
        stage.wait_other_runs()?;
    }
    check_eq!(stage.taken()?, before, "the other one");
    Ok(())
}

/// A TSG whose level rises is served at once; one whose level falls is not.
pub(super) fn of_a_risen_level() -> Outcome {
    let stage = Stage::new(None)?;
    let target = Target::Tsg(stage.client.tsg);
    let seq = stage.submit_behind()?;
    stage.lab.zernel.set_class(&target, Level::LC)?;
    stage.client.wait(seq)?;
    stage.wait_other_runs()?;
    let seq = stage.submit_behind()?;
    stage.lab.zernel.set_class(&target, Level::BE)?;
    stage
        .lab
        .wait_slice(&stage.client.context, u32::try_from(SLICE_US)?)?;
    std::thread::sleep(Duration::from_millis(50));
    let waits = stage
        .client
        .context
        .wait(0, seq, libzernel::Timestamp::now());
    ensure!(waits.is_err(), "it was served");
    stage.lab.zernel.set_class(&target, Level::LC)?;
    stage.client.wait(seq)
}

/// After a call that fails for good others are kept off, until the GPU comes back from a suspend.
pub(super) fn fails() -> Outcome {
    for (error, count) in [(Errno::OPNOTSUPP, 1), (Errno::IO, 16)] {
        let stage = Stage::new(Some(Level::LC))?;
        let slot = stage.client.slot(0);
        stage.inject(error, count)?;
        for _ in 1..count {
            let failed = stage.failed()?;
            slot.begin(&stage.begin())?;
            wait_until("a kick fails", || Ok(stage.failed()? > failed))?;
            ensure!(stage.can_kick()?, "{error}: not tried again");
        }
        let begun = slot.begin(&stage.begin())?;
        wait_until("it failed", || Ok(!stage.can_kick()?))?;
        ensure!(stage.other.stats()?.enabled, "{error}: kept off at once");
        slot.done_call(begun.number)?;
        let begun = slot.begin(&stage.begin())?;
        wait_until("the other one is kept off", || {
            Ok(!stage.other.stats()?.enabled)
        })?;
        slot.done_call(begun.number)?;
        wait_until("it is let in", || Ok(stage.other.stats()?.enabled))?;
        drop(Suspended::new(&stage.lab.sim, 0)?);
        wait_until("it is tried again", || stage.can_kick())?;
        stage.wait_other_runs()?;
        let before = stage.taken()?;
        let seq = stage.submit_behind()?;
        let begun = slot.begin(&stage.begin())?;
        stage.client.wait(seq)?;
        slot.done_call(begun.number)?;
        check_eq!(stage.taken()?, before, "{error}: the other one");
    }
    Ok(())
}

/// A call that fails for now costs one request its place.
pub(super) fn fails_for_now() -> Outcome {
    for error in [Errno::NOENT, Errno::BUSY, Errno::INVAL, Errno::TIMEDOUT] {
        let stage = Stage::new(Some(Level::LC))?;
        let slot = stage.client.slot(0);
        let failed = stage.failed()?;
        stage.inject(error, 1)?;
        slot.begin(&stage.begin())?;
        wait_until("it failed", || Ok(stage.failed()? > failed))?;
        let seq = stage.submit_behind()?;
        ensure!(stage.can_kick()?, "{error}: not tried again");
        slot.begin(&stage.begin())?;
        stage.client.wait(seq)?;
    }
    // The driver sleeps: the requests on it are over.
    let stage = Stage::new(Some(Level::LC))?;
    let slot = stage.client.slot(0);
    stage.inject(Errno::AGAIN, 1)?;
    let begun = slot.begin(&stage.begin())?;
    wait_until("the request is over", || {
        let over = slot.ready_call(begun.number).is_err();
        Ok(over)
    })?;
    // The next step that is done shows that it is awake.
    stage
        .lab
        .zernel
        .clear_class(&Target::Tsg(stage.client.tsg))?;
    stage
        .lab
        .zernel
        .set_class(&Target::Tsg(stage.client.tsg), Level::LC)?;
    wait_until("requests begin", || Ok(slot.begin(&stage.begin()).is_ok()))?;
    ensure!(stage.can_kick()?, "not tried again");
    Ok(())
}
