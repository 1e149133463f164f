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
    let arrival = Arrival::new(TSG, GPU, Some(0xb8_0000), true)?;
    nvidia.traces().lock().add(GPU, Herald::dumb()?)?;
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
        nvidia.traces().lock().add(GPU, Herald::dumb()?)?;
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
        nvidia.traces().lock().add(GPU, Herald::dumb()?)?;
        nvidia.follow(GPU, false);
        assert_eq!(fake.script.lock().records.len(), 0);
        Ok(())
    }
}
