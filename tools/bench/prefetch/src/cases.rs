// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cases of the comparison, and its tables.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::compare::{quantile, Bench, Case, Row};
use crate::data::Pattern;

/// The libraries, ours first.
pub const LIBRARIES: [&str; 6] = [
    "zernel",
    "tensorstore",
    "tensorstore-plain",
    "zarr-obstore",
    "zarr-fsspec",
    "zarrs",
];

/// Weathers besides those with a latency alone.
const WEATHERS: [(&str, &str); 5] = [
    ("connect", "latency=50,connect=50"),
    ("lognormal", "latency=50,sigma=0.5"),
    ("stalls", "latency=50,stalls=0.01,stall=2000"),
    ("errors", "latency=50,errors=0.01"),
    ("bandwidth", "latency=50,bandwidth=40000000"),
];

/// All cases whose names have one of the words; all, where there is none.
pub fn cases(words: &[String], scale: f64) -> Vec<Case> {
    let case = |pattern: Pattern, name: &str, batch: u64, weather: Option<&str>| {
        let kind = format!("{pattern:?}").to_lowercase();
        Case {
            name: format!("{kind}-{name}-{batch}"),
            pattern,
            batch,
            batches: ((64.0 * scale) as u64).max(2),
            weather: weather.map(str::to_owned),
        }
    };
    let mut all = Vec::new();
    for pattern in [
        Pattern::Boxes,
        Pattern::Shards,
        Pattern::Arrays,
        Pattern::Million,
    ] {
        for latency in [0, 10, 50, 200] {
            let weather = format!("latency={latency}");
            let name = format!("{latency}ms");
            for batch in [16, 1] {
                all.push(case(pattern, &name, batch, Some(&weather)));
            }
        }
        all.push(case(pattern, "disk", 16, None));
    }
    for (name, weather) in WEATHERS {
        all.push(case(Pattern::Boxes, name, 16, Some(weather)));
    }
    let is_asked = |case: &Case| {
        words.is_empty() || words.iter().any(|word| case.name.contains(word.as_str()))
    };
    all.into_iter().filter(is_asked).collect()
}

fn median(numbers: &[f64]) -> f64 {
    quantile(numbers, 0.5)
}

/// Runs cases, library beside library, `repeat` times, and prints a table of medians for each.
///
/// # Errors
///
/// A process does not start, or libraries have read other bytes than ours.
pub fn run(
    bench: &Bench,
    cases: &[Case],
    libraries: &[String],
    repeat: usize,
    out: &Path,
) -> Result<()> {
    let cores = std::thread::available_parallelism()?.get() as u32;
    let mut log = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(out)?;
    println!(
        "samples a second, cold and warm; p99 of waits cold, ms; parts of the floor, cold and warm; memory, MiB"
    );
    for case in cases {
        let mut rows: Vec<Vec<Row>> = vec![Vec::new(); libraries.len()];
        for _ in 0..repeat {
            for (library, rows) in libraries.iter().zip(&mut rows) {
                let row = bench.row(case, library)?;
                serde_json::to_writer(&mut log, &row)?;
                std::io::Write::write_all(&mut log, b"\n")?;
                rows.push(row);
            }
        }
        print!("{}", table(bench, case, &rows, cores)?);
    }
    Ok(())
}

fn table(bench: &Bench, case: &Case, rows: &[Vec<Row>], cores: u32) -> Result<String> {
    let mut text = format!("{}\n", case.name);
    let samples = (case.batches * case.batch) as f64;
    let ours = rows.iter().flatten().filter(|row| row.library == "zernel");
    let ours: Vec<_> = ours.collect();
    for rows in rows {
        let Some(library) = rows.first() else {
            continue;
        };
        write!(
            text,
            "  {:<18}{:<22}",
            library.library, library.outcome.version
        )?;
        if let Some(fault) = rows.iter().find_map(|row| row.outcome.fault.as_deref()) {
            writeln!(
                text,
                "fault: {}",
                fault.chars().take(90).collect::<String>()
            )?;
            continue;
        }
        let of = |epoch: usize| -> Vec<f64> {
            let all = rows.iter().filter_map(|row| row.outcome.epochs.get(epoch));
            all.map(|epoch| epoch.seconds).collect()
        };
        let times = [median(&of(0)), median(&of(1))];
        for time in times {
            write!(text, "{:>9.1}", samples / time)?;
        }
        let waits = rows.iter().filter_map(|row| row.outcome.epochs.first());
        let waits: Vec<_> = waits
            .map(|epoch| 1e3 * quantile(&epoch.waits, 0.99))
            .collect();
        write!(text, "{:>9.1}", median(&waits))?;
        if let Some(first) = ours.first() {
            for (epoch, time) in times.iter().enumerate() {
                let floors = ours.iter().map(|row| bench.floor(case, epoch, row, cores));
                let seconds: Vec<_> = floors.map(|floor| floor.time.as_secs_f64()).collect();
                let cause = bench.floor(case, epoch, first, cores).cause;
                write!(text, "{:>7.2} ({cause})", median(&seconds) / time)?;
            }
            let sums = |row: &Row| -> Vec<u64> {
                row.outcome.epochs.iter().map(|epoch| epoch.sum).collect()
            };
            let differs = rows.iter().any(|row| sums(row) != sums(first));
            anyhow::ensure!(
                !differs,
                "{}: {} has read other bytes",
                case.name,
                library.library
            );
        }
        let memory: Vec<_> = rows
            .iter()
            .map(|row| row.outcome.memory as f64 / f64::from(1 << 20))
            .collect();
        let requests = library.counts.map_or(0, |counts| counts.requests);
        writeln!(text, "{:>7.0} MiB, {requests} requests", median(&memory))?;
    }
    Ok(text)
}

/// Round trips that requests of gates take at the least, `in_flight` of them at once: indexes are known
/// of behind their array, and a request that finds no room goes with the next wave.
fn waves(pattern: Pattern, requests: u64, in_flight: u64) -> u64 {
    match pattern {
        Pattern::Arrays => requests.div_ceil(in_flight),
        _ => 1 + requests.saturating_sub(1).div_ceil(in_flight),
    }
}

/// Prints the gates of cases under each latency, and the bounds that they are to keep.
///
/// # Errors
///
/// As of [`run`].
pub fn gates(bench: &Bench, scale: f64) -> Result<()> {
    println!("gates: first, of 2 round trips; waits of all, of their bound and of whole waves; shut in a steady state; plan p99");
    for latency in [10_u64, 50, 200] {
        for batch in [16, 1] {
            let words = [format!("-{latency}ms-{batch}")];
            for case in cases(&words, scale)
                .iter()
                .filter(|case| case.name.ends_with(&words[0]))
            {
                if case.pattern == Pattern::Shards {
                    continue;
                }
                let trip = latency as f64 / 1e3;
                // All are asked for at once: the wait for all is that for their requests.
                let quick = bench.gates(case, case.batches as usize, Duration::ZERO)?;
                let sent = quick.requests as f64 * trip / bench.in_flight as f64;
                let bound = (2.0 * trip).max(sent);
                // The batches ahead are computed for three round trips, and all batches for as long as
                // their requests take, and a tenth more.
                let compute = (3.0 * trip / 16.0).max(sent / case.batches as f64);
                let steady = bench.gates(case, 16, Duration::from_secs_f64(1.1 * compute))?;
                let waves = waves(case.pattern, quick.requests, bench.in_flight as u64);
                println!(
                    "  {:<20} first {:.2}   waits {:.2} {:.2}   shut {} of {}   plan {:.0} us   ({} requests)",
                    case.name,
                    quick.first / (2.0 * trip),
                    quick.waits / bound,
                    quick.waits / (waves as f64 * trip),
                    steady.shut,
                    steady.steady,
                    quantile(&steady.plans, 0.99),
                    quick.requests,
                );
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_without_room_goes_with_the_next_wave() {
        let boxes = |requests| waves(Pattern::Boxes, requests, 64);
        assert_eq!([0, 1, 2, 65, 66].map(boxes), [1, 1, 2, 2, 3]);
        let arrays = |requests| waves(Pattern::Arrays, requests, 64);
        assert_eq!([1, 64, 65].map(arrays), [1, 1, 2]);
    }

    #[test]
    fn cases_have_names_of_their_own_and_weathers() {
        let all = cases(&[], 1.0);
        let mut names: Vec<_> = all.iter().map(|case| case.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
        for case in &all {
            if let Some(weather) = &case.weather {
                assert!(
                    weather.parse::<zernel_store::weather::Weather>().is_ok(),
                    "{weather}"
                );
            }
        }
        let some = cases(&["boxes-50ms".into(), "disk".into()], 0.1);
        assert_eq!(some.len(), 6);
        assert!(some.iter().all(|case| (2..7).contains(&case.batches)));
    }
}
