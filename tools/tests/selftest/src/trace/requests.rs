// SPDX-License-Identifier: GPL-2.0
//! The trace of requests, of TSGs that are kept off the GPU for them, and of budgets.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::request::{Begin, Begun, Slot, Slots};
use libzernel::sim::Item;
use libzernel::{tsg, Level, Target, Timestamp, Tsg, Zernel};

use super::Tracer;
use crate::check_eq;
use crate::common::{slice_of, tune, wait_until, Lab};
use crate::harness::Outcome;
use crate::sim::turns::Suspended;

/// An event: its name, and its fields by name.
#[derive(Debug)]
struct Event {
    name: String,
    fields: BTreeMap<String, String>,
}

impl Event {
    /// Of a line of a trace, if it is one of zernel's.
    fn of(line: &str) -> Option<Self> {
        // Behind the time comes the name, behind that the fields.
        let (name, text) = line.split_once(": ")?.1.split_once(": ")?;
        let fields = text.split_whitespace().filter_map(|word| {
            let (field, value) = word.split_once('=')?;
            Some((field.to_owned(), value.to_owned()))
        });
        Some(Self {
            name: name.trim().to_owned(),
            fields: fields.collect(),
        })
    }

    fn field(&self, name: &str) -> Result<&str> {
        let value = self.fields.get(name).map(String::as_str);
        value.with_context(|| format!("no {name} in {self:?}"))
    }

    fn number(&self, name: &str) -> Result<u64> {
        Ok(self.field(name)?.parse()?)
    }
}

/// All events of some names, in order.
fn events(tracer: &Tracer, names: &[&str]) -> Result<Vec<Event>> {
    let text = fs::read_to_string(tracer.0.join("trace"))?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let events = lines.filter_map(Event::of);
    Ok(events
        .filter(|event| names.contains(&event.name.as_str()))
        .collect())
}

/// Those of the requests of a TSG.
fn of_tsg(tracer: &Tracer, id: tsg::Id) -> Result<Vec<Event>> {
    let names = ["request_begin", "request_trigger", "request_end"];
    let mut events = events(tracer, &names)?;
    let id = id.to_string();
    events.retain(|event| event.fields.get("tsg") == Some(&id));
    Ok(events)
}

/// A begin whose trigger is far off, or at once.
fn begin(id: tsg::Id, expected: Duration) -> Begin {
    Begin::new(id)
        .key(Timestamp::now().as_ns())
        .exact()
        .expected(expected)
}

const FAR: Duration = Duration::from_secs(3_600);
const AT_ONCE: Duration = Duration::from_nanos(1);

fn slot(slots: &Slots) -> Result<Slot<'_>> {
    slots.slot(0).context("no slot")
}

/// Waits for the end of the first request of a TSG and checks all that was told of it.
fn told(tracer: &Tracer, id: tsg::Id, begun: &Begun, cause: &str) -> Result<Vec<Event>> {
    wait_until("the end is traced", || {
        Ok(of_tsg(tracer, id)?.iter().any(|e| e.name == "request_end"))
    })?;
    let events = of_tsg(tracer, id)?;
    let names: Vec<_> = events.iter().map(|event| event.name.as_str()).collect();
    check_eq!(
        names,
        ["request_begin", "request_trigger", "request_end"],
        "{cause}"
    );
    for event in &events {
        check_eq!(event.number("request")?, begun.number.get().into());
    }
    let predicted = begun.predicted.unwrap_or_default();
    let told = Duration::from_nanos(events[0].number("predicted_ns")?);
    check_eq!(told, predicted, "{cause}");
    let told = events[0].number("trigger_at")?;
    check_eq!(told, begun.trigger_at.as_ns(), "{cause}");
    check_eq!(events[2].field("cause")?, cause);
    Ok(events)
}

/// Each event once, in order, with what the caller was told.
pub(super) fn done() -> Outcome {
    tune("lease_us", 10_000_000)?;
    let lab = Lab::open()?;
    let tracer = Tracer::new()?;
    for expected in [FAR, AT_ONCE] {
        let (_context, Tsg { id, .. }) = lab.compute()?;
        let slots = Slots::map(&lab.zernel, 0..64)?;
        let slot = slot(&slots)?;
        let before = Timestamp::now();
        let begun = slot.begin(&begin(id, expected))?;
        let after = Timestamp::now();
        std::thread::sleep(Duration::from_millis(3));
        slot.ready_call(begun.number)?;
        let least = Timestamp::now().since(after);
        slot.done_call(begun.number)?;
        let most = Timestamp::now().since(before);
        let end = told(&tracer, id, &begun, "done")?;
        let latency = Duration::from_nanos(end[2].number("latency_ns")?);
        ensure!(
            (least..=most).contains(&latency),
            "{latency:?}, should be {least:?} to {most:?}"
        );
        let (early, late) = (end[2].number("early_ns")?, end[2].number("late_ns")?);
        ensure!(early == 0 || late == 0, "both early and late");
        // The trigger came with ready, or long before it.
        check_eq!(
            (early > 0, late > 0),
            (expected == AT_ONCE, expected == FAR)
        );
    }
    Ok(())
}

/// Every other way to end.
pub(super) fn every_cause() -> Outcome {
    tune("lease_us", 10_000_000)?;
    let lab = Lab::open()?;
    let tracer = Tracer::new()?;
    for cause in [
        "cancelled",
        "superseded",
        "expired",
        "closed",
        "tsg_gone",
        "suspended",
    ] {
        let (context, Tsg { id, .. }) = lab.compute()?;
        let zernel = Zernel::open()?;
        let slots = Slots::map(&zernel, 0..64)?;
        let slot = slot(&slots)?;
        if cause == "expired" {
            tune("lease_us", 100)?;
        }
        let expected = match cause {
            "expired" => AT_ONCE,
            _ => FAR,
        };
        let begun = slot.begin(&begin(id, expected))?;
        tune("lease_us", 10_000_000)?;
        let other = lab.compute()?;
        match cause {
            "cancelled" => slot.cancel(begun.number)?,
            "superseded" => {
                // The next request is another TSG's.
                slot.begin(&begin(other.1.id, FAR))?;
            }
            "closed" => {
                drop(zernel);
                drop(slots);
            }
            "tsg_gone" => context.destroy()?,
            "suspended" => drop(Suspended::new(&lab.sim, 0)?),
            _ => {}
        }
        let events = told(&tracer, id, &begun, cause)?;
        check_eq!(events[2].number("latency_ns")?, 0, "{cause}");
    }
    Ok(())
}

/// A TSG that is kept off the GPU for a request, each time.
pub(super) fn preempted() -> Outcome {
    tune("lease_us", 10_000_000)?;
    tune("rotation", "none")?;
    // On a slow machine the budget could be spent, which lets it in again.
    tune("level0_budget_us", 100_000)?;
    let lab = Lab::open()?;
    let (victim, off) = lab.compute()?;
    lab.zernel.set_class(&Target::Tsg(off.id), Level::BE)?;
    victim.submit(0, &[Item::work(Duration::from_secs(60))])?;
    let (context, urgent) = lab.compute()?;
    lab.zernel.set_class(&Target::Tsg(urgent.id), Level::LC)?;
    lab.wait_slice(&context, slice_of(0))?;
    let tracer = Tracer::new()?;
    let slots = Slots::map(&lab.zernel, 0..64)?;
    let slot = slot(&slots)?;
    let mut expected = Vec::new();
    for _ in 0..3 {
        let begun = slot.begin(&begin(urgent.id, AT_ONCE).without_holder())?;
        let (gpu, id) = (off.gpu, off.id);
        expected.push(format!("gpu={gpu} tsg={id} verdict=done"));
        tracer.wait("tsg_preempted", &expected)?;
        slot.ready_call(begun.number)?;
        wait_until("it is let in again", || Ok(victim.stats()?.enabled))?;
    }
    Ok(())
}

/// A level whose budget is spent, and is back, in turns.
pub(super) fn throttled() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = lab.compute()?;
    lab.zernel.set_class(&Target::Tsg(tsg.id), Level::LC)?;
    lab.wait_slice(&context, slice_of(0))?;
    tune("level0_budget_us", 5_000)?;
    // Only level 0 runs out of it.
    for number in 1..7 {
        tune(&format!("level{number}_budget_us"), 100_000)?;
    }
    let tracer = Tracer::new()?;
    context.submit(0, &[Item::work(Duration::from_secs(60)); 10])?;
    wait_until("some periods have passed", || {
        Ok(events(&tracer, &["level_throttled"])?.len() >= 6)
    })?;
    for (count, event) in events(&tracer, &["level_throttled"])?.iter().enumerate() {
        let told = ["gpu", "level", "on"].map(|name| event.field(name));
        let told = told.into_iter().collect::<Result<Vec<_>>>()?;
        let on = if count % 2 == 0 { "1" } else { "0" };
        check_eq!(
            told,
            [tsg.gpu.to_string().as_str(), "0", on],
            "event {count}"
        );
    }
    Ok(())
}
