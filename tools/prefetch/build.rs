// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names the setting under which a model checker watches locks and atomics (tests/models.rs).

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(loom)");
}
