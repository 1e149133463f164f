// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates the types of the header, so that they have one truth.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let header = root.join("../../include/zernel/runtime.h").canonicalize()?;
    let out = PathBuf::from(env::var("OUT_DIR")?).join("abi.rs");
    println!("cargo::rerun-if-env-changed=LIBCLANG_PATH");
    println!("cargo::rerun-if-changed={}", header.display());
    if env::var_os("LIBCLANG_PATH").is_none() {
        if let Some(dir) = newest_libclang(Path::new("/usr/lib")) {
            env::set_var("LIBCLANG_PATH", dir);
        }
    }
    bindgen::builder()
        .header(header.to_string_lossy())
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

/// Debian keeps libclang in a folder per version, out of the loader's path.
fn newest_libclang(lib: &Path) -> Option<PathBuf> {
    let version = |entry: &fs::DirEntry| -> Option<u32> {
        entry
            .file_name()
            .to_str()?
            .strip_prefix("llvm-")?
            .parse()
            .ok()
    };
    let has_library = |dir: &Path| {
        let files = fs::read_dir(dir).into_iter().flatten().flatten();
        let mut names = files.map(|file| file.file_name().to_string_lossy().into_owned());
        names.any(|name| {
            name.starts_with("libclang") && name.contains(".so") && !name.contains("cpp")
        })
    };
    let entries = fs::read_dir(lib).ok()?.flatten();
    entries
        .filter_map(|entry| Some((version(&entry)?, entry.path().join("lib"))))
        .filter(|(_, dir)| has_library(dir))
        .max()
        .map(|(_, dir)| dir)
}
