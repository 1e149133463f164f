// SPDX-License-Identifier: GPL-2.0
//! Leases: a request that is not ready in time gives the GPU back.

use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::request::Word;
use libzernel::sim::{Item, Status};
use libzernel::{Level, Target, Timestamp};
use rustix::io::Errno;

use super::{at_once, in_so_long, longest_lease, Client, Ends, Since};
use crate::check_eq;
use crate::common::{errno, tune, wait_until, Lab};
use crate::harness::Outcome;

/// One that has expired.
const EXPIRED: Ends = Ends {
    expired: 1,
    ..Ends::NONE
};

/// Work without end, in turns of a slice.
fn work_on(lab: &Lab) -> Result<libzernel::sim::Context> {
    let (context, tsg) = lab.compute()?;
    lab.zernel.set_class(&Target::Tsg(tsg.id), Level::BE)?;
    context.submit(0, &[Item::work(Duration::from_secs(60)); 20])?;
    Ok(context)
}

/// The holder of a request that never gets ready keeps the GPU from the others until the lease is
/// over, and no longer.
pub(super) fn gives_the_gpu_back() -> Outcome {
    let lease = Duration::from_millis(200);
    tune("lease_us", lease.as_micros())?;
    let lab = Lab::open()?;
    let best_effort = work_on(&lab)?;
    let client = Client::new(&lab)?;
    lab.zernel.set_class(&Target::Tsg(client.tsg), Level::LC)?;
    lab.wait_slice(&client.context, crate::common::slice_of(0))?;
    let since = Since::now(&lab.zernel)?;
    for count in 1..=3 {
        let slot = client.slot(count);
        let begun = slot.begin(&at_once(client.tsg))?;
        let seq = client.submit(&slot, begun.number, Duration::from_micros(30))?;
        since.wait(Ends {
            expired: count.into(),
            ..Ends::NONE
        })?;
        let over = Timestamp::now();
        ensure!(over >= begun.trigger_at + lease, "a shorter lease");
        check_eq!(slot.load(Word::Release), begun.number.get(), "released");
        check_eq!(slot.load(Word::Trigger), begun.number.get());
        // The stream goes on, and so does what was kept waiting.
        client.wait(seq)?;
        let before = best_effort.stats()?.busy_ns;
        wait_until("others have the GPU again", || {
            Ok(best_effort.stats()?.busy_ns > before + 1_000_000)
        })?;
    }
    let (completions, _) = lab.sim.completions(64)?;
    check_eq!(completions.len(), 6, "holders and kernels");
    let bound = completions.iter().filter(|c| c.status != Status::Done);
    check_eq!(bound.count(), 0, "holders that gave up by themselves");
    let stats = since.stats()?;
    check_eq!((stats.triggers, stats.done), (3, 0), "{stats:?}");
    Ok(())
}

/// Whoever is ready in time has no lease any more.
pub(super) fn ends_at_ready() -> Outcome {
    let wait = Duration::from_millis(300);
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    for by_store in [true, false] {
        // The trigger comes when the data has long been ready, and the lease would end at once.
        let since = Since::now(&lab.zernel)?;
        tune("lease_us", 100)?;
        let slot = client.slot(u32::from(by_store));
        let begun = slot.begin(&in_so_long(client.tsg, wait))?;
        if begun.number.is_reached_by(slot.load(Word::Trigger)) {
            // On a machine so slow it was over before it could be ready.
            since.wait(EXPIRED)?;
            continue;
        }
        let answer = match by_store {
            true => {
                slot.ready(begun.number);
                None
            }
            false => errno(slot.ready_call(begun.number)),
        };
        std::thread::sleep(begun.trigger_at.since(Timestamp::now()) + wait);
        let ends = since.ends()?;
        if ends == EXPIRED {
            // The same: its time had come between the look and ready.
            let late = by_store || answer == Some(Errno::STALE);
            ensure!(late, "expired although it was ready");
            continue;
        }
        check_eq!(answer, None, "ready");
        check_eq!(ends.in_flight, 1, "by store: {by_store}");
        slot.done_call(begun.number)?;
        since.expect(Ends {
            done: 1,
            ..Ends::NONE
        })?;
    }
    Ok(())
}

/// A lease is as long as the tunable says when it begins.
pub(super) fn is_tunable() -> Outcome {
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    for (slot, us) in client.slots.slots().zip([100, 1_000, 20_000, 300_000]) {
        tune("lease_us", us)?;
        let since = Since::now(&lab.zernel)?;
        let begun = slot.begin(&at_once(client.tsg))?;
        // Changes nothing for the one that has begun.
        longest_lease()?;
        since.wait(EXPIRED)?;
        let took = Timestamp::now().since(begun.trigger_at);
        ensure!(took >= Duration::from_micros(us), "{us} us took {took:?}");
    }
    // One that is far from over when the next begins.
    let since = Since::now(&lab.zernel)?;
    let slot = client.slot(9);
    let first = slot.begin(&at_once(client.tsg))?.number;
    tune("lease_us", 100)?;
    let second = slot.begin(&at_once(client.tsg))?.number;
    check_eq!(second, first.next(), "the next number");
    since.wait(Ends {
        cancelled: 1,
        expired: 1,
        ..Ends::NONE
    })
}

/// A holder whose word is taken back ends by itself; a lease is not all that there is.
pub(super) fn holder_has_its_own_bound() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let slot = client.slot(0);
    let since = Since::now(&lab.zernel)?;
    let begun = slot.begin(&at_once(client.tsg))?;
    let bound = Duration::from_millis(20);
    let work = Duration::from_micros(10);
    let seq = client.submit_held(&slot, begun.number, work, bound)?;
    client.wait(seq)?;
    let (completions, _) = lab.sim.completions(4)?;
    check_eq!(completions[0].status, Status::HoldExpired, "the holder");
    let held = completions[0].end.since(completions[0].start);
    check_eq!(held, bound, "how long it held");
    // The GPU is free; the request is still the process' to end.
    since.expect(Ends {
        in_flight: 1,
        ..Ends::NONE
    })?;
    slot.done_call(begun.number)?;
    since.expect(Ends {
        done: 1,
        ..Ends::NONE
    })
}
