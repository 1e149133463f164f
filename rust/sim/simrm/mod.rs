// SPDX-License-Identifier: GPL-2.0
//! The host of the software GPUs of `zernel_simrm.ko`: the software resource manager of NVIDIA's
//! driver, whose TSGs they run.

mod attach;
pub(crate) mod commands;
mod engine;
mod faults;
mod hub;
mod listener;

pub(crate) use hub::{
    register,
    Hub, //
};
pub(crate) use listener::Listener;

/// Calls `wait`, in which the current thread waits for the GPU: nobody wants to know.
pub(crate) fn waiting<T>(wait: impl FnOnce() -> T) -> T {
    wait()
}
