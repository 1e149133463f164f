// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requests of a client.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zernel_workload::ClientSpec;

/// One request; times since the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Arrivals before it, served or not.
    pub number: u64,
    /// When it arrived.
    pub tick: Duration,
    /// When its preparation began.
    pub start: Duration,
    /// When its result was there.
    pub end: Duration,
}

impl Request {
    /// Latency from the start of the preparation.
    pub fn latency(&self) -> Duration {
        self.end.saturating_sub(self.start)
    }

    /// Latency from the arrival.
    pub fn latency_with_queue(&self) -> Duration {
        self.end.saturating_sub(self.tick)
    }
}

/// The requests of a client, a column per figure, so that they are compact as text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// Requests that a newer one took the place of.
    pub dropped: u64,
    /// Requests with a deadline that arrived within the run.
    #[serde(default, skip_serializing_if = "is_none")]
    pub due: u64,
    /// Those of them whose result was later than that, or never came: a newer one took their place, or
    /// the run was over.
    #[serde(default, skip_serializing_if = "is_none")]
    pub missed: u64,
    /// Arrivals before each, served or not.
    pub number: Vec<u64>,
    /// Nanoseconds from the start of the run to the start of the preparation.
    pub start_ns: Vec<u64>,
    /// Nanoseconds from the arrival to the start of the preparation.
    pub queued_ns: Vec<u64>,
    /// Nanoseconds from the start of the preparation to the result.
    pub latency_ns: Vec<u64>,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

impl Requests {
    /// None yet, with room for those of a run of `duration`.
    pub fn for_run(spec: &ClientSpec, duration: Duration) -> Self {
        let served = duration.as_secs_f64() / spec.latency_alone().as_secs_f64();
        let rate = spec.arrival.rate(duration);
        let arriving = rate.map_or(served, |rate| rate * duration.as_secs_f64());
        // Writing to the memory makes the kernel give it now, so that no request pays for that.
        let column = || {
            let mut column = vec![1; served.min(arriving) as usize + 16];
            column.clear();
            column
        };
        Self {
            dropped: 0,
            due: 0,
            missed: 0,
            number: column(),
            start_ns: column(),
            queued_ns: column(),
            latency_ns: column(),
        }
    }

    /// Adds one.
    pub fn push(&mut self, request: Request) {
        let ns = |duration: Duration| duration.as_nanos() as u64;
        self.number.push(request.number);
        self.start_ns.push(ns(request.start));
        self.queued_ns
            .push(ns(request.start.saturating_sub(request.tick)));
        self.latency_ns.push(ns(request.latency()));
    }

    /// Counts requests with a deadline that are not served.
    pub fn miss(&mut self, count: u64) {
        self.due += count;
        self.missed += count;
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = Request> + '_ {
        self.number
            .iter()
            .zip(&self.start_ns)
            .zip(&self.queued_ns)
            .zip(&self.latency_ns)
            .map(|(((&number, &start), &queued), &latency)| Request {
                number,
                tick: Duration::from_nanos(start.saturating_sub(queued)),
                start: Duration::from_nanos(start),
                end: Duration::from_nanos(start + latency),
            })
    }

    /// For each request that was served here and `there`, its place here and how much longer it took
    /// here, in nanoseconds.
    pub fn added(&self, there: &Self) -> Vec<(usize, i64)> {
        let latencies = there.latency_ns.iter().copied();
        let known: HashMap<u64, u64> = there.number.iter().copied().zip(latencies).collect();
        let here = self.number.iter().zip(&self.latency_ns).enumerate();
        here.filter_map(|(at, (number, &latency))| {
            let other = *known.get(number)?;
            Some((at, latency as i64 - other as i64))
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zernel_workload::Workload;

    /// All requests of a trace can arrive at once: there is room for those of the run, not for their
    /// rate.
    #[test]
    fn the_room_is_that_of_the_requests_of_a_trace() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.yaml");
        let rows = "0\n".repeat(1_000) + &"70\n".repeat(9_000);
        std::fs::write(dir.path().join("a.csv"), "time_s\n".to_owned() + &rows).unwrap();
        let text = "
            name: mine
            seconds: 60
            clients: [{role: lc, network: vgg, arrival: {trace: {file: a.csv}}}]
        ";
        std::fs::write(&path, text).unwrap();
        let workload = Workload::load(path.to_str().unwrap(), "show").unwrap();
        let requests = Requests::for_run(&workload.clients[0], workload.duration());
        let room = requests.number.capacity();
        assert!((1_016..2_000).contains(&room), "{room}");
    }
}
