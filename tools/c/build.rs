// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates the types of the headers, so that they have one truth.

use std::env;
use std::error::Error;
use std::path::PathBuf;

#[path = "../libzernel/libclang.rs"]
mod libclang;

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let folder = root.join("../../include/zernel").canonicalize()?;
    let out = PathBuf::from(env::var("OUT_DIR")?).join("abi.rs");
    libclang::find();
    let mut builder = bindgen::builder();
    for name in ["runtime.h", "gpu.h", "config.h"] {
        let header = folder.join(name);
        println!("cargo::rerun-if-changed={}", header.display());
        builder = builder.header(header.to_string_lossy());
    }
    builder
        .allowlist_type("zernel_.*")
        .allowlist_var("ZERNEL_.*")
        .allowlist_function("zernel_.*")
        .prepend_enum_name(false)
        .generate_comments(false)
        .derive_default(true)
        .layout_tests(true)
        .formatter(bindgen::Formatter::None)
        .generate()?
        .write_to_file(out)?;
    Ok(())
}
