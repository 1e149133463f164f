// SPDX-License-Identifier: MIT OR Apache-2.0
//! Eight processes of the most urgent level do what they can to keep best-effort off the GPU: it
//! runs again after each of their budgets. A time would depend on how busy the machine is.

use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::request::Of;
use libzernel::sim::{Activity, Context, Item, Record};
use libzernel::{Level, Target};
use testkit::passing;

use super::{at_once, lab, longest_lease, Client};
use crate::check_eq;
use crate::child::Child;
use crate::common::{default_of, slice_of, tune, wait_until, wait_until_within, Lab};
use crate::harness::Outcome;

/// Those who try.
const HOSTILE: u32 = 8;
/// The time of their requests, and the wait for the next: short enough that there is always one,
/// and so long that a slow machine has the time to look at each.
const LONG: Duration = Duration::from_millis(8);
/// Turns that best-effort has to get.
const TURNS: u32 = 20;
/// A hundred times what they take on a machine that does nothing else.
const PATIENCE: Duration = Duration::from_secs(200);

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

/// Counts the turns of one TSG: it runs, and another one ran before.
struct Turns {
    tsg: u64,
    others_ran: bool,
    count: u32,
}

impl Turns {
    fn take(&mut self, records: &[Record]) {
        let runs = |record: &&Record| record.engine == 0 && record.activity == Activity::Run;
        for record in records.iter().filter(runs) {
            let own = record.tsg == self.tsg;
            self.count += u32::from(own && self.others_ran);
            self.others_ran = !own;
        }
    }
}

/// Lets them try until best-effort, with its own work without end, has had its turns.
fn attempt(lab: &Lab, context: &Context, holder: bool) -> Outcome {
    let children = (0..HOSTILE).map(|number| hostile(holder, number % 2 == 0));
    let children = children.collect::<Result<Vec<_>>>()?;
    let trace = lab.sim.trace(0, 1 << 18)?;
    let mut turns = Turns {
        tsg: context.tsg(),
        others_ran: false,
        count: 0,
    };
    wait_until_within(PATIENCE, "best-effort has its turns", || {
        let (records, dropped) = trace.read()?;
        ensure!(dropped == 0, "{dropped} records dropped");
        turns.take(&records);
        Ok(turns.count >= TURNS)
    })?;
    drop(trace);
    for child in children {
        child.kill()?;
        child.end()?;
    }
    wait_until("they are gone", || Ok(lab.stats()?.tsgs == 1))
}

/// The turns of best-effort beside them, with the default budget and with a short one.
pub(super) fn beside(holder: bool, no_holder: &str) -> Outcome {
    longest_lease()?;
    tune("no_holder", no_holder)?;
    let lab = Lab::open()?;
    let (context, tsg) = lab.compute()?;
    lab.zernel.set_class(&Target::Tsg(tsg.id), Level::BE)?;
    lab.wait_slice(&context, slice_of(7))?;
    context.submit(0, &[Item::work(Duration::from_secs(60)); 60])?;
    let default = ["level0_budget_us", "level0_period_us"].map(default_of);
    for [budget, period] in [default, [10_000, 50_000]] {
        tune("level0_budget_us", budget)?;
        tune("level0_period_us", period)?;
        attempt(&lab, &context, holder)?;
    }
    check_eq!(lab.zernel.request_stats(Of::All)?.in_flight, 0);
    Ok(())
}
