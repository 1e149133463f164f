// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's own meters: the tracer of sections without interrupts or preemption, and the
//! statistics of locks. Where the guest counts instructions, a nanosecond is one.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{ensure, Context as _, Result};
use serde::{Deserialize, Serialize};

const TRACING: &str = "/sys/kernel/tracing";
const LOCK_STAT: &str = "/proc/lock_stat";

/// A hold of a lock, or a section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The lock, or the functions in which the section began and ended.
    pub place: String,
    /// Its length, in nanoseconds.
    pub ns: u64,
    /// Number of holds; 0 for a section.
    pub count: u64,
}

/// A meter of this kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meter {
    /// `preemptirqsoff`: the longest section, to a microsecond.
    Sections,
    /// `/proc/lock_stat`: holds of each class of locks.
    Locks,
}

impl Meter {
    /// The one that this kernel has.
    pub fn of_kernel() -> Result<Self> {
        if Path::new(LOCK_STAT).exists() {
            return Ok(Self::Locks);
        }
        let tracers = fs::read_to_string(format!("{TRACING}/available_tracers"))?;
        ensure!(
            tracers.contains("preemptirqsoff"),
            "this kernel measures no holds; boot that of `scripts/kernel trace` or `lockstat`"
        );
        trace("options/sym-offset", "1")?;
        trace("current_tracer", "preemptirqsoff")?;
        Ok(Self::Sections)
    }

    /// Forgets what was measured.
    pub fn clear(self) -> Result<()> {
        match self {
            Self::Sections => trace("tracing_max_latency", "0"),
            Self::Locks => fs::write(LOCK_STAT, "0").context("clear the statistics of locks"),
        }
    }

    /// The holds since then, the longest first: one section, or zernel's locks.
    pub fn read(self) -> Result<Vec<Hold>> {
        match self {
            Self::Sections => {
                let ns = fs::read_to_string(format!("{TRACING}/tracing_max_latency"))?;
                let text = fs::read_to_string(format!("{TRACING}/trace"))?;
                Ok(vec![Hold {
                    place: section(&text),
                    ns: ns.trim().parse::<u64>()? * 1_000,
                    count: 0,
                }])
            }
            Self::Locks => {
                let mut all = locks(&fs::read_to_string(LOCK_STAT)?);
                all.retain(|hold| is_own(&hold.place));
                Ok(all)
            }
        }
    }
}

/// All classes of locks that are taken.
pub fn all_locks() -> Result<Vec<Hold>> {
    let mut all = locks(&fs::read_to_string(LOCK_STAT)?);
    all.retain(|hold| is_lock(&hold.place));
    Ok(all)
}

/// False for what lockdep only treats like a lock: sections of RCU, flushes of work, and places at
/// which memory may be waited for.
fn is_lock(name: &str) -> bool {
    const OTHERS: [&str; 5] = [
        "rcu_",
        "(wq_completion)",
        "(work_completion)",
        "fs_reclaim",
        "mmu_notifier_invalidate_range_start",
    ];
    !OTHERS.iter().any(|other| name.starts_with(other))
}

/// A lock of the modules: classes are named, or have the file and line that made them, or the name
/// of a static.
fn is_own(name: &str) -> bool {
    let is_static = |c: char| c.is_ascii_uppercase() || c == '_';
    let is_global = name.len() > 2 && name.chars().all(is_static);
    is_lock(name) && (is_global || name.contains("zernel") || name.contains("rust/sim/"))
}

fn trace(file: &str, value: &str) -> Result<()> {
    fs::write(format!("{TRACING}/{file}"), value).with_context(|| file.to_owned())
}

/// Begin and end of the section in a trace, and functions of ours on the stack at its end.
fn section(text: &str) -> String {
    let after = |mark: &str| {
        let rest = text.lines().find_map(|line| line.split_once(mark));
        function(rest.map_or("?", |(_, rest)| rest.trim()))
    };
    let (from, to) = (after("=> started at:"), after("=> ended at:"));
    let stack = text.lines().filter(|line| line.contains("[zernel"));
    let frames = stack.filter_map(|line| line.trim().strip_prefix("=> "));
    let own: Vec<_> = frames.map(function).take(3).collect();
    let within = match own.is_empty() {
        true => String::new(),
        false => format!(" in {}", own.join(" < ")),
    };
    match from == to {
        true => format!("{from}{within}"),
        false => format!("{from} … {to}{within}"),
    }
}

/// A symbol without offset and module, a Rust one without its mangling: the last names of its path.
fn function(symbol: &str) -> String {
    let name = symbol.split(['+', ' ']).next().unwrap_or(symbol);
    let Some(mangled) = name.strip_prefix("_R") else {
        return name.to_owned();
    };
    let (mut path, mut rest) = (Vec::new(), mangled);
    while let Some(tag) = rest.chars().next() {
        if !tag.is_ascii_digit() {
            // These are followed by a number up to a `_`: a part that was there before, and one of
            // several of a name.
            let skip = match tag {
                'B' | 's' => rest.find('_').map_or(rest.len(), |at| at + 1),
                _ => tag.len_utf8(),
            };
            rest = &rest[skip..];
            continue;
        }
        let digits = rest.find(|c: char| !c.is_ascii_digit());
        let (length, name) = rest.split_at(digits.unwrap_or(rest.len()));
        let length = length.parse().unwrap_or(0);
        let name = name.strip_prefix('_').unwrap_or(name);
        let Some(part) = name.get(..length).filter(|part| !part.is_empty()) else {
            break;
        };
        path.push(part);
        rest = &name[length..];
    }
    path[path.len().saturating_sub(3)..].join("::")
}

/// The classes in the statistics, the longest hold first: those for reading and for writing are
/// apart.
fn locks(text: &str) -> Vec<Hold> {
    const COLUMNS: usize = 12;
    let mut all = BTreeMap::new();
    for line in text.lines() {
        let Some((name, figures)) = line.rsplit_once(": ") else {
            continue;
        };
        let figures: Vec<f64> = figures.split_whitespace().flat_map(str::parse).collect();
        if figures.len() == COLUMNS {
            // acquisitions, and the longest hold in microseconds.
            let (count, ns) = (figures[7] as u64, (figures[9] * 1e3) as u64);
            let entry: &mut (u64, u64) = all.entry(name.trim().to_owned()).or_default();
            *entry = (entry.0 + count, entry.1.max(ns));
        }
    }
    let mut all: Vec<_> = all
        .into_iter()
        .filter(|(_, (count, _))| *count > 0)
        .map(|(place, (count, ns))| Hold { place, ns, count })
        .collect();
    all.sort_by_key(|hold| std::cmp::Reverse(hold.ns));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read() {
        let text = "# latency: 71 us, #4/4, CPU#0
#  => started at: rust_helper_spin_lock+0x9/0x20
#  => ended at:   rust_helper_spin_unlock+0x9/0x20
   probe-99  0...1 72us : <stack trace>
 => rust_helper_spin_unlock+0x9/0x20
 => zernel_helper_waiters_any+0x10/0x90 [zernel]
";
        let expected =
            "rust_helper_spin_lock … rust_helper_spin_unlock in zernel_helper_waiters_any";
        assert_eq!(section(text), expected);
        assert_eq!(section(""), "?");
        let symbol = "_RNvMNtNtCsiHo09XeB4a3_6zernel6worker8rotationNtB2_8Rotation4step+0x1/0x2";
        assert_eq!(function(symbol), "rotation::Rotation::step");
    }

    #[test]
    fn statistics_of_locks_are_read() {
        let text = "lock_stat version 0.4
   class name    con-bounces    contentions   waittime-min
-----
  zernel_registry:  1  2  0.1 0.2 0.3 0.1  5  6  0.10  12.50  20.0 3.3
  -----------
  &p->pi_lock:  0  0  0.0 0.0 0.0 0.0  0  9  0.10  1.00  2.0 0.1
";
        let all = locks(text);
        let registry = Hold {
            place: "zernel_registry".to_owned(),
            ns: 12_500,
            count: 6,
        };
        assert_eq!(all[0], registry);
        assert_eq!(all.len(), 2);
        assert!(is_own(&all[0].place) && !is_own(&all[1].place));
        assert!(is_own("REGISTRY"));
        assert!(!is_own("(wq_completion)zernel"));
    }
}
