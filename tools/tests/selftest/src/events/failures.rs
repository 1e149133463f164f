// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reactions of zernel to a provider that says "not now", "never" or "gone", and to TSGs and owners
//! that go away while it is called.

use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use libzernel::event::Kind;
use libzernel::sim::Operation::SetTimeslice;
use libzernel::sim::{Context, ContextSpec};
use libzernel::{Gpu, Level, Target, Zernel};
use rustix::io::Errno;
use testkit::passing;

use super::{classify, known, Broken, Reader, BE_US, DEFAULT_US, LC_US, SLOW};
use crate::check_eq;
use crate::child::Child;
use crate::common::{errno, tune, wait_until, Lab};
use crate::harness::Outcome;

fn first_gpu(lab: &Lab) -> Result<Gpu> {
    Ok(lab.zernel.gpus().next().context("no GPU")??)
}

/// `EAGAIN`: called again until it is done; each answer counted, the GPU marked meanwhile.
pub(super) fn not_now_is_retried() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = known(&lab)?;
    let (before, gpu) = (lab.stats()?, first_gpu(&lab)?);
    let mut reader = Reader::new(&lab)?;
    let base = lab.sim.injected(0, SetTimeslice)?;
    let broken = Broken::new(&lab.sim, SetTimeslice, None, Errno::AGAIN)?;
    classify(&lab, &tsg, Level::BE)?;
    broken.wait_hits(4)?;
    wait_until("the GPU is marked", || Ok(first_gpu(&lab)?.retrying))?;
    let waiting = lab.tsg(tsg.id)?;
    check_eq!((waiting.applied, waiting.failed), (0, false));
    check_eq!(context.stats()?.timeslice_us, DEFAULT_US);
    drop(broken);
    lab.wait_slice(&context, BE_US)?;
    wait_until("the mark is gone", || Ok(!first_gpu(&lab)?.retrying))?;
    let hits = lab.sim.injected(0, SetTimeslice)? - base;
    let after = first_gpu(&lab)?;
    check_eq!(after.retries - gpu.retries, hits, "answers of the GPU");
    check_eq!(lab.stats()?.retries - before.retries, hits, "answers");
    let done = (after.errors - gpu.errors, after.applied - gpu.applied);
    check_eq!(done, (0, 1), "errors, settings");
    reader.expect(Kind::TsgClass)?;
    reader.expect(Kind::TsgApplied)?;
    check_eq!(reader.drain()?.len(), 0, "more events");
    Ok(())
}

/// Any other error: told, counted, not repeated, tried again with the next request.
pub(super) fn hard_errors_are_told_once() -> Outcome {
    for error in [Errno::IO, Errno::INVAL, Errno::TIMEDOUT, Errno::NODEV] {
        let lab = Lab::open()?;
        let (context, tsg) = known(&lab)?;
        let (other, other_tsg) = known(&lab)?;
        let before = lab.stats()?.errors;
        let mut reader = Reader::new(&lab)?;
        let broken = Broken::new(&lab.sim, SetTimeslice, Some(&context), error)?;
        // The same request once more changes no class, but is one more attempt.
        for (attempts, kinds) in [
            (1, &[Kind::TsgClass, Kind::TsgError][..]),
            (2, &[Kind::TsgError]),
        ] {
            classify(&lab, &tsg, Level::LC)?;
            for &kind in kinds {
                let event = reader.expect(kind)?;
                let failed = kind == Kind::TsgError;
                let expected = if failed { -error.raw_os_error() } else { 0 };
                check_eq!((event.tsg, event.error), (tsg.id, expected));
                check_eq!(event.timeslice_us, DEFAULT_US);
            }
            let failed = lab.tsg(tsg.id)?;
            check_eq!((failed.failed, failed.pending), (true, false));
            check_eq!((failed.errors, failed.applied), (attempts, 0));
        }
        // Long enough for a worker that would call again to do so.
        std::thread::sleep(Duration::from_millis(100));
        check_eq!(broken.hits()?, 2, "calls");
        check_eq!(lab.stats()?.errors - before, 2, "errors counted");
        // The others are served all the same.
        classify(&lab, &other_tsg, Level::BE)?;
        lab.wait_slice(&other, BE_US)?;
        drop(broken);
        classify(&lab, &tsg, Level::BE)?;
        lab.wait_slice(&context, BE_US)?;
        wait_until("zernel knows that it is applied", || {
            let tsg = lab.tsg(tsg.id)?;
            Ok(tsg.applied == 1 && !tsg.failed)
        })?;
    }
    Ok(())
}

/// `ENOENT`: zernel drops the TSG, which is its owner's from then on.
pub(super) fn gone_tsg_is_dropped() -> Outcome {
    let lab = Lab::open()?;
    let (context, tsg) = known(&lab)?;
    let (other, _) = known(&lab)?;
    let before = lab.stats()?;
    let mut reader = Reader::new(&lab)?;
    let broken = Broken::new(&lab.sim, SetTimeslice, Some(&context), Errno::NOENT)?;
    classify(&lab, &tsg, Level::BE)?;
    reader.expect(Kind::TsgClass)?;
    check_eq!(reader.expect(Kind::TsgRemoved)?.tsg, tsg.id);
    let unknown = lab.zernel.set_class(&Target::Tsg(tsg.id), Level::LC);
    check_eq!(errno(unknown), Some(Errno::NOENT), "its id");
    // A class of its process does not reach it.
    let me = Target::CurrentProcess;
    lab.zernel.set_class(&me, Level::BE)?;
    lab.wait_slice(&other, BE_US)?;
    check_eq!(broken.hits()?, 1, "calls");
    lab.zernel.clear_class(&me)?;
    for policy in ["deny", "reapply", "allow"] {
        tune("user_control", policy)?;
        context.set_timeslice(9_000)?;
        check_eq!(context.stats()?.timeslice_us, 9_000, "{policy}");
    }
    // Its end is no news.
    drop(context);
    let after = lab.stats()?;
    check_eq!(after.tsgs_dead - before.tsgs_dead, 1, "TSGs found dead");
    check_eq!(after.tsgs_removed - before.tsgs_removed, 1, "removed");
    check_eq!(
        (after.errors, after.retries),
        (before.errors, before.retries)
    );
    check_eq!((after.tsgs, after.classes), (1, 0));
    Ok(())
}

/// A context whose first change of slice takes [`SLOW`] and is under way.
fn in_call(lab: &Lab) -> Result<(Context, Broken<'_>)> {
    let (context, tsg) = known(lab)?;
    let slow = Broken::slow(&lab.sim, &context)?;
    classify(lab, &tsg, Level::BE)?;
    slow.wait_hits(1)?;
    Ok((context, slow))
}

/// After all that, the worker serves the next TSG.
fn still_serves(lab: &Lab) -> Outcome {
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

pub(super) fn killed_during_a_call() -> Outcome {
    let lab = Lab::open()?;
    let injected = || lab.sim.injected(0, SetTimeslice);
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
    child.end()?;
    let left = (lab.stats()?.tsgs, lab.sim.gpu_info(0)?.tsgs);
    check_eq!(left, (0, 0), "TSGs");
    still_serves(&lab)
}

/// The class of a process ends with it; a TSG that another process keeps gets its slice back.
pub(super) fn restored_when_the_owner_ends() -> Outcome {
    let lab = Lab::open()?;
    let (ours, its) = passing::pair()?;
    let child = Child::spawn(|| {
        Zernel::open()?.set_class(&Target::current_process(), Level::LC)?;
        // In the file that the parent keeps open.
        let context = lab.sim.create_context(&ContextSpec::compute("owner"))?;
        lab.wait_slice(&context, LC_US)?;
        passing::send_number(&its, context.tsg())?;
        loop {
            std::thread::sleep(SLOW);
        }
    })?;
    let tsg = passing::receive_number(&ours)?;
    check_eq!(lab.sim.tsg_stats(tsg)?.timeslice_us, LC_US);
    child.kill()?;
    child.end()?;
    wait_until("the slice is given back", || {
        Ok(lab.sim.tsg_stats(tsg)?.timeslice_us == DEFAULT_US)
    })?;
    let after = lab.stats()?;
    check_eq!((after.tsgs, after.classes), (1, 0), "TSGs, assignments");
    Ok(())
}
