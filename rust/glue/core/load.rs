// SPDX-License-Identifier: GPL-2.0
//! Counters of the machine: CPUs, I/O, memory.
//!
//! Pressure (PSI) has no symbol for modules: neither `psi_system` nor a function that reads it is
//! exported, and its files cannot be read from within the kernel. Waits for I/O by idle CPUs, and
//! threads that reclaim memory themselves, are the nearest that can be reached.

use crate::policy::{
    predict::features::machine::Counts,
    units::Ns, //
};

/// `struct zernel_load` of `rust/helpers/load.h`.
#[repr(C)]
#[derive(Default)]
struct Raw {
    busy_ns: u64,
    io_ns: u64,
    stalls: u64,
    cpus: u32,
}

const _: () = assert!(core::mem::offset_of!(Raw, cpus) == 3 * size_of::<u64>());
const _: () = assert!(size_of::<Raw>() == 4 * size_of::<u64>());

extern "C" {
    fn zernel_helper_load(load: *mut Raw);
}

/// The counters now. Takes a time in proportion to the number of CPUs.
pub(crate) fn counts() -> Counts {
    let mut raw = Raw::default();
    // SAFETY: `raw` is valid for writes.
    unsafe { zernel_helper_load(&mut raw) };
    Counts {
        busy: Ns(raw.busy_ns),
        io: Ns(raw.io_ns),
        stalls: raw.stalls,
        cpus: raw.cpus,
    }
}
