// SPDX-License-Identifier: MIT OR Apache-2.0
//! An open `/dev/zernel`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::event::Wanted;
use crate::list::ALL;
use crate::request::{self, Durations, Histogram, RequestStats};
use crate::sys::{abi, zernel};
use crate::{
    gpu, phase, thread, Call, Cgroup, Error, EventStream, Gpu, LevelInfo, Phase, Process, Result,
    Stats, Target, Thread, Tracking, Tsg,
};

/// An open `/dev/zernel`.
#[derive(Debug)]
pub struct Zernel {
    fd: Arc<OwnedFd>,
    path: PathBuf,
    writable: bool,
}

impl Zernel {
    /// Where the device node is.
    pub const PATH: &'static str = "/dev/zernel";

    /// Opens the device.
    ///
    /// Errors: [`Error::Open`]; its cause is [`NoDevice`](crate::Cause::NoDevice) when the module
    /// is not loaded.
    pub fn open() -> Result<Self> {
        Self::open_at(Self::PATH)
    }

    /// Opens the device node at `path`, for reading alone where that is all that its mode grants.
    pub fn open_at(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        match open_node(path, OFlags::RDWR) {
            Ok(fd) => Ok(Self::new(fd, path, true)),
            Err(Error::Open { errno, .. }) if [Errno::ACCESS, Errno::PERM].contains(&errno) => {
                let reader = Self::open_to_read(path)?;
                // The node of a module that is being loaded gets its mode after it has appeared.
                match open_node(path, OFlags::RDWR) {
                    Ok(fd) => Ok(Self::new(fd, path, true)),
                    Err(_) => Ok(reader),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Opens the device node at `path` for reading alone: calls that change something fail with
    /// [`Error::ReadOnly`].
    pub fn open_to_read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Ok(Self::new(open_node(path, OFlags::RDONLY)?, path, false))
    }

    fn new(fd: OwnedFd, path: &Path, writable: bool) -> Self {
        Self {
            fd: Arc::new(fd),
            path: path.to_owned(),
            writable,
        }
    }

    /// False if it is open for reading alone.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Makes the error of `call`, which changes something, from the kernel's answer.
    pub(crate) fn failed(&self, call: Call) -> impl Fn(Errno) -> Error {
        let writable = self.writable;
        move |errno| match errno {
            Errno::BADF if !writable => Error::ReadOnly(call),
            errno => Error::call(call)(errno),
        }
    }

    /// All GPUs in the order of their ids.
    ///
    /// One that is there from the first call to the last is seen exactly once.
    pub fn gpus(&self) -> impl Iterator<Item = Result<Gpu>> + use<'_> {
        self.entries(Call::ListGpus, abi::ZERNEL_LIST_GPUS, ALL)
            .map(|raw| raw.map(|raw: abi::zernel_gpu_info| Gpu::from(&raw)))
    }

    /// All TSGs that the caller may see, in the order of their ids.
    ///
    /// One that is there from the first call to the last is seen exactly once.
    pub fn tsgs(&self) -> impl Iterator<Item = Result<Tsg>> + use<'_> {
        self.entries(Call::ListTsgs, abi::ZERNEL_LIST_TSGS, ALL)
            .map(|raw| Tsg::try_from(&raw?))
    }

    /// The TSGs of a target that the caller may see, in the order of their ids: of a process or
    /// thread its own, of a cgroup those of the processes in it or below.
    ///
    /// Errors: [`Error::Call`] with `ENOENT`, `ESRCH` or `EBADF`.
    pub fn tsgs_of(&self, target: &Target) -> impl Iterator<Item = Result<Tsg>> + use<'_> {
        self.entries(Call::ListTsgs, abi::ZERNEL_LIST_TSGS, target.raw())
            .map(|raw| Tsg::try_from(&raw?))
    }

    /// The levels on all GPUs together and on each, in the order of their ids.
    ///
    /// Errors: [`Error::Call`] with `EPERM` without `CAP_PERFMON`.
    pub fn levels(&self) -> impl Iterator<Item = Result<LevelInfo>> + use<'_> {
        self.entries(Call::ListLevels, abi::ZERNEL_LIST_LEVELS, ALL)
            .map(|raw| LevelInfo::try_from(&raw?))
    }

    /// Tracks the threads of `target`: a thread, a process with its later threads, or a cgroup with
    /// all its present and later processes. `tracking` adds the children of a process, and phases.
    /// Returns the number of its tracked threads.
    ///
    /// Errors: [`Error::Call`] with `EPERM`, `EDQUOT`, `ENOSPC`, `EOPNOTSUPP`, `ESRCH` or `EBADF`;
    /// `EINVAL` for a TSG.
    pub fn track(&self, target: &Target, tracking: Tracking) -> Result<u32> {
        let mut raw = thread::begin(target, tracking);
        zernel::track(self.as_fd(), &mut raw).map_err(self.failed(Call::Track))?;
        Ok(raw.threads)
    }

    /// Tracks `target` no more. Returns how many threads of it still are.
    ///
    /// Errors: [`Error::Call`] with `EPERM`, `ENODATA`, `EBUSY`, `ESRCH` or `EBADF`; `EINVAL` for a
    /// TSG.
    pub fn untrack(&self, target: &Target) -> Result<u32> {
        let mut raw = thread::end(target);
        zernel::track(self.as_fd(), &mut raw).map_err(self.failed(Call::Untrack))?;
        Ok(raw.threads)
    }

    /// All tracked threads that the caller may see, in the order in which they came.
    pub fn threads(&self) -> impl Iterator<Item = Result<Thread>> + use<'_> {
        self.threads_in(ALL)
    }

    /// The tracked threads of a target that the caller may see: a thread, those of a process, or those
    /// of the processes in a cgroup or below.
    ///
    /// Errors: [`Error::Call`] with `ESRCH` or `EBADF`.
    pub fn threads_of(&self, target: &Target) -> impl Iterator<Item = Result<Thread>> + use<'_> {
        self.threads_in(target.raw())
    }

    fn threads_in(
        &self,
        filter: abi::zernel_target,
    ) -> impl Iterator<Item = Result<Thread>> + use<'_> {
        self.entries(Call::ListThreads, abi::ZERNEL_LIST_THREADS, filter)
            .map(|raw| raw.map(|raw: abi::zernel_thread_info| Thread::from(&raw)))
    }

    /// All threads of machine-learning programs that the caller may see, in the order in which they
    /// came.
    pub fn phases(&self) -> impl Iterator<Item = Result<Thread>> + use<'_> {
        self.threads()
            .filter(|thread| thread.as_ref().map_or(true, |thread| thread.ml))
    }

    /// All processes with tracked threads that the caller may see, machine-learning programs or
    /// not, in the order in which they came.
    pub fn processes(&self) -> impl Iterator<Item = Result<Process>> + use<'_> {
        self.entries(Call::ListProcesses, abi::ZERNEL_LIST_PROCESSES, ALL)
            .map(|raw| raw.map(|raw: abi::zernel_process_info| Process::from(&raw)))
    }

    /// The tracked cgroups that the caller may see, by their ids.
    pub fn cgroups(&self) -> impl Iterator<Item = Result<Cgroup>> + use<'_> {
        self.entries(Call::ListCgroups, abi::ZERNEL_LIST_CGROUPS, ALL)
            .map(|raw| raw.map(|raw: abi::zernel_cgroup_info| Cgroup::from(&raw)))
    }

    /// States that a thread is in `phase` for `duration`, over the detected phase. A duration of
    /// zero ends the last hint.
    ///
    /// Errors: [`Error::Call`] with `EINVAL` for more than [`phase::HINT_MAX`], `EPERM`, `ENODATA`
    /// when it is not tracked as one of a machine-learning program, or `ESRCH`.
    pub fn hint(&self, thread: &Target, phase: Phase, duration: Duration) -> Result<()> {
        let mut raw = phase::hint(thread, phase, duration);
        zernel::hint(self.as_fd(), &mut raw).map_err(self.failed(Call::Hint))
    }

    /// The module's counters.
    pub fn stats(&self) -> Result<Stats> {
        let call = Call::Stats;
        let mut entries = self.entries(call, abi::ZERNEL_LIST_SYSTEM, ALL);
        let raw = entries.next();
        let raw = raw.unwrap_or(Err(Error::Malformed("no counters of the module")));
        Ok(Stats::from(&raw?))
    }

    /// The outcomes of requests.
    ///
    /// Errors: [`Error::Call`] with `ENOENT` for a TSG that is not there or not to be seen, `EPERM`
    /// for anything but a TSG without `CAP_PERFMON`.
    pub fn request_stats(&self, of: request::Of) -> Result<RequestStats> {
        RequestStats::read(self, of)
    }

    /// A histogram of durations of requests.
    ///
    /// Errors: as [`Self::request_stats`].
    pub fn histogram(&self, of: request::Of, durations: Durations) -> Result<Histogram> {
        Histogram::read(self, of, durations)
    }

    /// The context switches of a GPU, as its provider has measured them.
    ///
    /// Errors: [`Error::Call`] with `ENOENT`; `EPERM` without `CAP_PERFMON`.
    pub fn switches(&self, gpu: gpu::Id) -> Result<Histogram> {
        Histogram::read_switches(self, gpu)
    }

    /// Starts a new stream of all events, from now on.
    pub fn events(&self) -> Result<EventStream> {
        self.events_of(&Wanted::all())
    }

    /// Starts a new stream of these events, from now on.
    ///
    /// Errors: as [`EventStream::open_at`].
    pub fn events_of(&self, wanted: &Wanted<'_>) -> Result<EventStream> {
        EventStream::open_at(&self.path, wanted)
    }

    /// Its descriptor.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The open file, for its parts, which must not outlive it.
    pub(crate) fn file(&self) -> &Arc<OwnedFd> {
        &self.fd
    }
}

impl AsFd for Zernel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Opens a device node.
pub(crate) fn open_node(path: &Path, flags: OFlags) -> Result<OwnedFd> {
    rustix::fs::open(path, OFlags::CLOEXEC | flags, Mode::empty()).map_err(|errno| Error::Open {
        path: path.to_owned(),
        errno,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cause;

    #[test]
    fn no_device_says_so() {
        let error = Zernel::open_at("/nonexistent/zernel").unwrap_err();
        assert_eq!(error.cause(), Cause::NoDevice);
    }

    #[test]
    fn another_file_is_no_zernel() {
        let zernel = Zernel::open_at("/dev/null").unwrap();
        assert_eq!(zernel.info().unwrap_err().cause(), Cause::Unsupported);
        assert_eq!(zernel.tsgs().count(), 1, "one error, then the end");
    }
}
