// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Tests of idleness: think time, its end, and predictions of it.

#[cfg_attr(
    not(test),
    kernel::macros::kunit_tests(zernel_policy_rotation_idleness)
)]
mod tests {
    use crate::policy::{
        rotation::{
            entity::Sample,
            run_list::RunList,
            scenarios::fixture::{
                busy,
                done,
                five_ms,
                rr,
                see,
                Slots,
                MS,
                US, //
            },
            turn::{
                Action,
                Turn, //
            },
            Discipline,
            Quantum, //
        },
        units::Ns, //
    };

    fn learn(turn: &mut Turn, list: &mut Slots, now: u64, ran: u64, runnable: bool) {
        if let Some(e) = list.get_mut(0) {
            let (ran, since) = (Ns(ran), None);
            e.learn(
                Sample {
                    ran,
                    runnable,
                    since,
                },
                Ns(now),
            );
        }
        see(turn, list, 0, ran, runnable);
    }

    /// The first of two runs for 1 ms at a time, with think times of 100 us, as it is known to do.
    fn thinker(turn: &mut Turn) -> Slots {
        let mut list = busy(turn, 2);
        learn(turn, &mut list, 0, 0, true);
        learn(turn, &mut list, MS, MS, false);
        learn(turn, &mut list, 1_100 * US, MS, true);
        learn(turn, &mut list, 2_100 * US, 2 * MS, false);
        list
    }

    #[test]
    fn think_time_does_not_end_a_turn() {
        let mut turn = rr();
        let mut list = thinker(&mut turn);
        let end = Action::WaitUntil(Ns(2_300 * US));
        assert_eq!(turn.next(&mut list, Ns(2_100 * US)), end);
        learn(&mut turn, &mut list, 2_200 * US, 2 * MS, true);
        // It is a part of the turn.
        let later = Action::WaitUntil(Ns(5_100 * US));
        assert_eq!(turn.next(&mut list, Ns(2_200 * US)), later);
        // The burst nearest to its end ends it: nobody is enabled ahead of the others.
        see(&mut turn, &mut list, 0, 5 * MS, false);
        assert_eq!(turn.next(&mut list, Ns(5_400 * US)), Action::Enable(1));
    }

    #[test]
    fn a_longer_sleep_than_usual_is_no_think_time() {
        let mut turn = rr();
        let mut list = thinker(&mut turn);
        let end = Action::WaitUntil(Ns(2_300 * US));
        assert_eq!(turn.next(&mut list, Ns(2_200 * US)), end);
        assert_eq!(turn.next(&mut list, Ns(2_300 * US)), Action::Enable(1));
    }

    #[test]
    fn a_tsg_that_is_owed_time_may_think_after_its_turn() {
        for (of_other, next) in [
            (10 * MS, Action::WaitUntil(Ns(2_300 * US))),
            (0, Action::Enable(1)),
        ] {
            let quantum = Quantum::new(Ns(2 * MS)).unwrap_or(Quantum::DEFAULT);
            let mut turn = Turn::new(Discipline::Fair, quantum);
            let mut list = thinker(&mut turn);
            see(&mut turn, &mut list, 1, of_other, true);
            assert_eq!(turn.next(&mut list, Ns(2_100 * US)), next);
        }
    }

    #[test]
    fn what_is_nearly_over_is_not_watched_closely() {
        let mut turn = rr();
        let mut list = busy(&mut turn, 2);
        see(&mut turn, &mut list, 0, 5 * MS - 1, true);
        let later = Action::WaitUntil(Ns(5 * MS + Turn::STEP.0));
        assert_eq!(turn.next(&mut list, Ns(5 * MS)), later);
    }

    #[test]
    fn idleness_ends_a_turn() {
        let mut turn = rr();
        let mut list = busy(&mut turn, 2);
        see(&mut turn, &mut list, 0, MS, false);
        assert_eq!(turn.next(&mut list, Ns(MS)), Action::Enable(1));
        done(&mut turn, &mut list, MS);
        assert_eq!(turn.next(&mut list, Ns(MS)), Action::Disable(0));
        done(&mut turn, &mut list, MS);
        // Alone, however long.
        assert_eq!(turn.next(&mut list, Ns(MS)), Action::Nothing);
        see(&mut turn, &mut list, 1, 100 * MS, false);
        assert_eq!(turn.next(&mut list, Ns(101 * MS)), Action::Nothing);
        turn.set_poll(Some(Ns(MS)));
        let later = Action::WaitUntil(Ns(102 * MS));
        assert_eq!(turn.next(&mut list, Ns(101 * MS)), later);
        see(&mut turn, &mut list, 0, MS, true);
        assert_eq!(turn.next(&mut list, Ns(102 * MS)), Action::Enable(0));
    }

    #[test]
    fn the_next_is_enabled_ahead_of_idleness() {
        let mut turn = rr();
        let mut list = busy(&mut turn, 2);
        if let Some(e) = list.get_mut(0) {
            e.set_mean_burst(Some(Ns(2 * MS)));
        }
        // A call takes 250 us.
        let ahead = Ns(1_750 * US);
        assert_eq!(turn.next(&mut list, Ns(0)), Action::WaitUntil(ahead));
        see(&mut turn, &mut list, 0, ahead.0, true);
        assert_eq!(turn.next(&mut list, ahead), Action::Enable(1));
        done(&mut turn, &mut list, 2 * MS);
        // Half a millisecond more, if it does not go idle.
        see(&mut turn, &mut list, 0, 1_900 * US, true);
        let later = Action::WaitUntil(Ns(2_350 * US));
        assert_eq!(turn.next(&mut list, Ns(2 * MS)), later);
        see(&mut turn, &mut list, 0, 2 * MS, false);
        assert_eq!(turn.next(&mut list, Ns(2_100 * US)), Action::Disable(0));
        done(&mut turn, &mut list, 2_200 * US);
        assert_eq!(turn.current(), Some(1));
    }

    #[test]
    fn the_gpu_changes_hands_while_both_may_have_it() {
        let mut turn = rr();
        let mut list = busy(&mut turn, 2);
        assert!(!turn.is_handing_over(&list));
        see(&mut turn, &mut list, 0, 5 * MS, true);
        assert_eq!(turn.next(&mut list, Ns(5 * MS)), Action::Enable(1));
        assert!(turn.is_handing_over(&list));
        done(&mut turn, &mut list, 5 * MS);
        assert_eq!(turn.next(&mut list, Ns(5 * MS)), Action::Disable(0));
        assert!(turn.is_handing_over(&list));
        // The successor alone can have it.
        see(&mut turn, &mut list, 0, 5 * MS, false);
        assert!(!turn.is_handing_over(&list));
        done(&mut turn, &mut list, 5 * MS);
        assert!(!turn.is_handing_over(&list));
        // Nobody can have it until the call is done.
        see(&mut turn, &mut list, 0, 5 * MS, true);
        see(&mut turn, &mut list, 1, MS, false);
        assert_eq!(turn.next(&mut list, Ns(6 * MS)), Action::Enable(0));
        assert!(turn.is_handing_over(&list));
        done(&mut turn, &mut list, 6 * MS);
        assert!(!turn.is_handing_over(&list));
    }

    #[test]
    fn a_wrong_prediction_ends_the_turn() {
        let mut turn = rr();
        let mut list = busy(&mut turn, 2);
        if let Some(e) = list.get_mut(0) {
            e.set_mean_burst(Some(Ns(100 * US)));
        }
        assert_eq!(turn.next(&mut list, Ns(0)), Action::Enable(1));
        done(&mut turn, &mut list, 250 * US);
        see(&mut turn, &mut list, 0, 500 * US, true);
        assert_eq!(turn.next(&mut list, Ns(MS)), Action::Disable(0));
    }

    #[test]
    fn a_wrong_prediction_gives_no_turn_to_who_is_ahead() {
        for discipline in [Discipline::Fair, Discipline::Credit] {
            let mut turn = Turn::new(discipline, five_ms());
            let mut list = busy(&mut turn, 2);
            // The other had two turns in advance, one more than its credit.
            see(&mut turn, &mut list, 1, 10 * MS, true);
            if let Some(e) = list.get_mut(0) {
                e.set_mean_burst(Some(Ns(100 * US)));
            }
            assert_eq!(turn.next(&mut list, Ns(0)), Action::Enable(1));
            done(&mut turn, &mut list, 250 * US);
            see(&mut turn, &mut list, 0, 500 * US, true);
            assert_eq!(turn.next(&mut list, Ns(MS)), Action::Disable(1));
            done(&mut turn, &mut list, MS);
            assert_eq!(turn.current(), Some(0));
            let again = Action::WaitUntil(Ns(5_500 * US));
            assert_eq!(turn.next(&mut list, Ns(MS)), again);
        }
    }
}
