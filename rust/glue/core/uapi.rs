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

use core::mem::offset_of;

// ABI 1: calls, and entries of lists.
crate::glue::abi::abi! {
    zernel_info = 72, first ZERNEL_INFO_SIZE_1 as usize, input offset_of!(zernel_info, caps);
    zernel_list = 80, first ZERNEL_LIST_SIZE_1 as usize, input offset_of!(zernel_list, next);
    zernel_histogram = 88, first ZERNEL_HISTOGRAM_SIZE_1 as usize,
        input offset_of!(zernel_histogram, filled);
    zernel_events = 32, first ZERNEL_EVENTS_SIZE_1 as usize;
    zernel_remove = 8, first ZERNEL_REMOVE_SIZE_1 as usize;
    zernel_class_set = 48, first ZERNEL_CLASS_SET_SIZE_1 as usize;
    zernel_class_get = 184, first ZERNEL_CLASS_GET_SIZE_1 as usize,
        input offset_of!(zernel_class_get, assignment);
    zernel_request_begin = 72, input offset_of!(zernel_request_begin, request);
    zernel_request_options = 96, first ZERNEL_REQUEST_OPTIONS_SIZE_1 as usize,
        input offset_of!(zernel_request_options, earliest_ns);
    zernel_request_update = 16, first ZERNEL_REQUEST_UPDATE_SIZE_1 as usize;
    zernel_track = 32, first ZERNEL_TRACK_SIZE_1 as usize, input offset_of!(zernel_track, threads);
    zernel_hint = 40, first ZERNEL_HINT_SIZE_1 as usize;
    zernel_subscribe = 72, first ZERNEL_SUBSCRIBE_SIZE_1 as usize,
        input offset_of!(zernel_subscribe, handle);
    zernel_probe = 24, first ZERNEL_PROBE_SIZE_1 as usize, input offset_of!(zernel_probe, handle);
    zernel_system_info = 248, first ZERNEL_SYSTEM_INFO_SIZE_1 as usize;
    zernel_gpu_info = 264, first ZERNEL_GPU_INFO_SIZE_1 as usize;
    zernel_level_info = 88, first ZERNEL_LEVEL_INFO_SIZE_1 as usize;
    zernel_tsg_info = 160, first ZERNEL_TSG_INFO_SIZE_1 as usize;
    zernel_request_info = 264, first ZERNEL_REQUEST_INFO_SIZE_1 as usize;
    zernel_class_info = 72, first ZERNEL_CLASS_INFO_SIZE_1 as usize;
    zernel_process_info = 232, first ZERNEL_PROCESS_INFO_SIZE_1 as usize;
    zernel_thread_info = 336, first ZERNEL_THREAD_INFO_SIZE_1 as usize;
    zernel_cgroup_info = 64, first ZERNEL_CGROUP_INFO_SIZE_1 as usize;
}

// Parts of others, and events.
crate::glue::abi::abi! {
    zernel_target = 16;
    zernel_value = 24;
    zernel_event = 32;
    zernel_event_gpu = 48;
    zernel_event_tsg = 72;
    zernel_event_signal = 80;
}
