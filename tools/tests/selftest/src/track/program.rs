// SPDX-License-Identifier: GPL-2.0
//! The output and actions of zernelctl about tracked threads, their phases, and probes.

use std::process;

use anyhow::{bail, ensure, Context as _, Result};
use libzernel::{Target, Tracking, Zernel};
use rustix::process::Signal;

use super::{thread, wait_count, wait_recorded, MS};
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::{tid, wait_until};
use crate::gpuwait::{offset_of_synchronize, spin, synchronize};
use crate::harness::Outcome;
use crate::permit::ALICE;
use crate::sys;
use crate::zernelctl::{refused, says, Running};

/// No process has such a number.
const NOBODY: &str = "1073741824";

/// The words of the only line below the header.
fn row(text: &str) -> Result<Vec<&str>> {
    let mut lines = text.lines();
    match (lines.next(), lines.next(), lines.next()) {
        (Some(header), Some(row), None) if header.trim_start().starts_with("PID") => {
            Ok(row.split_whitespace().collect())
        }
        _ => bail!("not a table of one: {text}"),
    }
}

/// The value of the only member of this name in JSON.
fn member<'a>(json: &'a str, name: &str) -> Result<&'a str> {
    let begin = format!("\"{name}\": ");
    let mut found = json
        .lines()
        .filter_map(|line| line.trim().strip_prefix(begin.as_str()));
    match (found.next(), found.next()) {
        (Some(value), None) => Ok(value.trim_end_matches(',')),
        _ => bail!("not one {name}: {json}"),
    }
}

fn check_members(json: &str, expected: &[(&str, &str)]) -> Outcome {
    for (name, value) in expected {
        check_eq!(member(json, name)?, *value, "{name} in {json}");
    }
    Ok(())
}

pub(super) fn tracks() -> Outcome {
    let zernel = Zernel::open()?;
    let child = Child::idle(|| Ok(()))?;
    let pid: &str = &child.pid().to_string();
    let tracked = says(&["track", "--ml", "--pid", pid])?;
    check_eq!(tracked, "1 thread of the process is tracked\n");
    let known = wait_recorded(&zernel, child.pid(), 1)?;

    for list in [&["threads"][..], &["threads", "--pid", pid]] {
        let text = says(list)?;
        check_eq!(row(&text)?[..4], [pid, pid, "0", "zernel-selftest"]);
    }
    let (id, number): (&str, &str) = (&known[0].id.to_string(), pid);
    let thread = [("id", id), ("pid", number), ("tid", number), ("uid", "0")];
    let json = says(&["threads", "--json"])?;
    check_members(&json, &thread)?;
    check_members(&json, &[("whole", "true"), ("children", "false")])?;
    check_members(&json, &[("privileged", "false"), ("cgroup", "false")])?;
    let others = says(&["threads", "--pid", NOBODY])?;
    check_eq!(others, "No tracked thread to show.\n");

    for list in [&["phases"][..], &["phases", "--pid", pid]] {
        let text = says(list)?;
        check_eq!(row(&text)?[..4], [pid, pid, "zernel-selftest", "unknown"]);
    }
    let json = says(&["phases", "--json"])?;
    check_members(&json, &thread)?;
    check_members(&json, &[("phase", "\"unknown\""), ("hinted", "false")])?;
    let text = says(&["phases", "--process", "--pid", pid])?;
    check_eq!(row(&text)?[..4], [pid, "0", "zernel-selftest", "1"]);
    let json = says(&["phases", "--process", "--json"])?;
    check_members(&json, &[("pid", pid), ("ml", "true"), ("threads", "1")])?;

    hints(pid)?;

    let json = says(&["track", "--json", "--pid", pid])?;
    check_members(&json, &[("threads", "1")])?;
    let untracked = says(&["untrack", "--pid", pid])?;
    check_eq!(untracked, "no thread of the process is tracked\n");
    wait_count(&zernel, 0)?;
    check_eq!(says(&["threads"])?, "No tracked thread to show.\n");
    check_eq!(says(&["threads", "--json"])?, "[]\n");
    ensure!(
        says(&["phases"])?.starts_with("No machine-learning program to show"),
        "the process has phases"
    );
    Ok(())
}

/// Hints to a thread that has phases.
fn hints(tid: &str) -> Outcome {
    let hint = |ms| ["hint", "--tid", tid, "--duration", ms, "gpu_compute"];
    let shows = |part: &str| {
        let mut text = String::new();
        wait_until(&format!("{part} is shown"), || {
            text = says(&["phases"])?;
            Ok(text.contains(part))
        })
        .with_context(|| text.clone())
    };
    let given = says(&hint("60000"))?;
    check_eq!(given, format!("thread {tid}: gpu_compute for 60000 ms\n"));
    shows(" gpu_compute (hint) ")?;
    let json = says(&["phases", "--json"])?;
    check_members(&json, &[("phase", "\"gpu_compute\""), ("hinted", "true")])?;
    let json = says(&[&hint("59999")[..], &["--json"]].concat())?;
    let expected = [("tid", tid), ("duration_ns", "59999000000")];
    check_members(&json, &expected)?;
    check_members(&json, &[("phase", "\"gpu_compute\"")])?;
    check_eq!(says(&hint("0"))?, format!("thread {tid}: no hint\n"));
    shows(" unknown ")
}

/// Functions that this program calls are probed: one by its name, the other by its place.
pub(super) fn probes() -> Outcome {
    const OWN: &str = "/proc/self/exe";
    let path = std::fs::read_link(OWN)?;
    let path = path.to_str().context("its path is text")?;
    let offset: &str = &format!("{:#x}", offset_of_synchronize()?);
    let arguments = ["probe", "--library", path, "--symbol", "sched_yield"];
    let arguments = [&arguments[..], &["--offset", offset]].concat();
    in_child(|| {
        let zernel = Zernel::open()?;
        let program = Running::start(&arguments)?;
        let text = program.wait_text("Until interrupted, tracked threads in these functions")?;
        let lines: Vec<Vec<_>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        check_eq!(lines[0], ["PROBE", "OFFSET", "SYMBOL"]);
        check_eq!((lines[1][0], lines[1][2]), ("1", "sched_yield"));
        check_eq!(lines[2], ["2", offset, "-"]);

        zernel.track(&Target::current_process(), Tracking::PLAIN)?;
        let waits = || -> Result<_> {
            let own = thread(&zernel, tid())?.context("the calling thread is not listed")?;
            Ok(own.gpu_waits)
        };
        check_eq!(waits()?, Default::default());
        for _ in 0..5 {
            std::thread::yield_now();
        }
        let named = waits()?;
        check_eq!(named.count, 5, "calls of the function that was named");
        synchronize(&mut || spin(std::time::Duration::from_nanos(MS)));
        let placed = waits()?;
        check_eq!(placed.count, 6, "calls of the one at {offset}");
        ensure!(placed.ns >= named.ns + MS, "{named:?}, then {placed:?}");

        // With the program they are gone.
        program.signal(Signal::INT)?;
        let (code, _) = program.end()?;
        check_eq!(code, Some(0));
        std::thread::yield_now();
        check_eq!(waits()?, placed);

        let program = Running::start(&[&arguments[..], &["--json"]].concat())?;
        let json = program.wait_text("]\n")?;
        for part in ["\"symbol\": \"sched_yield\"", "\"symbol\": null"] {
            ensure!(json.contains(part), "{json}");
        }
        program.signal(Signal::TERM)?;
        check_eq!(program.end()?.0, Some(0));
        Ok(())
    })
}

pub(super) fn says_what_is_wrong() -> Outcome {
    let zernel = Zernel::open()?;
    let own: &str = &process::id().to_string();
    let child = Child::idle(|| Ok(()))?;
    let pid: &str = &child.pid().to_string();
    let hint = |tid, ms, phase| ["hint", "--tid", tid, "--duration", ms, phase];
    let compute = |tid| hint(tid, "10", "gpu_compute");
    let no_ml = "is not tracked as one of a machine-learning program (track --ml)";
    for command in ["track", "untrack"] {
        refused(&[command, "--pid", NOBODY], 3, "there is no such process")?;
        let nobody = "there is no such thread or process";
        refused(&[command, "--tid", NOBODY], 3, nobody)?;
        refused(&[command, "--pid", "2"], 3, "the kernel's own")?;
        let nowhere = "/no/such: not a cgroup directory";
        refused(&[command, "--cgroup", "/no/such"], 3, nowhere)?;
        refused(&[command, "--pid", "0"], 2, "'0' is not a process id")?;
        refused(&[command], 2, "--pid <PID>")?;
    }
    refused(&["untrack", "--pid", own], 7, "the target is not tracked")?;
    refused(&compute(NOBODY), 3, "there is no such thread")?;
    refused(&compute(own), 7, no_ml)?;
    refused(&hint(own, "60001", "gpu_compute"), 2, "60001")?;
    refused(&hint(own, "10", "resting"), 2, "'resting' is not a phase")?;
    // One that is tracked has no phases for that.
    zernel.track(&Target::Process(child.pid()), Tracking::PLAIN)?;
    wait_recorded(&zernel, child.pid(), 1)?;
    refused(&compute(pid), 7, no_ml)?;

    let library = |path| ["probe", "--library", path];
    let named = |path, name| [&library(path)[..], &["--symbol", name]].concat();
    let program = "/zernel/bin/zernelctl";
    refused(&library(program), 2, "--symbol <NAME>")?;
    refused(&named("/no/such", "main"), 1, "cannot read /no/such")?;
    refused(&named("/init", "main"), 1, "that is not an ELF file")?;
    let name = "no_such_function";
    let unknown = format!("{program}: there is no symbol {name}");
    refused(&named(program, name), 1, &unknown)?;
    let placed = |path, offset| [&library(path)[..], &["--offset", offset]].concat();
    let outside = "the offset does not lie in the library";
    refused(&placed(program, "0x7fffffff"), 2, outside)?;
    let device = "the library is not a regular file";
    refused(&placed("/dev/null", "0"), 2, device)?;

    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        for command in ["track", "untrack"] {
            refused(&[command, "--pid", pid], 4, "needs CAP_SYS_NICE")?;
        }
        refused(&compute(pid), 4, "needs CAP_SYS_NICE")?;
        refused(&named(program, "main"), 4, "a probe needs CAP_SYS_ADMIN")
    })?;
    check_eq!(zernel.stats()?.threads, 1);
    Ok(())
}
