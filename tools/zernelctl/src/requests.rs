// SPDX-License-Identifier: MIT OR Apache-2.0
//! `requests`: the outcomes of requests, and their times.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use libzernel::request::{Durations, Histogram, Of};
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

/// The outcomes of requests, and the waits of their TSGs for the GPU.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    stats: RequestStats,
    preemption: Preemption,
    #[serde(skip_serializing_if = "Option::is_none")]
    histogram: Option<Histogram>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preemption_histogram: Option<Histogram>,
}

/// From triggers until TSGs had the engine: where the provider tells, and 0 elsewhere.
#[derive(Debug, Default, Serialize)]
struct Preemption {
    samples: u64,
    mean_ns: u64,
    p50_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    max_ns: u64,
}

/// All requests, and those of each level that has had some.
#[derive(Debug, Serialize)]
struct Overview {
    all: Shown,
    levels: BTreeMap<u8, Shown>,
}

/// Shows the outcomes of requests.
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
    output::text(&with_histograms(counters(&shown), &shown))
}

fn overview(zernel: &Zernel, histogram: bool, json: bool) -> Result<()> {
    let mut levels = BTreeMap::new();
    for level in Level::all() {
        let shown = Shown::read(zernel, Of::Level(level), false)?;
        if shown.stats.begun > 0 {
            levels.insert(level.number(), shown);
        }
    }
    let all = Shown::read(zernel, Of::All, histogram)?;
    let overview = Overview { all, levels };
    if json {
        return output::json(&overview);
    }
    output::text(&with_histograms(level_table(&overview), &overview.all))
}

impl Preemption {
    fn of(histogram: &Histogram) -> Self {
        let quantile = |share| {
            let time = histogram.quantile(share).unwrap_or_default();
            u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
        };
        Self {
            samples: histogram.samples,
            mean_ns: histogram.sum_ns.checked_div(histogram.samples).unwrap_or(0),
            p50_ns: quantile(500_000),
            p99_ns: quantile(990_000),
            p999_ns: quantile(999_000),
            max_ns: histogram.max_ns,
        }
    }
}

impl Shown {
    fn read(zernel: &Zernel, of: Of, histogram: bool) -> Result<Self> {
        let stats = zernel.request_stats(of)?;
        let preemptions = zernel.histogram(of, Durations::Preemption)?;
        let latencies = match histogram {
            true => Some(zernel.histogram(of, Durations::Latency)?),
            false => None,
        };
        Ok(Self {
            stats,
            preemption: Preemption::of(&preemptions),
            histogram: latencies,
            preemption_histogram: Some(preemptions).filter(|_| histogram),
        })
    }
}

/// Every counter of one kind.
fn counters(shown: &Shown) -> String {
    let preemption = &shown.preemption;
    let waits = [
        ("preemptions", preemption.samples),
        ("preemption_mean_ns", preemption.mean_ns),
        ("preemption_p50_ns", preemption.p50_ns),
        ("preemption_p99_ns", preemption.p99_ns),
        ("preemption_p999_ns", preemption.p999_ns),
        ("preemption_max_ns", preemption.max_ns),
    ];
    let is_count = |name: &str| shown.stats.entries().any(|(other, _)| other == name);
    let rows = shown.stats.entries().chain(waits).map(|(name, value)| {
        let Some(time) = name.strip_suffix("_ns") else {
            return vec![name.to_owned(), value.to_string()];
        };
        // Sums of requests that are counted, too, and of all latencies.
        let name = match time == "latency" || is_count(time) {
            true => format!("{time}_sum"),
            false => time.to_owned(),
        };
        vec![name, nanoseconds(value)]
    });
    output::table(["COUNTER", "VALUE"], |name| name == "VALUE", rows)
}

/// A row for each level, and one for all together.
fn level_table(overview: &Overview) -> String {
    let name = |number: u8| output::level(Level::new(number));
    let rows = overview
        .levels
        .iter()
        .map(|(&number, shown)| (name(number), shown))
        .chain([("all".to_owned(), &overview.all)])
        .map(|(name, shown)| {
            let (stats, preemption) = (&shown.stats, &shown.preemption);
            let counts = [
                stats.begun,
                stats.done,
                stats.cancelled,
                stats.expired,
                stats.closed + stats.gone + stats.suspended + stats.otherwise,
                stats.in_flight,
                stats.violations,
                stats.accepted,
                stats.refused,
                stats.missed,
            ];
            let times = [
                stats.mean_ns().unwrap_or(0),
                stats.latency_p50_ns,
                stats.latency_p99_ns,
                stats.latency_p999_ns,
                stats.latency_max_ns,
                stats.early_ns,
                stats.late_ns,
                stats.lost_ns,
                preemption.p50_ns,
                preemption.p99_ns,
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
            "ACCEPTED",
            "REFUSED",
            "MISSED",
            "MEAN",
            "P50",
            "P99",
            "P99.9",
            "MAX",
            "EARLY",
            "LATE",
            "LOST",
            "PREEMPT50",
            "PREEMPT99",
        ],
        |name| name != "LEVEL",
        rows,
    )
}

/// The text, and the histograms below it if there are any.
fn with_histograms(text: String, shown: &Shown) -> String {
    let latencies = shown.histogram.as_ref();
    let preemptions = shown.preemption_histogram.as_ref();
    let latencies = latencies.map(|found| table_of(found, "DONE", "No request is done."));
    let preemptions = preemptions
        .map(|found| table_of(found, "PREEMPTIONS", "No provider has told of preemptions."));
    let parts = [Some(text), latencies, preemptions];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
}

/// The buckets of a histogram that are not empty.
fn table_of(histogram: &Histogram, counted: &'static str, nothing: &str) -> String {
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
        return nothing.to_owned();
    }
    output::table(["FROM", "BELOW", counted, "SO FAR"], |_| true, rows)
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
            begun: 10,
            done: 4,
            cancelled: 1,
            expired: 2,
            closed: 1,
            gone: 1,
            in_flight: 1,
            latency_ns: 4_000_000,
            latency_p50_ns: 950_272,
            latency_max_ns: 21_000_000,
            ..RequestStats::default()
        }
    }

    fn shown() -> Shown {
        Shown {
            stats: stats(),
            preemption: Preemption::default(),
            histogram: None,
            preemption_histogram: None,
        }
    }

    #[test]
    fn each_counter_has_a_line_with_its_unit() {
        let text = counters(&shown());
        let line = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.unwrap_or_default()
                .split_whitespace()
                .last()
                .map(str::to_owned)
        };
        assert_eq!(line("begun ").as_deref(), Some("10"));
        assert!(text.contains("950.2 us"), "{text}");
        assert!(text.contains("21.0 ms"), "{text}");
        assert_eq!(line("latency_p99 ").as_deref(), Some("-"));
        assert_eq!(text.lines().count(), 37);
    }

    #[test]
    fn levels_line_up_and_all_comes_last() {
        let overview = Overview {
            all: shown(),
            levels: BTreeMap::from([(7, shown()), (0, shown())]),
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
        assert_eq!(json["latency_p50_ns"], 950_272);
        assert!(json.get("histogram").is_none());
        let overview = Overview {
            all: shown(),
            levels: BTreeMap::from([(0, shown())]),
        };
        let json = serde_json::to_value(overview).unwrap();
        assert_eq!(json["all"]["begun"], 10);
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
