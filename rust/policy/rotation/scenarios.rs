// SPDX-License-Identifier: GPL-2.0
//! Tests of the whole rotation, by hand: each one is a small story of one run list.

#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_policy_rotation_turn))]
mod tests {
    use crate::policy::{
        rotation::{
            entity::{
                Entity,
                Sample, //
            },
            run_list::RunList,
            turn::{
                Action,
                Outcome,
                Turn, //
            },
            Discipline,
            Quantum,
            Weight, //
        },
        units::Ns,
    };

    const US: u64 = 1_000;
    const MS: u64 = 1_000_000;

    struct Slots([Option<Entity>; 3]);

    impl RunList for Slots {
        type Id = usize;

        fn get(&self, id: usize) -> Option<&Entity> {
            self.0.get(id)?.as_ref()
        }

        fn get_mut(&mut self, id: usize) -> Option<&mut Entity> {
            self.0.get_mut(id)?.as_mut()
        }

        fn each(&self, mut visit: impl FnMut(usize, &Entity)) {
            for (id, e) in self.0.iter().enumerate() {
                if let Some(e) = e {
                    visit(id, e);
                }
            }
        }
    }

    fn idle(turn: &mut Turn<usize>, count: usize) -> Slots {
        turn.set_on(true);
        let mut list = Slots([None, None, None]);
        for slot in list.0.iter_mut().take(count) {
            let mut e = Entity::new(Weight::DEFAULT);
            turn.join(&mut e);
            *slot = Some(e);
        }
        list
    }

    fn five_ms() -> Quantum {
        Quantum::new(Ns(5 * MS)).unwrap_or(Quantum::DEFAULT)
    }

    fn rr() -> Turn<usize> {
        Turn::new(Discipline::RoundRobin, five_ms())
    }

    /// Several that are runnable, the first of them enabled.
    fn busy(turn: &mut Turn<usize>, count: usize) -> Slots {
        let mut list = idle(turn, count);
        for id in 0..count {
            see(turn, &mut list, id, 0, true);
        }
        for id in 1..count {
            assert_eq!(turn.next(&mut list, Ns(0)), Action::Disable(id));
            assert_eq!(done(turn, &mut list, 0), None);
        }
        assert_eq!(turn.current(), Some(0));
        list
    }

    fn see(turn: &mut Turn<usize>, list: &mut Slots, id: usize, ran: u64, runnable: bool) {
        let ran = Ns(ran);
        let since = None;
        turn.observe(
            list,
            id,
            Sample {
                ran,
                runnable,
                since,
            },
        );
    }

    fn done(turn: &mut Turn<usize>, list: &mut Slots, now: u64) -> Option<usize> {
        turn.finished(list, Ns(now), Outcome::Done)
    }

    fn failed(turn: &mut Turn<usize>, list: &mut Slots, now: u64) -> Option<usize> {
        turn.finished(list, Ns(now), Outcome::Failed)
    }

    #[test]
    fn time_alone_is_not_paid_back_by_who_went_idle() {
        // Seen while it ran, or only when it was over; alone in the list, or beside a sleeper.
        for is_seen in [true, false] {
            for members in [1, 2] {
                let mut turn = Turn::new(Discipline::Fair, five_ms());
                let mut list = idle(&mut turn, 2);
                if members == 1 {
                    turn.leave(1);
                    list.0[1] = None;
                }
                for burst in 1..=100 {
                    if is_seen {
                        see(&mut turn, &mut list, 0, (burst - 1) * 10 * MS, true);
                    }
                    see(&mut turn, &mut list, 0, burst * 10 * MS, false);
                    turn.next(&mut list, Ns(burst * 20 * MS));
                }
                if members == 1 {
                    let mut late = Entity::new(Weight::DEFAULT);
                    turn.join(&mut late);
                    list.0[1] = Some(late);
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
    fn learn(turn: &mut Turn<usize>, list: &mut Slots, now: u64, ran: u64, runnable: bool) {
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
    fn thinker(turn: &mut Turn<usize>) -> Slots {
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
            let mut turn = Turn::new(Discipline::Fair, Quantum::DEFAULT);
            if let Ok(quantum) = Quantum::new(Ns(2 * MS)) {
                turn.tune(Discipline::Fair, quantum);
            }
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
        let later = Action::WaitUntil(Ns(5 * MS + Turn::<usize>::STEP.0));
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
        if let Some(e) = list.get_mut(1) {
            turn.readmit(e);
        }
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
        list.0[0] = None;
        turn.leave(0);
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
        list.0[0] = None;
        turn.leave(0);
        assert_eq!(turn.next(&mut list, Ns(0)), Action::Nothing);
        done(&mut turn, &mut list, 0);
        let wait = Action::WaitUntil(Ns(5 * MS));
        assert_eq!(turn.next(&mut list, Ns(0)), wait);
        assert_eq!(turn.current(), Some(1));
        list.0[1] = None;
        turn.leave(1);
        assert_eq!(turn.next(&mut list, Ns(0)), Action::Enable(2));
        // Even its own answer comes when it is gone.
        list.0[2] = None;
        turn.leave(2);
        assert_eq!(done(&mut turn, &mut list, 0), None);
        assert_eq!(turn.next(&mut list, Ns(0)), Action::Nothing);
    }

    #[test]
    fn a_new_one_waits_for_its_turn() {
        let mut turn = rr();
        let mut list = busy(&mut turn, 2);
        let mut e = Entity::new(Weight::DEFAULT);
        turn.join(&mut e);
        if let Ok(heavy) = Weight::new(2_048) {
            turn.set_weight(&mut e, heavy);
        }
        list.0[2] = Some(e);
        assert_eq!(turn.next(&mut list, Ns(0)), Action::Disable(2));
        turn.tune(Discipline::Fair, five_ms());
    }
}
