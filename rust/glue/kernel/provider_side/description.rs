// SPDX-License-Identifier: GPL-2.0
//! Descriptions of GPUs, TSGs and loads, as the provider ABI has them.

use crate::glue::provider_abi as raw;
use core::marker::PhantomData;
use kernel::{
    bindings,
    prelude::*, //
};

/// The load of a TSG.
pub(crate) struct TsgLoad {
    /// Time that it had the engine and ran, in ns.
    pub(crate) ran: u64,
    /// True if it has something to run.
    pub(crate) runnable: bool,
    /// Since when, as the kernel's monotonic clock tells it in ns; 0: not known.
    pub(crate) since: u64,
    /// Times that it lost the engine while it had something to run.
    pub(crate) preemptions: u64,
    /// When it did so last, on the same clock; 0: never, or not known.
    pub(crate) preempted: u64,
    /// Memory of its context; 0: not known.
    pub(crate) context_bytes: u64,
}

impl TsgLoad {
    pub(super) fn describe(&self) -> raw::zernel_tsg_load {
        raw::zernel_tsg_load {
            size: size_of::<raw::zernel_tsg_load>() as u32,
            flags: match self.runnable {
                true => raw::ZERNEL_TSG_LOAD_RUNNABLE,
                false => 0,
            },
            ran_ns: self.ran,
            since_ns: self.since,
            preemptions: self.preemptions,
            preempted_ns: self.preempted,
            context_bytes: self.context_bytes,
        }
    }
}

/// A process or thread, for as long as it is borrowed.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a>(*mut bindings::pid, PhantomData<&'a ()>);

impl Task<'_> {
    /// A process or thread from C.
    ///
    /// # Safety
    ///
    /// `pid` is null or stays valid while this is used; null is refused by `zernel.ko`.
    pub(in crate::glue) unsafe fn from_raw(pid: *mut bindings::pid) -> Self {
        Self(pid, PhantomData)
    }
}

/// A GPU, to be reported.
pub(crate) struct Gpu<'a> {
    /// Handle.
    pub(crate) handle: u64,
    /// Shortest time slice in µs.
    pub(crate) min_us: u32,
    /// Longest time slice in µs.
    pub(crate) max_us: u32,
    /// Product.
    pub(crate) name: &'a CStr,
    /// Address.
    pub(crate) bus: &'a CStr,
    /// Node of the host that it is attached to.
    pub(crate) numa_node: Option<i32>,
    /// UUID.
    pub(crate) uuid: Option<&'a [u8; 16]>,
    /// Version of the driver.
    pub(crate) driver: Option<&'a CStr>,
    /// Owners of TSGs ask the driver for changes, and it asks
    /// [`user_control`](super::Registration::user_control).
    pub(crate) control: bool,
    /// It tells that threads wait, with [`waiting`](super::waiting).
    pub(crate) waits: bool,
    /// It tells [`TsgLoad::context_bytes`].
    pub(crate) context: bool,
    /// It does not report activity of TSGs: they have to be looked at.
    pub(crate) polled: bool,
}

impl Gpu<'_> {
    pub(super) fn describe(&self) -> raw::zernel_gpu_desc {
        let flag = |on, flag| if on { flag } else { 0 };
        raw::zernel_gpu_desc {
            size: size_of::<raw::zernel_gpu_desc>() as u32,
            min_timeslice_us: self.min_us,
            max_timeslice_us: self.max_us,
            flags: flag(self.control, raw::ZERNEL_GPU_DESC_CONTROL)
                | flag(self.waits, raw::ZERNEL_GPU_DESC_WAITS)
                | flag(self.context, raw::ZERNEL_GPU_DESC_CONTEXT)
                | flag(self.polled, raw::ZERNEL_GPU_DESC_POLLED)
                | flag(self.numa_node.is_some(), raw::ZERNEL_GPU_DESC_NUMA_NODE),
            handle: self.handle,
            name: self.name.as_char_ptr().cast(),
            bus: self.bus.as_char_ptr().cast(),
            numa_node: self.numa_node.unwrap_or(0),
            reserved: 0,
            uuid: self.uuid.map_or(core::ptr::null(), |uuid| uuid.as_ptr()),
            driver: self
                .driver
                .map_or(core::ptr::null(), |text| text.as_char_ptr().cast()),
        }
    }
}

/// A TSG, to be reported.
pub(crate) struct Tsg<'a> {
    /// Handle.
    pub(crate) handle: u64,
    /// True if it computes.
    pub(crate) compute: bool,
    /// True if its engine copies.
    pub(crate) copies: bool,
    /// True if it carries work of several processes.
    pub(crate) shared: bool,
    /// Place on the GPU, for people.
    pub(crate) place: u32,
    /// Engine type.
    pub(crate) engine_type: u32,
    /// Run list.
    pub(crate) runlist: u32,
    /// Channels.
    pub(crate) channels: u32,
    /// Owner.
    pub(crate) process: Task<'a>,
    /// Thread that made it.
    pub(crate) thread: Task<'a>,
}

impl Tsg<'_> {
    pub(super) fn describe(&self) -> raw::zernel_tsg_desc {
        let flag = |on, flag| if on { flag } else { 0 };
        raw::zernel_tsg_desc {
            size: size_of::<raw::zernel_tsg_desc>() as u32,
            flags: flag(self.compute, raw::ZERNEL_TSG_DESC_COMPUTE)
                | flag(self.shared, raw::ZERNEL_TSG_DESC_SHARED)
                | flag(self.copies, raw::ZERNEL_TSG_DESC_COPY),
            handle: self.handle,
            hw_tsg: self.place,
            engine: self.engine_type,
            runlist: self.runlist,
            channels: self.channels,
            process: self.process.0.cast(),
            thread: self.thread.0.cast(),
        }
    }
}
