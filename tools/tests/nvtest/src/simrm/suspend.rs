// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver is suspended and comes back.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::modules::unload_each;
use anyhow::{ensure, Context as _, Result};
use libzernel::event::Kind;
use libzernel::{Level, Target};
use testkit::harness::{case, Outcome, Skip, Suite};
use testkit::log::Mark;
use testkit::{check_eq, power, wait_until};

use crate::lab::{self, set_faults, wait_slice, Lab, LOADED, ORIGINAL_US};
use crate::rm::{truth, Handle, Runtime, Spec};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "simrm.suspend",
    &[
        case("classes_wait_for_the_driver", classes_wait_for_the_driver),
        case("settings_are_applied_again", settings_are_applied_again),
        case("file_closed_meanwhile", file_closed_meanwhile),
        case("many_rounds", many_rounds),
        case("machine_sleeps", machine_sleeps),
        case("failed_resume_is_of_one_gpu", failed_resume),
    ],
    LOADED,
);

/// The driver, suspended. Dropped, it resumes.
pub struct Suspended;

impl Suspended {
    const PATH: &'static str = "/proc/driver/nvidia/suspend";

    /// Suspends it by its own way.
    pub fn now() -> Result<Self> {
        // The driver itself keeps a lock from one system call to another.
        if Path::new("/proc/lockdep").exists() {
            return Err(Skip("the driver's own way to suspend upsets lockdep").into());
        }
        fs::write(Self::PATH, "suspend").context("suspend the driver")?;
        Ok(Self)
    }

    /// Has it resume.
    pub fn resume(self) {
        drop(self);
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        fs::write(Self::PATH, "resume").expect("the driver resumes");
    }
}

fn slice(runtime: &Runtime, tsg: Handle) -> Result<u64> {
    Ok(truth::tsg(runtime.client, tsg)?.slice_us)
}

fn classes_wait_for_the_driver() -> Outcome {
    let lab = Lab::open()?;
    let mut events = lab.zernel.events()?;
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    let listed = lab.tsg(&runtime, tsg)?;
    let bus = runtime.bus();
    let before = lab.stats()?;
    let log = Mark::new()?;
    let suspended = Suspended::now()?;
    lab.zernel.set_class(&Target::Tsg(listed.id), Level::BE)?;
    wait_until("the GPU counts as suspended", || {
        Ok(lab.gpu(&bus)?.suspended)
    })?;
    std::thread::sleep(Duration::from_secs(2));
    check_eq!(slice(&runtime, tsg)?, ORIGINAL_US, "while suspended");
    let pending = lab.gpu(&bus)?.pending;
    check_eq!(pending, 1);
    let during = lab.stats()?;
    let retries = during.retries - before.retries;
    ensure!((1..200).contains(&retries), "{retries} attempts in 2 s");
    check_eq!(during.errors - before.errors, 0);
    suspended.resume();
    wait_slice(&runtime, tsg, 200)?;
    wait_until("the GPU works again", || Ok(!lab.gpu(&bus)?.suspended))?;
    while let Some(event) = events.next_within(Some(Duration::from_millis(50)))? {
        ensure!(event.kind != Kind::TsgError, "{event:?}");
    }
    let said = log.lines()?;
    ensure!(said.len() < 20, "the kernel's log: {said:?}");
    Ok(())
}

/// The settings of the hardware after a resume are unknown: zernel sets them once more.
fn settings_are_applied_again() -> Outcome {
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let classed = runtime.compute()?;
    let plain = runtime.compute()?;
    let id = lab.class(&runtime, classed, Level::BE)?.id;
    wait_slice(&runtime, classed, 200)?;
    lab.quiet()?;
    let before = lab.tsg(&runtime, classed)?.applied;
    Suspended::now()?.resume();
    wait_until("the settings are applied again", || {
        Ok(lab.tsg(&runtime, classed)?.applied > before)
    })?;
    lab.quiet()?;
    check_eq!(slice(&runtime, classed)?, 200);
    check_eq!(slice(&runtime, plain)?, ORIGINAL_US);
    check_eq!(lab.tsg(&runtime, plain)?.applied, 0, "of an unclassed TSG");
    lab.zernel.clear_class(&Target::Tsg(id))?;
    wait_slice(&runtime, classed, ORIGINAL_US)
}

/// A runtime that goes while the driver is suspended is gone when it resumes.
fn file_closed_meanwhile() -> Outcome {
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    lab.class(&runtime, tsg, Level::BE)?;
    wait_slice(&runtime, tsg, 200)?;
    let suspended = Suspended::now()?;
    let closing = std::thread::spawn(move || drop(runtime));
    std::thread::sleep(Duration::from_millis(300));
    suspended.resume();
    closing.join().expect("a thread that does not panic");
    wait_until("it is gone", || Ok(lab.tsgs()?.is_empty()))?;
    lab::agree()
}

fn many_rounds() -> Outcome {
    let lab = Lab::open()?;
    let errors = lab.stats()?.errors;
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    for round in 0..30 {
        let level = if round % 2 == 0 { Level::BE } else { Level::LC };
        let id = lab.tsg(&runtime, tsg)?.id;
        let suspended = Suspended::now()?;
        lab.zernel.set_class(&Target::Tsg(id), level)?;
        std::thread::sleep(Duration::from_millis(round * 3 % 50));
        suspended.resume();
        let slice = if level == Level::BE { 200 } else { 5_000_000 };
        wait_slice(&runtime, tsg, slice).with_context(|| format!("round {round}"))?;
    }
    check_eq!(lab.stats()?.errors, errors);
    Ok(())
}

/// The kernel's own sleep, which suspends each GPU for itself.
fn machine_sleeps() -> Outcome {
    let lab = Lab::open()?;
    let errors = lab.stats()?.errors;
    let runtimes = [Runtime::open()?, Runtime::with(Spec::on(1))?];
    for level in [Level::BE, Level::LC] {
        power::sleep("devices")?;
        for runtime in &runtimes {
            let tsg = runtime.compute()?;
            lab.class(runtime, tsg, level)?;
            let slice = if level == Level::BE { 200 } else { 5_000_000 };
            wait_slice(runtime, tsg, slice)?;
        }
    }
    check_eq!(lab.stats()?.errors, errors);
    lab::agree()
}

/// A GPU that does not come back is out of reach; the others are not.
fn failed_resume() -> Outcome {
    let lab = Lab::open()?;
    let lost = Runtime::open()?;
    let well = Runtime::with(Spec::on(1))?;
    let (lost_tsg, well_tsg) = (lost.compute()?, well.compute()?);
    // Of the two GPUs, the one that is resumed first.
    set_faults("power:2 status=0x0f")?;
    power::sleep("devices")?;
    check_eq!(lab::faults()?, "");
    lab.class(&well, well_tsg, Level::BE)?;
    lab.class(&lost, lost_tsg, Level::BE)?;
    lab.quiet()?;
    let failed = |level: Level| -> Result<[bool; 2]> {
        let tsgs = [lab.tsg(&well, well_tsg)?, lab.tsg(&lost, lost_tsg)?];
        check_eq!(tsgs[1].level, Some(level));
        Ok(tsgs.map(|tsg| tsg.failed))
    };
    let first = failed(Level::BE)?;
    ensure!(first[0] != first[1], "failed: {first:?}");
    let slices = [slice(&well, well_tsg)?, slice(&lost, lost_tsg)?];
    ensure!(
        slices.contains(&200) && slices.contains(&ORIGINAL_US),
        "slices {slices:?}"
    );
    // The driver tries no second time, until it is bound anew.
    power::sleep("devices")?;
    let id = lab.tsg(&lost, lost_tsg)?.id;
    lab.zernel.set_class(&Target::Tsg(id), Level::LC)?;
    lab.quiet()?;
    check_eq!(failed(Level::LC)?[1], first[1], "failed");
    drop((lost, well, lab));
    unload_each(&lab::ALL)?;
    lab::load_driver()?;
    lab::load_zernel()?;
    let (lab, again) = (Lab::open()?, Runtime::open()?);
    let tsg = again.compute()?;
    lab.class(&again, tsg, Level::BE)?;
    wait_slice(&again, tsg, 200)
}
