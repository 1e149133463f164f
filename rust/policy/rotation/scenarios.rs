// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Tests of the whole rotation, by hand: each one is a small story of one run list.

mod fixture;
mod idleness;

#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_rotation_turn))]
mod tests {
    use crate::policy::{
        rotation::{
            run_list::RunList,
            scenarios::fixture::{
                busy,
                done,
                failed,
                five_ms,
                idle,
                join,
                leave,
                rr,
                see,
                MS,
                US, //
            },
            turn::{
                Action,
                Outcome,
                Turn, //
            },
            Discipline,
            Weight, //
        },
        units::Ns, //
    };

    #[test]
    fn time_alone_is_not_paid_back_by_who_went_idle() {
        // Seen while it ran, or only when it was over; alone in the list, or beside a sleeper.
        for is_seen in [true, false] {
            for members in [1, 2] {
                let mut turn = Turn::new(Discipline::Fair, five_ms());
                let mut list = idle(&mut turn, 2);
                if members == 1 {
                    leave(&mut turn, &mut list, 1);
                }
                for burst in 1..=100 {
                    if is_seen {
                        see(&mut turn, &mut list, 0, (burst - 1) * 10 * MS, true);
                    }
                    see(&mut turn, &mut list, 0, burst * 10 * MS, false);
                    turn.next(&mut list, Ns(burst * 20 * MS));
                }
                if members == 1 {
                    join(&mut turn, &mut list, 1);
                }
                see(&mut turn, &mut list, 1, 0, true);
                see(&mut turn, &mut list, 0, 1000 * MS, true);
                let times = [0, 1].map(|id| list.get(id).map_or(0, |e| e.vruntime));
                assert!(times[0].abs_diff(times[1]) <= 5 * MS);
            }
        }
    }

    #[test]
    fn the_next_is_enabled_before_the_last_is_disabled() {
        let mut turn = rr();
        let mut list = busy(&mut turn, 3);
        assert_eq!(turn.next(&mut list, Ns(0)), Action::WaitUntil(Ns(5 * MS)));
        let mut now = 0;
        for (from, to) in [(0, 1), (1, 2), (2, 0), (0, 1)] {
            now += 5 * MS;
            let ran = list.get(from).map_or(0, |e| e.seen.map_or(0, |Ns(n)| n));
            see(&mut turn, &mut list, from, ran + 5 * MS, true);
            assert_eq!(turn.next(&mut list, Ns(now)), Action::Enable(to));
            assert_eq!(turn.next(&mut list, Ns(now)), Action::Nothing);
            done(&mut turn, &mut list, now);
            assert_eq!(turn.next(&mut list, Ns(now)), Action::Disable(from));
            done(&mut turn, &mut list, now);
            assert_eq!(turn.current(), Some(to));
            let end = Ns(now + 5 * MS);
            assert_eq!(turn.next(&mut list, Ns(now)), Action::WaitUntil(end));
        }
    }

    #[test]
    fn newcomers_keep_nobody_from_a_turn() {
        let mut turn = rr();
        let mut list = busy(&mut turn, 2);
        see(&mut turn, &mut list, 0, MS, false);
        // An enabled one comes at each decision, in place of the last.
        let mut decisions = [Action::Nothing; 3];
        for decision in &mut decisions {
            if list.get(2).is_some() {
                leave(&mut turn, &mut list, 2);
            }
            join(&mut turn, &mut list, 2);
            *decision = turn.next(&mut list, Ns(2 * MS));
            done(&mut turn, &mut list, 2 * MS);
        }
        // The one that has its turn is disabled in between, too.
        let [enable, disable] = [Action::Enable(1), Action::Disable(0)];
        assert_eq!(decisions, [enable, Action::Disable(2), disable]);
    }

    #[test]
    fn only_gpu_time_counts() {
        let mut turn = rr();
        let mut list = busy(&mut turn, 2);
        // LC had 3 of the 5 ms.
        see(&mut turn, &mut list, 0, 2 * MS, true);
        let later = Action::WaitUntil(Ns(8 * MS));
        assert_eq!(turn.next(&mut list, Ns(5 * MS)), later);
        turn.set_lc(true, Ns(5 * MS));
        let later = Action::WaitUntil(Ns(13 * MS));
        assert_eq!(turn.next(&mut list, Ns(8 * MS)), later);
        turn.set_lc(false, Ns(8 * MS));
        // It is expected to have the GPU once more, and half a quantum is waited for that.
        see(&mut turn, &mut list, 0, 5 * MS, true);
        let later = Action::WaitUntil(Ns(11 * MS + 500 * US));
        assert_eq!(turn.next(&mut list, Ns(9 * MS)), later);
        see(&mut turn, &mut list, 0, 7 * MS + 500 * US, true);
        assert_eq!(turn.next(&mut list, Ns(12 * MS)), Action::Enable(1));
    }

    #[test]
    fn the_next_is_enabled_while_lc_has_the_gpu() {
        let mut turn = rr();
        let mut list = busy(&mut turn, 2);
        turn.set_lc(true, Ns(0));
        turn.set_lc(false, Ns(2 * MS));
        see(&mut turn, &mut list, 0, 2 * MS, true);
        turn.set_lc(true, Ns(4 * MS));
        // Less than half a quantum is not worth the calls.
        assert_eq!(
            turn.next(&mut list, Ns(4 * MS)),
            Action::WaitUntil(Ns(9 * MS))
        );
        turn.set_lc(false, Ns(6 * MS));
        see(&mut turn, &mut list, 0, 3 * MS, true);
        turn.set_lc(true, Ns(7 * MS));
        // Two calls of 250 us in the middle of 2 ms.
        let middle = Ns(7 * MS + 750 * US);
        assert_eq!(turn.next(&mut list, Ns(7 * MS)), Action::WaitUntil(middle));
        assert_eq!(turn.next(&mut list, middle), Action::Enable(1));
        done(&mut turn, &mut list, 8 * MS);
        assert_eq!(turn.next(&mut list, Ns(8 * MS)), Action::Disable(0));
        done(&mut turn, &mut list, 8 * MS + 250 * US);
        assert_eq!(turn.current(), Some(1));
    }

    #[test]
    fn lc_that_is_too_quick_for_a_hand_over_is_not_waited_for() {
        let mut turn = rr();
        let mut list = busy(&mut turn, 2);
        for n in 0..3 {
            turn.set_lc(true, Ns(n * MS));
            turn.set_lc(false, Ns(n * MS + 600 * US));
        }
        see(&mut turn, &mut list, 0, 3 * MS, true);
        turn.set_lc(true, Ns(4 * MS));
        assert_eq!(
            turn.next(&mut list, Ns(4 * MS)),
            Action::WaitUntil(Ns(9 * MS))
        );
        turn.set_lc(false, Ns(4 * MS + 600 * US));
        see(&mut turn, &mut list, 0, 5 * MS, true);
        assert_eq!(turn.next(&mut list, Ns(7 * MS)), Action::Enable(1));
    }

    /// An observation of the first one at `now`, which is learned from.
    #[test]
    fn a_hand_over_to_nobody_is_called_off() {
        let mut turn = rr();
        let mut list = busy(&mut turn, 2);
        see(&mut turn, &mut list, 0, 5 * MS, true);
        assert_eq!(turn.next(&mut list, Ns(5 * MS)), Action::Enable(1));
        done(&mut turn, &mut list, 5 * MS);
        see(&mut turn, &mut list, 1, 0, false);
        assert_eq!(turn.next(&mut list, Ns(5 * MS)), Action::Disable(1));
        done(&mut turn, &mut list, 5 * MS);
        assert_eq!(turn.current(), Some(0));
        assert_eq!(turn.next(&mut list, Ns(5 * MS)), Action::Nothing);
    }

    #[test]
    fn what_cannot_be_disabled_stays_enabled_aside() {
        let mut turn = rr();
        let mut list = idle(&mut turn, 3);
        for id in 0..3 {
            see(&mut turn, &mut list, id, 0, true);
        }
        assert_eq!(turn.next(&mut list, Ns(0)), Action::Disable(1));
        assert_eq!(failed(&mut turn, &mut list, 0), Some(1));
        // It may have been disabled all the same.
        assert_eq!(turn.next(&mut list, Ns(0)), Action::Enable(1));
        done(&mut turn, &mut list, 0);
        assert!(list
            .get(1)
            .is_some_and(|e| e.is_in_slices() && e.is_enabled()));
        assert_eq!(turn.next(&mut list, Ns(0)), Action::Disable(2));
        done(&mut turn, &mut list, 0);
        see(&mut turn, &mut list, 0, 5 * MS, true);
        assert_eq!(turn.next(&mut list, Ns(5 * MS)), Action::Enable(2));
        done(&mut turn, &mut list, 5 * MS);
        turn.readmit(&mut list, 1);
        assert_eq!(turn.next(&mut list, Ns(5 * MS)), Action::Disable(1));
    }

    #[test]
    fn what_cannot_be_enabled_is_tried_again() {
        let mut turn = rr();
        let mut list = busy(&mut turn, 3);
        see(&mut turn, &mut list, 0, 5 * MS, true);
        assert_eq!(turn.next(&mut list, Ns(5 * MS)), Action::Enable(1));
        assert_eq!(failed(&mut turn, &mut list, 5 * MS), Some(1));
        assert_eq!(turn.next(&mut list, Ns(5 * MS)), Action::Enable(2));
        done(&mut turn, &mut list, 5 * MS);
        assert_eq!(turn.next(&mut list, Ns(6 * MS)), Action::Enable(1));
        // Reported once.
        assert_eq!(failed(&mut turn, &mut list, 6 * MS), None);
        assert_eq!(turn.next(&mut list, Ns(6 * MS)), Action::Disable(0));
        done(&mut turn, &mut list, 6 * MS);
        let retry = Action::WaitUntil(Ns(8 * MS));
        assert_eq!(turn.next(&mut list, Ns(6 * MS)), retry);
    }

    #[test]
    fn later_is_said_again() {
        let mut turn = rr();
        let mut list = busy(&mut turn, 2);
        see(&mut turn, &mut list, 0, 5 * MS, true);
        for _ in 0..3 {
            assert_eq!(turn.next(&mut list, Ns(5 * MS)), Action::Enable(1));
            let outcome = turn.finished(&mut list, Ns(5 * MS), Outcome::Later);
            assert_eq!(outcome, None);
        }
    }

    #[test]
    fn in_the_end_all_are_enabled() {
        let mut turn = rr();
        let mut list = busy(&mut turn, 3);
        turn.set_on(false);
        for id in 1..3 {
            assert_eq!(turn.next(&mut list, Ns(0)), Action::Enable(id));
            done(&mut turn, &mut list, 0);
        }
        assert_eq!(turn.next(&mut list, Ns(0)), Action::Nothing);
        assert_eq!(turn.current(), None);
    }

    #[test]
    fn the_last_one_is_enabled() {
        let mut turn = rr();
        let mut list = busy(&mut turn, 2);
        leave(&mut turn, &mut list, 0);
        assert_eq!(turn.next(&mut list, Ns(0)), Action::Enable(1));
        done(&mut turn, &mut list, 0);
        assert_eq!(turn.next(&mut list, Ns(0)), Action::Nothing);
    }

    #[test]
    fn who_leaves_is_replaced() {
        let mut turn = rr();
        let mut list = busy(&mut turn, 3);
        see(&mut turn, &mut list, 0, 5 * MS, true);
        assert_eq!(turn.next(&mut list, Ns(0)), Action::Enable(1));
        leave(&mut turn, &mut list, 0);
        assert_eq!(turn.next(&mut list, Ns(0)), Action::Nothing);
        done(&mut turn, &mut list, 0);
        let wait = Action::WaitUntil(Ns(5 * MS));
        assert_eq!(turn.next(&mut list, Ns(0)), wait);
        assert_eq!(turn.current(), Some(1));
        leave(&mut turn, &mut list, 1);
        assert_eq!(turn.next(&mut list, Ns(0)), Action::Enable(2));
        // Even its own answer comes when it is gone.
        leave(&mut turn, &mut list, 2);
        assert_eq!(done(&mut turn, &mut list, 0), None);
        assert_eq!(turn.next(&mut list, Ns(0)), Action::Nothing);
    }

    #[test]
    fn a_new_one_waits_for_its_turn() {
        let mut turn = rr();
        let mut list = busy(&mut turn, 2);
        join(&mut turn, &mut list, 2);
        if let Ok(heavy) = Weight::new(2_048) {
            turn.set_weight(&mut list, 2, heavy);
        }
        assert_eq!(turn.next(&mut list, Ns(0)), Action::Disable(2));
        done(&mut turn, &mut list, 0);
        turn.tune(&mut list, Discipline::Fair, five_ms());
        assert_eq!(turn.next(&mut list, Ns(0)), Action::WaitUntil(Ns(5 * MS)));
    }

    #[test]
    fn others_may_enable_and_disable_too() {
        let mut turn = rr();
        let mut list = busy(&mut turn, 3);
        turn.set_enabled(&mut list, 2, true);
        assert_eq!(turn.next(&mut list, Ns(0)), Action::Disable(2));
        done(&mut turn, &mut list, 0);
        turn.set_enabled(&mut list, 0, false);
        assert_eq!(turn.next(&mut list, Ns(0)), Action::Enable(0));
        done(&mut turn, &mut list, 0);
        assert_eq!(turn.next(&mut list, Ns(0)), Action::WaitUntil(Ns(5 * MS)));
        assert_eq!(turn.current(), Some(0));
    }
}
