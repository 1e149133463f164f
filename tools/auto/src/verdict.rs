// SPDX-License-Identifier: MIT OR Apache-2.0
//! The decision for a call site: requests, or classes alone.

use std::time::Duration;

/// Requests of a site before it is judged.
pub const WINDOW: u32 = 32;

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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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

/// The statistics of a call site.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Site {
    window: Window,
    /// Begins that are still to be left out.
    pause: u32,
    /// The length of the last pause; 0 after a verdict for requests.
    last_pause: u32,
}

impl Site {
    /// One of which nothing is known.
    pub const NEW: Self = Self {
        window: Window {
            launched: 0,
            held: 0,
            expired: 0,
            unused: 0,
            refused: 0,
            short: 0,
        },
        pause: 0,
        last_pause: 0,
    };

    /// A request could begin now: true if one is to.
    pub fn begins(&mut self) -> bool {
        let is_over = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        is_over
    }

    /// A request is over, the begin of which took `cost`. At the end of a window, the verdict.
    pub fn add(&mut self, outcome: Outcome, cost: Duration) -> Option<Verdict> {
        self.window.add(outcome, cost);
        if self.window.requests() < WINDOW {
            return None;
        }
        let verdict = judge(&self.window);
        self.window = Window::default();
        match verdict {
            Verdict::Requests => self.last_pause = 0,
            Verdict::Classes(_) => {
                let longer = self.last_pause.saturating_mul(2);
                self.last_pause = longer.clamp(LEAST_PAUSE, LONGEST_PAUSE);
                self.pause = self.last_pause;
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
        let mut window = Window::default();
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

    /// Fills a window of a site that has requests; the verdict.
    fn fill(site: &mut Site, outcome: Outcome) -> Option<Verdict> {
        for _ in 1..WINDOW {
            assert!(site.begins());
            assert_eq!(site.add(outcome, COST), None);
        }
        assert!(site.begins());
        site.add(outcome, COST)
    }

    /// The begins until the next one that is a request.
    fn pause(site: &mut Site) -> u32 {
        let mut left_out = 0;
        while !site.begins() {
            left_out += 1;
        }
        left_out
    }

    #[test]
    fn a_site_without_gain_pauses_ever_longer() {
        let mut site = Site::NEW;
        let mut expected = LEAST_PAUSE;
        for _ in 0..12 {
            let verdict = fill(&mut site, Outcome::Expired);
            assert_eq!(verdict, Some(Verdict::Classes(Reason::Expired)));
            assert_eq!(pause(&mut site.clone()), expected);
            // The last begin of the pause is the first of the next window.
            assert_eq!(pause(&mut site), expected);
            expected = (expected * 2).min(LONGEST_PAUSE);
        }
    }

    #[test]
    fn a_site_that_gains_again_has_requests_again() {
        let mut site = Site::NEW;
        let _ = fill(&mut site, Outcome::Unused);
        let _ = pause(&mut site);
        let good = launched(100, true);
        assert_eq!(fill(&mut site, good), Some(Verdict::Requests));
        assert_eq!(pause(&mut site), 0);
        // The next pause is a first one.
        let _ = fill(&mut site, Outcome::Unused);
        assert_eq!(pause(&mut site), LEAST_PAUSE);
    }
}
