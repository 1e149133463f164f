// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output and actions of zernelctl about tracked threads, their phases, and probes.

use anyhow::{ensure, Context as _};
use libzernel::{Target, Tracking, Zernel};
use rustix::process::Signal;

use super::{own, wait_count, wait_recorded, MS};
use crate::check_eq;
use crate::child::{in_child, Child};
use crate::common::wait_until;
use crate::gpuwait::{library, spin, synchronize};
use crate::harness::Outcome;
use crate::permit::ALICE;
use crate::sys;
use crate::zernelctl::{refused, says, Running};

/// No process has such a number.
const NOBODY: &str = "1073741824";

/// Runs it until it prints all of these parts, whatever space is between their words.
fn shows(arguments: &[&str], parts: &[&str]) -> Outcome {
    let mut text = String::new();
    wait_until(&format!("{arguments:?} shows {parts:?}"), || {
        let words = says(arguments)?;
        text = words.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(parts.iter().all(|part| text.contains(part)))
    })
    .with_context(|| text)
}

pub(super) fn tracks() -> Outcome {
    let zernel = Zernel::open()?;
    let child = Child::idle(|| Ok(()))?;
    let pid: &str = &child.pid().to_string();
    let tracked = says(&["track", "--ml", "--pid", pid])?;
    check_eq!(tracked, "1 thread of the process is tracked\n");
    let id = format!("\"id\": {},", wait_recorded(&zernel, child.pid(), 1)?[0].id);
    let thread = format!("\"pid\": {pid}, \"tid\": {pid}, \"uid\": 0,");
    let known = [id.as_str(), &thread, "\"whole\": true,"];

    shows(&["threads"], &[&format!("{pid} {pid} 0 zernel-selftest ")])?;
    check_eq!(says(&["threads", "--pid", pid])?.lines().count(), 2);
    shows(&["threads", "--json"], &known)?;
    let others = says(&["threads", "--pid", NOBODY])?;
    check_eq!(others, "No tracked thread to show.\n");

    let in_phase = |phase| format!("{pid} {pid} zernel-selftest {phase} ");
    shows(&["phases"], &[&in_phase("unknown")])?;
    check_eq!(says(&["phases", "--pid", pid])?.lines().count(), 2);
    shows(&["phases", "--json"], &known)?;
    let process = format!("{pid} 0 zernel-selftest 1 ");
    shows(&["phases", "--process", "--pid", pid], &[&process])?;

    let hint = |ms| ["hint", "--tid", pid, "--duration", ms, "gpu_compute"];
    let given = says(&hint("60000"))?;
    check_eq!(given, format!("thread {pid}: gpu_compute for 60000 ms\n"));
    shows(&["phases"], &[&in_phase("gpu_compute (hint)")])?;
    let given = [&hint("59999")[..], &["--json"]].concat();
    shows(&given, &["\"duration_ns\": 59999000000"])?;
    check_eq!(says(&hint("0"))?, format!("thread {pid}: no hint\n"));
    shows(&["phases"], &[&in_phase("unknown")])?;

    shows(&["track", "--pid", pid, "--json"], &["\"threads\": 1"])?;
    let untracked = says(&["untrack", "--pid", pid])?;
    check_eq!(untracked, "no thread of the process is tracked\n");
    wait_count(&zernel, 0)?;
    check_eq!(says(&["threads", "--json"])?, "[]\n");
    Ok(())
}

/// Functions that this program calls are probed: one by its name, the other by its place.
pub(super) fn probes() -> Outcome {
    let path = std::fs::read_link("/proc/self/exe")?;
    let path = path.to_str().context("its path is text")?;
    let offset: &str = &format!("{:#x}", library()?.1);
    let named = ["probe", "--library", path, "--symbol", "sched_yield"];
    let arguments = [&named[..], &["--offset", offset]].concat();
    in_child(|| {
        let zernel = Zernel::open()?;
        let program = Running::start(&arguments)?;
        let text = program.wait_text("Until interrupted, tracked threads in these functions")?;
        let words: Vec<_> = text.split_whitespace().collect();
        check_eq!(words[..3], ["PROBE", "OFFSET", "SYMBOL"]);
        check_eq!((words[3], words[5]), ("1", "sched_yield"));
        check_eq!(words[6..9], ["2", offset, "-"]);

        zernel.track(&Target::current_process(), Tracking::PLAIN)?;
        let waits = || Ok::<_, anyhow::Error>(own(&zernel)?.gpu_waits);
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
        check_eq!(program.end()?.0, Some(0));
        std::thread::yield_now();
        check_eq!(waits()?, placed);
        Ok(())
    })
}

pub(super) fn says_what_is_wrong() -> Outcome {
    let child = Child::idle(|| Ok(()))?;
    let pid: &str = &child.pid().to_string();
    let program = "/zernel/bin/zernelctl";
    let hint = |tid| ["hint", "--tid", tid, "--duration", "10", "gpu_compute"];
    let probe = |path, name| ["probe", "--library", path, "--symbol", name];
    refused(&["track", "--pid", NOBODY], 3, "there is no such process")?;
    refused(&["track", "--pid", "2"], 3, "the kernel's own")?;
    let nowhere = ["track", "--cgroup", "/no/such"];
    refused(&nowhere, 3, "/no/such: no cgroup v2 directory")?;
    refused(&["untrack", "--pid", pid], 7, "the target is not tracked")?;
    refused(&hint(NOBODY), 3, "there is no such thread")?;
    Zernel::open()?.track(&Target::Process(child.pid()), Tracking::PLAIN)?;
    let no_ml = "has no phases; track its process as a machine-learning program";
    refused(&hint(pid), 7, no_ml)?;
    let unknown = "the library has no symbol nowhere";
    refused(&probe(program, "nowhere"), 1, unknown)?;
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        refused(&["untrack", "--pid", pid], 4, "needs CAP_SYS_NICE")?;
        refused(&hint(pid), 4, "needs CAP_SYS_NICE")?;
        let main = probe(program, "main");
        refused(&main, 4, "a probe needs CAP_SYS_ADMIN")
    })
}
