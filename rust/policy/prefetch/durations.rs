// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The last durations of a kind, in the order of their length.

use super::super::{
    predict::{
        ema::Ema,
        Costs,
        Predictor as _, //
    },
    units::{
        Ns,
        Ppm, //
    },
};

/// The last durations, at most [`Self::MOST`].
///
/// # Invariants
///
/// `len <= MOST`. The first `len` of `order` name the durations kept in `recent`, which are `len` from
/// `oldest` on and around the end, each once and in ascending order.
#[derive(Clone, Debug)]
pub(crate) struct Durations {
    recent: [Ns; Self::MOST],
    order: [u8; Self::MOST],
    oldest: usize,
    len: usize,
    mean: Ema,
}

impl Durations {
    /// The most that are kept.
    pub(crate) const MOST: usize = 128;

    /// Nothing is known.
    pub(crate) const NEW: Self = Self {
        recent: [Ns::ZERO; Self::MOST],
        order: [0; Self::MOST],
        oldest: 0,
        len: 0,
        mean: Ema::new(Ema::ALPHA),
    };

    /// The number that is kept.
    #[allow(dead_code, reason = "the tests ask")]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Takes one in, and forgets the oldest beyond `most`.
    pub(crate) fn observe(&mut self, took: Ns, most: usize) {
        let most = most.clamp(1, Self::MOST);
        while self.len >= most {
            self.forget();
        }
        let place = self.oldest.saturating_add(self.len) % Self::MOST;
        let at = self.kept().partition_point(|&one| self.named(one) < took);
        let end = self.len.saturating_add(1);
        if let Some(part) = self.order.get_mut(at..end) {
            part.rotate_right(1);
            if let Some(first) = part.first_mut() {
                // Below 128.
                *first = place as u8;
            }
        }
        if let Some(slot) = self.recent.get_mut(place) {
            *slot = took;
        }
        self.len = end;
        self.mean.observe(took);
    }

    /// Forgets the oldest.
    fn forget(&mut self) {
        let oldest = self.oldest;
        let at = self
            .kept()
            .iter()
            .position(|&one| usize::from(one) == oldest);
        if let Some(part) = at.and_then(|at| self.order.get_mut(at..self.len)) {
            part.rotate_left(1);
        }
        self.oldest = oldest.saturating_add(1) % Self::MOST;
        self.len = self.len.saturating_sub(1);
    }

    /// Those kept, the shortest first.
    fn kept(&self) -> &[u8] {
        self.order.get(..self.len).unwrap_or_default()
    }

    /// The duration at a place.
    fn named(&self, place: u8) -> Ns {
        let found = self.recent.get(usize::from(place));
        found.copied().unwrap_or_default()
    }

    /// The exponential moving average of all that there were; `None` if there was none.
    pub(crate) fn mean(&self) -> Option<Ns> {
        self.mean.predict(Costs::default())
    }

    /// The duration that such a share of those kept does not exceed: the shortest for 0, the
    /// longest for [`Ppm::ONE`].
    pub(crate) fn fractile(&self, share: Ppm) -> Option<Ns> {
        let rank = share.of_rounded_up(self.len as u64).max(1) as usize;
        let place = self.kept().get(rank.saturating_sub(1))?;
        Some(self.named(*place))
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(
    not(test),
    kernel::macros::kunit_tests(zernel_policy_prefetch_durations)
)]
mod tests {
    use super::*;

    const HALF: Ppm = Ppm(500_000);

    #[test]
    fn nothing_is_told_of_nothing() {
        let durations = Durations::NEW;
        assert_eq!(durations.fractile(HALF), None);
        assert_eq!(durations.mean(), None);
        assert_eq!(durations.len(), 0);
    }

    #[test]
    fn fractiles_are_of_the_last_ones() {
        let mut durations = Durations::NEW;
        for took in [900, 50, 30, 10, 40, 20] {
            durations.observe(Ns(took), 5);
        }
        // 900 is the oldest of six.
        for (share, took) in [
            (0, 10),
            (200_000, 10),
            (200_001, 20),
            (500_000, 30),
            (800_000, 40),
            (1_000_000, 50),
        ] {
            assert_eq!(durations.fractile(Ppm(share)), Some(Ns(took)));
        }
    }

    #[test]
    fn fewer_can_be_asked_for_than_there_are() {
        let mut durations = Durations::NEW;
        for took in 1..=10 {
            durations.observe(Ns(took), 10);
        }
        durations.observe(Ns(99), 3);
        assert_eq!(durations.len(), 3);
        assert_eq!(durations.fractile(Ppm(0)), Some(Ns(9)));
        durations.observe(Ns(5), 0);
        assert_eq!(durations.len(), 1);
        assert_eq!(durations.fractile(HALF), Some(Ns(5)));
    }

    #[test]
    fn no_more_are_kept_than_there_is_room_for() {
        let mut durations = Durations::NEW;
        for took in 0..3_000 {
            durations.observe(Ns(3_000 - took), usize::MAX);
        }
        assert_eq!(durations.len(), Durations::MOST);
        assert_eq!(durations.fractile(Ppm(0)), Some(Ns(1)));
        assert_eq!(durations.fractile(Ppm::ONE), Some(Ns(128)));
    }

    #[test]
    fn equal_ones_are_forgotten_one_by_one() {
        let mut durations = Durations::NEW;
        for took in [7, 7, 7, 1, 1] {
            durations.observe(Ns(took), 3);
        }
        assert_eq!(durations.fractile(HALF), Some(Ns(1)));
        assert_eq!(durations.fractile(Ppm::ONE), Some(Ns(7)));
    }
}
