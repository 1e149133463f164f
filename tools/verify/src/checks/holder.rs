// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests with a holder: from the trigger to the holder, from ready to its end, to the work behind it.

use std::time::Duration;

use anyhow::Result;
use libzernel::request::Word;
use libzernel::{Level, Timestamp};

use crate::check::Check;
use crate::figure::{Figures, Range, Unit};
use crate::lab::Lab;
use crate::runs::Run;

use super::stage::{us, PATIENCE};

/// The check.
pub const CHECK: Check = Check {
    name: "holder",
    asks: "Does a holder take the GPU at the trigger, and keep it until the end?",
    seconds: 40,
    slices: &[],
    run,
};

/// From begin to the trigger.
const PREPARATION: Duration = Duration::from_millis(3);

const SWITCH: &str = "Documentation/sharing.rst: a slice of BE and a switch, 134 us on an A100";
const STORE: &str = "a store over PCIe and the holder's loop: a few us";
const PROMISE: &str = "Documentation/requests.rst: nobody else runs between holder and kernels";

fn run(lab: &Lab<'_>, figures: &mut Figures) -> Result<()> {
    lab.set("lease_us", 10_000_000)?;
    let period = lab.tunable("level0_period_us")?;
    lab.set("level0_budget_us", period)?;
    let be = lab.context(Level::BE)?;
    // Slots outlive a GPU that uses them.
    let slots = lab.slots()?;
    let mut lc = lab.context(Level::LC)?;
    lc.use_slots(&slots)?;
    let slot = slots.slot(0).expect("it was mapped");
    be.spin()?;
    lab.wait_runs(&*be)?;
    let tries = lab.count(50, 8);
    let (mut held, mut alone) = (0, 0);
    let [mut to_holder, mut to_end, mut to_item] = [const { Vec::new() }; 3];
    for _ in 0..tries {
        lab.work.record()?;
        let request = lab.request(&*lc).expected(PREPARATION).exact();
        let begun = slot.begin(&request)?;
        let holder = lc.hold(&slot, begun.number)?;
        let reached = || {
            Ok(begun
                .number
                .is_reached_by(slot.load(Word::Held))
                .then_some(()))
        };
        let is_held = lab.within(PATIENCE, reached)?.is_some();
        let item = lc.item(super::latency::LENGTH)?;
        let ready = Timestamp::now();
        slot.ready_at(begun.number, ready);
        lc.stored()?;
        let holder = lab.wait_ran(&*lc, holder)?;
        let item = lab.wait_ran(&*lc, item)?;
        slot.done_call(begun.number)?;
        if !is_held {
            break;
        }
        held += 1;
        let runs = lab.work.runs()?;
        let meanwhile = |run: &Run| run.from > holder.started && run.until < item.started;
        alone += usize::from(!runs.of(be.tsg()).any(meanwhile));
        to_holder.push(us(begun.trigger_at, holder.started));
        to_end.push(us(ready, holder.ended));
        to_item.push(us(holder.ended, item.started));
    }
    figures.always("held_at_the_trigger", held, tries, PROMISE);
    figures.always("nobody_in_between", alone, held, PROMISE);
    let range = Range::new(0.0, 400.0);
    figures.cost(
        "trigger_to_holder",
        Unit::Microseconds,
        &to_holder,
        range,
        SWITCH,
    );
    let range = Range::new(0.0, 30.0);
    figures.cost(
        "ready_to_end_of_holder",
        Unit::Microseconds,
        &to_end,
        range,
        STORE,
    );
    figures.first("end_of_holder_to_lc", Unit::Microseconds, &to_item);
    Ok(())
}
