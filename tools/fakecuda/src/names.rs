// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names that `cuGetProcAddress` knows, and the form of a function that a version of CUDA has.

mod table;

use std::collections::HashMap;
use std::sync::OnceLock;

use table::TABLE;

/// The version that brought default streams per thread.
const PER_THREAD: i32 = 7_000;

/// The outcome of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// The name of the exported function.
    Symbol(String),
    /// No driver has such a function.
    No,
    /// All forms are newer.
    Newer,
}

#[derive(Debug)]
struct Name {
    /// Versions of the forms, in their order.
    forms: Vec<i32>,
    /// The end of the name with a default stream per thread.
    per_thread: Option<&'static str>,
}

fn read(line: &'static str) -> Option<(&'static str, Name)> {
    let mut words = line.split_whitespace();
    let (name, kind) = match words.next()?.split_once(':') {
        Some((name, "z")) => (name, Some("_ptsz")),
        Some((name, _)) => (name, Some("_ptds")),
        None => (line.split_whitespace().next()?, None),
    };
    let forms = words.filter_map(|word| word.parse().ok()).collect();
    Some((
        name,
        Name {
            forms,
            per_thread: kind,
        },
    ))
}

fn names() -> &'static HashMap<&'static str, Name> {
    static NAMES: OnceLock<HashMap<&'static str, Name>> = OnceLock::new();
    NAMES.get_or_init(|| TABLE.split(';').filter_map(read).collect())
}

/// Finds the form of a function that a version of CUDA has.
pub(crate) fn find(name: &str, version: i32, is_per_thread: bool) -> Found {
    // From 12.0 on this is the name of another function.
    if name == "cuGraphInstantiate" && version >= 12_000 {
        return Found::Symbol("cuGraphInstantiateWithFlags".to_owned());
    }
    let Some(known) = names().get(name) else {
        return Found::No;
    };
    let Some(at) = known.forms.iter().rposition(|&form| form <= version) else {
        return Found::Newer;
    };
    let form = match at {
        0 => String::new(),
        at => format!("_v{}", at + 1),
    };
    // The forms that were there before have none, but for the last one.
    let is_last = known
        .forms
        .get(at + 1)
        .is_none_or(|&next| next > PER_THREAD);
    let kind = known
        .per_thread
        .filter(|_| is_per_thread && version >= PER_THREAD && is_last);
    Found::Symbol(format!("{name}{form}{}", kind.unwrap_or("")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::exports;

    fn symbol(name: &str) -> Found {
        Found::Symbol(name.to_owned())
    }

    #[test]
    fn forms_follow_the_version() {
        for (name, version, found) in [
            ("cuMemAlloc", 2_000, "cuMemAlloc"),
            ("cuMemAlloc", 12_080, "cuMemAlloc_v2"),
            ("cuCtxCreate", 3_020, "cuCtxCreate_v2"),
            ("cuCtxCreate", 12_080, "cuCtxCreate_v4"),
            ("cuStreamWaitValue32", 8_000, "cuStreamWaitValue32"),
            ("cuStreamWaitValue32", 11_070, "cuStreamWaitValue32_v2"),
            ("cuGraphInstantiate", 11_080, "cuGraphInstantiate_v2"),
            ("cuGraphInstantiate", 12_000, "cuGraphInstantiateWithFlags"),
            (
                "cuStreamGetCaptureInfo",
                11_040,
                "cuStreamGetCaptureInfo_v2",
            ),
            ("cuInit", 12_080, "cuInit"),
        ] {
            assert_eq!(find(name, version, false), symbol(found));
        }
        assert_eq!(find("cuMemAllocAsync", 11_010, false), Found::Newer);
        assert_eq!(find("cuMakeCoffee", 12_080, false), Found::No);
        assert_eq!(find("cuMemAlloc_v2", 12_080, false), Found::No);
        assert_eq!(find("", 12_080, true), Found::No);
    }

    #[test]
    fn default_streams_per_thread_have_names_of_their_own() {
        for (name, version, found) in [
            ("cuLaunchKernel", 12_080, "cuLaunchKernel_ptsz"),
            ("cuLaunchKernel", 6_000, "cuLaunchKernel"),
            ("cuMemcpyHtoD", 12_080, "cuMemcpyHtoD_v2_ptds"),
            ("cuMemcpyHtoD", 2_000, "cuMemcpyHtoD"),
            ("cuStreamWaitValue32", 8_000, "cuStreamWaitValue32_ptsz"),
            ("cuStreamWaitValue32", 12_080, "cuStreamWaitValue32_v2_ptsz"),
            ("cuMemAlloc", 12_080, "cuMemAlloc_v2"),
        ] {
            assert_eq!(find(name, version, true), symbol(found));
        }
    }

    #[test]
    fn every_name_has_a_function() {
        for (name, known) in names() {
            assert!(!known.forms.is_empty(), "{name}");
            assert!(known.forms.windows(2).all(|two| two[0] < two[1]), "{name}");
            for &version in &known.forms {
                for is_per_thread in [false, true] {
                    let Found::Symbol(symbol) = find(name, version, is_per_thread) else {
                        panic!("{name} {version}");
                    };
                    assert!(exports::find(&symbol).is_some(), "{symbol}");
                }
            }
        }
    }
}
