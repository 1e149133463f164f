// SPDX-License-Identifier: GPL-2.0 OR MIT
//! When LC has the GPU, and so a hand-over between two others costs nothing.

use super::super::super::{
    predict::{
        ema::Ema,
        Costs,
        Predictor as _, //
    },
    units::Ns, //
};

/// The LC window: the times at which LC has the GPU.
#[derive(Clone, Debug)]
pub(super) struct LcWindow {
    /// Since when LC has it, if it has.
    since: Option<Ns>,
    /// The lengths of the windows.
    lengths: Ema,
    /// GPU time that the others had since LC had it last; `None`: it never had.
    passed: Option<Ns>,
    /// When a request takes it.
    trigger: Ns,
    /// Until when a hand-over has been put off for that.
    put_off: Option<Ns>,
}

impl LcWindow {
    /// LC was never seen.
    pub(super) fn new() -> Self {
        Self {
            since: None,
            lengths: Ema::new(Ema::ALPHA),
            passed: None,
            trigger: Ns::ZERO,
            put_off: None,
        }
    }

    /// Says whether LC has the GPU at `now`.
    pub(super) fn set(&mut self, busy: bool, now: Ns) {
        match (busy, self.since) {
            (true, None) => {
                self.since = Some(now);
                self.passed = Some(Ns::ZERO);
                self.put_off = None;
            }
            (false, Some(since)) => {
                self.lengths.observe(now.saturating_sub(since));
                self.since = None;
            }
            _ => {}
        }
    }

    /// A request takes the GPU at `trigger`.
    pub(super) fn announce(&mut self, trigger: Ns) {
        self.trigger = trigger;
    }

    /// Until when to put off a hand-over that would take `time` from `now` on: until shortly after
    /// a request takes the GPU in the middle of it. But once only, until [`Self::forget`] or LC had
    /// the GPU: requests that never take it keep nobody waiting.
    pub(super) fn put_off(&mut self, now: Ns, time: Ns, shortly: Ns) -> Option<Ns> {
        let is_met = now < self.trigger && self.trigger <= now.saturating_add(time);
        if self.put_off.is_none() && is_met {
            self.put_off = Some(self.trigger.saturating_add(shortly));
        }
        self.put_off
            .filter(|&until| now < until && self.since.is_none())
    }

    /// The hand-over has begun.
    pub(super) fn forget(&mut self) {
        self.put_off = None;
    }

    /// The others had the GPU for so long.
    pub(super) fn passed(&mut self, ran: Ns) {
        self.passed = self.passed.map(|passed| passed.saturating_add(ran));
    }

    /// True if LC has the GPU.
    pub(super) fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// True if LC is expected to have the GPU once more before the others had it for `within`, for
    /// long enough for a hand-over of two calls of `cost` each.
    pub(super) fn is_expected(&self, within: Ns, cost: Ns) -> bool {
        self.passed.is_some_and(|passed| passed < within) && self.room(cost).is_some()
    }

    /// When to begin a hand-over of two calls of `cost` each, so that it falls into the middle of
    /// the time for which LC has the GPU now.
    pub(super) fn middle(&self, cost: Ns) -> Option<Ns> {
        Some(self.since?.saturating_add(Ns(self.room(cost)?.0 / 2)))
    }

    /// The usual time of a window beyond such a hand-over. Half a call is the least, as calls do
    /// not all take the same time.
    fn room(&self, cost: Ns) -> Option<Ns> {
        let length = self.lengths.predict(Costs::default())?;
        let room = length.0.checked_sub(cost.0.saturating_mul(2))?;
        (room >= cost.0 / 2).then_some(Ns(room))
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(
    not(test),
    kernel::macros::kunit_tests(zernel_policy_rotation_lc_window)
)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    /// LC had the GPU three times for a millisecond, and has it once more.
    fn window(cost: Ns) -> LcWindow {
        let mut window = LcWindow::new();
        assert!(!window.is_on() && !window.is_expected(Ns(u64::MAX), cost));
        for n in 0..3 {
            assert_eq!(window.middle(cost), None);
            window.set(true, Ns(n * 10_000 * US));
            // Said again, nothing is new.
            window.set(true, Ns(n * 10_000 * US + 500 * US));
            window.set(false, Ns(n * 10_000 * US + 1_000 * US));
            window.set(false, Ns(n * 10_000 * US + 2_000 * US));
        }
        window.set(true, Ns(30_000 * US));
        window
    }

    #[test]
    fn a_hand_over_falls_into_the_middle() {
        let cost = Ns(250 * US);
        let window = window(cost);
        assert!(window.is_on());
        assert_eq!(window.middle(cost), Some(Ns(30_250 * US)));
    }

    #[test]
    fn a_hand_over_is_put_off_once_for_a_request() {
        let mut window = LcWindow::new();
        let put_off = |window: &mut LcWindow, now: u64| {
            window.put_off(Ns(now * US), Ns(500 * US), Ns(50 * US))
        };
        assert_eq!(put_off(&mut window, 0), None);
        window.announce(Ns(1_000 * US));
        assert_eq!(put_off(&mut window, 499), None);
        let until = Some(Ns(1_050 * US));
        assert_eq!(put_off(&mut window, 500), until);
        assert_eq!(put_off(&mut window, 1_049), until);
        // It never came, nor does the next one count.
        window.announce(Ns(1_200 * US));
        for now in [1_050, 1_100, 1_199] {
            assert_eq!(put_off(&mut window, now), None);
        }
        window.forget();
        assert_eq!(put_off(&mut window, 1_199), Some(Ns(1_250 * US)));
        // When LC has the GPU there is nothing to wait for.
        window.set(true, Ns(1_200 * US));
        assert_eq!(put_off(&mut window, 1_201), None);
    }

    #[test]
    fn what_lc_has_no_time_for_is_not_begun() {
        let longest = Ns(400 * US);
        assert_eq!(window(longest).middle(longest), Some(Ns(30_100 * US)));
        for cost in [401 * US, 500 * US, 501 * US, u64::MAX] {
            assert_eq!(window(Ns(cost)).middle(Ns(cost)), None);
            assert!(!window(Ns(cost)).is_expected(Ns(u64::MAX), Ns(cost)));
        }
    }

    #[test]
    fn lc_is_expected_where_it_was_seen_of_late() {
        let cost = Ns(250 * US);
        let mut window = window(cost);
        window.set(false, Ns(31_000 * US));
        for _ in 0..3 {
            assert!(window.is_expected(Ns(3_001 * US), cost));
            window.passed(Ns(1_000 * US));
        }
        assert!(window.is_expected(Ns(3_001 * US), cost));
        assert!(!window.is_expected(Ns(3_000 * US), cost));
        window.passed(Ns(u64::MAX));
        assert!(!window.is_expected(Ns(3_001 * US), cost));
        window.set(true, Ns(50_000 * US));
        assert!(window.is_expected(Ns(1), cost));
    }
}
