// SPDX-License-Identifier: MIT OR Apache-2.0
//! Controls of the TSGs of this process, through the driver's own file.

use std::time::Instant;

use anyhow::{ensure, Result};
use nvrm::abi::{control, engine, Preempt};

use crate::gpu::{us, Gpu};
use crate::report::Findings;
use crate::software;
use crate::sys::control::{seen, Seen};

fn compute() -> Vec<Seen> {
    let mut all = seen();
    all.retain(|tsg| tsg.engine == engine::GR0);
    all
}

/// Sets the time slice of all TSGs of compute of this process, in microseconds, through the file of
/// the driver library. Those of contexts that are gone take none.
pub fn set_own(us: u64) -> Result<()> {
    let done = match compute() {
        own if own.is_empty() => software::set_slices(u32::try_from(us)?)?,
        own => own.iter().filter(|tsg| set(tsg, us).is_ok()).count(),
    };
    ensure!(done > 0, "no TSG of this process takes a time slice");
    Ok(())
}

/// Sets the interleave level of all TSGs of compute of this process, from 0 to 2: takes privilege.
/// Those of contexts that are gone take none.
pub fn set_own_level(level: u32) -> Result<()> {
    let set = |tsg: &Seen| tsg.control(control::SET_INTERLEAVE, &mut { level }).is_ok();
    let done = compute().iter().filter(|tsg| set(tsg)).count();
    ensure!(done > 0, "no TSG of this process takes an interleave level");
    Ok(())
}

fn set(tsg: &Seen, mut us: u64) -> Result<(), u32> {
    tsg.control(control::SET_TIMESLICE, &mut us)
}

fn get(tsg: &Seen) -> Result<u64, u32> {
    let mut us = 0u64;
    tsg.control(control::GET_TIMESLICE, &mut us).map(|()| us)
}

fn told<T: std::fmt::Display>(result: Result<T, u32>) -> String {
    match result {
        Ok(value) => value.to_string(),
        Err(status) => format!("status {status:#x}"),
    }
}

/// The software GPU: its file sets time slices, and tells them.
fn of_software() -> Result<Findings> {
    let mut findings = Findings::default();
    for us in [50, 200, 1000] {
        set_own(us)?;
        let found = software::slices()?;
        findings.value(
            &format!("time slices, set to {us} us"),
            format!("{found:?}"),
        );
        let is_set = !found.is_empty() && found.iter().all(|&slice| u64::from(slice) == us);
        findings.expect(
            format!("a time slice of {us} us is taken and read back"),
            is_set,
        );
    }
    Ok(findings)
}

pub fn run(gpu: &Gpu) -> Result<Findings> {
    let mut findings = Findings::default();
    if gpu.is_software()? {
        return of_software();
    }
    // The newest is that of this program's context; others may have ended.
    let Some(tsg) = compute().pop() else {
        return Ok(Findings::absent(
            "the driver library made no TSG by ioctl() of the C library",
        ));
    };
    let _entered = gpu.enter()?;
    let usual = get(&tsg);
    findings.value("time slice at the start, us", told(usual));
    for us in [1, 50, 200, 1000, 5000, 1_000_000] {
        let done = set(&tsg, us).map(|()| "taken");
        findings.value(&format!("time slice of {us} us"), told(done));
        if done.is_ok() {
            findings.value("  as it is read", told(get(&tsg)));
        }
    }
    findings.expect("a time slice of 200 us is taken and read back", {
        set(&tsg, 200).is_ok() && get(&tsg) == Ok(200)
    });
    let mut times = Vec::new();
    for _ in 0..gpu.options.rounds(200) {
        let begin = Instant::now();
        if set(&tsg, 200).is_ok() {
            times.push(us(begin, Instant::now()));
        }
    }
    findings.figure("a control of the time slice, us", times);
    let mut level = 2u32;
    let level = tsg
        .control(control::SET_INTERLEAVE, &mut level)
        .map(|()| "taken");
    findings.value("interleave level 2 for oneself", told(level));
    let mut preempt = Preempt {
        wait: 1,
        manual: 1,
        timeout_us: 100_000,
        ..Preempt::default()
    };
    let mut times = Vec::new();
    let mut last = Ok("taken");
    for _ in 0..gpu.options.rounds(200) {
        let begin = Instant::now();
        last = tsg
            .control(control::PREEMPT, &mut preempt)
            .map(|()| "taken");
        if last.is_ok() {
            times.push(us(begin, Instant::now()));
        }
    }
    findings.value("a preemption of oneself", told(last));
    findings.figure("a preemption, alone, us", times);
    if let Ok(usual) = usual {
        let is_back = set(&tsg, usual).is_ok() && get(&tsg) == Ok(usual);
        findings.expect("the time slice is as it was", is_back);
    }
    Ok(findings)
}
