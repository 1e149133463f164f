// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pure decisions of `zernel.ko` and `zernel_nvidia.ko` on the host: the same files, the same tests, and more of them.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![expect(dead_code, reason = "the kernel module is the user of these files")]

#[path = "../../../../rust/policy/mod.rs"]
pub(crate) mod policy;
use policy::units;

// Of tasks; its own tests are those of another crate, too.
#[cfg(test)]
#[allow(clippy::assertions_on_constants, clippy::too_many_arguments)]
#[path = "../../../../rust/model/mod.rs"]
pub(crate) mod model;

#[path = "../../../../rust/nvidia/accounts.rs"]
pub(crate) mod accounts;
#[path = "../../../../rust/nvidia/clock.rs"]
pub(crate) mod clock;
#[path = "../../../../rust/nvidia/switches.rs"]
pub(crate) mod switches;

#[cfg(test)]
mod admission_properties;
#[cfg(test)]
mod budget_properties;
#[cfg(test)]
mod class_properties;
#[cfg(test)]
mod elf_properties;
#[cfg(test)]
mod exhaustive;
#[cfg(test)]
mod feature_properties;
#[cfg(test)]
mod nice_properties;
#[cfg(test)]
mod order_properties;
#[cfg(test)]
mod phases;
#[cfg(test)]
mod predict_properties;
#[cfg(test)]
mod preemptive_properties;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod rotation_properties;
#[cfg(test)]
mod sharing_properties;
#[cfg(test)]
mod slack_properties;
#[cfg(test)]
mod slices_properties;
#[cfg(test)]
mod tasks;
