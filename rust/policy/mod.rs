// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Pure decisions of zernel: no kernel types, no allocation, no floats, nothing but `core`.
//!
//! The same files are compiled into `zernel.ko` and into the host crate `zernel-policy`.

pub(crate) mod attachment;
pub(crate) mod attribute;
pub(crate) mod backoff;
pub(crate) mod buckets;
pub(crate) mod budget;
pub(crate) mod class;
pub(crate) mod control;
pub(crate) mod counters;
pub(crate) mod deadline;
pub(crate) mod elf;
pub(crate) mod histogram;
pub(crate) mod level;
pub(crate) mod marks;
pub(crate) mod nice;
// These belong to `zernel_nvidia.ko`; here for their tests, which need no driver.
#[cfg(any(test, zernel_kunit))]
#[path = "../nvidia/occupancy.rs"]
pub(crate) mod nvidia_occupancy;
#[cfg(any(test, zernel_kunit))]
#[path = "../nvidia/status.rs"]
pub(crate) mod nvidia_status;
pub(crate) mod permit;
pub(crate) mod phase;
pub(crate) mod poll;
pub(crate) mod predict;
pub(crate) mod preempt;
pub(crate) mod prefetch;
pub(crate) mod refused;
pub(crate) mod request;
pub(crate) mod rest;
pub(crate) mod ring;
pub(crate) mod rotation;
pub(crate) mod slices;
pub(crate) mod spread;
pub(crate) mod switch_cost;
pub(crate) mod tunables;
pub(crate) mod units;
pub(crate) mod weight;
