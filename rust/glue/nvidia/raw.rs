// SPDX-License-Identifier: GPL-2.0
//! Mirror of `nvidia-patch/src/nv-zernel.h`, made from it by bindgen at build time, and the
//! functions that it declares.

use kernel::prelude::*;

#[allow(
    dead_code,
    missing_docs,
    non_camel_case_types,
    unreachable_pub,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
mod mirror {
    include!(env!("NV_ZERNEL_RS"));
}
pub(super) use mirror::*;

extern "C" {
    pub(super) fn nv_zernel_register(ops: *const nv_zernel_ops, private: *mut c_void) -> c_int;
    pub(super) fn nv_zernel_unregister(ops: *const nv_zernel_ops);
    pub(super) fn nv_zernel_tsg_configure(
        tsg: u64,
        settings: *mut nv_zernel_tsg_settings,
        status: *mut u32,
    ) -> c_int;
    pub(super) fn nv_zernel_tsg_query(
        tsg: u64,
        settings: *mut nv_zernel_tsg_settings,
        status: *mut u32,
    ) -> c_int;
    pub(super) fn nv_zernel_tsg_preempt(tsg: u64, timeout_us: u32, status: *mut u32) -> c_int;
    pub(super) fn nv_zernel_tsg_restart(tsg: u64, status: *mut u32) -> c_int;
    pub(super) fn nv_zernel_runlists_interleave(gpu: u32, on: bool, status: *mut u32) -> c_int;
    pub(super) fn nv_zernel_tsgs_sample(
        gpu: u32,
        samples: *mut nv_zernel_sample,
        count: u32,
    ) -> c_int;
    pub(super) fn nv_zernel_engines_sample(
        gpu: u32,
        runlists: *const u32,
        values: *mut u32,
        count: u32,
    ) -> c_int;
    pub(super) fn nv_zernel_records_read(
        gpu: u32,
        records: *mut nv_zernel_records,
        list: *mut nv_zernel_record,
    ) -> c_int;
    pub(super) fn nv_zernel_count(counts: *mut nv_zernel_counts);
}

// The first version of each structure: nvidia.ko may know a longer one, never a shorter one.
static_assert!(size_of::<nv_zernel_gpu>() == 128);
static_assert!(size_of::<nv_zernel_tsg>() == 64);
static_assert!(size_of::<nv_zernel_tsg_settings>() == 32);
static_assert!(size_of::<nv_zernel_sample>() == 88);
static_assert!(size_of::<nv_zernel_record>() == 24);
static_assert!(size_of::<nv_zernel_records>() == 56);
static_assert!(size_of::<nv_zernel_counts>() == 40);
static_assert!(size_of::<nv_zernel_ops>() == 88);
