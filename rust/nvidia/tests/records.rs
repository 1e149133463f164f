// SPDX-License-Identifier: GPL-2.0
//! Tests of the way of records to the time of a TSG.

use super::*;
use crate::glue::{
    nvidia::records::Time,
    provider_side::Herald,
    time::now_ns, //
};

const ASKED: u8 = 1;
const SAVED: u8 = 3;
const RESTORES: u8 = 4;
const RUNS: u8 = 5;

/// A whole read of a ring whose GPU has the kernel's clock.
fn batch(ring: u32) -> Batch {
    let now = now_ns();
    let time = Time {
        gpu: now,
        cpu: now,
        error: 1_000,
    };
    Batch {
        ring,
        count: 0,
        is_more: false,
        dropped: 0,
        time: Some(time),
    }
}

/// A provider with a TSG whose context is known.
fn traced() -> Result<(Arc<Faked>, Arc<Fake>)> {
    let (nvidia, fake) = provider()?;
    let arrival = Arrival::new(TSG, WHOLE, Some(0xb8_0000), true)?;
    nvidia.traces().lock().add(GPU, Herald::new()?)?;
    let mut meters = nvidia.meters().lock();
    meters.add_gpu(GPU)?;
    meters.add(arrival);
    meters.set_traced(TSG, true);
    drop(meters);
    Ok((nvidia, fake))
}

/// Reads these records. Returns the time of the TSG, by the engine that is busy.
fn read(nvidia: &Faked, fake: &Fake, answer: Result<Batch>, list: &[Record]) -> Result<u64> {
    let mut script = fake.script.lock();
    script.sample = Ok(Sample::of(1 << 31, &[0]));
    script.batch = answer;
    script.records.extend_from_slice(list, GFP_KERNEL)?;
    drop(script);
    nvidia.follow(GPU, true);
    Ok(nvidia.tsg_load(GPU.into(), TSG)?.ran)
}

#[kernel::macros::kunit_tests(zernel_nvidia_records)]
mod suite {
    use super::*;

    #[test]
    fn records_tell_the_time() -> Result {
        let (nvidia, fake) = traced()?;
        let at = now_ns() - 10_000_000;
        // The first read is of an interval that began before the ring.
        read(
            &nvidia,
            &fake,
            Ok(batch(1)),
            &[Record::new(TSG, 7, RUNS, at)],
        )?;
        let list = [
            Record::new(TSG, 8, ASKED, at + 5_000),
            Record::new(TSG, 9, SAVED, at + 6_000),
        ];
        let before = read(&nvidia, &fake, Ok(batch(1)), &[])?;
        assert!(before > 0);
        let after = read(&nvidia, &fake, Ok(batch(1)), &list)?;
        // That run had ended before.
        assert_eq!(after, before);
        let list = [
            Record::new(TSG, 10, RESTORES, at + 6_000),
            Record::new(TSG, 11, RUNS, at + 7_000),
        ];
        assert!(read(&nvidia, &fake, Ok(batch(1)), &list)? >= after);
        Ok(())
    }

    #[test]
    fn what_is_not_whole_tells_no_time() -> Result {
        let unsupported = crate::glue::errno::unsupported();
        let at = now_ns() - 10_000_000;
        let first = [Record::new(TSG, 0, RUNS, at)];
        let whole = batch(1);
        let ahead = Time {
            gpu: whole.time.map_or(0, |time| time.gpu) + 1_000_000_000,
            cpu: now_ns(),
            error: 1_000,
        };
        let cases = [
            (Err(EAGAIN), &[][..]),
            (Err(unsupported), &[]),
            // Another ring, a clock that was set, one that is not told, and lost records.
            (Ok(batch(2)), &[]),
            (
                Ok(Batch {
                    time: Some(ahead),
                    ..whole
                }),
                &[],
            ),
            (
                Ok(Batch {
                    time: None,
                    ..whole
                }),
                &[],
            ),
            (Ok(whole), &[Record::new(TSG, 9, RUNS, at + 1_000)]),
        ];
        for (answer, list) in cases {
            let (nvidia, fake) = traced()?;
            read(&nvidia, &fake, Ok(batch(1)), &first)?;
            assert_eq!(read(&nvidia, &fake, answer, list), Ok(0));
        }
        Ok(())
    }

    #[test]
    fn a_failure_of_a_program_puts_no_read_off() -> Result {
        let (nvidia, fake) = traced()?;
        let mut script = fake.script.lock();
        script.batch = Err(EAGAIN);
        script
            .records
            .push(Record::new(TSG, 0, RUNS, 1), GFP_KERNEL)?;
        drop(script);
        nvidia.follow(GPU, true);
        fake.script.lock().batch = Ok(batch(1));
        nvidia.follow(GPU, false);
        assert_eq!(fake.script.lock().records.len(), 0);
        Ok(())
    }

    #[test]
    fn records_are_read_if_they_are_wanted() -> Result {
        let fake = Fake::new()?;
        let nvidia = Nvidia::new(fake.clone(), false)?;
        nvidia.traces().lock().add(GPU, Herald::new()?)?;
        let mut script = fake.script.lock();
        script.batch = Ok(batch(1));
        script
            .records
            .push(Record::new(TSG, 0, RUNS, 1), GFP_KERNEL)?;
        drop(script);
        nvidia.follow(GPU, true);
        assert_eq!(fake.script.lock().records.len(), 1);
        let nvidia = Nvidia::new(fake.clone(), true)?;
        nvidia.follow(GPU, true);
        // No such GPU.
        assert_eq!(fake.script.lock().records.len(), 1);
        nvidia.traces().lock().add(GPU, Herald::new()?)?;
        nvidia.follow(GPU, false);
        assert_eq!(fake.script.lock().records.len(), 0);
        Ok(())
    }

    /// An instance of the GPU.
    fn instance(mig: u32) -> Part {
        Part {
            gpu: GPU,
            mig: Some(mig),
        }
    }

    /// The times by records of a TSG and the next one.
    fn resident(nvidia: &Faked) -> [Option<Ns>; 2] {
        let meters = nvidia.meters().lock();
        [TSG, TSG + 1].map(|tsg| meters.resident(tsg))
    }

    /// Two TSGs, said to be in these instances, of which the driver gives records of one.
    fn in_instances(of: [u32; 2], real: u32) -> Result<(Arc<Faked>, Arc<Fake>)> {
        let (nvidia, fake) = traced()?;
        let [of, next] = of.map(instance);
        let mut meters = nvidia.meters().lock();
        meters.set_place(TSG, of, Some(0xb8_0000), true);
        meters.add(Arrival::new(TSG + 1, next, Some(0xb9_0000), true)?);
        meters.set_traced(TSG + 1, true);
        drop(meters);
        fake.script.lock().mig = Some(real);
        Ok((nvidia, fake))
    }

    /// Both run for 2 ms and 1 ms, on the engines of two compute instances.
    fn run_both(nvidia: &Faked, fake: &Fake) -> Result {
        let at = now_ns() - 10_000_000;
        let list = [
            Record::new(TSG, 0, RUNS, at + 500).of_compute(0),
            Record::new(TSG + 1, 1, RUNS, at).of_compute(1),
        ];
        read(nvidia, fake, Ok(batch(1)), &list)?;
        let ends = [
            Record::new(TSG, 2, ASKED, at + 2_000_500).of_compute(0),
            Record::new(TSG, 3, SAVED, at + 2_001_000).of_compute(0),
            Record::new(TSG + 1, 4, ASKED, at + 1_000_000).of_compute(1),
            Record::new(TSG + 1, 5, SAVED, at + 1_001_000).of_compute(1),
        ];
        read(nvidia, fake, Ok(batch(1)), &ends)?;
        Ok(())
    }

    #[test]
    fn instances_have_records_of_their_own() -> Result {
        let (nvidia, fake) = in_instances([1, 1], 1)?;
        run_both(&nvidia, &fake)?;
        let expected = [2_000_000, 1_000_000].map(|ns| Some(Ns(ns)));
        assert_eq!(resident(&nvidia), expected);
        // Fetched once for each read.
        assert_eq!(fake.script.lock().flushes, 2);
        assert_eq!(nvidia.traces().lock().gpus().count(), 1);
        Ok(())
    }

    #[test]
    fn a_tsg_that_claims_another_instance_has_no_records() -> Result {
        let (nvidia, fake) = in_instances([1, 2], 1)?;
        run_both(&nvidia, &fake)?;
        assert_eq!(resident(&nvidia), [Some(Ns(2_000_000)), Some(Ns::ZERO)]);
        Ok(())
    }

    #[test]
    fn an_instance_is_asked_if_it_has_a_tsg_and_records() -> Result {
        let (nvidia, fake) = in_instances([3, 4], 3)?;
        let place = |tsg, mig| {
            let mut meters = nvidia.meters().lock();
            meters.set_place(tsg, instance(mig), None, true);
        };
        // True if an instance was asked for records, and had them.
        let asked = |mig| -> Result<bool> {
            let mut script = fake.script.lock();
            (script.mig, script.batch) = (Some(mig), Ok(batch(1)));
            script.records.clear();
            script
                .records
                .push(Record::new(TSG, 0, RUNS, 1), GFP_KERNEL)?;
            drop(script);
            nvidia.follow(GPU, true);
            Ok(fake.script.lock().records.is_empty())
        };
        assert!(asked(3)?);
        // It was refused beside the other one, and rests.
        assert!(!asked(4)?);
        assert!(!asked(3)?);
        assert!(!asked(14)?);
        place(TSG, 14);
        assert!(asked(14)?);
        drop(nvidia.meters().lock().remove(TSG));
        assert!(!asked(14)?);
        // After another failure, a program's question is tried again at once.
        place(TSG + 1, 5);
        fake.script.lock().batch = Err(EAGAIN);
        fake.script.lock().mig = Some(5);
        nvidia.follow(GPU, true);
        assert!(asked(5)?);
        Ok(())
    }

    #[test]
    fn a_program_puts_off_no_read_of_an_instance() -> Result {
        for (refusal, is_put_off) in [
            (crate::glue::errno::unsupported(), true),
            // A program may not be the first.
            (EAGAIN, false),
        ] {
            let (nvidia, fake) = in_instances([1, 2], 1)?;
            let mut script = fake.script.lock();
            (script.refusal, script.batch) = (refusal, Ok(batch(1)));
            drop(script);
            nvidia.follow(GPU, true);
            let mut script = fake.script.lock();
            script
                .records
                .push(Record::new(TSG, 0, RUNS, 1), GFP_KERNEL)?;
            drop(script);
            nvidia.follow(GPU, false);
            assert_eq!(fake.script.lock().records.is_empty(), !is_put_off);
        }
        Ok(())
    }

    /// The engine that a tenant claims first is not the one that it is known to have later.
    #[test]
    fn an_engine_that_is_known_later_counts() -> Result {
        let (nvidia, fake) = traced()?;
        let mut meters = nvidia.meters().lock();
        drop(meters.remove(TSG));
        meters.add(Arrival::new(TSG, WHOLE, Some(0xc0_0000), false)?);
        meters.set_traced(TSG, true);
        meters.set_place(TSG, WHOLE, Some(0xb8_0000), true);
        drop(meters);
        let at = now_ns() - 10_000_000;
        let run = |list: &[Record]| read(&nvidia, &fake, Ok(batch(1)), list);
        run(&[Record::new(TSG, 0, RUNS, at)])?;
        run(&[])?;
        // The engine is busy, and looks show no work of the TSG: records tell its time.
        let told = run(&[
            Record::new(TSG, 1, ASKED, at + 5_000_000),
            Record::new(TSG, 2, SAVED, at + 5_001_000),
        ])?;
        assert!(told >= 5_000_000);
        Ok(())
    }
}
