// SPDX-License-Identifier: MIT OR Apache-2.0
//! Has the program's own `ioctl()` seen by the libraries that it loads.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-bins=-Wl,--export-dynamic-symbol=ioctl");
}
