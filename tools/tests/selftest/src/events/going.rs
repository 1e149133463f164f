// SPDX-License-Identifier: GPL-2.0
//! TSGs that go away while the provider is called for them, and slices that are given back.

use std::time::{Duration, Instant};

use anyhow::{ensure, Result};
use libzernel::sim::{Context, ContextSpec, EngineChoice, Operation, Sim};
use libzernel::{Level, Target, Zernel};

use super::{classify, clear, known, Broken, BE_US, DEFAULT_US, LC_US};
use crate::check_eq;
use crate::child::Child;
use crate::common::{slice_of, tune, wait_until, Lab, SOON};
use crate::harness::Outcome;

/// The time of the slow call.
const SLOW: Duration = Duration::from_secs(5);

/// A context whose first change of slice takes [`SLOW`] and is under way.
fn in_call(lab: &Lab) -> Result<(Context, Broken<'_>)> {
    let (context, tsg) = known(lab)?;
    let slow = Broken::slow(&lab.sim, &context, SLOW)?;
    classify(lab, &tsg, Level::BE)?;
    slow.wait_hits(1)?;
    Ok((context, slow))
}

/// After all that, the worker serves the next TSG.
fn still_serves(lab: &Lab) -> Result<()> {
    let (context, tsg) = known(lab)?;
    classify(lab, &tsg, Level::BE)?;
    lab.wait_slice(&context, BE_US)?;
    check_eq!(lab.stats()?.tsgs, 1, "TSGs");
    Ok(())
}

pub(super) fn destroyed_during_a_call() -> Outcome {
    let lab = Lab::open()?;
    let (context, _slow) = in_call(&lab)?;
    let began = Instant::now();
    context.destroy()?;
    check_eq!(lab.stats()?.tsgs, 0, "TSGs");
    // The call is not waited for.
    let took = began.elapsed();
    ensure!(took < testkit::at_once(SLOW), "destroying took {took:?}");
    still_serves(&lab)
}

pub(super) fn closed_during_a_call() -> Outcome {
    let lab = Lab::open()?;
    let other = Lab::open()?;
    let (context, slow) = in_call(&other)?;
    drop(slow);
    drop((context, other));
    check_eq!(lab.stats()?.tsgs, 0, "TSGs");
    still_serves(&lab)
}

pub(super) fn killed_during_a_call() -> Outcome {
    let lab = Lab::open()?;
    let injected = || lab.sim.injected(0, Operation::SetTimeslice);
    let base = injected()?;
    let child = Child::spawn(|| {
        let lab = Lab::open()?;
        let _call = in_call(&lab)?;
        loop {
            std::thread::sleep(SLOW);
        }
    })?;
    wait_until("the call is under way", || Ok(injected()? > base))?;
    child.kill()?;
    child.wait_ended(SOON)?;
    check_eq!(
        (lab.stats()?.tsgs, lab.sim.gpu_info(0)?.tsgs),
        (0, 0),
        "TSGs"
    );
    still_serves(&lab)
}

/// The slice that the slow call sets is taken back right after it.
pub(super) fn cleared_during_a_call() -> Outcome {
    let lab = Lab::open()?;
    let (context, _slow) = in_call(&lab)?;
    let mut tsgs = lab.zernel.tsgs();
    let Some(tsg) = tsgs.next().transpose()? else {
        anyhow::bail!("no TSG");
    };
    clear(&lab, &tsg)?;
    check_eq!(
        context.stats()?.slice_changes,
        0,
        "changes before the call has ended"
    );
    wait_until("both calls are made", || {
        Ok(context.stats()?.slice_changes == 2)
    })?;
    check_eq!(context.stats()?.timeslice_us, DEFAULT_US);
    wait_until("zernel knows", || {
        Ok(lab.tsg(tsg.id)?.timeslice_us == DEFAULT_US)
    })
}

/// Level by level and back, on all kinds of TSGs, also one that was never changed.
pub(super) fn restored_when_cleared() -> Outcome {
    let lab = Lab::open()?;
    let (untouched, _) = known(&lab)?;
    for spec in [
        ContextSpec::compute("clear"),
        ContextSpec {
            gpu: 1,
            ..ContextSpec::compute("clear")
        },
        ContextSpec {
            engine: EngineChoice::AnyCopy,
            ..ContextSpec::compute("clear")
        },
    ] {
        let (context, tsg) = lab.context(&spec)?;
        for level in Level::all() {
            lab.zernel.set_class(&Target::Tsg(tsg.id), level)?;
            lab.wait_slice(&context, slice_of(level.number()))?;
            clear(&lab, &tsg)?;
            wait_until("all is given back", || {
                let stats = context.stats()?;
                Ok((stats.timeslice_us, stats.interleave) == (DEFAULT_US, 0))
            })?;
        }
    }
    check_eq!(
        untouched.stats()?.slice_changes,
        0,
        "changes of a TSG without a class"
    );
    Ok(())
}

/// The class of a process ends with it; a TSG that another process keeps gets its slice back.
pub(super) fn restored_when_the_owner_ends() -> Outcome {
    let lab = Lab::open()?;
    let sim = Sim::open()?;
    let child = Child::spawn(|| {
        let zernel = Zernel::open()?;
        zernel.set_class(&Target::current_process(), Level::LC)?;
        // In the file that the parent keeps open.
        let context = sim.create_context(&ContextSpec::compute("owner"))?;
        wait_until("it is applied", || {
            Ok(context.stats()?.timeslice_us == LC_US)
        })?;
        std::mem::forget(context);
        loop {
            std::thread::sleep(SLOW);
        }
    })?;
    let handle = || -> Result<Option<u64>> {
        let state = std::fs::read_to_string("/sys/kernel/debug/zernel/state")?;
        let line = state
            .lines()
            .find(|line| line.contains(" timeslice_us 5000000 default_us"));
        let handle = line.and_then(|line| line.split(" handle ").nth(1)?.split(' ').next());
        Ok(handle.map(str::parse).transpose()?)
    };
    wait_until("the child has its slice", || {
        Ok(handle()?.is_some_and(|tsg| {
            lab.sim
                .tsg_stats(tsg)
                .is_ok_and(|stats| stats.timeslice_us == LC_US)
        }))
    })?;
    let Some(tsg) = handle()? else {
        anyhow::bail!("no handle");
    };
    child.kill()?;
    child.wait_ended(SOON)?;
    drop(child);
    wait_until("the slice is given back", || {
        Ok(lab.sim.tsg_stats(tsg)?.timeslice_us == DEFAULT_US)
    })?;
    check_eq!(
        (lab.stats()?.tsgs, lab.stats()?.classes),
        (1, 0),
        "TSGs, assignments"
    );
    drop(sim);
    Ok(())
}

pub(super) fn restored_when_switched_off() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = known(&lab)?;
    let (other, _) = known(&lab)?;
    classify(&lab, &tsg, Level::BE)?;
    lab.zernel
        .set_class(&Target::current_process(), Level::LC)?;
    for _ in 0..3 {
        lab.wait_slice(&context, BE_US)?;
        lab.wait_slice(&other, LC_US)?;
        tune("enabled", 0)?;
        lab.wait_slice(&context, DEFAULT_US)?;
        lab.wait_slice(&other, DEFAULT_US)?;
        // Classes can still be given; they have no effect yet.
        classify(&lab, &tsg, Level::LC)?;
        classify(&lab, &tsg, Level::BE)?;
        check_eq!(
            context.stats()?.timeslice_us,
            DEFAULT_US,
            "while switched off"
        );
        tune("enabled", 1)?;
    }
    Ok(())
}
