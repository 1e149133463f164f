// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Requests that take the GPU from each other.

#[cfg_attr(
    not(test),
    kernel::macros::kunit_tests(zernel_policy_deadline_preemptive)
)]
mod tests {
    use crate::policy::{
        deadline::{
            fresh::fresh,
            line::{
                Claim,
                Lane,
                Line,
                Place, //
            },
            preemptive::{
                Step,
                HOLDS,
                MARGIN,
                MOST, //
            },
        },
        level::Level,
        units::Ns, //
    };

    const LANE: Lane = Lane {
        runlist: 0,
        level: Level::LC,
    };
    const MS: u64 = 1_000_000;
    const NOW: Ns = Ns(MS);
    const NOWHERE: Place = Place(Line::ROOM);

    fn claim(deadline: Ns) -> Claim {
        Claim {
            deadline,
            due: NOW,
            switch: Ns::ZERO,
            burst: Ns(MS),
        }
    }

    /// A request of a TSG and user that waits; deadlines are in ms.
    fn waiting(line: &mut Line, tsg: u64, user: u32, deadline: u64) -> Place {
        let place = line
            .join(LANE, user, claim(Ns(deadline * MS)))
            .unwrap_or(NOWHERE);
        line.contends(place, tsg);
        line.waits(place);
        place
    }

    /// The same with the GPU, for 100 ms at most.
    fn running(line: &mut Line, tsg: u64, user: u32, deadline: u64) -> Place {
        let place = waiting(line, tsg, user, deadline);
        line.runs(place, Ns(100 * MS), NOW);
        place
    }

    fn wanted(line: &Line, now: Ns) -> [Option<u64>; MOST] {
        line.wishes(now).map(|wish| wish.map(|wish| wish.tsg))
    }

    /// Those of these TSGs alone.
    fn only<const N: usize>(tsgs: [u64; N]) -> [Option<u64>; MOST] {
        let mut all = [None; MOST];
        for (place, tsg) in all.iter_mut().zip(tsgs) {
            *place = Some(tsg);
        }
        all
    }

    /// A request that is held, and that which has the GPU instead.
    fn taken(line: &mut Line) -> (Place, Place) {
        let late = running(line, 1, 1, 90);
        let early = waiting(line, 2, 1, 50);
        assert_eq!(line.step(LANE, NOW, true), Step::Held(late));
        assert_eq!(line.step(LANE, NOW, true), Step::Go(early));
        line.runs(early, Ns(100 * MS), NOW);
        (late, early)
    }

    #[test]
    fn an_earlier_deadline_takes_the_gpu_and_gives_it_back() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let late = running(&mut line, 1, 1, 90);
        let early = waiting(&mut line, 2, 1, 50);
        assert_eq!(line.step(LANE, NOW, true), Step::Held(late));
        assert_eq!(wanted(&line, NOW), only([1]));
        assert_eq!(line.step(LANE, NOW, true), Step::Go(early));
        line.runs(early, Ns(100 * MS), NOW);
        // One that is earlier still: both are held, and go on in the order of deadlines.
        let first = waiting(&mut line, 3, 1, 20);
        assert_eq!(line.step(LANE, NOW, true), Step::Held(early));
        assert_eq!(line.step(LANE, NOW, true), Step::Go(first));
        line.runs(first, Ns(100 * MS), NOW);
        assert_eq!(line.step(LANE, NOW, true), Step::Rest);
        assert_eq!(wanted(&line, NOW), only([2, 1]));
        line.leave(first);
        assert_eq!(line.step(LANE, NOW, true), Step::Resumed(early));
        assert_eq!(line.step(LANE, NOW, true), Step::Rest);
        assert_eq!(wanted(&line, NOW), only([1]));
        line.leave(early);
        assert_eq!(line.step(LANE, NOW, true), Step::Resumed(late));
        assert_eq!(wanted(&line, NOW), only([]));
        assert_eq!(line.step(LANE, NOW, true), Step::Rest);
    }

    #[test]
    fn a_deadline_that_is_hardly_earlier_takes_nothing() {
        for (earlier, taken) in [(0, false), (MARGIN.0, false), (MARGIN.0 + 1, true)] {
            let Some(mut line) = fresh() else {
                return assert_eq!("no memory", "");
            };
            let late = running(&mut line, 1, 1, 90);
            let at = Ns(90 * MS - earlier);
            let early = line.join(LANE, 1, claim(at)).unwrap_or(NOWHERE);
            line.contends(early, 2);
            line.waits(early);
            let is_taken = line.step(LANE, NOW, true) == Step::Held(late);
            assert_eq!(is_taken, taken);
        }
    }

    #[test]
    fn only_stated_deadlines_of_other_tsgs_count() {
        // Without terms on either side, of the same TSG, and with another order.
        for (own, other, is_on) in [
            (None, Some(2), true),
            (Some(1), None, true),
            (Some(1), Some(1), true),
            (Some(1), Some(2), false),
        ] {
            let Some(mut line) = fresh() else {
                return assert_eq!("no memory", "");
            };
            let places = [(own, 90), (other, 50)].map(|(tsg, deadline)| {
                let place = line
                    .join(LANE, 1, claim(Ns(deadline * MS)))
                    .unwrap_or(NOWHERE);
                if let Some(tsg) = tsg {
                    line.contends(place, tsg);
                }
                line.waits(place);
                place
            });
            let [late, early] = places;
            line.runs(late, Ns(100 * MS), NOW);
            assert_eq!(line.step(LANE, NOW, is_on), Step::Rest);
            line.leave(late);
            assert_eq!(line.step(LANE, NOW, is_on), Step::Go(early));
        }
    }

    #[test]
    fn it_is_given_back_whatever_others_do() {
        // At its own deadline, at the end of its lease, and with another order.
        for (deadline, at, is_on) in [(60, 60, true), (200, 100, true), (200, 2, false)] {
            let Some(mut line) = fresh() else {
                return assert_eq!("no memory", "");
            };
            let late = running(&mut line, 1, 1, deadline);
            let early = waiting(&mut line, 2, 1, 50);
            assert_eq!(line.step(LANE, NOW, true), Step::Held(late));
            assert_eq!(line.step(LANE, NOW, true), Step::Go(early));
            line.runs(early, Ns(1_000 * MS), NOW);
            let just = Ns(at * MS - 1);
            assert_eq!(line.step(LANE, just, true), Step::Rest);
            if is_on {
                assert_eq!(line.released(just), (None, Some(Ns(at * MS))));
                assert_eq!(line.released(Ns(at * MS)).0, Some(LANE));
            }
            assert_eq!(line.held_lane(), Some(LANE));
            assert_eq!(line.step(LANE, Ns(at * MS), is_on), Step::Resumed(late));
            assert_eq!((line.held_lane(), line.released(just).1), (None, None));
            // And not taken from again.
            waiting(&mut line, 3, 1, 2);
            assert_eq!(line.step(LANE, Ns(at * MS - 1), true), Step::Rest);
        }
    }

    #[test]
    fn its_own_events_do_not_give_it_back() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let (late, _) = taken(&mut line);
        line.runs(late, Ns(80 * MS), NOW);
        assert_eq!(wanted(&line, NOW), only([1]));
        assert_eq!(line.released(NOW), (None, Some(Ns(80 * MS))));
        // But its end does.
        line.leave(late);
        assert_eq!(wanted(&line, NOW), only([]));
    }

    #[test]
    fn a_request_is_held_so_often_and_no_more() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let late = running(&mut line, 1, 1, 90);
        for tsg in 0..u64::from(HOLDS) {
            let early = waiting(&mut line, 10 + tsg, 1, 50);
            assert_eq!(line.step(LANE, NOW, true), Step::Held(late));
            assert_eq!(line.step(LANE, NOW, true), Step::Go(early));
            line.leave(early);
            assert_eq!(line.step(LANE, NOW, true), Step::Resumed(late));
        }
        waiting(&mut line, 50, 1, 50);
        assert_eq!(line.step(LANE, NOW, true), Step::Rest);
    }

    #[test]
    fn a_tsg_is_not_held_while_another_request_of_it_runs() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let (late, early) = taken(&mut line);
        // The next one of the TSG that is held is first now: both go on.
        let next = waiting(&mut line, 1, 1, 80);
        assert_eq!(line.step(LANE, NOW, true), Step::Rest);
        line.leave(early);
        assert_eq!(line.step(LANE, NOW, true), Step::Resumed(late));
        assert_eq!(line.step(LANE, NOW, true), Step::Rest);
        line.leave(late);
        assert_eq!(line.step(LANE, NOW, true), Step::Go(next));
    }

    #[test]
    fn a_user_holds_others_for_half_of_the_time() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let mut now = NOW;
        let (mut held, mut passed) = (0, 0);
        for round in 0..200 {
            let deadline = now.0 / MS + 9_000;
            let late = running(&mut line, 1, 1, deadline);
            line.runs(late, Ns(u64::MAX), NOW);
            let early = waiting(&mut line, 2, 2, deadline - 1_000);
            let taken = line.step(LANE, now, true) == Step::Held(late);
            // Its own are not counted.
            let own = waiting(&mut line, 3, 1, deadline - 2_000);
            assert!(taken || line.step(LANE, now, true) == Step::Held(late));
            line.leave(own);
            held += if taken { 10 } else { 0 };
            passed += 10;
            now = now.saturating_add(Ns(10 * MS));
            line.step(LANE, now, true);
            line.leave(early);
            line.leave(late);
            assert!(held <= 100 + 10 + passed / 2);
            assert!(round != 199 || held >= passed / 3);
        }
    }

    #[test]
    fn a_promise_is_not_taken_from() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let late = line.admit(LANE, 1, claim(Ns(90 * MS)), None, NOW);
        let late = late.unwrap_or(NOWHERE);
        line.contends(late, 1);
        line.runs(late, Ns(100 * MS), NOW);
        waiting(&mut line, 2, 1, 50);
        assert_eq!(line.step(LANE, NOW, true), Step::Rest);
    }

    /// A user holds requests of another one that end while they are held, so long each: whether the last of
    /// so many was.
    fn holds_one_that_leaves(line: &mut Line, each: u64, times: u64) -> bool {
        let mut was_held = false;
        for time in 0..times {
            let now = Ns(NOW.0 + time * each);
            let late = waiting(line, 1, 1, 9_000);
            line.runs(late, Ns(u64::MAX), now);
            let early = waiting(line, 2, 2, 8_000);
            was_held = line.step(LANE, now, true) == Step::Held(late);
            line.step(LANE, now, true);
            line.runs(early, Ns(u64::MAX), now);
            let then = Ns(now.0 + each);
            line.over(late, None, then);
            line.over(early, None, then);
        }
        was_held
    }

    #[test]
    fn a_hold_is_charged_to_the_end_of_its_victim() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        assert!(holds_one_that_leaves(&mut line, 60 * MS, 3));
        // 100 ms at first, and half of the time since.
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        assert!(!holds_one_that_leaves(&mut line, 60 * MS, 4));
    }

    #[test]
    fn a_user_that_follows_another_one_pays_for_itself() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        assert!(holds_one_that_leaves(&mut line, 70 * MS, 3));
        let now = Ns(NOW.0 + 210 * MS);
        let late = waiting(&mut line, 1, 1, 9_000);
        line.runs(late, Ns(u64::MAX), now);
        let early = waiting(&mut line, 3, 3, 7_000);
        let next = waiting(&mut line, 2, 2, 8_000);
        assert_eq!(line.step(LANE, now, true), Step::Held(late));
        assert_eq!(line.step(LANE, now, true), Step::Go(early));
        line.runs(early, Ns(u64::MAX), now);
        line.over(early, None, Ns(now.0 + MS));
        // It holds nobody for what is left of another one's hold.
        let now = Ns(now.0 + MS);
        assert_eq!(line.step(LANE, now, true), Step::Resumed(late));
        assert_eq!(line.step(LANE, now, true), Step::Rest);
        line.over(late, None, now);
        assert_eq!(line.step(LANE, now, true), Step::Go(next));
    }

    /// A request that goes by itself, at its own deadline or by a store of its process.
    fn by_itself(line: &mut Line, tsg: u64, user: u32, deadline: Ns, now: Ns) -> Place {
        let place = line.join(LANE, user, claim(deadline)).unwrap_or(NOWHERE);
        line.contends(place, tsg);
        line.runs(place, Ns(u64::MAX), now);
        place
    }

    /// One that is held for 9 s, and its victim, which has its turn.
    fn held_for_long(line: &mut Line) -> (Place, Place) {
        let late = running(line, 1, 1, 9_000);
        line.runs(late, Ns(u64::MAX), NOW);
        let early = waiting(line, 2, 2, 2_000);
        assert_eq!(line.step(LANE, NOW, true), Step::Held(late));
        assert_eq!(line.step(LANE, NOW, true), Step::Go(early));
        line.runs(early, Ns(u64::MAX), NOW);
        assert_eq!(line.step(LANE, NOW, true), Step::Rest);
        (late, early)
    }

    #[test]
    fn one_that_goes_by_itself_pays_too() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let (late, early) = held_for_long(&mut line);
        let mut now = Ns(NOW.0 + MS);
        let mut last = by_itself(&mut line, 3, 3, Ns(now.0 + 1), now);
        assert_eq!(line.step(LANE, now, true), Step::Charged);
        assert_eq!(line.step(LANE, now, true), Step::Rest);
        line.over(early, None, now);
        // The next begins before the last is over.
        let mut rounds = 0;
        while line.step(LANE, now, true) == Step::Rest && rounds < 1_000 {
            now = Ns(now.0 + MS);
            let next = by_itself(&mut line, 3, 3, Ns(now.0 + 1), now);
            line.over(last, None, now);
            (last, rounds) = (next, rounds + 1);
        }
        // 100 ms, and half of the time: 200 ms.
        assert_eq!(rounds, 200);
        assert_eq!(wanted(&line, now), only([]));
        assert_eq!(line.step(LANE, now, true), Step::Rest);
        assert!(line.credit(3, now) <= 0);
        // The one that took it pays for its own time alone.
        assert_eq!(line.credit(2, now), 100_000_000);
        assert!(line.over(late, None, now).is_some());
    }

    #[test]
    fn a_hold_ends_as_its_credit_does() {
        let Some(mut line) = fresh() else {
            return assert_eq!("no memory", "");
        };
        let (late, early) = held_for_long(&mut line);
        let spent = Ns(NOW.0 + 200 * MS - 1);
        assert_eq!(line.released(NOW), (None, Some(spent)));
        let just = Ns(spent.0 - 1);
        assert_eq!(line.step(LANE, just, true), Step::Rest);
        assert_eq!(line.released(just), (None, Some(spent)));
        assert_eq!(line.released(spent).0, Some(LANE));
        assert_eq!(line.step(LANE, spent, true), Step::Resumed(late));
        assert_eq!(line.step(LANE, spent, true), Step::Rest);
        // Both have the GPU. It takes again when it has 10 ms: in 20.
        line.over(early, None, spent);
        let next = waiting(&mut line, 2, 2, 2_000);
        let then = Ns(spent.0 + 20 * MS - 1);
        assert_eq!(line.step(LANE, then, true), Step::Rest);
        assert_eq!(line.step(LANE, Ns(then.0 + 1), true), Step::Held(late));
        assert!(line.over(next, None, then).is_some());
    }
}
