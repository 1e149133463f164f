// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A TSG in the rotation: its weight, its accounts and its state.

use super::{
    super::{
        backoff::Backoff,
        predict::{
            ema::Ema,
            Costs,
            Predictor as _, //
        },
        units::Ns, //
    },
    standing::{
        Node,
        Standing, //
    },
    Weight, //
};

/// The state of a TSG now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// GPU time that it had since it was made.
    pub(crate) ran: Ns,
    /// True if it has something to run, enabled or disabled.
    pub(crate) runnable: bool,
    /// Since when, if that is known.
    pub(crate) since: Option<Ns>,
}

/// A TSG in the rotation.
///
/// The accounts of both disciplines that go by weight are kept under either, so that a change
/// between them starts from each TSG's account.
#[derive(Clone, Debug)]
pub(crate) struct Entity {
    pub(super) weight: Weight,
    /// Virtual run time in ns; wraps.
    pub(super) vruntime: u64,
    /// Credit in ns at the beginning of `round`.
    pub(super) credit: i64,
    /// The round up to which credit was granted.
    pub(super) round: u64,
    /// Place in the queue: the smaller, the nearer to its head.
    pub(super) place: u64,
    /// GPU time at the last sample.
    pub(super) seen: Option<Ns>,
    /// GPU time since it got something to run.
    pub(super) burst: Ns,
    /// GPU time that it had when it got something to run, if it has.
    began: Option<Ns>,
    /// The lengths of its bursts.
    bursts: Ema,
    /// The usual length of a burst.
    pub(super) mean_burst: Option<Ns>,
    /// Since when it is idle, if it is and ever was not.
    idle_since: Option<Ns>,
    /// The idle times between its bursts.
    think_times: Ema,
    /// By how much an idle time can seem longer than it is.
    resolution: Ns,
    /// It was idle for less than [`Self::SLEEP`] before it got something to run the last time.
    pub(super) was_thinking: bool,
    pub(super) runnable: bool,
    /// True if it is known to be enabled.
    pub(super) enabled: bool,
    /// True if it takes no turns because a call for it failed.
    pub(super) in_slices: bool,
    /// When to try again to enable it.
    pub(super) retry: Ns,
    pub(super) backoff: Backoff,
    /// Where it stands among the others, if it is in their list.
    pub(super) standing: Option<Standing>,
    /// Its links to the others there.
    pub(super) node: Node,
}

impl Entity {
    /// The longest think time for which the GPU is left to a TSG: the time that a hand-over costs,
    /// three switches or so.
    const THINK: Ns = Ns(250_000);

    /// A TSG that is enabled, as a driver makes it, and idle.
    pub(crate) fn new(weight: Weight) -> Self {
        Self {
            weight,
            vruntime: 0,
            credit: 0,
            round: 0,
            place: 0,
            seen: None,
            burst: Ns::ZERO,
            began: None,
            bursts: Ema::new(Ema::ALPHA),
            mean_burst: None,
            idle_since: None,
            think_times: Ema::new(Ema::ALPHA),
            resolution: Ns::ZERO,
            was_thinking: false,
            runnable: false,
            enabled: true,
            in_slices: false,
            retry: Ns::ZERO,
            backoff: Backoff::default(),
            standing: None,
            node: Node::default(),
        }
    }

    /// Its state is known by looks, from one of which it is so long to the next.
    pub(crate) fn set_resolution(&mut self, interval: Ns) {
        self.resolution = interval.min(Self::THINK);
    }

    /// Its weight.
    #[allow(dead_code, reason = "the tests on the host ask")]
    pub(crate) fn weight(&self) -> Weight {
        self.weight
    }

    /// True if it is known to be enabled.
    #[allow(dead_code, reason = "the simulation and the tests on the host ask")]
    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// True if it had something to run at its last sample.
    #[allow(dead_code, reason = "the simulation and the tests on the host ask")]
    pub(crate) fn is_runnable(&self) -> bool {
        self.runnable
    }

    /// True if it runs in slices, enabled, because a call for it failed.
    pub(crate) fn is_in_slices(&self) -> bool {
        self.in_slices
    }

    /// Learns from a sample, taken at `now`, how much GPU time it usually has from when it gets
    /// something to run until it goes idle, and how long it is idle then.
    pub(crate) fn learn(&mut self, sample: Sample, now: Ns) {
        let at = sample.since.unwrap_or(now).min(now);
        if sample.runnable {
            self.began.get_or_insert(sample.ran);
            if let Some(since) = self.idle_since.take() {
                let idle = at.saturating_sub(since);
                // So that a sleep is soon forgotten.
                let longest = Ns(2 * self.longest_think_time().0);
                self.think_times.observe(idle.min(longest));
                self.was_thinking = idle < longest;
            }
        } else if let Some(began) = self.began.take() {
            // One that only seemed to have something to run teaches nothing.
            if sample.ran > began {
                self.bursts.observe(sample.ran.saturating_sub(began));
                self.set_mean_burst(self.bursts.predict(Costs::default()));
            }
            self.idle_since = Some(at);
        } else if let (Some(since), Some(newer)) = (&mut self.idle_since, sample.since) {
            // It ran without being seen.
            *since = newer.min(now).max(*since);
        }
    }

    /// Says how much GPU time it usually has from when it gets something to run until it goes idle.
    ///
    /// `None`: unknown, or it hardly ever goes idle. The successor of a TSG with a mean is enabled
    /// ahead of the end of a usual burst, so that the GPU is not idle for the time of the call; the
    /// turn then ends, even if the burst does not.
    pub(crate) fn set_mean_burst(&mut self, mean: Option<Ns>) {
        self.mean_burst = mean;
    }

    /// GPU time until a usual burst is over; `None` if nothing is known, or if this one has become
    /// longer than usual by more than `tolerance`.
    pub(super) fn burst_left(&self, tolerance: Ns) -> Option<Ns> {
        let mean = self.mean_burst?;
        (self.burst <= mean.saturating_add(tolerance)).then(|| mean.saturating_sub(self.burst))
    }

    fn longest_think_time(&self) -> Ns {
        Ns(Self::THINK.0 + self.resolution.0)
    }

    /// The usual think time, if that is so short that the GPU can be left to the TSG meanwhile: no
    /// more than [`Self::THINK`], and an eighth of a burst.
    pub(super) fn usual_think_time(&self) -> Option<Ns> {
        let (time, burst) = (
            self.think_times.predict(Costs::default())?,
            self.mean_burst?,
        );
        (time <= self.longest_think_time() && time.0 <= burst.0 / 8).then_some(time)
    }

    /// The end of its think time: twice the usual length after it went idle.
    pub(super) fn thinking_ends(&self) -> Option<Ns> {
        let time = self.usual_think_time()?;
        Some(self.idle_since?.saturating_add(time).saturating_add(time))
    }

    /// True if it could run in a turn now.
    pub(super) fn contends(&self) -> bool {
        self.runnable && !self.in_slices
    }

    /// True if it is disabled until its turn, and has something to run.
    pub(crate) fn waits(&self) -> bool {
        self.runnable && !self.enabled
    }

    /// Takes in a sample's GPU time; returns the increase since the last.
    pub(super) fn see(&mut self, ran: Ns) -> Ns {
        // A counter that starts again says nothing about the time before.
        let new = ran.saturating_sub(self.seen.unwrap_or(ran));
        self.seen = Some(ran);
        self.burst = self.burst.saturating_add(new);
        new
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_rotation_entity))]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_counts() {
        let mut e = Entity::new(Weight::DEFAULT);
        for (ran, new) in [(500, 0), (700, 200), (700, 0), (10, 0), (15, 5)] {
            assert_eq!(e.see(Ns(ran)), Ns(new));
        }
        assert_eq!(e.burst, Ns(205));
    }

    #[test]
    fn a_burst_is_predicted_until_it_is_unusual() {
        let mut e = Entity::new(Weight::DEFAULT);
        assert_eq!(e.burst_left(Ns(10)), None);
        e.set_mean_burst(Some(Ns(100)));
        for (burst, left) in [
            (0, Some(100)),
            (60, Some(40)),
            (110, Some(0)),
            (111, None),
            (u64::MAX, None),
        ] {
            e.burst = Ns(burst);
            assert_eq!(e.burst_left(Ns(10)), left.map(Ns));
        }
    }

    #[test]
    fn bursts_are_learned_from_one_end_to_the_other() {
        let mut e = Entity::new(Weight::DEFAULT);
        for (ran, runnable) in [(100, true), (300, true), (500, false)] {
            assert_eq!(e.mean_burst, None);
            let sample = Sample {
                ran: Ns(ran),
                runnable,
                since: None,
            };
            e.learn(sample, Ns(ran));
        }
        assert_eq!(e.mean_burst, Some(Ns(400)));
        e.burst = Ns(100);
        assert_eq!(e.burst_left(Ns(10)), Some(Ns(300)));
    }

    #[test]
    fn a_try_is_no_burst() {
        let mut e = Entity::new(Weight::DEFAULT);
        let mut at = 0;
        for (ran, runnable) in [(0, true), (400, false), (400, true), (400, false)] {
            let sample = Sample {
                ran: Ns(ran),
                runnable,
                since: None,
            };
            at += 1_000;
            e.learn(sample, Ns(at));
        }
        assert_eq!(e.mean_burst, Some(Ns(400)));
    }

    #[test]
    fn think_times_come_from_the_provider_where_it_can_tell() {
        let mut e = Entity::new(Weight::DEFAULT);
        // Looked at every 2 ms; it thinks for 100 us.
        for n in 0..4 {
            for (since, runnable) in [(0, true), (1_900_000, false)] {
                let at = Ns(n * 2_000_000 + since);
                let sample = Sample {
                    ran: Ns(n * 1_900_000 + since),
                    runnable,
                    since: Some(at),
                };
                e.learn(sample, Ns(n * 2_000_000 + 1_999_999));
            }
        }
        assert_eq!(e.usual_think_time(), Some(Ns(100_000)));
        let began = 3 * 2_000_000 + 1_900_000;
        assert_eq!(e.thinking_ends(), Some(Ns(began + 200_000)));
        // It ran, and thinks anew, between two looks.
        let newer = Sample {
            ran: Ns(9_000_000),
            runnable: false,
            since: Some(Ns(began + 2_000_000)),
        };
        e.learn(newer, Ns(began + 2_050_000));
        assert_eq!(e.thinking_ends(), Some(Ns(began + 2_200_000)));
    }

    /// After bursts with pauses of this length in between.
    fn pausing(resolution: u64, pause: u64) -> Entity {
        let mut e = Entity::new(Weight::DEFAULT);
        e.set_resolution(Ns(resolution));
        let mut now = 0;
        for n in 0..10 {
            for (runnable, time) in [(true, 5_000_000), (false, pause)] {
                let sample = Sample {
                    ran: Ns(n * 5_000_000 + if runnable { 0 } else { 5_000_000 }),
                    runnable,
                    since: None,
                };
                e.learn(sample, Ns(now));
                now += time;
            }
        }
        e
    }

    #[test]
    fn a_sleep_is_no_think_time() {
        let e = pausing(0, 20_000_000);
        assert_eq!(e.usual_think_time(), None);
        assert!(!e.was_thinking);
    }

    #[test]
    fn a_pause_that_is_seen_by_looks_can_seem_longer() {
        for (resolution, pause, is) in [
            (0, 250_000, true),
            (0, 260_000, false),
            (100_000, 350_000, true),
            (100_000, 351_000, false),
            // Looks that are rare tell little.
            (50_000_000, 500_000, true),
            (50_000_000, 501_000, false),
        ] {
            let time = pausing(resolution, pause).usual_think_time();
            assert_eq!(time, is.then_some(Ns(pause)));
        }
        // It counts as thinking for twice as long, by looks or not.
        assert!(pausing(0, 499_999).was_thinking && !pausing(0, 500_000).was_thinking);
        let by_looks = |pause| pausing(100_000, pause).was_thinking;
        assert!(by_looks(699_999) && !by_looks(700_000));
    }

    #[test]
    fn it_begins_enabled_and_idle() {
        let e = Entity::new(Weight::DEFAULT);
        assert!(e.is_enabled() && !e.is_runnable() && !e.is_in_slices() && !e.contends());
        assert_eq!(e.weight(), Weight::DEFAULT);
    }
}
