// SPDX-License-Identifier: MIT OR Apache-2.0
//! The decision for a call site: requests, or classes alone.

use std::time::Duration;

use crate::pairs::{Pairs, LEAST_PAIRS};

/// Requests of a site before it is judged.
pub const WINDOW: u32 = 32;

/// Begins after a verdict for requests, until they are compared with the class alone again.
pub const SURE: u32 = 512;

/// Begins for which a site stays with its class after the first verdict against requests; each
/// further one doubles it.
pub const LEAST_PAUSE: u32 = 256;
/// The longest such time.
pub const LONGEST_PAUSE: u32 = 65_536;

/// The end of a request, as far as it concerns its site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Work was launched.
    Launched {
        /// From begin to ready.
        preparation: Duration,
        /// The GPU was there when the data was ready: the holder ran.
        is_held: bool,
    },
    /// Its lease was over before work was launched.
    Expired,
    /// No work was launched.
    Unused,
    /// There was none: no lane was free, or zernel or CUDA refused it.
    Refused,
}

/// Requests of a site since its last verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Those with work.
    pub launched: u32,
    /// Of these, those whose holder ran when the data was ready.
    pub held: u32,
    /// Those whose lease was over before.
    pub expired: u32,
    /// Those without work.
    pub unused: u32,
    /// Those that there were not.
    pub refused: u32,
    /// Of those with work, those whose preparation was no longer than the begin. Numbers, not
    /// times, as a thread that loses its CPU takes any time.
    pub short: u32,
}

impl Window {
    /// Without any.
    const EMPTY: Self = Self {
        launched: 0,
        held: 0,
        expired: 0,
        unused: 0,
        refused: 0,
        short: 0,
    };

    fn requests(&self) -> u32 {
        self.launched + self.expired + self.unused + self.refused
    }

    fn add(&mut self, outcome: Outcome, cost: Duration) {
        match outcome {
            Outcome::Launched {
                preparation,
                is_held,
            } => {
                self.launched += 1;
                self.held += u32::from(is_held);
                self.short += u32::from(preparation <= cost);
            }
            Outcome::Expired => self.expired += 1,
            Outcome::Unused => self.unused += 1,
            Outcome::Refused => self.refused += 1,
        }
    }
}

/// A verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Requests pay.
    Requests,
    /// They do not, and the class is enough.
    Classes(Reason),
}

/// The cause of a verdict against requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// More than a quarter of the leases were over before work came: the GPU idled for them.
    Expired,
    /// More than a quarter had no work.
    Unused,
    /// Fewer than an eighth were requests at all.
    Refused,
    /// Fewer than an eighth of those with work were held when their data was ready: nothing was
    /// gained.
    Late,
    /// More than half had a preparation, which bounds the gain, no longer than the begin itself
    /// took.
    Short,
    /// Rounds without a request took no more time.
    NoGain,
}

/// Judges the requests of a window. Without any, they pay.
pub fn judge(window: &Window) -> Verdict {
    let requests = window.requests();
    if requests == 0 {
        return Verdict::Requests;
    }
    if window.expired * 4 > requests {
        return Verdict::Classes(Reason::Expired);
    }
    if window.unused * 4 > requests {
        return Verdict::Classes(Reason::Unused);
    }
    if (requests - window.refused) * 8 < requests {
        return Verdict::Classes(Reason::Refused);
    }
    if window.held * 8 < window.launched {
        return Verdict::Classes(Reason::Late);
    }
    match window.short * 2 > window.launched {
        true => Verdict::Classes(Reason::Short),
        false => Verdict::Requests,
    }
}

/// The work of a site from a begin to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Round {
    /// With a request.
    Request,
    /// Without, to compare its time with that of those.
    Comparison,
    /// Without, by its class alone.
    Class,
}

/// The statistics of a call site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Site {
    window: Window,
    pairs: Pairs,
    /// The second round of a pair, after the first.
    second: Option<Round>,
    /// The state of a generator of random numbers: a program may have an order of its own.
    random: u32,
    /// Begins until requests are compared again.
    sure: u32,
    /// Begins that are still to be left out.
    pause: u32,
    /// The length of the last pause; 0 after a verdict for requests.
    last_pause: u32,
}

impl Site {
    /// One of which nothing is known.
    pub const NEW: Self = Self {
        window: Window::EMPTY,
        pairs: Pairs::NONE,
        second: None,
        random: 1,
        sure: 0,
        pause: 0,
        last_pause: 0,
    };

    /// A round begins that may have a request.
    pub fn begins(&mut self) -> Round {
        if let Some(left) = self.pause.checked_sub(1) {
            self.pause = left;
            return Round::Class;
        }
        if let Some(left) = self.sure.checked_sub(1) {
            self.sure = left;
            return Round::Request;
        }
        let (first, second) = match self.random() {
            true => (Round::Request, Round::Comparison),
            false => (Round::Comparison, Round::Request),
        };
        self.second.take().unwrap_or_else(|| {
            self.second = Some(second);
            first
        })
    }

    /// True or false, by chance (the generator of Numerical Recipes, its highest bit).
    fn random(&mut self) -> bool {
        self.random = self
            .random
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        self.random >> 31 != 0
    }

    /// A round without a request, for comparison, took so long from its begin to its end.
    pub fn compare(&mut self, time: Duration) {
        self.pairs.add(false, time);
    }

    /// A request is over, the begin of which took `cost`; `time`: from the begin to the end of its
    /// work, where that is known. At the end of a window, the verdict.
    pub fn add(
        &mut self,
        outcome: Outcome,
        cost: Duration,
        time: Option<Duration>,
    ) -> Option<Verdict> {
        self.window.add(outcome, cost);
        if let Some(time) = time {
            self.pairs.add(true, time);
        }
        if self.window.requests() < WINDOW {
            return None;
        }
        let is_compared = self.sure == 0 && self.pairs.count() >= LEAST_PAIRS;
        let verdict = match judge(&self.window) {
            Verdict::Requests if is_compared && !self.pairs.is_gain() => {
                Verdict::Classes(Reason::NoGain)
            }
            verdict => verdict,
        };
        self.window = Window::EMPTY;
        match verdict {
            Verdict::Requests => {
                self.last_pause = 0;
                if self.sure == 0 {
                    self.sure = SURE;
                }
            }
            Verdict::Classes(_) => {
                let longer = self.last_pause.saturating_mul(2);
                self.last_pause = longer.clamp(LEAST_PAUSE, LONGEST_PAUSE);
                self.pause = self.last_pause;
                self.sure = 0;
            }
        }
        self.pairs = Pairs::NONE;
        Some(verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: Duration = Duration::from_micros(5);

    fn launched(us: u64, is_held: bool) -> Outcome {
        Outcome::Launched {
            preparation: Duration::from_micros(us),
            is_held,
        }
    }

    /// A window with so many of each: held with this preparation in microseconds, late, expired,
    /// unused.
    fn window(held: u32, us: u64, late: u32, expired: u32, unused: u32) -> Window {
        let mut window = Window::EMPTY;
        let all = [
            (held, launched(us, true)),
            (late, launched(us, false)),
            (expired, Outcome::Expired),
            (unused, Outcome::Unused),
        ];
        for (count, outcome) in all {
            (0..count).for_each(|_| window.add(outcome, COST));
        }
        window
    }

    /// A window with so many long and short preparations.
    fn mixed(long: u32, short: u32) -> Window {
        let mut window = window(long, 100, 0, 0, 0);
        (0..short).for_each(|_| window.add(launched(5, true), COST));
        window
    }

    /// A window with so many that were held, and so many others.
    fn with(held: u32, others: u32, outcome: Outcome) -> Window {
        let mut window = window(held, 100, 0, 0, 0);
        (0..others).for_each(|_| window.add(outcome, COST));
        window
    }

    #[test]
    fn a_window_is_judged() {
        use Reason::{Expired, Late, Refused, Short, Unused};
        use Verdict::{Classes, Requests};
        for (counts, verdict) in [
            (window(0, 0, 0, 0, 0), Requests),
            (window(32, 100, 0, 0, 0), Requests),
            (window(32, 6, 0, 0, 0), Requests),
            (window(32, 5, 0, 0, 0), Classes(Short)),
            (window(0, 100, 32, 0, 0), Classes(Late)),
            (window(4, 100, 28, 0, 0), Requests),
            (window(3, 100, 29, 0, 0), Classes(Late)),
            (mixed(16, 16), Requests),
            (mixed(15, 17), Classes(Short)),
            (window(24, 100, 0, 8, 0), Requests),
            (window(23, 100, 0, 9, 0), Classes(Expired)),
            (window(24, 100, 0, 0, 8), Requests),
            (window(23, 100, 0, 0, 9), Classes(Unused)),
            (window(0, 0, 0, 32, 0), Classes(Expired)),
            (window(0, 0, 0, 0, 32), Classes(Unused)),
            (with(4, 28, Outcome::Refused), Requests),
            (with(3, 29, Outcome::Refused), Classes(Refused)),
            (with(0, 32, Outcome::Refused), Classes(Refused)),
        ] {
            assert_eq!(judge(&counts), verdict, "{counts:?}");
        }
    }

    /// Fills a window of a site that has requests, with comparisons; the verdict. Rounds take these
    /// times in microseconds, with a request and without.
    fn fill(site: &mut Site, outcome: Outcome, (with, without): (u64, u64)) -> Option<Verdict> {
        loop {
            let verdict = match site.begins() {
                Round::Request => site.add(outcome, COST, Some(Duration::from_micros(with))),
                Round::Comparison => {
                    site.compare(Duration::from_micros(without));
                    None
                }
                Round::Class => panic!("a pause: {site:?}"),
            };
            if verdict.is_some() {
                return verdict;
            }
        }
    }

    /// The begins until the next one that may be a request.
    fn pause(site: &mut Site) -> u32 {
        let mut left_out = 0;
        while site.begins() == Round::Class {
            left_out += 1;
        }
        left_out
    }

    const GOOD: Outcome = Outcome::Launched {
        preparation: Duration::from_micros(100),
        is_held: true,
    };

    #[test]
    fn a_site_without_gain_pauses_ever_longer() {
        for (outcome, reason) in [(Outcome::Expired, Reason::Expired), (GOOD, Reason::NoGain)] {
            let mut site = Site::NEW;
            let mut expected = LEAST_PAUSE;
            for _ in 0..12 {
                let verdict = fill(&mut site, outcome, (100, 100));
                assert_eq!(verdict, Some(Verdict::Classes(reason)));
                assert_eq!(pause(&mut site.clone()), expected);
                site.pause = 0;
                expected = (expected * 2).min(LONGEST_PAUSE);
            }
        }
    }

    #[test]
    fn a_site_that_gains_again_has_requests_again() {
        let mut site = Site::NEW;
        let _ = fill(&mut site, Outcome::Unused, (90, 100));
        let _ = pause(&mut site);
        let verdict = fill(&mut site, GOOD, (90, 100));
        assert_eq!(verdict, Some(Verdict::Requests));
        // All are requests for a while.
        for _ in 0..SURE {
            assert_eq!(site.begins(), Round::Request);
        }
        // The next pause is a first one.
        let verdict = fill(&mut site, GOOD, (100, 90));
        assert_eq!(verdict, Some(Verdict::Classes(Reason::NoGain)));
        assert_eq!(pause(&mut site), LEAST_PAUSE);
    }

    #[test]
    fn half_of_the_rounds_are_comparisons_while_a_site_is_tried() {
        let mut site = Site::NEW;
        let rounds: Vec<_> = (0..2 * WINDOW).map(|_| site.begins()).collect();
        for pair in rounds.chunks(2) {
            assert!(pair.contains(&Round::Request) && pair.contains(&Round::Comparison));
        }
        let first = rounds.iter().step_by(2);
        let first = first.filter(|&&round| round == Round::Request).count();
        assert!((8..=24).contains(&first), "{first}");
    }

    #[test]
    fn a_site_whose_times_are_unknown_is_judged_without() {
        let mut site = Site::NEW;
        let known = LEAST_PAIRS - 1;
        for at in 0..WINDOW as usize {
            let time = (at < known).then_some(Duration::from_micros(200));
            time.into_iter()
                .for_each(|_| site.compare(Duration::from_micros(100)));
            let verdict = site.add(GOOD, COST, time);
            assert_eq!(verdict.is_some(), at + 1 == WINDOW as usize);
            assert!(verdict.is_none_or(|verdict| verdict == Verdict::Requests));
        }
        // While it is sure, requests are judged by their outcomes alone.
        for _ in 1..WINDOW {
            assert_eq!(site.add(Outcome::Expired, COST, None), None);
        }
        let verdict = site.add(Outcome::Expired, COST, None);
        assert_eq!(verdict, Some(Verdict::Classes(Reason::Expired)));
        assert_eq!(site.begins(), Round::Class);
    }
}
