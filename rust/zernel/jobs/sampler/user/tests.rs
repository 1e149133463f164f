// SPDX-License-Identifier: GPL-2.0
//! KUnit suite of the shares of users.

#[kernel::macros::kunit_tests(zernel_sampler_user)]
mod cases {
    use crate::jobs::sampler::user::*;
    use kernel::prelude::*;

    const SHARE: Share = Share {
        looks: 8,
        searches: 1,
    };

    const TICK: Ns = Ns(1_000_000);

    /// A program with a thread.
    #[derive(Default)]
    struct Fake {
        visits: u32,
        namings: u32,
        tsgs: u64,
        rests: bool,
        is_to_search: bool,
        due: Option<Ns>,
    }

    impl Visited for Fake {
        fn begin(&mut self, _: Ns) -> u64 {
            self.visits += 1;
            self.tsgs
        }

        fn is_to_search(&mut self, _: Ns) -> bool {
            self.is_to_search
        }

        fn due(&self) -> Option<Ns> {
            self.due
        }

        fn rests(&self) -> bool {
            self.rests
        }

        fn leave(&mut self) {}
    }

    /// A user with so many programs.
    fn user(count: usize) -> Result<User<Fake>> {
        let mut user = User::new();
        for key in 1..=count {
            user.insert(RBTreeNode::new(key, Fake::default(), GFP_KERNEL)?);
        }
        Ok(user)
    }

    /// A tick, in which naming takes so many looks for each program. Returns the visits.
    fn tick(user: &mut User<Fake>, share: Share, named: u64) -> u32 {
        let sum = |user: &User<Fake>| user.awake.values().map(|p| p.visits).sum::<u32>();
        let before = sum(user);
        user.begin_tick(share, user.ticked.saturating_add(TICK), TICK);
        user.name(share, |program| {
            program.namings += 1;
            named
        });
        user.look(share, user.ticked, |visit| {
            visit.looks -= 1;
            visit.extra = if visit.is_searched { 40 } else { 0 };
            true
        });
        sum(user) - before
    }

    /// Walks through the programs 2, 4, 6 and 8.
    fn walked(from: usize, then: fn(usize) -> Then) -> Result<(KVec<usize>, Option<usize>, usize)> {
        let (mut awake, mut resting) = (RBTree::new(), RBTree::new());
        for key in [2, 4, 6, 8] {
            awake.try_create_and_insert(key, (), GFP_KERNEL)?;
        }
        let mut keys = KVec::with_capacity(4, GFP_KERNEL)?;
        let stopped = walk(&mut awake, &mut resting, from, |key, ()| {
            let _ = keys.push_within_capacity(key);
            then(key)
        });
        Ok((keys, stopped, resting.keys().count()))
    }

    #[test]
    fn each_once_from_the_turn_on() -> Result {
        for (from, order) in [
            (0, [2, 4, 6, 8]),
            (5, [6, 8, 2, 4]),
            (6, [6, 8, 2, 4]),
            (9, [2, 4, 6, 8]),
        ] {
            let (keys, stopped, resting) = walked(from, |_| Then::GoOn)?;
            assert_eq!((&keys[..], stopped, resting), (&order[..], None, 0));
        }
        Ok(())
    }

    #[test]
    fn until_it_stops() -> Result {
        let stop = |key| match key {
            4 => Then::Stop,
            _ => Then::GoOn,
        };
        let (keys, stopped, _) = walked(6, stop)?;
        assert_eq!((&keys[..], stopped), (&[6, 8, 2, 4][..], Some(4)));
        Ok(())
    }

    #[test]
    fn those_that_rest_leave() -> Result {
        let rest = |key| match key {
            6 | 8 => Then::Rest,
            _ => Then::GoOn,
        };
        let (keys, stopped, resting) = walked(5, rest)?;
        assert_eq!((&keys[..], stopped, resting), (&[6, 8, 2, 4][..], None, 2));
        Ok(())
    }

    #[test]
    fn a_tick_visits_as_many_as_the_share_says() -> Result {
        for count in [3, 100] {
            let mut user = user(count)?;
            for _ in 0..100 {
                // A visit and a look each.
                assert!(tick(&mut user, SHARE, 0) <= 4);
            }
            let visits = || user.awake.values().map(|p| p.visits);
            let fewest = 100 * 4 / count as u32;
            assert!(visits().all(|visits| visits >= fewest.min(100) - 1));
        }
        Ok(())
    }

    #[test]
    fn naming_leaves_time_for_visits() -> Result {
        let least = Share { looks: 2, ..SHARE };
        for (share, took) in [(least, 1), (SHARE, 4), (SHARE, 129)] {
            let mut user = user(3)?;
            for _ in 0..1_000 {
                tick(&mut user, share, took);
            }
            assert!(user
                .awake
                .values()
                .all(|p| p.visits >= 10 && p.namings >= 2));
        }
        // Visits go on from another one than naming does.
        let mut user = user(6)?;
        for _ in 0..100 {
            tick(&mut user, SHARE, 1);
        }
        assert!(user.awake.values().all(|p| p.namings >= 30));
        Ok(())
    }

    #[test]
    fn naming_leaves_half_of_the_looks() -> Result {
        let mut user = user(1_000)?;
        let mut sum = 0;
        for _ in 0..100 {
            sum += tick(&mut user, SHARE, 1);
        }
        // Four visits in a tick, and two of them in every other one.
        assert!((290..=310).contains(&sum));
        Ok(())
    }

    #[test]
    fn searches_and_tsgs_are_paid_for() -> Result {
        let mut user = user(1)?;
        let mut visits = |tsgs, is_to_search| {
            if let Some(program) = user.awake.get_mut(&1) {
                (program.tsgs, program.is_to_search) = (tsgs, is_to_search);
            }
            let mut sum = 0;
            for _ in 0..600 {
                sum += tick(&mut user, SHARE, 0);
            }
            sum
        };
        assert_eq!(visits(0, false), 600);
        // 2 looks and 22 more; 2 and 40.
        assert!((195..=205).contains(&visits(22 * ADDED, false)));
        assert!((110..=120).contains(&visits(0, true)));
        Ok(())
    }

    #[test]
    fn a_debt_is_paid_first() -> Result {
        let mut user = user(1)?;
        assert!(user.remove(1).is_some());
        user.charge(10 * SHARE.looks);
        assert!(user.is_empty() && !user.rests());
        user.insert(RBTreeNode::new(1, Fake::default(), GFP_KERNEL)?);
        let mut ticks = 1;
        while tick(&mut user, SHARE, 0) == 0 {
            ticks += 1;
        }
        assert_eq!(ticks, 10);
        Ok(())
    }

    #[test]
    fn a_rest_pays_for_looks() -> Result {
        let (most, least) = (
            Share {
                looks: 125,
                ..SHARE
            },
            Share { looks: 2, ..SHARE },
        );
        for (rest, is_visited) in [(50, true), (10, false)] {
            let mut user = user(50)?;
            assert_eq!(tick(&mut user, most, 0), 50);
            assert_eq!(user.used, 100);
            user.rest();
            let now = Ns(user.ticked.0 + rest * TICK.0);
            user.begin_tick(least, now, TICK);
            let has_looks = user.used < least.looks;
            assert_eq!(has_looks, is_visited);
        }
        Ok(())
    }

    #[test]
    fn signals_come_in_time() -> Result {
        let mut user = user(LEAST_GLANCES as usize)?;
        let due = Ns(5_000_000);
        if let Some(program) = user.awake.get_mut(&7) {
            program.due = Some(due);
        }
        let least = Share { looks: 2, ..SHARE };
        // The visit of the program, with a few others.
        for _ in 0..LEAST_GLANCES {
            tick(&mut user, least, 0);
        }
        let mut given = 0;
        let mut give = |program: &mut Fake, now| {
            given += u32::from(program.due.take_if(|due| *due <= now).is_some());
        };
        let before = Ns(due.0 - 1);
        assert_eq!(user.signal(least, before, |p| give(p, before)), Some(due));
        assert_eq!(user.signal(least, due, |p| give(p, due)), None);
        // The next one comes when the window is over.
        if let Some(program) = user.awake.get_mut(&7) {
            program.due = Some(due);
        }
        user.due = Some(due);
        let end = due.saturating_add(WINDOW);
        assert_eq!(user.signal(least, due, |p| give(p, due)), Some(end));
        assert_eq!(user.signal(least, end, |p| give(p, end)), None);
        assert_eq!(given, 2);
        Ok(())
    }
}
