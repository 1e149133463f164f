// SPDX-License-Identifier: GPL-2.0
//! Mirror of `include/uapi/linux/zernel.h`, made from it by bindgen at build time.

#[allow(
    dead_code,
    missing_docs,
    non_camel_case_types,
    unreachable_pub,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
mod raw {
    include!(env!("ZERNEL_UAPI_RS"));
}
pub(crate) use raw::*;

super::abi::abi! {
    zernel_v0_version = 32;
    zernel_v0_list = 32;
    zernel_v0_gpu_info = 128;
    zernel_v0_tsg_info = 120;
    zernel_v0_class = 40, first 32;
    zernel_v0_stats = 200, first 120;
    zernel_v0_event = 72;
    zernel_v0_page = 16;
    zernel_v0_begin = 72, input 56;
    zernel_v0_request = 16;
    zernel_v0_request_stats = 248, first 240;
    zernel_v0_track = 24;
    zernel_v0_thread_info = 216, first 200;
    zernel_v0_thread_phases = 112;
    zernel_v0_process_phases = 160;
    zernel_v0_phase_hint = 24;
    zernel_v0_prefetch = 56;
    zernel_v0_prefetch_end = 8;
    zernel_v0_cgroup_phases = 64;
    zernel_v0_probe = 24;
}
