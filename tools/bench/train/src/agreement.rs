// SPDX-License-Identifier: MIT OR Apache-2.0
//! The agreement of the phases that were told with those that a loop reports itself.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::run::{Does, Section};
use crate::watch::Told;

/// Their agreement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// Time in which the phase told was that of the section, of all time, in percent.
    pub percent: f64,
    /// The same of what the loop does, in the order of [`Does::ALL`]; none of what it never does.
    pub of_each: [Option<f64>; 4],
    /// For how long half of the sections were told as something else, at most, in nanoseconds.
    pub median_ns: u64,
    /// And all of them: the longest lag.
    pub longest_ns: u64,
    /// From one sample to the next, in nanoseconds.
    pub tick_ns: u64,
    /// Sections that can be told.
    pub sections: usize,
}

impl Agreement {
    /// Of the sections of a loop with the phases of its thread, sampled every `tick`.
    ///
    /// Sections shorter than three samples need not be told and count for nothing; nor does the
    /// first step, in which the loop has not waited for the GPU yet.
    pub fn of(sections: &[Section], told: &[Told], tick: Duration) -> Self {
        let found: Vec<Found> = sections
            .iter()
            .filter(|section| section.step > 0 && section.span.took() >= 3 * tick)
            .map(|section| Found::new(section, told))
            .collect();
        let mut lags: Vec<u64> = found.iter().map(Found::lag).collect();
        lags.sort_unstable();
        Self {
            percent: percent(found.iter()).unwrap_or(0.0),
            of_each: Does::ALL.map(|does| percent(found.iter().filter(|one| one.does == does))),
            median_ns: lags.get(lags.len() / 2).copied().unwrap_or(0),
            longest_ns: lags.last().copied().unwrap_or(0),
            tick_ns: ns(tick),
            sections: found.len(),
        }
    }

    /// The longest lag in whole samples: the rest of the one in which a section begins need not tell
    /// of it. When a phase has changed is known to a fiftieth of a sample.
    pub fn longest_samples(&self) -> u64 {
        let tick = self.tick_ns.max(1);
        self.longest_ns.saturating_sub(tick / 50) / tick
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} % of {} sections (", self.percent, self.sections)?;
        let parts = Does::ALL.iter().zip(self.of_each);
        for (number, (does, percent)) in parts
            .filter_map(|(does, percent)| Some((does, percent?)))
            .enumerate()
        {
            let comma = if number > 0 { ", " } else { "" };
            write!(f, "{comma}{} {percent:.1} %", does.name())?;
        }
        write!(
            f,
            "), something else for {} us in half of them, {} us at most",
            self.median_ns / 1_000,
            self.longest_ns / 1_000
        )
    }
}

/// The phases that were told of a section, in nanoseconds.
struct Found {
    does: Does,
    all: u64,
    told: u64,
}

impl Found {
    fn new(section: &Section, told: &[Told]) -> Self {
        let right = told
            .iter()
            .filter(|told| told.phase == section.does.phase());
        Self {
            does: section.does,
            all: ns(section.span.took()),
            told: right.map(|told| ns(told.span.overlap(&section.span))).sum(),
        }
    }

    fn lag(&self) -> u64 {
        self.all.saturating_sub(self.told)
    }
}

fn percent<'a>(found: impl Iterator<Item = &'a Found>) -> Option<f64> {
    let (told, all) = found.fold((0, 0), |sum, one| (sum.0 + one.told, sum.1 + one.all));
    (all > 0).then(|| 100.0 * told as f64 / all as f64)
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Span;
    use libzernel::{Phase, Timestamp};
    use proptest::prelude::*;

    const TICK: Duration = Duration::from_nanos(10);

    fn span(began: u64, ended: u64) -> Span {
        Span {
            began: Timestamp::from_ns(began),
            ended: Timestamp::from_ns(ended),
        }
    }

    fn section(step: usize, does: Does, began: u64, ended: u64) -> Section {
        let span = span(began, ended);
        Section { step, does, span }
    }

    fn told(phase: Phase, began: u64, ended: u64) -> Told {
        let span = span(began, ended);
        Told { phase, span }
    }

    #[test]
    fn what_is_told_late_is_a_lag() {
        let sections = [
            section(0, Does::Load, 0, 900),
            section(1, Does::Load, 1_000, 1_200),
            section(1, Does::Compute, 1_200, 1_500),
            section(1, Does::Optimize, 1_500, 1_529),
        ];
        let told = [
            told(Phase::DataLoading, 1_030, 1_239),
            told(Phase::GpuCompute, 1_239, 1_600),
        ];
        let agreement = Agreement::of(&sections, &told, TICK);
        assert_eq!(
            agreement.sections, 2,
            "neither the first step nor short ones"
        );
        assert_eq!((agreement.longest_ns, agreement.longest_samples()), (39, 3));
        assert_eq!(agreement.median_ns, 39);
        let near = |one: Option<f64>, other: f64| (one.unwrap_or(-1.0) - other).abs() < 1e-9;
        assert!(near(Some(agreement.percent), 100.0 * 431.0 / 500.0));
        assert!(near(agreement.of_each[0], 85.0) && near(agreement.of_each[2], 87.0));
        assert_eq!((agreement.of_each[1], agreement.of_each[3]), (None, None));
        let text = agreement.to_string();
        assert!(text.contains("(load 85.0 %, compute 87.0 %)"), "{text}");
    }

    #[test]
    fn nothing_agrees_with_nothing() {
        let agreement = Agreement::of(&[], &[], TICK);
        assert_eq!((agreement.percent, agreement.sections), (0.0, 0));
    }

    #[test]
    fn who_waits_for_the_loader_is_to_be_unknown() {
        let sections = [section(1, Does::Wait, 0, 100)];
        let told = [told(Phase::Unknown, 20, 100)];
        assert_eq!(Agreement::of(&sections, &told, TICK).longest_ns, 20);
    }

    proptest! {
        #[test]
        fn a_share_is_one(cuts in prop::collection::vec(0u64..5_000, 1..40)) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            let all: Vec<_> = cuts
                .windows(2)
                .enumerate()
                .map(|(at, two)| told(Phase::ALL[at % Phase::ALL.len()], two[0], two[1]))
                .collect();
            let sections = [
                section(1, Does::Load, 0, 1_000),
                section(1, Does::Compute, 1_000, 3_000),
            ];
            let agreement = Agreement::of(&sections, &all, TICK);
            prop_assert!((0.0..=100.0).contains(&agreement.percent));
            prop_assert!(agreement.longest_ns <= 2_000);
            prop_assert!(agreement.median_ns <= agreement.longest_ns);
        }
    }
}
