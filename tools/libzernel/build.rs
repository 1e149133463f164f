// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates the raw layouts from the C headers, so that they have one truth.

use std::env;
use std::error::Error;
use std::path::PathBuf;

use bindgen::callbacks::{DeriveInfo, ParseCallbacks, TypeKind};

#[path = "libclang.rs"]
mod libclang;

const HEADERS: [&str; 2] = ["linux/zernel.h", "linux/zernel_sim.h"];

/// Makes every structure plain old data, which holds only without padding.
#[derive(Debug)]
struct PlainData;

impl ParseCallbacks for PlainData {
    fn add_derives(&self, info: &DeriveInfo<'_>) -> Vec<String> {
        match info.kind {
            TypeKind::Struct => vec!["bytemuck::Pod".into(), "bytemuck::Zeroable".into()],
            _ => Vec::new(),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let wrapper = root.join("abi.h");
    let uapi = root.join("../../include/uapi").canonicalize()?;
    let out = PathBuf::from(env::var("OUT_DIR")?).join("abi.rs");

    println!("cargo::rerun-if-changed={}", wrapper.display());
    for header in HEADERS {
        println!("cargo::rerun-if-changed={}", uapi.join(header).display());
    }
    libclang::find();

    bindgen::builder()
        .header(wrapper.to_string_lossy())
        .clang_arg(format!("-I{}", uapi.display()))
        .allowlist_type("zernel_.*")
        .allowlist_var("ZERNEL_.*|LIBZERNEL_.*")
        .prepend_enum_name(false)
        .generate_comments(false)
        .derive_default(false)
        .layout_tests(true)
        .formatter(bindgen::Formatter::None)
        .parse_callbacks(Box::new(PlainData))
        .generate()?
        .write_to_file(out)?;
    Ok(())
}
