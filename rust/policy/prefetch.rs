// SPDX-License-Identifier: GPL-2.0 OR MIT
//! When a program is to be told to load its next batch, so that the data is there when the GPU has
//! computed the last one.
//!
//! When GpuCompute begins, its length C is predicted, and the *lead* L that loading needs. The
//! signal is due as soon as
//!
//! ```text
//! elapsed + L >= C
//! ```
//!
//! Too early costs memory for a while, too late an idle GPU, so that the default takes a short C and
//! a long L of those that it remembers: the fractiles [`SOONER`] and 1 - [`SOONER`].

pub(crate) mod durations;
mod params;
pub(crate) mod ranges;
pub(crate) mod share;

use super::units::{
    Ns,
    Ppm, //
};
use durations::Durations;
pub(crate) use params::{
    Kind,
    Params, //
};

/// The share of computations shorter than the prediction.
const SOONER: Ppm = Ppm(100_000);

/// The outcomes of signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Computations that ended.
    pub(crate) computations: u64,
    /// Signals that were given.
    pub(crate) signals: u64,
    /// The data was there before the computation was over, and by how much in all.
    pub(crate) early: u64,
    /// The same in time.
    pub(crate) early_time: Ns,
    /// The GPU waited for data for which there was a signal.
    pub(crate) late: u64,
    /// For how long in all.
    pub(crate) late_time: Ns,
    /// Nothing was loaded between the signal and the next one.
    pub(crate) useless: u64,
    /// Loadings that ended.
    pub(crate) loadings: u64,
}

/// A signal that is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signal {
    /// Time since the computation began.
    pub(crate) elapsed: Ns,
    /// Predicted time of all of it.
    pub(crate) predicted: Ns,
    /// Predicted time that loading takes.
    pub(crate) lead: Ns,
}

/// The predictions for a computation, and the time of its signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    due: Ns,
    compute: Ns,
    lead: Ns,
}

/// A computation that is under way or has just ended, and the signal in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    began: Ns,
    ended: Option<Ns>,
    /// When the signal is due, if it is to come.
    plan: Option<Plan>,
    signalled: Option<Ns>,
    /// When the first batch after the signal was there.
    loaded: Option<Ns>,
}

/// The signals of one process.
#[derive(Clone, Debug)]
pub(crate) struct Prefetch {
    compute: Durations,
    loading: Durations,
    step: Option<Step>,
    /// The end of the computation before, if the loading for the present one was not seen yet: it
    /// may be seen a moment after the begin.
    awaited: Option<Ns>,
    times: Sums,
    counts: Counts,
}

/// Times in all. (compute + lead) / loading is the share of loading that computations can hide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Of computations that ended.
    pub(crate) compute: Ns,
    /// From signals to the ends of their computations.
    pub(crate) lead: Ns,
    /// Of loadings that ended.
    pub(crate) loading: Ns,
}

impl Prefetch {
    /// Nothing is known of a process.
    pub(crate) const NEW: Self = Self {
        compute: Durations::NEW,
        loading: Durations::NEW,
        step: None,
        awaited: None,
        times: Sums {
            compute: Ns::ZERO,
            lead: Ns::ZERO,
            loading: Ns::ZERO,
        },
        counts: Counts {
            computations: 0,
            signals: 0,
            early: 0,
            early_time: Ns::ZERO,
            late: 0,
            late_time: Ns::ZERO,
            useless: 0,
            loadings: 0,
        },
    };

    /// A computation begins. Returns when the signal is due; `None` without a history.
    pub(crate) fn compute_begins(&mut self, now: Ns, params: &Params) -> Option<Ns> {
        self.close();
        let plan = match self.predicted(params) {
            (Some(compute), Some(lead)) => Some(Plan {
                // elapsed + lead >= compute, and so elapsed >= compute - lead.
                due: now.saturating_add(compute.saturating_sub(lead)),
                compute,
                lead,
            }),
            _ => None,
        };
        self.step = Some(Step {
            began: now,
            ended: None,
            plan,
            signalled: None,
            loaded: None,
        });
        plan.map(|plan| plan.due)
    }

    /// The time that the next computation takes, and the time before its end at which the signal is
    /// due; `None` without a history.
    pub(crate) fn predicted(&self, params: &Params) -> (Option<Ns>, Option<Ns>) {
        let later = Ppm(Ppm::ONE.0.saturating_sub(SOONER.0));
        let (compute, loading) = match params.kind {
            Kind::Ema => (self.compute.mean(), self.loading.mean()),
            Kind::Quantile => (self.compute.fractile(SOONER), self.loading.fractile(later)),
        };
        (compute, params.lead.or(loading))
    }

    /// The signal, if it is to be given at `now`. It is given once for a computation, and not when
    /// that is over.
    pub(crate) fn signal(&mut self, now: Ns) -> Option<Signal> {
        let step = self.step.as_mut()?;
        let plan = step.plan.filter(|plan| plan.due <= now)?;
        if step.signalled.is_some() || step.ended.is_some() {
            return None;
        }
        step.signalled = Some(now);
        let elapsed = now.saturating_sub(step.began);
        self.give_up();
        self.counts.signals = self.counts.signals.saturating_add(1);
        Some(Signal {
            elapsed,
            predicted: plan.compute,
            lead: plan.lead,
        })
    }

    /// The computation is over.
    pub(crate) fn compute_ends(&mut self, now: Ns, params: &Params) {
        if let Some(step) = self.step.as_mut().filter(|step| step.ended.is_none()) {
            step.ended = Some(now);
            self.counts.computations = self.counts.computations.saturating_add(1);
            let took = now.saturating_sub(step.began);
            self.compute.observe(took, params.history() as usize);
            self.times.compute = self.times.compute.saturating_add(took);
            let lead = step.signalled.map_or(Ns::ZERO, |at| now.saturating_sub(at));
            self.times.lead = self.times.lead.saturating_add(lead);
            if let Some(loaded) = step.loaded {
                self.judge(now, loaded);
            }
        }
    }

    /// A batch was loaded from `began` to `ended`.
    pub(crate) fn loaded(&mut self, began: Ns, ended: Ns, params: &Params) {
        let took = ended.saturating_sub(began);
        self.loading.observe(took, params.history() as usize);
        self.times.loading = self.times.loading.saturating_add(took);
        self.counts.loadings = self.counts.loadings.saturating_add(1);
        if let Some(end) = self.awaited.take() {
            self.judge(end, ended);
            return;
        }
        let follows = |step: &&mut Step| {
            step.loaded.is_none() && step.signalled.is_some_and(|at| at <= ended)
        };
        if let Some(step) = self.step.as_mut().filter(follows) {
            step.loaded = Some(ended);
            if let Some(end) = step.ended {
                self.judge(end, ended);
            }
        }
    }

    /// Says whether the signal was early or late, once both the computation and the loading that
    /// followed it are over.
    fn judge(&mut self, ended: Ns, loaded: Ns) {
        let c = &mut self.counts;
        if loaded <= ended {
            c.early = c.early.saturating_add(1);
            c.early_time = c.early_time.saturating_add(ended.saturating_sub(loaded));
        } else {
            c.late = c.late.saturating_add(1);
            c.late_time = c.late_time.saturating_add(loaded.saturating_sub(ended));
        }
    }

    /// The step before is over.
    fn close(&mut self) {
        self.give_up();
        if let Some(step) = self.step.take() {
            let awaits = step.signalled.is_some() && step.loaded.is_none();
            self.awaited = step.ended.filter(|_| awaits);
        }
    }

    /// The awaited end does not come any more.
    fn give_up(&mut self) {
        if self.awaited.take().is_some() {
            self.counts.useless = self.counts.useless.saturating_add(1);
        }
    }

    /// Times of all computations and loadings.
    pub(crate) fn times(&self) -> Sums {
        self.times
    }

    /// The outcomes of signals.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_prefetch))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const PARAMS: Params = Params::new();

    fn ms(n: u64) -> Ns {
        Ns(n * MS)
    }

    /// Ten steps: it loads for 20 ms, and computes for 50 ms.
    fn known() -> Prefetch {
        let mut p = Prefetch::NEW;
        for n in 0..10 {
            let at = n * 70;
            p.loaded(ms(at), ms(at + 20), &PARAMS);
            p.compute_begins(ms(at + 20), &PARAMS);
            p.compute_ends(ms(at + 70), &PARAMS);
        }
        p
    }

    #[test]
    fn nothing_is_signalled_without_a_history() {
        let mut p = Prefetch::NEW;
        assert_eq!(p.compute_begins(ms(0), &PARAMS), None);
        assert_eq!(p.signal(ms(100)), None);
        p.compute_ends(ms(100), &PARAMS);
        // It has never loaded.
        assert_eq!(p.compute_begins(ms(100), &PARAMS), None);
        let mut fixed = PARAMS;
        fixed.lead = Some(ms(30));
        p.compute_ends(ms(200), &fixed);
        assert_eq!(p.compute_begins(ms(200), &fixed), Some(ms(270)));
        let counts = Counts {
            computations: 2,
            ..Counts::default()
        };
        assert_eq!(p.counts(), counts);
    }

    #[test]
    fn the_signal_is_due_one_lead_before_the_end() {
        for kind in Kind::ALL {
            let mut params = PARAMS;
            params.kind = kind;
            let mut p = known();
            assert_eq!(p.compute_begins(ms(1000), &params), Some(ms(1030)));
            assert_eq!(p.signal(Ns(1030 * MS - 1)), None);
            let signal = Signal {
                elapsed: ms(30),
                predicted: ms(50),
                lead: ms(20),
            };
            assert_eq!(p.signal(ms(1030)), Some(signal));
            // Once.
            assert_eq!(p.signal(ms(1031)), None);
            assert_eq!(p.counts().signals, 1);
        }
        let mut p = known();
        let mut endless = PARAMS;
        endless.lead = Some(ms(51));
        assert_eq!(p.compute_begins(ms(1000), &endless), Some(ms(1000)));
    }

    #[test]
    fn what_is_over_is_not_signalled() {
        let mut p = known();
        p.compute_begins(ms(1000), &PARAMS);
        p.compute_ends(ms(1010), &PARAMS);
        assert_eq!(p.signal(ms(1030)), None);
    }

    #[test]
    fn the_default_is_rather_too_soon() {
        let mut p = Prefetch::NEW;
        for n in 1..=10 {
            p.loaded(ms(0), ms(n), &PARAMS);
            p.compute_begins(ms(0), &PARAMS);
            p.compute_ends(ms(100 * n), &PARAMS);
        }
        // The shortest of ten, less the ninth of ten.
        assert_eq!(p.compute_begins(ms(0), &PARAMS), Some(ms(91)));
    }

    #[test]
    fn early_late_and_useless_are_told_apart() {
        let mut p = known();
        let mut step = |signal, ended, loaded: Option<u64>| {
            p.compute_begins(ms(0), &PARAMS);
            assert!(p.signal(ms(signal)).is_some());
            if let Some(at) = loaded.filter(|at| *at <= ended) {
                p.loaded(ms(signal), ms(at), &PARAMS);
            }
            p.compute_ends(ms(ended), &PARAMS);
            if let Some(at) = loaded.filter(|at| *at > ended) {
                p.loaded(ms(signal), ms(at), &PARAMS);
            }
        };
        step(40, 50, Some(43));
        step(40, 50, Some(52));
        step(40, 50, None);
        // It is over when the next one begins.
        step(40, 50, Some(50));
        let counts = Counts {
            computations: 14,
            signals: 4,
            early: 2,
            early_time: ms(7),
            late: 1,
            late_time: ms(2),
            useless: 1,
            loadings: 13,
        };
        assert_eq!(p.counts(), counts);
        // Only the first batch after a signal counts.
        p.loaded(ms(51), ms(60), &PARAMS);
        let loadings = counts.loadings + 1;
        assert_eq!(p.counts(), Counts { loadings, ..counts });
    }

    #[test]
    fn a_batch_from_before_the_signal_is_not_its_own() {
        let mut p = known();
        p.compute_begins(ms(1000), &PARAMS);
        p.loaded(ms(1000), ms(1020), &PARAMS);
        assert!(p.signal(ms(1030)).is_some());
        p.compute_ends(ms(1050), &PARAMS);
        p.compute_begins(ms(1050), &PARAMS);
        assert_eq!(p.counts().useless, 0);
        assert!(p.signal(ms(1080)).is_some());
        assert_eq!(p.counts().useless, 1);
    }

    #[test]
    fn a_batch_may_be_seen_when_the_next_computation_has_begun() {
        let mut p = known();
        for (begin, loaded) in [(1000, None), (1050, Some(1049)), (1100, Some(1103))] {
            p.compute_begins(ms(begin), &PARAMS);
            if let Some(at) = loaded {
                // For this one, signalled in the one before.
                p.loaded(ms(begin - 20), ms(at), &PARAMS);
            }
            assert!(p.signal(ms(begin + 30)).is_some());
            p.compute_ends(ms(begin + 50), &PARAMS);
        }
        let counts = p.counts();
        assert_eq!((counts.early, counts.early_time), (1, ms(1)));
        assert_eq!((counts.late, counts.late_time), (1, ms(3)));
        assert_eq!((counts.signals, counts.useless), (3, 0));
    }

    #[test]
    fn times_are_of_all_there_was() {
        assert_eq!(Prefetch::NEW.times(), Sums::default());
        assert_eq!(Prefetch::NEW.predicted(&PARAMS), (None, None));
        // None of the computations was signalled.
        let mut sums = Sums {
            compute: ms(500),
            lead: ms(0),
            loading: ms(200),
        };
        assert_eq!(known().times(), sums);
        assert_eq!(known().predicted(&PARAMS), (Some(ms(50)), Some(ms(20))));
        let mut p = known();
        p.compute_begins(ms(0), &PARAMS);
        assert!(p.signal(ms(40)).is_some());
        p.compute_ends(ms(50), &PARAMS);
        (sums.compute, sums.lead) = (ms(550), ms(10));
        assert_eq!(p.times(), sums);
    }

    #[test]
    fn a_history_of_one_is_the_last_one() {
        let mut params = Params::new();
        assert_eq!(params.set_history(1), Ok(()));
        let mut p = known();
        p.compute_begins(ms(0), &params);
        p.compute_ends(ms(7), &params);
        p.loaded(ms(7), ms(9), &params);
        assert_eq!(p.compute_begins(ms(10), &params), Some(ms(15)));
    }
}
