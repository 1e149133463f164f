// SPDX-License-Identifier: MIT OR Apache-2.0
//! zernel.ko on a machine without any GPU, and modules that cannot be loaded.

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use libzernel::sim::Sim;
use libzernel::{Level, Target, Zernel};
use rustix::io::Errno;

use super::{nothing_left, TRACES};
use crate::check_eq;
use crate::common::{is_loaded, load, unload, unload_soon};
use crate::harness::Outcome;
use testkit::log::Mark;

/// It works, says that there is no GPU, and leaves nothing.
pub(super) fn zernel_alone() -> Outcome {
    let log = Mark::new()?;
    load("zernel", "")?;
    let said = log.lines()?;
    let is_it = |line: &String| line.contains("zernel: ") && line.contains("no GPU");
    ensure!(said.iter().any(is_it), "the log: {said:?}");
    for path in TRACES {
        ensure!(Path::new(path).exists(), "{path} is missing");
    }
    {
        let zernel = Zernel::open()?;
        check_eq!(zernel.gpus().count(), 0, "GPUs");
        check_eq!(zernel.tsgs().count(), 0, "TSGs");
        let me = Target::current_process();
        zernel.set_class(&me, Level::LC)?;
        check_eq!(zernel.class(&me)?.level.value, Some(Level::LC));
        check_eq!(zernel.stats()?.classes, 1);
        zernel.clear_class(&me)?;
        zernel.set_class(&me, Level::BE)?;
        let event = zernel.events()?.next_within(Some(Duration::ZERO))?;
        check_eq!(event, None, "events");
    }
    // With an assignment of a live process and the enabled tracepoints.
    let enable = "/sys/kernel/tracing/events/zernel/enable";
    std::fs::write(enable, "1")?;
    std::fs::write(enable, "0")?;
    unload("zernel")?;
    nothing_left()
}

pub(super) fn bad_parameters() -> Outcome {
    load("zernel", "")?;
    for parameters in [
        "gpus=0",
        "gpus=65",
        "preset=none",
        "copy_engines=9",
        "max_tsgs=0",
        "max_tsgs=4097",
        "word_poll_us=0",
        "user_contexts=0",
        "user_items=0",
        "operation_percent=10001",
        "lacks=set_timeslice",
        "lacks=preempt,none",
    ] {
        let error = load("zernel_sim", parameters).err();
        let errno = error.and_then(|error| error.downcast::<Errno>().ok());
        check_eq!(errno, Some(Errno::INVAL), "{parameters}");
        ensure!(!is_loaded("zernel_sim"), "loaded with {parameters}");
    }
    check_eq!(Zernel::open()?.stats()?.gpus, 0, "GPUs that failed");
    for parameters in [
        "gpus=64 max_tsgs=1 copy_engines=0",
        "preset=H100",
        "gpus=3 copy_engines=8",
        "lacks=kick,query_load,preempt",
    ] {
        load("zernel_sim", parameters)?;
        let gpus = Sim::open()?.version()?.gpus as usize;
        check_eq!(Zernel::open()?.gpus().count(), gpus, "{parameters}");
        unload_soon("zernel_sim")?;
        check_eq!(Zernel::open()?.stats()?.gpus, 0, "GPUs after {parameters}");
    }
    unload("zernel")?;
    nothing_left()
}
