// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The conditions under which a class has its meaning for a TSG: those of its GPU, and its own.

use crate::policy::{
    level,
    slices::Instead,
    units::Us, //
};

/// Bounds of a GPU's hardware; a maximum of 0 means none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Shortest time slice.
    pub(crate) min: Us,
    /// Longest time slice.
    pub(crate) max: Us,
}

/// The part that all TSGs of a GPU have in common. It gives nothing a meaning: a TSG has a part of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OnGpu {
    /// Bounds of its hardware.
    pub(crate) bounds: Bounds,
    /// Best-effort TSGs can take turns.
    pub(crate) turns: bool,
    /// Levels with a spent budget: they are treated like BE.
    pub(crate) throttled: level::Set,
    /// Slices in place of those of levels.
    pub(crate) instead: Instead,
}

impl OnGpu {
    /// Of no GPU in particular.
    pub(crate) const NONE: Self = Self {
        bounds: Bounds {
            min: Us(0),
            max: Us(0),
        },
        turns: false,
        throttled: level::Set::NONE,
        instead: Instead::NONE,
    };

    /// The conditions for a TSG on it.
    pub(crate) const fn of(self, tsg: OfTsg) -> Conditions {
        Conditions {
            bounds: self.bounds,
            turns: self.turns,
            throttled: self.throttled,
            instead: self.instead,
            tsg,
        }
    }
}

/// The part of one TSG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OfTsg {
    /// Its slice in place of that of its level, with [`Policy::Slack`](crate::policy::slices::Policy::Slack).
    pub(crate) slice: Option<Us>,
    /// It is on an engine that copies.
    pub(crate) copies: bool,
    /// It yields to a request with an earlier deadline: it is treated like BE.
    pub(crate) yields: bool,
}

impl OfTsg {
    /// Of any that computes, yields to none, and has no slice but that of its level.
    pub(crate) const NONE: Self = Self {
        slice: None,
        copies: false,
        yields: false,
    };
}

/// The conditions for a TSG on a GPU, as [`OnGpu::of`] makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conditions {
    /// As in [`OnGpu`].
    pub(crate) bounds: Bounds,
    /// As in [`OnGpu`].
    pub(crate) turns: bool,
    /// As in [`OnGpu`].
    pub(crate) throttled: level::Set,
    /// As in [`OnGpu`].
    pub(crate) instead: Instead,
    /// The part of the TSG.
    pub(crate) tsg: OfTsg,
}

impl Conditions {
    /// Of no GPU and no TSG in particular.
    pub(crate) const NONE: Self = OnGpu::NONE.of(OfTsg::NONE);
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_conditions))]
mod tests {
    use super::*;
    use crate::policy::{
        class::Effective,
        level::Level,
        tunables::{
            settings::Why,
            Tunables, //
        },
    };

    #[test]
    fn one_that_yields_is_treated_like_best_effort() {
        let t = Tunables::new();
        let mut gpu = OnGpu::NONE;
        let of = |gpu: OnGpu, level: Option<Level>, tsg| {
            let class = level.map_or(Effective::NONE, Effective::of);
            t.settings(class, gpu.of(tsg))
                .map(|s| (s.timeslice.0, s.interleave, s.why.0))
        };
        let yields = OfTsg {
            yields: true,
            ..OfTsg::NONE
        };
        let be = Some(Level::BE.interleave());
        let of_lc = |gpu, tsg| of(gpu, Some(Level::LC), tsg);
        assert_eq!(of_lc(gpu, yields), Some((200, be, Why::YIELDS.0)));
        assert_eq!(of(gpu, None, yields), None);
        assert_eq!(of(gpu, Some(Level::BE), yields), Some((200, be, 0)));
        // Where best-effort has another slice it has that, and where that takes turns, its slice.
        gpu.instead.put(Level::BE, Some(Us(120)));
        assert_eq!(of_lc(gpu, yields), Some((120, be, Why::YIELDS.0)));
        gpu.turns = true;
        let both = Why::YIELDS.0 | Why::TURNS.0;
        assert_eq!(of_lc(gpu, yields), Some((50, be, both)));
        gpu = OnGpu::NONE;
        gpu.throttled.put(Level::LC, true);
        let both = Why::YIELDS.0 | Why::THROTTLED.0;
        assert_eq!(of_lc(gpu, yields), Some((200, be, both)));
        assert_eq!(of_lc(gpu, OfTsg::NONE), Some((200, be, Why::THROTTLED.0)));
        // One that copies has the slice of best-effort copies.
        let copies = OfTsg {
            copies: true,
            ..yields
        };
        assert_eq!(of_lc(OnGpu::NONE, copies), Some((10, be, Why::YIELDS.0)));
    }
}
