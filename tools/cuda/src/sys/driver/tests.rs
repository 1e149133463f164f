// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the table of functions, with small libraries in the place of CUDA.

use super::*;
use std::fs;
use std::process::Command;

use crate::sys::table::Functions;

/// A library that is compiled from C.
pub(in crate::sys) struct Fake {
    _dir: tempfile::TempDir,
    pub(in crate::sys) path: std::path::PathBuf,
}

pub(in crate::sys) fn fake(source: &str) -> Fake {
    let dir = tempfile::tempdir().unwrap();
    let (text, path) = (dir.path().join("fake.c"), dir.path().join("libfake.so"));
    fs::write(&text, source).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"])
        .args([&path, &text])
        .status();
    assert!(built.unwrap().success());
    Fake { _dir: dir, path }
}

fn refusal(source: &str) -> String {
    match Driver::open(&fake(source).path).unwrap_err() {
        Error::NotHere(why) => why,
        other => panic!("{other}"),
    }
}

/// A library with these functions, of an interface of this version. `cuInit` returns `init`.
fn with(names: &[&str], version: i32, init: i32) -> String {
    let known: String = names.iter().map(|name| format!("\"{name}\", ")).collect();
    format!(
        r#"
        #include <string.h>
        static int init(unsigned flags) {{ return flags ? 1 : {init}; }}
        static int name(int error, const char **text) {{ *text = "CUDA_ERROR_FAKE"; return 0; }}
        static int other(void) {{ return 999; }}
        static const char *const names[] = {{ {known} 0 }};
        int cuDriverGetVersion(int *version) {{ *version = {version}; return 0; }}
        int cuGetProcAddress(const char *symbol, void **found, int version, unsigned long flags)
        {{
            if (flags || version > 12000 || version < 2000)
                return 1;
            for (const char *const *known = names; *known; known++) {{
                if (!strcmp(*known, symbol)) {{
                    *found = !strcmp(symbol, "cuInit") ? (void *)init :
                             !strcmp(symbol, "cuGetErrorName") ? (void *)name : (void *)other;
                    return 0;
                }}
            }}
            return 500;
        }}
        "#
    )
}

const ALL: &[&str] = Functions::NAMES;

#[test]
fn no_library_is_one_sentence() {
    let error = Driver::open(Path::new("/nonexistent/libcuda.so.1"));
    let why = error.unwrap_err().to_string();
    assert!(
        why.starts_with("no CUDA: /nonexistent/libcuda.so.1 cannot be loaded: "),
        "{why}"
    );
    assert_eq!(why.lines().count(), 1);
}

#[test]
fn absent_functions_are_named() {
    let why = refusal(&with(&["cuInit", "cuGetErrorName"], 12_040, 0));
    assert!(
        why.contains("lacks cuDeviceGetCount, cuDeviceGetByPCIBusId, "),
        "{why}"
    );
    assert!(
        why.ends_with("cuMemAlloc, cuMemFree, cuMemGetInfo"),
        "{why}"
    );
    assert!(!why.contains("cuInit"), "{why}");
    let without = ALL.iter().filter(|name| **name != "cuStreamWaitValue32");
    let without: Vec<_> = without.copied().collect();
    let why = refusal(&with(&without, 12_040, 0));
    assert!(why.ends_with("lacks cuStreamWaitValue32"), "{why}");
    assert!(refusal("int other;").ends_with("lacks cuDriverGetVersion"));
    let old = "int cuDriverGetVersion(int *version) { *version = 13000; return 0; }";
    assert!(refusal(old).ends_with("lacks cuGetProcAddress"));
}

#[test]
fn an_old_interface_is_refused() {
    let why = refusal(&with(ALL, 11_080, 0));
    assert!(why.ends_with("is of CUDA 11.8; it takes 12.0"), "{why}");
}

#[test]
fn calls_reach_the_library_and_errors_have_names() {
    let library = fake(&with(ALL, 13_000, 0));
    let driver = Driver::open(&library.path).unwrap();
    assert_eq!(driver.version(), 13_000);
    let error = driver.device("0000:01:00.0").unwrap_err();
    assert_eq!(
        error.to_string(),
        "cuDeviceGetByPCIBusId: CUDA_ERROR_FAKE (999)"
    );
    assert!(driver.attribute(Device(0), Attribute::Major).is_err());
    assert_eq!(driver.device("a\0b"), Err(Error::Zero("a\0b".to_owned())));
    let error = driver.create_context(Device(0)).unwrap_err();
    assert_eq!(error.to_string(), "cuCtxCreate: CUDA_ERROR_FAKE (999)");
    let failing = fake(&with(ALL, 13_000, 100));
    let error = Driver::open(&failing.path).unwrap_err();
    assert_eq!(error.to_string(), "cuInit: CUDA_ERROR_FAKE (100)");
    assert_eq!(error.status(), Some(Status::NO_DEVICE));
}
