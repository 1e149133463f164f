// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of all attacks.

use std::fs;
use std::path::Path;

use anyhow::{ensure, Context as _, Result};
use zernel_report::figures::Table;
use zernel_report::stats::Summary;

use crate::attacks;
use crate::compare::{Row, NONE};

/// Calls with columns of their own.
const CALLS: [&str; 6] = [
    "class get",
    "class set",
    "tsg list",
    "track",
    "request",
    "no holder",
];

/// Bounds of the latency that an attack may add to requests, in microseconds.
const MOST_P99_US: f64 = 20.0;
const MOST_MAX_US: f64 = 100.0;

/// Prints the rows of a folder.
pub fn print(folder: &Path) -> Result<()> {
    let names = std::iter::once(NONE).chain(attacks::every().map(|attack| attack.name));
    let mut rows = Vec::new();
    for name in names {
        let path = folder.join(format!("{name}.json"));
        if path.exists() {
            let text = fs::read(&path)?;
            let row: Row = serde_json::from_slice(&text).context(name)?;
            rows.push(row);
        }
    }
    ensure!(
        !rows.is_empty(),
        "{}: no row of a table is there",
        folder.display()
    );
    print!("{}", render(&rows));
    Ok(())
}

/// The table. Where the first row is without an attack, latencies of the others are what is added.
pub fn render(rows: &[Row]) -> String {
    let quiet = rows.first().filter(|row| row.attack == NONE);
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
    for row in rows {
        table.add(cells(row, quiet));
    }
    format!("{table}\n{LEGEND}{}", verdict(rows, quiet))
}

fn cells(row: &Row, quiet: Option<&Row>) -> Vec<String> {
    let mut cells = vec![row.attack.clone()];
    match (&row.lc, added(row, quiet)) {
        (Some(lc), Some(added)) => {
            cells.extend(added.map(|us| format!("{us:+.0}")));
            cells.push(lc.dropped.to_string());
        }
        (Some(lc), None) => {
            cells.extend(figures(&lc.latency).map(|us| format!("{us:.0}")));
            cells.push(lc.dropped.to_string());
        }
        (None, _) => cells.extend(std::array::from_fn::<_, 4, _>(|_| "-".to_owned())),
    }
    match &row.calls {
        Some(calls) => {
            let time = |name: &str| calls.times.get(name).copied().unwrap_or_default();
            cells.extend(CALLS.map(|name| {
                let [_, p99, max] = figures(&time(name));
                format!("{p99:.0}/{max:.0}")
            }));
            let others = calls.times.iter();
            let others = others.filter(|(name, _)| !CALLS.contains(&name.as_str()));
            let longest = others.map(|(_, time)| time.max_ns).max().unwrap_or(0);
            cells.push(format!("{:.0}", longest as f64 / 1e3));
            let quiet = quiet.and_then(|quiet| quiet.calls.as_ref());
            cells.push(calls.failed_beyond(quiet).to_string());
        }
        None => cells.extend(std::array::from_fn::<_, 8, _>(|_| "-".to_owned())),
    }
    let end = match (&row.fault, &row.now) {
        (Some(fault), _) => Some(fault.clone()),
        (None, Some(part)) => Some(format!("not over: {part}")),
        (None, None) => None,
    };
    match (&row.left, end) {
        (Some(left), None) => {
            cells.push(left.after_ms.to_string());
            let objects = left.objects.iter();
            let objects = objects.map(|(name, count)| format!("{count} {name}"));
            let kib = std::iter::once(format!("{} KiB", left.kib));
            cells.push(objects.chain(kib).collect::<Vec<_>>().join(", "));
        }
        (_, end) => {
            cells.push("-".to_owned());
            cells.push(end.unwrap_or_default());
        }
    }
    cells
}

/// p50, p99 and max in microseconds.
fn figures(summary: &Summary) -> [f64; 3] {
    [summary.p50_ns, summary.p99_ns, summary.max_ns].map(|ns| ns as f64 / 1e3)
}

/// The same that an attack adds to the latency of requests.
fn added(row: &Row, quiet: Option<&Row>) -> Option<[f64; 3]> {
    let (lc, quiet) = (row.lc.as_ref()?, quiet?.lc.as_ref()?);
    if row.attack == NONE {
        return None;
    }
    let (with, without) = (figures(&lc.latency), figures(&quiet.latency));
    Some(std::array::from_fn(|at| with[at] - without[at]))
}

/// The attacks that take more than they may.
fn verdict(rows: &[Row], quiet: Option<&Row>) -> String {
    let mut text = String::new();
    for row in rows {
        if let Some([_, p99, max]) = added(row, quiet) {
            if p99 > MOST_P99_US || max > MOST_MAX_US {
                text += &format!(
                    "{}: LC p99 {p99:+.0} µs, max {max:+.0} µs: over {MOST_P99_US:.0} or \
                     {MOST_MAX_US:.0}\n",
                    row.attack
                );
            }
        }
        let quiet = quiet.and_then(|quiet| quiet.calls.as_ref());
        for (call, count) in row.calls.iter().flat_map(|calls| calls.new_failures(quiet)) {
            text += &format!("{}: {count} failed: {call}\n", row.attack);
        }
    }
    text
}

/// The meaning of the columns.
const LEGEND: &str = "\
LC: latency of requests of workload B1; without an attack, and what each attack adds to that figure.
lost: requests that a newer one took the place of. Calls: of another process of the same user.
failed: calls that failed as none did without an attack. back: time after the tenants' end until all
their objects were gone. left: objects, and kernel memory, beyond those before.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::Calls;
    use crate::compare::Served;

    fn row(attack: &str, max_us: u64, failed: &[(&str, u64)]) -> Row {
        let latency = Summary {
            max_ns: max_us * 1_000,
            ..Summary::default()
        };
        let failed = failed.iter().map(|(what, count)| ((*what).into(), *count));
        Row {
            attack: attack.to_owned(),
            lc: Some(Served {
                latency,
                dropped: 0,
                be_rate: 1.0,
            }),
            calls: Some(Calls {
                failed: failed.collect(),
                ..Calls::default()
            }),
            ..Row::default()
        }
    }

    #[test]
    fn a_loss_is_told_and_a_row_that_did_not_end() {
        let quiet = row(NONE, 50, &[("track: 11", 1)]);
        let good = row("good", 150, &[("track: 11", 4)]);
        let mut bad = row("bad", 151, &[("track: 12", 2)]);
        bad.now = Some("tenants end".to_owned());
        let text = render(&[quiet, good, bad]);
        assert!(text.contains("not over: tenants end"), "{text}");
        assert!(text.contains("bad: LC p99 +0 µs, max +101 µs"), "{text}");
        assert!(text.contains("bad: 2 failed: track: 12"), "{text}");
        assert!(!text.contains("good: "), "{text}");
    }
}
