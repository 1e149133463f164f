// SPDX-License-Identifier: MIT OR Apache-2.0
//! The times at which TSGs had the GPU.

use libzernel::{tsg, Timestamp};

/// A time in which a TSG had the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The TSG.
    pub tsg: tsg::Id,
    /// From.
    pub from: Timestamp,
    /// Until.
    pub until: Timestamp,
}

impl Run {
    /// Its length in nanoseconds.
    pub fn ns(&self) -> u64 {
        self.until.as_ns().saturating_sub(self.from.as_ns())
    }
}

/// Runs in the order of their begin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runs(Vec<Run>);

impl Runs {
    /// Of some runs in any order; those of a TSG that follow each other without a gap are one.
    pub fn new(mut runs: Vec<Run>) -> Self {
        runs.sort_by_key(|run| (run.from, run.until));
        let mut joined: Vec<Run> = Vec::with_capacity(runs.len());
        for run in runs {
            match joined.last_mut() {
                Some(last) if last.tsg == run.tsg && last.until >= run.from => {
                    last.until = last.until.max(run.until);
                }
                _ => joined.push(run),
            }
        }
        Self(joined)
    }

    /// The runs of a TSG.
    pub fn of(&self, tsg: tsg::Id) -> impl DoubleEndedIterator<Item = &Run> {
        self.0.iter().filter(move |run| run.tsg == tsg)
    }

    /// Lengths of the runs of a TSG, without the first and the last one, which need not be whole, in
    /// microseconds.
    pub fn lengths_us(&self, tsg: tsg::Id) -> Vec<f64> {
        let runs: Vec<_> = self.of(tsg).map(|run| run.ns() as f64 / 1e3).collect();
        match runs.as_slice() {
            [_, whole @ .., _] => whole.to_vec(),
            _ => Vec::new(),
        }
    }

    /// Times from the end of a run of one TSG to the begin of one of another, in microseconds.
    pub fn switches_us(&self) -> Vec<f64> {
        let pairs = self.0.windows(2);
        pairs
            .filter(|pair| pair[0].tsg != pair[1].tsg)
            .map(|pair| pair[1].from.since(pair[0].until).as_nanos() as f64 / 1e3)
            .collect()
    }

    /// Time that a TSG had the GPU for, in nanoseconds.
    pub fn busy_ns(&self, tsg: tsg::Id) -> u64 {
        self.of(tsg).map(Run::ns).sum()
    }

    /// The end of the last run of a TSG that began before a time.
    pub fn end_of_last_before(&self, tsg: tsg::Id, time: Timestamp) -> Option<Timestamp> {
        let mut runs = self.of(tsg).rev();
        runs.find(|run| run.from < time).map(|run| run.until)
    }

    /// The begin of the first run of a TSG that ends after a time.
    pub fn first_after(&self, tsg: tsg::Id, time: Timestamp) -> Option<Timestamp> {
        let mut runs = self.of(tsg);
        runs.find(|run| run.until > time).map(|run| run.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: tsg::Id = tsg::Id::new(1);
    const B: tsg::Id = tsg::Id::new(2);

    fn run(tsg: tsg::Id, from: u64, until: u64) -> Run {
        Run {
            tsg,
            from: Timestamp::from_ns(from),
            until: Timestamp::from_ns(until),
        }
    }

    #[test]
    fn runs_without_a_gap_are_one() {
        let runs = Runs::new(vec![
            run(B, 2_000, 3_000),
            run(A, 0, 400),
            run(A, 400, 1_000),
            run(A, 4_000, 6_000),
            run(B, 6_500, 7_000),
        ]);
        assert_eq!(runs.of(A).count(), 2);
        assert_eq!(runs.busy_ns(A), 3_000);
        assert_eq!(runs.busy_ns(B), 1_500);
        assert_eq!(runs.switches_us(), [1.0, 1.0, 0.5]);
        assert!(runs.lengths_us(A).is_empty());
    }

    #[test]
    fn whole_runs_are_those_between() {
        let runs = (0..5).map(|at| run(A, at * 10_000, at * 10_000 + 1_000 * (at + 1)));
        let runs = Runs::new(runs.collect());
        assert_eq!(runs.lengths_us(A), [2.0, 3.0, 4.0]);
        assert!(runs.lengths_us(B).is_empty());
    }

    #[test]
    fn ends_and_begins_around_a_time() {
        let runs = Runs::new(vec![run(A, 100, 200), run(B, 200, 300), run(A, 300, 400)]);
        let at = Timestamp::from_ns;
        assert_eq!(runs.end_of_last_before(A, at(250)), Some(at(200)));
        assert_eq!(runs.end_of_last_before(A, at(301)), Some(at(400)));
        assert_eq!(runs.end_of_last_before(A, at(100)), None);
        assert_eq!(runs.first_after(A, at(150)), Some(at(100)));
        assert_eq!(runs.first_after(A, at(200)), Some(at(300)));
        assert_eq!(runs.first_after(B, at(300)), None);
    }
}
