// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Tests of owners, managers, members and strangers, each of whom asks for what it may and may not.

#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_permit))]
mod tests {
    use crate::policy::{permit::*, rotation::Weight};

    const FREE: Quota = Quota {
        held: 0,
        most: 10,
        raised: 0,
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

    fn at(number: u32) -> Level {
        Level::new(number).unwrap_or(Level::BE)
    }

    fn weight(number: u32) -> Change {
        Change {
            set: Values {
                weight: Weight::new(number).ok(),
                ..Values::default()
            },
            ..Change::default()
        }
    }

    fn slice(us: u32) -> Change {
        Change {
            set: Values {
                timeslice: Some(Us(us)),
                ..Values::default()
            },
            ..Change::default()
        }
    }

    /// A target, and the layers beneath its own assignment.
    struct Lab {
        own: Option<Assignment>,
        beneath: Layers,
        tunables: Tunables,
        quota: Quota,
    }

    impl Lab {
        fn new() -> Self {
            Self {
                own: None,
                beneath: Layers::NONE,
                tunables: Tunables::new(),
                quota: FREE,
            }
        }

        /// In a cgroup that an administrator gave a level.
        fn in_cgroup(level: Level) -> Self {
            let own = Assignment {
                level: Some(Own::privileged(level, false)),
                ..Assignment::NONE
            };
            Self {
                beneath: Layers::NONE.over(Source::Cgroup, Some(own)),
                ..Self::new()
            }
        }

        fn ask(&self, caller: Caller, asked: impl Into<Change>) -> Result<Grant, Denied> {
            let beneath = &self.beneath;
            change(
                caller,
                asked.into(),
                self.own,
                beneath,
                &self.tunables,
                self.quota,
            )
        }

        /// Makes the call; whether it was refused.
        fn make(&mut self, caller: Caller, asked: impl Into<Change>) -> Option<Denied> {
            match self.ask(caller, asked) {
                Ok(grant) => {
                    self.own = Some(grant.assignment).filter(|own| !own.is_empty());
                    None
                }
                Err(denied) => Some(denied),
            }
        }
    }

    const NOT_PERMITTED: Option<Denied> = Some(Denied::NotPermitted);

    #[test]
    fn an_owner_takes_or_keeps() {
        for now in Level::ALL {
            for level in Level::ALL {
                let answer = Lab::in_cgroup(now).ask(OWNER, level);
                assert_eq!(answer.is_ok(), !level.is_above(now));
                let own = answer.ok().and_then(|grant| grant.assignment.level);
                assert!(!own.is_some_and(|own| own.is_privileged()));
            }
        }
        let lab = Lab::new();
        assert!(lab.ask(OWNER, Level::DEFAULT).is_ok());
        assert_eq!(lab.ask(OWNER, at(5)), Err(Denied::NotPermitted));
        assert!(lab.ask(OWNER, weight(1024)).is_ok());
        assert_eq!(lab.ask(OWNER, weight(1025)), Err(Denied::NotPermitted));
        let be = Lab::in_cgroup(Level::BE);
        assert!(be.ask(OWNER, slice(200)).is_ok());
        assert_eq!(be.ask(OWNER, slice(201)), Err(Denied::NotPermitted));
    }

    #[test]
    fn a_slice_without_a_class_is_free_until_it_is_in_force() {
        let mut lab = Lab::new();
        assert_eq!(lab.make(OWNER, slice(10_000_000)), None);
        assert_eq!(lab.make(OWNER, slice(500)), None);
        assert_eq!(lab.make(OWNER, slice(501)), NOT_PERMITTED);
        assert_eq!(lab.make(OWNER, Change::CLEAR), NOT_PERMITTED);
        assert_eq!(lab.make(ADMIN, Change::CLEAR), None);
        assert_eq!(lab.own, None);
    }

    #[test]
    fn what_a_manager_allowed_stays_allowed_while_the_owner_takes_less() {
        let mut lab = Lab::in_cgroup(Level::BE);
        assert_eq!(lab.make(ADMIN, Level::LC), None);
        assert_eq!(lab.make(OWNER, at(3)), None);
        assert_eq!(lab.make(OWNER, at(2)), NOT_PERMITTED);
        let level = |lab: &Lab| lab.beneath.over(Source::Process, lab.own).level().value;
        assert_eq!(level(&lab), at(3));
        assert_eq!(lab.make(OWNER, Level::BE), None);
        assert!(lab
            .own
            .is_some_and(|own| own.level.is_some_and(|level| level.is_privileged())));
        assert_eq!(lab.make(OWNER, Change::CLEAR), NOT_PERMITTED);
    }

    #[test]
    fn an_owner_clears_what_gives_nothing() {
        let mut lab = Lab::new();
        assert_eq!(lab.make(OWNER, Level::BE), None);
        assert_eq!(lab.make(OWNER, Change::CLEAR), NOT_PERMITTED);
        let mut lab = Lab::in_cgroup(Level::BE);
        assert_eq!(lab.make(OWNER, Level::BE), None);
        assert_eq!(lab.make(OWNER, Change::CLEAR), None);
        assert_eq!(lab.make(ADMIN, Level::BE), None);
        assert_eq!(lab.make(OWNER, Change::CLEAR), NOT_PERMITTED);
        // Nor is it cleared to be set anew.
        let anew = Change {
            clear: Set::ALL,
            ..Level::BE.into()
        };
        assert_eq!(lab.make(OWNER, anew), NOT_PERMITTED);
        assert_eq!(lab.make(ADMIN, anew), None);
    }

    #[test]
    fn what_is_not_there_is_not_cleared() {
        let mut lab = Lab::new();
        let nothing = Some(Denied::NotAssigned);
        assert_eq!(lab.make(ADMIN, Change::CLEAR), nothing);
        assert_eq!(lab.make(OWNER, Change::CLEAR), nothing);
        assert_eq!(lab.make(OWNER, Change::default()), nothing);
        assert_eq!(lab.make(STRANGER, Change::CLEAR), NOT_PERMITTED);
        assert_eq!(lab.make(ADMIN, weight(5)), None);
        let level = Change {
            clear: Set {
                level: true,
                ..Set::default()
            },
            ..Change::default()
        };
        assert_eq!(lab.make(ADMIN, level), nothing);
        assert_eq!(lab.make(ADMIN, Change::CLEAR), None);
    }

    #[test]
    fn a_stranger_may_nothing_and_an_admin_everything() {
        let mut lab = Lab::in_cgroup(Level::BE);
        lab.quota = Quota {
            held: 10,
            raised: 1000,
            ..FREE
        };
        for asked in [Level::LC.into(), Level::BE.into(), weight(1), slice(10)] {
            assert_eq!(lab.ask(STRANGER, asked), Err(Denied::NotPermitted));
        }
        for asked in [Level::LC.into(), weight(10_000), slice(10_000_000)] {
            let raised = lab.ask(ADMIN, asked).map(|grant| grant.raised);
            assert_eq!(raised, Ok(false));
        }
    }

    #[test]
    fn members_raise_within_the_budget() {
        let mut lab = Lab::new();
        assert!(lab.tunables.set_lc_admission(2).is_ok());
        let raised = |lab: &Lab, asked: Change| lab.ask(MEMBER, asked).map(|grant| grant.raised);
        let asked = [at(5).into(), slice(1025)];
        for asked in asked {
            assert_eq!(raised(&lab, asked), Ok(true));
        }
        lab.quota.raised = 2;
        for asked in asked {
            assert_eq!(raised(&lab, asked), Err(Denied::OverQuota));
        }
        for asked in [Level::DEFAULT.into(), slice(1024), weight(10_000)] {
            assert_eq!(raised(&lab, asked), Ok(false));
        }
    }

    #[test]
    fn a_share_of_the_budget_is_held_until_nothing_is_raised() {
        let mut lab = Lab::new();
        assert_eq!(lab.make(MEMBER, Level::LC), None);
        lab.quota.raised = 64;
        let raised = |lab: &Lab, asked| lab.ask(OWNER, asked).map(|grant| grant.raised);
        assert_eq!(raised(&lab, at(5)), Ok(true));
        assert_eq!(raised(&lab, at(6)), Ok(false));
        // Another attribute is no second one, and an administrator's is none.
        assert_eq!(
            lab.ask(MEMBER, weight(9)).map(|grant| grant.raised),
            Ok(true)
        );
        assert_eq!(
            lab.ask(ADMIN, weight(9)).map(|grant| grant.raised),
            Ok(true)
        );
        assert_eq!(
            lab.ask(ADMIN, Level::LC).map(|grant| grant.raised),
            Ok(false)
        );
    }

    #[test]
    fn the_quota_binds_owner_and_member_after_permission() {
        let mut lab = Lab::new();
        lab.quota.held = 10;
        assert_eq!(lab.ask(OWNER, Level::BE), Err(Denied::OverQuota));
        assert_eq!(lab.ask(MEMBER, Level::BE), Err(Denied::OverQuota));
        assert_eq!(lab.ask(OWNER, Level::LC), Err(Denied::NotPermitted));
        assert!(lab.ask(ADMIN, Level::LC).is_ok());
    }
}
