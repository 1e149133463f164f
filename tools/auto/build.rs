// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives the library the name that it is installed with.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libzernel-auto.so");
}
