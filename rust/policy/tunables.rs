// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The tunables, and the settings of a TSG that follow from them.

mod conditions;
mod in_force;
pub(crate) mod phases;
pub(crate) mod requests;
pub(crate) mod settings;
pub(crate) mod slack;
mod slice;
pub(crate) mod slices;
pub(crate) mod turns;

pub(crate) use super::refused::Refused;
use super::{
    budget,
    control,
    level::{
        self,
        Level, //
    },
    units::{
        Ns,
        Us, //
    }, //
};
use phases::Phases;
use requests::Requests;
use slices::Slices;
use turns::Turns;

/// The tunables.
///
/// # Invariants
///
/// `min_timeslice <= max_timeslice`, both within [`slice::RANGE`]; every level's slice
/// lies within that range; `ring_size` lies within [`Tunables::RING_RANGE`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tunables {
    enabled: bool,
    default_class: Option<Level>,
    timeslices: [Us; level::COUNT],
    slices: Slices,
    min_timeslice: Us,
    max_timeslice: Us,
    lc_gid: Option<u32>,
    lc_admission: u32,
    ring_size: u32,
    user_control: control::Policy,
    requests: Requests,
    turns: Turns,
    phases: Phases,
    budgets: [Option<budget::Params>; level::COUNT],
}

impl Tunables {
    /// Events in the ring of a stream.
    pub(crate) const RING_RANGE: (u32, u32) = (16, 65_536);
    /// Most raised assignments that members of `lc_gid` can be allowed.
    pub(crate) const ADMISSION_MAX: u32 = 100_000;

    /// A time slice that can be asked for.
    ///
    /// # Errors
    ///
    /// `OutOfRange` it lies outside [`slice::RANGE`].
    pub(crate) fn in_slice_range(slice: Us) -> Result<Us, Refused> {
        slice::in_range(slice)
    }

    /// The values before anybody tunes.
    pub(crate) fn new() -> Self {
        // INVARIANT: The defaults lie within their ranges.
        Self {
            enabled: true,
            default_class: None,
            timeslices: Level::ALL.map(Level::default_timeslice),
            slices: Slices::new(),
            min_timeslice: Us(50),
            max_timeslice: Us(5_000_000),
            lc_gid: None,
            lc_admission: 64,
            ring_size: 1024,
            user_control: control::Policy::default(),
            requests: Requests::new(),
            turns: Turns::new(),
            phases: Phases::new(),
            budgets: Level::ALL.map(budget::Params::default_of),
        }
    }

    /// The tunables of phases.
    pub(crate) fn phases(&self) -> &Phases {
        &self.phases
    }

    /// The same, to be changed.
    pub(crate) fn phases_mut(&mut self) -> &mut Phases {
        &mut self.phases
    }

    /// The share of the GPU that a level may have; `None`: no bound, as for BE.
    pub(crate) fn budget(&self, level: Level) -> Option<budget::Params> {
        self.budgets.get(level.number() as usize).copied().flatten()
    }

    /// Changes [`Self::budget`] of a level above BE.
    pub(crate) fn set_budget(
        &mut self,
        level: Level,
        budget: Ns,
        period: Ns,
    ) -> Result<(), Refused> {
        let params = budget::Params::new(budget, period)?;
        if level == Level::BE {
            return Err(Refused::OutOfRange);
        }
        if let Some(slot) = self.budgets.get_mut(level.number() as usize) {
            *slot = Some(params);
        }
        Ok(())
    }

    /// True if some level may have another share of the GPU than with `other`.
    pub(crate) fn gives_other_budgets(&self, other: &Self) -> bool {
        self.budgets != other.budgets
    }

    /// The tunables of turns.
    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Changes [`Self::turns`].
    pub(crate) fn turns_mut(&mut self) -> &mut Turns {
        &mut self.turns
    }

    /// The tunables of requests.
    pub(crate) fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Changes [`Self::requests`].
    pub(crate) fn requests_mut(&mut self) -> &mut Requests {
        &mut self.requests
    }

    /// True if classes are applied at all.
    pub(crate) fn enabled(&self) -> bool {
        self.enabled
    }

    /// Switches the application of classes on or off.
    pub(crate) fn set_enabled(&mut self, on: bool) {
        self.enabled = on;
    }

    /// The class of a TSG that no assignment names.
    pub(crate) fn default_class(&self) -> Option<Level> {
        self.default_class
    }

    /// Changes [`Self::default_class`].
    pub(crate) fn set_default_class(&mut self, level: Option<Level>) {
        self.default_class = level;
    }

    /// The group of managers.
    pub(crate) fn lc_gid(&self) -> Option<u32> {
        self.lc_gid
    }

    /// Changes [`Self::lc_gid`].
    pub(crate) fn set_lc_gid(&mut self, gid: Option<u32>) {
        self.lc_gid = gid;
    }

    /// Most raised assignments of the members of [`Self::lc_gid`] together.
    pub(crate) fn lc_admission(&self) -> u32 {
        self.lc_admission
    }

    /// Changes [`Self::lc_admission`].
    pub(crate) fn set_lc_admission(&mut self, most: u32) -> Result<(), Refused> {
        if most > Self::ADMISSION_MAX {
            return Err(Refused::OutOfRange);
        }
        self.lc_admission = most;
        Ok(())
    }

    /// Events in the ring of a stream that starts now.
    pub(crate) fn ring_size(&self) -> u32 {
        self.ring_size
    }

    /// Changes [`Self::ring_size`].
    pub(crate) fn set_ring_size(&mut self, events: u32) -> Result<(), Refused> {
        if !(Self::RING_RANGE.0..=Self::RING_RANGE.1).contains(&events) {
            return Err(Refused::OutOfRange);
        }
        // INVARIANT: Just checked.
        self.ring_size = events;
        Ok(())
    }

    /// The treatment of a process's own change of its classed TSG.
    pub(crate) fn user_control(&self) -> control::Policy {
        self.user_control
    }

    /// Changes [`Self::user_control`].
    pub(crate) fn set_user_control(&mut self, policy: control::Policy) {
        self.user_control = policy;
    }

    /// The time slice of a level in the table, before it is clamped.
    pub(crate) fn timeslice(&self, level: Level) -> Us {
        self.timeslices
            .get(level.number() as usize)
            .copied()
            .unwrap_or(level.default_timeslice())
    }

    /// Changes the time slice of a level.
    pub(crate) fn set_timeslice(&mut self, level: Level, slice: Us) -> Result<(), Refused> {
        let slice = slice::in_range(slice)?;
        if let Some(slot) = self.timeslices.get_mut(level.number() as usize) {
            // INVARIANT: Just checked.
            *slot = slice;
        }
        Ok(())
    }

    /// The shortest time slice that is ever asked for.
    pub(crate) fn min_timeslice(&self) -> Us {
        self.min_timeslice
    }

    /// Changes [`Self::min_timeslice`]; it cannot pass the maximum.
    pub(crate) fn set_min_timeslice(&mut self, slice: Us) -> Result<(), Refused> {
        let slice = slice::in_range(slice)?;
        if slice > self.max_timeslice {
            return Err(Refused::OutOfRange);
        }
        // INVARIANT: Just checked.
        self.min_timeslice = slice;
        Ok(())
    }

    /// The longest time slice that is ever asked for: what was tuned, or what the policy needs.
    pub(crate) fn max_timeslice(&self) -> Us {
        let needed = self.slices.policy().longest();
        needed.map_or(self.max_timeslice, |needed| needed.max(self.max_timeslice))
    }

    /// Changes [`Self::max_timeslice`]; it passes neither the minimum nor what the policy needs. What it
    /// reads as already changes nothing: saved and put back, what was tuned is there with the table.
    pub(crate) fn set_max_timeslice(&mut self, slice: Us) -> Result<(), Refused> {
        let slice = slice::in_range(slice)?;
        let needed = self.slices.policy().longest();
        if slice < self.min_timeslice || needed.is_some_and(|needed| slice < needed) {
            return Err(Refused::OutOfRange);
        }
        if slice == self.max_timeslice() {
            return Ok(());
        }
        // INVARIANT: Just checked.
        self.max_timeslice = slice;
        Ok(())
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_tunables))]
mod tests {
    use super::{
        settings::{
            Bounds,
            Conditions, //
        },
        *, //
    };
    use crate::policy::{
        class::Effective,
        level::Interleave, //
    };

    const UNBOUND: Bounds = Bounds {
        min: Us(0),
        max: Us(0),
    };

    fn in_force(level: Level) -> Effective {
        Effective::of(level)
    }

    fn level(number: u32) -> Level {
        Level::new(number).unwrap_or(Level::BE)
    }

    fn slice(t: &Tunables, level: Level, bounds: Bounds) -> Option<Us> {
        let on = Conditions {
            bounds,
            ..Conditions::NONE
        };
        t.settings(in_force(level), on).map(|s| s.timeslice)
    }

    #[test]
    fn classes_have_their_slices() {
        let t = Tunables::new();
        assert_eq!(slice(&t, Level::LC, UNBOUND), Some(Us(5_000_000)));
        assert_eq!(slice(&t, Level::BE, UNBOUND), Some(Us(200)));
    }

    #[test]
    fn unclassed_and_disabled_leave_the_driver_alone() {
        let mut t = Tunables::new();
        assert_eq!(t.settings(Effective::NONE, Conditions::NONE), None);
        t.set_enabled(false);
        assert!(!t.enabled());
        assert_eq!(t.settings(in_force(Level::LC), Conditions::NONE), None);
    }

    #[test]
    fn slices_are_clamped_by_tunables() {
        let mut t = Tunables::new();
        assert!(t.set_min_timeslice(Us(500)).is_ok());
        assert!(t.set_max_timeslice(Us(1000)).is_ok());
        assert_eq!(slice(&t, Level::LC, UNBOUND), Some(Us(1000)));
        assert_eq!(slice(&t, Level::BE, UNBOUND), Some(Us(500)));
    }

    #[test]
    fn hardware_bounds_win() {
        let t = Tunables::new();
        let bounds = Bounds {
            min: Us(300),
            max: Us(2000),
        };
        assert_eq!(slice(&t, Level::LC, bounds), Some(Us(2000)));
        assert_eq!(slice(&t, Level::BE, bounds), Some(Us(300)));
    }

    #[test]
    fn minimum_and_maximum_never_cross() {
        let mut t = Tunables::new();
        assert!(t.set_max_timeslice(Us(1000)).is_ok());
        assert_eq!(t.set_min_timeslice(Us(1001)), Err(Refused::OutOfRange));
        assert!(t.set_min_timeslice(Us(1000)).is_ok());
        assert_eq!(t.set_max_timeslice(Us(999)), Err(Refused::OutOfRange));
        assert_eq!(t.min_timeslice(), Us(1000));
        assert_eq!(t.max_timeslice(), Us(1000));
    }

    #[test]
    fn out_of_range_changes_nothing() {
        let mut t = Tunables::new();
        for bad in [Us(0), Us(9), Us(10_000_001), Us(u32::MAX)] {
            assert_eq!(t.set_timeslice(Level::BE, bad), Err(Refused::OutOfRange));
            assert_eq!(t.set_min_timeslice(bad), Err(Refused::OutOfRange));
            assert_eq!(t.set_max_timeslice(bad), Err(Refused::OutOfRange));
        }
        assert_eq!(t.timeslice(Level::BE), Us(200));
        assert_eq!(t.set_ring_size(15), Err(Refused::OutOfRange));
        assert_eq!(t.set_ring_size(65_537), Err(Refused::OutOfRange));
        assert_eq!(t.ring_size(), 1024);
        assert_eq!(t.set_lc_admission(100_001), Err(Refused::OutOfRange));
        assert_eq!(t.lc_admission(), 64);
    }

    #[test]
    fn best_effort_has_a_short_slice_where_it_takes_turns() {
        let mut t = Tunables::new();
        let slice = |t: &Tunables, level, turns| {
            let on = Conditions {
                turns,
                ..Conditions::NONE
            };
            let settings = t.settings(in_force(level), on);
            settings.map(|s| s.timeslice)
        };
        assert_eq!(slice(&t, Level::BE, true), Some(Us(50)));
        assert_eq!(slice(&t, Level::BE, false), Some(Us(200)));
        assert_eq!(slice(&t, Level::LC, true), Some(Us(5_000_000)));
        let old = t;
        assert!(t.turns_mut().set_timeslice(Us(80)).is_ok());
        assert!(t.gives_other_settings(&old));
        assert_eq!(slice(&t, Level::BE, true), Some(Us(80)));
        assert!(t.turns_mut().set_timeslice(Us(500)).is_ok());
        assert_eq!(slice(&t, Level::BE, true), Some(Us(200)));
        t.turns_mut().set_discipline(None);
        assert_eq!(slice(&t, Level::BE, true), Some(Us(200)));
        let old = *t.turns();
        for bad in [Us(0), Us(499), Us(1_000_001), Us(u32::MAX)] {
            assert_eq!(t.turns_mut().set_quantum(bad), Err(Refused::OutOfRange));
        }
        assert_eq!(t.turns_mut().set_timeslice(Us(9)), Err(Refused::OutOfRange));
        assert_eq!(*t.turns(), old);
        assert!(t.turns_mut().set_quantum(Us(500)).is_ok());
    }

    #[test]
    fn a_throttled_level_is_treated_like_best_effort() {
        let t = Tunables::new();
        let mut on = Conditions::NONE;
        on.throttled.put(Level::LC, true);
        let settings = |level, on| {
            let settings = t.settings(in_force(level), on);
            settings.map(|s| (s.timeslice, s.interleave))
        };
        let be = settings(Level::BE, Conditions::NONE);
        assert_eq!(settings(Level::LC, on), be);
        let other = t.settings(in_force(level(1)), on);
        assert_eq!(other, t.settings(in_force(level(1)), Conditions::NONE));
    }

    #[test]
    fn budgets_are_of_the_levels_above_best_effort() {
        let mut t = Tunables::new();
        let old = t;
        let (ms, period) = (Ns(1_000_000), Ns(100_000_000));
        assert_eq!(t.budget(Level::BE), None);
        assert_eq!(
            t.set_budget(Level::BE, ms, period),
            Err(Refused::OutOfRange)
        );
        assert_eq!(
            t.set_budget(Level::LC, Ns(1), period),
            Err(Refused::OutOfRange)
        );
        assert_eq!(
            t.set_budget(Level::LC, period, ms),
            Err(Refused::OutOfRange)
        );
        assert!(!t.gives_other_budgets(&old));
        assert!(t.set_budget(Level::LC, ms, period).is_ok());
        assert!(t.gives_other_budgets(&old));
        assert_eq!(t.budget(Level::LC).map(|b| b.budget()), Some(ms));
        assert_eq!(t.budget(level(1)), old.budget(level(1)));
    }

    #[test]
    fn each_level_is_tuned_alone() {
        let mut t = Tunables::new();
        for level in Level::ALL {
            assert!(t.set_timeslice(level, Us(1000 + level.number())).is_ok());
        }
        for level in Level::ALL {
            assert_eq!(t.timeslice(level), Us(1000 + level.number()));
        }
    }

    #[test]
    fn the_rest_is_kept_as_given() {
        let mut t = Tunables::new();
        t.set_default_class(Some(Level::BE));
        t.set_lc_gid(Some(44));
        assert_eq!(t.default_class(), Some(Level::BE));
        assert_eq!(t.lc_gid(), Some(44));
        assert!(t.set_lc_admission(0).is_ok());
        assert!(t.set_ring_size(16).is_ok());
        assert_eq!(t.lc_admission(), 0);
        assert_eq!(t.ring_size(), 16);
        assert_eq!(t.user_control(), control::Policy::Deny);
        t.set_user_control(control::Policy::Reapply);
        assert_eq!(t.user_control(), control::Policy::Reapply);
    }

    #[test]
    fn only_some_tunables_give_other_settings() {
        let old = Tunables::new();
        let mut t = old;
        t.set_lc_gid(Some(1));
        assert!(t.set_lc_admission(1).is_ok());
        assert!(t.set_ring_size(16).is_ok());
        t.set_user_control(control::Policy::Allow);
        assert!(!t.gives_other_settings(&old));
        assert!(t.set_timeslice(Level::BE, Us(300)).is_ok());
        assert!(t.gives_other_settings(&old));
    }

    #[test]
    fn interleave_follows_the_level() {
        let t = Tunables::new();
        let s = t.settings(in_force(Level::LC), Conditions::NONE);
        assert_eq!(s.map(|s| s.interleave), Some(Some(Interleave::High)));
    }
}
