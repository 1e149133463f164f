// SPDX-License-Identifier: MIT OR Apache-2.0
//! GPUs that are started: by a task that is killed half-way, or with a step that fails.

use std::fs;
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use libzernel::Level;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use testkit::child::Child;
use testkit::faults::Faults;
use testkit::harness::{case, Outcome, Suite};
use testkit::random::Random;
use testkit::{check_eq, wait_until, Repeat};

use crate::lab::{faults, set_faults, wait_slice, Lab, LOADED};
use crate::options;
use crate::rm::file::open_node;
use crate::rm::truth::{self, Counts};
use crate::rm::Runtime;

/// The suite.
pub const SUITE: Suite = Suite::new(
    "simrm.start",
    &[
        case("fails_at_the_core", fails_at_the_core),
        case("fails_at_any_step", fails_at_any_step),
        case("killed_while_the_core_starts", killed_while_the_core_starts),
        case("killed_while_another_starts", killed_while_another_starts),
        case("killed_at_any_time", killed_at_any_time),
    ],
    LOADED,
);

/// The GPU that is started.
const NODE: &str = "/dev/nvidia0";
/// Time that the resource manager takes, and more than it takes to get there.
const SLOW: Duration = Duration::from_millis(300);

/// Opens the GPU without waiting until it is started.
fn open_at_once() -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::open(NODE, flags, Mode::empty())
}

/// Threads of the driver's interrupts: one of each, from the request of it until it is given back.
fn handlers() -> Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir("/proc")? {
        // Not every entry is a process, and processes end.
        let comm = fs::read_to_string(entry?.path().join("comm")).unwrap_or_default();
        count += usize::from(comm.starts_with("irq/") && comm.trim_end().ends_with("-nvidia"));
    }
    Ok(count)
}

/// Waits until no GPU is started, and fails if something of its start is left.
fn nothing_is_left() -> Result<()> {
    wait_until("every GPU has stopped", || {
        Ok(Counts::of_rm()?.get("started_gpus")? == 0)
    })?;
    let mut left = (0, 0);
    wait_until("nothing is left of the start", || {
        left = (Counts::of_rm()?.get("kernel_clients")?, handlers()?);
        Ok(left == (0, 0))
    })
    .with_context(|| format!("clients of the kernel and interrupt handlers: {left:?}"))
}

/// The GPU starts, zernel changes a slice and an interleave level there, and it stops.
fn works(lab: &Lab) -> Result<()> {
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    lab.class(&runtime, tsg, Level::LC)?;
    wait_slice(&runtime, tsg, 5_000_000)?;
    lab.quiet()?;
    check_eq!(truth::tsg(runtime.client, tsg)?.interleave, 2, "level");
    check_eq!(truth::policies()?, 1, "policies of the run lists");
    ensure!(handlers()? > 0, "a started GPU has no interrupt handler");
    drop(runtime);
    nothing_is_left()
}

fn fails_at_the_core() -> Outcome {
    const TIMES: u32 = 20;
    let lab = Lab::open()?;
    for _ in 0..TIMES {
        set_faults("start status=0x40")?;
        check_eq!(open_node(NODE).map(drop), Err(Errno::IO));
        check_eq!(faults()?, "");
        nothing_is_left()?;
        set_faults("start status=0x40")?;
        let unwaited = open_at_once()?;
        wait_until("the start has failed", || Ok(faults()?.is_empty()))?;
        drop(unwaited);
        nothing_is_left()?;
    }
    works(&lab)
}

/// Each of the driver's allocations on the way fails once.
fn fails_at_any_step() -> Outcome {
    let lab = Lab::open()?;
    // The kernel warns of entries in /proc/irq that it could not make. The driver forgets in
    // nv_init_msi() that it has enabled MSI, of which the kernel warns the next time.
    let faults = Faults::of_module("nvidia")?
        .near(8)?
        .but_not_in("nvidia", "nv_init_msi")?;
    let one = faults.one_by_one()?;
    let count = one.each(|n| {
        let (opened, failed) = one.nth(n, || open_node(NODE))?;
        ensure!(failed || opened.is_ok(), "without a failure: {opened:?}");
        drop(opened);
        nothing_is_left()?;
        Ok(failed)
    })?;
    ensure!(count > 5, "{count} allocations only");
    println!("    # {count} allocations failed");
    drop(faults);
    works(&lab)
}

/// The start goes on to its end, and the GPU stops.
fn killed_while_the_core_starts() -> Outcome {
    let lab = Lab::open()?;
    for open in [|| open_node(NODE), open_at_once] {
        set_faults(&format!("start us={}", SLOW.as_micros()))?;
        let child = Child::spawn(move || {
            let _node = open()?;
            std::thread::sleep(testkit::SOON);
            Ok(())
        })?;
        wait_until("the core starts", || Ok(faults()?.is_empty()))?;
        child.kill()?;
        child.end()?;
        nothing_is_left()?;
        works(&lab)?;
    }
    Ok(())
}

/// A task that is killed as it waits for another's start: if that fails, it tries itself.
fn killed_while_another_starts() -> Outcome {
    let lab = Lab::open()?;
    for status in [0, 0x40] {
        set_faults(&format!("start us={} status={status}", SLOW.as_micros()))?;
        let first = Child::spawn(|| {
            // An error where the start fails.
            drop(open_node(NODE));
            Ok(())
        })?;
        wait_until("the core starts", || Ok(faults()?.is_empty()))?;
        let second = Child::spawn(|| {
            drop(open_node(NODE));
            Ok(())
        })?;
        std::thread::sleep(SLOW / 4);
        second.kill()?;
        first.join()?;
        second.end()?;
        nothing_is_left()?;
        works(&lab)?;
    }
    Ok(())
}

/// Kills at any moment of the start: a thread that the driver wants then is refused.
fn killed_at_any_time() -> Outcome {
    const ROUNDS: u64 = 100;
    let lab = Lab::open()?;
    let seed = options::seed();
    println!("    # --seed {seed}");
    let mut random = Random::new(seed);
    for round in Repeat::new(ROUNDS, "rounds") {
        let child = Child::spawn(|| loop {
            drop(open_node(NODE));
        })?;
        std::thread::sleep(Duration::from_micros(random.below(5_000)));
        child.kill()?;
        child.end()?;
        nothing_is_left().with_context(|| format!("round {round}"))?;
    }
    works(&lab)
}
