// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thirteen calls, each with a structure that it takes, and what it needs to be taken.

use std::fs::File;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use anyhow::{Context as _, Result};
use bytemuck::{bytes_of, Pod, Zeroable};
use libzernel::sim::Context;
use libzernel::sys::abi;
use libzernel::{tsg, Target, Zernel};
use rustix::event::{eventfd, EventfdFlags};
use rustix::fs::{Mode, OFlags};

use crate::common::Lab;
use crate::sys::{self, Area, Mapped};

/// A call.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// Its name, `ZERNEL_IOC_` and this.
    pub name: &'static str,
    pub number: u32,
    /// Bytes of its structure.
    pub size: usize,
    /// Bytes of the part that it reads; output follows.
    pub input: usize,
    /// Bytes of the first version of the structure.
    pub first: usize,
    /// It needs a file that is open for writing.
    pub changes: bool,
    /// Kinds of target that it takes, at [`Self::target`] in its structure.
    pub targets: &'static [u32],
    /// Where the target is.
    pub target: usize,
}

impl Call {
    /// Its number, with another size in it.
    pub fn sized(&self, size: usize) -> u32 {
        self.number & abi::LIBZERNEL_IOC_MASK | (size as u32) << 16
    }

    /// The call of this name.
    pub fn named(name: &str) -> &'static Self {
        let found = CALLS.iter().find(|call| call.name == name);
        found.unwrap_or_else(|| panic!("no call {name}"))
    }
}

macro_rules! call {
    ($name:literal $op:ident $type:ident $(, input $output:ident)? $(, first $first:ident)?
     $(, changes $changes:literal)? $(, at $target:ident $targets:expr)?) => {
        Call {
            name: $name,
            number: abi::$op,
            size: size_of::<abi::$type>(),
            input: call!(@or size_of::<abi::$type>() $(, offset_of!(abi::$type, $output))?),
            first: call!(@or size_of::<abi::$type>() $(, abi::$first as usize)?),
            changes: call!(@or false $(, $changes)?),
            targets: call!(@or &[] $(, $targets)?),
            target: call!(@or 0 $(, offset_of!(abi::$type, $target))?),
        }
    };
    (@or $or:expr) => { $or };
    (@or $or:expr, $other:expr) => { $other };
}

// Kinds of targets.
pub const NONE: u32 = abi::ZERNEL_TARGET_NONE;
pub const CGROUP: u32 = abi::ZERNEL_TARGET_CGROUP;
pub const PROCESS: u32 = abi::ZERNEL_TARGET_PROCESS;
pub const THREAD: u32 = abi::ZERNEL_TARGET_THREAD;
pub const TSG: u32 = abi::ZERNEL_TARGET_TSG;
pub const GPU: u32 = abi::ZERNEL_TARGET_GPU;
pub const LEVEL: u32 = abi::ZERNEL_TARGET_LEVEL;

/// Targets of classes.
const CLASSED: &[u32] = &[CGROUP, PROCESS, THREAD, TSG];

/// All calls of ABI 1.
pub const CALLS: [Call; 13] = [
    call!("INFO" LIBZERNEL_IOC_INFO zernel_info, input caps, first ZERNEL_INFO_SIZE_1),
    call!("LIST" LIBZERNEL_IOC_LIST zernel_list, input next, first ZERNEL_LIST_SIZE_1,
        at filter &[NONE, GPU]),
    call!("HISTOGRAM" LIBZERNEL_IOC_HISTOGRAM zernel_histogram, input filled,
        first ZERNEL_HISTOGRAM_SIZE_1,
        at target &[TSG, LEVEL]),
    call!("EVENTS" LIBZERNEL_IOC_EVENTS zernel_events, first ZERNEL_EVENTS_SIZE_1,
        at filter &[NONE, CGROUP, PROCESS, THREAD, TSG, GPU]),
    call!("REMOVE" LIBZERNEL_IOC_REMOVE zernel_remove, first ZERNEL_REMOVE_SIZE_1, changes true),
    call!("CLASS_SET" LIBZERNEL_IOC_CLASS_SET zernel_class_set, first ZERNEL_CLASS_SET_SIZE_1,
        changes true, at target CLASSED),
    call!("CLASS_GET" LIBZERNEL_IOC_CLASS_GET zernel_class_get, input assignment,
        first ZERNEL_CLASS_GET_SIZE_1, at target CLASSED),
    call!("REQUEST_BEGIN" LIBZERNEL_IOC_REQUEST_BEGIN zernel_request_begin, input request,
        changes true),
    call!("REQUEST_UPDATE" LIBZERNEL_IOC_REQUEST_UPDATE zernel_request_update,
        first ZERNEL_REQUEST_UPDATE_SIZE_1, changes true),
    call!("TRACK" LIBZERNEL_IOC_TRACK zernel_track, input threads, first ZERNEL_TRACK_SIZE_1,
        changes true, at target &[CGROUP, PROCESS, THREAD]),
    call!("HINT" LIBZERNEL_IOC_HINT zernel_hint, first ZERNEL_HINT_SIZE_1, changes true,
        at target &[THREAD]),
    call!("SUBSCRIBE" LIBZERNEL_IOC_SUBSCRIBE zernel_subscribe, input handle,
        first ZERNEL_SUBSCRIBE_SIZE_1, changes true, at target &[PROCESS]),
    call!("PROBE" LIBZERNEL_IOC_PROBE zernel_probe, input handle, first ZERNEL_PROBE_SIZE_1,
        changes true),
];

/// The bytes of a structure that is zero but for some fields.
macro_rules! bytes {
    ($type:ident { $($field:ident: $value:expr),* $(,)? }) => {{
        #[allow(unused_mut)]
        let mut structure = abi::$type::zeroed();
        $(structure.$field = $value;)*
        bytes_of(&structure).to_vec()
    }};
}
pub(crate) use bytes;

/// The caller's process or thread.
pub fn own(kind: u32) -> abi::zernel_target {
    abi::zernel_target {
        kind,
        flags: abi::ZERNEL_TARGET_SELF,
        id: 0,
    }
}

/// A TSG and slots of an open file, and whatever else the calls name.
pub struct Stage {
    pub lab: Lab,
    /// Memory for entries.
    pub entries: Area,
    pub tsg: tsg::Id,
    /// A file that is none of those that calls take.
    pub null: File,
    pub bell: OwnedFd,
    /// A file whose instructions can be probed.
    pub library: File,
    /// The place of a function there.
    place: u64,
    /// The device, open for reading alone.
    pub reader: OwnedFd,
    _context: Context,
    _slots: Mapped,
}

impl Drop for Stage {
    fn drop(&mut self) {
        // The process goes on, tracked only if a test has got so far, and likewise classed.
        let _ = self.lab.zernel.untrack(&Target::current_process());
        let _ = self.lab.zernel.clear_class(&Target::current_process());
    }
}

impl Stage {
    pub fn new() -> Result<Self> {
        let lab = Lab::open()?;
        let (context, tsg) = lab.compute()?;
        let slots = Mapped::of(lab.zernel.as_fd())?;
        let (library, place) = crate::gpuwait::library()?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self {
            entries: Area::new()?,
            tsg: tsg.id,
            null: File::options().read(true).write(true).open("/dev/null")?,
            bell: eventfd(0, EventfdFlags::CLOEXEC)?,
            library,
            place,
            reader: rustix::fs::open(Zernel::PATH, flags, Mode::empty())?,
            _context: context,
            _slots: slots,
            lab,
        })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.lab.zernel.as_fd()
    }

    /// Makes a call that is taken and returns its structure.
    fn made<T: Pod>(&self, name: &'static str) -> Result<T> {
        let call = Call::named(name);
        let mut bytes = self.good(call)?;
        sys::ioctl_bytes(self.fd(), call.number, &mut bytes).context(name)?;
        Ok(bytemuck::pod_read_unaligned(&bytes))
    }

    /// A structure that a call takes now.
    pub fn good(&self, call: &Call) -> Result<Vec<u8>> {
        let (me, thread) = (
            own(abi::ZERNEL_TARGET_PROCESS),
            own(abi::ZERNEL_TARGET_THREAD),
        );
        Ok(match call.name {
            "INFO" => bytes!(zernel_info {}),
            "LIST" => bytes!(zernel_list {
                kind: abi::ZERNEL_LIST_GPUS,
                entries: self.entries.address(0),
                entry_size: size_of::<abi::zernel_gpu_info>() as u32,
                room: 1,
            }),
            "HISTOGRAM" => bytes!(zernel_histogram {
                target: Target::Tsg(self.tsg).raw(),
                kind: abi::ZERNEL_HISTOGRAM_LATENCY,
            }),
            "EVENTS" => bytes!(zernel_events {
                kinds: 1 << abi::ZERNEL_EVENT_TSG_ADDED,
            }),
            "REMOVE" => bytes!(zernel_remove {
                handle: self.made::<abi::zernel_subscribe>("SUBSCRIBE")?.handle,
            }),
            "CLASS_SET" => bytes!(zernel_class_set {
                target: me,
                set: abi::ZERNEL_CLASS_LEVEL,
                level: 7,
            }),
            "CLASS_GET" => bytes!(zernel_class_get { target: me }),
            "REQUEST_BEGIN" => self.begin(0),
            "REQUEST_UPDATE" => {
                let mut begin = self.begin(1);
                let number = Call::named("REQUEST_BEGIN").number;
                sys::ioctl_bytes(self.fd(), number, &mut begin).context("begin a request")?;
                let begun: abi::zernel_request_begin = bytemuck::pod_read_unaligned(&begin);
                bytes!(zernel_request_update {
                    slot: 1,
                    request: begun.request,
                    action: abi::ZERNEL_REQUEST_DONE,
                })
            }
            "TRACK" => bytes!(zernel_track {
                target: me,
                set: abi::ZERNEL_TRACK_ML,
            }),
            "HINT" => {
                self.made::<abi::zernel_track>("TRACK")?;
                bytes!(zernel_hint {
                    target: thread,
                    kind: abi::ZERNEL_HINT_PHASE,
                    value: abi::ZERNEL_PHASE_DATA_LOADING.into(),
                    duration_ns: 1_000_000_000,
                })
            }
            "SUBSCRIBE" => bytes!(zernel_subscribe {
                target: me,
                signal: abi::ZERNEL_SIGNAL_PREFETCH,
                action: abi::ZERNEL_ACTION_EVENTFD,
                fd: self.bell.as_raw_fd(),
            }),
            "PROBE" => bytes!(zernel_probe {
                fd: self.library.as_raw_fd(),
                offset: self.place,
            }),
            other => panic!("no call {other}"),
        })
    }

    /// A request that lasts until it is ended.
    fn begin(&self, slot: u32) -> Vec<u8> {
        bytes!(zernel_request_begin {
            tsg: self.tsg.as_u64(),
            slot: slot,
            key: 1,
            expected_ns: 36_000_000_000_000,
            flags: abi::ZERNEL_REQUEST_EXACT,
        })
    }
}
