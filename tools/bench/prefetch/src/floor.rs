// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time below which no loader can be, of what it had to do.

use std::time::Duration;

/// The work of an epoch.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// The time of a request, connections not counted.
    pub round_trip: Duration,
    /// Round trips behind each other: 3 for arrays, indexes and data; 1 for data alone.
    pub rounds: u32,
    /// Requests.
    pub requests: u64,
    /// Those that may be on their way at once.
    pub in_flight: u64,
    /// Bytes.
    pub bytes: u64,
    /// Bytes a second; `None`: no bound.
    pub bandwidth: Option<u64>,
    /// Time of processors.
    pub cpu: Duration,
    /// Processors.
    pub cores: u32,
}

/// A floor, and its cause.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Floor {
    /// The time.
    pub time: Duration,
    /// The part of the work that takes it.
    pub cause: &'static str,
}

impl Work {
    /// The largest of all bounds.
    pub fn floor(&self) -> Floor {
        let in_flight = self.in_flight.max(1) as f64;
        let sent = self
            .bandwidth
            .map_or(0.0, |bandwidth| self.bytes as f64 / bandwidth as f64);
        let parts = [
            (self.round_trip * self.rounds, "round trips"),
            (
                self.round_trip.mul_f64(self.requests as f64 / in_flight),
                "requests",
            ),
            (Duration::from_secs_f64(sent), "bandwidth"),
            (self.cpu / self.cores.max(1), "processors"),
        ];
        let [first, rest @ ..] = parts;
        let (time, cause) = rest
            .into_iter()
            .fold(first, |most, part| match part.0 > most.0 {
                true => part,
                false => most,
            });
        Floor { time, cause }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_bound_is_the_floor() {
        let ms = Duration::from_millis;
        let work = Work {
            round_trip: ms(50),
            rounds: 3,
            requests: 64,
            in_flight: 64,
            bytes: 1_000_000,
            bandwidth: None,
            cpu: ms(20),
            cores: 2,
        };
        let floor = |work: Work| (work.floor().time, work.floor().cause);
        assert_eq!(floor(work), (ms(150), "round trips"));
        let many = Work {
            requests: 640,
            ..work
        };
        assert_eq!(floor(many), (ms(500), "requests"));
        let narrow = Work {
            bandwidth: Some(500_000),
            ..many
        };
        assert_eq!(floor(narrow), (ms(2_000), "bandwidth"));
        let busy = Work {
            cpu: ms(5_000),
            ..narrow
        };
        assert_eq!(floor(busy), (ms(2_500), "processors"));
        let none = Work {
            in_flight: 0,
            cores: 0,
            requests: 1,
            rounds: 0,
            ..work
        };
        assert_eq!(floor(none), (ms(50), "requests"));
    }
}
