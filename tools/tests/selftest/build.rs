// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds programs of the recorded headers.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    let record = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("record");
    println!("cargo::rerun-if-changed={}", record.display());
    for version in ["v1", "v2", "v3"] {
        for bits in ["64", "32"] {
            build(&record, version, bits)?;
        }
    }
    Ok(())
}

fn build(record: &Path, version: &str, bits: &str) -> Result<(), Box<dyn Error>> {
    let program = PathBuf::from(env::var("OUT_DIR")?).join(format!("{version}-{bits}"));
    // The kernel's own headers alone: no 32-bit C library is needed.
    let status = Command::new(env::var("CC").unwrap_or_else(|_| "gcc".into()))
        .args([
            "-O1",
            "-std=gnu11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-ffreestanding",
        ])
        .args([
            "-fno-stack-protector",
            "-nostdlib",
            "-static",
            "-no-pie",
            "-fno-pie",
        ])
        .args(["-Wl,--build-id=none", "-Wl,-z,noexecstack"])
        .arg(format!("-m{bits}"))
        .arg(format!("-I{}", record.join(version).display()))
        .args(["-isystem", "/usr/include/x86_64-linux-gnu"])
        .arg("-o")
        .arg(program)
        .arg(record.join("program.c"))
        .status()?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("the program of {version} for {bits} bits does not build").into()),
    }
}
