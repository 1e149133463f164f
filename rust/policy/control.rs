// SPDX-License-Identifier: GPL-2.0 OR MIT
//! May a process change its own TSG through its driver: its settings, or that it is scheduled?
//!
//! Drivers let it, without any privilege, so that a class would last only as long as its owner
//! pleases, and a TSG that waits for its turn would wait no longer.

use super::units::Ms;

/// The time that an owner waits after a change of the scheduling of a TSG that takes turns or is kept
/// off the GPU, the last of `changes` since it had its last turn.
///
/// Each such change costs a call, and two switches of the GPU where the TSG runs for a moment. A
/// program schedules its channels, a few in a row, without a wait.
pub(crate) fn pause(changes: u32) -> Ms {
    const FREE: u32 = 8;
    const LONGEST: Ms = Ms(16);
    let Some(more) = changes.checked_sub(FREE + 1) else {
        return Ms(0);
    };
    1u32.checked_shl(more).map_or(LONGEST, Ms).min(LONGEST)
}

/// The part of a TSG that a change concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A setting: time slice or interleave level.
    Setting,
    /// That it is scheduled at all, or when it is next.
    Schedule,
    /// That it is scheduled, as every program has it for a new TSG.
    Start,
}

/// The part of zernel in a TSG.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hold {
    /// It has settings in force on it, or is about to.
    pub(crate) set: bool,
    /// It takes turns, or is kept off the GPU.
    pub(crate) steered: bool,
    /// It is not to be scheduled for now.
    pub(crate) parked: bool,
}

/// The treatment of a change that an owner makes to a TSG with settings of zernel: the tunable
/// `user_control`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Policy {
    /// The driver refuses it.
    #[default]
    Deny,
    /// It takes place and is put right afterwards.
    Reapply,
    /// It takes place and stays until zernel sets something the next time.
    Allow,
}

impl Policy {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Deny, Self::Reapply, Self::Allow];

    /// Its name for people and programs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Reapply => "reapply",
            Self::Allow => "allow",
        }
    }

    /// The policy of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Decides about a change.
    ///
    /// A start is never denied, since no program runs without one. Turns and exclusion are not the
    /// owner's under any policy: a TSG that stopped itself in its turn would keep all others off the
    /// GPU.
    pub(crate) fn decide(self, change: Change, hold: Hold) -> Verdict {
        let held = hold.set || (change == Change::Schedule && hold.parked);
        match (self, change) {
            (_, Change::Start) if hold.parked => Verdict::Reapply,
            (_, Change::Start) => Verdict::Watch,
            (Self::Allow, Change::Schedule) if hold.steered => Verdict::Reapply,
            (Self::Allow, _) => Verdict::Allow,
            _ if !held => Verdict::Watch,
            (Self::Reapply, _) => Verdict::Reapply,
            (Self::Deny, _) => Verdict::Deny,
        }
    }

    /// Decides about a change of a TSG that zernel does not know. `turned_away`: some of its GPU
    /// were not taken, so that it may be one that a class should hold down, and nobody could put
    /// it right.
    pub(crate) fn decide_unknown(self, change: Change, turned_away: bool) -> Verdict {
        match self {
            Self::Deny | Self::Reapply if turned_away && change != Change::Start => Verdict::Deny,
            _ => Verdict::Allow,
        }
    }

    /// True if changes that `self` let through have to be put right when `next` takes over.
    pub(crate) fn is_tightened_by(self, next: Self) -> bool {
        self == Self::Allow && next != Self::Allow
    }
}

/// The decision about one change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It takes place.
    Allow,
    /// It takes place. Should a class, or the end of a turn, come between this answer and the driver's
    /// act, it is put right.
    Watch,
    /// It takes place and is put right.
    Reapply,
    /// It does not take place.
    Deny,
}

impl Verdict {
    /// The same where the change is judged when the driver has made it: it cannot be denied.
    pub(crate) fn afterwards(self) -> Self {
        match self {
            Self::Deny => Self::Reapply,
            other => other,
        }
    }
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_control))]
mod tests {
    use super::*;

    const CHANGES: [Change; 3] = [Change::Setting, Change::Schedule, Change::Start];
    const FREE: Hold = Hold {
        set: false,
        steered: false,
        parked: false,
    };
    const CLASSED: Hold = Hold { set: true, ..FREE };
    const IN_TURNS: Hold = Hold {
        steered: true,
        ..CLASSED
    };
    const PARKED: Hold = Hold {
        parked: true,
        ..IN_TURNS
    };
    /// Kept off the GPU for a request, without a class.
    const EXCLUDED: Hold = Hold {
        set: false,
        ..PARKED
    };

    #[test]
    fn afterwards_nothing_is_denied() {
        for policy in Policy::ALL {
            for change in CHANGES {
                for hold in [FREE, CLASSED, IN_TURNS, PARKED, EXCLUDED] {
                    let verdict = policy.decide(change, hold);
                    let expected = match verdict {
                        Verdict::Deny => Verdict::Reapply,
                        other => other,
                    };
                    assert_eq!(verdict.afterwards(), expected);
                    assert_ne!(verdict.afterwards(), Verdict::Deny);
                }
            }
        }
    }

    #[test]
    fn nothing_else_is_decided() {
        let expected = [
            (Policy::Deny, Verdict::Watch, Verdict::Deny),
            (Policy::Reapply, Verdict::Watch, Verdict::Reapply),
            (Policy::Allow, Verdict::Allow, Verdict::Allow),
        ];
        for (policy, free, held) in expected {
            for hold in [FREE, EXCLUDED] {
                assert_eq!(policy.decide(Change::Setting, hold), free);
            }
            for hold in [CLASSED, IN_TURNS, PARKED] {
                assert_eq!(policy.decide(Change::Setting, hold), held);
            }
            assert_eq!(policy.decide(Change::Schedule, FREE), free);
            assert_eq!(policy.decide(Change::Schedule, CLASSED), held);
        }
    }

    #[test]
    fn turns_are_nobodys_to_leave() {
        let expected = [
            (Policy::Deny, Verdict::Deny),
            (Policy::Reapply, Verdict::Reapply),
            (Policy::Allow, Verdict::Reapply),
        ];
        for (policy, verdict) in expected {
            for hold in [IN_TURNS, PARKED, EXCLUDED] {
                assert_eq!(policy.decide(Change::Schedule, hold), verdict);
            }
        }
    }

    #[test]
    fn a_start_is_never_denied() {
        for policy in Policy::ALL {
            for hold in [FREE, CLASSED, IN_TURNS] {
                assert_eq!(policy.decide(Change::Start, hold), Verdict::Watch);
            }
            for hold in [PARKED, EXCLUDED] {
                assert_eq!(policy.decide(Change::Start, hold), Verdict::Reapply);
            }
            for turned_away in [false, true] {
                let verdict = policy.decide_unknown(Change::Start, turned_away);
                assert_eq!(verdict, Verdict::Allow);
            }
        }
    }

    #[test]
    fn what_was_turned_away_is_not_free() {
        let expected = [
            (Policy::Deny, Verdict::Deny),
            (Policy::Reapply, Verdict::Deny),
            (Policy::Allow, Verdict::Allow),
        ];
        for (policy, turned_away) in expected {
            for change in CHANGES {
                assert_eq!(policy.decide_unknown(change, false), Verdict::Allow);
            }
            for change in [Change::Setting, Change::Schedule] {
                assert_eq!(policy.decide_unknown(change, true), turned_away);
            }
        }
    }

    #[test]
    fn some_changes_are_free_and_none_waits_for_long() {
        let pauses = [0, 1, 8, 9, 10, 11, 12, 13, 14, 40, 41, u32::MAX].map(pause);
        let expected = [0, 0, 0, 1, 2, 4, 8, 16, 16, 16, 16, 16].map(Ms);
        assert_eq!(pauses, expected);
    }

    #[test]
    fn denied_unless_tuned() {
        assert_eq!(Policy::default(), Policy::Deny);
    }

    #[test]
    fn names_lead_back() {
        for policy in Policy::ALL {
            assert_eq!(Policy::named(policy.name()), Some(policy));
        }
        for bad in ["", "Deny", "deny ", "den", "denyx", "0", "none"] {
            assert_eq!(Policy::named(bad), None);
        }
    }

    #[test]
    fn only_the_end_of_allow_tightens() {
        for old in Policy::ALL {
            for new in Policy::ALL {
                let expected = old == Policy::Allow && new != Policy::Allow;
                assert_eq!(old.is_tightened_by(new), expected);
            }
        }
    }
}
