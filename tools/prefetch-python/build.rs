// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells the stable ABI that is built for: together with crates for an older one there are no buffers.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    pyo3_build_config::use_pyo3_cfgs();
}
