// SPDX-License-Identifier: GPL-2.0
//! Memory barriers, which the kernel's series name differently.

#[cfg(zernel_linux_7_2)]
pub(crate) use kernel::sync::barrier::{
    smp_mb,
    smp_rmb,
    smp_wmb, //
};

/// Orders all accesses before against all after.
#[cfg(not(zernel_linux_7_2))]
pub(crate) fn smp_mb() {
    kernel::sync::barrier::smp_mb(kernel::sync::barrier::Full);
}

/// Orders reads.
#[cfg(not(zernel_linux_7_2))]
pub(crate) fn smp_rmb() {
    kernel::sync::barrier::smp_mb(kernel::sync::barrier::Read);
}

/// Orders writes.
#[cfg(not(zernel_linux_7_2))]
pub(crate) fn smp_wmb() {
    kernel::sync::barrier::smp_mb(kernel::sync::barrier::Write);
}
