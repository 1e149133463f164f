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

/// The part of a round in the verdict of its site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// A request is wanted. Otherwise its time is compared with that of those.
    pub has_request: bool,
    /// It began under this one of the site's verdicts.
    verdict: u32,
    /// The number of its pair; 0: it has none.
    pair: u32,
}

impl Part {
    /// With a request, and without a part in any verdict.
    pub const UNJUDGED: Self = Self {
        has_request: true,
        verdict: 0,
        pair: 0,
    };
}

/// The way in which a site has requests now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In one round of each pair.
    Tried,
    /// In each of so many rounds.
    Sure(u32),
    /// In none of so many rounds.
    Paused(u32),
}

/// The statistics of a call site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Site {
    state: State,
    /// The number of its states so far, from 1 on: rounds of an earlier one do not count.
    verdict: u32,
    window: Window,
    pairs: Pairs,
    /// The number of the pair that began last.
    pair: u32,
    /// The second round of that pair, until it begins: with a request or without.
    second: Option<bool>,
    /// The state of a generator of random numbers: a program may have an order of its own.
    random: u32,
    /// The length of the last pause; 0 after a verdict for requests.
    last_pause: u32,
}

impl Site {
    /// One of which nothing is known.
    pub const NEW: Self = Self {
        state: State::Tried,
        verdict: 1,
        window: Window::EMPTY,
        pairs: Pairs::NONE,
        pair: 0,
        second: None,
        random: 1,
        last_pause: 0,
    };

    /// A round begins; none: by its class alone.
    pub fn begins(&mut self) -> Option<Part> {
        match &mut self.state {
            State::Paused(left @ 1..) => {
                *left -= 1;
                return None;
            }
            State::Sure(left @ 1..) => {
                *left -= 1;
                return Some(Part {
                    has_request: true,
                    verdict: self.verdict,
                    pair: 0,
                });
            }
            State::Paused(0) | State::Sure(0) => self.enter(State::Tried),
            State::Tried => {}
        }
        let has_request = match self.second.take() {
            Some(second) => second,
            None => {
                self.pair = self.pair.wrapping_add(1).max(1);
                self.pairs.begin(self.pair);
                let first = self.random();
                self.second = Some(!first);
                first
            }
        };
        Some(Part {
            has_request,
            verdict: self.verdict,
            pair: self.pair,
        })
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.verdict = self.verdict.wrapping_add(1).max(1);
        self.window = Window::EMPTY;
        self.pairs = Pairs::NONE;
        self.second = None;
    }

    /// True or false, by chance (the generator of Numerical Recipes, its highest bit).
    fn random(&mut self) -> bool {
        self.random = self
            .random
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        self.random >> 31 != 0
    }

    /// A round is over; `time`: from its begin to the end of its work, if that is known. If it wanted a
    /// request, `outcome` is that one's, whose begin took `cost`. At the end of a window, the verdict.
    pub fn add(
        &mut self,
        part: Part,
        outcome: Outcome,
        cost: Duration,
        time: Option<Duration>,
    ) -> Option<Verdict> {
        if part.verdict != self.verdict {
            return None;
        }
        if let (1.., Some(time)) = (part.pair, time) {
            self.pairs.add(part.pair, part.has_request, time);
        }
        if part.has_request {
            self.window.add(outcome, cost);
        }
        if self.window.requests() < WINDOW {
            return None;
        }
        let is_compared = self.pairs.count() >= LEAST_PAIRS;
        let verdict = match judge(&self.window) {
            Verdict::Requests if is_compared && !self.pairs.is_gain() => {
                Verdict::Classes(Reason::NoGain)
            }
            verdict => verdict,
        };
        match verdict {
            Verdict::Requests => {
                self.last_pause = 0;
                match self.state {
                    State::Tried => self.enter(State::Sure(SURE)),
                    _ => self.window = Window::EMPTY,
                }
            }
            Verdict::Classes(_) => {
                let longer = self.last_pause.saturating_mul(2);
                self.last_pause = longer.clamp(LEAST_PAUSE, LONGEST_PAUSE);
                self.enter(State::Paused(self.last_pause));
            }
        }
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

    /// The time of a round, with a request and without, in microseconds.
    type Times = (u64, u64);

    /// Runs a round from begin to end; the verdict. False: it was by its class alone.
    fn round(site: &mut Site, outcome: Outcome, (with, without): Times) -> (bool, Option<Verdict>) {
        let Some(part) = site.begins() else {
            return (false, None);
        };
        let time = Duration::from_micros(if part.has_request { with } else { without });
        (true, site.add(part, outcome, COST, Some(time)))
    }

    /// Runs rounds of a site that has requests until there is a verdict.
    fn fill(site: &mut Site, outcome: Outcome, times: Times) -> Option<Verdict> {
        for _ in 0..3 * WINDOW {
            let (has_begun, verdict) = round(site, outcome, times);
            assert!(has_begun, "a pause: {site:?}");
            if verdict.is_some() {
                return verdict;
            }
        }
        None
    }

    /// The begins until the next one that may be a request.
    fn pause(site: &mut Site) -> u32 {
        let mut left_out = 0;
        while site.begins().is_none() {
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
                site.state = State::Paused(0);
                expected = (expected * 2).min(LONGEST_PAUSE);
            }
        }
    }

    /// Of the rounds that are sure, so many never end: the site is compared with its class again all
    /// the same.
    #[test]
    fn a_site_that_has_passed_is_tried_again() {
        for lost in [0, 1, 17, 31, 40] {
            let mut site = Site::NEW;
            let verdict = fill(&mut site, GOOD, (90, 100));
            assert_eq!(verdict, Some(Verdict::Requests));
            for at in 0..SURE {
                let part = site.begins().unwrap();
                assert!(part.has_request, "{at}");
                if at >= lost {
                    let verdict = site.add(part, GOOD, COST, Some(Duration::from_micros(90)));
                    assert!(verdict.is_none_or(|verdict| verdict == Verdict::Requests));
                }
            }
            // It gains no more.
            let verdict = fill(&mut site, GOOD, (100, 90));
            assert_eq!(verdict, Some(Verdict::Classes(Reason::NoGain)), "{lost}");
            assert_eq!(pause(&mut site), LEAST_PAUSE);
        }
    }

    #[test]
    fn rounds_of_an_earlier_state_do_not_count() {
        let mut site = Site::NEW;
        let late: Vec<_> = (0..20).filter_map(|_| site.begins()).collect();
        assert_eq!(fill(&mut site, GOOD, (90, 100)), Some(Verdict::Requests));
        let before = site;
        for part in late.into_iter().chain([Part::UNJUDGED]) {
            assert_eq!(site.add(part, Outcome::Expired, COST, None), None);
        }
        assert_eq!(site, before);
    }

    #[test]
    fn half_of_the_rounds_are_comparisons_while_a_site_is_tried() {
        let mut site = Site::NEW;
        let rounds: Vec<_> = (0..2 * WINDOW).filter_map(|_| site.begins()).collect();
        for pair in rounds.chunks(2) {
            assert!(pair[0].has_request != pair[1].has_request && pair[0].pair == pair[1].pair);
        }
        let first = rounds.iter().step_by(2);
        let first = first.filter(|part| part.has_request).count();
        assert!((8..=24).contains(&first), "{first}");
    }

    #[test]
    fn a_site_whose_times_are_unknown_is_judged_by_outcomes() {
        for known in [LEAST_PAIRS - 1, LEAST_PAIRS] {
            let mut site = Site::NEW;
            let mut verdict = None;
            while verdict.is_none() {
                let part = site.begins().unwrap();
                let time = (part.pair as usize <= known).then_some(Duration::from_micros(100));
                verdict = site.add(part, GOOD, COST, time);
            }
            let expected = match known < LEAST_PAIRS {
                true => Verdict::Requests,
                false => Verdict::Classes(Reason::NoGain),
            };
            assert_eq!(verdict, Some(expected), "{known}");
        }
    }

    #[test]
    fn a_site_that_is_sure_is_judged_by_outcomes() {
        let mut site = Site::NEW;
        assert_eq!(fill(&mut site, GOOD, (90, 100)), Some(Verdict::Requests));
        let verdict = fill(&mut site, Outcome::Expired, (90, 100));
        assert_eq!(verdict, Some(Verdict::Classes(Reason::Expired)));
        assert_eq!(site.begins(), None);
    }
}
