// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives the library the name that programs of CUDA are linked with, and keeps its own calls its own:
//! functions of the same names in a preloaded library are not for it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
}
