// SPDX-License-Identifier: GPL-2.0
//! The output of `zernelctl requests`.

use std::process::Command;

use anyhow::{ensure, Context as _, Result};
use libzernel::{Level, Target};

use super::{far, longest_lease, Client};
use crate::check_eq;
use crate::child::in_child;
use crate::common::Lab;
use crate::harness::Outcome;
use crate::permit::ALICE;
use crate::sys;

/// Runs it; returns its code and what it printed.
fn zernelctl(arguments: &[&str]) -> Result<(Option<i32>, String)> {
    let output = Command::new("/zernel/bin/zernelctl")
        .arg("requests")
        .args(arguments)
        .output()
        .context("start zernelctl")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((output.status.code(), text))
}

/// The value of a counter in a table.
fn value<'a>(text: &'a str, counter: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(counter)).then(|| words.next())?
    })
}

pub(super) fn shows_requests() -> Outcome {
    longest_lease()?;
    let lab = Lab::open()?;
    let client = Client::new(&lab)?;
    let slot = client.slot(0);
    lab.zernel.set_class(&Target::Tsg(client.tsg), Level::LC)?;
    for _ in 0..3 {
        let request = slot.begin(&far(client.tsg))?.number;
        slot.done_call(request)?;
    }
    let open = slot.begin(&far(client.tsg))?.number;
    let id = client.tsg.to_string();

    let (code, text) = zernelctl(&["--tsg", &id])?;
    check_eq!(code, Some(0));
    for (counter, shown) in [("begun", "4"), ("done", "3"), ("in_flight", "1")] {
        check_eq!(value(&text, counter), Some(shown), "{counter} in\n{text}");
    }
    let (code, text) = zernelctl(&["--tsg", &id, "--histogram"])?;
    check_eq!(code, Some(0));
    ensure!(text.contains("FROM") && text.contains("100.0 %"), "{text}");
    let (code, text) = zernelctl(&["--json", "--histogram", "--tsg", &id])?;
    check_eq!(code, Some(0));
    ensure!(
        text.contains("\"done\": 3") && text.contains("from_ns"),
        "{text}"
    );
    let (code, text) = zernelctl(&[])?;
    check_eq!(code, Some(0));
    ensure!(
        text.starts_with("LEVEL") && text.contains("\nlc "),
        "{text}"
    );
    let (code, _) = zernelctl(&["--level", "lc"])?;
    check_eq!(code, Some(0));
    let (code, _) = zernelctl(&["--tsg", "18446744073709551615"])?;
    check_eq!(code, Some(3), "no such TSG");
    in_child(|| {
        sys::become_user(ALICE, ALICE, &[])?;
        check_eq!(zernelctl(&[])?.0, Some(4), "all, by a user");
        check_eq!(zernelctl(&["--tsg", &id])?.0, Some(3), "root's, by a user");
        Ok(())
    })?;
    slot.cancel(open)?;
    Ok(())
}
