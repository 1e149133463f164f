// SPDX-License-Identifier: MIT OR Apache-2.0
//! The dominance of one way of taking the GPU ahead over another with any setting: both wait for it
//! less and keep it idle less.
//!
//! Points are compared as they are. The 99th percentile of a mix of two settings lies on no line
//! between theirs, so that nothing is said of points that nobody has measured.

use serde::{Deserialize, Serialize};

/// The figures of a setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The setting, in words.
    pub what: String,
    /// Idle GPU time: held for data, in percent.
    pub idle_percent: f64,
    /// 99th percentile of the added latency, in microseconds.
    pub p99_us: f64,
}

impl Point {
    /// True if it is not worse in both figures and better in one.
    pub fn dominates(&self, other: &Self) -> bool {
        let (idle, p99) = (self.idle_percent, self.p99_us);
        idle <= other.idle_percent
            && p99 <= other.p99_us
            && (idle < other.idle_percent || p99 < other.p99_us)
    }
}

/// A point that nothing dominates, beside the nearest that was there to do it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Open {
    /// The point.
    pub point: Point,
    /// The one with the least p99 among those that keep the GPU idle no longer, if there are any.
    pub no_more_idle: Option<Point>,
    /// The least idle one among those that wait no longer, if there are any.
    pub no_later: Option<Point>,
}

/// Those of `theirs` that none of `ours` dominates.
pub fn open(ours: &[Point], theirs: &[Point]) -> Vec<Open> {
    let least = |of: &dyn Fn(&Point) -> f64, given: &dyn Fn(&Point) -> bool| {
        let fits = ours.iter().filter(|one| given(one));
        fits.min_by(|a, b| of(a).total_cmp(&of(b))).cloned()
    };
    theirs
        .iter()
        .filter(|point| !ours.iter().any(|one| one.dominates(point)))
        .map(|point| Open {
            point: point.clone(),
            no_more_idle: least(&|one| one.p99_us, &|one| {
                one.idle_percent <= point.idle_percent
            }),
            no_later: least(&|one| one.idle_percent, &|one| one.p99_us <= point.p99_us),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn point(idle_percent: f64, p99_us: f64) -> Point {
        Point {
            what: String::new(),
            idle_percent,
            p99_us,
        }
    }

    #[test]
    fn better_in_one_and_not_worse_in_the_other() {
        let one = point(1.0, 100.0);
        assert!(!one.dominates(&one));
        assert!(point(1.0, 99.0).dominates(&one) && point(0.9, 100.0).dominates(&one));
        assert!(!point(0.5, 101.0).dominates(&one) && !point(1.1, 1.0).dominates(&one));
    }

    #[test]
    fn what_is_open_is_told_with_its_neighbours() {
        let ours = [point(0.5, 100.0), point(1.0, 50.0), point(2.0, 10.0)];
        let theirs = [
            point(0.6, 120.0),
            point(0.9, 60.0),
            point(0.1, 280.0),
            point(3.0, 1.0),
        ];
        let open = open(&ours, &theirs);
        assert_eq!(open.len(), 3);
        assert_eq!(open[0].no_more_idle, Some(ours[0].clone()));
        assert_eq!(open[0].no_later, Some(ours[1].clone()));
        assert_eq!(
            (&open[1].no_more_idle, &open[1].no_later),
            (&None, &Some(ours[0].clone()))
        );
        assert_eq!(
            (&open[2].no_more_idle, &open[2].no_later),
            (&Some(ours[2].clone()), &None)
        );
    }

    proptest! {
        #[test]
        fn dominance_is_an_order(points in prop::collection::vec((0u8..5, 0u8..5), 3)) {
            let points: Vec<_> =
                points.iter().map(|&(a, b)| point(f64::from(a), f64::from(b))).collect();
            let [a, b, c] = [0, 1, 2].map(|at| &points[at]);
            prop_assert!(!(a.dominates(b) && b.dominates(a)));
            prop_assert!(!(a.dominates(b) && b.dominates(c)) || a.dominates(c));
        }
    }
}
