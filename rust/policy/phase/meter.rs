// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The share of time for which a GPU is busy for one TSG, from one look to the next.

use super::super::units::{
    Ns,
    Permille, //
};

/// The state of a TSG at a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// GPU time that it had since it was made.
    pub(crate) ran: Ns,
    /// True if it has something to run.
    pub(crate) pending: bool,
    /// Since when that is so, if that is known.
    pub(crate) since: Option<Ns>,
}

/// The last look at a TSG, and its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meter {
    last: Option<(Ns, Look)>,
    share: Permille,
    synced: Option<Ns>,
}

impl Meter {
    /// Nothing is known.
    pub(crate) const NEW: Self = Self {
        last: None,
        share: Permille(0),
        synced: None,
    };

    /// Takes in a look at `now`.
    ///
    /// The GPU was busy for the time that the TSG ran, or for which it had something to run: of two
    /// that share the GPU each waits for all of the time. Between two looks only the last change is
    /// known; of earlier work only its GPU time.
    pub(crate) fn look(&mut self, now: Ns, look: Look) {
        let Some((at, before)) = self.last.replace((now, look)) else {
            if look.pending {
                // Nothing is known of the time before.
                self.share = Permille(1000);
            }
            return;
        };
        let time = now.saturating_sub(at);
        let ran = look.ran.saturating_sub(before.ran);
        // When it was last found to change: within the time between both looks.
        let since = look.since.map(|since| since.max(at).min(now));
        let pending = match (before.pending, look.pending) {
            (true, true) => match look.since {
                // It has run out of work meanwhile.
                Some(since) if since > at => now.saturating_sub(since),
                _ => time,
            },
            (false, true) => since.map_or(Ns::ZERO, |since| now.saturating_sub(since)),
            (true, false) => since.map_or(Ns::ZERO, |since| since.saturating_sub(at)),
            (false, false) => Ns::ZERO,
        };
        let busy = ran.max(pending).min(time);
        self.share = Permille::of(busy.0, time.0);
        let is_new = look.since.is_some_and(|since| since > at && since <= now);
        let is_done = match look.pending {
            // There is more since then, and so it was done before.
            true => before.pending && is_new,
            false => before.pending || ran > Ns::ZERO,
        };
        if is_done {
            self.synced = Some(since.unwrap_or(now));
        }
    }

    /// The TSG could not be looked at: it does nothing, as far as known.
    pub(crate) fn lose(&mut self) {
        self.last = None;
        self.share = Permille(0);
    }

    /// Share of the time between the last two looks for which the GPU was busy.
    pub(crate) fn share(&self) -> Permille {
        self.share
    }

    /// Since when it has something to run, at the latest; `None` if it has not.
    pub(crate) fn pending(&self) -> Option<Ns> {
        let (at, look) = self.last.filter(|(_, look)| look.pending)?;
        Some(look.since.map_or(at, |since| since.min(at)))
    }

    /// When its work was done last, at the latest, if that was seen.
    pub(crate) fn synced(&self) -> Option<Ns> {
        self.synced
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_phase_meter))]
mod tests {
    use super::*;

    fn look(ran: u64, pending: bool, since: u64) -> Look {
        Look {
            ran: Ns(ran),
            pending,
            since: (since > 0).then_some(Ns(since)),
        }
    }

    #[test]
    fn who_waits_for_the_gpu_keeps_it_busy() {
        let mut meter = Meter::NEW;
        meter.look(Ns(1_000), look(0, false, 0));
        for (now, seen, share) in [
            // Work comes at 1,600.
            (2_000, look(100, true, 1_600), 400),
            // It ran for a fifth, and others for the rest.
            (3_000, look(300, true, 1_600), 1000),
            // It is done at 3,300.
            (4_000, look(400, false, 3_300), 300),
            (5_000, look(400, false, 3_300), 0),
            // It came and went.
            (6_000, look(650, false, 5_800), 250),
            // It was done for a while in between.
            (7_000, look(660, true, 6_900), 100),
            (8_000, look(1_460, true, 7_950), 800),
        ] {
            meter.look(Ns(now), seen);
            assert_eq!(meter.share(), Permille(share));
            assert_eq!(meter.pending(), seen.since.filter(|_| seen.pending));
        }
    }

    #[test]
    fn the_end_of_work_is_seen() {
        let mut meter = Meter::NEW;
        meter.look(Ns(1_000), look(0, false, 900));
        assert_eq!(meter.synced(), None);
        meter.look(Ns(2_000), look(10, true, 1_900));
        assert_eq!(meter.synced(), None);
        meter.look(Ns(3_000), look(500, false, 2_500));
        assert_eq!(meter.synced(), Some(Ns(2_500)));
        meter.look(Ns(4_000), look(500, false, 2_500));
        assert_eq!(meter.synced(), Some(Ns(2_500)));
        // There is new work, and more after that is done.
        meter.look(Ns(4_200), look(500, true, 4_100));
        assert_eq!(meter.synced(), Some(Ns(2_500)));
        meter.look(Ns(4_400), look(600, true, 4_300));
        assert_eq!(meter.synced(), Some(Ns(4_300)));
        meter.look(Ns(4_500), look(600, false, 4_450));
        // Between two looks, and the provider does not tell when.
        meter.look(Ns(5_000), look(700, false, 0));
        assert_eq!(meter.synced(), Some(Ns(5_000)));
    }

    #[test]
    fn what_makes_no_sense_is_within_bounds() {
        let mut meter = Meter::NEW;
        meter.look(Ns(1_000), look(5_000, true, 9_000));
        assert_eq!(meter.share(), Permille(1000));
        // The clock stands, the time that it ran goes back, since when lies ahead.
        meter.look(Ns(1_000), look(0, true, 9_000));
        assert_eq!(meter.share(), Permille(0));
        meter.look(Ns(2_000), look(u64::MAX, true, 9_000));
        assert_eq!(meter.share(), Permille(1000));
        meter.lose();
        assert_eq!((meter.share(), meter.synced()), (Permille(0), None));
    }
}
