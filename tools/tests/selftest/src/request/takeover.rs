// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order of deadlines with preemption: an earlier deadline takes the GPU, and it is given back whatever
//! becomes of both.

use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::class::Why;
use libzernel::request::{Number, Slot, Word};
use libzernel::sim::TsgStats;
use libzernel::{tsg, Level, Target, Timestamp};
use testkit::passing;

use super::{at_once, lab, Client, SLOTS};
use crate::check_eq;
use crate::child::Child;
use crate::common::{slice_of, told_slice_of, tune, wait_until, Lab, Lacking};
use crate::harness::Outcome;
use crate::permit::BOB;
use crate::sim::turns::Suspended;
use crate::sys;

/// The work of a request that is taken from.
const LONG: Duration = Duration::from_secs(3);
/// The deadline of one that takes.
const EARLY: Duration = Duration::from_secs(3);
/// The deadline of one that is taken from.
const LATE: Duration = Duration::from_millis(9_500);

/// Both devices, with this order, and no budget that is spent meanwhile.
fn stage() -> Result<Lab> {
    super::longest_lease()?;
    tune("level0_budget_us", 100_000)?;
    tune("order", "edf-preemptive")?;
    Lab::open()
}

/// A client of level 0, of a TSG that has its slice.
fn urgent(lab: &Lab) -> Result<Client> {
    let client = Client::new(lab)?;
    lab.zernel.set_class(&Target::Tsg(client.tsg), Level::LC)?;
    lab.wait_slice(&client.context, slice_of(0))?;
    Ok(client)
}

fn is_triggered(slot: &Slot<'_>, request: Number) -> bool {
    request.is_reached_by(slot.load(Word::Trigger))
}

/// A request that has the GPU, and the last item of its stream.
fn runs(client: &Client, slo: Duration, work: Duration) -> Result<(Number, u64)> {
    let slot = client.slot(0);
    let request = slot.begin(&at_once(client.tsg).slo(slo))?.number;
    ensure!(is_triggered(&slot, request), "it waits");
    let seq = client.submit(&slot, request, work)?;
    slot.ready_call(request)?;
    Ok((request, seq))
}

/// The same, once the GPU runs it.
fn works(client: &Client) -> Result<(Number, u64)> {
    let found = runs(client, LATE, LONG)?;
    wait_until("the GPU runs it", || {
        Ok(client.slot(0).load(Word::Held) == found.0.get())
    })?;
    Ok(found)
}

fn wait_enabled(client: &Client, enabled: bool) -> Outcome {
    wait_until(&format!("enabled: {enabled}"), || {
        Ok(client.context.stats()?.enabled == enabled)
    })
}

/// It has all that it had.
fn has_all(lab: &Lab, client: &Client) -> Outcome {
    wait_enabled(client, true)?;
    lab.wait_slice(&client.context, slice_of(0))
}

/// The earlier deadline is done first, though it came later, and the other one goes on.
pub(super) fn takes_and_gives_back() -> Outcome {
    let lab = stage()?;
    let (late, early) = (urgent(&lab)?, urgent(&lab)?);
    let (victim, last) = works(&late)?;
    let (taker, seq) = runs(&early, EARLY, Duration::from_millis(1))?;
    early.wait(seq)?;
    // It is off until the other one is done, with its work undone.
    wait_enabled(&late, false)?;
    let had = late.context.stats()?.busy_ns;
    ensure!(u128::from(had) < LONG.as_nanos(), "it was done before");
    std::thread::sleep(Duration::from_millis(20));
    check_eq!(late.context.stats()?.busy_ns, had, "while it is held");
    early.slot(0).done_call(taker)?;
    has_all(&lab, &late)?;
    late.wait(last)?;
    Ok(late.slot(0).done_call(victim)?)
}

/// One that is held goes on soon after the process of the other one has stored its end: long before its own
/// deadline, at which it would go on in any case. So does its TSG, where it ends itself.
pub(super) fn sees_a_store() -> Outcome {
    for ends_itself in [false, true] {
        let lab = stage()?;
        let (late, early) = (urgent(&lab)?, urgent(&lab)?);
        let (victim, last) = works(&late)?;
        let (taker, seq) = runs(&early, EARLY, Duration::from_millis(1))?;
        early.wait(seq)?;
        wait_enabled(&late, false)?;
        match ends_itself {
            false => early.slot(0).done(taker),
            true => late.slot(0).done_call(victim)?,
        }
        let stored = Timestamp::now();
        wait_enabled(&late, true)?;
        let took = Timestamp::now().since(stored);
        ensure!(
            took < LATE / 4,
            "{took:?} after it was stored, by itself: {ends_itself}"
        );
        println!("    # {took:?} after it was stored, by itself: {ends_itself}");
        has_all(&lab, &late)?;
        late.wait(last)?;
        match ends_itself {
            false => late.slot(0).done_call(victim)?,
            true => early.slot(0).done_call(taker)?,
        }
    }
    Ok(())
}

/// The slice of a TSG as its class tells it, and the reason; and the TSG as both lists have it.
fn told(lab: &Lab, client: &Client) -> Result<(u32, Why)> {
    let target = Target::Tsg(client.tsg);
    let slice = lab.zernel.class(&target)?.timeslice_us;
    let yields = slice.why.contains(Why::YIELDS);
    let alone = lab.zernel.tsgs_of(&target).collect::<Result<Vec<_>, _>>()?;
    for tsg in [lab.tsg(client.tsg)?].iter().chain(&alone) {
        check_eq!((tsg.yields, tsg.throttled), (yields, false), "in a list");
        ensure!(tsg.preemptible, "it keeps the engine");
    }
    check_eq!(alone.len(), 1);
    Ok((slice.value, slice.why))
}

/// While it is held, a TSG's class tells the slice that the GPU has, and the reason.
pub(super) fn tells_of_a_hold() -> Outcome {
    let lab = stage()?;
    let (late, early) = (urgent(&lab)?, urgent(&lab)?);
    let (victim, last) = works(&late)?;
    check_eq!(told(&lab, &late)?, (slice_of(0), Why::NONE), "before");
    let (taker, seq) = runs(&early, EARLY, Duration::from_millis(1))?;
    wait_enabled(&late, false)?;
    for (rotation, slice, why) in [
        ("fair", slice_of(7), Why::YIELDS | Why::TURNS),
        ("none", told_slice_of(7), Why::YIELDS),
    ] {
        tune("rotation", rotation)?;
        lab.wait_slice(&late.context, slice)?;
        check_eq!(told(&lab, &late)?, (slice, why), "{rotation}");
    }
    check_eq!(told(&lab, &early)?, (slice_of(0), Why::NONE), "the taker");
    early.wait(seq)?;
    early.slot(0).done_call(taker)?;
    has_all(&lab, &late)?;
    check_eq!(told(&lab, &late)?, (slice_of(0), Why::NONE), "after");
    late.wait(last)?;
    Ok(late.slot(0).done_call(victim)?)
}

/// One that is not earlier, or states none, takes nothing.
pub(super) fn takes_from_later_ones_alone() -> Outcome {
    let lab = stage()?;
    let (one, other) = (urgent(&lab)?, urgent(&lab)?);
    let (request, _) = works(&one)?;
    let slot = other.slot(0);
    for begin in [
        at_once(other.tsg).slo(Duration::from_secs(10)),
        at_once(other.tsg),
    ] {
        let waits = slot.begin(&begin)?.number;
        ensure!(!is_triggered(&slot, waits), "it does not wait");
        slot.cancel(waits)?;
    }
    // Nor one with another order.
    tune("order", "edf")?;
    let waits = slot.begin(&at_once(other.tsg).slo(EARLY))?.number;
    ensure!(!is_triggered(&slot, waits), "it does not wait");
    ensure!(one.context.stats()?.enabled, "it was taken from");
    one.slot(0).cancel(request)?;
    wait_until("the next one goes", || Ok(is_triggered(&slot, waits)))?;
    Ok(slot.cancel(waits)?)
}

/// Each end of one that is held is that of its hold, and the taker goes on.
pub(super) fn a_victim_leaves() -> Outcome {
    for cause in ["cancelled", "done", "destroyed"] {
        let lab = stage()?;
        let (late, early) = (urgent(&lab)?, urgent(&lab)?);
        let (victim, _) = works(&late)?;
        let (taker, seq) = runs(&early, EARLY, Duration::from_millis(1))?;
        wait_enabled(&late, false)?;
        let mut late = Some(late);
        if let Some(held) = &late {
            match cause {
                "cancelled" => held.slot(0).cancel(victim)?,
                "done" => held.slot(0).done_call(victim)?,
                _ => late = None,
            }
        }
        if let Some(late) = &late {
            has_all(&lab, late)?;
        }
        early.wait(seq)?;
        early.slot(0).done_call(taker)?;
        goes_on(&lab, &early)?;
    }
    Ok(())
}

/// A request of a client takes the GPU from a new one, and gives it back.
fn goes_on(lab: &Lab, client: &Client) -> Outcome {
    let other = urgent(lab)?;
    let (victim, _) = works(&other)?;
    let (taker, seq) = runs(client, EARLY, Duration::from_millis(1))?;
    wait_enabled(&other, false)?;
    client.wait(seq)?;
    client.slot(0).done_call(taker)?;
    has_all(lab, &other)?;
    Ok(other.slot(0).cancel(victim)?)
}

/// A process that is killed while it is held, or while it has the GPU of another one.
pub(super) fn one_is_killed() -> Outcome {
    for killed in ["victim", "taker"] {
        let lab = stage()?;
        let client = urgent(&lab)?;
        let (ours, theirs) = passing::pair()?;
        let own = match killed {
            "victim" => None,
            _ => Some(works(&client)?),
        };
        let child = Child::spawn(|| {
            let lab = stage()?;
            let client = urgent(&lab)?;
            match killed {
                "victim" => works(&client)?,
                _ => runs(&client, EARLY, super::FAR / 1_000)?,
            };
            passing::send_number(&theirs, client.context.tsg())?;
            std::thread::sleep(super::FAR);
            Ok(())
        })?;
        let tsg = passing::receive_number(&ours)?;
        match own {
            None => {
                let (taker, seq) = runs(&client, EARLY, Duration::from_millis(1))?;
                wait_until("it is held", || Ok(!lab.sim.tsg_stats(tsg)?.enabled))?;
                child.kill()?;
                child.end()?;
                client.wait(seq)?;
                client.slot(0).done_call(taker)?;
            }
            Some((victim, last)) => {
                wait_enabled(&client, false)?;
                child.kill()?;
                child.end()?;
                has_all(&lab, &client)?;
                client.wait(last)?;
                client.slot(0).done_call(victim)?;
            }
        }
        goes_on(&lab, &client)?;
    }
    Ok(())
}

/// With another order nobody stays held, though the taker goes on.
pub(super) fn the_order_changes() -> Outcome {
    for order in ["fifo", "edf"] {
        let lab = stage()?;
        let (late, early) = (urgent(&lab)?, urgent(&lab)?);
        let (victim, last) = works(&late)?;
        let (taker, _) = runs(&early, EARLY, LONG)?;
        wait_enabled(&late, false)?;
        tune("order", order)?;
        has_all(&lab, &late)?;
        late.wait(last)?;
        late.slot(0).done_call(victim)?;
        early.slot(0).done_call(taker)?;
    }
    Ok(())
}

/// One that the provider cannot take off the GPU runs on, and nothing is left behind.
pub(super) fn the_provider_fails() -> Outcome {
    use libzernel::sim::Operation;
    use rustix::io::Errno;
    for operation in [
        Operation::SetTimeslice,
        Operation::SetEnabled,
        Operation::Preempt,
    ] {
        let lab = stage()?;
        let (late, early) = (urgent(&lab)?, urgent(&lab)?);
        let (victim, last) = works(&late)?;
        let before = lab.sim.injected(0, operation)?;
        super::fail_next(&lab, operation, Errno::IO, 1)?;
        let (taker, seq) = runs(&early, EARLY, Duration::from_millis(1))?;
        wait_until("it fails", || {
            Ok(lab.sim.injected(0, operation)? == before + 1)
        })?;
        early.wait(seq)?;
        early.slot(0).done_call(taker)?;
        has_all(&lab, &late)?;
        late.wait(last)?;
        late.slot(0).done_call(victim)?;
    }
    Ok(())
}

/// One that the provider put off is taken off the GPU later.
pub(super) fn is_tried_again() -> Outcome {
    use libzernel::sim::Operation;
    use rustix::io::Errno;
    for error in [Errno::AGAIN, Errno::NOMEM] {
        let lab = stage()?;
        let (late, early) = (urgent(&lab)?, urgent(&lab)?);
        let (victim, _) = works(&late)?;
        let before = lab.sim.injected(0, Operation::Preempt)?;
        super::fail_next(&lab, Operation::Preempt, error, 1)?;
        let (taker, seq) = runs(&early, EARLY, Duration::from_millis(500))?;
        wait_enabled(&late, false)?;
        let failed = lab.sim.injected(0, Operation::Preempt)? - before;
        check_eq!(failed, 1, "{error}");
        early.wait(seq)?;
        early.slot(0).done_call(taker)?;
        has_all(&lab, &late)?;
        late.slot(0).cancel(victim)?;
    }
    Ok(())
}

/// A user whose deadlines are always earlier, one within the other, or so early that each request goes by itself,
/// holds another one's request for about half of the time: it is done long before its deadline.
pub(super) fn is_bounded() -> Outcome {
    holds_for_half(false)?;
    holds_for_half(true)
}

fn holds_for_half(by_itself: bool) -> Outcome {
    // Long enough for the other user to begin meanwhile, however slow the machine.
    const WORK: Duration = Duration::from_secs(2);
    let lab = stage()?;
    let client = urgent(&lab)?;
    let (ours, theirs) = passing::pair()?;
    let child = Child::spawn(|| {
        sys::become_user(BOB, BOB, &[])?;
        let lab = Lab::open()?;
        let hostile = [Client::new(&lab)?, Client::new(&lab)?];
        for one in &hostile {
            passing::send_number(&theirs, one.tsg.as_u64())?;
        }
        passing::receive_number(&theirs)?;
        if by_itself {
            // The others go on with what this one takes.
            let slot = hostile[0].slot(SLOTS - 1);
            slot.begin(&at_once(hostile[0].tsg).slo(Duration::from_millis(100)))?;
        }
        loop {
            for number in 0..SLOTS / 2 {
                // Each takes from the one before, which is of the other TSG; or takes nothing, and runs.
                let within = match by_itself {
                    true => Duration::from_nanos(1),
                    false => Duration::from_millis(100 - u64::from(number) * 3),
                };
                for one in &hostile {
                    one.slot(number).begin(&at_once(one.tsg).slo(within))?;
                }
                if by_itself {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    })?;
    for _ in 0..2 {
        let id = tsg::Id::new(passing::receive_number(&ours)?);
        lab.zernel.set_class(&Target::Tsg(id), Level::LC)?;
    }
    let slot = client.slot(0);
    let request = slot.begin(&at_once(client.tsg).slo(LATE))?.number;
    ensure!(is_triggered(&slot, request), "it waits");
    let began = Timestamp::now();
    let last = client.submit(&slot, request, WORK)?;
    slot.ready_call(request)?;
    let before = client.context.stats()?.slice_changes;
    passing::send_number(&ours, 1)?;
    client.wait(last)?;
    let took = Timestamp::now().since(began);
    ensure!(
        client.context.stats()?.slice_changes > before,
        "it was never held"
    );
    slot.done_call(request)?;
    child.kill()?;
    child.end()?;
    ensure!(
        took < Duration::from_secs(8),
        "held for as long as others want: {took:?}"
    );
    println!("    # {WORK:?} of work took {took:?}, by itself: {by_itself}");
    Ok(())
}

/// Without a deadline of its own a request of this order has no part in it.
pub(super) fn comes_after_the_rest() -> Outcome {
    let (lab, client) = lab()?;
    tune("order", "edf-preemptive")?;
    lab.zernel.set_class(&Target::Tsg(client.tsg), Level::LC)?;
    let slot = client.slot(0);
    let open = slot.begin(&at_once(client.tsg))?.number;
    let other = urgent(&lab)?;
    let early = other.slot(0).begin(&at_once(other.tsg).slo(EARLY))?.number;
    ensure!(!is_triggered(&other.slot(0), early), "it was taken from");
    slot.done_call(open)?;
    ensure!(is_triggered(&other.slot(0), early), "it does not go");
    Ok(other.slot(0).done_call(early)?)
}

/// The name of the order in the kernel's log.
const ORDER: &str = "edf-preemptive";

/// On a GPU whose provider cannot disable a TSG the order is `edf`: the log names that, and nothing is taken.
pub(super) fn cannot_take() -> Outcome {
    let lacking = Lacking::new("set_enabled")?;
    let lab = stage()?;
    let (late, early) = (urgent(&lab)?, urgent(&lab)?);
    let (victim, _) = works(&late)?;
    let before = late.context.stats()?;
    let slot = early.slot(0);
    // Earlier than that of the other one, and later than all of this.
    let begin = at_once(early.tsg).slo(LATE - Duration::from_secs(1));
    let waits = slot.begin(&begin)?.number;
    lacking.wait_named(ORDER, &["set_enabled"])?;
    ensure!(!is_triggered(&slot, waits), "it has the GPU");
    check_eq!(told(&lab, &late)?, (slice_of(0), Why::NONE), "its slice");
    let now = late.context.stats()?;
    let settings = |stats: &TsgStats| (stats.timeslice_us, stats.interleave, stats.enabled);
    check_eq!(settings(&now), settings(&before), "its settings");
    late.slot(0).cancel(victim)?;
    wait_until("the next one goes", || Ok(is_triggered(&slot, waits)))?;
    Ok(slot.cancel(waits)?)
}

/// Without other operations the order does a part, and the log names each.
pub(super) fn lacks_an_operation() -> Outcome {
    for operations in [
        &["set_interleave"][..],
        &["preempt"],
        &["query_tsg"],
        &["set_interleave", "preempt", "query_tsg"],
    ] {
        let lacking = Lacking::new(&operations.join(","))?;
        let lab = stage()?;
        let (late, early) = (urgent(&lab)?, urgent(&lab)?);
        let (victim, _) = works(&late)?;
        let (taker, seq) = runs(&early, EARLY, Duration::from_millis(1))?;
        wait_enabled(&late, false)?;
        lacking.wait_named(ORDER, operations)?;
        early.wait(seq)?;
        early.slot(0).done_call(taker)?;
        has_all(&lab, &late)?;
        late.slot(0).cancel(victim)?;
    }
    Ok(())
}

/// Two TSGs are held when the GPU ceases to respond: it gets no call after that, for neither. Once it is back both
/// have all that they had.
pub(super) fn gets_no_answer() -> Outcome {
    use libzernel::sim::{Fault, Operation};
    // Until the first has yielded, the second is taken from.
    const CALL: Duration = Duration::from_millis(500);
    let lab = stage()?;
    tune("level3_budget_us", 100_000)?;
    let of = |number| {
        let client = Client::new(&lab)?;
        lab.zernel
            .set_class(&Target::Tsg(client.tsg), crate::common::level(number))?;
        lab.wait_slice(&client.context, slice_of(number))?;
        anyhow::Ok((client, number))
    };
    let (victims, takers) = ([of(0)?, of(3)?], [of(0)?, of(3)?]);
    for (victim, _) in &victims {
        runs(victim, LATE, LONG)?;
    }
    let unresponsive = || {
        anyhow::Ok(
            lab.zernel
                .request_stats(libzernel::request::Of::All)?
                .preempt_unresponsive,
        )
    };
    let before = unresponsive()?;
    let calls = super::Calls::count(
        &lab,
        &[
            super::times_out(Operation::Preempt),
            super::times_out(Operation::SetEnabled),
            Fault {
                error: None,
                delay: CALL,
                ..super::times_out(Operation::SetTimeslice)
            },
        ],
    )?;
    for (taker, _) in &takers {
        runs(taker, EARLY, Duration::from_millis(1))?;
    }
    wait_until("it does not respond", || Ok(unresponsive()? > before))?;
    let all = calls.all()?;
    super::ask_for_all(&lab.zernel)?;
    check_eq!(calls.all()?, all, "calls");
    check_eq!(unresponsive()?, before + 1, "verdicts");
    let tries = calls.of(&[Operation::Preempt, Operation::SetEnabled])?;
    check_eq!(tries, 2, "calls to take one off");
    check_eq!(calls.of(&[Operation::SetTimeslice])?, 2, "TSGs that yield");
    drop(calls);
    drop(Suspended::new(&lab.sim, 0)?);
    for (client, number) in victims.iter().chain(&takers) {
        wait_enabled(client, true)?;
        lab.wait_slice(&client.context, slice_of(*number))?;
    }
    goes_on(&lab, &takers[0].0)
}
