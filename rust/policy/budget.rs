// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The bound on the GPU time of the levels above best-effort: a runtime budget per period.
//!
//! One [`Server`] per level and run list is a sporadic server (Sprunt, Sha and Lehoczky, 1989; the
//! one of POSIX' `SCHED_SPORADIC`): the GPU time of a level is taken from its budget, and comes
//! back one period after its begin. In any window of one period a level then runs for at most
//!
//! > budget + the longest time between two charges
//!
//! and, before BE gets its turn, until its slice is lowered: BE waits for no more than that. The
//! engine keeps that small by charging again after the time of [`State::Free`]. A level that needs
//! less than its budget in any window of 16/15 periods is never throttled.
//!
//! The engine gives a throttled level the slice of BE until its budget is back. Time in such a
//! slice is not charged, as the level then takes its turn like BE; time until the slice is lowered is. The run time of a level is also
//! charged to the servers of the less urgent levels, which bounds all levels together: the last
//! server counts all that keeps BE waiting.

use super::{
    level::Level,
    refused::Refused,
    units::Ns, //
};

/// Replenishments that can be pending. They are at least a 15th of a period apart, two of them
/// that are closer being merged at the time of the later, and none is pending for longer than a
/// period: there is always room.
const PIECES: usize = 16;

/// A budget and its period.
///
/// # Invariants
///
/// The period lies within [`Params::PERIOD_RANGE`], the budget between [`Params::BUDGET_MIN`] and
/// the period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Params {
    budget: Ns,
    period: Ns,
}

impl Params {
    /// Periods that can be asked for: 1 ms, a few slices of BE, to 10 s, the longest slice.
    pub(crate) const PERIOD_RANGE: (Ns, Ns) = (Ns(1_000_000), Ns(10_000_000_000));
    /// The least budget: 1 ms. One of nothing would be a level below BE.
    pub(crate) const BUDGET_MIN: Ns = Ns(1_000_000);

    /// A budget per period.
    pub(crate) fn new(budget: Ns, period: Ns) -> Result<Self, Refused> {
        let (min, max) = Self::PERIOD_RANGE;
        if period < min || period > max || budget < Self::BUDGET_MIN || budget > period {
            return Err(Refused::OutOfRange);
        }
        // INVARIANT: Just checked.
        Ok(Self { budget, period })
    }

    /// The parameters of a level until it is tuned; `None`: it runs without a bound, as BE does.
    ///
    /// 95 % is the share of Linux' own real-time tasks (`sched_rt_runtime_us`); the period is a
    /// tenth of theirs, for a GPU request is short.
    pub(crate) fn default_of(level: Level) -> Option<Self> {
        // INVARIANT: 1 ms <= 95 ms <= 100 ms <= 10 s.
        (level != Level::BE).then_some(Self {
            budget: Ns(95_000_000),
            period: Ns(100_000_000),
        })
    }

    /// The runtime per period.
    pub(crate) fn budget(self) -> Ns {
        self.budget
    }

    /// The period.
    pub(crate) fn period(self) -> Ns {
        self.period
    }

    /// True if the budget is the whole period, so that nothing is bounded.
    fn is_all(self) -> bool {
        self.budget >= self.period
    }

    /// The distance of replenishments, rounded up so that `PIECES - 1` of them fill a period.
    fn grain(self) -> u64 {
        self.period.0.div_ceil(PIECES as u64 - 1).max(1)
    }

    /// The budget that has to be back before a throttled level goes on: less is not worth two
    /// changes of a time slice.
    fn resume(self) -> u64 {
        (self.budget.0 / 16).max(1)
    }
}

/// The permission of a level to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not with its own slice before `until`.
    Throttled {
        /// When enough of the budget is back.
        until: Ns,
    },
    /// For `left` of runtime at least.
    Free {
        /// The rest of the budget now.
        left: Ns,
    },
}

/// Runtime that comes back together.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    /// When it was begun; it comes back one period later.
    begin: u64,
    /// The time.
    ran: u64,
}

/// The budget of one level on one run list.
///
/// # Invariants
///
/// `len <= PIECES`; the first `len` pieces are those that are pending, in the order of `begin`, and
/// `used` is their sum.
#[derive(Debug)]
pub(crate) struct Server {
    params: Params,
    pieces: [Piece; PIECES],
    len: usize,
    used: u64,
    /// The end of the last time charged.
    end: u64,
    throttled: bool,
    throttles: u64,
}

impl Server {
    /// A server with a full budget.
    pub(crate) fn new(params: Params) -> Self {
        // INVARIANT: Nothing is pending.
        Self {
            params,
            pieces: [Piece::default(); PIECES],
            len: 0,
            used: 0,
            end: 0,
            throttled: false,
            throttles: 0,
        }
    }

    /// Changes budget and period. Spent time comes back one new period after its begin.
    pub(crate) fn set_params(&mut self, params: Params) {
        self.params = params;
    }

    /// Budget and period.
    #[allow(dead_code, reason = "the simulation and the tests on the host ask")]
    pub(crate) fn params(&self) -> Params {
        self.params
    }

    /// Times that the level was throttled.
    #[allow(dead_code, reason = "the simulation and the tests on the host ask")]
    pub(crate) fn throttles(&self) -> u64 {
        self.throttles
    }

    /// Takes `ran` from the budget: runtime since the last charge, up to `now`.
    ///
    /// Time does not go backwards; a `now` before the last one counts as the last one.
    pub(crate) fn charge(&mut self, now: Ns, ran: Ns) -> State {
        let now = Ns(now.0.max(self.end));
        self.expire(now);
        // Older runtime would be back already.
        let mut rest = ran.0.min(self.params.period.0);
        // The latest possible begin: time that comes back too late errs on BE's side.
        let mut begin = now.0.saturating_sub(rest).max(self.end);
        while rest > 0 {
            let cell_end = self.cell(begin).saturating_add(1);
            let cell_end = cell_end.saturating_mul(self.params.grain());
            let part = if cell_end >= now.0 {
                rest
            } else {
                rest.min(cell_end.saturating_sub(begin))
            };
            self.add(begin, part);
            rest = rest.saturating_sub(part);
            begin = begin.saturating_add(part).min(now.0);
            self.end = begin;
        }
        if ran > Ns::ZERO {
            self.end = now.0;
        }
        let state = self.state(now);
        let is_free = matches!(state, State::Free { .. });
        if is_free || self.throttled {
            self.throttled = !is_free;
            return state;
        }
        self.throttled = true;
        self.throttles = self.throttles.saturating_add(1);
        // More has to be back now.
        self.state(now)
    }

    /// The state of the level at `now`.
    pub(crate) fn state(&self, now: Ns) -> State {
        let Params { budget, period } = self.params;
        if self.params.is_all() {
            return State::Free { left: budget };
        }
        let enough = if self.throttled {
            self.params.resume()
        } else {
            1
        };
        let mut used = self.used;
        let mut at = now.0;
        for piece in self.pending() {
            let back = piece.begin.saturating_add(period.0);
            if back > at {
                if budget.0.saturating_sub(used) >= enough {
                    break;
                }
                at = back;
            }
            used = used.saturating_sub(piece.ran);
        }
        if at > now.0 {
            State::Throttled { until: Ns(at) }
        } else {
            State::Free {
                left: Ns(budget.0.saturating_sub(used)),
            }
        }
    }

    fn pending(&self) -> impl Iterator<Item = &Piece> {
        self.pieces.iter().take(self.len)
    }

    /// The part of the time line in which replenishments are merged.
    fn cell(&self, at: u64) -> u64 {
        at.checked_div(self.params.grain()).unwrap_or(0)
    }

    /// Forgets the pieces that are back.
    fn expire(&mut self, now: Ns) {
        let period = self.params.period.0;
        let back = self
            .pending()
            .take_while(|p| p.begin.saturating_add(period) <= now.0)
            .count();
        self.drop_first(back);
    }

    fn drop_first(&mut self, count: usize) {
        let count = count.min(self.len);
        if count == 0 {
            return;
        }
        for piece in self.pieces.iter().take(count) {
            self.used = self.used.saturating_sub(piece.ran);
        }
        self.pieces.copy_within(count..self.len, 0);
        // INVARIANT: Those that are left moved to the front.
        self.len -= count;
    }

    /// Notes runtime from `begin` on, which is not before the end of the last.
    fn add(&mut self, begin: u64, ran: u64) {
        let cell = self.cell(begin);
        let last = self.len.checked_sub(1).and_then(|i| self.pieces.get(i));
        let (goes_on, same_cell) = (
            begin == self.end,
            last.is_some_and(|p| self.cell(p.begin) == cell),
        );
        if !same_cell && self.len == PIECES {
            // Only after a change of the period. The oldest two come back together.
            let oldest = self.pieces.first().map_or(0, |p| p.ran);
            self.drop_first(1);
            if let Some(first) = self.pieces.first_mut() {
                first.ran = first.ran.saturating_add(oldest);
            }
            self.used = self.used.saturating_add(oldest);
        }
        if !same_cell {
            // INVARIANT: A full array has just lost a piece.
            self.len = self.len.saturating_add(1).min(PIECES);
        }
        let at = self.len.saturating_sub(1);
        if let Some(piece) = self.pieces.get_mut(at) {
            self.used = self.used.saturating_add(ran);
            *piece = if same_cell {
                Piece {
                    // Time without a pause can come back as fast as it was taken.
                    begin: if goes_on { piece.begin } else { begin },
                    ran: piece.ran.saturating_add(ran),
                }
            } else {
                Piece { begin, ran }
            };
        }
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_budget))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn ms(n: u64) -> Ns {
        Ns(n * MS)
    }

    fn server(budget: u64, period: u64) -> Server {
        let mut server = Server::new(Params {
            budget: ms(100),
            period: ms(100),
        });
        if let Ok(params) = Params::new(ms(budget), ms(period)) {
            server.set_params(params);
        }
        server
    }

    fn free(left: u64) -> State {
        State::Free { left: ms(left) }
    }

    fn until(at: u64) -> State {
        State::Throttled { until: ms(at) }
    }

    #[test]
    fn every_level_but_be_has_a_budget() {
        for level in Level::ALL {
            let params = Params::default_of(level);
            assert_eq!(params.is_none(), level == Level::BE);
            if let Some(p) = params {
                assert_eq!((p.budget(), p.period()), (ms(95), ms(100)));
                assert_eq!(Params::new(p.budget(), p.period()), Ok(p));
            }
        }
    }

    #[test]
    fn nothing_and_more_than_all_are_refused() {
        let bad = [
            (Ns::ZERO, ms(100)),
            (Ns(MS - 1), ms(100)),
            (ms(101), ms(100)),
            (ms(1), Ns(MS - 1)),
            (ms(1), ms(10_001)),
            (Ns(u64::MAX), Ns(u64::MAX)),
        ];
        for (budget, period) in bad {
            assert_eq!(Params::new(budget, period), Err(Refused::OutOfRange));
        }
        assert!(Params::new(ms(1), ms(1)).is_ok());
        assert!(Params::new(ms(10_000), ms(10_000)).is_ok());
    }

    #[test]
    fn one_stretch_comes_back_as_it_was_taken() {
        let mut s = server(90, 150);
        assert_eq!(s.state(ms(0)), free(90));
        assert_eq!(s.charge(ms(1_000), ms(50)), free(40));
        assert_eq!(s.charge(ms(1_040), ms(40)), until(1_100));
        assert_eq!(s.throttles(), 1);
    }

    #[test]
    fn a_crumb_of_the_budget_is_not_worth_it() {
        let mut s = server(90, 150);
        // A 15th of the period is 10 ms, a 16th of the budget 5.6 ms: 2 ms, then 10 ms come back.
        assert_eq!(s.charge(ms(98), ms(90)), until(160));
        assert_eq!(s.state(ms(159)), until(160));
        assert_eq!(s.state(ms(160)), free(12));
    }

    #[test]
    fn a_busy_level_pauses_for_the_rest_of_each_period() {
        let mut s = server(90, 150);
        // A 15th of the period is 10 ms, so that nothing is rounded.
        for round in 0..5 {
            let begin = 150 * round;
            for step in 1..90 {
                let state = s.charge(ms(begin + step), ms(1));
                assert!(matches!(state, State::Free { .. }));
            }
            assert_eq!(s.charge(ms(begin + 90), ms(1)), until(begin + 150));
            assert_eq!(s.state(ms(begin + 149)), until(begin + 150));
            assert_eq!(s.state(ms(begin + 150)), free(10));
        }
        assert_eq!(s.throttles(), 5);
    }

    #[test]
    fn what_is_overrun_is_owed() {
        let mut s = server(10, 150);
        assert_eq!(s.charge(ms(20), ms(20)), until(160));
        // Half of it was begun at 10 ms.
        assert_eq!(s.state(ms(150)), until(160));
        assert_eq!(s.state(ms(160)), free(10));
    }

    #[test]
    fn close_pieces_come_back_with_the_last() {
        let mut s = server(10, 150);
        assert_eq!(s.charge(ms(1), ms(1)), free(9));
        assert_eq!(s.charge(ms(9), ms(1)), free(8));
        assert_eq!(s.state(ms(150)), free(8));
        assert_eq!(s.state(ms(157)), free(8));
        assert_eq!(s.state(ms(158)), free(10));
    }

    #[test]
    fn all_of_it_is_never_throttled() {
        let mut s = server(100, 100);
        for at in 1..1000 {
            assert_eq!(s.charge(ms(at), ms(1)), free(100));
        }
        assert_eq!(s.throttles(), 0);
        // The past counts when that changes.
        if let Ok(params) = Params::new(ms(50), ms(100)) {
            s.set_params(params);
        }
        assert!(matches!(s.state(ms(999)), State::Throttled { .. }));
        assert_eq!(s.params().budget(), ms(50));
    }

    #[test]
    fn a_shorter_period_finds_room() {
        let mut s = server(900, 1_000);
        for at in 1..60 {
            s.charge(ms(20 * at), ms(1));
        }
        if let Ok(params) = Params::new(ms(9_000), ms(10_000)) {
            s.set_params(params);
        }
        for at in 1..60 {
            s.charge(ms(2_000 + 700 * at), ms(1));
        }
        assert!(s.len <= PIECES);
        assert_eq!(s.used, s.pending().map(|piece| piece.ran).sum::<u64>());
    }

    #[test]
    fn a_clock_that_stands_or_turns_back_does_no_harm() {
        let mut s = server(10, 100);
        assert_eq!(s.charge(ms(50), ms(4)), free(6));
        assert_eq!(s.charge(ms(50), ms(4)), free(2));
        assert!(matches!(s.charge(ms(10), ms(4)), State::Throttled { .. }));
        for _ in 0..40 {
            s.charge(Ns(u64::MAX), Ns(u64::MAX));
        }
        assert!(s.len <= PIECES);
    }
}
