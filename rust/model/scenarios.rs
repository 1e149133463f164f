// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Tests of the whole model, by hand: each one is a small story with times that can be checked on
//! paper.

#[cfg_attr(not(test), kernel::macros::kunit_tests(zernel_model_gpu))]
mod tests {
    use crate::model::{
        arena::Index,
        error::Error,
        event::Start,
        fixture::{
            create,
            gpu,
            order,
            run,
            tsg,
            Log,
            TestGpu,
            Words, //
        },
        measures::{
            Ns,
            Permille,
            Us, //
        },
        tsg::{
            Handle,
            Interleave, //
        },
        work::{
            Condition,
            Expect,
            Granularity,
            Work, //
        }, //
    };

    const BUDGET: u32 = 10_000;

    fn expect(word: u16, value: u32) -> Expect {
        Expect {
            word,
            value,
            condition: Condition::AtLeast,
            rung: false,
        }
    }

    #[test]
    fn alone_pays_one_restore_and_no_slice() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(40_000))?;
        let a = tsg(&mut gpu, 1, &words, &mut log)?;
        gpu.submit(Ns(0), a, 0, &[run(1, 5_000_000, 1_000)], &mut log)?;
        // The restore, then one event at the end of the work: no timer for slices in between.
        assert_eq!(gpu.next_event(), Some(Ns(40_000)));
        assert!(gpu.advance(Ns(40_000), BUDGET, &mut log));
        assert_eq!(gpu.next_event(), Some(Ns(5_040_000)));
        assert!(gpu.advance(Ns(6_000_000), BUDGET, &mut log));
        assert_eq!(log.end(1), Some(Ns(5_040_000)));
        assert_eq!(gpu.next_event(), None);
        let stats = gpu.engine_stats(0)?;
        assert_eq!(stats.times.busy, Ns(5_000_000));
        assert_eq!(stats.times.switch, Ns(40_000));
        assert_eq!(stats.times.idle, Ns(960_000));
        // Its context is still loaded: more work starts at once.
        gpu.submit(Ns(7_000_000), a, 0, &[run(2, 1_000, 1_000)], &mut log)?;
        assert!(gpu.advance(Ns(8_000_000), BUDGET, &mut log));
        assert_eq!(log.end(2), Some(Ns(7_001_000)));
        let stats = gpu.engine_stats(0)?;
        assert_eq!(stats.switches, 1);
        // 5 ms in slices of 1024 µs.
        assert_eq!(stats.rearms, 4);
        Ok(())
    }

    #[test]
    fn a_newcomer_waits_for_the_rest_of_the_slice() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(0))?;
        let a = tsg(&mut gpu, 1, &words, &mut log)?;
        let b = tsg(&mut gpu, 2, &words, &mut log)?;
        gpu.set_timeslice(Ns(0), a, Us(200), &mut log)?;
        gpu.submit(Ns(0), a, 0, &[run(1, 10_000_000, 1_000)], &mut log)?;
        // Slices of A end at 200, 400, 600 µs.
        gpu.submit(Ns(450_000), b, 0, &[run(2, 1_000, 1_000)], &mut log)?;
        assert!(gpu.advance(Ns(20_000_000), BUDGET, &mut log));
        assert_eq!(log.end(2), Some(Ns(601_000)));
        assert_eq!(log.end(1), Some(Ns(10_001_000)));
        let stats = gpu.tsg_stats(b)?;
        assert_eq!(stats.times.wait, Ns(150_000));
        assert_eq!(stats.times.max_wait, Ns(150_000));
        assert_eq!(gpu.tsg_stats(a)?.preemptions, 1);
        Ok(())
    }

    #[test]
    fn who_gets_work_or_runs_out_of_it_is_named_once() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(0))?;
        let a = tsg(&mut gpu, 1, &words, &mut log)?;
        let b = tsg(&mut gpu, 2, &words, &mut log)?;
        assert_eq!(gpu.take_stirred(), None);
        for (channel, tsg) in [(1, b), (2, a), (3, b)] {
            gpu.submit(Ns(0), tsg, 0, &[run(channel, 1_000, 1_000)], &mut log)?;
        }
        assert_eq!(gpu.take_stirred(), Some(b));
        assert_eq!(gpu.take_stirred(), Some(a));
        assert_eq!(gpu.take_stirred(), None);
        // Both run out of it, and one is gone before anybody asks.
        assert!(gpu.advance(Ns(1_000_000), BUDGET, &mut log));
        gpu.destroy(Ns(1_000_000), b, &mut log)?;
        assert_eq!(gpu.take_stirred(), Some(a));
        assert_eq!(gpu.take_stirred(), None);
        Ok(())
    }

    #[test]
    fn a_start_tells_what_it_took() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(10_000))?;
        let a = tsg(&mut gpu, 1, &words, &mut log)?;
        let b = tsg(&mut gpu, 2, &words, &mut log)?;
        gpu.set_timeslice(Ns(0), a, Us(200), &mut log)?;
        let start = |tsg, at, woken: Option<u64>, switch| {
            Some(Start {
                engine: 0,
                tsg,
                at: Ns(at),
                woken: woken.map(Ns),
                switch: Ns(switch),
            })
        };
        // Nothing to save: its context is restored.
        gpu.submit(Ns(5_000), a, 0, &[run(1, 1_000_000, 1_000)], &mut log)?;
        assert!(gpu.advance(Ns(20_000), BUDGET, &mut log));
        assert_eq!(log.started, start(a, 15_000, Some(5_000), 10_000));
        // Waits for the rest of the slice, the save and the restore.
        gpu.submit(Ns(100_000), b, 0, &[run(2, 1_000, 1_000)], &mut log)?;
        assert!(gpu.advance(Ns(235_500), BUDGET, &mut log));
        assert_eq!(log.started, start(b, 235_000, Some(100_000), 20_000));
        assert_eq!(gpu.tsg_stats(a)?.preempted_at, Ns(215_000));
        // The other one had something to run all the time.
        assert!(gpu.advance(Ns(300_000), BUDGET, &mut log));
        assert_eq!(log.started, start(a, 256_000, None, 20_000));
        // Its context is still there.
        assert!(gpu.advance(Ns(2_000_000), BUDGET, &mut log));
        gpu.submit(Ns(2_000_000), a, 0, &[run(3, 1_000, 1_000)], &mut log)?;
        assert!(gpu.advance(Ns(3_000_000), BUDGET, &mut log));
        assert_eq!(log.started, start(a, 2_000_000, Some(2_000_000), 0));
        assert_eq!(gpu.tsg_stats(a)?.preemptions, 1);
        assert_eq!(gpu.tsg_stats(b)?.preempted_at, Ns::ZERO);
        Ok(())
    }

    #[test]
    fn it_is_known_since_when_there_is_something_to_run() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(0))?;
        let a = tsg(&mut gpu, 1, &words, &mut log)?;
        let seen = |gpu: &TestGpu<'_>| -> Result<(bool, Ns), Error> {
            let stats = gpu.tsg_stats(a)?;
            Ok((stats.demand, stats.demand_since))
        };
        gpu.submit(Ns(1_000), a, 0, &[run(1, 5_000, 1_000)], &mut log)?;
        assert_eq!(seen(&gpu)?, (true, Ns(1_000)));
        // More work on top changes nothing, nor does being disabled.
        gpu.submit(Ns(2_000), a, 0, &[run(2, 5_000, 1_000)], &mut log)?;
        gpu.set_enabled(Ns(3_000), a, false, &mut log)?;
        gpu.set_enabled(Ns(4_000), a, true, &mut log)?;
        assert_eq!(seen(&gpu)?, (true, Ns(1_000)));
        assert!(gpu.advance(Ns(20_000), BUDGET, &mut log));
        assert_eq!(seen(&gpu)?, (false, Ns(12_000)));
        Ok(())
    }

    #[test]
    fn an_idle_holder_gives_the_engine_away_at_once() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(40))?;
        let a = tsg(&mut gpu, 1, &words, &mut log)?;
        let b = tsg(&mut gpu, 2, &words, &mut log)?;
        gpu.submit(Ns(0), a, 0, &[run(1, 1_000, 1_000)], &mut log)?;
        gpu.submit(Ns(0), b, 0, &[run(2, 1_000, 1_000)], &mut log)?;
        assert!(gpu.advance(Ns(10_000), BUDGET, &mut log));
        // Restore A, run, save A, restore B, run.
        assert_eq!(log.end(1), Some(Ns(1_040)));
        assert_eq!(log.end(2), Some(Ns(2_120)));
        assert_eq!(gpu.tsg_stats(a)?.times.switch, Ns(80));
        assert_eq!(gpu.tsg_stats(b)?.times.wait, Ns(1_080));
        assert!(!log.gap);
        Ok(())
    }

    #[test]
    fn channels_of_one_tsg_share_by_demand() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(0))?;
        let a = tsg(&mut gpu, 1, &words, &mut log)?;
        gpu.submit(Ns(0), a, 0, &[run(1, 1_000, 600)], &mut log)?;
        gpu.submit(Ns(0), a, 1, &[run(2, 2_000, 400)], &mut log)?;
        assert!(gpu.advance(Ns(10_000), BUDGET, &mut log));
        assert_eq!((log.end(1), log.end(2)), (Some(Ns(1_000)), Some(Ns(2_000))));
        // 2000 ‰: half speed until the first one ends.
        gpu.submit(Ns(10_000), a, 0, &[run(3, 1_000, 1_000)], &mut log)?;
        gpu.submit(Ns(10_000), a, 1, &[run(4, 2_000, 1_000)], &mut log)?;
        assert!(gpu.advance(Ns(20_000), BUDGET, &mut log));
        assert_eq!(
            (log.end(3), log.end(4)),
            (Some(Ns(12_000)), Some(Ns(13_000)))
        );
        Ok(())
    }

    #[test]
    fn a_block_is_finished_before_a_switch() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(0))?;
        let a = tsg(&mut gpu, 1, &words, &mut log)?;
        let b = tsg(&mut gpu, 2, &words, &mut log)?;
        gpu.set_timeslice(Ns(0), a, Us(1), &mut log)?;
        let work = Work::Run {
            alone: Ns(2_100),
            demand: Permille(1_000),
            granularity: Granularity::Block(Ns(700)),
        };
        gpu.submit(Ns(0), a, 0, &[order(1, work)], &mut log)?;
        gpu.submit(Ns(0), b, 0, &[run(2, 100, 1_000)], &mut log)?;
        assert!(gpu.advance(Ns(10_000), BUDGET, &mut log));
        // The slice ends at 1000, in the second block, which ends at 1400.
        assert_eq!(log.end(2), Some(Ns(1_500)));
        assert_eq!(log.end(1), Some(Ns(2_200)));
        Ok(())
    }

    #[test]
    fn a_wait_needs_no_engine_and_a_release_ends_it() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(0))?;
        let a = tsg(&mut gpu, 1, &words, &mut log)?;
        let copy = create(&mut gpu, 2, &words, (1, 1), Some(a), &mut log)?;
        let waits = [order(1, Work::Wait(expect(0, 1))), run(2, 500, 1_000)];
        gpu.submit(Ns(0), a, 0, &waits, &mut log)?;
        assert!(gpu.watching());
        assert_eq!(gpu.next_event(), None);
        let release = [
            run(3, 2_000, 1_000),
            order(4, Work::Release { word: 0, value: 1 }),
        ];
        gpu.submit(Ns(0), copy, 0, &release, &mut log)?;
        assert!(gpu.advance(Ns(10_000), BUDGET, &mut log));
        // The restore of the copy engine takes 10.
        assert_eq!(log.end(1), Some(Ns(2_010)));
        assert_eq!(log.end(2), Some(Ns(2_510)));
        assert!(!gpu.watching());
        Ok(())
    }

    #[test]
    fn stores_from_outside_are_seen_by_poll_and_doorbell() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(0))?;
        let a = tsg(&mut gpu, 1, &words, &mut log)?;
        let waits = [
            order(1, Work::Wait(expect(0, 1))),
            order(2, Work::Wait(expect(0, 2))),
        ];
        gpu.submit(Ns(0), a, 0, &waits, &mut log)?;
        words.set(0, 1);
        assert!(gpu.advance(Ns(100), BUDGET, &mut log));
        assert_eq!(log.end(1), None);
        assert!(gpu.poll(Ns(200), BUDGET, &mut log));
        assert_eq!(log.end(1), Some(Ns(200)));
        words.set(0, 2);
        gpu.doorbell(Ns(300), a, &mut log)?;
        assert_eq!(log.end(2), Some(Ns(300)));
        Ok(())
    }

    #[test]
    fn a_hold_keeps_the_engine_until_the_word_changes_or_its_bound() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(0))?;
        let a = tsg(&mut gpu, 1, &words, &mut log)?;
        let hold = |tag, bound| {
            let demand = Permille(10);
            order(
                tag,
                Work::Hold {
                    expect: expect(1, 1),
                    bound: Ns(bound),
                    demand,
                },
            )
        };
        gpu.submit(
            Ns(0),
            a,
            0,
            &[hold(1, 5_000), hold(2, 5_000), run(3, 10, 1_000)],
            &mut log,
        )?;
        assert!(gpu.advance(Ns(6_000), BUDGET, &mut log));
        assert_eq!(log.end(1), Some(Ns(5_000)));
        words.set(1, 1);
        gpu.doorbell(Ns(7_000), a, &mut log)?;
        assert!(gpu.advance(Ns(8_000), BUDGET, &mut log));
        assert_eq!((log.end(2), log.end(3)), (Some(Ns(7_000)), Some(Ns(7_010))));
        assert_eq!(gpu.tsg_stats(a)?.times.busy, Ns(7_010));
        Ok(())
    }

    #[test]
    fn preempt_and_disable_take_the_engine_away() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(0))?;
        let a = tsg(&mut gpu, 1, &words, &mut log)?;
        let b = tsg(&mut gpu, 2, &words, &mut log)?;
        gpu.set_timeslice(Ns(0), a, Us(5_000_000), &mut log)?;
        gpu.submit(Ns(0), a, 0, &[run(1, 100_000, 1_000)], &mut log)?;
        gpu.preempt(Ns(100), a, &mut log)?;
        gpu.submit(Ns(200), b, 0, &[run(2, 1_000, 1_000)], &mut log)?;
        gpu.preempt(Ns(300), a, &mut log)?;
        assert!(gpu.advance(Ns(1_400), BUDGET, &mut log));
        assert_eq!(log.end(2), Some(Ns(1_300)));
        gpu.set_enabled(Ns(2_300), a, false, &mut log)?;
        assert!(gpu.advance(Ns(1_000_000), BUDGET, &mut log));
        assert_eq!(log.end(1), None);
        assert_eq!(gpu.engine_stats(0)?.nr_runnable, 0);
        gpu.set_enabled(Ns(1_000_000), a, true, &mut log)?;
        assert!(gpu.advance(Ns(2_000_000), BUDGET, &mut log));
        // 300 + 1000 ran before: 98,700 were left.
        assert_eq!(log.end(1), Some(Ns(1_098_700)));
        Ok(())
    }

    #[test]
    fn a_high_level_waits_for_one_slice_at_most() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(1_000))?;
        let lc = tsg(&mut gpu, 1, &words, &mut log)?;
        gpu.set_interleave(Ns(0), lc, Interleave::High, &mut log)?;
        for serial in 2..6 {
            let be = tsg(&mut gpu, serial, &words, &mut log)?;
            gpu.set_timeslice(Ns(0), be, Us(200), &mut log)?;
            gpu.submit(Ns(0), be, 0, &[run(0, 50_000_000, 1_000)], &mut log)?;
        }
        for round in 1..8 {
            let at = Ns(round * 1_234_567);
            gpu.submit(at, lc, 0, &[run(round, 10_000, 1_000)], &mut log)?;
            assert!(gpu.advance(at.plus(Ns(1_000_000)), BUDGET, &mut log));
            let latest = at.plus(Ns(200_000 + 4 * 1_000 + 10_000));
            assert!(log.end(round).is_some_and(|end| end <= latest));
        }
        Ok(())
    }

    #[test]
    fn a_dead_handle_is_refused_and_its_place_used_again() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(1_000))?;
        let a = tsg(&mut gpu, 1, &words, &mut log)?;
        let b = tsg(&mut gpu, 2, &words, &mut log)?;
        gpu.submit(
            Ns(0),
            a,
            0,
            &[run(1, 10_000, 1_000), run(2, 1, 1)],
            &mut log,
        )?;
        gpu.submit(Ns(0), b, 0, &[run(3, 10_000, 1_000)], &mut log)?;
        let (context, dropped) = gpu.destroy(Ns(5_000), a, &mut log)?;
        assert!(context.is_some());
        assert_eq!(dropped, 2);
        assert_eq!(
            gpu.set_timeslice(Ns(5_000), a, Us(1), &mut log),
            Err(Error::NoTsg)
        );
        assert_eq!(gpu.tsg_stats(Handle::NONE), Err(Error::NoTsg));
        let c = tsg(&mut gpu, 3, &words, &mut log)?;
        assert!(c > b);
        assert_eq!(c.ix(), a.ix());
        assert_eq!(gpu.preempt(Ns(5_000), a, &mut log), Err(Error::NoTsg));
        // Nothing is saved for A: B starts after its restore.
        assert!(gpu.advance(Ns(50_000), BUDGET, &mut log));
        assert_eq!(log.end(3), Some(Ns(16_000)));
        assert_eq!(gpu.item_room(), 128);
        Ok(())
    }

    #[test]
    fn limits_are_kept_and_an_error_changes_nothing() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(0))?;
        let a = tsg(&mut gpu, 1, &words, &mut log)?;
        let wait = order(0, Work::Wait(expect(0, 1)));
        gpu.submit(Ns(0), a, 0, &[wait; 60], &mut log)?;
        assert_eq!(
            gpu.submit(Ns(0), a, 0, &[wait; 5], &mut log),
            Err(Error::NoRoom)
        );
        assert_eq!(
            gpu.submit(Ns(0), a, 2, &[wait], &mut log),
            Err(Error::NoChannel)
        );
        assert_eq!(gpu.submit(Ns(0), a, 0, &[], &mut log), Err(Error::Invalid));
        assert_eq!(
            gpu.submit(Ns(0), a, 0, &[run(0, 0, 1)], &mut log),
            Err(Error::Invalid)
        );
        assert_eq!(gpu.channel_stats(a, 0)?.submitted, 60);
        assert_eq!(
            gpu.set_timeslice(Ns(0), a, Us(0), &mut log),
            Err(Error::Invalid)
        );
        for serial in 2..9 {
            create(&mut gpu, serial, &words, (0, 1), Some(a), &mut log)?;
        }
        let ninth = create(&mut gpu, 9, &words, (0, 1), Some(a), &mut log);
        assert_eq!(ninth, Err(Error::TooManySharers));
        let full = create(&mut gpu, 9, &words, (0, 1), None, &mut log);
        assert_eq!(full, Err(Error::Full));
        let none = create(&mut gpu, 9, &words, (0, 17), None, &mut log);
        assert_eq!(none, Err(Error::Invalid));
        let none = create(&mut gpu, 9, &words, (2, 1), None, &mut log);
        assert_eq!(none, Err(Error::NoEngine));
        Ok(())
    }

    #[test]
    fn a_full_channel_and_a_full_gpu_are_told_apart() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(0))?;
        let wait = order(0, Work::Wait(expect(0, 1)));
        let a = tsg(&mut gpu, 1, &words, &mut log)?;
        let b = tsg(&mut gpu, 2, &words, &mut log)?;
        for channel in 0..2 {
            gpu.submit(Ns(0), a, channel, &[wait; 64], &mut log)?;
        }
        // The places of the GPU are used up, by others.
        assert_eq!(gpu.item_room(), 0);
        let full = gpu.submit(Ns(0), b, 0, &[wait], &mut log);
        assert_eq!(full, Err(Error::Full));
        let no_room = gpu.submit(Ns(0), a, 0, &[wait], &mut log);
        assert_eq!(no_room, Err(Error::NoRoom));
        gpu.destroy(Ns(0), a, &mut log)?;
        gpu.submit(Ns(0), b, 0, &[wait; 64], &mut log)?;
        Ok(())
    }

    #[test]
    fn a_suspended_gpu_keeps_everything_and_restores_again() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(1_000))?;
        let a = tsg(&mut gpu, 1, &words, &mut log)?;
        gpu.submit(Ns(0), a, 0, &[run(1, 10_000, 1_000)], &mut log)?;
        gpu.set_suspended(Ns(5_000), true, &mut log);
        assert_eq!(gpu.next_event(), None);
        gpu.set_suspended(Ns(100_000), false, &mut log);
        assert!(gpu.advance(Ns(200_000), BUDGET, &mut log));
        // 4000 ran before; another restore; 6000 after.
        assert_eq!(log.end(1), Some(Ns(107_000)));
        let times = gpu.engine_stats(0)?.times;
        assert_eq!(times.busy.plus(times.switch).plus(times.idle), Ns(200_000));
        assert_eq!(times.busy, Ns(10_000));
        Ok(())
    }

    #[test]
    fn a_place_names_the_tsg_that_has_it() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(1_000))?;
        let a = tsg(&mut gpu, 1, &words, &mut log)?;
        let b = tsg(&mut gpu, 2, &words, &mut log)?;
        assert_eq!(gpu.handle_at(a.ix().raw()), Some(a));
        assert_eq!(gpu.handle_at(b.ix().raw()), Some(b));
        gpu.destroy(Ns(0), a, &mut log)?;
        assert_eq!(gpu.handle_at(a.ix().raw()), None);
        assert_eq!(gpu.handle_at(b.ix().raw()), Some(b));
        assert_eq!(gpu.handle_at(u32::MAX), None);
        Ok(())
    }

    #[test]
    fn a_small_budget_falls_behind_and_catches_up() -> Result<(), Error> {
        let (words, mut log) = (Words::default(), Log::default());
        let mut gpu = gpu(Ns(10))?;
        let a = tsg(&mut gpu, 1, &words, &mut log)?;
        gpu.submit(Ns(0), a, 0, &[run(7, 100, 1_000); 20], &mut log)?;
        let mut calls = 0;
        while !gpu.advance(Ns(10_000), 3, &mut log) {
            calls += 1;
            assert!(gpu.next_event().is_some_and(|event| event < Ns(10_000)));
        }
        assert!(calls > 5);
        assert_eq!(log.count, 20);
        assert_eq!(log.end(7), Some(Ns(2_010)));
        Ok(())
    }
}
