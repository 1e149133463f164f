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
            let mut samples = Samples::new();
            (0..3).for_each(|tsg| samples.push(TSG + tsg, 0));
            for (place, engine) in samples.list_mut().iter_mut().zip(engines) {
                *place = Sample::of(engine, &[0]).instead_of(place);
            }
            let mut told = 0;
            let tell = &mut |_, load: Result<TsgLoad>| told += u32::from(load.is_ok());
            meters.look(GPU, samples.list(), Ns(begin), Ns(each), tell);
            assert_eq!(told, 3);
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
