// SPDX-License-Identifier: MIT OR Apache-2.0
//! A check: its name, its question, the time that it has, and its run to a verdict.

use std::time::{Duration, Instant};

use anyhow::{bail, Result};
use libzernel::Cause;

use crate::figure::{Figures, Judgement};
use crate::lab::Lab;
use crate::report::{Judged, Outcome, Verdict};
use crate::settings::{Guard, Settings};
use crate::work::{not_here, NotHere};

/// A check.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// Its question, in a line.
    pub asks: &'static str,
    /// Seconds after which it has failed.
    pub seconds: u64,
    /// Time slices that it sets, in microseconds.
    pub slices: &'static [u32],
    /// Measures. It fills in figures until it is done or fails.
    pub run: fn(&Lab<'_>, &mut Figures) -> Result<()>,
}

impl Check {
    /// Runs it, and puts back the tunables that it sets.
    pub fn outcome(&self, lab: &Lab<'_>, settings: &Settings) -> Outcome {
        let begin = Instant::now();
        let time = Duration::from_secs(self.seconds);
        let mut figures = Figures::new();
        lab.give_time(time);
        settings.set_deadline(Some((begin + time, self.name)));
        let result = {
            // For a panic.
            let _guard = Guard(settings);
            let result = (self.run)(lab, &mut figures);
            with_put_back(result, settings.put_back())
        };
        settings.set_deadline(None);
        let hardware = lab.work.is_hardware();
        self.judge(result, figures, hardware, begin.elapsed())
    }

    /// The outcome where it was left out for a reason.
    pub fn left_out(&self, why: String) -> Outcome {
        let result = not_here(why);
        self.judge(result, Figures::new(), false, Duration::ZERO)
    }

    fn judge(
        &self,
        result: Result<()>,
        figures: Figures,
        hardware: bool,
        took: Duration,
    ) -> Outcome {
        let judged = figures.into_vec().into_iter().map(|figure| Judged {
            judgement: figure.judge(hardware),
            figure,
        });
        let figures: Vec<Judged> = judged.collect();
        let outside: Vec<_> = figures
            .iter()
            .filter(|judged| judged.judgement == Judgement::Outside)
            .map(|judged| judged.figure.name.as_str())
            .collect();
        let (verdict, reason) = match result {
            Err(error) => refusal(&error),
            Ok(()) if !outside.is_empty() => (Verdict::Outside, Some(outside.join(", "))),
            Ok(()) if figures.is_empty() => {
                let why = "it measured nothing";
                (Verdict::Failed, Some(why.to_owned()))
            }
            Ok(()) => (Verdict::Ok, None),
        };
        Outcome {
            name: self.name,
            asks: self.asks,
            verdict,
            reason,
            seconds: took.as_secs_f64(),
            figures,
        }
    }
}

/// The result of a check with that of putting tunables back, which fails it in any case.
fn with_put_back(result: Result<()>, put_back: Result<()>) -> Result<()> {
    match (result, put_back) {
        (result, Ok(())) => result,
        (Ok(()), Err(kept)) => Err(kept),
        (Err(error), Err(kept)) => bail!("{error:#}; {kept:#}"),
    }
}

/// The verdict on a check that came to no end: want of a right is no failure of the GPU.
fn refusal(error: &anyhow::Error) -> (Verdict, Option<String>) {
    let known = error.downcast_ref::<libzernel::Error>();
    let is_right = known.is_some_and(|e| e.cause() == Cause::NotPermitted);
    let verdict = if error.is::<NotHere>() || is_right {
        Verdict::NotHere
    } else {
        Verdict::Failed
    };
    (verdict, Some(format!("{error:#}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Range, Unit};
    use anyhow::{anyhow, Context as _};
    use libzernel::{Call, Error};
    use rustix::io::Errno;

    const CHECK: Check = Check {
        name: "one",
        asks: "Does it?",
        seconds: 1,
        slices: &[],
        run: |_, _| Ok(()),
    };

    fn verdict(result: Result<()>, figures: Figures, hardware: bool) -> (Verdict, String) {
        let outcome = CHECK.judge(result, figures, hardware, Duration::from_secs(1));
        (outcome.verdict, outcome.reason.unwrap_or_default())
    }

    fn seen(seen: usize) -> Figures {
        let mut figures = Figures::new();
        figures.always("seen", seen, 4, "a promise");
        figures
    }

    #[test]
    fn a_verdict_is_that_of_the_worst_figure() {
        assert_eq!(verdict(Ok(()), seen(4), false).0, Verdict::Ok);
        let mut figures = seen(4);
        figures.always("shown", 0, 1, "a promise");
        let (found, why) = verdict(Ok(()), figures, false);
        assert_eq!((found, why.as_str()), (Verdict::Outside, "shown"));
    }

    #[test]
    fn a_cost_is_outside_on_hardware_alone() {
        let cost = || {
            let mut figures = Figures::new();
            let range = Range::new(0.0, 10.0);
            figures.cost("cost", Unit::Microseconds, &[99.0], range, "a book");
            figures
        };
        assert_eq!(verdict(Ok(()), cost(), false).0, Verdict::Ok);
        assert_eq!(verdict(Ok(()), cost(), true).0, Verdict::Outside);
    }

    #[test]
    fn a_check_without_figures_is_none() {
        let (found, why) = verdict(Ok(()), Figures::new(), true);
        assert_eq!(
            (found, why.as_str()),
            (Verdict::Failed, "it measured nothing")
        );
    }

    #[test]
    fn a_check_that_leaves_a_tunable_has_failed() {
        let kept = || Err(anyhow!("tunables were not put back: rotation=fair (no)"));
        for result in [Ok(()), not_here("no records")] {
            let (found, why) = verdict(with_put_back(result, kept()), seen(4), false);
            assert_eq!(found, Verdict::Failed, "{why}");
            assert!(why.ends_with("rotation=fair (no)"), "{why}");
        }
        assert!(with_put_back(Ok(()), Ok(())).is_ok());
    }

    #[test]
    fn an_error_is_a_failure_unless_a_right_or_a_part_is_missing() {
        let denied = || Err::<(), _>(Error::call(Call::ClassSet)(Errno::PERM).into());
        for (result, expected) in [
            (Err(anyhow!("late")), Verdict::Failed),
            (not_here("no records"), Verdict::NotHere),
            (not_here("no records").context("of a GPU"), Verdict::NotHere),
            (denied(), Verdict::NotHere),
        ] {
            let (found, why) = verdict(result, seen(0), true);
            assert_eq!(found, expected, "{why}");
            assert!(!why.is_empty());
        }
    }
}
