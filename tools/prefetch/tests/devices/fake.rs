// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stand-in, and the environment variables that change it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cuda::{Device, Driver};

/// The library, which is built beside this test.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a place");
    let found = test.parent().expect("a folder").join("libfakeio.so");
    assert!(found.exists(), "{} is not built", found.display());
    found
}

/// The driver, and its device.
pub fn driver() -> (Arc<Driver>, Device) {
    let driver = Driver::open(&library()).expect("all functions");
    let device = driver.devices().expect("a count").next();
    (driver, device.expect("one"))
}

/// The right to change variables: one test after another has it, and leaves none.
#[derive(Debug)]
pub struct Knobs(#[allow(dead_code)] MutexGuard<'static, ()>);

const NAMES: [&str; 6] = ["FAILS", "MEMORY", "NVCOMP", "SHORT", "CAPTURES", "LOG"];

impl Knobs {
    pub fn turn() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let knobs = Self(TURN.lock().unwrap_or_else(PoisonError::into_inner));
        knobs.clear();
        knobs
    }

    pub fn set(&self, name: &str, value: impl AsRef<std::ffi::OsStr>) {
        assert!(NAMES.contains(&name), "{name}");
        std::env::set_var(format!("FAKEIO_{name}"), value);
    }

    pub fn clear(&self) {
        for name in NAMES {
            std::env::remove_var(format!("FAKEIO_{name}"));
        }
    }
}

impl Drop for Knobs {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Another library, compiled from C.
pub fn compiled(folder: &Path, source: &str) -> PathBuf {
    let (text, path) = (folder.join("other.c"), folder.join("libother.so"));
    std::fs::write(&text, source).expect("a file");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&path, &text])
        .status();
    assert!(built.expect("a compiler").success());
    path
}
