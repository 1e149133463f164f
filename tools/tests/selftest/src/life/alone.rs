// SPDX-License-Identifier: GPL-2.0
//! zernel.ko on a machine without any GPU, and modules that cannot be loaded.

use std::path::Path;

use anyhow::ensure;
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
    let about: Vec<_> = said
        .iter()
        .filter(|line| line.contains("zernel: "))
        .collect();
    ensure!(
        about.iter().any(|line| line.contains("no GPU")),
        "the log: {about:?}"
    );
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
        let mut events = zernel.events()?;
        check_eq!(
            events.next_within(Some(std::time::Duration::ZERO))?,
            None,
            "events"
        );
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
    ] {
        let errno =
            load("zernel_sim", parameters).map_err(|error| error.downcast_ref::<Errno>().copied());
        check_eq!(errno, Err(Some(Errno::INVAL)), "{parameters}");
        ensure!(!is_loaded("zernel_sim"), "loaded with {parameters}");
    }
    check_eq!(
        Zernel::open()?.stats()?.gpus,
        0,
        "GPUs of providers that failed"
    );
    for parameters in [
        "gpus=64 max_tsgs=1 copy_engines=0",
        "preset=H100",
        "gpus=3 copy_engines=8",
    ] {
        load("zernel_sim", parameters)?;
        let gpus = libzernel::sim::Sim::open()?.version()?.gpus;
        check_eq!(
            Zernel::open()?.gpus().count(),
            gpus as usize,
            "GPUs with {parameters}"
        );
        unload_soon("zernel_sim")?;
        check_eq!(Zernel::open()?.stats()?.gpus, 0, "GPUs after {parameters}");
    }
    unload("zernel")?;
    nothing_left()
}
