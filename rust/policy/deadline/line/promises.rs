// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Promises to requests, as the order keeps and refuses them.

#[cfg_attr(
    not(test),
    kernel::macros::kunit_tests(zernel_policy_deadline_promises)
)]
mod tests {
    use super::super::*;
    use crate::policy::{
        deadline::fresh::{
            claim,
            fresh,
            LANE,
            NOW, //
        },
        deadline::preemptive::Step,
        deadline::HORIZON,
        level::{
            self,
            Level, //
        },
    };

    /// A request that has the GPU, and needs it for so long.
    fn running(line: &mut Line, user: u32, demand: u64) -> Result<Place, Refused> {
        let place = line.admit(LANE, user, claim(100_000, demand), None, NOW)?;
        line.runs(place, Ns(50_000), NOW);
        Ok(place)
    }

    #[test]
    fn a_promise_counts_what_is_there() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let first = running(&mut line, 1, 5_000);
        assert!(first.is_ok());
        let mut ask = |demand, replaced| {
            let asked = claim(NOW.0 + 10_000, demand);
            let place = line.admit(LANE, 1, asked, replaced, NOW);
            place.map(|place| line.leave(place).is_some())
        };
        assert_eq!(ask(5_000, None), Ok(true));
        let late = Refused::Late(Some(Ns(NOW.0 + 10_001)));
        assert_eq!(ask(5_001, None), Err(late));
        // It is over as the other begins.
        assert_eq!(ask(10_000, first.ok()), Ok(true));
    }

    #[test]
    fn nobody_waits_for_one_that_lied() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let first = running(&mut line, 1, 5_000);
        let next = line.join(LANE, 2, claim(200_000, 0));
        next.map(|next| line.waits(next));
        assert_eq!(line.busy_until(LANE, NOW), Some(Ns(6_000)));
        assert_eq!(line.next(LANE, Ns(5_999)), None);
        assert_eq!(line.next(LANE, Ns(6_000)), next);
        // As long again as it has had, and for its lease at most.
        for (at, left) in [(6_000, 5_000), (20_000, 19_000), (45_000, 5_000)] {
            assert_eq!(line.free_from(LANE, None, Ns(at)), Ns(at + left));
            assert_eq!(line.free_from(LANE, first.ok(), Ns(at)), Ns(at));
        }
    }

    #[test]
    fn its_own_user_waits_for_one_that_lied() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let first = running(&mut line, 1, 5_000);
        let own = line.admit(LANE, 1, claim(100_000, 50), None, NOW).ok();
        let others = line.join(LANE, 2, claim(200_000, 0));
        for place in [own, others].into_iter().flatten() {
            line.waits(place);
        }
        // It has 5,000 from 1,000 on, and a lease to 50,000.
        assert_eq!(line.next(LANE, Ns(5_999)), None);
        assert_eq!(line.asks_at(LANE, Ns(5_999)), Some(Ns(6_000)));
        assert_eq!(line.next(LANE, Ns(6_000)), others);
        assert_eq!(line.asks_at(LANE, Ns(6_000)), None);
        others.map(|place| line.leave(place));
        assert_eq!(line.next(LANE, Ns(6_000)), None);
        assert_eq!(line.step(LANE, Ns(6_000), false), Step::Rest);
        assert_eq!(line.asks_at(LANE, Ns(6_000)), Some(Ns(50_000)));
        assert_eq!(line.next(LANE, Ns(50_000)), own);
        assert_eq!(line.asks_at(LANE, Ns(50_000)), None);
        // Once it is over it is waited for no more.
        assert!(first.is_ok_and(|first| line.leave(first).is_some()));
        assert_eq!(line.next(LANE, Ns(6_000)), own);
    }

    #[test]
    fn promises_that_were_given_follow_a_lie() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        // Each of 50, of which 10 are a switch.
        let mut lies = [None; 8];
        for lie in &mut lies {
            *lie = line.admit(LANE, 1, claim(900_000, 50), None, NOW).ok();
            lie.map(|place| line.waits(place));
        }
        let honest = line.admit(LANE, 2, claim(950_000, 50), None, NOW).ok();
        honest.map(|place| line.waits(place));
        let [Some(first), rest @ ..] = lies else {
            return assert_eq!("no promise", "");
        };
        assert_eq!(line.next(LANE, NOW), Some(first));
        line.runs(first, Ns(500_000), NOW);
        let then = Ns(41_000);
        assert_eq!(line.over(first, Some(Ns(40_000)), then), Some(LANE));
        // One that was promised more is before those that turned out to be lies: those have no promise.
        assert_eq!(line.next(LANE, then), honest);
        let jobs = || (0..8).filter_map(|at| line.job(at, LANE, None, then));
        assert!(jobs().all(|job| job.is_promised == (job.user == 2)));
        assert_eq!(jobs().filter(|job| job.demand == Ns(40_010)).count(), 7);
        assert_eq!(jobs().filter(|job| job.waits).count(), 8);
        // The next that asks finds what they take.
        let mut ask = |user, due: u64, within: u64| {
            let asked = Claim {
                deadline: Ns(then.0 + within),
                due: Ns(then.0 + due),
                switch: Ns(10),
                burst: Ns(40),
            };
            let place = line.admit(LANE, user, asked, None, then);
            place.map(|place| line.leave(place).is_some())
        };
        assert_eq!(ask(3, 0, 150), Ok(true));
        // One of those may be triggered just before it is due.
        assert!(ask(3, 10, 40_069).is_err());
        assert_eq!(ask(3, 10, 40_070), Ok(true));
        assert!(ask(1, 0, 40_009).is_err());
        assert!(rest
            .into_iter()
            .flatten()
            .all(|place| line.leave(place) == Some(LANE)));
    }

    #[test]
    fn promises_that_count_for_a_little_more_are_kept() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let far = Lane { runlist: 1, ..LANE };
        let place = line.admit(LANE, 1, claim(100_000, 5_000), None, NOW).ok();
        for (lane, demand) in [(LANE, 5_000), (LANE, 10_000), (far, 5_000)] {
            let admitted = line.admit(lane, 1, claim(100_000, demand), None, NOW);
            assert!(admitted.is_ok());
        }
        if let Some(place) = place {
            line.runs(place, Ns(50_000), NOW);
            // Half more than said.
            assert_eq!(line.over(place, Some(Ns(6_000)), Ns(7_000)), Some(LANE));
        }
        let all = |lane, demand| {
            let jobs = (0..4).filter_map(|at| line.job(at, lane, None, NOW));
            jobs.filter(|job| job.is_promised && job.demand == Ns(demand))
                .count()
        };
        // None counts for longer than the longest of them.
        assert_eq!([all(LANE, 7_000), all(LANE, 10_000)], [1, 1]);
        assert_eq!(all(far, 7_000), 1);
    }

    #[test]
    fn what_may_be_others_doubles_the_factor_at_most() {
        let mut all = level::Set::NONE;
        all.put(Level::LC, true);
        for (levels, within) in [(all, 80_010), (level::Set::NONE, 400_010)] {
            let Some(mut line) = fresh() else {
                return assert_eq!("no memory", "");
            };
            // It takes ten times as long as it said.
            let place = line.admit(LANE, 1, claim(900_000, 50_000), None, NOW).ok();
            if let Some(place) = place {
                line.runs(place, Ns(900_000), NOW);
                line.share(levels, NOW);
                let end = Ns(NOW.0 + 410_000);
                assert_eq!(line.over(place, Some(Ns(400_000)), end), Some(LANE));
            }
            let asked = |within: u64| Claim {
                deadline: Ns(500_000 + within),
                due: Ns(500_000),
                switch: Ns(10),
                burst: Ns(40_000),
            };
            let mut ask = |within: u64| {
                let place = line.admit(LANE, 1, asked(within), None, Ns(500_000));
                place.map(|place| line.leave(place).is_some())
            };
            assert_eq!(ask(within), Ok(true));
            assert!(ask(within - 1).is_err());
        }
    }

    #[test]
    fn a_lie_is_believed_once() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let lied = line.admit(LANE, 1, claim(100_000, 50), None, NOW);
        assert!(lied.is_ok_and(|place| line.over(place, Some(Ns(40_000)), NOW) == Some(LANE)));
        let asked = claim(NOW.0 + 40_000, 50);
        let late = Refused::Late(Some(Ns(NOW.0 + 40_010)));
        assert_eq!(line.admit(LANE, 1, asked, None, NOW), Err(late));
        // Of another user.
        assert!(line.admit(LANE, 2, claim(100_000, 50), None, NOW).is_ok());
    }

    #[test]
    fn a_lie_that_is_given_up_is_one() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let lied = line.admit(LANE, 1, claim(100_000, 50), None, NOW);
        if let Ok(place) = lied {
            line.lasts(place, Ns(40_000), NOW);
            assert_eq!(line.over(place, None, NOW), Some(LANE));
        }
        let asked = claim(NOW.0 + 40_000, 50);
        let late = Refused::Late(Some(Ns(NOW.0 + 40_010)));
        assert_eq!(line.admit(LANE, 1, asked, None, NOW), Err(late));
    }

    #[test]
    fn empty_promises_wash_no_lie_off() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let ask = |line: &mut Line, demand, burst| {
            let place = line.admit(LANE, 1, claim(NOW.0 + HORIZON.0, demand), None, NOW);
            place.map(|place| line.over(place, burst, NOW).is_some())
        };
        assert_eq!(ask(&mut line, 50, Some(Ns(40_000))), Ok(true));
        for _ in 0..200 {
            assert_eq!(ask(&mut line, 50, Some(Ns::ZERO)), Ok(true));
            // Without a promise, too.
            let other = line.join(LANE, 1, claim(NOW.0 + 1, 50));
            assert!(other.is_some_and(|at| line.over(at, Some(Ns::ZERO), NOW).is_some()));
        }
        let asked = claim(NOW.0 + 40_000, 50);
        let late = Refused::Late(Some(Ns(NOW.0 + 40_010)));
        assert_eq!(line.admit(LANE, 1, asked, None, NOW), Err(late));
        // Time does, for one that is refused all of it.
        let then = Ns(NOW.0 + HORIZON.0);
        let asked = Claim {
            deadline: Ns(then.0 + 40_000),
            due: then,
            ..asked
        };
        assert!(line.admit(LANE, 1, asked, None, then).is_ok());
    }

    #[test]
    fn data_that_was_late_once_is_no_lie() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let late = line.admit(LANE, 1, claim(NOW.0 + 500, 50), None, NOW);
        if let Ok(place) = late {
            line.is_late(place, Ns(40_000), NOW);
            assert_eq!(line.over(place, None, NOW), Some(LANE));
        }
        // It is a microsecond, and twice as long.
        let late = Refused::Late(Some(Ns(NOW.0 + 2_010)));
        let ask =
            |line: &mut Line, within| line.admit(LANE, 1, claim(NOW.0 + within, 50), None, NOW);
        assert_eq!(ask(&mut line, 2_009), Err(late));
        assert!(ask(&mut line, 2_010).is_ok());
    }

    #[test]
    fn a_more_urgent_level_goes_first() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        assert!(line
            .admit(LANE, 1, claim(100_000, 5_000), None, NOW)
            .is_ok());
        let below = Lane {
            level: Level::DEFAULT,
            ..LANE
        };
        let asked = claim(NOW.0 + 8_000, 4_000);
        let late = Refused::Late(Some(Ns(NOW.0 + 9_000)));
        assert_eq!(line.admit(below, 1, asked, None, NOW), Err(late));
        let other = Lane {
            runlist: 1,
            ..below
        };
        assert!(line.admit(other, 1, asked, None, NOW).is_ok());
    }

    #[test]
    fn a_promise_takes_a_place() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let asked = claim(u64::MAX, 0);
        let mut last = None;
        for _ in 0..Line::ROOM / 2 {
            last = line.admit(LANE, 1, asked, None, NOW).ok();
            assert!(last.is_some());
        }
        let again = line.admit(LANE, 1, asked, None, NOW);
        assert_eq!(again, Err(Refused::OverQuota));
        // Beside the one that it replaces.
        let instead = line.admit(LANE, 1, asked, last, NOW);
        assert!(instead.is_ok_and(|place| line.leave(place).is_some()));
        // Those that are refused a place share no time.
        let others = Line::ROOM / 2..Line::ROOM;
        assert!(others
            .zip(100..)
            .all(|(_, user)| line.join(LANE, user, asked).is_some()));
        let none = line.admit(LANE, 3, asked, None, NOW);
        assert_eq!(none, Err(Refused::NoRoom));
        assert!(line.over(Place(0), None, NOW).is_some());
        let half = claim(NOW.0 + 100, 50);
        assert!(line.admit(LANE, 4, half, None, NOW).is_ok());
    }

    #[test]
    fn a_promise_that_was_missed_holds_nobody_up() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let far = Claim {
            due: Ns(9_950),
            ..claim(10_000, 50)
        };
        assert!(line.admit(LANE, 1, far, None, NOW).is_ok());
        let mut ask = |now: u64, demand| {
            let due = Ns(now);
            let asked = Claim {
                due,
                ..claim(now + 100, demand)
            };
            let place = line.admit(LANE, 1, asked, None, Ns(now));
            place.map(|place| line.leave(place).is_some())
        };
        assert_eq!(ask(9_900, 51), Err(Refused::Late(None)));
        assert_eq!(ask(9_999, 51), Err(Refused::Late(None)));
        // The rest of it counts, and no more.
        assert_eq!(ask(10_000, 50), Ok(true));
        assert_eq!(ask(10_000, 51), Err(Refused::Late(Some(Ns(10_101)))));
    }
}
