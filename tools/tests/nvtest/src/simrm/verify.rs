// SPDX-License-Identifier: MIT OR Apache-2.0
//! `zernelctl gpu verify` on NVIDIA's driver over simrm: registers, records, and faults in both.

use std::path::Path;

use anyhow::{ensure, Result};
use libzernel::sim::Sim;
use libzernel::tunable::Tunables;
use libzernel::Zernel;
use rustix::process::Signal;
use testkit::harness::{case, Outcome, Suite};
use testkit::verify::{expect, expect_whole, tunables, Report};
use testkit::zernelctl::Running;
use testkit::{check_eq, wait_until};
use zernel_verify::report::Verdict;
use zernel_verify::settings::Settings;
use zernel_verify::work::software::Software;

use super::records::RECORDS;
use crate::lab::{set_faults, GPUS, TURNS};
use crate::rm::truth::Counts;

/// The suite.
pub const SUITE: Suite = Suite::new(
    "simrm.verify",
    &[
        case("runs_whole", runs_whole),
        case("signals_put_tunables_back", signals_put_tunables_back),
    ],
    RECORDS,
);

/// Without records of context switches.
pub const WITHOUT: Suite = Suite::new(
    "simrm.verify.without_records",
    &[
        case("records_are_not_here", records_are_not_here),
        case("a_failed_disable_is_found", a_failed_disable_is_found),
        case("a_refused_restart_is_found", a_refused_restart_is_found),
        case("false_registers_are_found", false_registers_are_found),
        case("a_lost_doorbell_is_found", a_lost_doorbell_is_found),
    ],
    TURNS,
);

fn runs_whole() -> Outcome {
    let before = tunables()?;
    let whole = Report::of(&[])?;
    check_eq!(tunables()?, before, "the tunables");
    check_eq!(*whole.value("/hardware")?, false);
    check_eq!(*whole.value("/gpu/provider")?, "nvidia");
    let work = whole.value("/work")?.as_str().unwrap_or_default();
    ensure!(work.starts_with("simrm: "), "{work}");
    expect_whole(&whole, &[])?;
    // Each is told where the others are, too.
    let report = expect(&[("registers", "ok"), ("records", "ok"), ("clock", "ok")])?;
    for (check, figure) in [
        ("registers", "read"),
        ("registers", "look_at_a_tsg"),
        ("records", "read_with_flush"),
        ("records", "driver_call_beside_reads"),
        ("records", "save"),
        ("clock", "records_apart_from_work"),
    ] {
        let found = report.figure(check, figure)?;
        ensure!(found.is_some(), "{check} has no {figure}");
    }
    Ok(())
}

fn signals_put_tunables_back() -> Outcome {
    let before = tunables()?;
    for signal in [Signal::INT, Signal::TERM] {
        let running = Running::start(&["gpu", "verify", "--only", "disable"])?;
        let excludes =
            || -> Result<bool> { Ok(Tunables::open()?.get("no_holder")?.value == "exclude") };
        wait_until("it changes tunables", excludes)?;
        running.signal(signal)?;
        let (code, text) = running.end()?;
        check_eq!(code, None, "{signal:?}");
        ensure!(text.contains("interrupted"), "{signal:?}: {text}");
        check_eq!(tunables()?, before, "the tunables after {signal:?}");
    }
    Ok(())
}

fn records_are_not_here() -> Outcome {
    let report = expect(&[("records", "not here"), ("clock", "ok")])?;
    let (_, why) = report.verdict("records")?;
    ensure!(why.contains("with records=1"), "{why}");
    check_eq!(report.figure("clock", "records_apart_from_work")?, None);
    check_eq!(report.code, Some(0));
    Ok(())
}

fn a_failed_disable_is_found() -> Outcome {
    let before = tunables()?;
    set_faults("control:0x2080110b status=0x40 kernel forever")?;
    let report = expect(&[("preempt", "outside"), ("disable", "outside")])?;
    let (_, why) = report.verdict("disable")?;
    ensure!(why.contains("off_at_the_trigger"), "{why}");
    check_eq!(report.code, Some(1));
    set_faults("none")?;
    check_eq!(tunables()?, before, "the tunables");
    expect(&[("disable", "ok")]).map(drop)
}

fn a_refused_restart_is_found() -> Outcome {
    // The driver does not have it for the kernel: others are kept off from then on.
    set_faults("control:0xa06f0111 status=0x1b kernel forever")?;
    let report = expect(&[("restart", "outside")])?;
    let (_, why) = report.verdict("restart")?;
    ensure!(why.contains("still_taken_at_the_end"), "{why}");
    set_faults("none")
}

/// Registers that may not be read, and such that are not there.
fn false_registers_are_found() -> Outcome {
    let sim = Sim::open()?;
    for value in [0xbadf_5040, u32::MAX] {
        for gpu in 0..GPUS {
            sim.lie(gpu, Some(value))?;
        }
        let report = expect(&[("registers", "outside"), ("engine", "failed")])?;
        check_eq!(report.figure("registers", "told")?, Some(0.0));
        let (_, why) = report.verdict("engine")?;
        ensure!(why.contains("load is not told"), "{why}");
        for gpu in 0..GPUS {
            sim.lie(gpu, None)?;
        }
        // They are read again when the GPU is started again.
        wait_until("the GPU is stopped", || {
            Ok(Counts::of_rm()?.get("started_gpus")? == 0)
        })?;
    }
    expect(&[("registers", "ok"), ("engine", "ok")]).map(drop)
}

/// Work that registers do not show while its TSG is disabled.
fn a_lost_doorbell_is_found() -> Outcome {
    let device = Path::new(Zernel::PATH);
    let gpu = zernel_verify::find_gpu(&Zernel::open()?, None)?;
    let settings = Settings::new(Tunables::open()?);
    let checks: Vec<_> = zernel_verify::named("doorbell").into_iter().collect();
    for is_lost in [false, true] {
        let work = Software::open(Zernel::open()?, &gpu)?;
        if is_lost {
            work.lose_doorbells();
        }
        let report = zernel_verify::run(device, &gpu, &work, &settings, &checks, |_, _| {})?;
        let outcome = &report.checks[0];
        let expected = if is_lost {
            Verdict::Outside
        } else {
            Verdict::Ok
        };
        check_eq!(outcome.verdict, expected, "{outcome:?}");
        let told = outcome.reason.as_deref();
        check_eq!(told, is_lost.then_some("pending_in_the_register"));
    }
    Ok(())
}
