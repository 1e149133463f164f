// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors in words: every error number of every call has a cause and a sentence.

use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;

use crate::probe;

/// Result of every operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A device node or an attribute could not be opened.
    #[error("{}: {}", path.display(), open_sentence(*errno))]
    Open {
        /// The path that was opened.
        path: PathBuf,
        /// Why not.
        errno: Errno,
    },
    /// A path that should name a cgroup could not be opened.
    #[error("{}: no cgroup v2 directory opens at this path: {}", path.display(), system_text(*errno))]
    Cgroup {
        /// The path.
        path: PathBuf,
        /// Why not.
        errno: Errno,
    },
    /// A call failed.
    #[error("{call}: {} ({})", sentence(*call, *errno), name(*errno))]
    Call {
        /// Which one.
        call: Call,
        /// The answer of the kernel.
        errno: Errno,
    },
    /// A request whose deadline zernel does not promise. Nothing has begun.
    #[error("begin request: its deadline cannot be met{}", later(*earliest))]
    Late {
        /// The shortest time to a deadline that would have done; `None`: no later one would, until other
        /// requests are over.
        earliest: Option<Duration>,
    },
    /// A call that changes something, on a device that is open for reading alone.
    #[error("{0}: the device is open read-only; open it for reading and writing")]
    ReadOnly(Call),
    /// The kernel wrote something that the headers do not allow.
    #[error(
        "the kernel wrote {0}: module and program have different ABIs; build both from one version"
    )]
    Malformed(&'static str),
    /// An attribute does not take this value.
    #[error("{attribute}: {why}")]
    Tunable {
        /// Name of the attribute.
        attribute: String,
        /// The fault, as a sentence.
        why: String,
        /// The answer of the kernel, if it was asked.
        errno: Option<Errno>,
    },
    /// The gate of a slot still counts pieces of work of an earlier request.
    #[error(
        "{pieces} pieces of work of an earlier request have not left the gate; wait for them, or \
             take another slot"
    )]
    GateInUse {
        /// Those that have not left.
        pieces: u64,
    },
}

/// Why an operation failed, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// The module is not loaded, or has no such device or attribute.
    NoDevice,
    /// The caller may not do this.
    NotPermitted,
    /// No such GPU, TSG, thread, process, cgroup or context.
    NoSuchTarget,
    /// The target has no assignment of its own.
    NotAssigned,
    /// The TSG carries the work of several processes, which the class would raise together.
    SharedTsg,
    /// The request is over, or was never begun.
    RequestOver,
    /// A quota, an admission budget or a bound of the module is used up.
    Exhausted,
    /// The time given was over.
    TimedOut,
    /// Not now; later it may work.
    TryAgain,
    /// A signal came first.
    Interrupted,
    /// Another user holds the resource, or its time is promised to others.
    Busy,
    /// The module is older than this program.
    Unsupported,
    /// A value is out of range.
    Invalid,
    /// Anything else.
    Other,
}

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A call of one of the devices.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Call {
            $($(#[$doc])* $name,)*
        }

        impl Call {
            /// Every call.
            pub const ALL: &'static [Call] = &[$(Call::$name,)*];
        }

        impl std::fmt::Display for Call {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    $(Self::$name => $text,)*
                })
            }
        }
    };
}

calls! {
    /// `ZERNEL_IOC_INFO`.
    Info = "query the module",
    /// `ZERNEL_IOC_LIST` of GPUs.
    ListGpus = "list GPUs",
    /// `ZERNEL_IOC_LIST` of TSGs.
    ListTsgs = "list TSGs",
    /// `ZERNEL_IOC_CLASS_SET` that sets something.
    ClassSet = "set class",
    /// `ZERNEL_IOC_CLASS_GET`.
    ClassGet = "get class",
    /// `ZERNEL_IOC_CLASS_SET` that only clears.
    ClassClear = "clear class",
    /// `ZERNEL_IOC_LIST` of classes.
    ListClasses = "list classes",
    /// `ZERNEL_IOC_LIST` of the module's counters.
    Stats = "read statistics",
    /// `ZERNEL_IOC_LIST` of levels.
    ListLevels = "list levels",
    /// `ZERNEL_IOC_LIST` of the outcomes of requests.
    ListRequests = "read request statistics",
    /// `ZERNEL_IOC_HISTOGRAM`.
    Histogram = "read histogram",
    /// `mmap()` of slots.
    SlotsMap = "map slots",
    /// `ZERNEL_IOC_REQUEST_BEGIN`.
    Begin = "begin request",
    /// `ZERNEL_IOC_REQUEST_UPDATE`, `ZERNEL_REQUEST_READY`.
    Ready = "make request ready",
    /// `ZERNEL_IOC_REQUEST_UPDATE`, `ZERNEL_REQUEST_DONE`.
    Done = "end request",
    /// `ZERNEL_IOC_REQUEST_UPDATE`, `ZERNEL_REQUEST_CANCEL`.
    Cancel = "cancel request",
    /// `ZERNEL_IOC_TRACK` that sets.
    Track = "track",
    /// `ZERNEL_IOC_TRACK` that clears.
    Untrack = "untrack",
    /// `ZERNEL_IOC_LIST` of tracked threads.
    ListThreads = "list threads",
    /// `ZERNEL_IOC_LIST` of processes with tracked threads.
    ListProcesses = "list processes",
    /// `ZERNEL_IOC_LIST` of tracked cgroups.
    ListCgroups = "list cgroups",
    /// `ZERNEL_IOC_HINT`.
    Hint = "give hint",
    /// `ZERNEL_IOC_SUBSCRIBE`.
    Subscribe = "subscribe to signals",
    /// `ZERNEL_IOC_REMOVE` of a subscription.
    Unsubscribe = "end subscription",
    /// `ZERNEL_IOC_PROBE`.
    Probe = "add probe",
    /// `ZERNEL_IOC_REMOVE` of a probe.
    RemoveProbe = "remove probe",
    /// `ZERNEL_IOC_EVENTS`, and `read()` and `poll()` of the event stream.
    Events = "read events",
    /// `pidfd_open()`.
    Pidfd = "open pidfd",
    /// `ZERNEL_SIM_IOC_VERSION`.
    SimVersion = "query software GPU",
    /// `ZERNEL_SIM_IOC_GPU_INFO`.
    SimGpuInfo = "describe software GPU",
    /// `ZERNEL_SIM_IOC_CONTEXT_CREATE`.
    SimContextCreate = "create context",
    /// `ZERNEL_SIM_IOC_CONTEXT_DESTROY`.
    SimContextDestroy = "destroy context",
    /// `ZERNEL_SIM_IOC_SUBMIT`.
    SimSubmit = "submit work",
    /// `ZERNEL_SIM_IOC_WAIT`.
    SimWait = "wait for work",
    /// `ZERNEL_SIM_IOC_EVENTFD`.
    SimEventfd = "set eventfd",
    /// `ZERNEL_SIM_IOC_DOORBELL`.
    SimDoorbell = "ring doorbell",
    /// `ZERNEL_SIM_IOC_COMPLETIONS`.
    SimCompletions = "take completions",
    /// `ZERNEL_SIM_IOC_TSG_STATS`.
    SimTsgStats = "read statistics of a TSG",
    /// `ZERNEL_SIM_IOC_ENGINE_STATS`.
    SimEngineStats = "read statistics of an engine",
    /// `ZERNEL_SIM_IOC_TRACE_START`.
    SimTraceStart = "start trace",
    /// `ZERNEL_SIM_IOC_TRACE_READ`.
    SimTraceRead = "read trace",
    /// `ZERNEL_SIM_IOC_FAULT`.
    SimFault = "inject fault",
    /// `ZERNEL_SIM_IOC_SUSPEND`.
    SimSuspend = "suspend software GPU",
    /// `ZERNEL_SIM_IOC_TSG_CONTROL`.
    SimTsgControl = "change TSG",
    /// `ZERNEL_SIM_IOC_TSG_DESCRIBE`.
    SimTsgDescribe = "describe TSG",
    /// `ZERNEL_SIM_IOC_MEMORY`.
    SimMemory = "add memory",
    /// `ZERNEL_SIM_IOC_CONTEXT_ATTACH`.
    SimContextAttach = "attach to the driver's TSG",
    /// `ZERNEL_SIM_IOC_REGISTERS`.
    SimRegisters = "make registers lie",
    /// `mmap()` of the semaphore words.
    SimWords = "map semaphore words",
}

impl Error {
    /// Makes the error of `call` from the kernel's answer.
    pub fn call(call: Call) -> impl Fn(Errno) -> Self {
        move |errno| Self::Call { call, errno }
    }

    /// The answer of the kernel, unless the error is of our own making.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Open { errno, .. } | Self::Cgroup { errno, .. } | Self::Call { errno, .. } => {
                Some(*errno)
            }
            Self::ReadOnly(_) => Some(Errno::BADF),
            Self::Late { .. } => Some(Errno::BUSY),
            Self::Tunable { errno, .. } => *errno,
            Self::Malformed(_) | Self::GateInUse { .. } => None,
        }
    }

    /// Why it failed, for programs.
    pub fn cause(&self) -> Cause {
        match self {
            Self::Open { errno, .. } => match *errno {
                Errno::NOENT | Errno::NODEV | Errno::NXIO | Errno::NOTDIR => Cause::NoDevice,
                errno => general_cause(errno),
            },
            Self::Cgroup { errno, .. } => match *errno {
                Errno::NOENT | Errno::NOTDIR => Cause::NoSuchTarget,
                errno => general_cause(errno),
            },
            Self::Call { call, errno } => call_cause(*call, *errno),
            Self::ReadOnly(_) => Cause::NotPermitted,
            Self::Malformed(_) => Cause::Unsupported,
            Self::GateInUse { .. } => Cause::TryAgain,
            Self::Late { .. } => Cause::Busy,
            Self::Tunable { errno, .. } => match *errno {
                Some(Errno::NOENT) => Cause::NoSuchTarget,
                Some(errno) => general_cause(errno),
                None => Cause::Invalid,
            },
        }
    }
}

fn call_cause(call: Call, errno: Errno) -> Cause {
    match (call, errno) {
        (Call::ClassClear | Call::Untrack | Call::Hint, Errno::NODATA) => Cause::NotAssigned,
        (Call::Track | Call::Probe, Errno::OPNOTSUPP) => Cause::Unsupported,
        (Call::Probe, Errno::NODEV | Errno::NOEXEC) => Cause::Invalid,
        (Call::Track | Call::Untrack, Errno::BADF) => Cause::NoSuchTarget,
        (Call::ClassSet, Errno::OPNOTSUPP) => Cause::SharedTsg,
        (Call::Begin, Errno::RANGE | Errno::DOM | Errno::NODATA | Errno::NOLCK) => Cause::Invalid,
        (_, Errno::STALE) | (Call::Begin, Errno::CANCELED) => Cause::RequestOver,
        (Call::ClassSet | Call::ClassGet | Call::ClassClear | Call::ListClasses, Errno::BADF) => {
            Cause::NoSuchTarget
        }
        (_, Errno::NOENT | Errno::NXIO | Errno::SRCH) => Cause::NoSuchTarget,
        (_, errno) => general_cause(errno),
    }
}

fn general_cause(errno: Errno) -> Cause {
    match errno {
        Errno::PERM | Errno::ACCESS => Cause::NotPermitted,
        Errno::DQUOT | Errno::NOSPC | Errno::NOMEM | Errno::MFILE | Errno::NFILE | Errno::MLINK => {
            Cause::Exhausted
        }
        Errno::TIME | Errno::TIMEDOUT => Cause::TimedOut,
        Errno::AGAIN => Cause::TryAgain,
        Errno::INTR => Cause::Interrupted,
        Errno::BUSY => Cause::Busy,
        Errno::NOTTY | Errno::TOOBIG => Cause::Unsupported,
        Errno::INVAL | Errno::FAULT | Errno::BADF | Errno::RANGE | Errno::LOOP => Cause::Invalid,
        Errno::NODEV | Errno::NXIO => Cause::NoDevice,
        _ => Cause::Other,
    }
}

fn open_sentence(errno: Errno) -> String {
    match errno {
        Errno::NOENT | Errno::NODEV | Errno::NXIO => {
            "not there; load the module first (modprobe)".to_owned()
        }
        Errno::ACCESS | Errno::PERM => "its permissions do not let you open it".to_owned(),
        errno => system_text(errno),
    }
}

/// A deadline that can be met, as the end of a sentence.
fn later(earliest: Option<Duration>) -> String {
    match earliest {
        Some(time) => format!(
            "; one that is {} us away can",
            time.as_nanos().div_ceil(1_000)
        ),
        None => ", nor a later one until other requests are over".to_owned(),
    }
}

/// The meaning of `errno` as the answer to `call`: the headers' lists as sentences.
fn sentence(call: Call, errno: Errno) -> String {
    use Call::*;
    if let (Probe | RemoveProbe, Some(text)) = (call, probe::sentence(errno)) {
        return text.to_owned();
    }
    let text = match (call, errno) {
        (ClassSet, Errno::PERM) => {
            "to raise a target, or to name another user's, needs CAP_SYS_NICE or membership of the \
             group in the tunable lc_gid"
        }
        (ClassClear, Errno::PERM) => {
            "to clear a manager's attributes, attributes that hold the target down, or another user's, \
             needs CAP_SYS_NICE or membership of the group in the tunable lc_gid"
        }
        (ClassGet, Errno::PERM) => {
            "to read another user's target needs CAP_PERFMON, CAP_SYS_NICE or membership of the group \
             in the tunable lc_gid"
        }
        (ClassSet, Errno::DQUOT) => {
            "your quota of assignments, or the tunable lc_admission, is used up; clear a class first"
        }
        (ClassSet, Errno::NOSPC) => {
            "the module's room for assignments is used up; clear a class first"
        }
        (ClassClear, Errno::NODATA) => "the target has no such attribute of its own",
        (ClassSet, Errno::OPNOTSUPP) => {
            "several processes share the TSG (MPS), and a level from 0 to 5 would raise all of them; \
             name a process that does not use MPS, or a level of 6 or 7"
        }
        (ClassSet | ClassGet | ClassClear | ListClasses, Errno::NOENT) => {
            "there is no such TSG, or you may not see it"
        }
        (ClassSet | ClassGet | ClassClear | ListClasses, Errno::SRCH) => {
            "there is no such thread, process or cgroup (any more)"
        }
        (ClassSet | ClassGet | ClassClear | ListClasses, Errno::BADF) => {
            "the file is neither a pidfd nor a cgroup v2 directory"
        }
        (_, Errno::LOOP) => {
            "the cgroup is more than 31 levels below the root; name one of those above it"
        }
        (Track | Untrack, Errno::PERM) => {
            "to track another user's target, or to end a manager's tracking, needs CAP_SYS_NICE or \
             membership of the group in the tunable lc_gid"
        }
        (Track, Errno::DQUOT) => {
            "its user's quota of tracked threads, or yours of tracked cgroups, is used up; untrack \
             something first"
        }
        (Track, Errno::NOSPC) => {
            "the module's room for tracked threads, or cgroups, is used up; untrack something first"
        }
        (Track, Errno::OPNOTSUPP) => {
            "the kernel has no preempt notifiers; build it with CONFIG_PREEMPT_NOTIFIERS"
        }
        (Untrack, Errno::NODATA) => "the target is not tracked",
        (Untrack, Errno::BUSY) => {
            "the thread is tracked with its process, or the target with its cgroup; untrack that"
        }
        (Track | Untrack, Errno::SRCH) => {
            "there is no such thread, process or cgroup (any more), or it is the kernel's own"
        }
        (Track | Untrack, Errno::BADF) => "the file is neither a pidfd nor a cgroup v2 directory",
        (Hint, Errno::PERM) => {
            "to give a hint about another user's thread needs CAP_SYS_NICE or membership of the group \
             in the tunable lc_gid"
        }
        (Hint, Errno::INVAL) => "there is no such phase, or the hint would hold for more than 60 s",
        (Hint, Errno::NODATA) => {
            "the thread has no phases; track its process as a machine-learning program first \
             (zernelctl track --ml)"
        }
        (Hint, Errno::SRCH) => "there is no such thread, or it is the kernel's own",
        (Subscribe, Errno::PERM) => {
            "to subscribe to a process that runs, even in part, as another user needs CAP_PERFMON"
        }
        (Subscribe, Errno::SRCH) => {
            "there is no such process, or it is the kernel's own"
        }
        (Subscribe, Errno::INVAL) => {
            "the target is not a process, or the range is out of bounds: a part has 1 byte to 1 GiB, \
             and the span holds one part at least"
        }
        (Subscribe, Errno::BADF) => {
            "a file has the wrong type: the subscription takes an eventfd, a pidfd, and a regular file \
             or block device that is open for reading"
        }
        (Subscribe, Errno::BUSY) => "the slot has a subscription already; take another slot",
        (Subscribe, Errno::NXIO) => "there is no such slot",
        (Subscribe, Errno::DQUOT) => {
            "your quota of subscriptions, or of bytes that they read ahead (tunable \
             prefetch_readahead_bytes), is used up; end a subscription first"
        }
        (Unsubscribe, Errno::NOENT) => "there is no such subscription",
        (SlotsMap, Errno::INVAL) => "the number of slots is out of range: a file takes 1 to slots_max of ZERNEL_IOC_INFO",
        (SlotsMap, Errno::ACCESS) => "the device is open read-only; open it for reading and writing",
        (SlotsMap, Errno::DQUOT) => "your quota of slot pages is used up; close a file with slots first",
        (Begin, Errno::NXIO) => "there is no such slot; map its page first",
        (Begin, Errno::NOENT) => "there is no such TSG, or you may not see it",
        (Begin, Errno::PERM) => {
            "a request for another user's TSG needs CAP_SYS_NICE; one without a holder needs a class \
             above 6 in force"
        }
        (Begin, Errno::INVAL) => {
            "a request without a holder can have no gate; or the loaded module is older than gates"
        }
        (Begin, Errno::CANCELED) => "the gate of the slot has failed; arm it anew first",
        (Begin, Errno::RANGE) => "a deadline can be promised only to a request that has one",
        (Begin, Errno::NOLCK) => "deadlines are promised with the tunable order at edf alone",
        (Begin, Errno::DOM) => {
            "deadlines are promised to TSGs with a level above best-effort; set a class first"
        }
        (Begin, Errno::NODATA) => {
            "nothing is known of the GPU time of this key; tell it, or begin once without a promise"
        }
        (Begin, Errno::DQUOT) => "your places in the order of the GPU are taken; end a request first",
        (Begin, Errno::NOSPC) => "all places in the order of the GPU are taken; begin later",
        (Begin, Errno::AGAIN) => "the GPU's driver sleeps or does not answer; begin later",
        (Ready | Done | Cancel, Errno::NXIO) => "there is no such slot",
        (Ready | Done | Cancel, Errno::STALE) => "the request is over, or never began",
        (ListTsgs | ListRequests | Histogram, Errno::NOENT) => {
            "there is no such TSG, GPU or level, or you may not see it"
        }
        (ListLevels | ListRequests | Histogram, Errno::PERM) => {
            "to read other users' requests, too, needs CAP_PERFMON"
        }
        (Pidfd, Errno::SRCH) => "there is no such process",
        (Events, Errno::BUSY) => "the stream runs with another number of events; keep that, or open a stream of its own",
        (Events, Errno::NODATA) => "the stream was ended; open another",
        (Events, Errno::NOENT) => "there is no such TSG or GPU, or you may not see it",
        (Events, Errno::SRCH) => "there is no such thread, process or cgroup (any more)",
        (Events, Errno::DQUOT) => "your quota of event streams is used up; close one first",
        (SimContextCreate, Errno::NOSPC) => "the GPU's room for TSGs or channels is used up; destroy a context first",
        (SimContextCreate, Errno::DQUOT) => "your quota of contexts is used up; destroy one first",
        (SimContextCreate, Errno::MLINK) => {
            "8 TSGs share the semaphore words of that context already; share another's"
        }
        (SimContextCreate, Errno::NOENT) => "there is no such GPU or engine, or no such context to share with",
        (SimGpuInfo | SimEngineStats | SimSuspend | SimFault | SimTraceStart, Errno::NOENT) => {
            "there is no such GPU or engine"
        }
        (SimTsgStats, Errno::NOENT) => "there is no such TSG",
        (SimTsgStats, Errno::PERM) => "the TSG is another user's",
        (SimSubmit, Errno::NOSPC) => {
            "the GPU's room for items of all users is used up; wait until some are done"
        }
        (SimSubmit, Errno::AGAIN) => "the channel is full; wait until an item is done",
        (SimSubmit, Errno::DQUOT) => "your quota of items queued is used up; wait until some are done",
        (SimWait, Errno::TIME) => "the work was not done at the deadline",
        (SimWait, Errno::NOENT) => "the context was destroyed",
        (SimWait, Errno::INVAL) => "no item with this number was submitted",
        (SimEventfd, Errno::BADF) => "the eventfd is not open",
        (SimEventfd, Errno::INVAL) => "the file is not an eventfd",
        (SimTraceStart, Errno::PERM) => "a trace needs CAP_PERFMON",
        (SimTraceStart, Errno::BUSY) => "the GPU has a trace already; end it first",
        (SimTraceRead, Errno::PERM) => "another file has started the trace; read it there",
        (SimFault | SimSuspend | SimTsgDescribe, Errno::PERM) => "this call needs CAP_SYS_ADMIN",
        (SimTsgControl, Errno::PERM) => {
            "the TSG has a class: its owner can change it only as the tunable user_control allows"
        }
        (SimTsgControl, Errno::AGAIN) => "the GPU is suspended; resume it first",
        (SimTsgDescribe, Errno::NOENT) => "there is no such context, or zernel does not list it",
        (_, Errno::NOENT) => "there is no such GPU, context, channel or TSG",
        (_, Errno::INVAL) => "a value is out of range",
        (_, Errno::TOOBIG) => "the loaded module is older than this call; load a newer one",
        (_, Errno::NOTTY) => {
            "this is no zernel device, or the loaded module is older than this call"
        }
        (_, Errno::NOMEM) => "the kernel is out of memory",
        (_, Errno::INTR) => "a signal interrupted the call; repeat it",
        (_, Errno::PERM | Errno::ACCESS) => "you lack the permission for this call",
        (_, errno) => return system_text(errno),
    };
    text.to_owned()
}

fn system_text(errno: Errno) -> String {
    std::io::Error::from(errno).to_string()
}

/// The symbolic name of the error numbers that the headers speak of.
fn name(errno: Errno) -> String {
    let name = match errno {
        Errno::ACCESS => "EACCES",
        Errno::AGAIN => "EAGAIN",
        Errno::BADF => "EBADF",
        Errno::BUSY => "EBUSY",
        Errno::DOM => "EDOM",
        Errno::DQUOT => "EDQUOT",
        Errno::FAULT => "EFAULT",
        Errno::INTR => "EINTR",
        Errno::LOOP => "ELOOP",
        Errno::INVAL => "EINVAL",
        Errno::IO => "EIO",
        Errno::MLINK => "EMLINK",
        Errno::NODATA => "ENODATA",
        Errno::NODEV => "ENODEV",
        Errno::NOENT => "ENOENT",
        Errno::NOEXEC => "ENOEXEC",
        Errno::NOLCK => "ENOLCK",
        Errno::NOMEM => "ENOMEM",
        Errno::NOSPC => "ENOSPC",
        Errno::NOTTY => "ENOTTY",
        Errno::OPNOTSUPP => "EOPNOTSUPP",
        Errno::PERM => "EPERM",
        Errno::RANGE => "ERANGE",
        Errno::SRCH => "ESRCH",
        Errno::STALE => "ESTALE",
        Errno::TIME => "ETIME",
        Errno::TIMEDOUT => "ETIMEDOUT",
        Errno::TOOBIG => "E2BIG",
        errno => return format!("errno {}", errno.raw_os_error()),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests;
