// SPDX-License-Identifier: MIT OR Apache-2.0
//! The goals of a training loop.

use super::{Lengths, Trained, Training};

/// Least part of the GPU's idle time that the signal removes where a computation can hide a
/// loading, in percent.
const REMOVED_PERCENT: f64 = 80.0;
/// By how much longer the loop may take with it where nothing can be told ahead, in percent.
const SLOWER_PERCENT: f64 = 1.0;
/// Least part of the time in which the phase told is what the loop does, in percent.
const AGREEMENT_PERCENT: f64 = 95.0;
/// Most whole samples after which a phase is told.
const LAG_SAMPLES: u64 = 3;

/// A goal, and whether it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Goal {
    /// The goal.
    pub what: String,
    /// True if it is reached.
    pub good: bool,
    /// The finding.
    pub found: String,
}

/// All for which there are runs.
pub fn goals(training: &Training) -> Vec<Goal> {
    let name = training.plan.name();
    let mut goals = Vec::new();
    match training.plan.lengths {
        Lengths::Fixed {
            load_ms,
            compute_ms,
        } if load_ms <= compute_ms => {
            goals.extend(training.idle_removed_percent().map(|found| Goal {
                what: format!(
                    "training, {name}: the signal removes at least {REMOVED_PERCENT} % of the \
                     GPU's idle time"
                ),
                good: found >= REMOVED_PERCENT,
                found: format!("{found:.1} %"),
            }));
        }
        Lengths::Fixed { .. } => {}
        Lengths::Random { .. } => goals.extend(training.slower_percent().map(|found| Goal {
            what: format!(
                "training, {name}: with the signal at most {SLOWER_PERCENT} % slower than without"
            ),
            good: found <= SLOWER_PERCENT,
            found: format!("{found:+.1} %"),
        })),
    }
    goals.extend(training.runs.iter().flat_map(|run| told(name, run)));
    goals
}

fn told(name: &str, run: &Trained) -> Vec<Goal> {
    let with = if run.signal { "with" } else { "without" };
    let found = &run.figures.agreement;
    let (samples, missed) = (found.longest_samples(), run.figures.missed);
    let mut goals = vec![Goal {
        what: format!(
            "training, {name} {with} the signal: phases are told at most {LAG_SAMPLES} samples late"
        ),
        good: found.sections > 0 && samples <= LAG_SAMPLES && missed == 0,
        found: format!(
            "{samples} ({:.2} ms), {missed} missed",
            found.longest_ns as f64 / 1e6
        ),
    }];
    // With the signal steps are shorter, and the same lag is more of them.
    if !run.signal {
        goals.push(Goal {
            what: format!(
                "training, {name} {with} the signal: phases are told right for at least \
                 {AGREEMENT_PERCENT} % of the time"
            ),
            good: found.percent >= AGREEMENT_PERCENT,
            found: format!("{:.1} %", found.percent),
        });
    }
    goals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testdata;
    use crate::training::Plan;

    #[test]
    fn what_is_worse_than_it_may_be_is_no_good() {
        let good = testdata::training(Plan::FIXED);
        let all = goals(&good);
        assert_eq!(all.len(), 4);
        assert!(all.iter().all(|goal| goal.good), "{all:#?}");
        type Spoil = fn(&mut Training);
        let spoils: [Spoil; 4] = [
            |one| one.runs[1].run.engine.idle_ns = one.runs[0].run.engine.idle_ns / 4,
            |one| one.runs[0].figures.agreement.percent = 94.9,
            |one| one.runs[1].figures.missed = 1,
            |one| one.runs[1].figures.agreement.longest_ns = 4_100_000,
        ];
        for spoil in spoils {
            let mut bad = good.clone();
            spoil(&mut bad);
            assert_eq!(goals(&bad).iter().filter(|goal| !goal.good).count(), 1);
        }
    }

    #[test]
    fn random_steps_may_not_be_slower_and_long_loading_is_not_hidden() {
        let mut training = testdata::training(Plan::RANDOM);
        assert!(goals(&training)[0].good);
        training.runs.swap(0, 1);
        for run in &mut training.runs {
            run.signal = !run.signal;
        }
        let slower = &goals(&training)[0];
        assert!(!slower.good && slower.found.starts_with('+'), "{slower:?}");
        training.plan.lengths = Lengths::Fixed {
            load_ms: 2,
            compute_ms: 1,
        };
        assert_eq!(goals(&training).len(), 3);
        training.runs.pop();
        assert_eq!(goals(&training).len(), 2);
    }
}
