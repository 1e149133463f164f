// SPDX-License-Identifier: GPL-2.0
//! Requests as they should be: begun, triggered, ready, run, done; and what is counted of them.

use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::request::{Begin, Durations, Histogram, Number, Of, RequestStats, Slot, Word};
use libzernel::sim::Status;
use libzernel::Timestamp;
use testkit::random::Random;
use testkit::Repeat;

use super::{far, longest_lease, new_key, Client, Ends, Since};
use crate::check_eq;
use crate::common::{switch_ns, Lab};
use crate::harness::Outcome;

/// Requests of a case.
const REQUESTS: u64 = 400;

/// The bounds of a latency that a test knows, in nanoseconds.
#[derive(Clone, Copy)]
struct Latency {
    least: u64,
    most: u64,
}

/// A call's begin and end, between which something happened.
#[derive(Clone, Copy)]
struct During {
    from: Timestamp,
    to: Timestamp,
}

impl During {
    fn call<T>(call: impl FnOnce() -> Result<T>) -> Result<(Self, T)> {
        let from = Timestamp::now();
        let value = call()?;
        let to = Timestamp::now();
        Ok((Self { from, to }, value))
    }

    /// The time from something in `begin` to something in this.
    fn since(self, begin: Self) -> Latency {
        let ns = |later: Timestamp, earlier: Timestamp| later.as_ns() - earlier.as_ns();
        Latency {
            least: ns(self.from, begin.to),
            most: ns(self.to, begin.from),
        }
    }
}

/// The value of a rank, from 1, as the test knows it.
fn ranked(latencies: &[Latency], rank: usize) -> Latency {
    let sorted = |of: fn(&Latency) -> u64| {
        let mut all: Vec<_> = latencies.iter().map(of).collect();
        all.sort_unstable();
        all[rank - 1]
    };
    // Each order statistic lies between those of the bounds.
    Latency {
        least: sorted(|latency| latency.least),
        most: sorted(|latency| latency.most),
    }
}

/// Fails unless a quantile is right to within 3 %, or half a bucket of the shortest.
fn quantile_is_right(latencies: &[Latency], permille: usize, told: u64) -> Outcome {
    let rank = (latencies.len() * permille).div_ceil(1_000).max(1);
    let truth = ranked(latencies, rank);
    let (least, most) = (truth.least * 97 / 100, truth.most * 103 / 100);
    ensure!(
        (least.saturating_sub(32)..=most + 32).contains(&told),
        "quantile of {permille} per mille: {told} ns, should be {} to {} ns",
        truth.least,
        truth.most,
    );
    Ok(())
}

/// Fails unless everything that is told of latencies is right.
fn latencies_are_right(
    latencies: &[Latency],
    stats: &RequestStats,
    histogram: &Histogram,
) -> Outcome {
    check_eq!(histogram.count(), latencies.len() as u64, "histogram");
    check_eq!(stats.done, latencies.len() as u64, "done");
    let sum = Latency {
        least: latencies.iter().map(|latency| latency.least).sum(),
        most: latencies.iter().map(|latency| latency.most).sum(),
    };
    for (what, truth, told) in [
        ("sum", sum, stats.latency_ns),
        ("shortest", ranked(latencies, 1), stats.latency_min_ns),
        (
            "longest",
            ranked(latencies, latencies.len()),
            stats.latency_max_ns,
        ),
    ] {
        let right = (truth.least..=truth.most).contains(&told);
        ensure!(
            right,
            "{what}: {told} ns, should be {} to {} ns",
            truth.least,
            truth.most
        );
    }
    for (permille, told) in [
        (500, stats.latency_p50_ns),
        (990, stats.latency_p99_ns),
        (999, stats.latency_p999_ns),
    ] {
        quantile_is_right(latencies, permille, told)?;
    }
    // Not one below the shortest or above the longest.
    for bucket in histogram.buckets().filter(|bucket| bucket.count > 0) {
        let (min, max) = (stats.latency_min_ns, stats.latency_max_ns);
        let (min, max) = (Duration::from_nanos(min), Duration::from_nanos(max));
        ensure!(min < bucket.to && bucket.from <= max, "{bucket:?}");
    }
    Ok(())
}

/// The way in which a request is said to be ready and done.
struct Manner {
    ready: fn(&Slot<'_>, Number) -> Result<()>,
    done: fn(&Slot<'_>, Number) -> Result<()>,
}

/// Serves requests one after the other and looks at all that is counted.
fn serve(manner: &Manner) -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let slot = client.slot(3);
    let all = Since::now(&lab.zernel)?;
    let begin = Begin::new(client.tsg).key(new_key());
    let mut random = Random::new(7);
    let (mut latencies, mut last) = (Vec::new(), None);
    let mut repeat = Repeat::new(REQUESTS, "requests");
    for _ in &mut repeat {
        let (began, begun) = During::call(|| Ok(slot.begin(&begin)?))?;
        if let Some(last) = last {
            check_eq!(begun.number, Number::next(last), "numbers count");
        }
        last = Some(begun.number);
        let seq = client.submit(&slot, begun.number, Duration::from_micros(20))?;
        std::thread::sleep(Duration::from_micros(random.below(1_500)));
        (manner.ready)(&slot, begun.number)?;
        client.wait(seq)?;
        let number = begun.number.get();
        check_eq!(slot.load(Word::Held), number, "its holder has run");
        check_eq!(slot.load(Word::Trigger), number, "trigger");
        check_eq!(slot.load(Word::Release), number, "release");
        let (ended, ()) = During::call(|| (manner.done)(&slot, begun.number))?;
        latencies.push(ended.since(began));
    }
    // The next one says that the last is over.
    let next = slot.begin(&far(client.tsg))?.number;
    slot.cancel(next)?;

    let done = repeat.done();
    let ends = Ends {
        done,
        cancelled: 1,
        ..Ends::NONE
    };
    all.expect(ends)?;
    let of = Of::Tsg(client.tsg);
    let stats = lab.zernel.request_stats(of)?;
    let histogram = lab.zernel.histogram(of, Durations::Latency)?;
    check_eq!(stats.begun, done + 1, "requests of the TSG");
    check_eq!((stats.done, stats.cancelled), (done, 1));
    check_eq!(stats.violations, 0, "slow ones");
    ensure!(stats.triggers <= done + 1, "{} triggers", stats.triggers);
    ensure!(stats.early + stats.late <= done + 1, "{stats:?}");
    let switch = switch_ns(&lab.zernel, client.tsg)?;
    ensure!(switch > 0, "nothing is known of switches");
    latencies_are_right(&latencies, &stats, &histogram)?;

    // Whatever was early or late, every holder ended because of its word.
    let (completions, dropped) = lab.sim.completions(2 * REQUESTS as usize + 1)?;
    check_eq!((completions.len() as u64, dropped), (2 * done, 0));
    let expired = completions.iter().filter(|c| c.status != Status::Done);
    check_eq!(expired.count(), 0, "holders that gave up");
    Ok(())
}

/// One system call per request: the rest is stores.
pub(super) fn steady_state() -> Outcome {
    serve(&Manner {
        ready: |slot, request| {
            slot.ready(request);
            Ok(())
        },
        done: |slot, request| {
            slot.done(request);
            Ok(())
        },
    })
}

pub(super) fn steady_state_by_calls() -> Outcome {
    serve(&Manner {
        ready: |slot, request| Ok(slot.ready_call(request)?),
        done: |slot, request| Ok(slot.done_call(request)?),
    })
}
