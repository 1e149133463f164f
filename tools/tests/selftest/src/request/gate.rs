// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests without a holder: less urgent TSGs are kept off the GPU, and what comes of that when the
//! GPU does not do it.

use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::request::{Begin, Of, RequestStats, Slots};
use libzernel::sim::{self, Fault, Item, Operation};
use libzernel::{Level, Target, Timestamp, Tracking, Zernel};
use rustix::io::Errno;
use testkit::faults::Faults;
use testkit::passing;

use super::{at_once, longest_lease, Calls, Client, Since};
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{errno, slice_of, tune, wait_until, Lab};
use crate::harness::Outcome;
use crate::phase::process;
use crate::sim::turns::Suspended;

/// Latency-critical requests beside best-effort work without end.
struct Stage {
    lab: Lab,
    client: Client,
    others: Vec<sim::Context>,
    before: RequestStats,
}

impl Stage {
    /// With so many others.
    fn new(others: usize) -> Result<Self> {
        // All of them are scheduled, so that all of them have to be stopped.
        tune("rotation", "none")?;
        tune("no_holder", "exclude")?;
        // On a slow machine the budget could be spent, which opens the gate.
        tune("level0_budget_us", 100_000)?;
        let (lab, client) = super::lab()?;
        let mut contexts = Vec::new();
        for _ in 0..others {
            let (context, tsg) = lab.compute()?;
            lab.zernel.set_class(&Target::Tsg(tsg.id), Level::BE)?;
            context.submit(0, &[Item::work(Duration::from_secs(60)); 20])?;
            contexts.push(context);
        }
        lab.zernel.set_class(&Target::Tsg(client.tsg), Level::LC)?;
        lab.wait_slice(&client.context, slice_of(0))?;
        let before = lab.zernel.request_stats(Of::Level(Level::LC))?;
        Ok(Self {
            lab,
            client,
            others: contexts,
            before,
        })
    }

    fn begin(&self) -> Begin {
        at_once(self.client.tsg).without_holder()
    }

    /// The number of the others that are scheduled.
    fn scheduled(&self) -> Result<usize> {
        let enabled = |context: &sim::Context| Ok(usize::from(context.stats()?.enabled));
        self.others.iter().map(enabled).sum()
    }

    fn wait_scheduled(&self, count: usize) -> Outcome {
        wait_until(&format!("{count} others are scheduled"), || {
            Ok(self.scheduled()? == count)
        })
    }

    /// The counters since the beginning: off, off after a timeout, no memory, unresponsive,
    /// invalid.
    fn verdicts(&self) -> Result<[u64; 5]> {
        let now = self.lab.zernel.request_stats(Of::Level(Level::LC))?;
        let then = &self.before;
        Ok([
            now.preempt_done - then.preempt_done,
            now.preempt_timeouts - then.preempt_timeouts,
            now.preempt_no_memory - then.preempt_no_memory,
            now.preempt_unresponsive - then.preempt_unresponsive,
            now.preempt_invalid - then.preempt_invalid,
        ])
    }

    /// They are counted a moment after the TSGs were told.
    fn wait_verdicts(&self, expected: [u64; 5]) -> Result<()> {
        wait_until(&format!("verdicts {expected:?}"), || {
            Ok(self.verdicts()? == expected)
        })
        .with_context(|| format!("{:?}", self.verdicts()))
    }

    /// One more request goes well.
    fn goes_on(&self) -> Outcome {
        let slot = self.client.slot(0);
        let begun = slot.begin(&self.begin())?;
        self.wait_scheduled(0)?;
        slot.cancel(begun.number)?;
        self.wait_scheduled(self.others.len())
    }

    /// The next such operation fails.
    fn inject(&self, operation: Operation, error: Errno) -> Result<()> {
        super::fail_next(&self.lab, operation, error, 1)
    }
}

/// From the trigger to ready nobody else runs; then all of them do.
pub(super) fn keeps_others_off() -> Outcome {
    let stage = Stage::new(3)?;
    let slot = stage.client.slot(0);
    for round in 1..=3 {
        let begun = slot.begin(&stage.begin())?;
        stage.wait_scheduled(0)?;
        let busy = |context: &sim::Context| Ok(context.stats()?.busy_ns);
        let busy = || stage.others.iter().map(busy).collect::<Result<Vec<_>>>();
        let before = busy()?;
        std::thread::sleep(Duration::from_millis(5));
        check_eq!(busy()?, before, "busy time of those who are kept off");
        slot.ready_call(begun.number)?;
        stage.wait_scheduled(3)?;
        slot.done_call(begun.number)?;
        check_eq!(stage.verdicts()?, [3 * round, 0, 0, 0, 0]);
    }
    // Two at a time: the gate opens with the last.
    let (one, two) = (stage.client.slot(1), stage.client.slot(2));
    let (first, second) = (one.begin(&stage.begin())?, two.begin(&stage.begin())?);
    stage.wait_scheduled(0)?;
    one.cancel(first.number)?;
    std::thread::sleep(Duration::from_millis(5));
    check_eq!(stage.scheduled()?, 0, "while one of two holds");
    two.cancel(second.number)?;
    stage.wait_scheduled(3)
}

/// A TSG that comes while others are kept off is kept off too, with any class, until they are
/// let in; one that is as urgent is not.
pub(super) fn keeps_newcomers_off() -> Outcome {
    let mut stage = Stage::new(1)?;
    let slot = stage.client.slot(0);
    let begun = slot.begin(&stage.begin())?;
    stage.wait_scheduled(0)?;
    let (unclassed, _) = stage.lab.compute()?;
    let (classed, be) = stage.lab.compute()?;
    let (equal, lc) = stage.lab.compute()?;
    let zernel = &stage.lab.zernel;
    zernel.set_class(&Target::Tsg(be.id), Level::BE)?;
    zernel.set_class(&Target::Tsg(lc.id), Level::LC)?;
    stage.lab.wait_slice(&equal, slice_of(0))?;
    stage.others.extend([unclassed, classed]);
    stage.wait_scheduled(0)?;
    wait_until("one that is as urgent is let in", || {
        Ok(equal.stats()?.enabled)
    })?;
    slot.done_call(begun.number)?;
    stage.wait_scheduled(3)
}

/// A request that does not get ready lets the others in when the lease is over, or the file is
/// closed.
pub(super) fn has_a_lease() -> Outcome {
    let stage = Stage::new(2)?;
    let since = Since::now(&stage.lab.zernel)?;
    tune("lease_us", 300_000)?;
    stage.client.slot(0).begin(&stage.begin())?;
    since.wait(ends!(expired: 1))?;
    stage.wait_scheduled(2)?;
    longest_lease()?;
    let slots = Slots::map(&Zernel::open()?, 0..64)?;
    super::slot(&slots, 0).begin(&stage.begin())?;
    stage.wait_scheduled(0)?;
    drop(slots);
    stage.wait_scheduled(2)
}

/// A tenant who keeps the worker busy with settings, each of which takes long, does not keep it from
/// a request: the worker looks up after a few.
pub(super) fn comes_between_settings() -> Outcome {
    const TSGS: usize = 64;
    let stage = Stage::new(1)?;
    let slow = |count| Fault {
        gpu: 0,
        operation: Operation::SetTimeslice,
        count,
        error: None,
        delay: Duration::from_millis(5),
        tsg: None,
    };
    let (ours, its) = passing::pair()?;
    let tenant = Child::spawn(move || {
        let lab = Lab::open()?;
        let contexts = (0..TSGS).map(|_| lab.compute());
        let _contexts = contexts.collect::<Result<Vec<_>>>()?;
        passing::send_number(&its, 1)?;
        passing::receive_number(&its)?;
        let me = Target::current_process();
        loop {
            lab.zernel.set_class(&me, Level::BE)?;
            lab.zernel.clear_class(&me)?;
        }
    })?;
    passing::receive_number(&ours)?;
    let sim = &stage.lab.sim;
    sim.inject(&slow(u32::MAX))?;
    passing::send_number(&ours, 1)?;
    let calls = || sim.injected(0, Operation::SetTimeslice);
    let so_many = |from: u64| {
        wait_until("the worker is busy", || {
            Ok(calls()? >= from + 2 * TSGS as u64)
        })
    };
    so_many(calls()?)?;
    let slot = stage.client.slot(0);
    for _ in 0..3 {
        let before = calls()?;
        let begun = slot.begin(&stage.begin())?;
        stage.wait_scheduled(0)?;
        let between = calls()? - before;
        ensure!(
            between < TSGS as u64,
            "{between} settings came before the request"
        );
        slot.cancel(begun.number)?;
        stage.wait_scheduled(1)?;
    }
    so_many(calls()?)?;
    tenant.kill()?;
    sim.inject(&slow(0))?;
    Ok(())
}

/// A GPU that does not answer in time, or whose driver fails, is told to keep the TSG off all the
/// same. A TSG that cannot be stopped goes on, and the others do not. Without memory nobody is
/// stopped, and the request goes on.
pub(super) fn fails() -> Outcome {
    for (operation, error, verdicts, scheduled) in [
        (Operation::Preempt, Errno::TIMEDOUT, [1, 1, 0, 0, 0], 0),
        (Operation::Preempt, Errno::NOMEM, [0, 0, 1, 0, 0], 2),
        (Operation::Preempt, Errno::INVAL, [1, 0, 0, 0, 1], 1),
        (Operation::Preempt, Errno::IO, [2, 0, 0, 0, 0], 0),
        (Operation::SetEnabled, Errno::NOMEM, [0, 0, 1, 0, 0], 2),
        (Operation::SetEnabled, Errno::INVAL, [1, 0, 0, 0, 1], 1),
        (Operation::SetEnabled, Errno::IO, [1, 0, 0, 0, 1], 1),
    ] {
        let stage = Stage::new(2)?;
        stage.inject(operation, error)?;
        let slot = stage.client.slot(0);
        let begun = slot.begin(&stage.begin())?;
        stage.wait_verdicts(verdicts)?;
        stage.wait_scheduled(scheduled)?;
        slot.ready_call(begun.number)?;
        slot.done_call(begun.number)?;
        stage.wait_scheduled(2)?;
        stage.goes_on()?;
    }
    // Shorter than what the GPU takes, it always comes.
    let stage = Stage::new(2)?;
    tune("preempt_timeout_us", 1)?;
    stage.goes_on()?;
    stage.wait_verdicts([0, 2, 0, 0, 0])
}

/// A GPU that does not respond is left alone until it is back.
pub(super) fn unresponsive() -> Outcome {
    let stage = Stage::new(2)?;
    stage.inject(Operation::Preempt, Errno::TIMEDOUT)?;
    stage.inject(Operation::SetEnabled, Errno::TIMEDOUT)?;
    let slot = stage.client.slot(0);
    slot.begin(&stage.begin())?;
    stage.wait_verdicts([0, 0, 0, 1, 0])?;
    let answer = errno(slot.begin(&at_once(stage.client.tsg)));
    check_eq!(answer, Some(Errno::AGAIN), "begin");
    let gpu = stage.lab.zernel.gpus().next().transpose()?;
    check_eq!(gpu.map(|gpu| gpu.unresponsive), Some(true), "told");
    // A reset: the driver says that it is back.
    drop(Suspended::new(&stage.lab.sim, 0)?);
    stage.wait_scheduled(2)?;
    stage.goes_on()
}

/// The provider of a GPU that does not respond gets no call until it is back, for no list and no phase. Known
/// facts are told meanwhile.
pub(super) fn gets_no_call() -> Outcome {
    in_child(|| {
        let stage = Stage::new(2)?;
        let (sim, zernel) = (&stage.lab.sim, &stage.lab.zernel);
        zernel.track(&Target::current_process(), Tracking::ML)?;
        tune("slice_policy", "slack")?;
        // A request with a deadline is looked at for its slack.
        let begin = || stage.begin().slo(Duration::from_secs(5));
        let faults = [Operation::Preempt, Operation::SetEnabled].map(super::times_out);
        let calls = Calls::count(&stage.lab, &faults)?;
        let looked = |calls: &Calls<'_>| -> Result<bool> {
            super::ask_for_all(zernel)?;
            Ok(calls.of(&[Operation::QueryTsg])? > 0 && calls.of(&[Operation::QueryLoad])? > 0)
        };
        wait_until("the provider is asked", || looked(&calls))?;
        let slot = stage.client.slot(0);
        slot.begin(&begin())?;
        stage.wait_verdicts([0, 0, 0, 1, 0])?;
        let (before, then) = (calls.all()?, Timestamp::now());
        super::ask_for_all(zernel)?;
        wait_until("its phases are told of", || {
            let mine = process(zernel, std::process::id())?.context("it has none")?;
            Ok(mine.sample_at_ns.is_some_and(|at| at >= then))
        })?;
        super::ask_for_all(zernel)?;
        check_eq!(calls.all()?, before, "calls");
        drop(calls);
        drop(Suspended::new(sim, 0)?);
        stage.wait_scheduled(2)?;
        stage.goes_on()?;
        let calls = Calls::count(&stage.lab, &[])?;
        wait_until("the provider is asked again", || looked(&calls))
    })
}

/// Without memory to keep others off, nobody is, and the request goes on; the next ones are as ever.
pub(super) fn no_memory() -> Outcome {
    let mut faults = Faults::of_module("zernel")?;
    let stage = Stage::new(2)?;
    let slot = stage.client.slot(0);
    // All that a slot needs for these is there after the first.
    let begin = super::in_so_long(stage.client.tsg, super::SHORTEST)
        .key(1)
        .without_holder();
    let begun = slot.begin(&begin)?;
    stage.wait_scheduled(0)?;
    slot.ready_call(begun.number)?;
    stage.wait_scheduled(2)?;
    let none = faults.no_memory()?;
    let begun = slot.begin(&begin)?;
    std::thread::sleep(Duration::from_millis(200));
    check_eq!(stage.scheduled()?, 2, "scheduled");
    slot.ready_call(begun.number)?;
    slot.done_call(begun.number)?;
    drop(none);
    check_eq!(stage.verdicts()?, [2, 0, 0, 0, 0]);
    stage.goes_on()
}
