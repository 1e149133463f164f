// SPDX-License-Identifier: MIT OR Apache-2.0
//! Running zernelctl: what it prints, and how it ends.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};
use rustix::fs::{memfd_create, MemfdFlags};
use rustix::process::{kill_process, Pid, Signal};

use crate::check_eq;
use crate::harness::Outcome;
use crate::wait_until;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new("/zernel/bin/zernelctl");
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs it; returns its code, and what it printed to standard output and to standard error.
pub fn outcome(arguments: &[&str]) -> Result<(Option<i32>, String, String)> {
    let output = command(arguments).output().context("start zernelctl")?;
    let text = |bytes| String::from_utf8(bytes).context("it prints text");
    Ok((
        output.status.code(),
        text(output.stdout)?,
        text(output.stderr)?,
    ))
}

/// Runs it, which goes well; returns what it printed.
pub fn says(arguments: &[&str]) -> Result<String> {
    let output = command(arguments).output().context("start zernelctl")?;
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = (output.status.code(), error.as_str());
    check_eq!(said, (Some(0), ""), "{arguments:?}");
    String::from_utf8(output.stdout).context("it prints text")
}

/// Runs it, which prints nothing, ends with this code, and says this among other things.
pub fn refused(arguments: &[&str], code: i32, said: &str) -> Outcome {
    let output = command(arguments).output().context("start zernelctl")?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    check_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
    check_eq!(text.contains(said), true, "{arguments:?}: {text}");
    check_eq!(output.stdout.is_empty(), true, "{arguments:?}");
    Ok(())
}

/// One that runs, and what it has printed.
pub struct Running {
    child: Child,
    output: File,
}

impl Running {
    /// Starts it.
    pub fn start(arguments: &[&str]) -> Result<Self> {
        let output = File::from(memfd_create("output", MemfdFlags::CLOEXEC)?);
        let child = command(arguments)
            .stdout(output.try_clone()?)
            .spawn()
            .context("start zernelctl")?;
        Ok(Self { child, output })
    }

    /// The output so far.
    pub fn text(&self) -> Result<String> {
        let mut text = vec![0; usize::try_from(self.output.metadata()?.len())?];
        self.output.read_exact_at(&mut text, 0)?;
        String::from_utf8(text).context("it prints text")
    }

    /// Waits until it has printed this, among other things.
    pub fn wait_text(&self, part: &str) -> Result<String> {
        let mut text = String::new();
        wait_until(&format!("it prints {part}"), || {
            text = self.text()?;
            Ok(text.contains(part))
        })
        .with_context(|| text.clone())?;
        Ok(text)
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.child.id() as i32).context("a process")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Waits for its end; returns its code and what it printed.
    pub fn end(mut self) -> Result<(Option<i32>, String)> {
        let mut status = None;
        wait_until("zernelctl ends", || {
            status = self.child.try_wait()?;
            Ok(status.is_some())
        })?;
        Ok((status.and_then(|status| status.code()), self.text()?))
    }
}
