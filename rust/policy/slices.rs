// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Slices by level: the policies that say how long a TSG of each level may run at a time.

pub(crate) mod pid;
pub(crate) mod slack;

use super::{
    level::{
        self,
        Level, //
    },
    units::{
        Ns,
        Us, //
    }, //
};

/// The policy of slices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Policy {
    /// The slices that were tuned for each level.
    #[default]
    Table,
    /// A tenth from level to level, from 10 s down to best-effort's.
    Exponential,
    /// Those of the levels below one with a target follow the latency of that one.
    Pid,
    /// Those of the table; that of a TSG with deadlines follows the time that it can spare.
    Slack,
}

/// The slices of [`Policy::Exponential`], the most urgent level first; those of the other levels are
/// best-effort's.
const EXPONENTIAL: [Us; 6] = [
    Us(10_000_000),
    Us(1_000_000),
    Us(100_000),
    Us(10_000),
    Us(1_000),
    Us(100),
];

impl Policy {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Table, Self::Exponential, Self::Pid, Self::Slack];

    /// The name of the tunable's value.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Exponential => "exponential",
            Self::Pid => "pid",
            Self::Slack => "slack",
        }
    }

    /// The policy with a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// The longest slice that it gives a level, whichever is tuned; `None`: those of the table.
    pub(crate) fn longest(self) -> Option<Us> {
        match self {
            Self::Table | Self::Pid | Self::Slack => None,
            Self::Exponential => EXPONENTIAL.first().copied(),
        }
    }

    /// The slices of all levels, where these are tuned; those that follow a measurement come on top.
    pub(crate) fn slices(self, table: &[Us; level::COUNT]) -> [Us; level::COUNT] {
        match self {
            Self::Table | Self::Pid | Self::Slack => *table,
            Self::Exponential => {
                let [.., shortest] = EXPONENTIAL;
                let [.., be] = *table;
                // Never longer than those of more urgent levels.
                let mut slices = [be.min(shortest); level::COUNT];
                for (slice, preset) in slices.iter_mut().zip(EXPONENTIAL) {
                    *slice = preset;
                }
                slices
            }
        }
    }
}

/// Slices of some levels in place of their usual ones.
///
/// # Invariants
///
/// 0 stands for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instead([Us; level::COUNT]);

impl Instead {
    /// Of no level.
    pub(crate) const NONE: Self = Self([Us(0); level::COUNT]);

    /// That of a level.
    pub(crate) fn of(&self, level: Level) -> Option<Us> {
        let slice = self.0.get(level.number() as usize).copied();
        slice.filter(|&slice| slice != Us(0))
    }

    /// Gives a level one, or none.
    pub(crate) fn put(&mut self, level: Level, slice: Option<Us>) {
        if let Some(place) = self.0.get_mut(level.number() as usize) {
            *place = slice.unwrap_or(Us(0));
        }
    }

    /// The levels that have another one than in `other`.
    pub(crate) fn changed(&self, other: &Self) -> level::Set {
        let mut changed = level::Set::NONE;
        for level in Level::ALL {
            changed.put(level, self.of(level) != other.of(level));
        }
        changed
    }
}

/// Levels that may keep the engine to the end of a burst: those that only privilege gives. Work may
/// have any other level of itself, and would keep the engine from all that do not.
pub(crate) fn may_keep(level: Level) -> bool {
    level.is_above(Level::DEFAULT)
}

/// The part of `time`, for which others were kept off the GPU for a level, that counts as its own: not
/// that for which less urgent levels in `kept` kept the engine from it. `ran`: of each level meanwhile.
pub(crate) fn held_for(by: Level, time: Ns, ran: &[Ns; level::COUNT], kept: level::Set) -> Ns {
    let levels = Level::ALL.into_iter().zip(ran);
    let keep = levels.filter(|(level, _)| by.is_above(*level) && kept.contains(*level));
    keep.fold(time, |left, (_, ran)| left.saturating_sub(*ran))
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_slices))]
mod tests {
    use super::*;
    use crate::policy::class::Effective;
    use crate::policy::tunables::{
        settings::{
            Bounds,
            Conditions,
            Why, //
        },
        Refused,
        Tunables, //
    };

    fn slices(t: &Tunables, on: Conditions) -> [(u32, Why); level::COUNT] {
        Level::ALL.map(|level| {
            let settings = t.settings(Effective::of(level), on);
            settings.map_or((0, Why::default()), |s| (s.timeslice.0, s.why))
        })
    }

    fn in_force(t: &Tunables) -> [u32; level::COUNT] {
        slices(t, Conditions::NONE).map(|(slice, _)| slice)
    }

    #[test]
    fn each_policy_has_a_name() {
        for policy in Policy::ALL {
            assert_eq!(Policy::named(policy.name()), Some(policy));
        }
        for bad in ["", "Table", "exp", "tablex", "0"] {
            assert_eq!(Policy::named(bad), None);
        }
        assert_eq!(Policy::default(), Policy::Table);
    }

    #[test]
    fn exponential_is_a_tenth_from_level_to_level() {
        let mut t = Tunables::new();
        let old = t;
        let table = in_force(&t);
        t.slices_mut().set_policy(Policy::Exponential);
        assert!(t.gives_other_settings(&old));
        assert_eq!(
            in_force(&t),
            [10_000_000, 1_000_000, 100_000, 10_000, 1_000, 100, 100, 100]
        );
        t.slices_mut().set_policy(Policy::Table);
        assert_eq!(in_force(&t), table);
        assert!(!t.gives_other_settings(&old));
    }

    #[test]
    fn a_table_that_changes_meanwhile_is_in_force_again_later() {
        let mut t = Tunables::new();
        t.slices_mut().set_policy(Policy::Exponential);
        assert_eq!(t.set_timeslice(Level::LC, Us(700)), Ok(()));
        assert_eq!(t.timeslice(Level::LC), Us(700));
        assert_eq!(in_force(&t)[0], 10_000_000);
        // Best-effort's own slice is the table's, as long as no other level's is shorter.
        for (tuned, in_force_of_be) in [(80, 80), (300, 100)] {
            assert_eq!(t.set_timeslice(Level::BE, Us(tuned)), Ok(()));
            assert_eq!(in_force(&t)[6..], [in_force_of_be; 2]);
        }
        t.slices_mut().set_policy(Policy::Table);
        assert_eq!(in_force(&t)[0], 700);
    }

    #[test]
    fn exponential_raises_the_maximum_and_no_lower_one_is_taken() {
        let mut t = Tunables::new();
        assert_eq!(t.set_max_timeslice(Us(1_000)), Ok(()));
        t.slices_mut().set_policy(Policy::Exponential);
        assert_eq!(t.max_timeslice(), Us(10_000_000));
        for bad in [1_000, 9_999_999, 10_000_001] {
            assert_eq!(t.set_max_timeslice(Us(bad)), Err(Refused::OutOfRange));
        }
        // The maximum that is read may be put back.
        assert_eq!(t.set_max_timeslice(t.max_timeslice()), Ok(()));
        // The minimum stays below the one that is in force with the table.
        assert_eq!(t.set_min_timeslice(Us(1_001)), Err(Refused::OutOfRange));
        t.slices_mut().set_policy(Policy::Table);
        assert_eq!(t.max_timeslice(), Us(1_000));
    }

    #[test]
    fn the_cap_of_a_gpu_is_told() {
        let mut t = Tunables::new();
        t.slices_mut().set_policy(Policy::Exponential);
        let capped = Conditions {
            bounds: Bounds {
                min: Us(0),
                max: Us(8_360_000),
            },
            ..Conditions::NONE
        };
        let got = slices(&t, capped);
        assert_eq!(got[0], (8_360_000, Why::CLAMPED));
        assert_eq!(got[1], (1_000_000, Why::default()));
    }

    #[test]
    fn a_level_that_is_not_preemptible_has_the_slice_of_its_budget() {
        let mut t = Tunables::new();
        let three = Level::ALL[3];
        assert!(t.slices().is_preemptible(three));
        assert_eq!(t.slices_mut().set_preemptible(three, false), Ok(()));
        assert_eq!(in_force(&t)[3], 95_000);
        let period = Ns(100_000_000);
        assert_eq!(t.set_budget(three, Ns(30_000_000), period), Ok(()));
        assert_eq!(in_force(&t)[3], 30_000);
        // One that is longer anyway stays so.
        assert_eq!(t.slices_mut().set_preemptible(Level::LC, false), Ok(()));
        assert_eq!(in_force(&t)[0], 5_000_000);
        // Its budget is spent: it is like any other.
        let mut spent = Conditions::NONE;
        spent.throttled.put(three, true);
        assert_eq!(slices(&t, spent)[3], (200, Why::THROTTLED));
        // As short as best-effort's is, if that is another one instead.
        spent.instead.put(Level::BE, Some(Us(120)));
        assert_eq!(slices(&t, spent)[3], (120, Why::THROTTLED));
        // One that keeps the engine has none instead.
        let mut follows = Conditions::NONE;
        follows.instead.put(three, Some(Us(700)));
        assert_eq!(slices(&t, follows)[3].0, 30_000);
        assert_eq!(t.slices_mut().set_preemptible(three, true), Ok(()));
        assert_eq!(slices(&t, follows)[3].0, 700);
        assert_eq!(in_force(&t)[3], 10_000);
    }

    #[test]
    fn one_that_no_manager_put_there_keeps_nothing() {
        let mut t = Tunables::new();
        let three = Level::ALL[3];
        assert_eq!(t.slices_mut().set_preemptible(three, false), Ok(()));
        let lowered = Effective {
            may_keep: false,
            ..Effective::of(three)
        };
        let slice = |on| t.settings(lowered, on).map(|s| s.timeslice.0);
        assert_eq!(slice(Conditions::NONE), Some(10_000));
        let mut follows = Conditions::NONE;
        follows.instead.put(three, Some(Us(700)));
        assert_eq!(slice(follows), Some(700));
    }

    #[test]
    fn a_level_does_not_pay_for_those_that_keep_the_engine_from_it() {
        let ran = [10, 20, 30, 40, 50, 60, 70, 80].map(Ns);
        let held = |by: usize, time, kept: u8| {
            held_for(Level::ALL[by], Ns(time), &ran, level::Set::of_bits(kept)).0
        };
        assert_eq!(held(0, 1_000, 0), 1_000);
        assert_eq!(held(0, 1_000, 1 << 3), 960);
        assert_eq!(held(0, 1_000, 1 << 3 | 1 << 1), 940);
        // Itself, and more urgent ones, are its own.
        assert_eq!(held(3, 1_000, 1 << 3 | 1 << 1), 1_000);
        assert_eq!(held(0, 30, 1 << 3), 0);
    }

    #[test]
    fn levels_that_are_anybodys_are_preemptible() {
        let mut t = Tunables::new();
        for level in Level::ALL {
            let set = t.slices_mut().set_preemptible(level, false);
            let may = level.number() < 6;
            assert_eq!(set.is_ok(), may);
            assert_eq!(t.slices().is_preemptible(level), !may);
        }
    }
}
