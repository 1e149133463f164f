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
//! less than its budget in any window of 61/60 periods is never throttled.
//!
//! The engine gives a throttled level the slice of BE until its budget is back. Time in such a
//! slice is not charged, as the level then takes its turn like BE; time until the slice is lowered is. The run time of a level is also
//! charged to the servers of the less urgent levels, which bounds all levels together: the last
//! server counts all that keeps BE waiting.
//!
//! As long as BE has its turns anyway ([`Server::serve`]), a level goes on beyond its budget for as long
//! as BE has run. That time is not charged either.

mod credit;
mod params;

pub(crate) use self::params::Params;
use self::{
    credit::Credit,
    params::PIECES, //
};
use super::units::Ns;

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
    credit: Credit,
    throttled: bool,
    /// When it was throttled last.
    since: u64,
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
            credit: Credit::default(),
            throttled: false,
            since: 0,
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

    /// Takes in the GPU time that BE has had until `now`; `None`: nobody knows.
    pub(crate) fn serve(&mut self, now: Ns, ran: Option<Ns>) {
        // Beside a throttled level it has its slices already.
        let counts = !self.throttled;
        self.credit.see(now, ran, counts, self.params.most_credit());
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
        if !self.throttled {
            self.pay(now);
        }
        let state = self.state(now);
        let is_free = matches!(state, State::Free { .. });
        if is_free || self.throttled {
            self.throttled = !is_free;
            return state;
        }
        self.throttled = true;
        self.since = now.0;
        self.throttles = self.throttles.saturating_add(1);
        // More has to be back now.
        self.state(now)
    }

    /// Time beyond the budget is that of BE, as far as there is such.
    fn pay(&mut self, now: Ns) {
        let (saved, _) = self.credit.left(now, self.params.gap());
        let over = self.used.saturating_sub(self.params.budget.0).min(saved);
        self.credit.pay(over);
        let mut rest = over;
        for piece in self.pieces.iter_mut().take(self.len).rev() {
            let part = piece.ran.min(rest);
            piece.ran = piece.ran.saturating_sub(part);
            rest = rest.saturating_sub(part);
        }
        // INVARIANT: Taken from the pieces.
        self.used = self.used.saturating_sub(over);
    }

    /// The state of the level at `now`.
    pub(crate) fn state(&self, now: Ns) -> State {
        let Params { budget, period } = self.params;
        if self.params.is_all() {
            return State::Free { left: budget };
        }
        let over = self.used.saturating_sub(budget.0);
        let (saved, time) = self.credit.left(now, self.params.gap());
        if !self.throttled && self.used >= budget.0 && saved > over && time > 0 {
            return State::Free {
                left: Ns(saved.saturating_sub(over).min(time)),
            };
        }
        let resume = self.params.resume();
        let rested = match self.throttled {
            true => self.since.saturating_add(resume),
            false => 0,
        };
        let mut used = self.used;
        let mut at = now.0;
        for piece in self.pending() {
            let back = piece.begin.saturating_add(period.0);
            if back > at {
                let left = budget.0.saturating_sub(used);
                if left > 0 && (left >= resume || rested <= at) {
                    break;
                }
                if left > 0 && rested < back {
                    at = rested;
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

    fn params(budget: u64, period: u64) -> Params {
        // Never: it would be one that bounds nothing.
        Params::new(ms(budget), ms(period)).unwrap_or(Params::ALL)
    }

    fn server(budget: u64, period: u64) -> Server {
        Server::new(params(budget, period))
    }

    fn free(left: u64) -> State {
        State::Free { left: ms(left) }
    }

    fn until(at: u64) -> State {
        State::Throttled { until: ms(at) }
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
    fn a_short_pause_is_not_worth_it() {
        // A 60th of the period is 1.7 ms, a 16th of the budget 6 ms.
        let mut s = server(96, 100);
        assert_eq!(s.charge(ms(96), ms(96)), until(102));
        assert_eq!(s.state(ms(101)), until(102));
        let back = 2 * ms(100).0.div_ceil(60);
        assert_eq!(s.state(ms(102)), State::Free { left: Ns(back) });
        // Unless so much is back.
        let mut s = server(90, 600);
        assert_eq!(s.charge(ms(98), ms(90)), until(608));
        s.charge(ms(609), ms(0));
        assert_eq!(s.charge(ms(611), ms(2)), free(10));
        assert_eq!(s.charge(ms(618), ms(8)), free(2));
        assert_eq!(s.charge(ms(620), ms(2)), free(10));
    }

    #[test]
    fn a_busy_level_pauses_for_the_rest_of_each_period() {
        let mut s = server(90, 150);
        // A 60th of the period is 2.5 ms, so that nothing is rounded.
        for round in 0..5 {
            let begin = 150 * round;
            for step in 1..90 {
                let state = s.charge(ms(begin + step), ms(1));
                assert!(matches!(state, State::Free { .. }));
            }
            assert_eq!(s.charge(ms(begin + 90), ms(1)), until(begin + 150));
            assert_eq!(s.state(ms(begin + 149)), until(begin + 150));
            let left = Ns(2_500_000);
            assert_eq!(s.state(ms(begin + 150)), State::Free { left });
        }
        assert_eq!(s.throttles(), 5);
    }

    #[test]
    fn what_is_overrun_is_owed() {
        let mut s = server(10, 600);
        assert_eq!(s.charge(ms(20), ms(20)), until(610));
        // Half of it was begun at 10 ms.
        assert_eq!(s.state(ms(600)), until(610));
        assert_eq!(s.state(ms(610)), free(10));
    }

    #[test]
    fn close_pieces_come_back_with_the_last() {
        let mut s = server(10, 600);
        assert_eq!(s.charge(ms(1), ms(1)), free(9));
        assert_eq!(s.charge(ms(9), ms(1)), free(8));
        assert_eq!(s.state(ms(600)), free(8));
        assert_eq!(s.state(ms(607)), free(8));
        assert_eq!(s.state(ms(608)), free(10));
    }

    #[test]
    fn it_goes_on_for_as_long_as_best_effort_has_run() {
        let mut s = server(80, 100);
        s.serve(ms(1), Some(ms(0)));
        s.serve(ms(5), Some(ms(3)));
        assert_eq!(s.charge(ms(80), ms(75)), free(5));
        // 3 ms are saved, but best-effort has waited for half a period.
        assert!(matches!(s.charge(ms(85), ms(5)), State::Throttled { .. }));
        assert_eq!(s.throttles(), 1);
        // Its slices beside a throttled level are not saved.
        s.serve(ms(100), Some(ms(6)));
        let mut s = server(80, 100);
        s.serve(ms(1), Some(ms(0)));
        assert_eq!(s.charge(ms(60), ms(55)), free(25));
        s.serve(ms(60), Some(ms(0)));
        s.serve(ms(65), Some(ms(3)));
        assert_eq!(s.charge(ms(90), ms(25)), free(3));
        // Looked at late; that time is not charged.
        assert_eq!(s.charge(ms(92), ms(2)), free(1));
        s.serve(ms(93), Some(ms(4)));
        assert_eq!(s.charge(ms(94), ms(1)), free(1));
        assert_eq!(s.used, ms(80).0);
        assert!(matches!(s.charge(ms(95), ms(1)), State::Throttled { .. }));
        assert_eq!(s.used, s.pending().map(|piece| piece.ran).sum::<u64>());
        s.serve(ms(96), Some(ms(40)));
        assert!(matches!(s.state(ms(96)), State::Throttled { .. }));
    }

    #[test]
    fn all_of_it_is_never_throttled() {
        let mut s = server(100, 100);
        for at in 1..1000 {
            assert_eq!(s.charge(ms(at), ms(1)), free(100));
        }
        assert_eq!(s.throttles(), 0);
        // The past counts when that changes.
        s.set_params(params(50, 100));
        assert!(matches!(s.state(ms(999)), State::Throttled { .. }));
        assert_eq!(s.params().budget(), ms(50));
    }

    #[test]
    fn a_shorter_period_finds_room() {
        let mut s = server(900, 1_000);
        for at in 1..60 {
            s.charge(ms(20 * at), ms(1));
        }
        s.set_params(params(9_000, 10_000));
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
