// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests as they should be: begun, triggered, ready, run, done; and what is counted of them.

use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::request::{Begin, Durations, Number, Of, Word};
use libzernel::sim::Status;
use libzernel::{Level, Target, Timestamp};
use testkit::random::Random;
use testkit::Repeat;

use super::{at_once, far, lab, new_key, Since};
use crate::check_eq;
use crate::common::{level, switch_ns};
use crate::harness::Outcome;

/// Requests of a case.
const REQUESTS: u64 = 400;

/// Serves requests one after the other and looks at all that is counted. By stores there is one
/// system call for each.
pub(super) fn serve(by_stores: bool) -> Outcome {
    let (lab, client) = lab()?;
    let slot = client.slot(3);
    let all = Since::now(&lab.zernel)?;
    let begin = Begin::new(client.tsg).key(new_key());
    let mut random = Random::new(7);
    // The bounds of the latencies, in nanoseconds.
    let (mut least, mut most, mut last) = (Vec::new(), Vec::new(), None);
    let mut repeat = Repeat::new(REQUESTS, "requests");
    for _ in &mut repeat {
        let before = Timestamp::now();
        let request = slot.begin(&begin)?.number;
        let after = Timestamp::now();
        if let Some(last) = last.replace(request) {
            check_eq!(request, Number::next(last), "numbers count");
        }
        let seq = client.submit(&slot, request, Duration::from_micros(20))?;
        std::thread::sleep(Duration::from_micros(random.below(1_500)));
        match by_stores {
            true => slot.ready(request),
            false => slot.ready_call(request)?,
        }
        client.wait(seq)?;
        for word in [Word::Held, Word::Trigger, Word::Release] {
            check_eq!(slot.load(word), request.get(), "{word:?}");
        }
        let done = Timestamp::now();
        match by_stores {
            true => slot.done(request),
            false => slot.done_call(request)?,
        }
        most.push(Timestamp::now().as_ns() - before.as_ns());
        least.push(done.as_ns() - after.as_ns());
    }
    // The next one says that the last is over.
    let next = slot.begin(&far(client.tsg))?.number;
    slot.cancel(next)?;

    let done = repeat.done();
    all.expect(ends!(done: done, cancelled: 1))?;
    let of = Of::Tsg(client.tsg);
    let stats = lab.zernel.request_stats(of)?;
    check_eq!((stats.begun, stats.done), (done + 1, done), "of the TSG");
    check_eq!((stats.cancelled, stats.violations), (1, 0), "{stats:?}");
    ensure!(stats.triggers <= done + 1, "{} triggers", stats.triggers);
    ensure!(stats.early + stats.late <= done + 1, "{stats:?}");
    let switch = switch_ns(&lab.zernel, client.tsg)?;
    ensure!(switch > 0, "nothing is known of switches");
    let histogram = lab.zernel.histogram(of, Durations::Latency)?;
    check_eq!(histogram.count(), done, "histogram");

    let sums = (least.iter().sum(), most.iter().sum());
    // Each order statistic lies between those of the bounds.
    least.sort_unstable();
    most.sort_unstable();
    let rank = |at: usize| (least[at], most[at]);
    // To within 3 %, or half a bucket of the shortest.
    let quantile = |permille: usize| {
        let (least, most) = rank((least.len() * permille).div_ceil(1_000) - 1);
        ((least * 97 / 100).saturating_sub(32), most * 103 / 100 + 32)
    };
    for (what, (least, most), told) in [
        ("sum", sums, stats.latency_ns),
        ("shortest", rank(0), stats.latency_min_ns),
        ("longest", rank(least.len() - 1), stats.latency_max_ns),
        ("median", quantile(500), stats.latency_p50_ns),
        ("99 %", quantile(990), stats.latency_p99_ns),
        ("99.9 %", quantile(999), stats.latency_p999_ns),
    ] {
        let right = (least..=most).contains(&told);
        ensure!(right, "{what}: {told} ns, should be {least} to {most} ns");
    }

    // Early or late, every holder ended because of its word.
    let (completions, dropped) = lab.sim.completions(2 * REQUESTS as usize + 1)?;
    check_eq!((completions.len() as u64, dropped), (2 * done, 0));
    let all_done = completions.iter().all(|c| c.status == Status::Done);
    ensure!(all_done, "holders gave up");
    Ok(())
}

/// A trigger long before ready is early by no more than that; one that comes with ready is late. One
/// that took longer than it was to is a violation; one that was not done in the end is none.
pub(super) fn early_late_and_slow() -> Outcome {
    let (lab, client) = lab()?;
    let slot = client.slot(2);
    for late in [false, true] {
        let since = Since::of(&lab.zernel, Of::Tsg(client.tsg))?;
        let (begin, slo) = match late {
            true => (far(client.tsg), Duration::MAX),
            false => (at_once(client.tsg), Duration::from_millis(1)),
        };
        let begun = slot.begin(&begin.slo(slo))?;
        if !late {
            // Much longer than any switch takes.
            std::thread::sleep(Duration::from_millis(100));
        }
        let ready = Timestamp::now();
        slot.ready_at(begun.number, ready);
        slot.done_call(begun.number)?;
        let given_up = far(client.tsg).slo(Duration::from_nanos(1));
        let given_up = slot.begin(&given_up)?.number;
        slot.cancel(given_up)?;
        let stats = since.stats()?;
        let counts = (stats.early, stats.late, stats.violations);
        let (on_early, on_late) = (u64::from(!late), u64::from(late));
        check_eq!(counts, (on_early, on_late, on_early), "{stats:?}");
        let is_long = (stats.early_ns > 0, stats.late_ns > 0);
        check_eq!(is_long, (!late, late), "{stats:?}");
        let idle = ready.since(begun.trigger_at);
        let early = Duration::from_nanos(stats.early_ns);
        ensure!(early <= idle, "{stats:?}, {idle:?}");
    }
    Ok(())
}

/// A request counts under the level in force when it began; without a class, under none.
pub(super) fn levels() -> Outcome {
    let (lab, client) = lab()?;
    let (slot, target) = (client.slot(0), Target::Tsg(client.tsg));
    let levels = Level::all().map(|level| Since::of(&lab.zernel, Of::Level(level)));
    let levels = levels.collect::<Result<Vec<_>>>()?;
    let all = Since::now(&lab.zernel)?;
    let of_tsg = Since::of(&lab.zernel, Of::Tsg(client.tsg))?;
    let mut done = [0; 8];
    lab.zernel.set_class(&target, Level::LC)?;
    // The class of each request, and the next one's, which is set before its end.
    for (count, classes) in (1..).zip([Some(0), Some(7), None, Some(0)].windows(2)) {
        let request = slot.begin(&far(client.tsg))?.number;
        match classes[1] {
            Some(number) => lab.zernel.set_class(&target, level(number))?,
            None => lab.zernel.clear_class(&target)?,
        }
        for in_flight in [1, 0] {
            if in_flight == 0 {
                slot.done_call(request)?;
            }
            for (number, level) in (0..).zip(&levels) {
                let is_its = classes[0] == Some(number);
                let done = &mut done[usize::from(number)];
                *done += u64::from(is_its && in_flight == 0);
                let in_flight = if is_its { in_flight } else { 0 };
                level.expect(ends!(done: *done, in_flight: in_flight))?;
            }
            all.expect(ends!(done: count - in_flight, in_flight: in_flight))?;
        }
        of_tsg.expect(ends!(done: count))?;
    }
    Ok(())
}
