// SPDX-License-Identifier: MIT OR Apache-2.0
//! The target of a class, and the source of a level.

use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::process::{pidfd_open, Pid, PidfdFlags};
use serde::Serialize;

use crate::sys::abi;
use crate::{tsg, Call, Error, Result};

/// The target of a class, the most specific first.
#[derive(Debug)]
pub enum Target {
    /// One TSG.
    Tsg(tsg::Id),
    /// The calling thread.
    CurrentThread,
    /// A thread by its tid.
    Thread(u32),
    /// The calling process.
    CurrentProcess,
    /// A process by its pid.
    Process(u32),
    /// A process by a pidfd, which cannot come to mean another process.
    Pidfd(OwnedFd),
    /// A thread by a pidfd, likewise.
    ThreadPidfd(OwnedFd),
    /// A cgroup v2 directory: every process in it and below.
    Cgroup(OwnedFd),
}

impl Target {
    /// The calling process.
    pub const fn current_process() -> Self {
        Self::CurrentProcess
    }

    /// The calling thread.
    pub const fn current_thread() -> Self {
        Self::CurrentThread
    }

    /// The process that has `pid` now.
    ///
    /// Errors: [`Error::Call`] with `ESRCH` when there is none.
    pub fn pidfd(pid: u32) -> Result<Self> {
        let error = Error::call(Call::Pidfd);
        let pid = i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(|| error(rustix::io::Errno::SRCH))?;
        pidfd_open(pid, PidfdFlags::empty())
            .map(Self::Pidfd)
            .map_err(error)
    }

    /// The thread that has `tid` now.
    ///
    /// Errors: [`Error::Call`] with `ESRCH` when there is none.
    pub fn thread_pidfd(tid: u32) -> Result<Self> {
        // `PIDFD_THREAD` is `O_EXCL`.
        let flags = PidfdFlags::from_bits_retain(OFlags::EXCL.bits());
        let error = Error::call(Call::Pidfd);
        let tid = i32::try_from(tid)
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(|| error(rustix::io::Errno::SRCH))?;
        pidfd_open(tid, flags).map(Self::ThreadPidfd).map_err(error)
    }

    /// The cgroup of this directory.
    ///
    /// Errors: [`Error::Cgroup`] when it cannot be opened. Whether it is a cgroup is for the module
    /// to say.
    pub fn cgroup(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        rustix::fs::open(
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map(Self::Cgroup)
        .map_err(|errno| Error::Cgroup {
            path: path.to_owned(),
            errno,
        })
    }

    /// The target as ABI 1 has it.
    pub fn raw(&self) -> abi::zernel_target {
        let fd_id = |fd: &OwnedFd| fd.as_raw_fd() as u64;
        let (fd, own) = (abi::ZERNEL_TARGET_FD, abi::ZERNEL_TARGET_SELF);
        let (kind, flags, id) = match self {
            Self::Tsg(id) => (abi::ZERNEL_TARGET_TSG, 0, id.as_u64()),
            Self::CurrentThread => (abi::ZERNEL_TARGET_THREAD, own, 0),
            Self::Thread(tid) => (abi::ZERNEL_TARGET_THREAD, 0, u64::from(*tid)),
            Self::CurrentProcess => (abi::ZERNEL_TARGET_PROCESS, own, 0),
            Self::Process(pid) => (abi::ZERNEL_TARGET_PROCESS, 0, u64::from(*pid)),
            Self::Pidfd(pidfd) => (abi::ZERNEL_TARGET_PROCESS, fd, fd_id(pidfd)),
            Self::ThreadPidfd(pidfd) => (abi::ZERNEL_TARGET_THREAD, fd, fd_id(pidfd)),
            Self::Cgroup(folder) => (abi::ZERNEL_TARGET_CGROUP, fd, fd_id(folder)),
        };
        abi::zernel_target { kind, flags, id }
    }
}

/// The origin of a value in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Source {
    /// Nothing: the driver's own, or no value.
    None,
    /// The tunable `default_class`.
    Default,
    /// The nearest cgroup that has one.
    Cgroup,
    /// The process.
    Process,
    /// The thread.
    Thread,
    /// The TSG itself.
    Tsg,
    /// The tunables of the level in force.
    Level,
    /// A kind that this crate does not know.
    Unknown,
}

impl Source {
    pub(crate) fn from_abi(raw: u32) -> Self {
        match raw {
            abi::ZERNEL_SOURCE_NONE => Self::None,
            abi::ZERNEL_SOURCE_CGROUP => Self::Cgroup,
            abi::ZERNEL_SOURCE_PROCESS => Self::Process,
            abi::ZERNEL_SOURCE_THREAD => Self::Thread,
            abi::ZERNEL_SOURCE_TSG => Self::Tsg,
            abi::ZERNEL_SOURCE_DEFAULT => Self::Default,
            abi::ZERNEL_SOURCE_LEVEL => Self::Level,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Default => "default",
            Self::Cgroup => "cgroup",
            Self::Process => "process",
            Self::Thread => "thread",
            Self::Tsg => "tsg",
            Self::Level => "level",
            Self::Unknown => "unknown",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_is_a_flag_and_never_the_number_0() {
        let raw = |target: Target| {
            let raw = target.raw();
            (raw.kind, raw.flags, raw.id)
        };
        assert_eq!(raw(Target::CurrentProcess), (2, 2, 0));
        assert_eq!(raw(Target::CurrentThread), (3, 2, 0));
        assert_eq!(raw(Target::Process(0)), (2, 0, 0));
        assert_eq!(raw(Target::Tsg(tsg::Id::new(9))), (4, 0, 9));
        let (kind, flags, id) = raw(Target::cgroup("/").unwrap());
        assert_eq!((kind, flags), (1, 1));
        assert!(id < 1 << 20, "a descriptor, not a sign-extended number");
    }

    #[test]
    fn pidfd_names_a_live_process() {
        let raw = Target::pidfd(std::process::id()).unwrap().raw();
        assert_eq!((raw.kind, raw.flags), (2, 1));
        for pid in [0, u32::MAX, i32::MAX as u32] {
            let error = Target::pidfd(pid).unwrap_err();
            assert_eq!(error.cause(), crate::Cause::NoSuchTarget, "{error}");
        }
    }

    #[test]
    fn missing_cgroup_names_its_path() {
        let error = Target::cgroup("/nonexistent/group").unwrap_err();
        assert!(error.to_string().starts_with("/nonexistent/group: "));
        assert_eq!(error.cause(), crate::Cause::NoSuchTarget);
    }

    #[test]
    fn unknown_sources_are_kept_apart() {
        assert_eq!(Source::from_abi(0), Source::None);
        assert_eq!(Source::from_abi(4), Source::Tsg);
        assert_eq!(Source::from_abi(99), Source::Unknown);
    }
}
