// SPDX-License-Identifier: GPL-2.0
//! Mirror of `nvidia-patch/simrm/engine.h`, made from it by bindgen at build time, and the
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
    include!(env!("SIMRM_ENGINE_RS"));
}
pub(crate) use mirror::*;

extern "C" {
    pub(super) fn simrm_engine_register(
        ops: *const simrm_engine_ops,
        private: *mut c_void,
    ) -> c_int;
    pub(super) fn simrm_engine_unregister();
    pub(super) fn simrm_engine_attach(client: u32, object: u32, cookie: *mut c_void) -> c_int;
    pub(super) fn simrm_engine_detach(handle: u64);
    pub(super) fn simrm_engine_switched(
        gpu: u32,
        handle: u64,
        restore: bool,
        start_ns: u64,
        end_ns: u64,
    );
}
