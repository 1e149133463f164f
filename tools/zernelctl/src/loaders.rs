// SPDX-License-Identifier: MIT OR Apache-2.0
//! `prefetch --loader`: the counters of the loaders that run.

use std::io::{self, Write as _};
use std::time::Duration;

use anyhow::{Context as _, Result};
use libzernel::loader::{all, of_process, Found, Listed, Record};
use serde::Serialize;

use crate::exit::NoProcess;
use crate::output;

/// The form of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A table.
    Table,
    /// JSON.
    Json,
    /// OpenMetrics, for a collector that reads text files.
    Metrics,
}

/// A loader as JSON.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    pid: u32,
    loader: usize,
    uid: u32,
    comm: &'a str,
    #[serde(flatten)]
    record: &'a Record,
}

/// Prints the loaders of a process, or of all whose files are the caller's to see.
pub fn show(pid: Option<u32>, form: Form) -> Result<()> {
    let listed = match pid {
        Some(pid) => of_process(pid).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => NoProcess(pid).into(),
            _ => anyhow::Error::from(error)
                .context(format!("the files of process {pid} cannot be seen")),
        })?,
        None => all().context("cannot list processes")?,
    };
    match form {
        Form::Table => output::text(&table(&listed.loaders))?,
        Form::Json => output::json(&shown(&listed.loaders))?,
        Form::Metrics => write!(io::stdout().lock(), "{}", metrics(&listed.loaders))?,
    }
    for line in missing(&listed) {
        eprintln!("zernelctl: {line}");
    }
    Ok(())
}

fn shown(loaders: &[Found]) -> Vec<Shown<'_>> {
    let shown = loaders.iter().map(|one| Shown {
        pid: one.pid,
        loader: one.rank,
        uid: one.uid,
        comm: &one.comm,
        record: &one.record,
    });
    shown.collect()
}

/// The loaders that are not in the list, in sentences.
fn missing(listed: &Listed) -> Vec<String> {
    let counts = [
        (
            listed.other_versions,
            "record of a loader is of another version: use the zernelctl of its libraries",
            "records of loaders are of another version: use the zernelctl of their libraries",
        ),
        (
            listed.damaged,
            "record of a loader is damaged, and left out",
            "records of loaders are damaged, and left out",
        ),
        (
            listed.left_out,
            "process or user has more loaders, or open files, than are looked at",
            "processes or users have more loaders, or open files, than are looked at",
        ),
    ];
    let told = counts.into_iter().filter(|(count, ..)| *count > 0);
    told.map(|(count, one, several)| format!("{count} {}", if count == 1 { one } else { several }))
        .collect()
}

const HEAD: [&str; 15] = [
    "PID", "COMMAND", "LOADER", "PACE", "DEPTH", "AHEAD", "BATCHES", "LATE", "WAITED", "FAULTS",
    "BYTES", "READ", "REQUESTS", "RETRIES", "HEDGES",
];

fn table(loaders: &[Found]) -> String {
    let rows = loaders.iter().map(|one| {
        let record = &one.record;
        vec![
            one.pid.to_string(),
            one.comm.clone(),
            one.rank.to_string(),
            record.pace.name().to_owned(),
            format!("{}/{}", record.depth, record.depth_max),
            record.ahead.to_string(),
            record.batches.to_string(),
            record.late.to_string(),
            waited(record.waited_ns),
            record.faults.to_string(),
            format!("{}/{}", bytes(record.bytes_ahead), bytes(record.bytes_max)),
            bytes(record.read_bytes),
            record.requests.to_string(),
            record.retries.to_string(),
            record.hedges.to_string(),
        ]
    });
    output::table(HEAD, |name| !["COMMAND", "PACE"].contains(&name), rows)
}

fn waited(ns: u64) -> String {
    format!("{:.3} s", Duration::from_nanos(ns).as_secs_f64())
}

/// Bytes in the unit that reads best.
fn bytes(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.iter().find(|(shift, _)| bytes >> shift > 0);
    match unit {
        Some((shift, name)) => format!("{:.1} {name}", bytes as f64 / (1_u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}

/// A metric: its name, kind and unit, its meaning, and its value.
type Metric = (
    &'static str,
    &'static str,
    &'static str,
    fn(&Record) -> String,
);

const METRICS: [Metric; 14] = [
    (
        "depth",
        "gauge",
        "Batches that are to be loaded ahead.",
        |one| one.depth.to_string(),
    ),
    (
        "depth_max",
        "gauge",
        "The most batches that are to be loaded ahead.",
        |one| one.depth_max.to_string(),
    ),
    (
        "ahead",
        "gauge",
        "Batches that are loaded ahead, or on their way.",
        |one| one.ahead.to_string(),
    ),
    ("ahead_bytes", "gauge", "Bytes of these.", |one| {
        one.bytes_ahead.to_string()
    }),
    (
        "metadata_bytes",
        "gauge",
        "Bytes of metadata in memory.",
        |one| one.metadata_bytes.to_string(),
    ),
    (
        "batches",
        "counter",
        "Batches that were handed over.",
        |one| one.batches.to_string(),
    ),
    ("faults", "counter", "Batches that were faults.", |one| {
        one.faults.to_string()
    }),
    ("late", "counter", "Batches that were waited for.", |one| {
        one.late.to_string()
    }),
    (
        "waited_seconds",
        "counter",
        "The time for which batches were waited for.",
        |one| {
            let ns = one.waited_ns;
            format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
        },
    ),
    ("signals", "counter", "Prefetch signals of zernel.", |one| {
        one.signals.to_string()
    }),
    (
        "requests",
        "counter",
        "Requests to the loader's store.",
        |one| one.requests.to_string(),
    ),
    (
        "retries",
        "counter",
        "Requests that were sent again.",
        |one| one.retries.to_string(),
    ),
    (
        "hedges",
        "counter",
        "Requests that were sent beside another.",
        |one| one.hedges.to_string(),
    ),
    (
        "read_bytes",
        "counter",
        "Bytes that came from the store.",
        |one| one.read_bytes.to_string(),
    ),
];

/// The metrics of loaders, as text of OpenMetrics 1.0. Labels are numbers alone, and none of them is one that
/// a process can choose.
fn metrics(loaders: &[Found]) -> String {
    let mut text = String::new();
    for (name, kind, help, value) in METRICS {
        let name = format!("zernel_loader_{name}");
        text += &format!("# TYPE {name} {kind}\n");
        for unit in ["seconds", "bytes"] {
            if name.ends_with(&format!("_{unit}")) {
                text += &format!("# UNIT {name} {unit}\n");
            }
        }
        text += &format!("# HELP {name} {help}\n");
        let suffix = if kind == "counter" { "_total" } else { "" };
        for one in loaders {
            let Found { pid, rank, uid, .. } = one;
            text += &format!(
                "{name}{suffix}{{uid=\"{uid}\",pid=\"{pid}\",loader=\"{rank}\"}} {}\n",
                value(&one.record)
            );
        }
    }
    text + "# EOF\n"
}

#[cfg(test)]
mod tests {
    use libzernel::loader::Pace;

    use super::*;

    fn found(pid: u32) -> Found {
        let record = Record {
            number: 9,
            depth: 3,
            depth_max: 4,
            ahead: 2,
            pace: Pace::Zernel,
            batches: 1_200,
            late: 17,
            waited_ns: 1_500_000_000,
            bytes_ahead: 96 << 20,
            bytes_max: 1 << 30,
            read_bytes: 700,
            requests: 9_600,
            retries: 4,
            hedges: 12,
            ..Record::default()
        };
        let comm = "train".to_owned();
        Found {
            pid,
            rank: 1,
            uid: 1_000,
            comm,
            record,
        }
    }

    #[test]
    fn a_loader_is_a_line() {
        let text = table(&[found(4_711)]);
        let lines: Vec<Vec<_>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[0], HEAD);
        let line = "4711 train 1 zernel 3/4 2 1200 17 1.500 s 0 96.0 MiB/1.0 GiB 700 B 9600 4 12";
        assert_eq!(lines[1].join(" "), line);
        let json = serde_json::to_value(shown(&[found(4_711)])).unwrap();
        assert_eq!(json[0]["pid"], 4_711);
        assert_eq!(
            (&json[0]["loader"], &json[0]["number"]),
            (&1.into(), &9.into())
        );
        assert_eq!(json[0]["pace"], "zernel");
        assert_eq!(json[0]["waited_ns"], 1_500_000_000_u64);
    }

    #[test]
    fn metrics_have_a_series_for_each_loader() {
        let text = metrics(&[found(1), found(2)]);
        assert!(text.ends_with("# EOF\n"));
        let waited =
            "zernel_loader_waited_seconds_total{uid=\"1000\",pid=\"2\",loader=\"1\"} 1.500000000";
        assert!(text.lines().any(|line| line == waited), "{text}");
        assert!(text.contains("# UNIT zernel_loader_waited_seconds seconds\n"));
        let depth = "zernel_loader_depth{uid=\"1000\",pid=\"1\",loader=\"1\"} 3";
        assert!(text.lines().any(|line| line == depth), "{text}");
        let series = text.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(series, 2 * METRICS.len());
        assert_eq!(metrics(&[]).lines().last(), Some("# EOF"));
    }

    #[test]
    fn no_series_is_there_twice() {
        // A number that was chosen to be that of another loader makes no label.
        let second = Found {
            rank: 2,
            ..found(1)
        };
        let text = metrics(&[found(1), second]);
        let series = text.lines().filter(|line| !line.starts_with('#'));
        let mut series: Vec<_> = series.filter_map(|line| line.split(' ').next()).collect();
        let all = series.len();
        series.sort_unstable();
        series.dedup();
        assert_eq!((series.len(), all), (2 * METRICS.len(), all));
        assert!(!text.contains("loader=\"9\""), "{text}");
    }

    #[test]
    fn what_is_missing_is_told() {
        assert!(missing(&Listed::default()).is_empty());
        let listed = Listed {
            other_versions: 1,
            damaged: 2,
            left_out: 1,
            ..Listed::default()
        };
        let told = missing(&listed);
        assert!(told[0].starts_with("1 record of a loader is of another version"));
        assert!(told[1].starts_with("2 records of loaders are damaged"));
        assert!(told[2].starts_with("1 process or user has more"));
    }
}
