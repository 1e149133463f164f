// SPDX-License-Identifier: GPL-2.0
//! The output of `zernel-load train`, and its errors where it cannot run.

use std::fs;
use std::process::Command;

use anyhow::{ensure, Context as _, Result};
use testkit::harness::Skip;
use testkit::module::unload_each;

use crate::check_eq;
use crate::child::in_child;
use crate::harness::Outcome;
use crate::permit::ALICE;
use crate::sys;

const OUT: &str = "/tmp/zernel-selftest-train.json";

/// Runs a loop; its exit status, and what it says.
fn train(arguments: &[&str]) -> Result<(Option<i32>, String)> {
    let output = Command::new("/zernel/bin/zernel-load")
        .args(["train", "--steps", "4", "--load", "20", "--compute", "30"])
        .args(arguments)
        .output()
        .context("start zernel-load")?;
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.code(), String::from_utf8(text)?))
}

pub(super) fn trains() -> Outcome {
    let (code, text) = train(&["--out", OUT])?;
    if text.contains("no throttled disk: this kernel has no") {
        return Err(Skip("this kernel has no null_blk").into());
    }
    check_eq!(code, Some(0), "{text}");
    for part in ["without the signal", "with the signal", "idle removed"] {
        ensure!(text.contains(part), "{part} is missing: {text}");
    }
    let lines = fs::read_to_string(OUT)?;
    fs::remove_file(OUT)?;
    for part in ["gpu_idle_percent", "gpu_compute", "\"computations\":[{"] {
        ensure!(lines.contains(part), "{part} is missing: {lines}");
    }
    for disk in fs::read_dir("/sys/kernel/config/nullb")? {
        let name = disk?.file_name();
        ensure!(!name.to_string_lossy().starts_with("zernel-"), "{name:?}");
    }
    Ok(())
}

pub(super) fn says_why_not() -> Outcome {
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        let (code, text) = train(&[])?;
        check_eq!(code, Some(1), "{text}");
        ensure!(
            text.contains("takes root") || text.contains("this kernel has no"),
            "{text}"
        );
        Ok(())
    })?;
    let (code, text) = train(&["--file", "/nonexistent"])?;
    check_eq!(code, Some(1), "{text}");
    ensure!(
        text.contains("cannot read batches from /nonexistent: No such file"),
        "{text}"
    );
    unload_each(&["zernel_sim"])?;
    let (code, text) = train(&[])?;
    check_eq!(code, Some(5), "{text}");
    ensure!(
        text.contains("/dev/zernel-sim: not there; load the module first (modprobe)"),
        "{text}"
    );
    Ok(())
}
