// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attributes of the device and its driver.

use anyhow::Result;
use cuda::Attribute;

use crate::gpu::Gpu;
use crate::report::Findings;

/// The attributes, and the value that zernel needs.
const ATTRIBUTES: [(&str, Attribute, Option<i32>); 10] = [
    ("generation, major", Attribute::Major, None),
    ("generation, minor", Attribute::Minor, None),
    ("multiprocessors", Attribute::Multiprocessors, None),
    (
        "maps memory of the host",
        Attribute::MapsHostMemory,
        Some(1),
    ),
    ("preempts within a kernel", Attribute::Preemption, Some(1)),
    (
        "same address of registered memory",
        Attribute::SameHostAddress,
        None,
    ),
    (
        "memory operations of the first form",
        Attribute::MemoryOperations1,
        None,
    ),
    (
        "memory operations of 64 bits",
        Attribute::MemoryOperations64,
        None,
    ),
    ("cooperative kernels", Attribute::Cooperative, None),
    ("shared by MPS", Attribute::Mps, None),
];

/// The oldest generation that the holder has a text for.
const OLDEST: i32 = 7;

pub fn run(gpu: &Gpu) -> Result<Findings> {
    let mut findings = Findings::default();
    for (name, attribute, needed) in ATTRIBUTES {
        let value = gpu.driver.attribute(gpu.device, attribute)?;
        findings.value(name, value);
        if let Some(needed) = needed {
            findings.expect(format!("{name}: {needed}"), value == needed);
        }
    }
    let major = gpu.driver.attribute(gpu.device, Attribute::Major)?;
    findings.expect(format!("generation {OLDEST} or later"), major >= OLDEST);
    let (free, all) = gpu.enter()?.memory()?;
    findings.value("memory, MiB", all >> 20);
    findings.value("free memory, MiB", free >> 20);
    Ok(findings)
}
