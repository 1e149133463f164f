// SPDX-License-Identifier: GPL-2.0
//! Wrappers that `zernel_nvidia.ko` alone needs: the hook in `nvidia.ko`.

pub(crate) mod control;
pub(crate) mod events;
pub(crate) mod load;
mod raw;
pub(crate) mod records;
