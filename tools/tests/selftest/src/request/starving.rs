// SPDX-License-Identifier: GPL-2.0
//! Eight processes of the most urgent level do what they can to keep best-effort off the GPU:
//! it waits for one budget and the switches around it, and no longer.

use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::request::Of;
use libzernel::sim::{Activity, Context, ContextSpec, Item, Record};
use libzernel::{tsg, Level, Target, Timestamp};
use testkit::passing;

use super::{at_once, lab, longest_lease, Client};
use crate::check_eq;
use crate::child::Child;
use crate::common::{default_of, level, slice_of, tune, wait_until, Lab};
use crate::harness::Outcome;

/// Those who try.
const HOSTILE: u32 = 8;
/// The time of their requests, and the wait for the next: short enough that there is always one,
/// and so long that a slow machine has the time to look at each.
const LONG: Duration = Duration::from_millis(8);
/// Periods in which they do.
const PERIODS: u32 = 20;
/// The number of tries where it takes too long.
const ATTEMPTS: usize = 4;

/// The lateness of a worker that counts as none: on a machine on which only a short run is asked
/// for, it is not itself that is slow.
fn patience() -> Duration {
    Duration::from_millis(if testkit::is_short() { 100 } else { 5 })
}

/// A turn of a process, with a holder or without: a request as fast as it is run, so that there is
/// always another one; or one that is never told that the data is ready, and another one before it
/// has to go.
fn take_turn(client: &Client, holder: bool, holds_on: bool, round: u32) -> Outcome {
    let slot = client.slot(round % if holds_on { 2 } else { 8 });
    let begin = at_once(client.tsg).key(1);
    let begin = if holder {
        begin
    } else {
        begin.without_holder()
    };
    let request = slot.begin(&begin)?.number;
    match (holder, holds_on) {
        (true, true) => {
            client.submit(&slot, request, super::SHORTEST)?;
        }
        (true, false) => {
            let seq = client.submit(&slot, request, LONG)?;
            slot.ready(request);
            client.wait(seq)?;
            slot.done(request);
        }
        (false, true) => {}
        (false, false) => {
            std::thread::sleep(Duration::from_micros(500));
            slot.ready_call(request)?;
            let work = Item::work(LONG).notify();
            client.wait(client.context.submit(0, &[work])?.last_seq)?;
            slot.done_call(request)?;
        }
    }
    if holds_on {
        std::thread::sleep(LONG);
    }
    Ok(())
}

/// A process that takes its turns until it is killed.
fn hostile(holder: bool, holds_on: bool) -> Result<Child> {
    let (ours, theirs) = passing::pair()?;
    let child = Child::spawn(|| {
        let (lab, client) = lab()?;
        lab.zernel.set_class(&Target::Tsg(client.tsg), Level::LC)?;
        lab.wait_set()?;
        passing::send_number(&theirs, 1)?;
        for round in 0.. {
            take_turn(&client, holder, holds_on, round)?;
            // The completions are not of interest.
            lab.sim.completions(64)?;
        }
        Ok(())
    })?;
    passing::receive_number(&ours)?;
    Ok(child)
}

/// Tells how late workers are, by one that nobody else keeps busy.
struct Probe {
    context: Context,
    tsg: tsg::Id,
    number: u8,
    took: Vec<Duration>,
}

impl Probe {
    fn new(lab: &Lab) -> Result<Self> {
        let spec = ContextSpec::compute("probe");
        let (context, tsg) = lab.context(&ContextSpec { gpu: 1, ..spec })?;
        tune("level3_timeslice_us", 3_333)?;
        Ok(Self {
            context,
            tsg: tsg.id,
            number: 0,
            took: Vec::new(),
        })
    }

    fn look(&mut self, lab: &Lab) -> Outcome {
        self.number = 3 - self.number;
        let began = Timestamp::now();
        let target = Target::Tsg(self.tsg);
        lab.zernel.set_class(&target, level(self.number))?;
        let wanted = if self.number == 3 { 3_333 } else { slice_of(0) };
        lab.wait_slice(&self.context, wanted)?;
        self.took.push(Timestamp::now().since(began));
        Ok(())
    }

    /// The longest time after its budget is spent for which a level of so many TSGs goes on: the
    /// worker comes late, and it has given all of them their own slices, one after the other,
    /// before it looks at their use, and then takes them away again.
    fn late(&self, tsgs: u32) -> Duration {
        let looks = u32::try_from(self.took.len()).unwrap_or(u32::MAX);
        let mean = self.took.iter().sum::<Duration>() / looks.max(1);
        let worst = self.took.iter().max().copied().unwrap_or_default();
        2 * tsgs * mean + 2 * worst + patience()
    }
}

/// Follows how long one TSG did not run.
struct Follower {
    tsg: u64,
    last: Timestamp,
    longest: Duration,
}

impl Follower {
    fn take(&mut self, records: &[Record]) {
        let own = |record: &&Record| {
            record.engine == 0 && record.activity == Activity::Run && record.tsg == self.tsg
        };
        let (mut last, mut longest) = (self.last, self.longest);
        for record in records.iter().filter(own) {
            longest = longest.max(record.start_ns.since(last));
            last = record.end_ns;
        }
        (self.last, self.longest) = (last, longest);
    }
}

/// Best-effort beside them, with its own work without end.
struct Stage {
    lab: Lab,
    context: Context,
    probe: Probe,
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

    /// Lets them try for some periods. Returns the longest that best-effort waited, and may wait.
    fn attempt(&mut self, holder: bool, budget: u32, period: u32) -> Result<[Duration; 2]> {
        let [budget, period] = [budget, period].map(|us| Duration::from_micros(us.into()));
        let children = (0..HOSTILE).map(|number| hostile(holder, number % 2 == 0));
        let children = children.collect::<Result<Vec<_>>>()?;
        self.probe.took.clear();
        let info = self.lab.sim.gpu_info(0)?;
        let switch = Duration::from_nanos(info.save_ns + info.restore_ns);
        let slice = Duration::from_micros(slice_of(7).into());
        // Those that are throttled have their turns before and after.
        let bound = budget + 2 * (HOSTILE + 1) * (slice + switch);
        let mut most = bound;
        let trace = self.lab.sim.trace(0, 1 << 18)?;
        let began = Timestamp::now();
        let mut be = Follower {
            tsg: self.context.tsg(),
            last: began,
            longest: Duration::ZERO,
        };
        // So long that a starving one waits for longer than it may.
        while Timestamp::now().since(began) < (period * PERIODS).max(2 * most) {
            self.probe.look(&self.lab)?;
            most = bound + self.probe.late(HOSTILE);
            std::thread::sleep(Duration::from_millis(5));
            let (records, dropped) = trace.read()?;
            ensure!(dropped == 0, "{dropped} records dropped");
            be.take(&records);
        }
        // The wait that goes on counts.
        let now = self.context.stats()?.now_ns;
        be.take(&trace.read()?.0);
        let longest = be.longest.max(now.since(be.last));
        drop(trace);
        for child in children {
            child.kill()?;
            child.end()?;
        }
        wait_until("they are gone", || Ok(self.lab.stats()?.tsgs == 2))?;
        println!("    # budget {budget:?} of {period:?}: waited {longest:?} of {most:?}");
        Ok([longest, most])
    }
}

/// The share of best-effort in the GPU beside them. It is tried until it goes well: a machine that
/// is held up makes waits longer than they are, and none shorter.
pub(super) fn beside(holder: bool) -> Outcome {
    let mut stage = Stage::new()?;
    let default = ["level0_budget_us", "level0_period_us"].map(default_of);
    for [budget, period] in [default, [10_000, 50_000]] {
        tune("level0_budget_us", budget)?;
        tune("level0_period_us", period)?;
        let mut all = Vec::new();
        loop {
            let [longest, most] = stage.attempt(holder, budget, period)?;
            if longest <= most {
                break;
            }
            all.push([longest, most]);
            ensure!(all.len() < ATTEMPTS, "best-effort waits: {all:?}");
        }
    }
    check_eq!(stage.lab.zernel.request_stats(Of::All)?.in_flight, 0);
    Ok(())
}
