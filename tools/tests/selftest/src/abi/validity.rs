// SPDX-License-Identifier: GPL-2.0
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
use crate::child::Child;
use crate::common::{ended_thread, SOON};
use crate::harness::Outcome;

/// A line of the table.
struct Line {
    call: &'static str,
    change: &'static str,
    errno: Errno,
    make: fn(&Stage, &mut [u8]),
}

/// Lines of a call: assignments to fields of its structure, and the errno.
macro_rules! lines {
    ($stage:ident; $($call:literal $type:ident {
        $($($($field:tt).+ = $value:expr),+ => $errno:ident;)*
    })*) => {
        &[$($(Line {
            call: $call,
            change: stringify!($($($field).+ = $value),+),
            errno: Errno::$errno,
            make: |$stage, bytes| {
                let _ = $stage;
                let mut value: abi::$type = bytemuck::pod_read_unaligned(bytes);
                $(value.$($field).+ = $value;)+
                bytes.copy_from_slice(bytes_of(&value));
            },
        },)*)*]
    };
}

/// No object has this id: ids begin with the time in µs.
const NO_ID: u64 = 1;

/// Fields that hold an unknown flag, kind or value, reserved input that is not zero, or a value out of
/// range. Targets have a table of their own.
const LINES: &[Line] = lines! { stage;
    "INFO" zernel_info {
        flags = 1 => INVAL;
        flags = 1 << 31 => INVAL;
        reserved = 1 => INVAL;
    }
    "LIST" zernel_list {
        kind = 0 => INVAL;
        kind = 11 => INVAL;
        kind = u32::MAX => INVAL;
        flags = 1 => INVAL;
        flags = 1 << 31 => INVAL;
        room = 0 => INVAL;
        entry_size = 0 => INVAL;
        entry_size = abi::ZERNEL_GPU_INFO_SIZE_1 - 8 => INVAL;
        entry_size = abi::ZERNEL_GPU_INFO_SIZE_1 + 4 => INVAL;
        entry_size = 4097 => INVAL;
        entry_size = 4104 => INVAL;
        entry_size = u32::MAX => INVAL;
        entries = 0 => FAULT;
        entries = u64::MAX => FAULT;
        entries = 0xffff_8000_0000_0000 => FAULT;
        entries = stage.entries.address(4096 - 256) => FAULT;
        kind = abi::ZERNEL_LIST_SYSTEM, filter.kind = abi::ZERNEL_TARGET_GPU => INVAL;
        kind = abi::ZERNEL_LIST_SYSTEM, entry_size = abi::ZERNEL_SYSTEM_INFO_SIZE_1 - 8 => INVAL;
        kind = abi::ZERNEL_LIST_LEVELS, entry_size = abi::ZERNEL_LEVEL_INFO_SIZE_1 - 8 => INVAL;
        kind = abi::ZERNEL_LIST_LEVELS, filter.kind = abi::ZERNEL_TARGET_TSG => INVAL;
        kind = abi::ZERNEL_LIST_LEVELS, filter.kind = abi::ZERNEL_TARGET_LEVEL,
            filter.id = NO_ID => NOENT;
        kind = abi::ZERNEL_LIST_LEVEL_REQUESTS,
            entry_size = abi::ZERNEL_REQUEST_INFO_SIZE_1 - 8 => INVAL;
        kind = abi::ZERNEL_LIST_TSGS, entry_size = abi::ZERNEL_TSG_INFO_SIZE_1 - 8 => INVAL;
        kind = abi::ZERNEL_LIST_TSGS, filter.kind = abi::ZERNEL_TARGET_LEVEL => INVAL;
        kind = abi::ZERNEL_LIST_TSGS, filter.kind = abi::ZERNEL_TARGET_TSG,
            filter.id = NO_ID => NOENT;
        kind = abi::ZERNEL_LIST_TSG_REQUESTS,
            entry_size = abi::ZERNEL_REQUEST_INFO_SIZE_1 - 8 => INVAL;
        kind = abi::ZERNEL_LIST_CLASSES,
            entry_size = abi::ZERNEL_CLASS_INFO_SIZE_1 - 8 => INVAL;
        kind = abi::ZERNEL_LIST_CLASSES, filter.kind = abi::ZERNEL_TARGET_GPU => INVAL;
        kind = abi::ZERNEL_LIST_PROCESSES,
            entry_size = abi::ZERNEL_PROCESS_INFO_SIZE_1 - 8 => INVAL;
        kind = abi::ZERNEL_LIST_PROCESSES, filter.kind = abi::ZERNEL_TARGET_THREAD,
            filter.flags = abi::ZERNEL_TARGET_SELF => INVAL;
        kind = abi::ZERNEL_LIST_THREADS,
            entry_size = abi::ZERNEL_THREAD_INFO_SIZE_1 - 8 => INVAL;
        kind = abi::ZERNEL_LIST_THREADS, filter.kind = abi::ZERNEL_TARGET_TSG => INVAL;
        kind = abi::ZERNEL_LIST_CGROUPS,
            entry_size = abi::ZERNEL_CGROUP_INFO_SIZE_1 - 8 => INVAL;
        kind = abi::ZERNEL_LIST_CGROUPS, filter.kind = abi::ZERNEL_TARGET_PROCESS,
            filter.flags = abi::ZERNEL_TARGET_SELF => INVAL;
    }
    "HISTOGRAM" zernel_histogram {
        kind = 0 => INVAL;
        kind = 4 => INVAL;
        kind = abi::ZERNEL_HISTOGRAM_SWITCH => INVAL;
        flags = 1 => INVAL;
        flags = 1 << 31 => INVAL;
        reserved = 1 => INVAL;
        room = 1, buckets = u64::MAX => FAULT;
        room = 2, buckets = stage.entries.address(4096 - 8) => FAULT;
    }
    "EVENTS" zernel_events {
        kinds = 1 => INVAL;
        kinds = 1 << 17 => INVAL;
        kinds = 1 << 63 => INVAL;
        kinds = u64::MAX => INVAL;
        capacity = 1 => INVAL;
        capacity = 15 => INVAL;
        capacity = 65_537 => INVAL;
        capacity = u32::MAX => INVAL;
        kinds = 0, capacity = 15 => INVAL;
        flags = 1 => INVAL;
        kinds = 0, flags = 1 => INVAL;
    }
    "REMOVE" zernel_remove {
        handle = 0 => NOENT;
        handle = u32::MAX => NOENT;
        flags = 1 => INVAL;
        flags = 1 << 31 => INVAL;
    }
    "CLASS_SET" zernel_class_set {
        set = 1 << 5 => INVAL;
        set = 1 << 31 => INVAL;
        set = u32::MAX => INVAL;
        clear = 1 << 5 => INVAL;
        clear = 1 << 31 => INVAL;
        clear = u32::MAX - 1 => INVAL;
        clear = abi::ZERNEL_CLASS_PREEMPTIBLE => OPNOTSUPP;
        clear = abi::ZERNEL_CLASS_DEADLINE => OPNOTSUPP;
        level = 8 => INVAL;
        level = 256 => INVAL;
        level = abi::ZERNEL_LEVEL_NONE => INVAL;
        set = 0, level = 7 => INVAL;
        set = 0, level = 0, clear = abi::ZERNEL_CLASS_WEIGHT => NODATA;
        set = 0, level = 0, clear = u32::MAX => NODATA;
        set = 0, level = 0 => NODATA;
        weight = 1024 => INVAL;
        timeslice_us = 100 => INVAL;
        preemptible = 1 => INVAL;
        deadline_ns = 1 => INVAL;
        set = abi::ZERNEL_CLASS_WEIGHT, level = 0, weight = 0 => INVAL;
        set = abi::ZERNEL_CLASS_WEIGHT, level = 0, weight = 10_001 => INVAL;
        set = abi::ZERNEL_CLASS_WEIGHT, level = 0, weight = u32::MAX => INVAL;
        set = abi::ZERNEL_CLASS_TIMESLICE, level = 0, timeslice_us = 0 => INVAL;
        set = abi::ZERNEL_CLASS_TIMESLICE, level = 0, timeslice_us = 9 => INVAL;
        set = abi::ZERNEL_CLASS_TIMESLICE, level = 0, timeslice_us = 10_000_001 => INVAL;
        set = abi::ZERNEL_CLASS_TIMESLICE, level = 0, timeslice_us = u32::MAX => INVAL;
        set = abi::ZERNEL_CLASS_PREEMPTIBLE, level = 0 => OPNOTSUPP;
        set = abi::ZERNEL_CLASS_PREEMPTIBLE, level = 0, preemptible = 2 => INVAL;
        set = abi::ZERNEL_CLASS_DEADLINE, level = 0, deadline_ns = 0 => INVAL;
        set = abi::ZERNEL_CLASS_DEADLINE, level = 0, deadline_ns = 9 => OPNOTSUPP;
    }
    "CLASS_GET" zernel_class_get {
        flags = 1 => INVAL;
        flags = 1 << 31 => INVAL;
        reserved = 1 => INVAL;
    }
    "REQUEST_BEGIN" zernel_request_begin {
        tsg = 0 => NOENT;
        tsg = NO_ID => NOENT;
        tsg = u64::MAX => NOENT;
        slot = 16_383 => NOENT;
        slot = 16_384 => NOENT;
        slot = u32::MAX => NOENT;
        flags = 1 << 2 => INVAL;
        flags = 1 << 31 => INVAL;
        options = 1 => INVAL;
        options = stage.entries.address(0) => INVAL;
    }
    "REQUEST_UPDATE" zernel_request_update {
        slot = 16_383 => NOENT;
        slot = 16_384 => NOENT;
        slot = u32::MAX => NOENT;
        slot = 2 => STALE;
        request = 0 => STALE;
        request = u32::MAX => STALE;
        action = 0 => INVAL;
        action = 4 => INVAL;
        action = u32::MAX => INVAL;
        flags = 1 => INVAL;
        flags = 1 << 31 => INVAL;
    }
    "TRACK" zernel_track {
        set = 0 => INVAL;
        set = 1 << 3 => INVAL;
        set = 1 << 31 => INVAL;
        clear = 1 => INVAL;
        set = 0, clear = abi::ZERNEL_TRACK_ML => INVAL;
        set = 0, clear = u32::MAX => INVAL;
        target = own(abi::ZERNEL_TARGET_THREAD), set = abi::ZERNEL_TRACK_CHILDREN => INVAL;
    }
    "HINT" zernel_hint {
        kind = 0 => INVAL;
        kind = 2 => INVAL;
        flags = 1 => INVAL;
        flags = 1 << 31 => INVAL;
        value = 5 => INVAL;
        value = u64::MAX => INVAL;
        value = 1 << 32 => INVAL;
        duration_ns = abi::ZERNEL_HINT_MAX_NS + 1 => INVAL;
        duration_ns = u64::MAX => INVAL;
    }
    "SUBSCRIBE" zernel_subscribe {
        signal = 0 => INVAL;
        signal = 2 => INVAL;
        action = 0 => INVAL;
        action = 4 => INVAL;
        flags = 1 => INVAL;
        flags = 1 << 31 => INVAL;
        reserved = 1 => INVAL;
        fd = -1 => BADF;
        fd = i32::MIN => BADF;
        fd = stage.null.as_raw_fd() => BADF;
        slot = 1 => INVAL;
        offset = 1 => INVAL;
        length = 1 => INVAL;
        span = 1 => INVAL;
        action = abi::ZERNEL_ACTION_WORD => INVAL;
        action = abi::ZERNEL_ACTION_WORD, fd = 0, slot = 16_383 => NOENT;
        action = abi::ZERNEL_ACTION_WORD, fd = 0, slot = u32::MAX => NOENT;
        action = abi::ZERNEL_ACTION_WORD, fd = 0, length = 1 => INVAL;
        action = abi::ZERNEL_ACTION_READ_AHEAD => INVAL;
        action = abi::ZERNEL_ACTION_READ_AHEAD, length = 4096 => BADF;
        action = abi::ZERNEL_ACTION_READ_AHEAD, fd = -1, length = 4096 => BADF;
        action = abi::ZERNEL_ACTION_READ_AHEAD, fd = stage.library.as_raw_fd(), length = 0 => INVAL;
        action = abi::ZERNEL_ACTION_READ_AHEAD, fd = stage.library.as_raw_fd(),
            length = u64::from(abi::ZERNEL_READ_AHEAD_MAX) + 1 => INVAL;
        action = abi::ZERNEL_ACTION_READ_AHEAD, fd = stage.library.as_raw_fd(), length = 2,
            span = 1 => INVAL;
        action = abi::ZERNEL_ACTION_READ_AHEAD, fd = stage.library.as_raw_fd(), length = 4096,
            offset = u64::MAX => INVAL;
        action = abi::ZERNEL_ACTION_READ_AHEAD, fd = stage.library.as_raw_fd(), length = 4096,
            offset = i64::MAX as u64 => INVAL;
        action = abi::ZERNEL_ACTION_READ_AHEAD, fd = stage.library.as_raw_fd(), length = 4096,
            slot = 1 => INVAL;
    }
    "PROBE" zernel_probe {
        fd = -1 => BADF;
        fd = i32::MIN => BADF;
        fd = stage.null.as_raw_fd() => NODEV;
        flags = 1 => INVAL;
        flags = 1 << 31 => INVAL;
        offset = u64::MAX => RANGE;
        offset = 1 << 40 => RANGE;
    }
};

/// Every line of the table.
pub(super) fn fields() -> Outcome {
    let stage = Stage::new()?;
    for line in LINES {
        let call = Call::named(line.call);
        let mut bytes = stage.good(call)?;
        (line.make)(&stage, &mut bytes);
        let what = format!("{} with {}", line.call, line.change);
        refused(&stage, call.number, &bytes, line.errno, &what)?;
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

/// A target that is refused where its kind is taken.
struct Wrong {
    kind: u32,
    what: &'static str,
    flags: u32,
    id: fn(&Stage, &Descriptors) -> u64,
    errno: Errno,
}

macro_rules! wrong {
    ($stage:ident, $fds:ident; $($kind:ident { $($what:literal: $flags:expr, $id:expr => $errno:ident;)* })*) => {
        &[$($(Wrong {
            kind: abi::$kind,
            what: $what,
            flags: $flags,
            id: |$stage, $fds| {
                let _ = ($stage, $fds);
                $id
            },
            errno: Errno::$errno,
        },)*)*]
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
    ZERNEL_TARGET_NONE {
        "an id": 0, 1 => INVAL;
        "the caller": SELF, 0 => INVAL;
        "a descriptor": FD, number(&fds.process) => INVAL;
    }
    ZERNEL_TARGET_CGROUP {
        "a number": 0, 1 => INVAL;
        "the caller's": SELF, 0 => INVAL;
        "both flags": FD | SELF, 0 => INVAL;
        "an unknown flag": FD | 4, number(&fds.folder) => INVAL;
        "no descriptor": FD, u64::MAX => BADF;
        "more than an int": FD, 1 << 31 => BADF;
        "an int, and more": FD, 1 << 32 => BADF;
        "another file": FD, number(&stage.null) => BADF;
        "another folder": FD, number(&fds.folder) => BADF;
        "a pidfd": FD, number(&fds.process) => BADF;
    }
    ZERNEL_TARGET_PROCESS {
        "number 0": 0, 0 => SRCH;
        "no such number": 0, NO_PID => SRCH;
        "more than an int": 0, 1 << 32 | 1 => SRCH;
        "a kernel thread": 0, 2 => SRCH;
        "a zombie": 0, fds.zombie.pid().into() => SRCH;
        "the caller with a number": SELF, 1 => INVAL;
        "both flags": FD | SELF, 0 => INVAL;
        "an unknown flag": 4, 1 => INVAL;
        "no descriptor": FD, u64::MAX => BADF;
        "more than an int as descriptor": FD, 1 << 31 => BADF;
        "another file": FD, number(&stage.null) => BADF;
        "a thread's pidfd": FD, number(&fds.thread) => BADF;
    }
    ZERNEL_TARGET_THREAD {
        "number 0": 0, 0 => SRCH;
        "no such number": 0, NO_PID => SRCH;
        "a kernel thread": 0, 2 => SRCH;
        "a zombie": 0, fds.zombie.pid().into() => SRCH;
        "one that has ended": 0, fds.ended.into() => SRCH;
        "the caller with a number": SELF, 1 => INVAL;
        "both flags": FD | SELF, 0 => INVAL;
        "an unknown flag": 1 << 31, 1 => INVAL;
        "no descriptor": FD, u64::MAX => BADF;
        "another file": FD, number(&stage.null) => BADF;
        "a process's pidfd": FD, number(&fds.process) => BADF;
    }
    ZERNEL_TARGET_TSG {
        "id 0": 0, 0 => NOENT;
        "no such id": 0, u64::MAX => NOENT;
        "a descriptor": FD, number(&fds.process) => INVAL;
        "the caller's": SELF, 0 => INVAL;
        "an unknown flag": 4, stage.tsg.as_u64() => INVAL;
    }
    ZERNEL_TARGET_GPU {
        "id 0": 0, 0 => NOENT;
        "a TSG's id": 0, stage.tsg.as_u64() => NOENT;
        "a descriptor": FD, number(&fds.process) => INVAL;
        "the caller's": SELF, 0 => INVAL;
    }
    ZERNEL_TARGET_LEVEL {
        "id 0": 0, 0 => NOENT;
        "a TSG's id": 0, stage.tsg.as_u64() => NOENT;
        "a descriptor": FD, number(&fds.process) => INVAL;
    }
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
        for wrong in WRONG
            .iter()
            .filter(|wrong| call.targets.contains(&wrong.kind))
        {
            let target = abi::zernel_target {
                kind: wrong.kind,
                flags: wrong.flags,
                id: (wrong.id)(&stage, &fds),
            };
            let what = format!("{} of kind {}: {}", call.name, wrong.kind, wrong.what);
            let bytes = with_target(&stage, call, target)?;
            refused(&stage, call.number, &bytes, wrong.errno, &what)?;
        }
        for kind in (0..=7)
            .chain([255, u32::MAX])
            .filter(|kind| !call.targets.contains(kind))
        {
            if call.name == "HISTOGRAM" && kind == abi::ZERNEL_TARGET_GPU {
                // Which has another kind of histogram.
                continue;
            }
            let what = format!("{} of kind {kind}", call.name);
            let bytes = with_target(&stage, call, own(kind))?;
            refused(&stage, call.number, &bytes, Errno::INVAL, &what)?;
        }
    }
    Ok(())
}

/// A structure that a call takes, but for its target.
fn with_target(stage: &Stage, call: &Call, target: abi::zernel_target) -> Result<Vec<u8>> {
    let mut bytes = stage.good(call)?;
    let place = call.target..call.target + size_of_val(&target);
    bytes[place].copy_from_slice(bytes_of(&target));
    Ok(bytes)
}
