// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bound of deadlines: earliest deadline first with preemption that costs nothing, on a GPU without
//! other work. No order of the same requests has a smaller greatest lateness (Horn 1974).

use std::time::Duration;

use anyhow::Result;
use zernel_workload::{Role, Schedule, Workload};

use crate::deadlines::Deadlines;
use crate::world::nanos;

/// Where a client is.
#[derive(Clone, Copy)]
enum Stage {
    /// Its next request arrives then.
    Waits(u64),
    /// It prepares until then, for this deadline.
    Prepares(u64, u64),
    /// The GPU has so much to do for it.
    Ready { deadline: u64, left: u64 },
    /// There is none any more.
    Over,
}

/// The share of latency-critical requests that miss their deadline, in percent.
///
/// # Errors
///
/// An arrival without a schedule.
pub(crate) fn missed(workload: &Workload, deadlines: Deadlines, seed: u64) -> Result<f64> {
    let end = nanos(workload.duration());
    let lc = workload.clients.iter().zip(workload.phases()).enumerate();
    let lc = lc.filter(|(_, (spec, _))| spec.role == Role::Lc);
    let mut all = Vec::new();
    for (rank, (number, (spec, phase))) in lc.enumerate() {
        let seed = seed.wrapping_add(number as u64);
        let schedule = Schedule::new(&spec.arrival, phase, seed)?;
        let deadline = deadlines.of(rank).unwrap_or(u64::MAX / 2);
        all.push((spec, schedule, seed, deadline, Stage::Over));
    }
    let (mut now, mut done, mut late) = (0, 0u64, 0u64);
    let mut numbers = vec![0; all.len()];
    for (at, (_, schedule, _, _, stage)) in all.iter_mut().enumerate() {
        (*stage, numbers[at]) = next(schedule, now, end);
    }
    loop {
        let ready = |(_, _, _, _, stage): &_| match *stage {
            Stage::Ready { deadline, left } => Some((deadline, left)),
            _ => None,
        };
        let runs = (0..all.len()).filter_map(|at| Some((ready(&all[at])?.0, at)));
        let runs = runs.min().map(|(_, at)| at);
        let events = all.iter().filter_map(|(_, _, _, _, stage)| match *stage {
            Stage::Waits(at) | Stage::Prepares(at, _) => Some(at),
            Stage::Ready { .. } | Stage::Over => None,
        });
        let finish = runs.and_then(|at| Some(now + ready(&all[at])?.1));
        let Some(at) = events.chain(finish).min() else {
            break;
        };
        if let Some(Stage::Ready { left, .. }) = runs.map(|one| &mut all[one].4) {
            *left -= at - now;
        }
        now = at;
        for (one, (spec, schedule, seed, slo, stage)) in all.iter_mut().enumerate() {
            match *stage {
                Stage::Waits(at) if at == now => {
                    let prepare = &spec.prepare_us;
                    let prepare = prepare.sample(*seed, numbers[one], Duration::from_nanos(now));
                    let ready = now + nanos(prepare) + nanos(spec.copy_in(0));
                    *stage = Stage::Prepares(ready, now + *slo);
                }
                Stage::Ready { deadline, left: 0 } => {
                    let end_of = now + nanos(spec.copy_out(0));
                    done += 1;
                    late += u64::from(end_of > deadline);
                    (*stage, numbers[one]) = next(schedule, end_of, end);
                }
                _ => {}
            }
            if let Stage::Prepares(at, deadline) = *stage {
                if at == now {
                    let left = nanos(spec.network.service());
                    *stage = Stage::Ready { deadline, left };
                }
            }
        }
    }
    Ok(100.0 * late as f64 / done.max(1) as f64)
}

/// The next request of a client that is free from `now` on, and its number.
fn next(schedule: &mut Schedule, now: u64, end: u64) -> (Stage, u64) {
    if now >= end {
        return (Stage::Over, 0);
    }
    let next = schedule.next(Duration::from_nanos(now));
    let tick = nanos(next.tick);
    match tick >= end {
        true => (Stage::Over, 0),
        false => (Stage::Waits(tick.max(now)), next.number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percent(clients: &str, deadlines: &str) -> f64 {
        let text = format!("name: own\nabout: own\nseconds: 10\nclients:\n{clients}");
        let workload = Workload::from_yaml(&text).unwrap();
        missed(&workload, Deadlines::parse(deadlines).unwrap(), 1).unwrap()
    }

    #[test]
    fn a_load_that_fits_misses_nothing_and_one_that_does_not_misses_something() {
        let periodic = |us: u32| {
            format!(
                "  - {{role: lc, network: {{name: r, service_us: {us}}}, \
                 arrival: {{periodic: 100}}, prepare_us: 0}}\n"
            )
        };
        // Two of 100/s, whose periods are their deadlines: up to the whole of the time (Liu, Layland 1973).
        assert_eq!(percent(&periodic(4_900).repeat(2), "10000"), 0.0);
        assert!(percent(&periodic(5_500).repeat(2), "10000") > 50.0);
        // A deadline shorter than the request.
        assert_eq!(percent(&periodic(4_900), "4800"), 100.0);
        // The urgent one is never late.
        assert_eq!(
            percent(&(periodic(1_000) + &periodic(8_000)), "1100,9100"),
            0.0
        );
    }
}
