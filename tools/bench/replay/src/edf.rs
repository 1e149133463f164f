// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bound of deadlines: earliest deadline first with preemption that costs nothing, on a GPU without
//! other work. No order of the same requests has a smaller greatest lateness (Horn 1974).

use std::time::Duration;

use anyhow::Result;
use zernel_workload::{ClientSpec, Role, Schedule, Workload};

use crate::deadlines::Deadlines;
use crate::world::nanos;

/// Where a client is.
#[derive(Clone, Copy, PartialEq, Eq)]
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

/// A client.
struct Lane<'a> {
    spec: &'a ClientSpec,
    schedule: Schedule,
    seed: u64,
    /// Its deadline, from the begin of a request.
    slo: u64,
    /// Arrivals before the request that it is at.
    number: u64,
    stage: Stage,
}

impl Lane<'_> {
    /// It is free from `now` on.
    fn next(&mut self, now: u64, end: u64) {
        self.stage = Stage::Over;
        if now >= end {
            return;
        }
        let next = self.schedule.next(Duration::from_nanos(now));
        let tick = nanos(next.tick);
        if tick < end {
            self.number = next.number;
            self.stage = Stage::Waits(tick.max(now));
        }
    }

    /// The deadline of work that is ready, and its rest.
    fn ready(&self) -> Option<(u64, u64)> {
        match self.stage {
            Stage::Ready { deadline, left } => Some((deadline, left)),
            _ => None,
        }
    }

    /// When something happens to it without the GPU.
    fn event(&self) -> Option<u64> {
        match self.stage {
            Stage::Waits(at) | Stage::Prepares(at, _) => Some(at),
            Stage::Ready { .. } | Stage::Over => None,
        }
    }

    /// The GPU has run it for so long.
    fn run(&mut self, time: u64) {
        if let Stage::Ready { left, .. } = &mut self.stage {
            *left -= time;
        }
    }

    /// Carries out what is due. Returns true if a request is over that was late, false for one in time.
    fn step(&mut self, now: u64, end: u64) -> Option<bool> {
        let mut over = None;
        if let Stage::Ready { deadline, left: 0 } = self.stage {
            let done = now + nanos(self.spec.copy_out(0));
            over = Some(done > deadline);
            self.next(done, end);
        }
        if self.stage == Stage::Waits(now) {
            let prepare = &self.spec.prepare_us;
            let prepare = prepare.sample(self.seed, self.number, Duration::from_nanos(now));
            let ready = now + nanos(prepare) + nanos(self.spec.copy_in(0));
            self.stage = Stage::Prepares(ready, now + self.slo);
        }
        if let Stage::Prepares(at, deadline) = self.stage {
            if at == now {
                let left = nanos(self.spec.network.service());
                self.stage = Stage::Ready { deadline, left };
            }
        }
        over
    }
}

/// The share of latency-critical requests that miss their deadline, in percent.
///
/// # Errors
///
/// An arrival without a schedule.
pub(crate) fn missed(workload: &Workload, deadlines: Deadlines, seed: u64) -> Result<f64> {
    let end = nanos(workload.duration());
    let all = workload.clients.iter().zip(workload.phases()).enumerate();
    let lc = all.filter(|(_, (spec, _))| spec.role == Role::Lc);
    let mut lanes = Vec::new();
    for (rank, (number, (spec, phase))) in lc.enumerate() {
        let seed = seed.wrapping_add(number as u64);
        let mut lane = Lane {
            spec,
            schedule: Schedule::new(&spec.arrival, phase, seed)?,
            seed,
            slo: deadlines.of(rank).unwrap_or(u64::MAX / 2),
            number: 0,
            stage: Stage::Over,
        };
        lane.next(0, end);
        lanes.push(lane);
    }
    let (mut now, mut done, mut late) = (0, 0u64, 0u64);
    loop {
        let ready = |(at, lane): (usize, &Lane<'_>)| {
            let (deadline, left) = lane.ready()?;
            Some((deadline, at, left))
        };
        let runs = lanes.iter().enumerate().filter_map(ready).min();
        let finish = runs.map(|(_, _, left)| now + left);
        let Some(at) = lanes.iter().filter_map(Lane::event).chain(finish).min() else {
            break;
        };
        if let Some((_, running, _)) = runs {
            lanes[running].run(at - now);
        }
        now = at;
        for over in lanes.iter_mut().filter_map(|lane| lane.step(now, end)) {
            done += 1;
            late += u64::from(over);
        }
    }
    Ok(100.0 * late as f64 / done.max(1) as f64)
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
