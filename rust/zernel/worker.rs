// SPDX-License-Identifier: GPL-2.0
//! The worker of a GPU: it calls the provider, and nobody else does.

pub(crate) mod budget;
pub(crate) mod exclusion;
pub(crate) mod pass;
pub(crate) mod provider;
pub(crate) mod rotation;
