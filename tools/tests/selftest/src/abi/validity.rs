// SPDX-License-Identifier: MIT OR Apache-2.0
//! The validity of every field of every call, as one table: what is refused, and by which errno.
//!
//! A line changes a structure that the call takes. The driver makes the call, expects the errno, and
//! looks that neither the structure nor anything in the module is another than before.

use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Context as _, Result};
use bytemuck::bytes_of;
use libzernel::sys::abi;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{pidfd_open, PidfdFlags};

use super::sizes::refused;
use super::stage::{own, Call, Stage, CALLS};
use super::stage::{CGROUP, GPU, LEVEL, NONE, PROCESS, THREAD, TSG};
use crate::child::Child;
use crate::common::{ended_thread, SOON};
use crate::harness::Outcome;

/// A line of a table: values of a field that a call refuses on a stage of type `S`.
pub struct Line<S> {
    pub call: &'static str,
    /// The field, and other fields that are changed as well.
    pub change: &'static str,
    pub values: fn(&S) -> Vec<i128>,
    pub errno: Errno,
    /// Puts one of the values into the structure.
    pub make: fn(&S, &mut [u8], i128),
}

/// Lines of a call: values of a field of its structure, assignments to others, and the errno.
macro_rules! lines {
    ($stage:ident: $type_of_stage:ty; $($call:literal $type:ident {
        $($($field:tt).+ in [$($value:expr),+] $(, $($other:tt).+ = $fixed:expr)* => $errno:ident;)*
    })*) => {
        &[$($($crate::abi::validity::Line {
            call: $call,
            change: stringify!($($field).+ $(, $($other).+ = $fixed)*),
            values: |$stage: &$type_of_stage| {
                let _ = $stage;
                vec![$($value as i128),+]
            },
            errno: Errno::$errno,
            make: |$stage: &$type_of_stage, bytes, value| {
                let _ = $stage;
                let mut structure: abi::$type = bytemuck::pod_read_unaligned(bytes);
                structure.$($field).+ = value as _;
                $(structure.$($other).+ = $fixed;)*
                bytes.copy_from_slice(bytemuck::bytes_of(&structure));
            },
        },)*)*]
    };
}
pub(crate) use lines;

/// No object has this id: ids begin with the time in µs.
const NO_ID: u64 = 1;

/// Fields that hold an unknown flag, kind or value, reserved input that is not zero, or a value out of
/// range. Targets have a table of their own.
const LINES: &[Line<Stage>] = lines! { stage: Stage;
    "INFO" zernel_info {
        flags in [1, 1 << 31] => INVAL;
        reserved in [1] => INVAL;
    }
    "LIST" zernel_list {
        kind in [0, 11, u32::MAX] => INVAL;
        flags in [1, 1 << 31] => INVAL;
        room in [0] => INVAL;
        entry_size in [0, abi::ZERNEL_GPU_INFO_SIZE_1 - 8, abi::ZERNEL_GPU_INFO_SIZE_1 + 4] => INVAL;
        entry_size in [4097, 4104, u32::MAX] => INVAL;
        entry_size in [abi::ZERNEL_SYSTEM_INFO_SIZE_1 - 8], kind = abi::ZERNEL_LIST_SYSTEM => INVAL;
        entry_size in [abi::ZERNEL_LEVEL_INFO_SIZE_1 - 8], kind = abi::ZERNEL_LIST_LEVELS => INVAL;
        entry_size in [abi::ZERNEL_REQUEST_INFO_SIZE_1 - 8],
            kind = abi::ZERNEL_LIST_LEVEL_REQUESTS => INVAL;
        entry_size in [abi::ZERNEL_TSG_INFO_SIZE_1 - 8], kind = abi::ZERNEL_LIST_TSGS => INVAL;
        entry_size in [abi::ZERNEL_REQUEST_INFO_SIZE_1 - 8],
            kind = abi::ZERNEL_LIST_TSG_REQUESTS => INVAL;
        entry_size in [abi::ZERNEL_CLASS_INFO_SIZE_1 - 8], kind = abi::ZERNEL_LIST_CLASSES => INVAL;
        entry_size in [abi::ZERNEL_PROCESS_INFO_SIZE_1 - 8],
            kind = abi::ZERNEL_LIST_PROCESSES => INVAL;
        entry_size in [abi::ZERNEL_THREAD_INFO_SIZE_1 - 8], kind = abi::ZERNEL_LIST_THREADS => INVAL;
        entry_size in [abi::ZERNEL_CGROUP_INFO_SIZE_1 - 8], kind = abi::ZERNEL_LIST_CGROUPS => INVAL;
        entries in [0, u64::MAX, 0xffff_8000_0000_0000u64] => FAULT;
        entries in [stage.entries.address(4096 - 256)] => FAULT;
        filter.kind in [abi::ZERNEL_TARGET_GPU], kind = abi::ZERNEL_LIST_SYSTEM => INVAL;
        filter.kind in [abi::ZERNEL_TARGET_TSG], kind = abi::ZERNEL_LIST_LEVELS => INVAL;
        filter.kind in [abi::ZERNEL_TARGET_LEVEL], kind = abi::ZERNEL_LIST_TSGS => INVAL;
        filter.kind in [abi::ZERNEL_TARGET_GPU], kind = abi::ZERNEL_LIST_CLASSES => INVAL;
        filter.kind in [abi::ZERNEL_TARGET_TSG], kind = abi::ZERNEL_LIST_THREADS => INVAL;
        filter.kind in [abi::ZERNEL_TARGET_THREAD], kind = abi::ZERNEL_LIST_PROCESSES,
            filter.flags = abi::ZERNEL_TARGET_SELF => INVAL;
        filter.kind in [abi::ZERNEL_TARGET_PROCESS], kind = abi::ZERNEL_LIST_CGROUPS,
            filter.flags = abi::ZERNEL_TARGET_SELF => INVAL;
        filter.id in [NO_ID], kind = abi::ZERNEL_LIST_LEVELS,
            filter.kind = abi::ZERNEL_TARGET_LEVEL => NOENT;
        filter.id in [NO_ID], kind = abi::ZERNEL_LIST_TSGS,
            filter.kind = abi::ZERNEL_TARGET_TSG => NOENT;
    }
    "HISTOGRAM" zernel_histogram {
        kind in [0, 4, abi::ZERNEL_HISTOGRAM_SWITCH] => INVAL;
        flags in [1, 1 << 31] => INVAL;
        reserved in [1] => INVAL;
        buckets in [u64::MAX], room = 1 => FAULT;
        buckets in [stage.entries.address(4096 - 8)], room = 2 => FAULT;
    }
    "EVENTS" zernel_events {
        kinds in [1, 1 << 17, 1u64 << 63, u64::MAX] => INVAL;
        capacity in [1, 15, 65_537, u32::MAX] => INVAL;
        capacity in [15], kinds = 0 => INVAL;
        flags in [1] => INVAL;
        flags in [1], kinds = 0 => INVAL;
    }
    "REMOVE" zernel_remove {
        handle in [0, u32::MAX] => NOENT;
        flags in [1, 1 << 31] => INVAL;
    }
    "CLASS_SET" zernel_class_set {
        set in [1 << 5, 1 << 31, u32::MAX] => INVAL;
        clear in [1 << 5, 1 << 31, u32::MAX - 1] => INVAL;
        clear in [abi::ZERNEL_CLASS_PREEMPTIBLE, abi::ZERNEL_CLASS_DEADLINE] => OPNOTSUPP;
        level in [8, 256, abi::ZERNEL_LEVEL_NONE] => INVAL;
        level in [7], set = 0 => INVAL;
        clear in [0, abi::ZERNEL_CLASS_WEIGHT, u32::MAX], set = 0, level = 0 => NODATA;
        weight in [1024] => INVAL;
        timeslice_us in [100] => INVAL;
        preemptible in [1] => INVAL;
        deadline_ns in [1] => INVAL;
        weight in [0, 10_001, u32::MAX], set = abi::ZERNEL_CLASS_WEIGHT, level = 0 => INVAL;
        timeslice_us in [0, 9, 10_000_001, u32::MAX], set = abi::ZERNEL_CLASS_TIMESLICE,
            level = 0 => INVAL;
        preemptible in [0], set = abi::ZERNEL_CLASS_PREEMPTIBLE, level = 0 => OPNOTSUPP;
        preemptible in [2], set = abi::ZERNEL_CLASS_PREEMPTIBLE, level = 0 => INVAL;
        deadline_ns in [9], set = abi::ZERNEL_CLASS_DEADLINE, level = 0 => OPNOTSUPP;
        deadline_ns in [0], set = abi::ZERNEL_CLASS_DEADLINE, level = 0 => INVAL;
    }
    "CLASS_GET" zernel_class_get {
        flags in [1, 1 << 31] => INVAL;
        reserved in [1] => INVAL;
    }
    "REQUEST_BEGIN" zernel_request_begin {
        tsg in [0, NO_ID, u64::MAX] => NOENT;
        slot in [16_383, 16_384, u32::MAX] => NXIO;
        slot in [16_383, u32::MAX], flags = abi::ZERNEL_REQUEST_GATE => NXIO;
        flags in [1 << 3, 1 << 31, abi::ZERNEL_REQUEST_GATE | 1 << 31] => INVAL;
        flags in [abi::ZERNEL_REQUEST_GATE | abi::ZERNEL_REQUEST_NO_HOLDER, 7] => INVAL;
        options in [1, u64::MAX - 3] => FAULT;
        options in [stage.entries.address(0)] => INVAL;
        options in [40], flags = abi::ZERNEL_REQUEST_GATE => FAULT;
    }
    "REQUEST_UPDATE" zernel_request_update {
        slot in [16_383, 16_384, u32::MAX] => NXIO;
        slot in [2] => STALE;
        request in [0, u32::MAX] => STALE;
        action in [0, 4, u32::MAX] => INVAL;
        flags in [1, 1 << 31] => INVAL;
    }
    "TRACK" zernel_track {
        set in [0, 1 << 3, 1 << 31] => INVAL;
        clear in [1] => INVAL;
        clear in [abi::ZERNEL_TRACK_ML, u32::MAX], set = 0 => INVAL;
        set in [abi::ZERNEL_TRACK_CHILDREN], target = own(abi::ZERNEL_TARGET_THREAD) => INVAL;
    }
    "HINT" zernel_hint {
        kind in [0, 2] => INVAL;
        flags in [1, 1 << 31] => INVAL;
        value in [5, u64::MAX, 1u64 << 32] => INVAL;
        duration_ns in [abi::ZERNEL_HINT_MAX_NS + 1, u64::MAX] => INVAL;
    }
    "SUBSCRIBE" zernel_subscribe {
        signal in [0, 2] => INVAL;
        action in [0, 4, abi::ZERNEL_ACTION_WORD, abi::ZERNEL_ACTION_READ_AHEAD] => INVAL;
        flags in [1, 1 << 31] => INVAL;
        reserved in [1] => INVAL;
        fd in [-1, i32::MIN, stage.null.as_raw_fd()] => BADF;
        slot in [1] => INVAL;
        offset in [1] => INVAL;
        length in [1] => INVAL;
        span in [1] => INVAL;
        slot in [16_383, u32::MAX], action = abi::ZERNEL_ACTION_WORD, fd = 0 => NXIO;
        length in [1], action = abi::ZERNEL_ACTION_WORD, fd = 0 => INVAL;
        fd in [stage.bell.as_raw_fd(), -1], action = abi::ZERNEL_ACTION_READ_AHEAD,
            length = 4096 => BADF;
        length in [0, u64::from(abi::ZERNEL_READ_AHEAD_MAX) + 1],
            action = abi::ZERNEL_ACTION_READ_AHEAD, fd = stage.library.as_raw_fd() => INVAL;
        span in [1], action = abi::ZERNEL_ACTION_READ_AHEAD, fd = stage.library.as_raw_fd(),
            length = 2 => INVAL;
        offset in [u64::MAX, i64::MAX], action = abi::ZERNEL_ACTION_READ_AHEAD,
            fd = stage.library.as_raw_fd(), length = 4096 => INVAL;
        slot in [1], action = abi::ZERNEL_ACTION_READ_AHEAD, fd = stage.library.as_raw_fd(),
            length = 4096 => INVAL;
    }
    "PROBE" zernel_probe {
        fd in [-1, i32::MIN] => BADF;
        fd in [stage.null.as_raw_fd()] => NODEV;
        flags in [1, 1 << 31] => INVAL;
        offset in [u64::MAX, 1u64 << 40] => RANGE;
    }
};

/// Each byte of the output that an earlier call left.
const OLD_OUTPUT: u8 = 0x5a;

/// Every line of the table.
pub(super) fn fields() -> Outcome {
    let stage = Stage::new()?;
    for line in LINES {
        let call = Call::named(line.call);
        for value in (line.values)(&stage) {
            let mut bytes = stage.good(call)?;
            (line.make)(&stage, &mut bytes, value);
            // The output of an earlier call outlives one that fails.
            bytes[call.input..].fill(OLD_OUTPUT);
            let what = format!("{} with {} {value:#x}", line.call, line.change);
            refused(&stage, call.number, &bytes, line.errno, &what)?;
        }
    }
    Ok(())
}

/// Descriptors that targets can be confused with.
struct Descriptors {
    zombie: Child,
    ended: u32,
    process: OwnedFd,
    thread: OwnedFd,
    folder: OwnedFd,
}

/// A target that is refused where one of its kinds is taken.
struct Wrong {
    kinds: &'static [u32],
    what: &'static str,
    flags: u32,
    id: fn(&Stage, &Descriptors) -> u64,
    errno: Errno,
}

macro_rules! wrong {
    ($stage:ident, $fds:ident;
     $([$($kind:ident),+] $what:literal: $flags:expr, $id:expr => $errno:ident;)*) => {
        &[$(Wrong {
            kinds: &[$($kind),+],
            what: $what,
            flags: $flags,
            id: |$stage, $fds| {
                let _ = ($stage, $fds);
                $id
            },
            errno: Errno::$errno,
        },)*]
    };
}

const FD: u32 = abi::ZERNEL_TARGET_FD;
const SELF: u32 = abi::ZERNEL_TARGET_SELF;

/// Above what a pid can be.
const NO_PID: u64 = 0x7fff_fff0;

fn number(fd: &impl AsRawFd) -> u64 {
    fd.as_raw_fd() as u64
}

const WRONG: &[Wrong] = wrong! { stage, fds;
    [NONE] "an id": 0, 1 => INVAL;
    [CGROUP] "a number": 0, 1 => INVAL;
    [NONE, CGROUP, TSG, GPU] "the caller's": SELF, 0 => INVAL;
    [PROCESS, THREAD] "the caller with a number": SELF, 1 => INVAL;
    [CGROUP, PROCESS, THREAD] "both flags": FD | SELF, 0 => INVAL;
    [NONE, TSG, GPU, LEVEL] "a descriptor": FD, number(&fds.process) => INVAL;
    [CGROUP] "an unknown flag": FD | 4, number(&fds.folder) => INVAL;
    [PROCESS, THREAD] "an unknown flag": 4, 1 => INVAL;
    [PROCESS, THREAD] "another unknown flag": 1 << 31, 1 => INVAL;
    [TSG] "an unknown flag": 4, stage.tsg.as_u64() => INVAL;
    [CGROUP, PROCESS, THREAD] "no descriptor": FD, u64::MAX => BADF;
    [CGROUP, PROCESS] "more than an int as descriptor": FD, 1 << 31 => BADF;
    [CGROUP] "an int as descriptor, and more": FD, 1 << 32 => BADF;
    [CGROUP, PROCESS, THREAD] "another file": FD, number(&stage.null) => BADF;
    [CGROUP] "another folder": FD, number(&fds.folder) => BADF;
    [CGROUP, THREAD] "a process's pidfd": FD, number(&fds.process) => BADF;
    [PROCESS] "a thread's pidfd": FD, number(&fds.thread) => BADF;
    [PROCESS, THREAD] "number 0": 0, 0 => SRCH;
    [PROCESS, THREAD] "no such number": 0, NO_PID => SRCH;
    [PROCESS] "more than an int": 0, 1 << 32 | 1 => SRCH;
    [PROCESS, THREAD] "a kernel thread": 0, 2 => SRCH;
    [PROCESS, THREAD] "a zombie": 0, fds.zombie.pid().into() => SRCH;
    [THREAD] "one that has ended": 0, fds.ended.into() => SRCH;
    [TSG, GPU, LEVEL] "id 0": 0, 0 => NOENT;
    [TSG] "no such id": 0, u64::MAX => NOENT;
    [GPU, LEVEL] "a TSG's id": 0, stage.tsg.as_u64() => NOENT;
};

/// Every wrong target, in every call; and kinds that a call does not take.
pub(super) fn targets() -> Outcome {
    let stage = Stage::new()?;
    let (me, thread) = (rustix::process::getpid(), rustix::thread::gettid());
    // PIDFD_THREAD, which has the value of O_EXCL.
    let of_thread = PidfdFlags::from_bits_retain(OFlags::EXCL.bits());
    let folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let zombie = Child::spawn(|| Ok(()))?;
    zombie.wait_ended(SOON)?;
    let fds = Descriptors {
        zombie,
        ended: ended_thread()?,
        process: pidfd_open(me, PidfdFlags::empty())?,
        thread: pidfd_open(thread, of_thread).context("a thread's pidfd")?,
        folder: rustix::fs::open("/proc", folder, Mode::empty())?,
    };
    for call in CALLS.iter().filter(|call| !call.targets.is_empty()) {
        for wrong in WRONG {
            for &kind in wrong
                .kinds
                .iter()
                .filter(|kind| call.targets.contains(kind))
            {
                let target = abi::zernel_target {
                    kind,
                    flags: wrong.flags,
                    id: (wrong.id)(&stage, &fds),
                };
                let what = format!("{} of kind {kind}: {}", call.name, wrong.what);
                let bytes = with_target(&stage, call, target)?;
                refused(&stage, call.number, &bytes, wrong.errno, &what)?;
            }
        }
        for kind in (0..=7).chain([255, u32::MAX]) {
            // There is another kind of histogram for a GPU.
            let of_gpu = call.name == "HISTOGRAM" && kind == GPU;
            if !of_gpu && !call.targets.contains(&kind) {
                let what = format!("{} of kind {kind}", call.name);
                let bytes = with_target(&stage, call, own(kind))?;
                refused(&stage, call.number, &bytes, Errno::INVAL, &what)?;
            }
        }
    }
    Ok(())
}

/// A structure that a call takes, but for its target.
fn with_target(stage: &Stage, call: &Call, target: abi::zernel_target) -> Result<Vec<u8>> {
    let mut bytes = stage.good(call)?;
    let place = call.target..call.target + size_of_val(&target);
    bytes[place].copy_from_slice(bytes_of(&target));
    bytes[call.input..].fill(OLD_OUTPUT);
    Ok(bytes)
}
