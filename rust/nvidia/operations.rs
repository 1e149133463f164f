// SPDX-License-Identifier: GPL-2.0
//! The operations that `zernel.ko` can ask of the driver.
//!
//! The load of TSGs and GPUs comes from registers, which are looked at when somebody asks.

use crate::{
    counters,
    glue::{
        errno,
        nvidia::{
            control,
            load::{
                self,
                Samples,
                MOST, //
            },
            records::{
                self,
                Batch,
                Record, //
            },
        },
        provider_side::{
            Provider,
            TsgLoad, //
        },
        time::now_ns,
    },
    gpus::Gpus,
    meters::Meters,
    status::{
        Meaning,
        Status, //
    },
    traces::Traces,
    units::Ns,
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::ordering::Relaxed,
        Arc,
        Mutex, //
    }, //
};

/// Shortest time slice that is asked for, in µs.
///
/// A run list holds the slice of a TSG as an 8-bit count of units of 1.024 µs shifted left by up to
/// 15 bits, and the driver rounds down: less than this would become zero, which stands for no time
/// slicing at all.
pub(crate) const MIN_TIMESLICE_US: u32 = 2;

/// Longest time slice that is asked for, in µs: 255 units shifted by 15, taken as µs.
pub(crate) const MAX_TIMESLICE_US: u32 = 255 << 15;

/// Longest time that a preemption may be waited for, in µs; the driver refuses more.
const MAX_PREEMPT_US: u32 = 1_000_000;

/// The driver; a trait so that tests can be the driver. Errors are those of `nv-zernel.h`.
pub(crate) trait Driver: Send + Sync + 'static {
    /// Gives a TSG a time slice in µs.
    fn set_timeslice(&self, tsg: u64, us: u64) -> Result<Status>;
    /// The time slice of a TSG in µs.
    fn timeslice(&self, tsg: u64) -> Result<(Status, u64)>;
    /// Gives a TSG an interleave level.
    fn set_interleave(&self, tsg: u64, level: u32) -> Result<Status>;
    /// The interleave level of a TSG; the driver cannot be asked, but the hook remembers.
    fn interleave(&self, tsg: u64) -> Result<u32>;
    /// Takes the engine away from a TSG.
    fn preempt(&self, tsg: u64, timeout_us: u32) -> Result<Status>;
    /// Lets the channels of a TSG run, or not.
    fn enable(&self, tsg: u64, enable: bool) -> Result<Status>;
    /// Has the run list of a TSG begin anew, without waiting for that.
    fn restart(&self, tsg: u64) -> Result<Status>;
    /// Has the run lists of a GPU heed interleave levels, or not any more.
    fn heed_interleave(&self, gpu: u32, on: bool) -> Result<Status>;
    /// Looks at channels of TSGs. Returns the number of registers that were read.
    fn take(&self, gpu: u32, samples: &mut Samples) -> Result<u32>;
    /// Looks at the engines of run lists.
    fn engines(&self, gpu: u32, runlists: &[u32]) -> Result<[u32; MOST]>;
    /// Reads records of context switches of a GPU or of a MIG instance of it.
    fn records(
        &self,
        gpu: u32,
        mig: Option<u32>,
        flush: bool,
        list: &mut [Record],
    ) -> Result<Batch>;
}

/// The driver behind the hook.
pub(crate) struct Hook;

impl Driver for Hook {
    fn set_timeslice(&self, tsg: u64, us: u64) -> Result<Status> {
        control::set_timeslice(tsg, us)
    }

    fn timeslice(&self, tsg: u64) -> Result<(Status, u64)> {
        control::timeslice(tsg)
    }

    fn set_interleave(&self, tsg: u64, level: u32) -> Result<Status> {
        control::set_interleave(tsg, level)
    }

    fn interleave(&self, tsg: u64) -> Result<u32> {
        control::interleave(tsg)
    }

    fn preempt(&self, tsg: u64, timeout_us: u32) -> Result<Status> {
        control::preempt(tsg, timeout_us)
    }

    fn enable(&self, tsg: u64, enable: bool) -> Result<Status> {
        control::enable(tsg, enable)
    }

    fn restart(&self, tsg: u64) -> Result<Status> {
        control::restart(tsg)
    }

    fn heed_interleave(&self, gpu: u32, on: bool) -> Result<Status> {
        control::heed_interleave(gpu, on)
    }

    fn take(&self, gpu: u32, samples: &mut Samples) -> Result<u32> {
        samples.take(gpu)
    }

    fn engines(&self, gpu: u32, runlists: &[u32]) -> Result<[u32; MOST]> {
        load::engines(gpu, runlists)
    }

    fn records(
        &self,
        gpu: u32,
        mig: Option<u32>,
        flush: bool,
        list: &mut [Record],
    ) -> Result<Batch> {
        records::read(gpu, mig, flush, list)
    }
}

/// The driver as a provider of `zernel.ko`.
#[pin_data(PinnedDrop)]
pub(crate) struct Nvidia<D: Driver = Hook> {
    driver: D,
    #[pin]
    gpus: Mutex<Gpus>,
    /// The administrator wants records of context switches.
    wants_records: bool,
    #[pin]
    traces: Mutex<Traces>,
    #[pin]
    meters: Mutex<Meters>,
}

impl<D: Driver> Nvidia<D> {
    /// The driver, with no GPU yet.
    pub(crate) fn new(driver: D, wants_records: bool) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                driver,
                gpus <- new_mutex!(Gpus::new(), "zernel_nvidia_gpus"),
                wants_records,
                traces <- new_mutex!(Traces::new(), "zernel_nvidia_traces"),
                meters <- new_mutex!(Meters::new(), "zernel_nvidia_meters"),
            }),
            GFP_KERNEL,
        )
    }

    /// The driver.
    pub(crate) fn driver(&self) -> &D {
        &self.driver
    }

    /// Its GPUs.
    pub(crate) fn gpus(&self) -> &Mutex<Gpus> {
        &self.gpus
    }

    /// The work of its TSGs.
    pub(crate) fn meters(&self) -> &Mutex<Meters> {
        &self.meters
    }

    /// The context switches of its GPUs.
    pub(crate) fn traces(&self) -> &Mutex<Traces> {
        &self.traces
    }

    /// Follows the context switches of a GPU, if that is wanted. Its load is about to be told.
    pub(crate) fn follow(&self, gpu: u32, forced: bool) {
        if self.wants_records {
            let read = |mig, flush, list: &mut [Record]| self.driver.records(gpu, mig, flush, list);
            let mut traces = self.traces.lock();
            traces.follow(gpu, &self.meters, forced, read);
        }
    }

    /// Looks at some TSGs of a GPU, and tells their load by these meters.
    pub(crate) fn look(
        &self,
        meters: &Mutex<Meters>,
        gpu: u32,
        tsgs: &[u64],
        tell: &mut dyn FnMut(usize, Result<TsgLoad>),
    ) -> Result {
        if tsgs.is_empty() {
            return Ok(());
        }
        let mut samples = Samples::new();
        {
            let meters = meters.lock();
            for &tsg in tsgs {
                samples.push(tsg, meters.next_channel(tsg));
            }
        }
        let begin = now_ns();
        let answer = self.driver.take(gpu, &mut samples);
        let took = now_ns().saturating_sub(begin);
        let mut meters = meters.lock();
        match answer {
            Ok(reads) => {
                // They take nearly all of the time, each as much of it as any other.
                let each = took / u64::from(reads.max(1));
                meters.look(gpu, samples.list(), Ns(begin), Ns(each), tell);
                Ok(())
            }
            Err(e) => {
                samples.list().iter().for_each(|of| meters.pause(of.tsg()));
                Err(unread(e))
            }
        }
    }

    /// Has the run lists of a GPU heed interleave levels.
    ///
    /// Asked each time, since the driver forgets it when the GPU stops; the hook knows when there is
    /// nothing to do. Where the driver would not, because it cannot or another client has set
    /// another policy, levels are set all the same: the driver keeps them, the time slice works
    /// without them, and people are told once.
    fn heed(&self, gpu: u64) -> Result {
        let gpu = u32::try_from(gpu).map_err(|_| ENOENT)?;
        if !self.gpus.lock().may_heed(gpu) {
            return Ok(());
        }
        let answer = self.driver.heed_interleave(gpu, true);
        match meaning(answer) {
            Meaning::Done => Ok(()),
            // The hook has no such GPU: the TSG is gone too then, and its own control tells.
            Meaning::Gone if answer.is_err() => Ok(()),
            Meaning::NotNow => Err(EAGAIN),
            Meaning::Busy => Err(EBUSY),
            // A status that says so is of the hook's client for run lists, not of the TSG.
            Meaning::Gone | Meaning::Refused | Meaning::TimedOut | Meaning::Failed => {
                if self.gpus.lock().set_unheeding(gpu) {
                    counters::UNHEEDED.count();
                    pr_warn!(
                        "GPU 0x{gpu:x}: run lists ignore interleave levels; time slices work\n"
                    );
                }
                Ok(())
            }
        }
    }
}

#[pinned_drop]
impl<D: Driver> PinnedDrop for Nvidia<D> {
    /// Gives the run lists their policy back, when no operation can ask for another one any more.
    fn drop(self: Pin<&mut Self>) {
        for gpu in self.gpus.lock().ids() {
            // There is nobody left to tell.
            let _ = self.driver.heed_interleave(gpu, false);
        }
    }
}

/// The meaning of an answer. Refusals of the hook itself have not reached the driver.
fn meaning(answer: Result<Status>) -> Meaning {
    match answer {
        Ok(status) => {
            let meaning = status.meaning();
            if meaning != Meaning::Done {
                counters::LAST_STATUS.store(status.0, Relaxed);
            }
            meaning
        }
        Err(ENOENT) => Meaning::Gone,
        Err(EAGAIN) => Meaning::NotNow,
        Err(ENOMEM) => Meaning::Busy,
        Err(e) if e == errno::unsupported() => Meaning::Refused,
        Err(_) => Meaning::Failed,
    }
}

/// Counts the outcome of a control, and returns it as an errno of the provider ABI.
fn judge(meaning: Meaning) -> Result {
    let (counter, result) = match meaning {
        Meaning::Done => (&counters::CONTROLS, Ok(())),
        Meaning::Gone => (&counters::GONE, Err(ENOENT)),
        Meaning::NotNow => (&counters::DEFERRED, Err(EAGAIN)),
        Meaning::Busy => (&counters::DEFERRED, Err(EBUSY)),
        Meaning::Refused => (&counters::REFUSED, Err(EINVAL)),
        Meaning::TimedOut => (&counters::TIMED_OUT, Err(ETIMEDOUT)),
        Meaning::Failed => (&counters::FAILED, Err(EIO)),
    };
    counter.count();
    result
}

/// As [`judge`], for a control that reads.
fn judge_value<T>(answer: Result<(Status, T)>) -> Result<T> {
    match answer {
        Ok((status, value)) => judge(meaning(Ok(status))).map(|()| value),
        Err(e) => Err(match judge(meaning(Err(e))) {
            Ok(()) => EIO,
            Err(e) => e,
        }),
    }
}

#[vtable]
impl<D: Driver> Provider for Nvidia<D> {
    const NAME: &'static CStr = c"nvidia";

    fn set_timeslice(&self, _gpu: u64, tsg: u64, us: u32) -> Result {
        judge(meaning(self.driver.set_timeslice(tsg, us.into())))
    }

    /// An owner may have set a longer slice than zernel can; it gets back the longest of zernel.
    fn timeslice(&self, _gpu: u64, tsg: u64) -> Result<u32> {
        let us = judge_value(self.driver.timeslice(tsg))?;
        Ok(u32::try_from(us).unwrap_or(u32::MAX))
    }

    fn set_interleave(&self, gpu: u64, tsg: u64, level: u32) -> Result {
        self.heed(gpu)?;
        let answer = self.driver.set_interleave(tsg, level);
        judge(match answer {
            // With GSP the driver gives this for any error of it.
            Ok(Status::NOT_SUPPORTED) => {
                counters::LAST_STATUS.store(Status::NOT_SUPPORTED.0, Relaxed);
                Meaning::Failed
            }
            _ => meaning(answer),
        })
    }

    fn interleave(&self, _gpu: u64, tsg: u64) -> Result<u32> {
        // The hook looks it up: only one that fails is a control.
        match self.driver.interleave(tsg) {
            Ok(level) => Ok(level),
            Err(e) => judge_value(Err(e)),
        }
    }

    fn preempt(&self, _gpu: u64, tsg: u64, timeout_us: u32) -> Result {
        let timeout_us = timeout_us.clamp(1, MAX_PREEMPT_US);
        judge(meaning(self.driver.preempt(tsg, timeout_us)))
    }

    fn set_enabled(&self, _gpu: u64, tsg: u64, enabled: bool) -> Result {
        let answer = self.driver.enable(tsg, enabled);
        let result = judge(match meaning(answer) {
            // It is a channel or the subdevice that the driver does not know; whether the TSG is
            // there, the hook has said.
            Meaning::Gone if answer.is_ok() => Meaning::Failed,
            meaning => meaning,
        });
        if result.is_ok() {
            let mut meters = self.meters.lock();
            meters.set_enabled(tsg, enabled, Ns(now_ns()));
        }
        result
    }

    /// A driver that refuses the control for any TSG is not asked again.
    fn kick(&self, _gpu: u64, tsg: u64) -> Result {
        let answer = self.driver.restart(tsg);
        let result = judge(meaning(answer));
        match answer {
            Ok(status) if status.lacks_control() => Err(errno::unsupported()),
            _ => result,
        }
    }

    fn tsg_load(&self, gpu: u64, tsg: u64) -> Result<TsgLoad> {
        let mut told = Err(ENOENT);
        self.tsg_loads(gpu, &[tsg], &mut |_, load| told = load)?;
        told
    }

    fn tsg_loads(
        &self,
        gpu: u64,
        tsgs: &[u64],
        tell: &mut dyn FnMut(usize, Result<TsgLoad>),
    ) -> Result {
        let gpu = u32::try_from(gpu).map_err(|_| ENOENT)?;
        self.follow(gpu, false);
        self.look(&self.meters, gpu, tsgs, tell)
    }

    /// Of the compute engine that worked longest, as seen whenever it or a TSG on it was looked at.
    fn load(&self, gpu: u64) -> Result<(u64, u64)> {
        let gpu = u32::try_from(gpu).map_err(|_| ENOENT)?;
        let since = self.gpus.lock().since(gpu).ok_or(ENOENT)?;
        self.follow(gpu, false);
        let (runlists, count) = self.meters.lock().runlists(gpu);
        let runlists = runlists.get(..count).unwrap_or(&runlists);
        let mut busy = Ns::ZERO;
        if !runlists.is_empty() {
            let values = self.driver.engines(gpu, runlists).map_err(unread)?;
            let now = Ns(now_ns());
            let mut meters = self.meters.lock();
            busy = meters.look_at_engines(gpu, runlists, &values, now)?;
        }
        Ok((busy.0, now_ns().saturating_sub(since)))
    }
}

/// The errno of the provider ABI for a refusal of the hook to read registers.
fn unread(error: Error) -> Error {
    match error {
        ENOMEM => EBUSY,
        other => other,
    }
}
