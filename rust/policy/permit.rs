// SPDX-License-Identifier: GPL-2.0
//! The rules of who may give or take which class.

use super::{
    class::{
        Assignment,
        Effective, //
    },
    level::Level,
    rotation::Weight, //
};

/// The kernel's account of the caller of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    /// The target belongs to the caller.
    pub(crate) owner: bool,
    /// The caller has `CAP_SYS_NICE`.
    pub(crate) capable: bool,
    /// The caller is a member of the group `lc_gid`.
    pub(crate) member: bool,
}

/// The assignments that a user has, and may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    /// Assignments of the user, the one that is replaced not counted.
    pub(crate) held: u32,
    /// Most assignments of a user without `CAP_SYS_NICE`.
    pub(crate) most: u32,
    /// Raised assignments of all members together, the one that is replaced not counted.
    pub(crate) raised: u32,
    /// The tunable `lc_admission`: most of those.
    pub(crate) admission: u32,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// It raises, or names another user's target, without privilege.
    NotPermitted,
    /// It is over the caller's quota or the admission budget.
    OverQuota,
}

/// The way in which an assignment is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The assignment to store.
    pub(crate) assignment: Assignment,
    /// True if it counts towards the admission budget.
    pub(crate) raised: bool,
}

/// The content of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    /// The level.
    pub(crate) level: Level,
    /// The weight; `None`: the one that the target has, or [`Weight::DEFAULT`].
    pub(crate) weight: Option<Weight>,
}

impl From<Level> for Wish {
    fn from(level: Level) -> Self {
        Self {
            level,
            weight: None,
        }
    }
}

/// Decides a request to give `wish` to a target for which `now` is in force and which has the
/// assignment `replaced`.
///
/// Lowering one's own target, or keeping its level, is free, and keeps what privilege has allowed
/// there; so is a weight up to what privilege has given there, or else [`Weight::DEFAULT`]. No
/// weight means the one that it had. Everything else needs `CAP_SYS_NICE` or membership. Members are
/// bound by the admission budget as far as they raise above [`Level::DEFAULT`].
pub(crate) fn set(
    caller: Caller,
    now: Effective,
    replaced: Option<Grant>,
    wish: Wish,
    quota: Quota,
) -> Result<Grant, Denied> {
    let level = wish.level;
    let privileged = caller.capable || caller.member;
    let old = replaced.map(|grant| grant.assignment);
    let weight = wish
        .weight
        .or(old.map(|old| old.weight))
        .unwrap_or(Weight::DEFAULT);
    let free = old
        .filter(|old| old.is_privileged())
        .map_or(Weight::DEFAULT, |old| old.weight);
    if !privileged && weight > free {
        return Err(Denied::NotPermitted);
    }
    if !privileged && (!caller.owner || level.is_above(now.rank())) {
        return Err(Denied::NotPermitted);
    }
    let was_raised = replaced.is_some_and(|grant| grant.raised);
    let raised = !caller.capable && caller.member && level.is_above(Level::DEFAULT);
    if !caller.capable && quota.held >= quota.most {
        return Err(Denied::OverQuota);
    }
    if raised && quota.raised >= quota.admission {
        return Err(Denied::OverQuota);
    }
    let allowed = if privileged {
        Some(level)
    } else {
        // Only what allows the level at all: one that was less urgent allows nothing here.
        replaced
            .and_then(|grant| grant.assignment.allowed)
            .filter(|allowed| !level.is_above(*allowed))
    };
    Ok(Grant {
        assignment: Assignment {
            level,
            allowed,
            weight,
        },
        // A share of the budget is held as long as the level is above the default.
        raised: raised || (!privileged && was_raised && level.is_above(Level::DEFAULT)),
    })
}

/// Decides a request to clear `own`: `now` is in force, `then` would be afterwards.
///
/// Only privilege takes away an assignment that privilege made: the one beneath may be the owner's
/// own, and end at the owner's will.
pub(crate) fn clear(
    caller: Caller,
    own: Assignment,
    now: Effective,
    then: Effective,
) -> Result<(), Denied> {
    if caller.capable || caller.member {
        return Ok(());
    }
    if !caller.owner || own.is_privileged() || then.rank().is_above(now.rank()) {
        return Err(Denied::NotPermitted);
    }
    Ok(())
}

#[cfg(any(test, zernel_kunit))]
#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_permit))]
mod tests {
    use super::*;
    use crate::policy::class::Source;

    const FREE: Quota = Quota {
        held: 0,
        most: 10,
        raised: 0,
        admission: 2,
    };
    const BY_USER: Assignment = Assignment {
        level: Level::BE,
        allowed: None,
        weight: Weight::DEFAULT,
    };
    const STRANGER: Caller = Caller {
        owner: false,
        capable: false,
        member: false,
    };
    const OWNER: Caller = Caller {
        owner: true,
        ..STRANGER
    };
    const ADMIN: Caller = Caller {
        capable: true,
        ..STRANGER
    };
    const MEMBER: Caller = Caller {
        member: true,
        ..STRANGER
    };

    /// A request that names no weight.
    fn set(
        caller: Caller,
        now: Effective,
        replaced: Option<Grant>,
        level: Level,
        quota: Quota,
    ) -> Result<Grant, Denied> {
        super::set(caller, now, replaced, level.into(), quota)
    }

    fn in_force(level: Level) -> Effective {
        Effective {
            level: Some(level),
            source: Source::Process,
            weight: Weight::DEFAULT,
        }
    }

    #[test]
    fn only_privilege_gives_more_than_the_usual_weight() {
        let be = |number| Wish {
            level: Level::BE,
            weight: Weight::new(number).ok(),
        };
        let set = |caller, replaced, wish| {
            super::set(caller, Effective::NONE, replaced, wish, FREE)
                .map(|grant| grant.assignment.weight.number())
        };
        assert_eq!(set(OWNER, None, be(1024)), Ok(1024));
        assert_eq!(set(OWNER, None, be(1)), Ok(1));
        assert_eq!(set(OWNER, None, be(1025)), Err(Denied::NotPermitted));
        assert_eq!(set(MEMBER, None, be(10_000)), Ok(10_000));
        let held_down = super::set(ADMIN, Effective::NONE, None, be(100), FREE).ok();
        assert_eq!(set(OWNER, held_down, be(101)), Err(Denied::NotPermitted));
        assert_eq!(set(OWNER, held_down, be(99)), Ok(99));
        assert_eq!(set(OWNER, held_down, Level::BE.into()), Ok(100));
        let preferred = super::set(ADMIN, Effective::NONE, None, be(5000), FREE).ok();
        assert_eq!(set(OWNER, preferred, be(5000)), Ok(5000));
        assert_eq!(set(OWNER, preferred, be(5001)), Err(Denied::NotPermitted));
    }

    #[test]
    fn owner_may_lower_or_keep() {
        for now in Level::ALL {
            for level in Level::ALL {
                let r = set(OWNER, in_force(now), None, level, FREE);
                assert_eq!(r.is_ok(), !level.is_above(now));
            }
        }
    }

    #[test]
    fn owner_without_class_ranks_as_default() {
        assert!(set(OWNER, Effective::NONE, None, Level::BE, FREE).is_ok());
        assert!(set(OWNER, Effective::NONE, None, Level::DEFAULT, FREE).is_ok());
        assert_eq!(
            set(OWNER, Effective::NONE, None, Level::LC, FREE),
            Err(Denied::NotPermitted)
        );
    }

    #[test]
    fn owner_assignment_is_unprivileged() {
        let r = set(OWNER, Effective::NONE, None, Level::BE, FREE);
        assert_eq!(
            r.map(|g| (g.assignment.is_privileged(), g.raised)),
            Ok((false, false))
        );
    }

    #[test]
    fn owner_keeps_what_privilege_allowed() {
        let granted = set(MEMBER, Effective::NONE, None, Level::LC, FREE).ok();
        let lowered = set(OWNER, in_force(Level::LC), granted, Level::ALL[3], FREE);
        assert_eq!(
            lowered.map(|g| (g.assignment.allowed, g.raised)),
            Ok((Some(Level::LC), true))
        );
        let lowest = set(OWNER, in_force(Level::LC), lowered.ok(), Level::BE, FREE);
        assert_eq!(
            lowest.map(|g| (g.assignment.allowed, g.raised)),
            Ok((Some(Level::LC), false))
        );
    }

    #[test]
    fn stranger_may_nothing() {
        for level in Level::ALL {
            assert_eq!(
                set(STRANGER, in_force(Level::LC), None, level, FREE),
                Err(Denied::NotPermitted)
            );
        }
        assert_eq!(
            clear(STRANGER, BY_USER, in_force(Level::BE), Effective::NONE),
            Err(Denied::NotPermitted)
        );
    }

    #[test]
    fn admin_may_everything_without_quota() {
        let full = Quota {
            held: 10,
            raised: 2,
            ..FREE
        };
        for level in Level::ALL {
            let r = set(ADMIN, in_force(Level::BE), None, level, full);
            assert_eq!(
                r.map(|g| (g.assignment.is_privileged(), g.raised)),
                Ok((true, false))
            );
        }
    }

    #[test]
    fn member_raises_within_the_budget() {
        let r = set(MEMBER, Effective::NONE, None, Level::LC, FREE);
        assert_eq!(
            r.map(|g| (g.assignment.is_privileged(), g.raised)),
            Ok((true, true))
        );
        let used = Quota { raised: 2, ..FREE };
        assert_eq!(
            set(MEMBER, Effective::NONE, None, Level::LC, used),
            Err(Denied::OverQuota)
        );
        assert!(set(MEMBER, Effective::NONE, None, Level::BE, used).is_ok());
    }

    #[test]
    fn budget_of_zero_admits_nobody() {
        let none = Quota {
            admission: 0,
            ..FREE
        };
        assert_eq!(
            set(MEMBER, Effective::NONE, None, Level::LC, none),
            Err(Denied::OverQuota)
        );
    }

    #[test]
    fn quota_binds_owner_and_member() {
        let full = Quota { held: 10, ..FREE };
        assert_eq!(
            set(OWNER, Effective::NONE, None, Level::BE, full),
            Err(Denied::OverQuota)
        );
        assert_eq!(
            set(MEMBER, Effective::NONE, None, Level::BE, full),
            Err(Denied::OverQuota)
        );
    }

    #[test]
    fn permission_is_told_before_quota() {
        let full = Quota { held: 10, ..FREE };
        assert_eq!(
            set(OWNER, Effective::NONE, None, Level::LC, full),
            Err(Denied::NotPermitted)
        );
    }

    #[test]
    fn owner_clears_only_what_does_not_raise() {
        assert_eq!(
            clear(OWNER, BY_USER, in_force(Level::BE), Effective::NONE),
            Err(Denied::NotPermitted)
        );
        assert!(clear(OWNER, BY_USER, in_force(Level::BE), in_force(Level::BE)).is_ok());
        assert!(clear(MEMBER, BY_USER, in_force(Level::BE), Effective::NONE).is_ok());
        assert!(clear(ADMIN, BY_USER, in_force(Level::BE), Effective::NONE).is_ok());
    }

    #[test]
    fn owner_does_not_clear_what_privilege_made() {
        let by_admin = Assignment {
            level: Level::BE,
            allowed: Some(Level::BE),
            weight: Weight::DEFAULT,
        };
        assert_eq!(
            clear(OWNER, by_admin, in_force(Level::BE), in_force(Level::BE)),
            Err(Denied::NotPermitted)
        );
        assert!(clear(ADMIN, by_admin, in_force(Level::BE), Effective::NONE).is_ok());
    }
}
