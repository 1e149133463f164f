// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trace of requests, of TSGs that are kept off the GPU for them, and of budgets.

use std::time::Duration;

use anyhow::{ensure, Context as _};
use libzernel::request::{Begin, Slots};
use libzernel::sim::Item;
use libzernel::{tsg, Level, Target, Timestamp, Tsg, Zernel};

use super::{field, number, Tracer};
use crate::check_eq;
use crate::common::{slice_of, tune, wait_until, Lab};
use crate::harness::Outcome;
use crate::sim::turns::Suspended;

/// A begin whose trigger is far off, or at once.
fn begin(id: tsg::Id, expected: Duration) -> Begin {
    Begin::new(id)
        .key(Timestamp::now().as_ns())
        .exact()
        .expected(expected)
}

const FAR: Duration = Duration::from_secs(3_600);
const AT_ONCE: Duration = Duration::from_nanos(1);

/// Every way to end: each event once, in order, with what the caller was told.
pub(super) fn every_end() -> Outcome {
    tune("lease_us", 10_000_000)?;
    let lab = Lab::open()?;
    let tracer = Tracer::new()?;
    for (cause, expected) in [
        ("done", FAR),
        ("done", AT_ONCE),
        ("cancelled", FAR),
        ("superseded", FAR),
        ("expired", AT_ONCE),
        ("closed", FAR),
        ("tsg_gone", FAR),
        ("suspended", FAR),
    ] {
        let (context, Tsg { id, .. }) = lab.compute()?;
        let other = lab.compute()?;
        let zernel = Zernel::open()?;
        let slots = Slots::map(&zernel, 0..64)?;
        let slot = slots.slot(0).context("no slot")?;
        if cause == "expired" {
            tune("lease_us", 100)?;
        }
        let before = Timestamp::now();
        let begun = slot.begin(&begin(id, expected))?;
        let after = Timestamp::now();
        tune("lease_us", 10_000_000)?;
        let mut latency = 0..=0;
        match cause {
            "done" => {
                std::thread::sleep(Duration::from_millis(3));
                slot.ready_call(begun.number)?;
                let least = Timestamp::now().since(after);
                slot.done_call(begun.number)?;
                let most = Timestamp::now().since(before);
                latency = least.as_nanos()..=most.as_nanos();
            }
            "cancelled" => slot.cancel(begun.number)?,
            // The next request is another TSG's.
            "superseded" => {
                slot.begin(&begin(other.1.id, FAR))?;
            }
            "closed" => drop((zernel, slots)),
            "tsg_gone" => context.destroy()?,
            "suspended" => drop(Suspended::new(&lab.sim, 0)?),
            _ => {}
        }
        let mut events = Vec::new();
        wait_until("the end is traced", || {
            events = tracer.all("request_")?;
            events.retain(|(_, told)| field(told, "tsg").is_ok_and(|tsg| tsg == id.to_string()));
            Ok(events.iter().any(|(name, _)| name == "request_end"))
        })?;
        let [(begin, first), (trigger, second), (end, last)] = &events[..] else {
            anyhow::bail!("{cause}: {events:?}");
        };
        let names = [begin, trigger, end].map(String::as_str);
        check_eq!(names, ["request_begin", "request_trigger", "request_end"]);
        for told in [first, second, last] {
            check_eq!(number(told, "request")?, u64::from(begun.number.get()));
        }
        let predicted = begun.predicted.unwrap_or_default();
        let told = Duration::from_nanos(number(first, "predicted_ns")?);
        check_eq!(told, predicted, "{cause}");
        let told = number(first, "trigger_at")?;
        check_eq!(told, begun.trigger_at.as_ns(), "{cause}");
        check_eq!(field(last, "cause")?, cause);
        let told = u128::from(number(last, "latency_ns")?);
        ensure!(latency.contains(&told), "{told}, should be {latency:?}");
        if cause == "done" {
            let (early, late) = (number(last, "early_ns")?, number(last, "late_ns")?);
            // The trigger came with ready, or long before it.
            let came = (early > 0, late > 0);
            check_eq!(came, (expected == AT_ONCE, expected == FAR));
        }
    }
    Ok(())
}

/// A TSG that is kept off the GPU for a request, each time.
pub(super) fn preempted() -> Outcome {
    tune("lease_us", 10_000_000)?;
    tune("rotation", "none")?;
    tune("no_holder", "exclude")?;
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
    let slot = slots.slot(0).context("no slot")?;
    let mut expected = Vec::new();
    for _ in 0..3 {
        let begun = slot.begin(&begin(urgent.id, AT_ONCE).without_holder())?;
        let (gpu, id) = (off.gpu, off.id);
        expected.push(format!("gpu={gpu} tsg={id} verdict=done"));
        tracer.wait(&[("tsg_preempted", &expected)])?;
        slot.ready_call(begun.number)?;
        wait_until("it is let in again", || Ok(victim.stats()?.enabled))?;
    }
    tune("no_holder", "kick")?;
    let mut expected = tracer.told("tsg_kicked")?;
    for _ in 0..2 {
        let begun = slot.begin(&begin(urgent.id, AT_ONCE).without_holder())?;
        expected.push(format!("gpu={} tsg={} error=0", urgent.gpu, urgent.id));
        tracer.wait(&[("tsg_kicked", &expected)])?;
        slot.cancel(begun.number)?;
    }
    Ok(())
}

/// A level whose budget is spent, and is back, in turns.
pub(super) fn throttled() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = lab.compute()?;
    lab.zernel.set_class(&Target::Tsg(tsg.id), Level::LC)?;
    lab.wait_slice(&context, slice_of(0))?;
    // Before: what was done at this level until now may be too much already.
    let tracer = Tracer::new()?;
    tune("level0_budget_us", 5_000)?;
    // Only level 0 runs out of it.
    for number in 1..7 {
        tune(&format!("level{number}_budget_us"), 100_000)?;
    }
    context.submit(0, &[Item::work(Duration::from_secs(60)); 10])?;
    wait_until("some periods have passed", || {
        Ok(tracer.told("level_throttled")?.len() >= 6)
    })?;
    for (count, event) in tracer.told("level_throttled")?.iter().enumerate() {
        let told = (number(event, "gpu")?, number(event, "level")?);
        check_eq!(told, (tsg.gpu.as_u64(), 0), "event {count}");
        let on = if count % 2 == 0 { "1" } else { "0" };
        check_eq!(field(event, "on")?, on, "event {count}");
    }
    Ok(())
}
