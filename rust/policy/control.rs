// SPDX-License-Identifier: GPL-2.0
//! May a process change the settings of its own TSG through its driver?
//!
//! Drivers let it, without any privilege, so that a class would last only as long as its owner
//! pleases.

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

    /// Decides about a change. `held`: zernel has settings in force on the TSG, or is about to.
    pub(crate) fn decide(self, held: bool) -> Verdict {
        match (self, held) {
            (Self::Allow, _) => Verdict::Allow,
            (_, false) => Verdict::Watch,
            (Self::Reapply, true) => Verdict::Reapply,
            (Self::Deny, true) => Verdict::Deny,
        }
    }

    /// Decides about a change of a TSG that zernel does not know. `turned_away`: some of its GPU
    /// were not taken, so that it may be one that a class should hold down, and nobody could put
    /// it right.
    pub(crate) fn decide_unknown(self, turned_away: bool) -> Verdict {
        match self {
            Self::Deny | Self::Reapply if turned_away => Verdict::Deny,
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
    /// It takes place. Should a class come between this answer and the driver's act, it is put
    /// right.
    Watch,
    /// It takes place and is put right.
    Reapply,
    /// It does not take place.
    Deny,
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_control))]
mod tests {
    use super::*;

    #[test]
    fn nothing_else_is_decided() {
        let expected = [
            (Policy::Deny, Verdict::Watch, Verdict::Deny),
            (Policy::Reapply, Verdict::Watch, Verdict::Reapply),
            (Policy::Allow, Verdict::Allow, Verdict::Allow),
        ];
        for (policy, free, held) in expected {
            assert_eq!(policy.decide(false), free);
            assert_eq!(policy.decide(true), held);
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
            assert_eq!(policy.decide_unknown(false), Verdict::Allow);
            assert_eq!(policy.decide_unknown(true), turned_away);
        }
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
