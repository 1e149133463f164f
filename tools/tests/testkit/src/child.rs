// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that a test forks: each runs a closure and hands back what came of it.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, Context, Result};
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};

use crate::harness::Skip;
use crate::{sys, wait_until, SOON};

/// A forked process. Dropped, it is killed and reaped.
pub struct Child {
    pid: Pid,
    pidfd: OwnedFd,
    report: File,
    reaped: bool,
}

/// The end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With an exit status.
    Exit(i32),
    /// By a signal.
    Signal(i32),
}

impl Child {
    /// Forks; the new process runs `run`, reports and exits.
    pub fn spawn(run: impl FnOnce() -> Result<()>) -> Result<Self> {
        Self::fork(false, run)
    }

    /// Forks a process that becomes somebody and then comes back to user space all the time.
    pub fn idle(by: impl FnOnce() -> Result<()>) -> Result<Self> {
        let mut ready = [0; 8];
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let bell = eventfd(0, flags)?;
        let child = Self::spawn(|| {
            by()?;
            rustix::io::write(&bell, &1u64.to_ne_bytes())?;
            Self::rest()
        })?;
        wait_until("it is who it is to be", || {
            match rustix::io::read(&bell, &mut ready) {
                Ok(_) => Ok(true),
                Err(Errno::AGAIN) => Ok(false),
                Err(errno) => Err(errno).context("read an eventfd"),
            }
        })?;
        Ok(child)
    }

    fn rest() -> ! {
        loop {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Forks a process that leads a session of its own, all of which is killed with it.
    pub fn session(run: impl FnOnce() -> Result<()>) -> Result<Self> {
        Self::fork(true, run)
    }

    /// Forks a process of this number, which sleeps until it is killed.
    pub fn numbered(pid: u32) -> Result<Self> {
        Self::fork_with(
            || sys::fork_numbered(pid),
            || loop {
                std::thread::sleep(SOON);
            },
        )
        .with_context(|| format!("fork a process of number {pid}"))
    }

    /// Forks a process into a cgroup, which comes back to user space all the time.
    pub fn into_cgroup(directory: BorrowedFd<'_>) -> Result<Self> {
        Self::fork_with(|| sys::fork_into(directory), || Self::rest())
            .context("fork a process into a cgroup")
    }

    fn fork(session: bool, run: impl FnOnce() -> Result<()>) -> Result<Self> {
        Self::fork_with(sys::fork, || {
            if session {
                rustix::process::setsid()?;
            }
            run()
        })
    }

    fn fork_with(
        fork: impl FnOnce() -> std::io::Result<Option<Pid>>,
        run: impl FnOnce() -> Result<()>,
    ) -> Result<Self> {
        let mut report = File::from(rustix::fs::memfd_create("report", MemfdFlags::CLOEXEC)?);
        let Some(pid) = fork()? else {
            let result = catch_unwind(AssertUnwindSafe(run));
            let (mark, text) = match result {
                Ok(Ok(())) => ("ok", String::new()),
                Ok(Err(error)) => match error.downcast_ref::<Skip>() {
                    Some(skip) => ("skip", skip.0.to_owned()),
                    None => ("fail", format!("{error:#}")),
                },
                Err(_) => ("fail", "panicked".to_owned()),
            };
            let written = write!(report, "{mark}\n{text}");
            sys::exit(if written.is_ok() { 0 } else { 99 });
        };
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
        Ok(Self {
            pid,
            pidfd,
            report,
            reaped: false,
        })
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Kills it; it stays a zombie until it is joined.
    pub fn kill(&self) -> Result<()> {
        self.signal(Signal::KILL)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        rustix::process::kill_process(self.pid, signal).context("send a signal to a child")
    }

    /// Waits until it has ended, without reaping it.
    pub fn wait_ended(&self, deadline: Duration) -> Result<()> {
        let end = Instant::now() + deadline;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let left = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            };
            match poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&left)) {
                Ok(0) => bail!("child {} still runs after {deadline:?}", self.pid()),
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error).context("wait for a child"),
            }
        }
    }

    /// Waits for it and reaps it; says how it ended.
    pub fn end(mut self) -> Result<End> {
        self.wait_ended(SOON)?;
        self.reap()
    }

    fn reap(&mut self) -> Result<End> {
        let status = rustix::process::waitpid(Some(self.pid), WaitOptions::empty())?;
        self.reaped = true;
        let (_, status) = status.ok_or_else(|| anyhow!("child has no status"))?;
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Ok(End::Exit(code)),
            (_, Some(signal)) => Ok(End::Signal(signal)),
            _ => bail!("child neither exited nor was killed"),
        }
    }

    /// Waits for it, for [`SOON`], and hands back what its closure came to.
    pub fn join(self) -> Result<()> {
        self.join_within(SOON)
    }

    /// As [`Self::join`], with a deadline.
    pub fn join_within(mut self, deadline: Duration) -> Result<()> {
        self.wait_ended(deadline)?;
        let end = self.reap()?;
        if end != End::Exit(0) {
            bail!("child ended with {end:?}");
        }
        let mut text = String::new();
        self.report.rewind()?;
        self.report.read_to_string(&mut text)?;
        match text.split_once('\n') {
            Some(("ok", _)) => Ok(()),
            Some(("skip", why)) => Err(Skip(why.to_owned().leak()).into()),
            Some((_, why)) => Err(anyhow!(why.to_owned())),
            None => bail!("child exited without a report"),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.reaped {
            // Either may be gone already.
            let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
            let _ = rustix::process::kill_process(self.pid, Signal::KILL);
            let _ = rustix::process::waitpid(Some(self.pid), WaitOptions::empty());
        } else {
            // The rest of its session, if it led one.
            let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
        }
    }
}

/// Runs `run` in a child and waits for what it comes to.
pub fn in_child(run: impl FnOnce() -> Result<()>) -> Result<()> {
    Child::spawn(run)?.join()
}
