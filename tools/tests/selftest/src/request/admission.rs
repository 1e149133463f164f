// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deadlines that are promised at begin: those that are kept, those that are refused, and tenants that lie.

use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{bail, ensure, Context as _, Result};
use bytemuck::{bytes_of, Zeroable};
use libzernel::request::{Begin, Begun, Number, Of, Slot, Slots, Word};
use libzernel::sys::abi;
use libzernel::{Error, Level, Target, Timestamp, Zernel};
use rustix::io::Errno;
use testkit::passing;

use super::{at_once, lab, new_key, words, Client, Since};
use crate::abi::call;
use crate::check_eq;
use crate::child::Child;
use crate::common::{errno, level, tune, wait_until, Lab, SOON};
use crate::harness::Outcome;
use crate::permit::{ALICE, BOB, NICE};
use crate::sys::{self, Area};

/// Both devices and a client of a level, with the earliest deadline first.
fn stage(level: Level) -> Result<(Lab, Client)> {
    let (lab, client) = lab()?;
    lab.zernel.set_class(&Target::Tsg(client.tsg), level)?;
    tune("order", "edf")?;
    Ok((lab, client))
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A request that needs the GPU for so long, of a key without history.
fn needing(client: &Client, burst: Duration, slo: Duration) -> Begin {
    at_once(client.tsg).slo(slo).admit(burst)
}

/// The earliest deadline that a refusal tells.
fn refused(result: libzernel::Result<Begun>) -> Result<Option<Duration>> {
    match result {
        Err(Error::Late { earliest }) => Ok(earliest),
        other => bail!("not refused: {other:?}"),
    }
}

/// A promised request is there; one that does not fit is refused, changes nothing, and learns which
/// deadline would do.
pub(super) fn keeps_what_it_promises() -> Outcome {
    let (lab, client) = stage(Level::LC)?;
    ensure!(lab.zernel.info()?.can.admit, "no admission");
    let since = Since::now(&lab.zernel)?;
    let head = client.slot(0);
    let first = head.begin(&needing(&client, ms(3_000), ms(9_000)))?.number;
    check_eq!(head.load(Word::Trigger), first.get());
    let slot = client.slot(1);
    let before = words(&slot);
    let earliest = refused(slot.begin(&needing(&client, ms(1_000), ms(2_000))))?;
    let earliest = earliest.context("no deadline would do")?;
    ensure!(earliest > ms(2_000) && earliest < ms(4_500), "{earliest:?}");
    check_eq!(words(&slot), before, "the slot of the refused");
    check_eq!(since.ends()?.in_flight, 1, "the refused has begun");
    let second = slot.begin(&needing(&client, ms(1_000), earliest))?.number;
    // That one is there now.
    let third = client.slot(2);
    let again = refused(third.begin(&needing(&client, ms(1_000), earliest)))?;
    ensure!(again.is_some_and(|again| again > earliest), "{again:?}");
    // Its own next one takes its place.
    let instead = slot.begin(&needing(&client, ms(1_000), earliest))?.number;
    ensure!(instead != second, "the same request");
    // A place of its own is given back by each end.
    head.done_call(first)?;
    slot.cancel(instead)?;
    let last = third.begin(&needing(&client, ms(1_900), ms(2_000)))?.number;
    third.done_call(last)?;
    since.expect(ends!(done: 2, cancelled: 2))?;
    let stats = since.stats()?;
    let promises = (stats.accepted, stats.refused, stats.missed);
    check_eq!(promises, (4, 2, 0), "promises");
    let of_tsg = lab.zernel.request_stats(Of::Tsg(client.tsg))?;
    let promises = (of_tsg.accepted, of_tsg.refused, of_tsg.missed);
    check_eq!(promises, (4, 2, 0), "promises of the TSG");
    let of_level = lab.zernel.request_stats(Of::Level(Level::LC))?;
    ensure!(
        of_level.accepted >= 4 && of_level.refused >= 2,
        "{of_level:?}"
    );
    Ok(())
}

/// A request that is over later than promised is counted, once.
pub(super) fn counts_what_it_missed() -> Outcome {
    let (lab, client) = stage(Level::LC)?;
    let since = Since::now(&lab.zernel)?;
    let slot = client.slot(0);
    // After the first its bursts are not taken as told.
    for (by_call, slo) in [(true, 200), (false, 900)] {
        let late = slot.begin(&needing(&client, ms(1), ms(slo)))?.number;
        std::thread::sleep(ms(slo + 50));
        match by_call {
            true => slot.done_call(late)?,
            // As the next one begins.
            false => {
                slot.ready(late);
                slot.done(late);
            }
        }
    }
    let open = slot.begin(&at_once(client.tsg).slo(ms(1)))?.number;
    std::thread::sleep(ms(5));
    slot.done_call(open)?;
    let given_up = slot.begin(&needing(&client, ms(1), ms(9_000)))?.number;
    slot.cancel(given_up)?;
    let stats = since.stats()?;
    check_eq!((stats.accepted, stats.missed), (3, 2), "{stats:?}");
    Ok(())
}

/// Each way to ask in vain has its errno, and nothing has begun.
pub(super) fn refuses_with_a_cause() -> Outcome {
    let (lab, client) = stage(Level::LC)?;
    let since = Since::now(&lab.zernel)?;
    let slot = client.slot(0);
    let good = needing(&client, ms(1), ms(5_000));
    let fails = |begin: &Begin, expected: Errno, why: &str| -> Outcome {
        check_eq!(errno(slot.begin(begin)), Some(expected), "{why}");
        check_eq!(since.ends()?, ends!(), "{why}: begun");
        Ok(())
    };
    fails(&good.slo(Duration::ZERO), Errno::RANGE, "no deadline")?;
    fails(&good.admit(Duration::ZERO), Errno::NODATA, "no burst")?;
    fails(&good.admit(ms(5_001)), Errno::BUSY, "a long burst")?;
    for order in ["fifo", "edf-preemptive"] {
        tune("order", order)?;
        fails(&good, Errno::NOLCK, order)?;
    }
    tune("order", "edf")?;
    let target = Target::Tsg(client.tsg);
    lab.zernel.set_class(&target, Level::BE)?;
    fails(&good, Errno::DOM, "best-effort")?;
    lab.zernel.clear_class(&target)?;
    fails(&good, Errno::DOM, "no class")?;
    lab.zernel.set_class(&target, Level::LC)?;
    let stats = since.stats()?;
    let promises = (stats.accepted, stats.refused, stats.missed);
    check_eq!(promises, (0, 1, 0), "promises");
    // With a history the burst need not be told.
    let key = new_key();
    let plain = Begin::new(client.tsg).key(key).slo(ms(5_000));
    let lesson = slot.begin(&plain)?.number;
    slot.done_call(lesson)?;
    let known = slot.begin(&plain.admit(Duration::ZERO))?.number;
    slot.done_call(known)?;
    Ok(())
}

/// The earliest deadline arrives in the structure of the call, and nothing else changes there.
pub(super) fn tells_in_its_structure() -> Outcome {
    let (_lab, client) = stage(Level::LC)?;
    let file = Zernel::open()?;
    let _slots = Slots::map(&file, 0..1)?;
    let mut area = Area::new()?;
    let options = abi::zernel_request_options {
        size: size_of::<abi::zernel_request_options>() as u32,
        flags: abi::ZERNEL_BEGIN_ADMIT,
        burst_ns: 3_000_000_000,
        earliest_ns: 7,
        ..Zeroable::zeroed()
    };
    let raw = abi::zernel_request_begin {
        tsg: client.tsg.as_u64(),
        key: new_key(),
        slo_ns: 2_000_000_000,
        options: area.address(0),
        ..Zeroable::zeroed()
    };
    area.put(0, bytes_of(&options));
    let fd = file.as_fd();
    let (result, answer) = call(fd, abi::LIBZERNEL_IOC_REQUEST_BEGIN, &raw);
    check_eq!(result.map(drop), Err(Errno::BUSY), "refused");
    check_eq!(bytes_of(&answer), bytes_of(&raw), "the call");
    let told: abi::zernel_request_options =
        bytemuck::pod_read_unaligned(&area.get(0, size_of::<abi::zernel_request_options>()));
    ensure!(told.earliest_ns >= 3_000_000_000, "{}", told.earliest_ns);
    let back = abi::zernel_request_options {
        earliest_ns: 7,
        ..told
    };
    check_eq!(bytes_of(&back), bytes_of(&options), "the input");
    // One that is let through tells nothing there.
    let longer = abi::zernel_request_begin {
        slo_ns: told.earliest_ns,
        ..raw
    };
    area.put(0, bytes_of(&options));
    let (result, _) = call(fd, abi::LIBZERNEL_IOC_REQUEST_BEGIN, &longer);
    check_eq!(result.map(drop), Ok(()), "accepted");
    let kept = area.get(0, size_of::<abi::zernel_request_options>());
    check_eq!(kept.to_vec(), bytes_of(&options).to_vec(), "the structure");
    Ok(())
}

/// A child of a user, which asks with a client of its own, tells that it has, and waits to be killed.
fn tenant(user: u32, ask: impl FnOnce(&Client) -> Outcome) -> Result<Child> {
    let (ours, theirs) = passing::pair()?;
    let child = Child::spawn(|| {
        // It may give itself a level that has an order.
        sys::become_user_with(user, user, NICE)?;
        let lab = Lab::open()?;
        let client = Client::new(&lab)?;
        lab.zernel.set_class(&Target::Tsg(client.tsg), level(6))?;
        ask(&client)?;
        passing::send_number(&theirs, 0)?;
        std::thread::sleep(super::FAR);
        Ok(())
    })?;
    // So that its end is told where it fails.
    drop(theirs);
    if passing::receive_number(&ours).is_err() {
        child.join_within(SOON).context("a tenant")?;
        bail!("a tenant ended");
    }
    Ok(child)
}

fn end(child: Child) -> Outcome {
    child.kill()?;
    child.end()?;
    Ok(())
}

/// A user has as many places as it leaves free, so that some together leave one for the next; half of all are
/// for levels above. All come back when they are killed.
pub(super) fn has_places() -> Outcome {
    let (lab, client) = stage(level(6))?;
    let mut tenants = Vec::new();
    let most = [16, 8, 4, 2, 1, 1];
    for (user, most) in (ALICE..).zip(most) {
        tenants.push(tenant(user, |client| {
            for number in 0..most {
                client
                    .slot(number)
                    .begin(&at_once(client.tsg).slo(ms(9_900)))?;
            }
            let more = needing(client, Duration::from_micros(1), ms(9_900));
            let result = client.slot(most).begin(&more);
            let expected = match user == ALICE + 5 {
                true => Errno::NOSPC,
                false => Errno::DQUOT,
            };
            check_eq!(errno(result), Some(expected), "more than {most} places");
            Ok(())
        })?);
    }
    let slot = client.slot(0);
    // No lie, as one that was told short is believed less from its end on.
    let begin = needing(&client, ms(4_000), ms(9_900));
    check_eq!(errno(slot.begin(&begin)), Some(Errno::NOSPC), "33 places");
    let target = Target::Tsg(client.tsg);
    lab.zernel.set_class(&target, Level::LC)?;
    let above = slot.begin(&begin)?.number;
    slot.cancel(above)?;
    lab.zernel.set_class(&target, level(6))?;
    tenants.into_iter().try_for_each(end)?;
    wait_until("there is a place", || Ok(slot.begin(&begin).is_ok()))?;
    drop(client);
    wait_until("nothing is in flight", || {
        Ok(lab.zernel.request_stats(Of::All)?.in_flight == 0)
    })
}

/// Without a history a request is due as its process expects. The time before is free for others, also for
/// those with later deadlines.
pub(super) fn counts_preparations() -> Outcome {
    let (_lab, client) = stage(Level::LC)?;
    let slot = client.slot(0);
    let begin = needing(&client, ms(10), ms(2_000)).expected(ms(3_000));
    let earliest = refused(slot.begin(&begin))?.context("no deadline would do")?;
    ensure!(earliest > ms(3_000) && earliest < ms(5_000), "{earliest:?}");
    let began = Timestamp::now();
    let begun = slot.begin(&begin.slo(earliest))?;
    let lead = begun.trigger_at.since(began);
    ensure!(lead > ms(2_000) && lead < ms(5_000), "{lead:?}");
    let other = client.slot(1);
    for slo in [2_000, 9_000] {
        let before = other.begin(&needing(&client, ms(1_000), ms(slo)))?;
        other.done_call(before.number)?;
    }
    slot.cancel(begun.number)?;
    Ok(())
}

/// A promise to a TSG is missed by that one, also where its slot is another TSG's next.
pub(super) fn counts_in_its_tsg() -> Outcome {
    let (lab, client) = stage(Level::LC)?;
    let other = Client::new(&lab)?;
    lab.zernel.set_class(&Target::Tsg(other.tsg), Level::LC)?;
    let slot = client.slot(0);
    slot.begin(&needing(&client, ms(250), ms(400)))?;
    std::thread::sleep(ms(410));
    let next = slot.begin(&at_once(other.tsg))?.number;
    slot.cancel(next)?;
    for (tsg, missed) in [(client.tsg, 1), (other.tsg, 0)] {
        let stats = lab.zernel.request_stats(Of::Tsg(tsg))?;
        check_eq!(stats.missed, missed, "{stats:?}");
    }
    Ok(())
}

/// A class that changes all the time has no request begin among those of another level, and none is lost.
pub(super) fn moves_with_its_class() -> Outcome {
    let (lab, client) = stage(Level::LC)?;
    let since = Since::now(&lab.zernel)?;
    let slot = client.slot(0);
    let is_over = AtomicBool::new(false);
    let mut accepted = 0;
    let target = Target::Tsg(client.tsg);
    std::thread::scope(|scope| -> Outcome {
        let mover = scope.spawn(|| -> Outcome {
            while !is_over.load(Relaxed) {
                lab.zernel.set_class(&target, level(1))?;
                lab.zernel.set_class(&target, Level::LC)?;
            }
            Ok(())
        });
        let all = (0..500).try_for_each(|_| -> Outcome {
            match slot.begin(&needing(&client, ms(10), ms(9_000))) {
                Ok(begun) => {
                    accepted += 1;
                    slot.done_call(begun.number)?;
                }
                other => {
                    check_eq!(errno(other), Some(Errno::AGAIN), "moved");
                }
            }
            Ok(())
        });
        is_over.store(true, Relaxed);
        mover.join().map_err(|_| anyhow::anyhow!("a panic"))??;
        all
    })?;
    let stats = since.stats()?;
    check_eq!((stats.accepted, stats.missed), (accepted, 0), "{stats:?}");
    since.expect(ends!(done: accepted))
}

/// A tenant that gives up its requests when they have taken long is believed once.
pub(super) fn sees_through_lies_given_up() -> Outcome {
    let (_lab, _client) = stage(level(6))?;
    let liar = tenant(ALICE + 100, |client| {
        let slot = client.slot(0);
        let lie = slot.begin(&needing(client, ms(1), ms(5_000)))?.number;
        wait_until("its turn", || Ok(is_triggered(&slot, lie)))?;
        std::thread::sleep(ms(400));
        slot.cancel(lie)?;
        let earliest = refused(slot.begin(&needing(client, ms(1), ms(200))))?;
        ensure!(earliest.is_some_and(|e| e >= ms(390)), "{earliest:?}");
        Ok(())
    })?;
    end(liar)
}

/// Promises end with the process that has them.
pub(super) fn comes_back() -> Outcome {
    for is_killed in [true, false] {
        let (_lab, client) = stage(level(6))?;
        // Half of the time, as another user has asked.
        let (begin, slot) = (needing(&client, ms(2_900), ms(6_000)), client.slot(0));
        let ask = |client: &Client| -> Outcome {
            client
                .slot(0)
                .begin(&needing(client, ms(4_000), ms(9_000)))?;
            Ok(())
        };
        match is_killed {
            true => {
                let child = tenant(ALICE, ask)?;
                refused(slot.begin(&begin))?;
                end(child)?;
            }
            false => {
                let other = Client::new(&Lab::open()?)?;
                let lab = Lab::open()?;
                lab.zernel.set_class(&Target::Tsg(other.tsg), level(6))?;
                ask(&other)?;
                refused(slot.begin(&begin))?;
                drop(other);
            }
        }
        wait_until("there is room", || Ok(slot.begin(&begin).is_ok()))?;
    }
    Ok(())
}

/// A tenant that tells long bursts short is waited for no longer than told, and believed once.
pub(super) fn sees_through_short_lies() -> Outcome {
    let (lab, client) = stage(level(6))?;
    let liar = tenant(ALICE, |client| {
        let slot = client.slot(0);
        let lie = slot.begin(&needing(client, ms(1), ms(5_000)))?.number;
        std::thread::sleep(ms(400));
        slot.done_call(lie)?;
        // Of another key, in another file.
        let other = Client::new(&Lab::open()?)?;
        let lab = Lab::open()?;
        lab.zernel.set_class(&Target::Tsg(other.tsg), level(6))?;
        let earliest = refused(other.slot(0).begin(&needing(&other, ms(1), ms(200))))?;
        ensure!(earliest.is_some_and(|e| e >= ms(390)), "{earliest:?}");
        // The second lie: it has the GPU, and never says that it is done.
        other.slot(0).begin(&needing(&other, ms(2), ms(9_900)))?;
        std::mem::forget(other);
        Ok(())
    })?;
    let began = Timestamp::now();
    let slot = client.slot(0);
    // One that takes longer than told would be believed less from now on.
    let begun = slot.begin(&needing(&client, ms(1_000), ms(8_000)))?;
    wait_until("its turn", || Ok(is_triggered(&slot, begun.number)))?;
    // Its deadline, and the lease of the other, are far away.
    let took = Timestamp::now().since(began);
    ensure!(took < ms(8_000), "{took:?}");
    slot.done_call(begun.number)?;
    end(liar)?;
    drop(lab);
    Ok(())
}

/// The requests of a tenant wait for one of its own that takes longer than told, and count for longer then.
pub(super) fn has_liars_wait() -> Outcome {
    let (_lab, _client) = stage(level(6))?;
    let liar = tenant(ALICE + 101, |client| {
        let (head, slot) = (client.slot(0), client.slot(1));
        let lie = head.begin(&needing(client, ms(1), ms(9_000)))?.number;
        wait_until("its turn", || Ok(is_triggered(&head, lie)))?;
        let next = slot.begin(&needing(client, ms(1), ms(9_900)))?.number;
        std::thread::sleep(ms(200));
        ensure!(!is_triggered(&slot, next), "two lies at a time");
        head.done_call(lie)?;
        wait_until("its turn", || Ok(is_triggered(&slot, next)))?;
        let third = client.slot(2);
        let earliest = refused(third.begin(&needing(client, ms(1), ms(150))))?;
        ensure!(earliest.is_some_and(|e| e >= ms(190)), "{earliest:?}");
        slot.done_call(next)?;
        Ok(())
    })?;
    end(liar)
}

fn is_triggered(slot: &Slot<'_>, request: Number) -> bool {
    request.is_reached_by(slot.load(Word::Trigger))
}

/// A tenant that tells short bursts long, or asks for nothing and holds many places, has others refused by
/// half of the time at most.
pub(super) fn leaves_half_to_others() -> Outcome {
    let (_lab, client) = stage(level(6))?;
    let slot = client.slot(0);
    // Another user asks, too.
    let asked = slot.begin(&needing(&client, ms(1_000), ms(9_900)))?.number;
    slot.cancel(asked)?;
    // Alice is not believed any more.
    let long = tenant(BOB, |client| {
        let mut accepted = 0;
        for number in 0..20 {
            let begin = needing(client, ms(1_000), ms(9_900));
            match client.slot(number).begin(&begin) {
                Ok(_) => accepted += 1,
                other => drop(refused(other)?),
            }
        }
        // Four, beside the one that has the GPU.
        ensure!((1..=5).contains(&accepted), "{accepted} of 1 s in 9.9 s");
        Ok(())
    })?;
    let own = needing(&client, ms(2_500), ms(9_900));
    let begun = client.slot(1).begin(&own)?;
    client.slot(1).cancel(begun.number)?;
    end(long)?;
    // Requests with the earliest deadlines, of a key with a long history.
    let silent = tenant(ALICE, |client| {
        let key = new_key();
        let begin = Begin::new(client.tsg).key(key);
        let lesson = client.slot(0).begin(&begin)?.number;
        std::thread::sleep(ms(600));
        client.slot(0).done_call(lesson)?;
        for number in 0..20 {
            client.slot(number).begin(&begin.slo(ms(3_000)))?;
        }
        Ok(())
    })?;
    let begun = client
        .slot(1)
        .begin(&needing(&client, ms(1_000), ms(9_900)))?;
    client.slot(1).cancel(begun.number)?;
    end(silent)
}
