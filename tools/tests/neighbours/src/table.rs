// SPDX-License-Identifier: GPL-2.0
//! The table of all attacks.

use zernel_report::figures::Table;

use crate::compare::Row;

/// Calls with columns of their own.
const CALLS: [&str; 5] = ["class get", "class set", "tsg list", "track", "request"];

/// The table; the first row is without an attack.
pub fn render(rows: &[Row]) -> String {
    let Some(quiet) = rows.first() else {
        return String::new();
    };
    let head = ["attack", "LC µs\np50", "\np99", "\nmax", "LC\nlost"];
    let calls = CALLS.map(|name| format!("{}\np99/max µs", name.replace(' ', "\u{a0}")));
    let rest = ["other\nmax µs", "failed", "back\nms", "left"];
    let head: Vec<String> = head
        .into_iter()
        .map(String::from)
        .chain(calls)
        .chain(rest.map(String::from))
        .collect();
    let columns = head.len();
    let mut table = Table::new(head, 1..columns);
    for (at, row) in rows.iter().enumerate() {
        let us = |ns: u64, before: u64| match at {
            0 => format!("{:.0}", ns as f64 / 1e3),
            _ => format!("{:+.0}", (ns as f64 - before as f64) / 1e3),
        };
        let (lc, before) = (&row.lc, &quiet.lc);
        let mut cells = vec![
            row.attack.clone(),
            us(lc.p50_ns, before.p50_ns),
            us(lc.p99_ns, before.p99_ns),
            us(lc.max_ns, before.max_ns),
            row.dropped.to_string(),
        ];
        for name in CALLS {
            let time = row.calls.times.get(name).copied().unwrap_or_default();
            let (p99, max) = (time.p99_ns as f64 / 1e3, time.max_ns as f64 / 1e3);
            cells.push(format!("{p99:.0}/{max:.0}"));
        }
        let others = row.calls.times.iter();
        let others = others.filter(|(name, _)| !CALLS.contains(&name.as_str()));
        let longest = others.map(|(_, time)| time.max_ns).max().unwrap_or(0);
        cells.push(format!("{:.0}", longest as f64 / 1e3));
        cells.push(row.calls.failed_beyond(&quiet.calls).to_string());
        cells.push(row.left.after_ms.to_string());
        let mut left: Vec<_> = row
            .left
            .objects
            .iter()
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        left.push(format!("{} KiB", row.left.kib));
        cells.push(left.join(", "));
        table.add(cells);
    }
    format!("{table}\n{LEGEND}")
}

/// The meaning of the columns.
const LEGEND: &str = "\
LC: latency of requests of workload B1; without an attack, and what each attack adds to that figure.
lost: requests that a newer one took the place of. Calls: of another process of the same user.
failed: calls that failed as none did without an attack. back: time after the tenants' end until all
their objects were gone. left: objects, and kernel memory, beyond those before.
";
