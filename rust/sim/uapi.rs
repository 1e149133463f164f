// SPDX-License-Identifier: GPL-2.0
//! Structures of `include/uapi/linux/zernel_sim.h`, made by bindgen.

use crate::glue::abi::abi;

#[allow(
    dead_code,
    missing_docs,
    non_camel_case_types,
    unreachable_pub,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
mod raw {
    include!(env!("ZERNEL_SIM_UAPI_RS"));
}
pub(crate) use raw::*;

abi! {
    zernel_sim_version = 72;
    zernel_sim_gpu_info = 128;
    zernel_sim_context_create = 64;
    zernel_sim_context_destroy = 8;
    zernel_sim_item = 56;
    zernel_sim_submit = 40;
    zernel_sim_wait = 40;
    zernel_sim_eventfd = 16;
    zernel_sim_doorbell = 8;
    zernel_sim_completion = 56;
    zernel_sim_completions = 24;
    zernel_sim_tsg_stats = 160;
    zernel_sim_engine_stats = 80;
    zernel_sim_trace_record = 40;
    zernel_sim_trace_start = 8;
    zernel_sim_trace_read = 32;
    zernel_sim_fault = 48;
    zernel_sim_suspend = 8;
    zernel_sim_tsg_control = 16;
    zernel_sim_tsg_describe = 16;
    zernel_sim_memory = 24;
    zernel_sim_context_attach = 48;
    zernel_sim_registers = 24;
}
