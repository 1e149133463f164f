// SPDX-License-Identifier: GPL-2.0
//! `requests`: what became of requests, and how long they took.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use libzernel::request::{Histogram, Of};
use libzernel::{tsg, Level, RequestStats, Zernel};
use serde::Serialize;

use crate::output;

/// Which requests to show, and how much of them.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Those of one TSG.
    pub tsg: Option<tsg::Id>,
    /// Those of one level.
    pub level: Option<Level>,
    /// Their latencies, too.
    pub histogram: bool,
}

/// The statistics of one kind, and maybe the histogram of their latencies.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    stats: RequestStats,
    #[serde(skip_serializing_if = "Option::is_none")]
    histogram: Option<Histogram>,
}

/// All requests, and those of each level that has had some.
#[derive(Debug, Serialize)]
struct Overview {
    all: Shown,
    levels: BTreeMap<u8, RequestStats>,
}

/// Shows what became of requests.
pub fn show(zernel: &Zernel, options: &Options, json: bool) -> Result<()> {
    let one = match (options.tsg, options.level) {
        (Some(id), _) => Of::Tsg(id),
        (None, Some(level)) => Of::Level(level),
        (None, None) => return overview(zernel, options.histogram, json),
    };
    let shown = Shown::read(zernel, one, options.histogram)?;
    if json {
        return output::json(&shown);
    }
    output::text(&with_histogram(counters(&shown.stats), &shown.histogram))
}

fn overview(zernel: &Zernel, histogram: bool, json: bool) -> Result<()> {
    let mut levels = BTreeMap::new();
    for level in Level::all() {
        let stats = zernel.request_stats(Of::Level(level))?;
        if stats.requests > 0 {
            levels.insert(level.number(), stats);
        }
    }
    let all = Shown::read(zernel, Of::All, histogram)?;
    let overview = Overview { all, levels };
    if json {
        return output::json(&overview);
    }
    let histogram = &overview.all.histogram;
    output::text(&with_histogram(level_table(&overview), histogram))
}

impl Shown {
    fn read(zernel: &Zernel, of: Of, histogram: bool) -> Result<Self> {
        if !histogram {
            let stats = zernel.request_stats(of)?;
            return Ok(Self {
                stats,
                histogram: None,
            });
        }
        let (stats, histogram) = zernel.request_histogram(of)?;
        Ok(Self {
            stats,
            histogram: Some(histogram),
        })
    }
}

/// Every counter of one kind.
fn counters(stats: &RequestStats) -> String {
    let rows = stats.entries().map(|(name, value)| {
        let shown = match name.strip_suffix("_ns") {
            Some(_) => nanoseconds(value),
            None => value.to_string(),
        };
        vec![name.trim_end_matches("_ns").to_owned(), shown]
    });
    output::table(["COUNTER", "VALUE"], |name| name == "VALUE", rows)
}

/// A row for each level, and one for all together.
fn level_table(overview: &Overview) -> String {
    let name = |number: u8| output::level(Level::new(number));
    let rows = overview
        .levels
        .iter()
        .map(|(&number, stats)| (name(number), stats))
        .chain([("all".to_owned(), &overview.all.stats)])
        .map(|(name, stats)| {
            let counts = [
                stats.requests,
                stats.done,
                stats.cancelled,
                stats.expired,
                stats.closed + stats.gone + stats.suspended,
                stats.in_flight,
                stats.slo_violations,
            ];
            let times = [
                stats.mean_ns().unwrap_or(0),
                stats.p50_ns,
                stats.p99_ns,
                stats.p999_ns,
                stats.max_ns,
                stats.early_ns,
                stats.late_ns,
                stats.lost_ns,
            ];
            let counts = counts.map(|count| count.to_string());
            let times = times.map(nanoseconds);
            [name].into_iter().chain(counts).chain(times).collect()
        });
    output::table(
        [
            "LEVEL",
            "BEGUN",
            "DONE",
            "CANCELLED",
            "EXPIRED",
            "ENDED",
            "NOW",
            "SLOW",
            "MEAN",
            "P50",
            "P99",
            "P99.9",
            "MAX",
            "EARLY",
            "LATE",
            "LOST",
        ],
        |name| name != "LEVEL",
        rows,
    )
}

/// The text, and a table of the latencies below it if there are any.
fn with_histogram(text: String, histogram: &Option<Histogram>) -> String {
    let Some(histogram) = histogram else {
        return text;
    };
    let all = histogram.count();
    let mut so_far = 0;
    let rows = histogram
        .buckets()
        .filter(|bucket| bucket.count > 0)
        .map(|bucket| {
            so_far += bucket.count;
            vec![
                duration(bucket.from),
                duration(bucket.to),
                bucket.count.to_string(),
                percent(so_far, all),
            ]
        });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return format!("{text}\n\nNo request is done.");
    }
    let header = ["FROM", "BELOW", "DONE", "SO FAR"];
    format!("{text}\n\n{}", output::table(header, |_| true, rows))
}

fn duration(duration: Duration) -> String {
    nanoseconds(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// Nanoseconds in the unit that reads best, with four digits at least.
fn nanoseconds(ns: u64) -> String {
    match ns {
        0 => "-".to_owned(),
        ns if ns < 10_000 => format!("{ns} ns"),
        ns if ns < 10_000_000 => format!("{}.{} us", ns / 1_000, ns / 100 % 10),
        ns if ns < 10_000_000_000 => format!("{}.{} ms", ns / 1_000_000, ns / 100_000 % 10),
        ns => format!("{}.{} s", ns / 1_000_000_000, ns / 100_000_000 % 10),
    }
}

/// A share in percent, rounded down, so that only all of it is 100.
fn percent(part: u64, all: u64) -> String {
    let tenths = u128::from(part) * 1_000 / u128::from(all.max(1));
    format!("{}.{} %", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats() -> RequestStats {
        RequestStats {
            requests: 10,
            done: 4,
            cancelled: 1,
            expired: 2,
            closed: 1,
            gone: 1,
            in_flight: 1,
            latency_ns: 4_000_000,
            p50_ns: 950_272,
            max_ns: 21_000_000,
            ..RequestStats::default()
        }
    }

    fn shown() -> Shown {
        Shown {
            stats: stats(),
            histogram: None,
        }
    }

    #[test]
    fn each_counter_has_a_line_with_its_unit() {
        let text = counters(&stats());
        let line = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.unwrap_or_default()
                .split_whitespace()
                .last()
                .map(str::to_owned)
        };
        assert_eq!(line("requests ").as_deref(), Some("10"));
        assert!(text.contains("950.2 us"), "{text}");
        assert!(text.contains("21.0 ms"), "{text}");
        assert_eq!(line("p99 ").as_deref(), Some("-"));
        assert_eq!(text.lines().count(), 29);
    }

    #[test]
    fn levels_line_up_and_all_comes_last() {
        let overview = Overview {
            all: shown(),
            levels: BTreeMap::from([(7, stats()), (0, stats())]),
        };
        let text = level_table(&overview);
        let firsts: Vec<_> = text
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        assert_eq!(firsts, ["LEVEL", "lc", "be", "all"]);
        let all = text.lines().last().unwrap();
        let cells: Vec<_> = all.split_whitespace().collect();
        assert_eq!(cells[..8], ["all", "10", "4", "1", "2", "2", "1", "0"]);
        assert!(all.contains("1000.0 us"), "{all}");
    }

    #[test]
    fn json_is_flat_and_has_the_names_of_the_abi() {
        let json = serde_json::to_value(shown()).unwrap();
        assert_eq!(json["in_flight"], 1);
        assert_eq!(json["p50_ns"], 950_272);
        assert!(json.get("histogram").is_none());
        let overview = Overview {
            all: shown(),
            levels: BTreeMap::from([(0, stats())]),
        };
        let json = serde_json::to_value(overview).unwrap();
        assert_eq!(json["all"]["requests"], 10);
        assert_eq!(json["levels"]["0"]["expired"], 2);
    }

    #[test]
    fn times_read_well() {
        for (ns, text) in [
            (0, "-"),
            (999, "999 ns"),
            (9_999, "9999 ns"),
            (10_000, "10.0 us"),
            (123_456, "123.4 us"),
            (10_000_000, "10.0 ms"),
            (1_234_567_890, "1234.5 ms"),
            (60_000_000_000, "60.0 s"),
        ] {
            assert_eq!(nanoseconds(ns), text);
        }
    }

    #[test]
    fn shares_are_never_rounded_up_to_all() {
        assert_eq!(percent(0, 0), "0.0 %");
        assert_eq!(percent(9_999, 10_000), "99.9 %");
        assert_eq!(percent(u64::MAX, u64::MAX), "100.0 %");
    }
}
