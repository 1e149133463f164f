// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives the library the name that it is installed with, and has it use its own functions where
//! another preloaded library has some of the same names.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libzernel-auto.so");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
}
