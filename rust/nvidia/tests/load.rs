// SPDX-License-Identifier: GPL-2.0
//! Tests of the load of TSGs and GPUs, as registers tell it.

use super::*;

#[kernel::macros::kunit_tests(zernel_nvidia_load)]
mod suite {
    use super::*;

    /// Bits of `NV_CHRAM_CHANNEL`.
    const PENDING: u32 = 1 << 8;
    const RUNS: u32 = 1 << 7 | 1 << 11;
    /// The engine works, in `NV_RUNLIST_ENGINE_STATUS0`.
    const BUSY: u32 = 1 << 31;
    const RUNLIST: u32 = 0xb8_0000;

    fn metered() -> Result<(Arc<Faked>, Arc<Fake>)> {
        let (nvidia, fake) = provider()?;
        let arrival = Arrival::new(TSG, WHOLE, Some(RUNLIST), true)?;
        let mut meters = nvidia.meters().lock();
        meters.add_gpu(GPU)?;
        meters.add(arrival);
        drop(meters);
        Ok((nvidia, fake))
    }

    fn load(nvidia: &Faked) -> Result<(bool, u64)> {
        let load = nvidia.tsg_load(GPU.into(), TSG)?;
        Ok((load.runnable, load.ran))
    }

    #[test]
    fn registers_tell_the_load() -> Result {
        let (nvidia, fake) = metered()?;
        let look = |words: &[u32]| {
            fake.script.lock().sample = Ok(Sample::of(BUSY, words));
            load(&nvidia)
        };
        assert_eq!(look(&[0, 0])?, (false, 0));
        assert_eq!(look(&[0, PENDING])?, (true, 0));
        look(&[RUNS, 0])?;
        let (runnable, ran) = look(&[RUNS, 0])?;
        assert!(runnable);
        assert!(ran > 0);
        // The engine was busy for all the time of the looks, which is longer.
        let (busy, elapsed) = nvidia.load(GPU.into())?;
        assert!(busy >= ran);
        assert!(busy <= elapsed);
        Ok(())
    }

    #[test]
    fn several_are_told_at_once() -> Result {
        let (nvidia, fake) = metered()?;
        let arrival = Arrival::new(TSG + 1, WHOLE, Some(RUNLIST), true)?;
        nvidia.meters().lock().add(arrival);
        fake.script.lock().sample = Ok(Sample::of(BUSY, &[PENDING]));
        let ask = |tsgs: &[u64]| {
            let mut told = [None; 3];
            let result = nvidia.tsg_loads(GPU.into(), tsgs, &mut |at, load| {
                if let Some(place) = told.get_mut(at) {
                    assert!(place.is_none());
                    *place = Some(load.map(|load| load.runnable));
                }
            });
            (result, told)
        };
        let all = [Some(Ok(true)), Some(Err(ENOENT)), Some(Ok(true))];
        assert_eq!(ask(&[TSG, GONE, TSG + 1]), (Ok(()), all));
        fake.script.lock().sample = Err(EIO);
        assert_eq!(ask(&[TSG, GONE]), (Err(EIO), [None; 3]));
        Ok(())
    }

    #[test]
    fn a_gpu_without_registers_tells_nothing() -> Result {
        let (nvidia, fake) = metered()?;
        let unsupported = crate::glue::errno::unsupported();
        for (answer, expected) in [
            (Err(unsupported), unsupported),
            (Err(ENOENT), ENOENT),
            (Err(EAGAIN), EAGAIN),
            (Err(ENOMEM), EBUSY),
            (Err(EIO), EIO),
        ] {
            fake.script.lock().sample = answer;
            assert_eq!(load(&nvidia), Err(expected));
            assert_eq!(nvidia.load(GPU.into()), Err(expected));
        }
        Ok(())
    }

    #[test]
    fn registers_that_tell_nothing_for_long_are_none() -> Result {
        let (nvidia, _) = metered()?;
        let unsupported = crate::glue::errno::unsupported();
        let mut meters = nvidia.meters().lock();
        let mut look = |engine, words: &[u32], ms: u64| {
            let now = Ns(ms * 1_000_000);
            let mut samples = Samples::new();
            samples.push(TSG, 0);
            for place in samples.list_mut() {
                *place = Sample::of(engine, words).instead_of(place);
            }
            let mut told = Err(EIO);
            let tell = &mut |_, load: Result<TsgLoad>| told = load.map(|load| load.runnable);
            meters.look(GPU, samples.list(), now, Ns::ZERO, tell);
            told
        };
        let nothing = [u32::MAX, 0xbadf_0000];
        assert_eq!(look(u32::MAX, &nothing, 1_000), Ok(true));
        assert_eq!(look(u32::MAX, &nothing, 1_499), Ok(false));
        assert_eq!(look(u32::MAX, &nothing, 1_500), Err(unsupported));
        // One channel that tells is enough, or the engine.
        assert_eq!(look(u32::MAX, &[u32::MAX, 0], 1_501), Ok(false));
        assert_eq!(look(u32::MAX, &nothing, 2_000), Ok(true));
        assert_eq!(look(BUSY, &nothing, 2_400), Ok(false));
        assert_eq!(look(u32::MAX, &nothing, 2_500), Ok(false));
        assert_eq!(look(u32::MAX, &nothing, 2_999), Ok(true));
        assert_eq!(look(u32::MAX, &nothing, 3_000), Err(unsupported));
        Ok(())
    }

    /// Looks of a GPU at a moment, each read of which takes so long. Returns the TSGs with work.
    fn looked(meters: &mut Meters, samples: &[Sample], begin: u64, each: u64) -> [Option<bool>; 4] {
        let mut asked = Samples::new();
        (0..)
            .zip(samples)
            .for_each(|(tsg, _)| asked.push(TSG + tsg, 0));
        for (place, sample) in asked.list_mut().iter_mut().zip(samples) {
            *place = sample.instead_of(place);
        }
        let mut told = [None; 4];
        let tell = &mut |at: usize, load: Result<TsgLoad>| {
            if let Some(place) = told.get_mut(at) {
                *place = load.ok().map(|load| load.runnable);
            }
        };
        meters.look(GPU, asked.list(), Ns(begin), Ns(each), tell);
        told
    }

    #[test]
    fn nothing_takes_no_time() -> Result {
        let (nvidia, _) = metered()?;
        for tsg in 1..4 {
            let arrival = Arrival::new(TSG + tsg, WHOLE, Some(RUNLIST), true)?;
            nvidia.meters().lock().add(arrival);
        }
        let mut meters = nvidia.meters().lock();
        let asleep = [Sample::asleep(); 4];
        assert_eq!(
            looked(&mut meters, &asleep, 1_000, 1_000_000),
            [Some(false); 4]
        );
        // The looks after that are not before it.
        let runs = [Sample::of(BUSY, &[RUNS]); 4];
        assert_eq!(looked(&mut meters, &runs, 2_000, 1), [Some(true); 4]);
        let gone = [
            Sample::gone(),
            Sample::gone(),
            Sample::gone(),
            Sample::of(BUSY, &[0]),
        ];
        let told = [None, None, None, Some(false)];
        assert_eq!(looked(&mut meters, &gone, 3_000, 1_000), told);
        assert_eq!(looked(&mut meters, &runs, 5_500, 1), [Some(true); 4]);
        Ok(())
    }

    #[test]
    fn run_lists_in_turn_keep_their_own_accounts() -> Result {
        let (nvidia, _) = metered()?;
        for tsg in 1..4 {
            let runlist = RUNLIST + 0x400 * (tsg as u32 % 2);
            let arrival = Arrival::new(TSG + tsg, WHOLE, Some(runlist), true)?;
            nvidia.meters().lock().add(arrival);
        }
        let mut meters = nvidia.meters().lock();
        let mixed = [Sample::of(BUSY, &[0]), Sample::of(0, &[0])];
        let [busy, idle] = mixed;
        for begin in [1_000, 11_000, 21_000] {
            looked(&mut meters, &[busy, idle, busy, idle], begin, 7);
        }
        // The one that works longest; the other one does not.
        assert_eq!(meters.look_at_engines(GPU, &[], &[], Ns::ZERO)?, Ns(20_028));
        looked(&mut meters, &[idle, busy, idle, busy], 22_000, 7);
        let longest = meters.look_at_engines(GPU, &[], &[], Ns::ZERO)?;
        assert!(longest < Ns(20_028 + 1_000));
        Ok(())
    }

    #[test]
    fn an_engine_counts_each_look() -> Result {
        const ENGINES: [[u32; 3]; 4] = [
            [BUSY, BUSY, BUSY],
            [BUSY, 0, BUSY],
            [0, 0, BUSY],
            [u32::MAX, BUSY, BUSY],
        ];
        let (nvidia, _) = metered()?;
        for tsg in 1..3 {
            let arrival = Arrival::new(TSG + tsg, WHOLE, Some(RUNLIST), true)?;
            nvidia.meters().lock().add(arrival);
        }
        let (mut begin, each) = (1_000, 100);
        let mut expected = crate::occupancy::Engine::default();
        let mut meters = nvidia.meters().lock();
        for engines in ENGINES {
            let samples = engines.map(|engine| Sample::of(engine, &[0]));
            let told = [Some(false), Some(false), Some(false), None];
            assert_eq!(looked(&mut meters, &samples, begin, each), told);
            for (at, engine) in (1..).zip(engines) {
                let is_busy = (engine != u32::MAX).then_some(engine == BUSY);
                expected.look(is_busy, Ns(begin + at * 2 * each));
            }
            begin += 10_000;
            let busy = meters.look_at_engines(GPU, &[], &[], Ns::ZERO)?;
            assert_eq!(busy, expected.busy);
        }
        assert!(expected.busy > Ns::ZERO);
        Ok(())
    }

    #[test]
    fn a_gpu_that_sleeps_has_nothing_to_run() -> Result {
        let (nvidia, fake) = metered()?;
        fake.script.lock().sample = Ok(Sample::of(BUSY, &[RUNS]));
        assert_eq!(load(&nvidia)?, (true, 0));
        fake.script.lock().sample = Ok(Sample::asleep());
        let before = counters::ASLEEP.value();
        assert!(!load(&nvidia)?.0);
        assert_eq!(counters::ASLEEP.value(), before + 1);
        Ok(())
    }

    #[test]
    fn who_is_gone_has_no_load() -> Result {
        let (nvidia, fake) = metered()?;
        fake.script.lock().sample = Ok(Sample::of(0, &[0]));
        assert_eq!(load(&nvidia)?, (false, 0));
        drop(nvidia.meters().lock().remove(TSG));
        assert_eq!(load(&nvidia), Err(ENOENT));
        nvidia.meters().lock().remove_gpu(GPU);
        nvidia.gpus().lock().remove(GPU);
        assert_eq!(nvidia.load(GPU.into()), Err(ENOENT));
        Ok(())
    }
}
