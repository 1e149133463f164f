// SPDX-License-Identifier: MIT OR Apache-2.0
//! The remains of tenants that are gone: objects that the module counts, and memory.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{ensure, Result};
use libzernel::{Stats, Zernel};
use serde::{Deserialize, Serialize};

/// Longest time until everything is given back.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time in which memory comes back that readers may still see.
const GRACE: Duration = Duration::from_millis(500);

/// The objects and the memory at one time.
#[derive(Debug, Clone, Copy)]
pub struct Stock {
    stats: Stats,
    bytes: u64,
}

/// The remains.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Left {
    /// Time until the module counted as many objects as before, in milliseconds.
    pub after_ms: u64,
    /// Objects that are still there, by kind.
    pub objects: Vec<(String, i64)>,
    /// Kernel memory in use above that before, in KiB.
    pub kib: i64,
}

impl Stock {
    /// Takes stock, once the consequences of what was before are over.
    pub fn take() -> Result<Self> {
        std::thread::sleep(GRACE);
        Ok(Self {
            stats: Zernel::open()?.stats()?,
            bytes: memory()?,
        })
    }

    /// The remains since then: waits until the objects are gone, and frees what caches keep.
    pub fn left(&self) -> Result<Left> {
        let since = Instant::now();
        let objects = loop {
            let stats = Zernel::open()?.stats()?;
            let objects = differences(&self.stats, &stats);
            if objects.is_empty() || since.elapsed() > PATIENCE {
                break objects;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let after_ms = since.elapsed().as_millis() as u64;
        std::thread::sleep(GRACE);
        Ok(Left {
            after_ms,
            objects,
            kib: (memory()? as i64 - self.bytes as i64) / 1024,
        })
    }
}

/// Counts of objects that differ.
fn differences(before: &Stats, after: &Stats) -> Vec<(String, i64)> {
    let of = |stats: &Stats| {
        [
            ("TSGs", stats.tsgs),
            ("classes", stats.classes),
            ("streams", stats.streams),
            ("slots", stats.slots),
            ("threads", stats.threads),
            ("subscriptions", stats.subscriptions),
            ("probes", stats.probes),
        ]
    };
    let pairs = of(before).into_iter().zip(of(after));
    pairs
        .filter(|((_, before), (_, after))| before != after)
        .map(|((name, before), (_, after))| (name.to_owned(), after as i64 - before as i64))
        .collect()
}

/// Bytes in use of the kernel's allocators of small objects and of virtual memory, once file
/// systems have given back what they can.
fn memory() -> Result<u64> {
    fs::write("/proc/sys/vm/drop_caches", "3")?;
    for cache in fs::read_dir("/sys/kernel/slab")
        .into_iter()
        .flatten()
        .flatten()
    {
        // Some are aliases of others, some cannot be shrunk.
        let _ = fs::write(cache.path().join("shrink"), "1");
    }
    let mut kib = 0;
    for line in fs::read_to_string("/proc/meminfo")?.lines() {
        let mut fields = line.split_whitespace();
        if let Some("SUnreclaim:" | "VmallocUsed:") = fields.next() {
            kib += fields.next().and_then(|kib| kib.parse().ok()).unwrap_or(0);
        }
    }
    ensure!(kib > 0, "/proc/meminfo is not understood");
    Ok(kib * 1024)
}
