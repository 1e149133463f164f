// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classes of a runtime's TSGs, and the time slices that the resource manager then holds.

use std::time::Duration;

use anyhow::{bail, ensure, Context as _, Result};
use libzernel::event::Kind;
use libzernel::{Level, Source, Target};
use testkit::check_eq;
use testkit::child::{Child, End};
use testkit::harness::{case, Outcome, Suite};
use testkit::passing;

use crate::lab::{wait_slice, Lab, LOADED, ORIGINAL_LEVEL, ORIGINAL_US};
use crate::rm::abi::engine;
use crate::rm::{truth, Handle, Runtime, Spec};

/// The suite.
pub const SUITE: Suite = Suite::new(
    "simrm.class",
    &[
        case("best_effort_and_back", best_effort_and_back),
        case("latency_critical_and_back", latency_critical_and_back),
        case("every_level", every_level),
        case("owner_s_own_slice_comes_back", owner_s_own_slice_comes_back),
        case(
            "process_class_reaches_later_tsgs",
            process_class_reaches_later_tsgs,
        ),
        case("one_pass_for_many", one_pass_for_many),
        case("copies_have_short_slices", copies_have_short_slices),
        case("class_ends_with_the_process", class_ends_with_the_process),
        case("tunables_reach_the_driver", tunables_reach_the_driver),
        case("alias_holds_the_class", alias_holds_the_class),
    ],
    LOADED,
);

/// Time slice of best-effort work in microseconds.
const BE_US: u64 = 200;
/// Time slice of latency-critical work in microseconds.
const LC_US: u64 = 5_000_000;

/// The time slice and interleave level in the resource manager.
fn held(runtime: &Runtime, tsg: Handle) -> Result<(u64, u32)> {
    let held = truth::tsg(runtime.client, tsg)?;
    Ok((held.slice_us, held.interleave))
}

fn there_and_back(level: Level, slice_us: u64, interleave: u32) -> Outcome {
    let lab = Lab::open()?;
    let mut events = lab.zernel.events()?;
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    runtime.channel(tsg)?;
    check_eq!(
        held(&runtime, tsg)?,
        (ORIGINAL_US, ORIGINAL_LEVEL),
        "before"
    );
    let listed = lab.class(&runtime, tsg, level)?;
    lab.quiet()?;
    check_eq!(held(&runtime, tsg)?, (slice_us, interleave), "classed");
    check_eq!(runtime.timeslice(tsg)?, slice_us, "what its owner is told");
    let now = lab.tsg(&runtime, tsg)?;
    check_eq!(now.level, Some(level));
    check_eq!(now.source, Source::Tsg);
    check_eq!(u64::from(now.timeslice_us), slice_us);
    check_eq!(u64::from(now.default_timeslice_us), ORIGINAL_US);
    check_eq!((now.pending, now.failed), (false, false));
    lab.zernel.clear_class(&Target::Tsg(listed.id))?;
    lab.quiet()?;
    check_eq!(
        held(&runtime, tsg)?,
        (ORIGINAL_US, ORIGINAL_LEVEL),
        "cleared"
    );
    // Nothing was done twice: the worker came once for the class and once for its end.
    let mut applied = Vec::new();
    while let Some(event) = events.next_within(Some(Duration::from_millis(50)))? {
        match event.kind {
            Kind::TsgApplied => applied.push(u64::from(event.timeslice_us)),
            Kind::TsgError => bail!("the provider failed: {event:?}"),
            _ => {}
        }
    }
    check_eq!(applied, [slice_us, ORIGINAL_US], "slices applied");
    Ok(())
}

fn best_effort_and_back() -> Outcome {
    there_and_back(Level::BE, BE_US, 0)
}

fn latency_critical_and_back() -> Outcome {
    there_and_back(Level::LC, LC_US, 2)
}

fn every_level() -> Outcome {
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    let slices = [5_000_000, 50_000, 20_000, 10_000, 5_000, 2_000, 1_024, 200];
    let mut last = 3;
    for (level, slice_us) in Level::all().zip(slices) {
        lab.class(&runtime, tsg, level)?;
        lab.quiet()?;
        let (slice, interleave) = held(&runtime, tsg)?;
        check_eq!(slice, slice_us, "level {level}");
        ensure!(
            interleave <= last,
            "level {level} interleaves more than the one above"
        );
        last = interleave;
    }
    Ok(())
}

fn owner_s_own_slice_comes_back() -> Outcome {
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    runtime.set_timeslice(tsg, 3_000)?;
    let listed = lab.class(&runtime, tsg, Level::BE)?;
    wait_slice(&runtime, tsg, BE_US)?;
    lab.zernel.clear_class(&Target::Tsg(listed.id))?;
    wait_slice(&runtime, tsg, 3_000)?;
    check_eq!(lab.tsg(&runtime, tsg)?.default_timeslice_us, 3_000);
    Ok(())
}

fn process_class_reaches_later_tsgs() -> Outcome {
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let before = runtime.compute()?;
    lab.zernel
        .set_class(&Target::current_process(), Level::BE)?;
    let after = runtime.compute()?;
    wait_slice(&runtime, before, BE_US)?;
    wait_slice(&runtime, after, BE_US)?;
    lab.zernel.clear_class(&Target::current_process())?;
    wait_slice(&runtime, before, ORIGINAL_US)?;
    wait_slice(&runtime, after, ORIGINAL_US)
}

fn one_pass_for_many() -> Outcome {
    const MANY: usize = 200;
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    for _ in 0..MANY {
        runtime.compute()?;
    }
    lab.quiet()?;
    for (level, slice_us) in [(Level::BE, BE_US), (Level::LC, LC_US)] {
        let before = lab.stats()?;
        lab.zernel.set_class(&Target::current_process(), level)?;
        lab.quiet()?;
        let held = truth::tsgs()?;
        check_eq!(held.len(), MANY);
        for tsg in held {
            check_eq!(tsg.slice_us, slice_us, "{:?}", tsg.handles);
        }
        let after = lab.stats()?;
        check_eq!(
            after.applied - before.applied,
            MANY as u64,
            "settings taken"
        );
        check_eq!(after.retries - before.retries, 0, "retries");
        check_eq!(after.errors - before.errors, 0, "errors");
    }
    Ok(())
}

fn copies_have_short_slices() -> Outcome {
    let lab = Lab::open()?;
    let runtime = Runtime::with(Spec::on(1))?;
    let copy = runtime.tsg(engine::COPY0)?;
    let decoder = runtime.tsg(engine::COPY0 + 20)?;
    let compute = runtime.compute()?;
    lab.zernel
        .set_class(&Target::current_process(), Level::BE)?;
    wait_slice(&runtime, compute, BE_US)?;
    wait_slice(&runtime, copy, 10)?;
    check_eq!(lab.tsg(&runtime, copy)?.level, Some(Level::BE));
    crate::lab::tune("copy_timeslice_us", "0")?;
    wait_slice(&runtime, copy, ORIGINAL_US)?;
    lab.quiet()?;
    for other in [copy, decoder] {
        check_eq!(held(&runtime, other)?, (ORIGINAL_US, ORIGINAL_LEVEL));
        check_eq!(lab.tsg(&runtime, other)?.level, None);
    }
    // One that is named itself is classed.
    lab.class(&runtime, copy, Level::BE)?;
    wait_slice(&runtime, copy, BE_US)
}

/// A process that is classed shares its files with this one: its TSGs live on without a class.
fn class_ends_with_the_process() -> Outcome {
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let (ours, its) = passing::pair()?;
    let child = Child::spawn(|| {
        let tsg = runtime.compute()?;
        Lab::open()?
            .zernel
            .set_class(&Target::current_process(), Level::BE)?;
        wait_slice(&runtime, tsg, BE_US)?;
        passing::send_number(&its, u64::from(tsg.0))?;
        std::thread::sleep(Duration::from_secs(60));
        Ok(())
    })?;
    let tsg = Handle(u32::try_from(passing::receive_number(&ours)?)?);
    check_eq!(held(&runtime, tsg)?.0, BE_US, "while it lives");
    let found = lab.tsg(&runtime, tsg)?;
    check_eq!(found.pid, child.pid(), "owner");
    child.kill()?;
    check_eq!(child.end()?, End::Signal(9));
    wait_slice(&runtime, tsg, ORIGINAL_US)?;
    let found = lab.tsg(&runtime, tsg).context("it lives on")?;
    check_eq!((found.level, found.pid), (None, 0));
    Ok(())
}

fn tunables_reach_the_driver() -> Outcome {
    let lab = Lab::open()?;
    let runtime = Runtime::open()?;
    let tsg = runtime.compute()?;
    lab.class(&runtime, tsg, Level::BE)?;
    wait_slice(&runtime, tsg, BE_US)?;
    crate::lab::tune("level7_timeslice_us", "300")?;
    let reached = wait_slice(&runtime, tsg, 300);
    crate::lab::tune("level7_timeslice_us", "200")?;
    reached?;
    crate::lab::tune("enabled", "0")?;
    let off = wait_slice(&runtime, tsg, ORIGINAL_US);
    crate::lab::tune("enabled", "1")?;
    off?;
    wait_slice(&runtime, tsg, BE_US)
}

/// The TSG that a class is on lives on under its second handle, and so does the class.
fn alias_holds_the_class() -> Outcome {
    let lab = Lab::open()?;
    let first = Runtime::open()?;
    let second = Runtime::open()?;
    let tsg = first.compute()?;
    first.channel(tsg)?;
    let listed = lab.class(&first, tsg, Level::BE)?;
    wait_slice(&first, tsg, BE_US)?;
    let none = Handle::NONE;
    let alias = second
        .file
        .dup(second.client, second.device, none, first.client, tsg)?;
    check_eq!(lab.tsgs()?.len(), 1, "one TSG with two handles");
    drop(first);
    testkit::wait_until("the first client is gone", || {
        Ok(truth::tsg(second.client, alias)?.handles.len() == 1)
    })?;
    let now = lab.tsg(&second, alias)?;
    check_eq!(
        (now.id, now.level, now.channels),
        (listed.id, Some(Level::BE), 0)
    );
    lab.zernel.set_class(&Target::Tsg(now.id), Level::LC)?;
    wait_slice(&second, alias, LC_US)?;
    second.free(alias)?;
    check_eq!(lab.tsgs()?, []);
    crate::lab::agree()
}
