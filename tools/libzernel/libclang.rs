// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds libclang for build scripts.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Has bindgen use the newest libclang of the machine, unless `LIBCLANG_PATH` names one.
pub fn find() {
    println!("cargo::rerun-if-env-changed=LIBCLANG_PATH");
    if env::var_os("LIBCLANG_PATH").is_none() {
        if let Some(dir) = newest_libclang(Path::new("/usr/lib")) {
            env::set_var("LIBCLANG_PATH", dir);
        }
    }
}

/// Debian keeps libclang in a folder per version, out of the loader's path.
fn newest_libclang(lib: &Path) -> Option<PathBuf> {
    fs::read_dir(lib)
        .ok()?
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let version: u32 = name.to_str()?.strip_prefix("llvm-")?.parse().ok()?;
            let dir = entry.path().join("lib");
            let found = fs::read_dir(&dir).ok()?.flatten().any(|file| {
                let name = file.file_name();
                let name = name.to_string_lossy();
                name.starts_with("libclang.so")
                    || (name.starts_with("libclang-")
                        && name.contains(".so")
                        && !name.contains("cpp"))
            });
            found.then_some((version, dir))
        })
        .max()
        .map(|(_, dir)| dir)
}
