// SPDX-License-Identifier: MIT OR Apache-2.0
//! The function of `config.h`.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;

use zernel_config::{Config, ReleaseWord};

use super::{abi, c_char, c_int, call, Place, Sized32};

// SAFETY: Integers.
unsafe impl Sized32 for abi::zernel_config {}

/// Bytes of the first version.
const CONFIG: usize = 80;

/// As C has it. `size` is the caller's.
fn told(config: &Config, size: u32) -> abi::zernel_config {
    let ns = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let mut told = abi::zernel_config {
        size,
        gpu: config.scheduler.gpu_id,
        lc_level: config.priorities.latency_critical.number().into(),
        be_level: config.priorities.best_effort.number().into(),
        lc_slice_us: config.slices.latency_critical_us.unwrap_or_default(),
        be_slice_us: config.slices.best_effort_us.unwrap_or_default(),
        preemption: config.preemption.enabled.into(),
        lanes: config.preemption.lanes,
        linger_ns: ns(config.preemption.linger),
        bound_ns: ns(config.preemption.bound.unwrap_or_default()),
        is_inline: config.preemption.inline.into(),
        workers: config.resources.workers,
        queue: config.resources.queue,
        window: config.monitoring.window,
        policy: [0; 16],
        release_word: match config.preemption.release_word {
            ReleaseWord::Auto => abi::ZERNEL_WORD_AUTO,
            ReleaseWord::Host => abi::ZERNEL_WORD_HOST,
            ReleaseWord::Gpu => abi::ZERNEL_WORD_GPU,
        },
        reserved: 0,
    };
    // The last one stays zero.
    for (to, &byte) in told.policy[..15]
        .iter_mut()
        .zip(config.policy.name.as_bytes())
    {
        *to = byte as c_char;
    }
    told
}

/// # Safety
///
/// As the header says.
#[no_mangle]
unsafe extern "C" fn zernel_config_read(
    path: *const c_char,
    config: *mut abi::zernel_config,
) -> c_int {
    call(|| {
        // SAFETY: By the caller.
        let place = unsafe { Place::at(config, CONFIG, |_| 0)? };
        let read = match path.is_null() {
            true => Config::default(),
            false => {
                // SAFETY: By the caller, it ends with a zero.
                let path = unsafe { CStr::from_ptr(path) };
                Config::from_file(OsStr::from_bytes(path.to_bytes()))?
            }
        };
        place.store(&told(&read, place.size));
        Ok(())
    })
}

/// The function has the type that the header declares.
const _: () = {
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [abi::zernel_config_read, zernel_config_read];
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::mem::size_of;
    use std::ptr;

    fn empty() -> abi::zernel_config {
        abi::zernel_config {
            size: size_of::<abi::zernel_config>() as u32,
            ..Default::default()
        }
    }

    #[test]
    fn no_file_has_the_defaults() {
        assert_eq!(size_of::<abi::zernel_config>(), CONFIG + 8);
        let mut config = empty();
        // SAFETY: Both are valid.
        assert_eq!(unsafe { zernel_config_read(ptr::null(), &mut config) }, 0);
        assert_eq!((config.lc_level, config.be_level, config.lanes), (0, 7, 4));
        assert_eq!((config.preemption, config.bound_ns), (1, 0));
        // SAFETY: It ends with a zero.
        assert_eq!(unsafe { CStr::from_ptr(config.policy.as_ptr()) }, c"fair");
    }

    #[test]
    fn names_of_policies_fit() {
        assert!(zernel_config::Policy::NAMES
            .iter()
            .all(|name| name.len() < 16));
    }

    #[test]
    fn a_file_is_read_or_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("z.yaml");
        let path = CString::new(file.as_os_str().as_bytes()).unwrap();
        let mut config = empty();
        let mut read = |text: &str, size| {
            std::fs::write(&file, text).unwrap();
            config.size = size;
            // SAFETY: Both are valid, and the structure is not shorter than it says.
            let result = unsafe { zernel_config_read(path.as_ptr(), &mut config) };
            (result, config)
        };
        let (result, config) = read("preemption: {bound_us: 7, linger_us: 3}", 80);
        assert_eq!(
            (result, config.bound_ns, config.linger_ns),
            (0, 7_000, 3_000)
        );
        for (name, word) in [
            ("auto", abi::ZERNEL_WORD_AUTO),
            ("host", abi::ZERNEL_WORD_HOST),
            ("gpu", abi::ZERNEL_WORD_GPU),
        ] {
            let text = format!("preemption: {{release_word: {name}, bound_us: 7}}");
            let (result, config) = read(&text, 88);
            assert_eq!((result, config.release_word), (0, word), "{name}");
        }
        // A program of the first version has no place for it.
        let (result, config) = read("preemption: {bound_us: 7}", 80);
        assert_eq!((result, config.release_word), (0, abi::ZERNEL_WORD_GPU));
        for (text, size, error) in [
            ("preemption: {lanes: 0}", 80, -34),
            ("preemption: {lane: 0}", 80, -126),
            ("a: [", 80, -74),
            ("", 79, -22),
        ] {
            let (result, config) = read(text, size);
            assert_eq!((result, config.bound_ns), (error, 7_000), "{text}");
        }
        // SAFETY: A null pointer is refused.
        let result = unsafe { zernel_config_read(path.as_ptr(), ptr::null_mut()) };
        assert_eq!(result, -22);
    }
}
