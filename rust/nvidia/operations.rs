// SPDX-License-Identifier: GPL-2.0
//! The operations that `zernel.ko` can ask of the driver.
//!
//! The driver does not say how busy a GPU is in a way that could be handed on. The one control that
//! comes near, 0x20802096, gives a ring of samples of the last ten seconds in a structure that 550
//! and 595 lay out differently, and nothing at all with MIG. So there is no `load`.

use crate::{
    counters,
    glue::{
        errno,
        nvidia::control,
        provider_side::Provider, //
    },
    gpus::Gpus,
    status::{
        Meaning,
        Status, //
    },
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
    /// Has the run lists of a GPU heed interleave levels, or not any more.
    fn heed_interleave(&self, gpu: u32, on: bool) -> Result<Status>;
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

    fn heed_interleave(&self, gpu: u32, on: bool) -> Result<Status> {
        control::heed_interleave(gpu, on)
    }
}

/// The driver as a provider of `zernel.ko`.
#[pin_data(PinnedDrop)]
pub(crate) struct Nvidia<D: Driver = Hook> {
    driver: D,
    #[pin]
    gpus: Mutex<Gpus>,
}

impl<D: Driver> Nvidia<D> {
    /// The driver, with no GPU yet.
    pub(crate) fn new(driver: D) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                driver,
                gpus <- new_mutex!(Gpus::new(), "zernel_nvidia_gpus"),
            }),
            GFP_KERNEL,
        )
    }

    /// Its GPUs.
    pub(crate) fn gpus(&self) -> &Mutex<Gpus> {
        &self.gpus
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
        Err(EAGAIN | ENOMEM) => Meaning::NotNow,
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
        judge(meaning(self.driver.set_interleave(tsg, level)))
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
        judge(match meaning(answer) {
            // It is a channel or the subdevice that the driver does not know; whether the TSG is
            // there, the hook has said.
            Meaning::Gone if answer.is_ok() => Meaning::Failed,
            meaning => meaning,
        })
    }
}
