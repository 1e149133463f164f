// SPDX-License-Identifier: MIT OR Apache-2.0
//! The environment variables that change the library, for tests.

use std::sync::OnceLock;

/// The version of the driver's interface: CUDA 12.8.
pub const VERSION: i32 = 12_080;

/// Memory of each device: 80 GB.
const MEMORY: u64 = 80 << 30;

/// Nanoseconds of a wave of a kernel that is not known.
const KERNEL_NS: u64 = 2_000;

/// The settings, which are read once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knobs {
    /// `FAKECUDA_NO_MEMOPS`: no stream memory operations.
    pub no_memops: bool,
    /// `FAKECUDA_DRIVER`: version of the interface, 1000 * major + 10 * minor.
    pub version: i32,
    /// `FAKECUDA_MEMORY`: bytes of each device.
    pub memory: u64,
    /// `FAKECUDA_MPS`: devices say that MPS shares their contexts.
    pub mps: bool,
    /// `FAKECUDA_MIG`: devices are MIG instances, whose UUIDs zernel does not list.
    pub mig: bool,
    /// `FAKECUDA_KERNEL_NS`: nanoseconds of a wave of a kernel that is not known.
    pub kernel_ns: u64,
    /// `FAKECUDA_STALL_COPIES`: synchronous copies of pageable memory wait for the whole context.
    pub stall_copies: bool,
    /// `CUDA_DEVICE_MAX_CONNECTIONS`, as CUDA has it: channels that streams share on the compute
    /// engine; as many as there are where it is not set.
    pub connections: Option<u32>,
    /// `FAKECUDA_RELAY`: memory operations go through the helper thread, none to the GPU itself.
    pub relay: bool,
}

impl Knobs {
    /// Reads them with `get`, which knows the value of a variable. A value that is no number counts
    /// as absent.
    fn read(get: impl Fn(&str) -> Option<String>) -> Self {
        let number = |name: &str| get(name).and_then(|text| text.trim().parse::<u64>().ok());
        let is_on = |name: &str| get(name).is_some_and(|text| !matches!(text.trim(), "" | "0"));
        let version = number("FAKECUDA_DRIVER").and_then(|version| i32::try_from(version).ok());
        Self {
            no_memops: is_on("FAKECUDA_NO_MEMOPS"),
            version: version.unwrap_or(VERSION),
            memory: number("FAKECUDA_MEMORY").unwrap_or(MEMORY),
            kernel_ns: number("FAKECUDA_KERNEL_NS").unwrap_or(KERNEL_NS),
            mps: is_on("FAKECUDA_MPS"),
            mig: is_on("FAKECUDA_MIG"),
            stall_copies: is_on("FAKECUDA_STALL_COPIES"),
            connections: number("CUDA_DEVICE_MAX_CONNECTIONS")
                .filter(|connections| (1..=32).contains(connections))
                .map(|connections| connections as u32),
            relay: is_on("FAKECUDA_RELAY"),
        }
    }
}

/// Those of this process.
pub fn knobs() -> &'static Knobs {
    static KNOBS: OnceLock<Knobs> = OnceLock::new();
    KNOBS.get_or_init(|| Knobs::read(|name| std::env::var(name).ok()))
}

/// True if `cuGetProcAddress` is not to find a function: `FAKECUDA_ABSENT` has its name, among others
/// with commas between them. It is read each time.
pub fn is_absent(name: &str) -> bool {
    is_listed(&std::env::var("FAKECUDA_ABSENT").unwrap_or_default(), name)
}

/// True if a function of GDRCopy is to fail: `FAKECUDA_GDRCOPY_FAILS` has its name, among others with
/// commas between them. It is read each time.
pub fn fails(name: &str) -> bool {
    let list = std::env::var("FAKECUDA_GDRCOPY_FAILS").unwrap_or_default();
    is_listed(&list, name)
}

/// True if mappings of GDRCopy say that they end with their memory: `FAKECUDA_GDRCOPY_FLEETING` is 1. It
/// is read each time.
pub fn is_fleeting() -> bool {
    std::env::var("FAKECUDA_GDRCOPY_FLEETING").is_ok_and(|value| value == "1")
}

fn is_listed(list: &str, name: &str) -> bool {
    list.split(',').any(|other| other.trim() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_set_is_the_default() {
        let knobs = Knobs::read(|_| None);
        assert_eq!((knobs.version, knobs.memory), (12_080, 80 << 30));
        assert!(!knobs.no_memops && !knobs.relay && !knobs.stall_copies && !knobs.mps);
        assert!(!knobs.mig);
        assert_eq!(knobs.connections, None);
    }

    #[test]
    fn each_is_read() {
        let knobs = Knobs::read(|name| {
            let value = match name {
                "FAKECUDA_NO_MEMOPS" | "FAKECUDA_STALL_COPIES" | "FAKECUDA_MPS" => "1",
                "FAKECUDA_RELAY" => "0",
                "FAKECUDA_DRIVER" => "11040",
                "FAKECUDA_MEMORY" => "1024",
                "FAKECUDA_KERNEL_NS" => "many",
                _ => return None,
            };
            Some(value.to_owned())
        });
        assert!(knobs.no_memops && knobs.stall_copies && knobs.mps && !knobs.relay);
        assert_eq!((knobs.version, knobs.memory), (11_040, 1024));
        assert_eq!(knobs.kernel_ns, KERNEL_NS);
    }

    #[test]
    fn connections_are_1_to_32() {
        for (text, connections) in [("8", Some(8)), ("32", Some(32)), ("0", None), ("33", None)] {
            let get = |name: &str| (name == "CUDA_DEVICE_MAX_CONNECTIONS").then(|| text.to_owned());
            assert_eq!(Knobs::read(get).connections, connections, "{text}");
        }
    }

    #[test]
    fn names_are_listed_with_commas() {
        assert!(is_listed("cuInit, cuMemAlloc,", "cuMemAlloc"));
        assert!(!is_listed("cuInit,cuMemAlloc", "cuMem"));
        assert!(!is_listed("", "cuInit"));
    }
}
