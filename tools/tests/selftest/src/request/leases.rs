// SPDX-License-Identifier: MIT OR Apache-2.0
//! Leases: a request that is not ready in time gives the GPU back.

use std::time::Duration;

use anyhow::ensure;
use libzernel::request::Word;
use libzernel::sim::{Item, Status};
use libzernel::{Level, Target, Timestamp};

use super::{at_once, lab, longest_lease, words, Since};
use crate::check_eq;
use crate::common::{slice_of, tune, wait_until};
use crate::harness::Outcome;

/// The holder of a request that never gets ready keeps the GPU from the others until the lease is
/// over, and no longer.
pub(super) fn gives_the_gpu_back() -> Outcome {
    let (lab, client) = lab()?;
    let lease = Duration::from_millis(200);
    tune("lease_us", lease.as_micros())?;
    // Work without end, in turns of a slice.
    let (best_effort, tsg) = lab.compute()?;
    lab.zernel.set_class(&Target::Tsg(tsg.id), Level::BE)?;
    best_effort.submit(0, &[Item::work(Duration::from_secs(60)); 20])?;
    lab.zernel.set_class(&Target::Tsg(client.tsg), Level::LC)?;
    lab.wait_slice(&client.context, slice_of(0))?;
    let since = Since::now(&lab.zernel)?;
    for count in 1..=3 {
        let slot = client.slot(count);
        let begun = slot.begin(&at_once(client.tsg))?;
        let seq = client.submit(&slot, begun.number, Duration::from_micros(30))?;
        since.wait(ends!(expired: count.into()))?;
        let over = Timestamp::now();
        ensure!(over >= begun.trigger_at + lease, "a shorter lease");
        check_eq!(words(&slot), (begun.number.get(), begun.number.get()));
        // The stream goes on, and so does what was kept waiting.
        client.wait(seq)?;
        let before = best_effort.stats()?.busy_ns;
        wait_until("others have the GPU again", || {
            Ok(best_effort.stats()?.busy_ns > before + 1_000_000)
        })?;
    }
    let (completions, _) = lab.sim.completions(64)?;
    check_eq!(completions.len(), 6, "holders and kernels");
    let all_done = completions.iter().all(|c| c.status == Status::Done);
    ensure!(all_done, "holders gave up by themselves");
    let stats = since.stats()?;
    check_eq!((stats.triggers, stats.done), (3, 0), "{stats:?}");
    Ok(())
}

/// A request that is ready in time has no lease any more.
pub(super) fn ends_at_ready() -> Outcome {
    let (lab, client) = lab()?;
    // Longer than a slow machine takes for both.
    let lease = Duration::from_secs(3);
    tune("lease_us", lease.as_micros())?;
    let since = Since::now(&lab.zernel)?;
    let (stored, called) = (client.slot(0), client.slot(1));
    let numbers = [
        stored.begin(&at_once(client.tsg))?.number,
        called.begin(&at_once(client.tsg))?.number,
    ];
    stored.ready(numbers[0]);
    called.ready_call(numbers[1])?;
    std::thread::sleep(lease + Duration::from_millis(100));
    since.expect(ends!(in_flight: 2))?;
    stored.done_call(numbers[0])?;
    called.done_call(numbers[1])?;
    since.expect(ends!(done: 2))
}

/// A lease is as long as the tunable says when it begins.
pub(super) fn is_tunable() -> Outcome {
    let (lab, client) = lab()?;
    for (slot, us) in client.slots.slots().zip([100, 20_000, 300_000]) {
        tune("lease_us", us)?;
        let since = Since::now(&lab.zernel)?;
        let begun = slot.begin(&at_once(client.tsg))?;
        // Changes nothing for the one that has begun.
        longest_lease()?;
        since.wait(ends!(expired: 1))?;
        let took = Timestamp::now().since(begun.trigger_at);
        ensure!(took >= Duration::from_micros(us), "{us} us took {took:?}");
    }
    // One that is far from over when the next begins.
    let since = Since::now(&lab.zernel)?;
    let slot = client.slot(9);
    let first = slot.begin(&at_once(client.tsg))?.number;
    tune("lease_us", 100)?;
    slot.begin(&at_once(client.tsg))?;
    since.wait(ends!(cancelled: 1, expired: 1))?;
    check_eq!(slot.load(Word::Release), first.next().get(), "the second");
    Ok(())
}
