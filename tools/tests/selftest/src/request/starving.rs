// SPDX-License-Identifier: GPL-2.0
//! Eight processes of the most urgent level do what they can to keep best-effort off the GPU:
//! it waits for one budget and the switches around it, and no longer.

use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::request::{Number, Of, Slot};
use libzernel::sim::{Activity, Context, ContextSpec, Item, Record};
use libzernel::{tsg, Level, Target, Timestamp};
use testkit::passing;

use super::{at_once, longest_lease, Client};
use crate::check_eq;
use crate::child::Child;
use crate::common::{default_of, level, level_info, slice_of, tune, wait_until, Lab};
use crate::harness::Outcome;

/// Those who try.
const HOSTILE: usize = 8;
/// The time of their requests, and the wait for the next: short enough that there is always one,
/// and so long that a slow machine has the time to look at each.
const LONG: Duration = Duration::from_millis(8);
/// Periods in which they do.
const PERIODS: u32 = 20;
/// The number of tries where it takes too long.
const ATTEMPTS: u32 = 4;

/// The lateness of a worker that counts as none: on a machine on which only a short run is asked
/// for, it is not itself that is slow.
fn patience() -> Duration {
    match testkit::is_short() {
        true => Duration::from_millis(100),
        false => Duration::from_millis(5),
    }
}

/// The action that a process repeats.
type Turn = fn(&Client, u64) -> Result<()>;

/// Requests one after the other as fast as they are run: there is always another one.
fn closed_loop(client: &Client, round: u64) -> Result<()> {
    let slot = client.slot(u32::try_from(round % 8)?);
    let request = slot.begin(&at_once(client.tsg).key(1))?.number;
    let seq = client.submit(&slot, request, LONG)?;
    slot.ready(request);
    client.wait(seq)?;
    slot.done(request);
    Ok(())
}

/// A holder that is never told that the data is ready. Before it has to go, there is another one.
fn hold_on(client: &Client, round: u64) -> Result<()> {
    let slot = client.slot(u32::try_from(round % 2)?);
    let request = slot.begin(&at_once(client.tsg).key(1))?.number;
    client.submit(&slot, request, super::SHORTEST)?;
    std::thread::sleep(LONG);
    Ok(())
}

/// A request without a holder.
fn without_holder(client: &Client, slot: &Slot<'_>) -> Result<Number> {
    let begin = at_once(client.tsg).key(1).without_holder();
    Ok(slot.begin(&begin)?.number)
}

/// The same without a holder.
fn closed_loop_without_holder(client: &Client, round: u64) -> Result<()> {
    let slot = client.slot(u32::try_from(round % 8)?);
    let request = without_holder(client, &slot)?;
    std::thread::sleep(Duration::from_micros(500));
    slot.ready_call(request)?;
    let work = Item::work(LONG).notify();
    client.wait(client.context.submit(0, &[work])?.last_seq)?;
    slot.done_call(request)?;
    Ok(())
}

/// The same without a holder: everybody else is kept off for nothing.
fn hold_on_without_holder(client: &Client, round: u64) -> Result<()> {
    without_holder(client, &client.slot(u32::try_from(round % 2)?))?;
    std::thread::sleep(LONG);
    Ok(())
}

/// A process that takes its turns until it is killed.
fn hostile(turn: Turn) -> Result<Child> {
    let (ours, theirs) = passing::pair()?;
    let child = Child::spawn(|| {
        let lab = Lab::open()?;
        let client = Client::new(&lab)?;
        lab.zernel.set_class(&Target::Tsg(client.tsg), Level::LC)?;
        lab.wait_set()?;
        passing::send_number(&theirs, 1)?;
        passing::receive_number(&theirs)?;
        for round in 0.. {
            turn(&client, round)?;
            // The completions are not of interest.
            lab.sim.completions(64)?;
        }
        Ok(())
    })?;
    passing::receive_number(&ours)?;
    passing::send_number(&ours, 1)?;
    Ok(child)
}

/// Tells how late workers are, by one that nobody else keeps busy.
struct Probe {
    context: Context,
    tsg: tsg::Id,
    worst: Duration,
    sum: Duration,
    looks: u32,
    number: u8,
}

impl Probe {
    fn new(lab: &Lab) -> Result<Self> {
        let (context, tsg) = lab.context(&ContextSpec {
            gpu: 1,
            ..ContextSpec::compute("probe")
        })?;
        tune("level3_timeslice_us", 3_333)?;
        Ok(Self {
            context,
            tsg: tsg.id,
            worst: Duration::ZERO,
            sum: Duration::ZERO,
            looks: 0,
            number: 0,
        })
    }

    fn look(&mut self, lab: &Lab) -> Result<()> {
        self.number = 3 - self.number;
        let (began, slice) = (Timestamp::now(), [slice_of(0), 3_333]);
        lab.zernel
            .set_class(&Target::Tsg(self.tsg), level(self.number))?;
        let wanted = slice[usize::from(self.number == 3)];
        wait_until("the probe's slice", || {
            Ok(self.context.stats()?.timeslice_us == wanted)
        })?;
        let took = Timestamp::now().since(began);
        self.worst = self.worst.max(took);
        (self.sum, self.looks) = (self.sum + took, self.looks + 1);
        Ok(())
    }

    /// The longest time after its budget is spent for which a level of so many TSGs goes on: the
    /// worker comes late, and it has given all of them their own slices, one after the other,
    /// before it looks at their use, and then takes them away again.
    fn late(&self, tsgs: u32) -> Duration {
        let mean = self.sum / self.looks.max(1);
        2 * tsgs * mean + 2 * self.worst + patience()
    }

    fn forget(&mut self) {
        (self.worst, self.sum, self.looks) = (Duration::ZERO, Duration::ZERO, 0);
    }
}

/// Follows how long one TSG did not run.
struct Follower {
    tsg: u64,
    last: Timestamp,
    longest: Duration,
    turns: u64,
}

impl Follower {
    fn take(&mut self, records: &[Record]) {
        let own = |record: &&Record| {
            record.engine == 0 && record.activity == Activity::Run && record.tsg == self.tsg
        };
        let (mut last, mut longest, mut turns) = (self.last, self.longest, self.turns);
        for record in records.iter().filter(own) {
            if record.start_ns > last {
                longest = longest.max(record.start_ns.since(last));
                turns += 1;
            }
            last = record.end_ns;
        }
        (self.last, self.longest, self.turns) = (last, longest, turns);
    }
}

/// Best-effort beside them, with its own work without end.
struct Stage {
    lab: Lab,
    context: Context,
    probe: Probe,
}

/// The outcome.
#[derive(Debug)]
struct Waits {
    /// The longest that best-effort waited.
    longest: Duration,
    /// The longest that it may.
    most: Duration,
}

impl Stage {
    fn new() -> Result<Self> {
        longest_lease()?;
        let lab = Lab::open()?;
        let (context, tsg) = lab.compute()?;
        lab.zernel.set_class(&Target::Tsg(tsg.id), Level::BE)?;
        lab.wait_slice(&context, slice_of(7))?;
        context.submit(0, &[Item::work(Duration::from_secs(60)); 60])?;
        let probe = Probe::new(&lab)?;
        Ok(Self {
            lab,
            context,
            probe,
        })
    }

    fn throttles(&self) -> Result<u64> {
        Ok(level_info(&self.lab.zernel, Level::LC)?.throttles)
    }

    /// Lets them try for some periods.
    fn attempt(&mut self, turns: [Turn; 2], budget: Duration, period: Duration) -> Result<Waits> {
        let children = turns.iter().cycle().take(HOSTILE);
        let children = children.map(|turn| hostile(*turn));
        let children = children.collect::<Result<Vec<_>>>()?;
        let before = (self.throttles()?, self.context.stats()?.busy_ns);
        self.probe.forget();
        let tsgs = u32::try_from(HOSTILE)?;
        let info = self.lab.sim.gpu_info(0)?;
        let switch = Duration::from_nanos(info.save_ns + info.restore_ns);
        let slice = Duration::from_micros(slice_of(7).into());
        // Those that are throttled have their turns before and after.
        let bound = budget + 2 * (tsgs + 1) * (slice + switch);
        let mut most = bound;
        let trace = self.lab.sim.trace(0, 1 << 18)?;
        let began = Timestamp::now();
        let mut be = Follower {
            tsg: self.context.tsg(),
            last: began,
            longest: Duration::ZERO,
            turns: 0,
        };
        // So long that a starving one waits for longer than it may.
        while Timestamp::now().since(began) < (period * PERIODS).max(2 * most) {
            self.probe.look(&self.lab)?;
            most = bound + self.probe.late(tsgs);
            std::thread::sleep(Duration::from_millis(5));
            let (records, dropped) = trace.read()?;
            ensure!(dropped == 0, "{dropped} records dropped");
            be.take(&records);
        }
        // The wait that goes on counts.
        let stats = self.context.stats()?;
        be.take(&trace.read()?.0);
        let longest = be.longest.max(stats.now_ns.since(be.last));
        drop(trace);
        let (throttles, busy) = (self.throttles()? - before.0, stats.busy_ns - before.1);
        for child in children {
            child.kill()?;
            child.end()?;
        }
        wait_until("they are gone", || Ok(self.lab.stats()?.tsgs == 2))?;
        println!(
            "    # budget {budget:?} of {period:?}: longest wait {longest:?} of {most:?}, {} turns, \
             {busy} ns, throttled {throttles} times, worker {:?} late",
            be.turns, self.probe.worst
        );
        Ok(Waits { longest, most })
    }

    /// The same until it goes well: a machine that is held up makes waits longer than they are, and
    /// none shorter.
    fn try_hard(&mut self, turns: [Turn; 2], budget: u32, period: u32) -> Outcome {
        tune("level0_budget_us", budget)?;
        tune("level0_period_us", period)?;
        let [budget, period] = [budget, period].map(|us| Duration::from_micros(us.into()));
        let mut all = Vec::new();
        for _ in 0..ATTEMPTS {
            let waits = self.attempt(turns, budget, period)?;
            if waits.longest <= waits.most {
                return Ok(());
            }
            all.push(waits);
        }
        anyhow::bail!("best-effort waits: {all:?}");
    }
}

/// The share of best-effort in the GPU beside them.
fn beside(turns: [Turn; 2]) -> Outcome {
    let mut stage = Stage::new()?;
    let default = ["level0_budget_us", "level0_period_us"].map(default_of);
    stage.try_hard(turns, default[0], default[1])?;
    stage.try_hard(turns, 10_000, 50_000)?;
    check_eq!(stage.lab.zernel.request_stats(Of::All)?.in_flight, 0);
    Ok(())
}

/// Holders that stay, and requests without a pause.
pub(super) fn by_holders() -> Outcome {
    beside([hold_on, closed_loop])
}

/// Requests that need no holder to keep others off.
pub(super) fn without_holders() -> Outcome {
    beside([hold_on_without_holder, closed_loop_without_holder])
}
