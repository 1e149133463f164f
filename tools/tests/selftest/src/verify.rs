// SPDX-License-Identifier: MIT OR Apache-2.0
//! `zernelctl gpu verify` on the software GPU: verdicts, faults, and tunables that are put back.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{ensure, Result};
use libzernel::sim::{ContextSpec, Fault, Operation, Sim};
use libzernel::tunable::Tunables;
use rustix::io::Errno;
use rustix::process::Signal;
use testkit::verify::{expect, expect_whole, tunables, Report, CHECKS};

use crate::check_eq;
use crate::child::in_child;
use crate::common::{tunable_path, wait_until};
use crate::harness::{case, suite, Outcome, Suite};
use crate::sys;
use crate::zernelctl::{outcome, refused, says, Running};

/// The suite.
pub const SUITE: Suite = suite(
    "verify",
    &[
        case("runs_whole", runs_whole),
        case("broken_effects_are_found", broken_effects_are_found),
        case("signals_put_tunables_back", signals_put_tunables_back),
        case(
            "a_signal_leaves_a_report_and_no_trace",
            a_signal_leaves_a_report_and_no_trace,
        ),
        case(
            "a_machine_that_is_not_ready_is_refused",
            a_machine_that_is_not_ready_is_refused,
        ),
        case(
            "others_who_come_later_end_the_run",
            others_who_come_later_end_the_run,
        ),
        case("without_root", without_root),
        case("wrong_options_are_refused", wrong_options_are_refused),
        case("one_at_a_time", one_at_a_time),
    ],
);

/// All checks, with a report as JSON, as text and in a file.
fn runs_whole() -> Outcome {
    let before = tunables()?;
    let file = "/tmp/verify.json";
    let whole = Report::of(&["--out", file])?;
    check_eq!(tunables()?, before, "the tunables");
    check_eq!(*whole.value("/hardware")?, false);
    check_eq!(*whole.value("/schema")?, 1);
    check_eq!(*whole.value("/others")?, 0);
    check_eq!(*whole.value("/gpu/provider")?, "sim");
    let note = whole.value("/note")?.as_str().unwrap_or_default();
    ensure!(note.contains("No figure here is a GPU's"), "{note}");
    ensure!(whole.said.starts_with("clock: "), "{}", whole.said);
    expect_whole(&whole, &["records", "registers"])?;
    let is_good = whole
        .verdicts()?
        .values()
        .all(|v| v == "ok" || v == "not here");
    check_eq!(whole.code, Some(if is_good { 0 } else { 1 }));
    let written = fs::read_to_string(file)?;
    ensure!(written.contains("\"hardware\": false"), "{written}");
    let (_, text, _) = outcome(&["gpu", "verify", "--only", "slice", "records"])?;
    for part in [
        "No figure here is a GPU's",
        "CHECK    VERDICT",
        "slice    ok",
        "records  not here",
        "run_at_1000",
        "there is no /sys/kernel/debug/zernel_nvidia/records",
    ] {
        ensure!(text.contains(part), "no {part}: {text}");
    }
    Ok(())
}

/// Has all calls of an operation fail; without an error they work again.
fn break_all(sim: &Sim, operation: Operation, error: Option<Errno>) -> Outcome {
    sim.inject(&Fault {
        gpu: 0,
        operation,
        count: if error.is_some() { u32::MAX } else { 0 },
        error,
        delay: Duration::ZERO,
        tsg: None,
    })?;
    Ok(())
}

/// A GPU that does not as it is told is told so.
fn broken_effects_are_found() -> Outcome {
    let sim = Sim::open()?;
    let before = tunables()?;
    // One that fails, but does not refuse, leaves the rest to the call that disables.
    let rows = [
        (
            Operation::SetEnabled,
            Errno::IO,
            ("disable", "outside"),
            "off_at_the_trigger",
        ),
        (
            Operation::SetEnabled,
            Errno::IO,
            ("preempt", "outside"),
            "preempted_in_time",
        ),
        (
            Operation::SetEnabled,
            Errno::IO,
            ("doorbell", "outside"),
            "kept_off_while_disabled",
        ),
        (
            Operation::Preempt,
            Errno::INVAL,
            ("preempt", "outside"),
            "preempted_in_time",
        ),
        (
            Operation::Kick,
            Errno::IO,
            ("restart", "outside"),
            "served_at_the_trigger",
        ),
        (
            Operation::SetTimeslice,
            Errno::IO,
            ("slice", "failed"),
            "the driver takes no settings",
        ),
    ];
    for (operation, error, expected, part) in rows {
        break_all(&sim, operation, Some(error))?;
        let report = expect(&[expected])?;
        let (_, why) = report.verdict(expected.0)?;
        ensure!(why.contains(part), "{operation:?}: {why}");
        check_eq!(report.code, Some(1), "{operation:?}");
        break_all(&sim, operation, None)?;
        check_eq!(tunables()?, before, "the tunables after {operation:?}");
    }
    // All of it works again.
    let good: Vec<_> = ["slice", "preempt", "disable", "restart"]
        .map(|check| (check, "ok"))
        .into();
    expect(&good)?;
    Ok(())
}

fn signals_put_tunables_back() -> Outcome {
    let before = tunables()?;
    let rotation = || -> Result<String> { Ok(fs::read_to_string(tunable_path("rotation"))?) };
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        // It takes longer than it is waited for.
        let running = Running::start(&["gpu", "verify", "--only", "slice", "disable"])?;
        wait_until("it changes tunables", || Ok(rotation()?.trim() == "none"))?;
        running.signal(signal)?;
        let (code, text) = running.end()?;
        check_eq!(code, None, "{signal:?}");
        for part in ["The run was cut short", "failed", "interrupted"] {
            ensure!(text.contains(part), "{signal:?}, no {part}: {text}");
        }
        check_eq!(tunables()?, before, "the tunables after {signal:?}");
    }
    Ok(())
}

/// The trace of a check goes with the run, and the report is in the file that was asked for.
fn a_signal_leaves_a_report_and_no_trace() -> Outcome {
    let file = "/tmp/interrupted.json";
    fs::write(file, "older")?;
    let trace = Path::new("/sys/kernel/tracing/instances/zernel-verify");
    let options = [
        "gpu", "verify", "--json", "--out", file, "--only", "preempt",
    ];
    let running = Running::start(&options)?;
    wait_until("it makes a trace", || Ok(trace.exists()))?;
    check_eq!(fs::read_to_string(file)?, "older");
    running.signal(Signal::INT)?;
    let (code, text) = running.end()?;
    check_eq!(code, None, "{text}");
    ensure!(!trace.exists(), "the trace stays");
    check_eq!(fs::read_to_string(file)?, text);
    for part in [
        "\"complete\": false",
        "\"name\": \"preempt\"",
        "\"reason\": \"interrupted\"",
    ] {
        ensure!(text.contains(part), "no {part}: {text}");
    }
    ensure!(!Path::new("/tmp/interrupted.json.partial").exists());
    Ok(())
}

/// No further check begins beside others who come while one runs.
fn others_who_come_later_end_the_run() -> Outcome {
    let file = "/tmp/later.json";
    let part = Path::new("/tmp/later.json.partial");
    let options = ["gpu", "verify", "--out", file, "--only", "clock", "slice"];
    let running = Running::start(&options)?;
    // The first check takes some seconds, and has begun.
    wait_until("it has begun", || {
        Ok(fs::metadata(part).is_ok_and(|part| part.len() > 0))
    })?;
    let sim = Sim::open()?;
    let other = sim.create_context(&ContextSpec::compute("other"))?;
    let (code, text) = running.end()?;
    drop(other);
    check_eq!(code, Some(0), "{text}");
    for part in ["slice  not here", "others have come, with compute TSGs: 1"] {
        ensure!(text.contains(part), "no {part}: {text}");
    }
    Ok(())
}

/// Others on any GPU, and tunables by which checks would teach nothing.
fn a_machine_that_is_not_ready_is_refused() -> Outcome {
    let file = "/tmp/older.json";
    fs::write(file, "older")?;
    let clock = ["gpu", "verify", "--out", file, "--only", "clock"];
    // For the command this process is another one; its TSG is on the last GPU, not on the first.
    let sim = Sim::open()?;
    let gpu = sim.version()?.gpus - 1;
    let other = sim.create_context(&ContextSpec {
        gpu,
        ..ContextSpec::compute("other")
    })?;
    refused(
        &clock,
        9,
        "compute TSGs of others on the GPUs of this machine: 1",
    )?;
    check_eq!(fs::read_to_string(file)?, "older");
    let beside = Report::of(&["--beside-others", "--only", "clock"])?;
    check_eq!(beside.verdict("clock")?.0, "ok");
    drop(other);
    let tunables = Tunables::open()?;
    for (name, value, check, said) in [
        ("enabled", "0", "clock", "the tunable enabled is 0"),
        (
            "max_timeslice_us",
            "4999999",
            "disable",
            "max_timeslice_us is 4999999",
        ),
        (
            "min_timeslice_us",
            "1001",
            "slice",
            "min_timeslice_us is 1001",
        ),
    ] {
        let before = tunables.get(name)?.value;
        tunables.set(name, value)?;
        let told = refused(&["gpu", "verify", "--only", check], 9, said);
        tunables.set(name, &before)?;
        told?;
    }
    check_eq!(outcome(&clock)?.0, Some(0));
    ensure!(fs::read_to_string(file)?.contains("\"complete\": true"));
    Ok(())
}

fn without_root() -> Outcome {
    let before = tunables()?;
    in_child(|| {
        sys::become_user(1000, 1000, &[])?;
        let report = Report::of(&["--only", "slice", "disable", "records"])?;
        check_eq!(report.code, Some(4), "{}", report.said);
        ensure!(
            report.said.starts_with("zernelctl: not root: "),
            "{}",
            report.said
        );
        for (check, part) in [
            ("slice", "setting it needs root"),
            ("disable", "setting it needs root"),
            ("records", "zernel"),
        ] {
            let (verdict, why) = report.verdict(check)?;
            check_eq!(verdict, "not here", "{check}: {why}");
            ensure!(why.contains(part), "{check}: {why}");
        }
        let report = Report::of(&["--only", "clock"])?;
        check_eq!(report.verdict("clock")?.0, "ok");
        check_eq!(report.code, Some(0));
        Ok(())
    })?;
    check_eq!(tunables()?, before, "the tunables");
    Ok(())
}

fn wrong_options_are_refused() -> Outcome {
    for (options, code, said) in [
        (&["--only", "speed"][..], 2, "no check 'speed'"),
        (&["--only"], 2, "a value is required"),
        (&["--gpu", "first"], 2, "'first' is not a GPU id"),
        (&["--work", "opencl"], 2, "possible values: auto, sim, cuda"),
        (&["--list", "--gpu", "1"], 2, "cannot be used with"),
        (&["--gpu", "1"], 3, "no GPU 1: zernelctl gpu list shows all"),
        (&["--work", "cuda"], 1, "scripts/tools --shared zernelctl"),
        (&["--out", "/nonexistent/a"], 1, "/nonexistent/a"),
    ] {
        refused(&[&["gpu", "verify"], options].concat(), code, said)?;
    }
    let list = says(&["gpu", "verify", "--list"])?;
    for name in CHECKS {
        ensure!(list.contains(&format!("\n{name} ")), "{name}: {list}");
    }
    ensure!(list.contains("Together they take "), "{list}");
    let list = says(&["gpu", "verify", "--list", "--json", "--only", "slice"])?;
    ensure!(
        list.contains("\"name\": \"slice\"") && !list.contains("clock"),
        "{list}"
    );
    Ok(())
}

fn one_at_a_time() -> Outcome {
    let running = Running::start(&["gpu", "verify", "--only", "slice"])?;
    wait_until("it changes tunables", || {
        Ok(fs::read_to_string(tunable_path("rotation"))?.trim() == "none")
    })?;
    let file = "/tmp/second.json";
    fs::write(file, "older")?;
    let second = ["gpu", "verify", "--out", file, "--only", "clock"];
    refused(&second, 1, "another zernelctl gpu verify runs")?;
    check_eq!(fs::read_to_string(file)?, "older");
    running.signal(Signal::INT)?;
    running.end()?;
    check_eq!(outcome(&second)?.0, Some(0));
    Ok(())
}
