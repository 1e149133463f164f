// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrivals that a file tells: the trace of a real service.

mod parquet;

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{anyhow, bail, ensure, Context, Result};
use csv::{ReaderBuilder, StringRecord, Trim};
use serde::{Deserialize, Serialize};

/// Most rows of a trace.
const MAX_ROWS: usize = 2_000_000;

/// Latest arrival in a file, in seconds: a year.
const MAX_TIME_S: f64 = 31_536_000.0;

/// Names of the columns.
const COLUMNS: [&str; 4] = ["time_s", "key", "size", "deadline_us"];

/// Bounds of the numbers in the columns after the first: of deadlines an hour.
const RANGES: [(u64, u64); 3] = [(0, u64::MAX), (1, 1_000_000_000_000), (1, 3_600_000_000)];

/// A request as a trace tells of it; nothing of this is known of other arrivals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traced {
    /// A number for the causes of its preparation time.
    pub key: Option<u64>,
    /// Its size, in a unit of the trace.
    pub size: u64,
    /// Time from the arrival until its result is to be there.
    pub deadline: Option<Duration>,
}

/// An arrival of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// Time from the start of the run.
    pub(crate) at: Duration,
    /// The request.
    pub(crate) traced: Traced,
}

/// Arrivals of a file. In a workload file: `trace: {file: burst.csv}`.
///
/// The file is Parquet, or CSV (RFC 4180) whose first line names the columns. These are, in any order:
/// `time_s`, seconds from the start of the run; and, where they are known, `key`, a number for the
/// causes of the preparation time; `size`, a whole number in a unit of the trace's own (tokens, bytes,
/// images); `deadline_us`, microseconds from the arrival. A cell of the last three can be empty. Lines
/// of CSV that begin with `#` are comments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// Its path; relative to the workload file.
    pub file: PathBuf,
    /// Times of the file are divided by this, 0.001 to 1000.
    #[serde(default = "real", skip_serializing_if = "is_real")]
    pub speed: f64,
    /// The requests of the file that have this key; all without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<u64>,
    #[serde(skip)]
    rows: Option<Arc<[Row]>>,
}

const fn real() -> f64 {
    1.0
}

fn is_real(speed: &f64) -> bool {
    *speed == real()
}

impl Trace {
    /// The arrivals of this file; it is read later.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            speed: real(),
            key: None,
            rows: None,
        }
    }

    /// Reads the file, which `dir` has if its path is relative.
    pub(crate) fn open(&mut self, dir: &Path) -> Result<()> {
        self.file = std::path::absolute(dir.join(&self.file))?;
        self.rows = Some(self.read()?);
        Ok(())
    }

    /// Its arrivals, read now if they have not been.
    pub(crate) fn rows(&self) -> Result<Arc<[Row]>> {
        match &self.rows {
            Some(rows) => Ok(rows.clone()),
            None => self.read(),
        }
    }

    /// Requests that arrive within so long from the start of the run; none if the file has not been
    /// read.
    pub(crate) fn within(&self, duration: Duration) -> Option<usize> {
        let rows = self.rows.as_ref()?;
        Some(rows.partition_point(|row| row.at < duration))
    }

    /// The largest size of a request; none if no request has one.
    pub(crate) fn largest(&self) -> Option<u64> {
        let rows = self.rows.as_ref()?;
        let sizes = rows.iter().map(|row| row.traced.size);
        sizes.max().filter(|&size| size > 0)
    }

    /// The mean size of a request.
    pub(crate) fn mean_size(&self) -> u64 {
        let Some(rows) = self.rows.as_ref().filter(|rows| !rows.is_empty()) else {
            return 0;
        };
        let sum: u128 = rows.iter().map(|row| u128::from(row.traced.size)).sum();
        (sum / rows.len() as u128) as u64
    }

    /// Checks what can be checked without the file.
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(
            (0.001..=1_000.0).contains(&self.speed),
            "a speed of {} is out of range (0.001 to 1000)",
            self.speed
        );
        Ok(())
    }

    fn read(&self) -> Result<Arc<[Row]>> {
        self.parse()
            .with_context(|| format!("the trace {}", self.file.display()))
    }

    fn parse(&self) -> Result<Arc<[Row]>> {
        let mut file = File::open(&self.file).context("cannot be opened")?;
        let mut start = Vec::new();
        file.by_ref()
            .take(4)
            .read_to_end(&mut start)
            .context("cannot be read")?;
        let mut rows = Rows::of(self);
        if parquet::MAGIC.iter().any(|magic| start == *magic) {
            file.rewind().context("cannot be read")?;
            parquet::read(file, &mut rows)?;
            return rows.finish();
        }
        let mut reader = ReaderBuilder::new()
            .comment(Some(b'#'))
            .trim(Trim::All)
            .from_reader(start.chain(file));
        let header = reader.headers().context("has no line of column names")?;
        let columns = columns(header.iter())?;
        for record in reader.records() {
            let record = record.context("is no CSV")?;
            let line = record.position().map_or(0, csv::Position::line);
            row(&record, &columns)
                .and_then(|(time_s, traced)| rows.add(time_s, traced))
                .with_context(|| format!("line {line}"))?;
        }
        rows.finish()
    }
}

/// The requests of a file that is being read.
struct Rows<'a> {
    trace: &'a Trace,
    rows: Vec<Row>,
    before: f64,
    seen: bool,
}

impl<'a> Rows<'a> {
    fn of(trace: &'a Trace) -> Self {
        Self {
            trace,
            rows: Vec::new(),
            before: 0.0,
            seen: false,
        }
    }

    /// The next row; it is left out if the trace is of another key.
    fn add(&mut self, time_s: f64, traced: Traced) -> Result<()> {
        let before = self.before;
        ensure!(
            !self.seen || time_s >= before || time_s.is_nan(),
            "time_s goes back from {before} to {time_s}; sort the file by it"
        );
        ensure!(
            (0.0..=MAX_TIME_S).contains(&time_s),
            "a time_s of {time_s} is out of range (0 to {MAX_TIME_S})"
        );
        self.before = time_s;
        self.seen = true;
        if self.trace.key.is_none() || self.trace.key == traced.key {
            ensure!(
                self.rows.len() < MAX_ROWS,
                "has more than {MAX_ROWS} requests"
            );
            let at = Duration::from_secs_f64(time_s / self.trace.speed);
            self.rows.push(Row { at, traced });
        }
        Ok(())
    }

    fn finish(self) -> Result<Arc<[Row]>> {
        if let (true, Some(key), true) = (self.rows.is_empty(), self.trace.key, self.seen) {
            bail!("has no request with the key {key}");
        }
        ensure!(!self.rows.is_empty(), "has no requests");
        Ok(self.rows.into())
    }
}

/// The places of the columns, in the order of [`COLUMNS`].
fn columns<'a>(names: impl Iterator<Item = &'a str>) -> Result<[Option<usize>; 4]> {
    let mut places = [None; 4];
    for (at, name) in names.enumerate() {
        let known = COLUMNS.iter().position(|column| *column == name);
        let Some(column) = known else {
            bail!("has a column '{name}'; columns are {}", COLUMNS.join(", "));
        };
        ensure!(places[column].is_none(), "has the column {name} twice");
        places[column] = Some(at);
    }
    ensure!(places[0].is_some(), "has no column {}", COLUMNS[0]);
    Ok(places)
}

/// The number that a column after the first has, if it may have it.
fn in_range(column: usize, number: impl Into<i128>) -> Result<u64> {
    let (least, most) = RANGES[column - 1];
    let number = number.into();
    let fits = u64::try_from(number).ok();
    fits.filter(|fits| (least..=most).contains(fits))
        .with_context(|| {
            let name = COLUMNS[column];
            format!("a {name} of {number} is out of range ({least} to {most})")
        })
}

/// A request with these cells of the columns after the first.
fn traced([key, size, deadline]: [Option<u64>; 3]) -> Traced {
    Traced {
        key,
        size: size.unwrap_or(0),
        deadline: deadline.map(Duration::from_micros),
    }
}

fn row(record: &StringRecord, places: &[Option<usize>; 4]) -> Result<(f64, Traced)> {
    let cell = |column: usize| {
        let text = places[column].and_then(|at| record.get(at)).unwrap_or("");
        (!text.is_empty()).then_some(text)
    };
    let whole = |column: usize| {
        let number = cell(column).map(|text| {
            let number = text.parse::<u64>();
            number.map_err(|_| anyhow!("{} '{text}' is no whole number", COLUMNS[column]))
        });
        let number = number.transpose()?;
        number.map(|number| in_range(column, number)).transpose()
    };
    let text = cell(0).context("time_s is empty")?;
    let time_s: f64 = text
        .parse()
        .map_err(|_| anyhow!("time_s '{text}' is no number"))?;
    Ok((time_s, traced([whole(1)?, whole(2)?, whole(3)?])))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The trace of a file with this text, opened.
    fn opened(text: &[u8], change: impl FnOnce(&mut Trace)) -> Result<Trace> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("trace.csv"), text).unwrap();
        let mut trace = Trace::new("trace.csv");
        change(&mut trace);
        trace.open(dir.path())?;
        Ok(trace)
    }

    fn error(text: &[u8]) -> String {
        format!("{:#}", opened(text, |_| {}).unwrap_err())
    }

    #[test]
    fn columns_are_found_by_name_and_may_be_missing() {
        let text = b"# a day\nsize, time_s ,deadline_us,key\n12,0.5,2000,7\n,0.5,,\n3, 2.25,1,8\n";
        let trace = opened(text, |_| {}).unwrap();
        let rows = trace.rows().unwrap();
        let expected = [
            (500, Some(7), 12, Some(2_000)),
            (500, None, 0, None),
            (2_250, Some(8), 3, Some(1)),
        ];
        assert_eq!(rows.len(), expected.len());
        for (row, (ms, key, size, us)) in rows.iter().zip(expected) {
            assert_eq!(row.at, Duration::from_millis(ms));
            let deadline = us.map(Duration::from_micros);
            assert_eq!(
                row.traced,
                Traced {
                    key,
                    size,
                    deadline
                }
            );
        }
        assert_eq!((trace.largest(), trace.mean_size()), (Some(12), 5));
        let within = [1, 3].map(|s| trace.within(Duration::from_secs(s)));
        assert_eq!(within, [Some(2), Some(3)]);
        let bare = opened(b"time_s\n1\n", |_| {}).unwrap();
        assert_eq!((bare.largest(), bare.mean_size()), (None, 0));
    }

    #[test]
    fn a_trace_can_be_faster_and_a_part_of_its_file() {
        let text = b"time_s,key\n1,5\n2,6\n4,5\n";
        let faster = opened(text, |trace| trace.speed = 4.0).unwrap();
        let last = faster.rows().unwrap()[2].at;
        assert_eq!(last, Duration::from_secs(1));
        let part = opened(text, |trace| trace.key = Some(5)).unwrap();
        assert_eq!(part.rows().unwrap().len(), 2);
    }

    #[test]
    fn each_bad_file_has_an_error_of_its_own() {
        let errors = [
            (&b""[..], "no column time_s"),
            (b"key,size\n1,2\n", "no column time_s"),
            (b"time_s,colour\n1,2\n", "a column 'colour'"),
            (b"time_s,key,time_s\n1,2,3\n", "time_s twice"),
            (b"time_s\n", "has no requests"),
            (b"time_s,key\n1\n", "is no CSV"),
            (b"time_s,key\n,1\n", "line 2: time_s is empty"),
            (b"time_s\n1\nsoon\n", "line 3: time_s 'soon' is no number"),
            (b"time_s\n-1\n", "a time_s of -1 is out of range"),
            (b"time_s\nNaN\n", "a time_s of NaN is out of range"),
            (
                b"time_s\n2\n1.5\n",
                "line 3: time_s goes back from 2 to 1.5",
            ),
            (b"time_s,key\n1,vgg\n", "key 'vgg' is no whole number"),
            (b"time_s,size\n1,0\n", "a size of 0 is out of range"),
            (b"time_s,size\n1,2.5\n", "size '2.5' is no whole number"),
            (
                b"time_s,deadline_us\n1,0\n",
                "a deadline_us of 0 is out of range",
            ),
            (b"time_s\n\xff\n", "is no CSV"),
        ];
        for (text, said) in errors {
            let error = error(text);
            assert!(error.contains(said), "{error}, not {said}");
            assert!(error.contains("trace.csv"), "{error}");
        }
        let error = opened(b"time_s,key\n1,5\n", |trace| trace.key = Some(4)).unwrap_err();
        assert!(format!("{error:#}").contains("no request with the key 4"));
        let mut missing = Trace::new("missing.csv");
        let error = missing.open(Path::new("/nonexistent")).unwrap_err();
        assert!(format!("{error:#}").contains("cannot be opened"));
        for speed in [0.0, 1_001.0, f64::NAN] {
            let mut trace = Trace::new("trace.csv");
            trace.speed = speed;
            assert!(trace
                .check()
                .unwrap_err()
                .to_string()
                .contains("a speed of"));
        }
    }

    #[test]
    fn a_trace_that_was_not_read_is_read_when_it_is_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.csv");
        std::fs::write(&path, "time_s\n1\n").unwrap();
        let trace = Trace::new(&path);
        assert_eq!((trace.within(Duration::MAX), trace.largest()), (None, None));
        assert_eq!(trace.rows().unwrap().len(), 1);
        std::fs::remove_file(&path).unwrap();
        assert!(trace.rows().is_err());
    }
}
