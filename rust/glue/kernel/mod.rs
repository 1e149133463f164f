// SPDX-License-Identifier: GPL-2.0
//! Wrappers that more than one module needs, and both sides of the provider ABI.

#[cfg(any(zernel_core, zernel_sim, zernel_simrm))]
pub(crate) mod abi;
#[cfg(any(zernel_core, zernel_nvidia))]
pub(crate) mod debugfs;
pub(crate) mod errno;
#[cfg(any(zernel_core, zernel_sim, zernel_simrm))]
pub(crate) mod eventfd;
#[cfg(any(zernel_core, zernel_sim, zernel_simrm))]
pub(crate) mod irqlock;
#[cfg(any(zernel_core, zernel_sim, zernel_simrm))]
pub(crate) mod lock;
#[cfg(any(zernel_core, zernel_sim, zernel_simrm))]
pub(crate) mod miscdev;
pub(crate) mod module;
#[cfg(any(zernel_core, zernel_sim, zernel_nvidia))]
pub(crate) mod provider_abi;
#[cfg(any(zernel_sim, zernel_nvidia))]
pub(crate) mod provider_side;
pub(crate) mod time;
#[cfg(any(zernel_core, zernel_sim, zernel_simrm))]
pub(crate) mod timer;
