// SPDX-License-Identifier: GPL-2.0
//! The work of a TSG, from registers that are looked at now and then.
//!
//! A channel that is pending has perhaps something to run: the GPU knows once it is scheduled. While
//! a TSG is disabled, a doorbell may be lost. So one without anything to run counts as if it had
//! some, [`Meter::TRY`] after it was disabled: it is enabled for a moment then, and shows. Tries
//! in vain become rarer.
//!
//! One that is pending and enabled, and does not run, is *stuck* after a while: it counts as if it
//! had nothing to run, or it would keep the GPU from others for ever. It gets another try as well.

use super::units::Ns;

#[path = "registers.rs"]
pub(crate) mod registers;

use registers::State;

/// A look at some channels of a TSG.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// It has come to all channels, in this round.
    pub(crate) is_last: bool,
    /// The engine works; `None`: its register does not tell.
    pub(crate) is_busy: Option<bool>,
    /// A disabled TSG that seems to have nothing to run may be tried now.
    pub(crate) may_try: bool,
    /// When it was.
    pub(crate) now: Ns,
}

/// The work of a TSG over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meter {
    /// Time that it ran.
    pub(crate) ran: Ns,
    /// When it got something to run, or ran out of it.
    pub(crate) since: Ns,
    /// The state of all channels, from the last round through them.
    state: State,
    /// The state of those that this round has come to.
    round: State,
    /// The last look, if there was any.
    looked: Option<Ns>,
    /// When it was disabled, or the last try to find something to run began.
    disabled: Option<Ns>,
    /// It is to be tried.
    trial: bool,
    /// Since when it could run and does not.
    waits: Option<Ns>,
    /// For how long the engine was idle meanwhile.
    unused: Ns,
    /// When it was found to be stuck.
    stuck: Option<Ns>,
    /// Tries in a row that were in vain.
    vain: u32,
}

impl Meter {
    /// The time from disabling a TSG that seems to have nothing to run to a try, and from being stuck
    /// to the next try. It doubles with each one that is in vain.
    pub(crate) const TRY: Ns = Ns(100_000_000);
    /// The longest such time is `2^LONGEST` times that.
    const LONGEST: u32 = 4;

    /// One that could run is stuck if the engine was idle for so long.
    const STUCK: Ns = Ns(2_000_000);
    /// The same where the register of the engine does not tell: others may have it.
    const STUCK_BLIND: Ns = Ns(20_000_000);
    /// It is stuck in any case if it did not run for so long: somebody else may keep the engine busy.
    const STUCK_BESIDE: Ns = Ns(100_000_000);

    /// True if it has something to run, as far as is known.
    pub(crate) fn is_runnable(&self) -> bool {
        self.stuck.is_none() && (self.trial || self.state != State::Idle)
    }

    /// True if it is only tried.
    pub(crate) fn is_tried(&self) -> bool {
        self.trial
    }

    /// It is scheduled from now on, or not.
    pub(crate) fn set_enabled(&mut self, enabled: bool, now: Ns) {
        if let (Some(then), State::Runs) = (self.looked, self.state) {
            // Nobody looks at it while it is disabled.
            self.ran = self.ran.saturating_add(now.saturating_sub(then));
            self.state = State::Ready;
        }
        self.looked = Some(now);
        self.disabled = (!enabled).then_some(now);
        self.waits = None;
        self.unused = Ns::ZERO;
        // Registers that are looked at from now on tell.
        self.trial &= !enabled;
    }

    /// It cannot be looked at for a while.
    pub(crate) fn pause(&mut self) {
        self.looked = None;
    }

    /// A look showed nothing to run in some channels. Returns false if that changes something: then it
    /// is to be told to [`Self::look`].
    pub(crate) fn rest(&mut self, now: Ns) -> bool {
        let is_idle = self.state.max(self.round) == State::Idle && !self.trial;
        let rests = is_idle && self.disabled.or(self.waits).or(self.stuck).is_none();
        if rests && self.looked.is_none_or(|last| now >= last) {
            self.looked = Some(now);
        }
        rests
    }

    /// Some channels were looked at; `state`: of them all.
    pub(crate) fn look(&mut self, state: State, look: Look) {
        if self.looked.is_some_and(|last| look.now < last) {
            // It was switched since the look began.
            return;
        }
        let was_runnable = self.is_runnable();
        let ran = self.state == State::Runs;
        self.round = self.round.max(state);
        // A channel that works counts at once; that none does, only when all have been looked at.
        self.state = match look.is_last {
            true => core::mem::take(&mut self.round),
            false => self.state.max(self.round),
        };
        let now = look.now;
        let passed = self
            .looked
            .map_or(Ns::ZERO, |then| now.saturating_sub(then));
        self.looked = Some(now);
        // It began or ended in between: in the mean, in the middle.
        let share = u64::from(ran) + u64::from(self.state == State::Runs);
        self.ran = self.ran.saturating_add(Ns(passed.0 / 2 * share));
        self.find_stuck(look, passed);
        self.try_out(look);
        if self.is_runnable() != was_runnable {
            self.since = now;
        }
    }

    /// The time to the next try.
    fn pause_of_tries(&self) -> Ns {
        Ns(Self::TRY.0 << self.vain.min(Self::LONGEST))
    }

    fn find_stuck(&mut self, look: Look, passed: Ns) {
        let now = look.now;
        if self.state == State::Runs {
            (self.stuck, self.vain) = (None, 0);
        }
        let pause = self.pause_of_tries();
        if self
            .stuck
            .is_some_and(|since| now.saturating_sub(since) >= pause)
        {
            self.stuck = None;
            self.vain = self.vain.saturating_add(1);
        }
        let could_run = self.disabled.is_none() && self.stuck.is_none();
        if !could_run || !matches!(self.state, State::Ready | State::Unknown) {
            (self.waits, self.unused) = (None, Ns::ZERO);
            return;
        }
        if self.waits.is_some() && look.is_busy == Some(false) {
            self.unused = self.unused.saturating_add(passed);
        }
        let since = *self.waits.get_or_insert(now);
        let patience = match look.is_busy {
            Some(_) => Self::STUCK_BESIDE,
            None => Self::STUCK_BLIND,
        };
        if self.unused >= Self::STUCK || now.saturating_sub(since) >= patience {
            self.stuck = Some(now);
        }
    }

    fn try_out(&mut self, look: Look) {
        if self.state != State::Idle {
            self.trial = false;
            return;
        }
        let pause = self.pause_of_tries();
        let is_due = |since: Ns| look.now.saturating_sub(since) >= pause;
        if look.may_try && !self.trial && self.disabled.is_some_and(is_due) {
            self.trial = true;
            self.disabled = Some(look.now);
            self.vain = self.vain.saturating_add(1);
        }
    }
}

/// The work of an engine over time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Engine {
    /// Time that it worked.
    pub(crate) busy: Ns,
    /// The last look, and whether it worked.
    last: Option<(Ns, bool)>,
}

impl Engine {
    /// It was looked at; `None`: its register does not tell.
    pub(crate) fn look(&mut self, is_busy: Option<bool>, now: Ns) {
        if self.last.is_some_and(|(then, _)| now < then) {
            return;
        }
        if let (Some((then, was)), Some(is)) = (self.last, is_busy) {
            let share = u64::from(was) + u64::from(is);
            let passed = now.saturating_sub(then);
            self.busy = self.busy.saturating_add(Ns(passed.0 / 2 * share));
        }
        self.last = is_busy.map(|is| (now, is));
    }

    /// True if its register tells.
    pub(crate) fn is_known(&self) -> bool {
        self.last.is_some()
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_nvidia_occupancy))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    const BUSY: Option<bool> = Some(true);
    const IDLE: Option<bool> = Some(false);

    fn at(is_last: bool, is_busy: Option<bool>, now: u64) -> Look {
        Look {
            is_last,
            is_busy,
            may_try: true,
            now: Ns(now),
        }
    }

    /// A look at its only channel.
    fn look(meter: &mut Meter, state: State, is_busy: Option<bool>, now: u64) -> bool {
        meter.look(state, at(true, is_busy, now));
        meter.is_runnable()
    }

    #[test]
    fn an_engine_works() {
        let mut engine = Engine::default();
        engine.look(Some(true), Ns(MS));
        assert_eq!(engine.busy, Ns::ZERO);
        engine.look(Some(true), Ns(3 * MS));
        engine.look(Some(false), Ns(5 * MS));
        assert_eq!(engine.busy, Ns(3 * MS));
        // Nor does a look count that began before the last one.
        engine.look(Some(true), Ns(2 * MS));
        assert_eq!(engine.busy, Ns(3 * MS));
        // The time in which its register did not tell does not count.
        engine.look(None, Ns(6 * MS));
        assert!(!engine.is_known());
        engine.look(Some(true), Ns(9 * MS));
        assert!(engine.is_known());
        assert_eq!(engine.busy, Ns(3 * MS));
    }

    #[test]
    fn a_short_look_from_before_a_switch_changes_nothing() {
        let mut meter = Meter::default();
        assert!(meter.rest(Ns(2 * MS)));
        meter.set_enabled(true, Ns(4 * MS));
        let before = meter;
        assert!(meter.rest(Ns(3 * MS)));
        assert_eq!(meter, before);
        meter.set_enabled(false, Ns(5 * MS));
        assert!(!meter.rest(Ns(6 * MS)));
    }

    #[test]
    fn a_short_look_is_as_good_as_a_close_one() {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let (mut meter, mut short, mut now) = (Meter::default(), 0, 0);
        for _ in 0..20_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            now += random >> 40 & 0x3ff_ffff;
            let state = match random % 16 {
                0 => State::Unknown,
                1 => State::Ready,
                2 | 3 => State::Runs,
                _ => State::Idle,
            };
            let is_busy = [BUSY, IDLE, None][(random >> 8) as usize % 3];
            let look = at(random & 0x10 == 0, is_busy, now);
            let mut closely = meter;
            closely.look(state, look);
            if state == State::Idle && meter.rest(Ns(now)) {
                short += 1;
            } else {
                meter.look(state, look);
            }
            assert_eq!(meter, closely);
            if random & 0x1e0 == 0 {
                meter.set_enabled(random & 0x200 == 0, Ns(now));
            }
        }
        assert!(short > 1_000);
    }

    #[test]
    fn a_look_that_began_before_a_switch_tells_nothing() {
        let mut meter = Meter::default();
        look(&mut meter, State::Runs, BUSY, MS);
        meter.set_enabled(false, Ns(3 * MS));
        look(&mut meter, State::Runs, BUSY, 2 * MS);
        assert_eq!(meter.ran, Ns(2 * MS));
        meter.set_enabled(true, Ns(10 * MS));
        assert_eq!(meter.ran, Ns(2 * MS));
    }

    #[test]
    fn time_counts_while_it_runs() {
        let mut meter = Meter::default();
        look(&mut meter, State::Runs, BUSY, 5 * MS);
        // Nothing is known of the time before.
        assert_eq!(meter.ran, Ns::ZERO);
        look(&mut meter, State::Runs, BUSY, 6 * MS);
        assert_eq!(meter.ran, Ns(MS));
        // It ended in between, and began again.
        look(&mut meter, State::Ready, BUSY, 8 * MS);
        assert_eq!(meter.ran, Ns(2 * MS));
        look(&mut meter, State::Idle, IDLE, 9 * MS);
        look(&mut meter, State::Runs, BUSY, 11 * MS);
        assert_eq!(meter.ran, Ns(3 * MS));
    }

    #[test]
    fn time_does_not_count_while_it_is_disabled() {
        let mut meter = Meter::default();
        look(&mut meter, State::Runs, BUSY, MS);
        look(&mut meter, State::Runs, BUSY, 2 * MS);
        meter.set_enabled(false, Ns(3 * MS));
        assert_eq!(meter.ran, Ns(2 * MS));
        assert!(meter.is_runnable());
        meter.set_enabled(true, Ns(93 * MS));
        look(&mut meter, State::Runs, BUSY, 94 * MS);
        assert_eq!(meter.ran, Ns(2 * MS + MS / 2));
        // Nor in a suspend.
        meter.pause();
        look(&mut meter, State::Runs, BUSY, 500 * MS);
        assert_eq!(meter.ran, Ns(2 * MS + MS / 2));
    }

    #[test]
    fn a_change_has_its_time() {
        let mut meter = Meter::default();
        assert!(!look(&mut meter, State::Idle, IDLE, MS));
        assert!(look(&mut meter, State::Ready, BUSY, 2 * MS));
        assert_eq!(meter.since, Ns(2 * MS));
        look(&mut meter, State::Runs, BUSY, 3 * MS);
        assert_eq!(meter.since, Ns(2 * MS));
        look(&mut meter, State::Idle, IDLE, 4 * MS);
        assert_eq!(meter.since, Ns(4 * MS));
    }

    #[test]
    fn the_unknown_may_have_something_to_run() {
        let mut meter = Meter::default();
        assert!(look(&mut meter, State::Unknown, BUSY, MS));
        let both = State::max(State::Unknown, State::Idle);
        meter.look(both, at(true, BUSY, 2 * MS));
        assert!(meter.is_runnable());
        assert_eq!(meter.ran, Ns::ZERO);
    }

    #[test]
    fn many_channels_are_looked_at_in_a_round() {
        let mut meter = Meter::default();
        let mut part = |state, is_last, now| {
            meter.look(state, at(is_last, BUSY, now * MS));
            (meter.is_runnable(), meter.since)
        };
        assert!(part(State::Ready, false, 1).0);
        assert!(part(State::Idle, true, 2).0);
        // The next round finds nothing: known at its end.
        assert!(part(State::Idle, false, 3).0);
        assert!(!part(State::Idle, true, 4).0);
        // One that comes in the middle is seen at once.
        part(State::Idle, false, 5);
        assert_eq!(part(State::Runs, false, 6), (true, Ns(6 * MS)));
    }

    #[test]
    fn a_lost_doorbell_is_found_by_a_try() {
        let mut meter = Meter::default();
        let mut now = MS;
        look(&mut meter, State::Idle, IDLE, now);
        // Tries that are in vain become rarer, up to a bound.
        for pause in [1, 2, 4, 8, 16, 16] {
            meter.set_enabled(false, Ns(now));
            let due = now + pause * Meter::TRY.0;
            assert!(!look(&mut meter, State::Idle, BUSY, due - 1));
            assert!(look(&mut meter, State::Idle, BUSY, due));
            assert!(meter.is_tried());
            assert_eq!(meter.since, Ns(due));
            // Until it is enabled; then the registers tell.
            assert!(look(&mut meter, State::Idle, BUSY, due + MS));
            meter.set_enabled(true, Ns(due + 2 * MS));
            now = due + 3 * MS;
            assert!(!look(&mut meter, State::Idle, BUSY, now));
        }
        // One that finds something: the next is soon.
        assert!(look(&mut meter, State::Runs, BUSY, now));
        look(&mut meter, State::Idle, BUSY, now);
        meter.set_enabled(false, Ns(now));
        assert!(look(&mut meter, State::Idle, BUSY, now + Meter::TRY.0));
    }

    #[test]
    fn a_try_comes_when_it_may() {
        let mut meter = Meter::default();
        meter.set_enabled(false, Ns(MS));
        let may_not = Look {
            may_try: false,
            ..at(true, BUSY, 5 * Meter::TRY.0)
        };
        meter.look(State::Idle, may_not);
        assert!(!meter.is_runnable());
        assert!(look(&mut meter, State::Idle, BUSY, 5 * Meter::TRY.0));
    }

    #[test]
    fn one_that_does_not_run_on_an_idle_engine_is_stuck() {
        let mut meter = Meter::default();
        assert!(look(&mut meter, State::Ready, IDLE, MS));
        // That somebody else runs in between changes nothing.
        assert!(look(&mut meter, State::Ready, IDLE, 2 * MS));
        assert!(look(&mut meter, State::Ready, BUSY, 3 * MS));
        assert!(!look(&mut meter, State::Ready, IDLE, 4 * MS));
        assert_eq!(meter.since, Ns(4 * MS));
        // Disabled or not, until the next try.
        meter.set_enabled(false, Ns(5 * MS));
        let due = Meter::TRY.0 + 4 * MS;
        assert!(!look(&mut meter, State::Ready, BUSY, due - 1));
        assert!(look(&mut meter, State::Ready, BUSY, due));
        // While it is disabled, it cannot run.
        assert!(look(&mut meter, State::Ready, IDLE, due + 50 * MS));
        meter.set_enabled(true, Ns(due + 60 * MS));
        assert!(look(&mut meter, State::Ready, IDLE, due + 61 * MS));
        assert!(!look(&mut meter, State::Ready, IDLE, due + 63 * MS));
        // The next try is later.
        let again = due + 63 * MS + 2 * Meter::TRY.0;
        assert!(!look(&mut meter, State::Ready, IDLE, again - 1));
        assert!(look(&mut meter, State::Ready, IDLE, again));
        // One that runs is not stuck.
        assert!(look(&mut meter, State::Runs, BUSY, again + MS));
    }

    #[test]
    fn one_that_waits_for_others_is_stuck_later() {
        for (is_busy, expected) in [(BUSY, 100), (None, 20)] {
            let mut meter = Meter::default();
            let mut runnable = 0;
            for now in 1..=120 {
                runnable += u32::from(look(&mut meter, State::Ready, is_busy, now * MS));
            }
            assert_eq!(runnable, expected);
        }
    }

    #[test]
    fn one_with_work_needs_no_try() {
        let mut meter = Meter::default();
        meter.set_enabled(false, Ns(MS));
        look(&mut meter, State::Ready, BUSY, 2 * Meter::TRY.0);
        assert!(meter.is_runnable() && !meter.is_tried());
        // It is due at once: it was disabled long ago.
        assert!(look(&mut meter, State::Idle, BUSY, 2 * Meter::TRY.0 + MS));
        meter.set_enabled(true, Ns(3 * Meter::TRY.0));
        assert!(!look(&mut meter, State::Idle, BUSY, 9 * Meter::TRY.0));
    }
}
