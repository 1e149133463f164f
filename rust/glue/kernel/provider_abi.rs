// SPDX-License-Identifier: GPL-2.0
//! Mirror of `include/linux/zernel_provider.h`, made from it by bindgen at build time; for both
//! sides of the ABI.

#[allow(
    dead_code,
    missing_docs,
    non_camel_case_types,
    unreachable_pub,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
mod mirror {
    include!(env!("ZERNEL_PROVIDER_RS"));
}
pub(crate) use mirror::*;
