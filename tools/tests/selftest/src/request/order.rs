// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order of deadlines: triggers come one after the other, and no request waits for one that is
//! dead, stuck or hostile for longer than its lease.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::request::{Begin, Number, Slot, Slots, Word};
use libzernel::{Level, Target, Timestamp, Zernel};
use testkit::passing;
use testkit::random::Random;

use super::{at_once, is_free, lab, slot, words, Client, Since, SLOTS};
use crate::check_eq;
use crate::child::Child;
use crate::common::{errno, slice_of, tune, wait_until, Lab};
use crate::harness::Outcome;

/// Both devices and an LC client, with the earliest deadline first.
fn stage() -> Result<(Lab, Client)> {
    let (lab, client) = lab()?;
    lab.zernel.set_class(&Target::Tsg(client.tsg), Level::LC)?;
    tune("order", "edf")?;
    Ok((lab, client))
}

fn within(client: &Client, slo: Duration) -> Begin {
    at_once(client.tsg).slo(slo)
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// True if the trigger of a request was stored.
fn is_triggered(slot: &Slot<'_>, request: Number) -> bool {
    request.is_reached_by(slot.load(Word::Trigger))
}

/// The first request of a client has the GPU, and those with these deadlines wait for it.
fn queue(client: &Client, deadlines: &[Duration]) -> Result<(Number, Vec<Number>)> {
    let head = client.slot(0).begin(&within(client, ms(9_000)))?.number;
    ensure!(is_triggered(&client.slot(0), head), "nobody is before it");
    let mut waiting = Vec::new();
    for (number, &slo) in (1..).zip(deadlines) {
        let slot = client.slot(number);
        let request = slot.begin(&within(client, slo))?.number;
        ensure!(!is_triggered(&slot, request), "it does not wait");
        waiting.push(request);
    }
    Ok((head, waiting))
}

/// The earliest deadline goes first, and each as the one before ends; ready takes no turn.
pub(super) fn is_kept() -> Outcome {
    let (lab, client) = stage()?;
    let since = Since::now(&lab.zernel)?;
    let none = Duration::ZERO;
    let (head, waiting) = queue(&client, &[ms(8_000), none, ms(6_000), ms(7_000)])?;
    client.slot(3).ready_call(waiting[2])?;
    check_eq!(
        client.slot(3).load(Word::Release),
        waiting[2].get(),
        "ready"
    );
    ensure!(!is_triggered(&client.slot(3), waiting[2]), "out of turn");
    let mut last = (0, head);
    // Without a deadline it is the last.
    for at in [2, 3, 0, 1] {
        client.slot(last.0).done_call(last.1)?;
        for (number, &request) in (1..).zip(&waiting) {
            let slot = client.slot(number);
            let is_free = is_triggered(&slot, request);
            let due = number as usize == at + 1;
            ensure!(!due || is_free, "its turn did not come");
        }
        let triggered = (1u32..).zip(&waiting);
        let triggered = triggered.filter(|(n, &r)| is_triggered(&client.slot(*n), r));
        let expected = [2, 3, 0, 1].iter().position(|&other| other == at);
        check_eq!(
            Some(triggered.count()),
            expected.map(|n| n + 1),
            "at a time"
        );
        last = (at as u32 + 1, waiting[at]);
    }
    client.slot(last.0).done_call(last.1)?;
    since.expect(ends!(done: 5))
}

/// The GPU runs them in that order, too.
pub(super) fn is_that_of_the_gpu() -> Outcome {
    let (lab, client) = stage()?;
    let (head, waiting) = queue(&client, &[ms(8_000), ms(6_000), ms(7_000)])?;
    // One context each, as the items of one come in the order in which they are queued.
    let contexts: Vec<_> = (0..3).map(|_| lab.compute()).collect::<Result<_>>()?;
    for ((context, _), (number, &request)) in contexts.iter().zip((1..).zip(&waiting)) {
        context.add_memory(client.slots.memory())?;
        let slot = client.slot(number);
        let trigger = slot.word(Word::Trigger);
        let items = [
            libzernel::sim::Item::wait(trigger, libzernel::sim::Condition::AtLeast, request.get()),
            libzernel::sim::Item::work(super::SHORTEST),
            libzernel::sim::Item::release(slot.word(Word::Held), request.get()),
        ];
        context.submit(0, &items)?;
    }
    let mut last = (0, head);
    for at in [1, 2, 0] {
        client.slot(last.0).done_call(last.1)?;
        let slot = client.slot(at as u32 + 1);
        wait_until("the GPU runs it", || {
            Ok(slot.load(Word::Held) == waiting[at].get())
        })?;
        last = (at as u32 + 1, waiting[at]);
    }
    Ok(client.slot(last.0).done_call(last.1)?)
}

/// Each end of the one that has the GPU lets the next go at once.
pub(super) fn goes_on_at_any_end() -> Outcome {
    for cause in ["cancelled", "superseded", "done by a store", "gone"] {
        let (lab, client) = stage()?;
        let other = Client::new(&lab)?;
        lab.zernel.set_class(&Target::Tsg(other.tsg), Level::LC)?;
        let began = Timestamp::now();
        let head = other.slot(0).begin(&within(&other, ms(9_000)))?.number;
        let slot = client.slot(0);
        let request = slot.begin(&within(&client, ms(8_000)))?.number;
        ensure!(!is_triggered(&slot, request), "{cause}: it does not wait");
        let Client { slots, context, .. } = other;
        match cause {
            "cancelled" => super::slot(&slots, 0).cancel(head)?,
            "superseded" => {
                // Its own next one has a later deadline.
                let next = Begin::new(other.tsg).slo(ms(9_000));
                super::slot(&slots, 0).begin(&next)?;
            }
            "done by a store" => {
                super::slot(&slots, 0).ready(head);
                super::slot(&slots, 0).done(head);
            }
            _ => drop(context),
        }
        wait_until(&format!("{cause}: the next one goes"), || {
            Ok(is_triggered(&slot, request))
        })?;
        let took = Timestamp::now().since(began);
        ensure!(took < ms(8_000), "{cause}: only at its deadline");
        slot.done_call(request)?;
    }
    Ok(())
}

/// A process that has the GPU and others that wait is killed: those of other processes go at once.
pub(super) fn goes_on_after_a_kill() -> Outcome {
    let (lab, client) = stage()?;
    let (ours, theirs) = passing::pair()?;
    let child = Child::spawn(|| {
        let (_lab, client) = stage()?;
        queue(&client, &[ms(5_000), ms(6_000)])?;
        passing::send_number(&theirs, 0)?;
        std::thread::sleep(super::FAR);
        Ok(())
    })?;
    passing::receive_number(&ours)?;
    let began = Timestamp::now();
    let slot = client.slot(0);
    let request = slot.begin(&within(&client, ms(8_000)))?.number;
    ensure!(!is_triggered(&slot, request), "it does not wait");
    child.kill()?;
    child.end()?;
    wait_until("the next one goes", || Ok(is_triggered(&slot, request)))?;
    let took = Timestamp::now().since(began);
    ensure!(took < ms(8_000), "only at its deadline");
    slot.done_call(request)?;
    drop(client);
    wait_until("nothing is in flight", || {
        Ok(lab
            .zernel
            .request_stats(libzernel::request::Of::All)?
            .in_flight
            == 0)
    })
}

/// One that is stuck, before or after its data is ready, is waited for no longer than its lease.
pub(super) fn has_a_lease() -> Outcome {
    for is_ready in [false, true] {
        let (_lab, client) = stage()?;
        tune("lease_us", 200_000)?;
        let stuck = client.slot(0).begin(&within(&client, ms(9_000)))?.number;
        if is_ready {
            client.slot(0).ready_call(stuck)?;
        }
        super::longest_lease()?;
        let began = Timestamp::now();
        let slot = client.slot(1);
        let request = slot.begin(&within(&client, ms(9_500)))?.number;
        ensure!(!is_triggered(&slot, request), "it does not wait");
        wait_until("the next one goes", || Ok(is_triggered(&slot, request)))?;
        let took = Timestamp::now().since(began);
        ensure!(took < ms(9_000), "only at its deadline: {took:?}");
        slot.done_call(request)?;
    }
    Ok(())
}

/// Nobody waits beyond its own deadline, nor for another level.
pub(super) fn has_bounds() -> Outcome {
    let (lab, client) = stage()?;
    let (head, _) = queue(&client, &[])?;
    let slot = client.slot(1);
    let late = slot.begin(&within(&client, ms(300)))?;
    ensure!(!is_triggered(&slot, late.number), "it does not wait");
    wait_until("its deadline", || Ok(is_triggered(&slot, late.number)))?;
    let now = Timestamp::now();
    ensure!(now >= late.trigger_at + ms(290), "before its deadline");
    let other = Client::new(&lab)?;
    for level in [None, Level::new(3), Some(Level::BE)] {
        if let Some(level) = level {
            lab.zernel.set_class(&Target::Tsg(other.tsg), level)?;
        }
        let slot = other.slot(0);
        let request = slot.begin(&within(&other, ms(9_000)))?.number;
        ensure!(is_triggered(&slot, request), "{level:?} waits for LC");
        slot.done_call(request)?;
    }
    slot.done_call(late.number)?;
    Ok(client.slot(0).done_call(head)?)
}

/// A program that stores its triggers itself goes as it is ready, in any order.
pub(super) fn takes_part_by_calls() -> Outcome {
    let (_lab, client) = stage()?;
    let (head, waiting) = queue(&client, &[ms(8_000)])?;
    let slot = client.slot(1);
    slot.ready(waiting[0]);
    ensure!(is_free(words(&slot), waiting[0]), "not by its own store");
    slot.done_call(waiting[0])?;
    Ok(client.slot(0).done_call(head)?)
}

/// The order changes again and again under load: nothing is left behind.
pub(super) fn switched_under_load() -> Outcome {
    const ROUNDS: u32 = 400;
    let (lab, client) = stage()?;
    tune("lease_us", 20_000)?;
    // Others of another TSG, as one takes nothing from itself.
    let other = Client::new(&lab)?;
    lab.zernel.set_class(&Target::Tsg(other.tsg), Level::LC)?;
    let clients = [client, other];
    let since = Since::now(&lab.zernel)?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| -> Outcome {
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                let (client, stop) = (&clients[worker as usize % 2], &stop);
                scope.spawn(move || work(client, worker, stop))
            })
            .collect();
        for round in 0..ROUNDS {
            let order = ["fifo", "edf-preemptive", "edf", "edf-preemptive"];
            tune("order", order[round as usize % 4])?;
            std::thread::sleep(ms(5));
        }
        stop.store(true, Relaxed);
        for worker in workers {
            let rounds = worker.join().expect("a worker panicked")?;
            ensure!(rounds > 10, "{rounds} requests");
        }
        Ok(())
    })?;
    wait_until("nothing is in flight", || Ok(since.ends()?.in_flight == 0))?;
    for client in &clients {
        for number in 0..SLOTS {
            let (trigger, release) = words(&client.slot(number));
            check_eq!(trigger, release, "slot {number}");
        }
        wait_until("nobody is held", || Ok(client.context.stats()?.enabled))?;
        lab.wait_slice(&client.context, slice_of(0))?;
    }
    Ok(())
}

/// Requests of a worker's slots, with all kinds of ends, some of which are left to their lease.
fn work(client: &Client, worker: u32, stop: &AtomicBool) -> Result<u32> {
    let mut random = Random::new(u64::from(worker) + 1);
    let mut rounds = 0;
    while !stop.load(Relaxed) {
        for at in 0..4 {
            let slot = client.slot(worker * 4 + at);
            let slo = Duration::from_micros(1 + random.below(50_000));
            let request = slot.begin(&within(client, slo))?.number;
            let result = match random.below(4) {
                0 => slot
                    .ready_call(request)
                    .and_then(|()| slot.done_call(request)),
                1 => slot.cancel(request),
                2 => {
                    slot.ready(request);
                    slot.done(request);
                    Ok(())
                }
                _ => Ok(()),
            };
            ensure!(
                matches!(errno(result), None | Some(rustix::io::Errno::STALE)),
                "an update"
            );
            rounds += 1;
        }
    }
    for at in 0..4 {
        let slot = client.slot(worker * 4 + at);
        let request = slot.begin(&within(client, ms(1)))?.number;
        slot.cancel(request).ok();
    }
    Ok(rounds)
}

/// A tenant with deadlines that cannot be earlier, on every slot and without an end, has others wait
/// for their own deadline at most, and leaves them a place.
pub(super) fn hostile() -> Outcome {
    let (lab, client) = stage()?;
    tune("lease_us", 50_000)?;
    let (ours, theirs) = passing::pair()?;
    let child = Child::spawn(|| {
        let lab = Lab::open()?;
        let hostile = Client::new(&lab)?;
        lab.zernel.set_class(&Target::Tsg(hostile.tsg), Level::LC)?;
        let slots = Slots::map(&Zernel::open()?, 0..SLOTS)?;
        passing::send_number(&theirs, 0)?;
        loop {
            for number in 0..SLOTS {
                for slots in [&slots, &hostile.slots] {
                    let begin = within(&hostile, Duration::from_nanos(1 + u64::from(number)));
                    slot(slots, number).begin(&begin)?;
                }
            }
        }
    })?;
    passing::receive_number(&ours)?;
    let patience = ms(100);
    for round in 0..20u32 {
        let slot = client.slot(round);
        let begun = slot.begin(&within(&client, patience))?;
        wait_until("a trigger", || Ok(is_triggered(&slot, begun.number)))?;
        slot.ready_call(begun.number).ok();
        slot.done_call(begun.number).ok();
    }
    child.kill()?;
    child.end()?;
    drop(client);
    wait_until("nothing is in flight", || {
        Ok(lab
            .zernel
            .request_stats(libzernel::request::Of::All)?
            .in_flight
            == 0)
    })
    .context("after the tenant was killed")
}
