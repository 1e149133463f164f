// SPDX-License-Identifier: MIT OR Apache-2.0
//! `run`: a command with a class.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child as Process, Command, ExitCode, ExitStatus};
use std::thread;

use anyhow::{Context, Result};
use clap::Args as ClapArgs;
use libzernel::{Level, Target, Zernel};
use rustix::process::{kill_process, Pid, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::preload::{self, Preload};
use crate::{cgroup, exit};

/// The command line of `run`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The level: lc, be, another name such as normal, or a number from 0 (most urgent) to 7.
    #[arg(long, value_name = "LEVEL")]
    class: Level,
    /// Run the command in a cgroup of its own with the class, so that its children have it, too. The
    /// cgroup is removed at the end.
    #[arg(long)]
    cgroup: bool,
    /// Requests of the command: auto preloads libzernel-auto.so, which takes them from its calls of
    /// CUDA.
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    requests: preload::Requests,
    /// The library for --requests auto. Otherwise it is that of ZERNEL_AUTO_LIBRARY, if not empty, or
    /// ../lib/zernel/libzernel-auto.so beside this program.
    #[arg(long, value_name = "FILE")]
    auto_library: Option<PathBuf>,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Args {
    /// Runs the command.
    pub fn run(self, zernel: &Zernel) -> Result<ExitCode> {
        let preload = self.requests.preload(self.auto_library)?;
        let run = match self.cgroup {
            true => in_cgroup,
            false => become_command,
        };
        run(zernel, self.class, &self.command, preload.as_ref())
    }
}

/// Gives this process the class and becomes the command, with a library preloaded if there is one.
fn become_command(
    zernel: &Zernel,
    level: Level,
    command: &[OsString],
    preload: Option<&Preload>,
) -> Result<ExitCode> {
    zernel.set_class(&Target::current_process(), level)?;
    // Returns only when it fails.
    let error = to_command(command, preload)?.exec();
    Ok(cannot_start(command, &error))
}

/// Runs the command in a cgroup that has the class, with a library preloaded if there is one; returns
/// the code it exits with.
fn in_cgroup(
    zernel: &Zernel,
    level: Level,
    command: &[OsString],
    preload: Option<&Preload>,
) -> Result<ExitCode> {
    let group = cgroup::Child::create()?;
    zernel.set_class(&Target::cgroup(group.path())?, level)?;
    let mut signals = Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP])
        .context("cannot set up signal handling")?;

    group.enter()?;
    let started = to_command(command, preload)?.spawn();
    group.leave()?;
    let mut process = match started {
        Ok(process) => process,
        Err(error) => return Ok(cannot_start(command, &error)),
    };

    let pid = pid(&process);
    let handle = signals.handle();
    let forwarder = thread::spawn(move || {
        for signal in signals.forever() {
            forward(signal, pid);
        }
    });
    let status = process.wait();
    handle.close();
    // It ends once its signals are closed, and has nothing to tell.
    let _ = forwarder.join();
    Ok(ExitCode::from(code(
        status.context("cannot wait for the command")?,
    )))
}

fn to_command(command: &[OsString], preload: Option<&Preload>) -> Result<Command> {
    let (program, args) = command.split_first().context("the command is missing")?;
    let mut command = Command::new(program);
    command.args(args);
    if let Some(preload) = preload {
        command.env(preload::VARIABLE, preload.value());
    }
    Ok(command)
}

fn cannot_start(command: &[OsString], error: &io::Error) -> ExitCode {
    let name = command.first().map(|name| name.to_string_lossy());
    eprintln!("zernelctl: {}: {error}", name.unwrap_or_default());
    ExitCode::from(match error.kind() {
        io::ErrorKind::NotFound => exit::NOT_FOUND,
        _ => exit::NOT_EXECUTABLE,
    })
}

fn pid(process: &Process) -> Option<Pid> {
    i32::try_from(process.id()).ok().and_then(Pid::from_raw)
}

/// Passes a signal on. The terminal sends SIGINT and SIGQUIT to the command by itself.
fn forward(signal: i32, pid: Option<Pid>) {
    let signal = match signal {
        SIGTERM => Signal::TERM,
        SIGHUP => Signal::HUP,
        _ => return,
    };
    if let Some(pid) = pid {
        // A process that has ended needs no signal.
        let _ = kill_process(pid, signal);
    }
}

fn code(status: ExitStatus) -> u8 {
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 1,
    };
    u8::try_from(code).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_signals_are_passed_on() {
        assert_eq!(code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(code(ExitStatus::from_raw(15)), 143);
        assert_eq!(code(ExitStatus::from_raw(0)), 0);
    }
}
