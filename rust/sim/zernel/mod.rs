// SPDX-License-Identifier: GPL-2.0
//! The host of the software GPUs of `zernel_sim.ko`: `zernel.ko`, of which they are a provider.

pub(crate) mod commands;
mod control;
mod create;
mod fault;
mod lacks;
mod listener;
mod provider;
#[cfg(zernel_kunit)]
mod tests;

pub(crate) use crate::glue::provider_side::waiting;
pub(crate) use listener::Listener;
pub(crate) use provider::{
    register,
    Hub, //
};
