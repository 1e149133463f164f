// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads that are sent a second time, because the answer to the first takes longer than most do.

use std::collections::VecDeque;
use std::time::Duration;

use crate::sync::{lock, Mutex};

/// Bounds of reads that are sent a second time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hedges {
    /// The part of the latest answers that were there by the time after which a read is late, from 0
    /// to 1.
    pub quantile: f64,
    /// A read is late after so many times that time; infinity: never.
    pub factor: f64,
    /// No read is late before. Files, and stores nearby, are better waited for.
    pub least: Duration,
    /// The most second reads, as a part of all.
    pub most: f64,
}

impl Default for Hedges {
    fn default() -> Self {
        Self {
            quantile: 0.95,
            factor: 1.5,
            least: Duration::from_millis(20),
            most: 0.05,
        }
    }
}

/// Answers that are remembered.
const WINDOW: usize = 256;
/// The fewest that tell the time of the next one.
const FEWEST: usize = 32;
/// Second reads beyond their part: a store that is asked little stalls, too.
const SPARE: f64 = 4.0;

/// The time until it is asked again what is late.
const LOOK: Duration = Duration::from_millis(50);

/// The time after which a read is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Late {
    /// No read is sent twice.
    Never,
    /// Too few answers have come; more are known after this time.
    Unknown(Duration),
    /// After this.
    After(Duration),
}

#[derive(Debug, Default)]
struct State {
    times: VecDeque<Duration>,
    /// Of the latest answers; `None`: to be found out.
    late: Option<Duration>,
    reads: u64,
    hedges: u64,
}

/// The times of the latest answers of a store.
#[derive(Debug)]
pub(super) struct Times {
    hedges: Option<Hedges>,
    state: Mutex<State>,
}

impl Times {
    pub(super) fn new(hedges: Option<Hedges>) -> Self {
        Self {
            hedges,
            state: Mutex::new(State::default()),
        }
    }

    /// The time after which a read is late, as far as it is known now.
    pub(super) fn late(&self) -> Late {
        let Some(hedges) = self.hedges else {
            return Late::Never;
        };
        let mut state = lock(&self.state);
        let count = state.times.len();
        if count < FEWEST {
            return Late::Unknown(LOOK.max(hedges.least));
        }
        let late = state.late.unwrap_or_else(|| {
            let mut times: Vec<_> = state.times.iter().copied().collect();
            times.sort_unstable();
            let rank = (hedges.quantile.clamp(0.0, 1.0) * count as f64).ceil() as usize;
            times[rank.saturating_sub(1)]
        });
        state.late = Some(late);
        let late = late.as_secs_f64() * hedges.factor.max(0.0);
        match Duration::try_from_secs_f64(late) {
            Ok(late) => Late::After(late.max(hedges.least)),
            // It is no time that a clock has.
            Err(_) => Late::Never,
        }
    }

    /// An answer has come.
    pub(super) fn came(&self, time: Duration) {
        let mut state = lock(&self.state);
        state.reads += 1;
        if state.times.len() == WINDOW {
            state.times.pop_front();
        }
        state.times.push_back(time);
        // A store changes over many answers.
        if state.reads % 16 == 0 {
            state.late = None;
        }
    }

    /// Takes one of the second reads that may be sent. `false`: there is none left.
    pub(super) fn take(&self) -> bool {
        let Some(hedges) = self.hedges else {
            return false;
        };
        let mut state = lock(&self.state);
        let may = state.reads as f64 * hedges.most + SPARE;
        let is_left = (state.hedges as f64) + 1.0 <= may;
        state.hedges += u64::from(is_left);
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_read_is_late_behind_most_of_the_latest() {
        let times = Times::new(Some(Hedges::default()));
        for at in 1..32 {
            times.came(ms(100 * at));
            assert_eq!(times.late(), Late::Unknown(ms(50)), "{at} are few");
        }
        times.came(ms(3_200));
        // 31 of 32 are 95 % at least.
        assert_eq!(times.late(), Late::After(ms(4_650)));
        // 1 % of long ones changes little, and old ones are forgotten.
        for at in 0..512 {
            times.came(ms(if at % 100 == 99 { 2_000 } else { 50 }));
        }
        assert_eq!(times.late(), Late::After(ms(75)));
        for _ in 0..256 {
            times.came(ms(1));
        }
        assert_eq!(times.late(), Late::After(ms(20)));
        let never = Times::new(None);
        (0..100).for_each(|_| never.came(ms(1)));
        assert_eq!(never.late(), Late::Never);
        assert!(!never.take());
    }

    #[test]
    fn a_time_that_no_clock_has_never_comes() {
        for factor in [f64::INFINITY, f64::MAX] {
            for time in [Duration::ZERO, ms(100)] {
                let times = Times::new(Some(Hedges {
                    factor,
                    ..Hedges::default()
                }));
                (0..FEWEST).for_each(|_| times.came(time));
                let late = match (time.is_zero(), factor.is_finite()) {
                    (true, true) => Late::After(ms(20)),
                    _ => Late::Never,
                };
                assert_eq!(times.late(), late, "{factor} {time:?}");
            }
        }
    }

    #[test]
    fn second_reads_are_a_part_of_all() {
        let times = Times::new(Some(Hedges::default()));
        let taken = || (0..100).filter(|_| times.take()).count();
        assert_eq!(taken(), 4);
        (0..100).for_each(|_| times.came(ms(1)));
        assert_eq!(taken(), 5);
        assert_eq!(taken(), 0);
    }
}
