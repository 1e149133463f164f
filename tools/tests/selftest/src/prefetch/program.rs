// SPDX-License-Identifier: GPL-2.0
//! The output and actions of `zernelctl prefetch`.

use std::process;

use anyhow::{Context as _, Result};
use libzernel::{Stats, Zernel};

use super::{wait_subscriptions, Signaller};
use crate::block::device;
use crate::check_eq;
use crate::child::Child;
use crate::common::wait_until;
use crate::harness::Outcome;
use crate::zernelctl::{refused, Running};

fn start(arguments: &[&str]) -> Result<Running> {
    Running::start(&[&["prefetch"], arguments].concat())
}

pub(super) fn shows_signals() -> Outcome {
    let zernel = Zernel::open()?;
    let child = Child::idle(|| Ok(()))?;
    let pid = child.pid().to_string();
    let signaller = Signaller::new(&zernel, child.pid())?;
    let program = start(&["--pid", &pid, "--count", "2"])?;
    let json = start(&["--pid", &pid, "--json", "--count", "3"])?;
    let endless = start(&["--pid", &pid])?;
    wait_subscriptions(&zernel, 3)?;
    signaller.signal(2)?;
    let (code, text) = program.end()?;
    check_eq!(code, Some(0));
    let lines: Vec<_> = text.lines().collect();
    check_eq!(lines.len(), 2, "{text}");
    for (number, line) in (1..).zip(lines) {
        let words: Vec<_> = line.split_whitespace().skip(1).collect();
        let number = format!("#{number}");
        check_eq!(words, [number.as_str(), "prefetch", "pid", &pid], "{line}");
    }
    signaller.signal(1)?;
    let (code, text) = json.end()?;
    check_eq!(code, Some(0));
    check_eq!(text.lines().count(), 3, "{text}");
    check_eq!(text.contains("\"number\":3"), true, "{text}");
    wait_until("all signals are shown", || {
        Ok(endless.text()?.lines().count() == 3)
    })?;
    // With the process it is over.
    child.kill()?;
    child.end()?;
    let (code, text) = endless.end()?;
    check_eq!((code, text.lines().count()), (Some(0), 3), "{text}");
    wait_subscriptions(&zernel, 0)
}

pub(super) fn reads_ahead() -> Outcome {
    const LENGTH: u64 = 8 << 20;
    let zernel = Zernel::open()?;
    let disk = device(std::time::Duration::from_micros(100), None)?;
    let child = Child::idle(|| Ok(()))?;
    let signaller = Signaller::new(&zernel, child.pid())?;
    let before = zernel.stats()?;
    let node = disk.node().to_str().context("its path is text")?;
    let pid = child.pid().to_string();
    let program = start(&[
        "--pid", &pid, "--file", node, "--length", "8M", "--count", "3",
    ])?;
    wait_subscriptions(&zernel, 2)?;
    // Twice the whole disk would be four: it begins anew.
    for round in 1..=3 {
        signaller.signal(1)?;
        if round < 3 {
            wait_until("it is read", || {
                let now: Stats = zernel.stats()?;
                Ok(now.readahead_bytes - before.readahead_bytes == round * LENGTH)
            })?;
        }
    }
    let (code, text) = program.end()?;
    check_eq!((code, text.lines().count()), (Some(0), 3), "{text}");
    let after = zernel.stats()?;
    check_eq!(
        (
            after.readaheads - before.readaheads,
            after.readaheads_skipped - before.readaheads_skipped
        ),
        (3, 0)
    );
    wait_subscriptions(&zernel, 0)
}

pub(super) fn says_what_is_wrong() -> Outcome {
    let own = process::id().to_string();
    let refused =
        |arguments: &[&str], code, said| refused(&[&["prefetch"], arguments].concat(), code, said);
    let file = ["--pid", &own, "--length", "4K", "--file"];
    let with = |path| [&file[..], &[path]].concat();
    refused(&["--pid", "1073741824"], 3, "no such process")?;
    refused(&["--pid", "2"], 3, "the kernel's own")?;
    refused(&with("/no/such/file"), 1, "cannot open /no/such/file")?;
    refused(&with("/dev/null"), 2, "/dev/null has 0 bytes")?;
    let offset = [&with("/zernel/bin/zernelctl")[..], &["--offset", "1G"]].concat();
    refused(&offset, 2, "there are none from 1073741824 on")?;
    let span = [&with("/zernel/bin/zernelctl")[..], &["--span", "4095"]].concat();
    refused(&span, 2, "a span of 4095 bytes is shorter")?;
    check_eq!(Zernel::open()?.stats()?.subscriptions, 0);
    Ok(())
}
