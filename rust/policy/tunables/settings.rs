// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The settings that follow from a class for a TSG, and the reasons for its time slice.

pub(crate) use super::conditions::*;
use super::{
    slices::Slices,
    Tunables, //
};
use crate::policy::{
    attribute::{
        Decided,
        Origin,
        Source, //
    },
    class::Effective,
    level::{
        self,
        Interleave,
        Level, //
    },
    slices::Policy,
    units::Us, //
};

/// The settings that a TSG should have on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Its time slice.
    pub(crate) timeslice: Us,
    /// The time slice counts only where the driver's own is longer.
    pub(crate) only_shortens: bool,
    /// Its place in the run list; `None`: the driver's own.
    pub(crate) interleave: Option<Interleave>,
    /// The origin of the time slice.
    pub(crate) origin: Origin,
    /// Reasons for a time slice that is not the one of its origin.
    pub(crate) why: Why,
}

/// Reasons for a value that is not that of the assignment that would decide it; the numbers are
/// those of the user ABI (`ZERNEL_WHY_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Why(pub(crate) u32);

impl Why {
    /// Set without privilege, it would give something.
    pub(crate) const UNPRIVILEGED: Self = Self(1 << 0);
    /// The TSG carries the work of several processes.
    pub(crate) const SHARED: Self = Self(1 << 1);
    /// The bounds of tunables or of the GPU.
    pub(crate) const CLAMPED: Self = Self(1 << 2);
    /// The budget of the level is spent.
    pub(crate) const THROTTLED: Self = Self(1 << 3);
    /// Best-effort TSGs take turns.
    pub(crate) const TURNS: Self = Self(1 << 4);
    /// Classes are switched off.
    pub(crate) const DISABLED: Self = Self(1 << 5);
    /// The TSG is not on a compute engine.
    pub(crate) const ENGINE: Self = Self(1 << 6);
    /// The TSG yields to a request with an earlier deadline.
    pub(crate) const YIELDS: Self = Self(1 << 7);

    /// Adds a reason if it is one.
    #[must_use]
    pub(crate) fn and(self, reason: Self, is: bool) -> Self {
        Self(self.0 | if is { reason.0 } else { 0 })
    }
}

/// The part of the tunables that gives a class its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meaning {
    enabled: bool,
    default_class: Option<Level>,
    timeslices: [Us; level::COUNT],
    /// The least slices of TSGs that keep the engine; 0 of other levels.
    kept: [Us; level::COUNT],
    min_timeslice: Us,
    max_timeslice: Us,
    /// The time slice of best-effort TSGs that take turns, if they do.
    turns: Option<Us>,
    /// TSGs may have slices in place of those of their levels.
    of_tsgs: bool,
    /// The time slice of TSGs that copy, of levels that are not above the default; 0: such TSGs have no
    /// class of their process.
    copies: Us,
}

impl Tunables {
    /// The part that gives a class its meaning.
    pub(crate) fn meaning(&self) -> Meaning {
        Meaning {
            enabled: self.enabled,
            default_class: self.default_class,
            timeslices: self.slices_in_force(),
            kept: self.kept_slices(),
            min_timeslice: self.min_timeslice,
            max_timeslice: self.max_timeslice(),
            turns: self
                .turns
                .discipline()
                .is_some()
                .then(|| self.turns.timeslice()),
            of_tsgs: self.slices().policy() == Policy::Slack,
            copies: self.slices.copies(),
        }
    }

    /// As [`Meaning::settings`].
    pub(crate) fn settings(&self, effective: Effective, on: Conditions) -> Option<Settings> {
        self.meaning().settings(effective, on)
    }

    /// True if a class means other settings than it does with `other`.
    pub(crate) fn gives_other_settings(&self, other: &Self) -> bool {
        let of = |tunables: &Self| Meaning {
            default_class: None,
            ..tunables.meaning()
        };
        of(self) != of(other)
    }
}

impl Meaning {
    /// The class of a TSG that no assignment names.
    pub(crate) fn default_class(&self) -> Option<Level> {
        self.default_class
    }

    /// True if the classes of threads, processes and cgroups count for TSGs that copy.
    pub(crate) fn has_copies(&self) -> bool {
        self.copies > Us(0)
    }

    /// The time slice of copies of a level. No budget counts them: beside one TSG of a level above the
    /// default another has 5 % of the engine.
    fn copy_slice(&self, level: Level) -> Us {
        const TIMES: u32 = 19;
        match level.is_above(Level::DEFAULT) {
            true => self
                .timeslice(level)
                .min(Us(self.copies.0.saturating_mul(TIMES)))
                .min(Slices::COPIES_MOST),
            false => self.copies,
        }
    }

    /// The time slice of a level before it is clamped.
    fn timeslice(&self, level: Level) -> Us {
        self.timeslices
            .get(level.number() as usize)
            .copied()
            .unwrap_or(level.default_timeslice())
    }

    /// The least slice of a TSG that keeps the engine; `None`: it does not.
    fn kept_slice(&self, effective: Effective) -> Option<Us> {
        let level = effective.level.filter(|_| effective.may_keep)?;
        let least = self.kept.get(level.number() as usize).copied();
        least.filter(|&least| least > Us(0))
    }

    /// The settings that the GPU is asked to give a TSG with `effective` in force.
    ///
    /// `None` means: the settings from before zernel. Turns, spent budgets and earlier deadlines of others
    /// only shorten a time slice; the bounds of the hardware win over those of the tunables, and these over
    /// all else.
    pub(crate) fn settings(&self, effective: Effective, on: Conditions) -> Option<Settings> {
        if !self.enabled {
            return None;
        }
        let copies = on.tsg.copies && self.has_copies();
        let (decided, only_shortens) = match effective.level {
            Some(level) => {
                let from = Origin::of(Source::Level);
                let slice = match (copies, self.kept_slice(effective)) {
                    (true, _) => self.copy_slice(level),
                    (false, Some(least)) => self.timeslice(level).max(least),
                    (false, None) => on
                        .tsg
                        .slice
                        .filter(|_| self.of_tsgs)
                        .or(on.instead.of(level))
                        .unwrap_or(self.timeslice(level)),
                };
                (effective.timeslice.decide(slice, from), false)
            }
            None => effective.timeslice.decide_alone()?,
        };
        let is_throttled = |level| on.throttled.contains(level);
        let is_throttled = effective.level.is_some_and(is_throttled);
        let yields = on.tsg.yields && effective.level.is_some();
        let level = match is_throttled || yields {
            true => Some(Level::BE),
            false => effective.level,
        };
        let Decided { value, origin, .. } = decided;
        let mut why = effective.why_passed_over(decided.is_passed_over);
        let mut slice = value;
        if is_throttled || yields {
            let be = match copies {
                true => self.copies,
                false => on
                    .instead
                    .of(Level::BE)
                    .unwrap_or(self.timeslice(Level::BE)),
            };
            let shorter = slice.min(be);
            let is_shorter = shorter != slice;
            why = why.and(Why::THROTTLED, is_throttled && is_shorter);
            why = why.and(Why::YIELDS, yields && is_shorter);
            slice = shorter;
        }
        if let Some(turns) = self
            .turns
            .filter(|_| on.turns && !copies && level == Some(Level::BE))
        {
            let shorter = slice.min(turns);
            why = why.and(Why::TURNS, shorter != slice);
            slice = shorter;
        }
        let most = match on.bounds.max {
            Us(0) => Us(u32::MAX),
            most => most,
        };
        // Copies may be shorter than any slice in which work computes, and are never long.
        let (least, longest) = match copies {
            true => (
                self.min_timeslice.min(self.copies),
                self.max_timeslice.min(Slices::COPIES_MOST),
            ),
            false => (self.min_timeslice, self.max_timeslice),
        };
        let timeslice = slice.max(least).min(longest).max(on.bounds.min).min(most);
        Some(Settings {
            timeslice,
            only_shortens,
            interleave: level.map(Level::interleave),
            origin,
            why: why.and(Why::CLAMPED, timeslice != slice),
        })
    }

    /// The time slice that a target has, 0 for that of the driver, which is `own` if it is known;
    /// its origin; and the reasons.
    pub(crate) fn told_slice(
        &self,
        effective: Effective,
        on: Conditions,
        own: Option<Us>,
    ) -> (Us, Origin, Why) {
        match self.settings(effective, on) {
            Some(settings) if !settings.only_shortens => {
                (settings.timeslice, settings.origin, settings.why)
            }
            Some(settings) if own.is_none_or(|own| settings.timeslice < own) => {
                (settings.timeslice, settings.origin, settings.why)
            }
            Some(_) => (Us(0), Origin::NONE, effective.why_passed_over(true)),
            None => (
                Us(0),
                Origin::NONE,
                Why::default().and(Why::DISABLED, !self.enabled),
            ),
        }
    }
}

impl Effective {
    /// The reason for a time slice that does not count.
    fn why_passed_over(&self, is: bool) -> Why {
        let reason = match self.is_held_down {
            true => Why::SHARED,
            false => Why::UNPRIVILEGED,
        };
        Why::default().and(reason, is)
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_settings))]
mod tests {
    use super::*;
    use crate::policy::{
        attribute::{
            Attribute,
            Own, //
        },
        class::{
            Assignment,
            Layers, //
        },
    };

    /// A level and a slice of its own.
    fn with_slice(level: Option<Level>, own: Own<Us>) -> Effective {
        let process = Origin::of(Source::Process);
        Effective {
            timeslice: Attribute::NONE.over(Some(own), process),
            ..level.map_or(Effective::NONE, Effective::of)
        }
    }

    #[test]
    fn copies_have_slices_of_their_own_where_that_is_tuned() {
        let mut t = Tunables::new();
        let copies = OfTsg {
            copies: true,
            ..OfTsg::NONE
        };
        let on = Conditions {
            turns: true,
            tsg: copies,
            ..Conditions::NONE
        };
        let of = |t: &Tunables, level| {
            t.settings(Effective::of(level), on)
                .map(|s| (s.timeslice.0, s.interleave, s.why))
        };
        let none = Why::default();
        assert!(t.meaning().has_copies());
        assert_eq!(t.slices_mut().set_copies(Us(0)), Ok(()));
        // One that is named itself has the slice of its level.
        assert!(!t.meaning().has_copies() && t.gives_other_settings(&Tunables::new()));
        assert_eq!(of(&t, Level::LC).map(|s| s.0), Some(5_000_000));
        assert_eq!(t.slices_mut().set_copies(Us(10)), Ok(()));
        let be = Some((10, Some(Level::BE.interleave()), none));
        assert_eq!(of(&t, Level::BE), be);
        assert_eq!(of(&t, Level::DEFAULT).map(|s| s.0), Some(10));
        // Others have a longer one, which is bounded: budgets count no copies.
        let lc = Some((190, Some(Level::LC.interleave()), none));
        assert_eq!(of(&t, Level::LC), lc);
        let throttled = Conditions {
            throttled: level::Set::of_bits(1),
            ..on
        };
        let spent = t.settings(Effective::of(Level::LC), throttled);
        assert!(spent.is_some_and(|s| s.timeslice == Us(10) && s.why == Why::THROTTLED));
        // So is one of their own.
        let own = |us| with_slice(Some(Level::LC), Own::privileged(Us(us), false));
        assert_eq!(t.settings(own(40), on).map(|s| s.timeslice.0), Some(40));
        let long = t.settings(own(2_000), on);
        assert!(long.is_some_and(|s| s.timeslice == Us(1_000) && s.why == Why::CLAMPED));
        // The tunables' and the GPU's bounds hold, but for the shortest slice of those that compute.
        assert_eq!(t.set_max_timeslice(Us(150)), Ok(()));
        assert_eq!(of(&t, Level::LC).map(|s| s.0), Some(150));
        let bounds = Bounds {
            min: Us(100),
            max: Us(0),
        };
        let bound = Conditions { bounds, ..on };
        let got = t.settings(Effective::of(Level::BE), bound);
        assert!(got.is_some_and(|s| s.timeslice == Us(100) && s.why == Why::CLAMPED));
    }

    #[test]
    fn a_slice_of_its_own_is_in_place_of_the_levels() {
        let t = Tunables::new();
        let told = |level, own, on| {
            let (slice, origin, why) =
                t.meaning()
                    .told_slice(with_slice(level, own), on, Some(Us(1024)));
            (slice.0, origin.source, why)
        };
        let (given, asked) = (
            |us| Own::privileged(Us(us), false),
            |us| Own::unprivileged(Us(us)),
        );
        let (none, be) = (Conditions::NONE, Some(Level::BE));
        let because = Why::default();
        for (level, own, want) in [
            (be, given(900), (900, Source::Process, because)),
            (be, asked(100), (100, Source::Process, because)),
            (be, asked(900), (200, Source::Level, Why::UNPRIVILEGED)),
            (be, given(20), (50, Source::Process, Why::CLAMPED)),
            (None, given(9000), (9000, Source::Process, because)),
            (None, asked(900), (900, Source::Process, because)),
            (None, asked(9000), (0, Source::None, Why::UNPRIVILEGED)),
        ] {
            assert_eq!(told(level, own, none), want);
        }
        let settings = t.settings(with_slice(None, asked(900)), none);
        assert!(settings.is_some_and(|s| s.only_shortens && s.interleave.is_none()));
        let turns = Conditions {
            turns: true,
            ..none
        };
        assert_eq!(
            told(be, given(900), turns),
            (50, Source::Process, Why::TURNS)
        );
        assert_eq!(
            told(None, given(900), turns),
            (900, Source::Process, because)
        );
        let mut spent = none;
        spent.throttled.put(Level::LC, true);
        assert_eq!(
            told(Some(Level::LC), given(900), spent),
            (200, Source::Process, Why::THROTTLED)
        );
    }

    #[test]
    fn one_tsg_has_another_slice_while_that_is_the_policy() {
        let mut t = Tunables::new();
        let on = OnGpu::NONE.of(OfTsg {
            slice: Some(Us(700)),
            ..OfTsg::NONE
        });
        let three = Level::ALL.get(3).copied();
        let slice = |t: &Tunables, on| {
            let settings = three.and_then(|three| t.settings(Effective::of(three), on));
            settings.map(|s| s.timeslice)
        };
        assert_eq!(slice(&t, on), Some(Us(10_000)));
        let old = t;
        t.slices_mut().set_policy(Policy::Slack);
        assert!(t.gives_other_settings(&old));
        assert_eq!(slice(&t, on), Some(Us(700)));
        assert_eq!(slice(&t, Conditions::NONE), Some(Us(10_000)));
        // Its own and a spent budget win.
        let own = with_slice(three, Own::privileged(Us(900), false));
        assert_eq!(t.settings(own, on).map(|s| s.timeslice), Some(Us(900)));
        let mut spent = on;
        spent.throttled = level::Set::of_bits(1 << 3);
        assert_eq!(slice(&t, spent), Some(Us(200)));
        // Without a level there is none.
        assert!(t.settings(Effective::NONE, on).is_none());
    }

    #[test]
    fn no_slice_of_its_own_lengthens_what_others_share() {
        let t = Tunables::new();
        let own = Assignment {
            timeslice: Some(Own::privileged(Us(900), false)),
            ..Assignment::NONE
        };
        let be = Layers::default_class(Some(Level::BE)).over(Source::Tsg, Some(own));
        let (slice, origin, why) =
            t.meaning()
                .told_slice(be.effective(true), Conditions::NONE, None);
        assert_eq!(
            (slice, origin.source, why),
            (Us(200), Source::Level, Why::SHARED)
        );
    }

    #[test]
    fn switched_off_it_is_the_drivers() {
        let mut t = Tunables::new();
        t.set_enabled(false);
        let (slice, _, why) =
            t.meaning()
                .told_slice(Effective::of(Level::LC), Conditions::NONE, None);
        assert_eq!((slice, why), (Us(0), Why::DISABLED));
    }
}
