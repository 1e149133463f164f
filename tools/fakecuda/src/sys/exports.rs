// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of the library, as cuda.h declares them.

mod absent;
mod capture;
mod context;
mod copy;
mod device;
mod event;
mod gdrcopy;
mod graph;
mod init;
mod memory;
mod module;
mod nodes;
mod stream;
mod words;

use std::ffi::c_void;

/// The address of an exported function.
pub(crate) fn find(symbol: &str) -> Option<*const c_void> {
    const FILES: [fn(&str) -> Option<*const c_void>; 13] = [
        init::find,
        device::find,
        context::find,
        module::find,
        stream::find,
        event::find,
        memory::find,
        copy::find,
        words::find,
        graph::find,
        nodes::find,
        capture::find,
        absent::find,
    ];
    FILES.iter().find_map(|find| find(symbol))
}
