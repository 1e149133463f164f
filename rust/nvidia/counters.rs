// SPDX-License-Identifier: GPL-2.0
//! Counters since the module was loaded, and the file `counts` of debugfs that shows them.

use crate::glue::{
    debugfs::{
        Show,
        Text, //
    },
    nvidia::control, //
};
use kernel::{
    fmt::Write as _,
    prelude::*,
    sync::atomic::{
        ordering::Relaxed,
        Atomic, //
    }, //
};

/// A number that only grows.
pub(crate) struct Counter(Atomic<u64>);

impl Counter {
    const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Counts one more. Returns whether it was the first.
    pub(crate) fn count(&self) -> bool {
        self.0.fetch_add(1, Relaxed) == 0
    }

    /// Counts some more.
    pub(crate) fn add(&self, more: u64) {
        if more > 0 {
            self.0.fetch_add(more, Relaxed);
        }
    }

    /// The count.
    pub(crate) fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// TSGs that zernel does not manage because their owner was reaped before zernel came.
pub(crate) static UNOWNED: Counter = Counter::new();
/// TSGs that zernel does not manage for another reason: there are too many, or memory is short.
pub(crate) static UNMANAGED: Counter = Counter::new();
/// TSGs that serve several processes (MPS), which no class raises.
pub(crate) static SHARED: Counter = Counter::new();
/// Attempts of processes to change their own TSGs that were refused.
pub(crate) static DENIED: Counter = Counter::new();
/// Attempts of processes to change their own TSGs after which zernel was asked to look again.
pub(crate) static OBSERVED: Counter = Counter::new();
/// Controls that the driver carried out.
pub(crate) static CONTROLS: Counter = Counter::new();
/// Controls of TSGs that were gone.
pub(crate) static GONE: Counter = Counter::new();
/// Controls that were put off.
pub(crate) static DEFERRED: Counter = Counter::new();
/// Controls that the driver refused.
pub(crate) static REFUSED: Counter = Counter::new();
/// Controls that the GPU did not answer in time.
pub(crate) static TIMED_OUT: Counter = Counter::new();
/// Controls that failed.
pub(crate) static FAILED: Counter = Counter::new();
/// Looks at channels whose registers did not tell.
pub(crate) static UNREADABLE: Counter = Counter::new();
/// Looks at TSGs of a GPU that slept.
pub(crate) static ASLEEP: Counter = Counter::new();
/// Records of context switches that were read.
pub(crate) static RECORDS: Counter = Counter::new();
/// Records that were lost, and others that told nothing for certain.
pub(crate) static RECORDS_LOST: Counter = Counter::new();
/// Times that the clock of a GPU was set to another time.
pub(crate) static CLOCK_JUMPS: Counter = Counter::new();
/// `NV_STATUS` of the last control that the driver did not carry out.
pub(crate) static LAST_STATUS: Atomic<u32> = Atomic::new(0);
/// GPUs with run lists that ignore interleave levels.
pub(crate) static UNHEEDED: Counter = Counter::new();

/// The file `counts`: `name value` in each line. The present sizes of the hook's table, then the
/// counters since the module was loaded.
pub(crate) struct Counts;

impl Show for Counts {
    fn show(&self, out: &mut Text) -> Result {
        for (name, value) in control::counts() {
            out.write_fmt(fmt!("{} {}\n", name, value))?;
        }
        for (name, counter) in [
            ("unowned", &UNOWNED),
            ("unmanaged", &UNMANAGED),
            ("shared", &SHARED),
            ("user_denied", &DENIED),
            ("user_observed", &OBSERVED),
            ("controls", &CONTROLS),
            ("controls_gone", &GONE),
            ("controls_deferred", &DEFERRED),
            ("controls_refused", &REFUSED),
            ("controls_timed_out", &TIMED_OUT),
            ("controls_failed", &FAILED),
            ("interleave_unheeded", &UNHEEDED),
            ("unreadable", &UNREADABLE),
            ("asleep", &ASLEEP),
            ("records", &RECORDS),
            ("records_lost", &RECORDS_LOST),
            ("clock_jumps", &CLOCK_JUMPS),
        ] {
            out.write_fmt(fmt!("{} {}\n", name, counter.value()))?;
        }
        out.write_fmt(fmt!("last_status {}\n", LAST_STATUS.load(Relaxed)))?;
        Ok(())
    }
}
