// SPDX-License-Identifier: MIT OR Apache-2.0
//! The goals of the signal beside queues.

use super::Compared;
use crate::training::Goal;

/// Least part of the steps of the fastest queue that a loop with the signal does, in percent, where a
/// computation hides the next loading.
const STEPS_PERCENT: f64 = 95.0;
/// Most batches that a loop with the signal holds: one is computed with, and one is read.
const HELD: f64 = 2.0;

/// All of a setting for which there are runs. Of several loops the steps depend on each other.
pub fn goals(compared: &Compared) -> Vec<Goal> {
    let Some(signal) = compared.signal() else {
        return Vec::new();
    };
    let jobs = compared.setting.jobs;
    let title = compared.setting.title();
    let what = |goal: String| format!("queues, {title}: {goal}");
    let most = HELD * jobs as f64;
    let mut goals = vec![Goal {
        what: what(format!(
            "with the signal at most {most:.0} batches are held"
        )),
        good: signal.held.max <= most,
        found: format!("{:.0}, {:.2} on average", signal.held.max, signal.held.mean),
    }];
    let fastest = compared.fastest();
    let fastest = fastest.filter(|_| compared.hides() && jobs == 1);
    if let Some((depth, fastest)) = fastest {
        let percent = 100.0 * signal.steps_per_s / fastest.steps_per_s.max(1e-9);
        goals.push(Goal {
            what: what(format!(
                "at least {STEPS_PERCENT} % of the steps of the fastest queue"
            )),
            good: percent >= STEPS_PERCENT,
            found: format!("{percent:.1} % (queue of {depth})"),
        });
    }
    goals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queues::Way;
    use crate::testdata;

    fn good(compared: &Compared) -> Vec<bool> {
        goals(compared).iter().map(|goal| goal.good).collect()
    }

    #[test]
    fn what_is_worse_than_it_may_be_is_no_good() {
        let mut compared = testdata::queues(1);
        assert_eq!(good(&compared), [true, true]);
        let signal = |compared: &mut Compared| {
            let mut rows = compared.rows.iter().map(|row| row.way);
            rows.position(|way| way == Way::Signal).unwrap()
        };
        let at = signal(&mut compared);
        compared.rows[at].figures.held.max = 3.0;
        assert_eq!(good(&compared), [false, true]);
        compared.rows[at].figures.steps_per_s /= 2.0;
        assert_eq!(good(&compared), [false, false]);
        // Three may hold six, and share the GPU.
        compared.setting.jobs = 3;
        assert_eq!(good(&compared), [true]);
        compared.rows.remove(at);
        assert!(goals(&compared).is_empty());
    }
}
