// SPDX-License-Identifier: GPL-2.0
//! Tests of the operations, with a driver that answers as it is told.

use crate::{
    counters,
    glue::{
        nvidia::{
            load::{
                Sample,
                Samples,
                MOST, //
            },
            records::{
                Batch,
                Record, //
            },
        },
        provider_side::{
            Provider,
            TsgLoad, //
        }, //
    },
    meters::{
        Arrival,
        Meters,
        Part, //
    },
    operations::{
        Driver,
        Nvidia, //
    },
    status::Status,
    units::Ns,
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};

mod load;
mod records;

/// A GPU and a TSG.
const GPU: u32 = 0x4200;
const TSG: u64 = 5;
/// The GPU without MIG instances.
const WHOLE: Part = Part {
    gpu: GPU,
    mig: None,
};
/// One that the driver does not know.
const GONE: u64 = 7;

/// A call of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    SetTimeslice(u64, u64),
    Timeslice(u64),
    SetInterleave(u64, u32),
    Interleave(u64),
    Preempt(u64, u32),
    Restart(u64),
    Enable(u64, bool),
    Heed(u32, bool),
}

/// The answers of the driver, and the calls that it got.
struct Script {
    answer: Result<Status>,
    heed: Result<Status>,
    value: u64,
    sample: Result<Sample>,
    batch: Result<Batch>,
    /// The instance that has records; `None`: the GPU.
    mig: Option<u32>,
    /// The answer to questions for others.
    refusal: Error,
    /// Reads before which the driver was to fetch them.
    flushes: u32,
    records: KVec<Record>,
    calls: KVec<Call>,
}

/// The driver.
#[pin_data]
struct Fake {
    #[pin]
    script: Mutex<Script>,
}

impl Fake {
    fn new() -> Result<Arc<Self>> {
        let script = Script {
            answer: Ok(Status::OK),
            heed: Ok(Status::OK),
            value: 0,
            sample: Err(ENOENT),
            batch: Err(EAGAIN),
            mig: None,
            refusal: crate::glue::errno::unsupported(),
            flushes: 0,
            records: KVec::new(),
            calls: KVec::new(),
        };
        Arc::pin_init(
            pin_init!(Self { script <- new_mutex!(script, "zernel_nvidia_fake") }),
            GFP_KERNEL,
        )
    }

    fn answer(&self, answer: Result<Status>) {
        self.script.lock().answer = answer;
    }

    fn heed(&self, answer: Result<Status>) {
        self.script.lock().heed = answer;
    }

    fn call(&self, call: Call) -> Result<Status> {
        let mut script = self.script.lock();
        script.calls.push(call, GFP_KERNEL)?;
        if matches!(call, Call::Heed(..)) {
            script.heed
        } else {
            script.answer
        }
    }

    /// True if these were the calls since the last look.
    fn called(&self, expected: &[Call]) -> bool {
        let calls = core::mem::take(&mut self.script.lock().calls);
        calls[..] == *expected
    }
}

impl Driver for Arc<Fake> {
    fn set_timeslice(&self, tsg: u64, us: u64) -> Result<Status> {
        self.call(Call::SetTimeslice(tsg, us))
    }

    fn timeslice(&self, tsg: u64) -> Result<(Status, u64)> {
        let status = self.call(Call::Timeslice(tsg))?;
        Ok((status, self.script.lock().value))
    }

    fn set_interleave(&self, tsg: u64, level: u32) -> Result<Status> {
        self.call(Call::SetInterleave(tsg, level))
    }

    fn interleave(&self, tsg: u64) -> Result<u32> {
        self.call(Call::Interleave(tsg))?;
        Ok(self.script.lock().value as u32)
    }

    fn preempt(&self, tsg: u64, timeout_us: u32) -> Result<Status> {
        self.call(Call::Preempt(tsg, timeout_us))
    }

    fn enable(&self, tsg: u64, enable: bool) -> Result<Status> {
        self.call(Call::Enable(tsg, enable))
    }

    fn restart(&self, tsg: u64) -> Result<Status> {
        self.call(Call::Restart(tsg))
    }

    fn heed_interleave(&self, gpu: u32, on: bool) -> Result<Status> {
        self.call(Call::Heed(gpu, on))
    }

    /// There is a TSG for each number but [`GONE`].
    fn take(&self, _gpu: u32, samples: &mut Samples) -> Result<u32> {
        let sample = self.script.lock().sample?;
        let mut reads = 0;
        for place in samples.list_mut() {
            let sample = match place.tsg() {
                GONE => Sample::gone(),
                _ => sample,
            };
            *place = sample.instead_of(place);
            reads += place.reads() as u32;
        }
        Ok(reads)
    }

    fn engines(&self, _gpu: u32, _runlists: &[u32]) -> Result<[u32; MOST]> {
        Ok([self.script.lock().sample?.engine(); MOST])
    }

    fn records(
        &self,
        _gpu: u32,
        mig: Option<u32>,
        flush: bool,
        list: &mut [Record],
    ) -> Result<Batch> {
        let mut script = self.script.lock();
        if mig != script.mig {
            return Err(script.refusal);
        }
        script.flushes += u32::from(flush);
        let batch = script.batch?;
        let count = script.records.len().min(list.len());
        for (place, record) in list.iter_mut().zip(script.records.drain_all()) {
            *place = record;
        }
        Ok(Batch { count, ..batch })
    }
}

/// The provider of [`Fake`].
type Faked = Nvidia<Arc<Fake>>;

/// A provider with one GPU, and its driver.
fn provider() -> Result<(Arc<Faked>, Arc<Fake>)> {
    let fake = Fake::new()?;
    let nvidia = Nvidia::new(fake.clone(), true)?;
    nvidia.gpus().lock().add(GPU)?;
    Ok((nvidia, fake))
}

#[kernel::macros::kunit_tests(zernel_nvidia_operations)]
mod operations {
    use crate::tests::*;

    #[test]
    fn every_answer_has_an_errno_of_the_abi() -> Result {
        let (nvidia, fake) = provider()?;
        let unsupported = crate::glue::errno::unsupported();
        let cases = [
            (Ok(Status::OK), Ok(())),
            (Ok(Status::NOTHING_TO_DO), Ok(())),
            (Ok(Status(0x23)), Err(ENOENT)),
            (Ok(Status(0x57)), Err(ENOENT)),
            (Ok(Status(0x03)), Err(EBUSY)),
            (Ok(Status(0x11)), Err(EAGAIN)),
            (Ok(Status(0x1f)), Err(EINVAL)),
            (Ok(Status(0x56)), Err(EINVAL)),
            (Ok(Status(0x65)), Err(ETIMEDOUT)),
            (Ok(Status(0x0f)), Err(EIO)),
            (Ok(Status(0x55)), Err(EIO)),
            (Ok(Status(0x62)), Err(EIO)),
            (Ok(Status::NONE), Err(EIO)),
            (Err(ENOENT), Err(ENOENT)),
            (Err(EAGAIN), Err(EAGAIN)),
            (Err(ENOMEM), Err(EBUSY)),
            (Err(unsupported), Err(EINVAL)),
            (Err(EINVAL), Err(EIO)),
        ];
        for (answer, expected) in cases {
            fake.answer(answer);
            assert_eq!(nvidia.set_timeslice(GPU.into(), TSG, 200), expected);
            assert_eq!(nvidia.timeslice(GPU.into(), TSG).map(|_| ()), expected);
            // The driver gives this one for all errors of GSP.
            let of_level = match answer {
                Ok(Status::NOT_SUPPORTED) => Err(EIO),
                _ => expected,
            };
            assert_eq!(nvidia.set_interleave(GPU.into(), TSG, 2), of_level);
            assert_eq!(nvidia.preempt(GPU.into(), TSG, 10), expected);
            // The hook answers this by itself: there is no status.
            let expected = if answer.is_ok() { Ok(()) } else { expected };
            assert_eq!(nvidia.interleave(GPU.into(), TSG).map(|_| ()), expected);
        }
        Ok(())
    }

    #[test]
    fn values_reach_the_driver_and_come_back() -> Result {
        let (nvidia, fake) = provider()?;
        nvidia.set_timeslice(GPU.into(), TSG, 5_000_000)?;
        nvidia.set_enabled(GPU.into(), TSG, false)?;
        for timeout in [0, 1, 250, 1_000_000, u32::MAX] {
            nvidia.preempt(GPU.into(), TSG, timeout)?;
        }
        assert!(fake.called(&[
            Call::SetTimeslice(TSG, 5_000_000),
            Call::Enable(TSG, false),
            Call::Preempt(TSG, 1),
            Call::Preempt(TSG, 1),
            Call::Preempt(TSG, 250),
            Call::Preempt(TSG, 1_000_000),
            Call::Preempt(TSG, 1_000_000),
        ]));
        fake.script.lock().value = 1024;
        assert_eq!(nvidia.timeslice(GPU.into(), TSG), Ok(1024));
        fake.script.lock().value = u64::MAX;
        assert_eq!(nvidia.timeslice(GPU.into(), TSG), Ok(u32::MAX));
        fake.script.lock().value = 2;
        assert_eq!(nvidia.interleave(GPU.into(), TSG), Ok(2));
        Ok(())
    }

    #[test]
    fn run_lists_are_asked_before_each_level() -> Result {
        let (nvidia, fake) = provider()?;
        nvidia.set_interleave(GPU.into(), TSG, 2)?;
        nvidia.set_interleave(GPU.into(), TSG, 0)?;
        assert!(fake.called(&[
            Call::Heed(GPU, true),
            Call::SetInterleave(TSG, 2),
            Call::Heed(GPU, true),
            Call::SetInterleave(TSG, 0),
        ]));
        drop(nvidia);
        assert!(fake.called(&[Call::Heed(GPU, false)]));
        Ok(())
    }

    #[test]
    fn run_lists_that_refuse_are_asked_once() -> Result {
        for refusal in [0x56, 0x40, 0x65, 0x26, 0x57] {
            let (nvidia, fake) = provider()?;
            fake.heed(Ok(Status(refusal)));
            nvidia.set_interleave(GPU.into(), TSG, 2)?;
            nvidia.set_interleave(GPU.into(), TSG, 1)?;
            assert!(fake.called(&[
                Call::Heed(GPU, true),
                Call::SetInterleave(TSG, 2),
                Call::SetInterleave(TSG, 1),
            ]));
            nvidia.gpus().lock().restart();
            nvidia.set_interleave(GPU.into(), TSG, 2)?;
            assert!(fake.called(&[Call::Heed(GPU, true), Call::SetInterleave(TSG, 2)]));
        }
        Ok(())
    }

    #[test]
    fn a_gpu_that_has_stopped_is_asked_again() -> Result {
        let (nvidia, fake) = provider()?;
        fake.heed(Err(ENOENT));
        nvidia.set_interleave(GPU.into(), TSG, 2)?;
        nvidia.set_interleave(GPU.into(), TSG, 1)?;
        assert!(fake.called(&[
            Call::Heed(GPU, true),
            Call::SetInterleave(TSG, 2),
            Call::Heed(GPU, true),
            Call::SetInterleave(TSG, 1),
        ]));
        Ok(())
    }

    #[test]
    fn what_the_hook_remembers_is_no_control() -> Result {
        let (nvidia, fake) = provider()?;
        let (controls, gone) = (counters::CONTROLS.value(), counters::GONE.value());
        nvidia.interleave(GPU.into(), TSG)?;
        assert_eq!(counters::CONTROLS.value(), controls);
        fake.answer(Err(ENOENT));
        assert_eq!(nvidia.interleave(GPU.into(), TSG), Err(ENOENT));
        assert_eq!(counters::GONE.value(), gone + 1);
        Ok(())
    }

    #[test]
    fn a_driver_that_is_suspended_is_left_alone() -> Result {
        let (nvidia, fake) = provider()?;
        fake.heed(Err(EAGAIN));
        assert_eq!(nvidia.set_interleave(GPU.into(), TSG, 2), Err(EAGAIN));
        assert!(fake.called(&[Call::Heed(GPU, true)]));
        fake.heed(Ok(Status::OK));
        nvidia.set_interleave(GPU.into(), TSG, 2)?;
        assert!(fake.called(&[Call::Heed(GPU, true), Call::SetInterleave(TSG, 2)]));
        Ok(())
    }

    #[test]
    fn a_channel_that_is_gone_is_not_the_tsg() -> Result {
        let (nvidia, fake) = provider()?;
        fake.answer(Ok(Status(0x57)));
        assert_eq!(nvidia.set_enabled(GPU.into(), TSG, true), Err(EIO));
        fake.answer(Err(ENOENT));
        assert_eq!(nvidia.set_enabled(GPU.into(), TSG, true), Err(ENOENT));
        Ok(())
    }
}
