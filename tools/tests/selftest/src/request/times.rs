// SPDX-License-Identifier: GPL-2.0
//! The treatment of times: those that a process claims, too early and too late, too slow.

use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::request::{Of, RequestStats};
use libzernel::Timestamp;

use super::{at_once, far, longest_lease, Client, Since};
use crate::check_eq;
use crate::common::Lab;
use crate::harness::Outcome;

/// Whatever a process claims, its times lie between begin and now.
pub(super) fn claims_have_bounds() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let slot = client.slot(0);
    let began = Timestamp::now();
    let ends = |at: u64| Timestamp::from_ns(at);
    let mut count = 0;
    for ready in [0, 1, u64::MAX, u64::MAX / 2, began.as_ns()] {
        for done in [0, 1, u64::MAX, u64::MAX / 2, began.as_ns()] {
            let request = slot.begin(&at_once(client.tsg))?.number;
            slot.ready_at(request, ends(ready));
            slot.done_at(request, ends(done));
            count += 1;
        }
    }
    let last = slot.begin(&far(client.tsg))?.number;
    slot.cancel(last)?;
    let most = Timestamp::now().since(began).as_nanos();
    let stats = lab.zernel.request_stats(Of::Tsg(client.tsg))?;
    check_eq!((stats.done, stats.cancelled), (count, 1));
    for (what, ns) in [
        ("longest", stats.latency_max_ns),
        ("sum", stats.latency_ns),
        ("early", stats.early_ns),
    ] {
        ensure!(u128::from(ns) <= most, "{what}: {ns} ns in {most} ns");
    }
    ensure!(stats.latency_min_ns <= stats.latency_max_ns, "{stats:?}");
    Ok(())
}

/// One request that is ready so long after its trigger, or at once; what has come of it.
fn one(lab: &Lab, client: &Client, late: bool, wait: Duration) -> Result<(RequestStats, Duration)> {
    let since = Since::of(&lab.zernel, Of::Tsg(client.tsg))?;
    let slot = client.slot(2);
    let begin = match late {
        true => far(client.tsg),
        false => at_once(client.tsg),
    };
    let begun = slot.begin(&begin)?;
    std::thread::sleep(wait);
    let ready = Timestamp::now();
    slot.ready_at(begun.number, ready);
    slot.done_call(begun.number)?;
    Ok((since.stats()?, ready.since(begun.trigger_at)))
}

pub(super) fn early_and_late() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    // The trigger was far too early: much longer than any switch takes.
    let (stats, idle) = one(&lab, &client, false, Duration::from_millis(100))?;
    check_eq!((stats.early, stats.late), (1, 0), "{stats:?}");
    ensure!(stats.early_ns > 0, "{stats:?}");
    ensure!(
        u128::from(stats.early_ns) <= idle.as_nanos(),
        "{stats:?}, {idle:?}"
    );
    check_eq!(stats.late_ns, 0);
    // The trigger came with ready: all of the switch is added.
    let (stats, _) = one(&lab, &client, true, Duration::ZERO)?;
    check_eq!((stats.early, stats.late), (0, 1), "{stats:?}");
    ensure!(stats.late_ns > 0, "{stats:?}");
    check_eq!(stats.early_ns, 0);
    Ok(())
}

/// Violations of what a request was to take.
pub(super) fn slow_requests() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let slot = client.slot(0);
    let since = Since::of(&lab.zernel, Of::Tsg(client.tsg))?;
    for (slo, violated) in [
        (Duration::ZERO, 0),
        (Duration::MAX, 0),
        (Duration::from_secs(3_600), 0),
        (Duration::from_nanos(1), 1),
        (Duration::from_millis(1), 2),
        (Duration::ZERO, 2),
    ] {
        let request = slot.begin(&at_once(client.tsg).slo(slo))?.number;
        std::thread::sleep(Duration::from_millis(2));
        slot.done_call(request)?;
        check_eq!(since.stats()?.violations, violated, "{slo:?}");
    }
    // One that was not done in the end was not too slow.
    let begin = at_once(client.tsg).slo(Duration::from_nanos(1));
    let request = slot.begin(&begin)?.number;
    slot.cancel(request)?;
    check_eq!(since.stats()?.violations, 2, "cancelled");
    Ok(())
}
