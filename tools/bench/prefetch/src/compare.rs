// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs libraries beside each other on a store, and tells their times as parts of the floor and of
//! each other's. All figures of a line are of one run.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{bail, Context as _, Result};
use serde::{Deserialize, Serialize};
use zernel_store::server::{Counts, COUNTS};
use zernel_store::weather::Weather;

use crate::data::Pattern;
use crate::floor::{Floor, Work};
use crate::gates::Gates;
use crate::load::{Outcome, Run};

/// A run that takes longer has no end.
const LONGEST: Duration = Duration::from_secs(150);

/// The case of a comparison.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// The samples.
    pub pattern: Pattern,
    /// Samples of a batch.
    pub batch: u64,
    /// Batches of an epoch.
    pub batches: u64,
    /// The weather as a text; `None`: files of the local disk.
    pub weather: Option<String>,
}

/// A library's part in a case.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// The case's name.
    pub case: String,
    /// The library's name.
    pub library: String,
    /// Its result.
    pub outcome: Outcome,
    /// Counts of the store.
    pub counts: Option<Counts>,
}

/// Children and files of comparisons.
#[derive(Debug)]
pub struct Bench {
    /// The data sets.
    pub data: PathBuf,
    /// The interpreter that has the other libraries.
    pub python: PathBuf,
    /// `peers.py`.
    pub script: PathBuf,
    /// Requests at once.
    pub in_flight: usize,
    /// Bytes of a library.
    pub bytes: u64,
}

/// A store in a process of its own. Dropped, it ends.
struct Server {
    child: Child,
    place: String,
}

impl Server {
    fn new(data: &Path, weather: &str) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("serve")
            .arg(data)
            .args(["--weather", weather])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output: ChildStdout = child.stdout.take().context("a store without an output")?;
        let mut place = String::new();
        BufReader::new(output).read_line(&mut place)?;
        let place = place.trim_end().to_owned();
        let server = Self { child, place };
        if server.place.is_empty() {
            bail!("the store ended; see the messages above");
        }
        Ok(server)
    }

    fn counts(&self) -> Result<Counts> {
        let host = self.place.trim_start_matches("http://");
        let mut stream = std::net::TcpStream::connect(host)?;
        write!(stream, "GET {COUNTS} HTTP/1.0\r\n\r\n")?;
        let mut text = String::new();
        std::io::Read::read_to_string(&mut stream, &mut text)?;
        let (_, body) = text.split_once("\r\n\r\n").context("no counts")?;
        Ok(serde_json::from_str(body)?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It is gone already, or ends now.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

impl Bench {
    fn run(&self, case: &Case, place: String) -> Run {
        Run {
            place,
            epochs: [0, 1]
                .map(|epoch| case.pattern.epoch(epoch, case.batches, case.batch))
                .into(),
            in_flight: self.in_flight,
            ahead: 16,
            bytes: self.bytes,
        }
    }

    /// Runs a library, and a store for it alone.
    ///
    /// # Errors
    ///
    /// A process cannot be started, or says something that is no result.
    pub fn row(&self, case: &Case, library: &str) -> Result<Row> {
        let server = match &case.weather {
            Some(weather) => Some(Server::new(&self.data, weather)?),
            None => None,
        };
        let folder = || self.data.to_string_lossy().into_owned();
        let place = server
            .as_ref()
            .map_or_else(folder, |server| server.place.clone());
        let run = self.run(case, place);
        let mut command = match library {
            "zernel" => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg("load");
                command
            }
            _ => {
                let mut command = Command::new(&self.python);
                command.arg(&self.script).arg(library);
                command
            }
        };
        let outcome = output(&mut command, &serde_json::to_vec(&run)?, LONGEST)?;
        let outcome = match outcome {
            Some(text) => {
                serde_json::from_str(&text).with_context(|| format!("{library} says {text:?}"))?
            }
            None => Outcome {
                fault: Some(format!("it has no end within {} s", LONGEST.as_secs())),
                ..Outcome::default()
            },
        };
        Ok(Row {
            case: case.name.clone(),
            library: library.to_owned(),
            outcome,
            counts: server.map(|server| server.counts()).transpose()?,
        })
    }

    /// The gates of our prefetcher with so many batches ahead, whose consumer computes for so long.
    ///
    /// # Errors
    ///
    /// As of [`Self::row`].
    pub fn gates(&self, case: &Case, ahead: usize, compute: Duration) -> Result<Gates> {
        let weather = case.weather.as_deref().context("gates are for stores")?;
        let server = Server::new(&self.data, weather)?;
        let run = Run {
            ahead,
            ..self.run(case, server.place.clone())
        };
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("gates").arg(compute.as_micros().to_string());
        let text = output(&mut command, &serde_json::to_vec(&run)?, LONGEST)?;
        Ok(serde_json::from_str(
            &text.context("gates without an end")?,
        )?)
    }

    /// The floor of an epoch of a case, by what our loader did.
    pub fn floor(&self, case: &Case, epoch: usize, ours: &Row, cores: u32) -> Floor {
        let weather: Weather = case
            .weather
            .as_deref()
            .and_then(|text| text.parse().ok())
            .unwrap_or_default();
        let done = ours.outcome.epochs.get(epoch).cloned().unwrap_or_default();
        Work {
            round_trip: weather.latency,
            rounds: if epoch == 0 { 3 } else { 1 },
            requests: done.requests,
            in_flight: self.in_flight as u64,
            bytes: done.bytes,
            bandwidth: weather.bandwidth,
            cpu: Duration::from_secs_f64(done.cpu),
            cores,
        }
        .floor()
    }
}

/// The output of a command that gets an input. `None`: it had to be ended.
fn output(command: &mut Command, input: &[u8], longest: Duration) -> Result<Option<String>> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("{command:?}"))?;
    let stdin = child.stdin.take();
    stdin.context("no input")?.write_all(input)?;
    let mut stdout = child.stdout.take().context("no output")?;
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut stdout, &mut text).map(|_| text)
    });
    let begin = Instant::now();
    while child.try_wait()?.is_none() {
        if begin.elapsed() > longest {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    match reader.join() {
        Ok(text) => Ok(Some(text?)),
        Err(_) => bail!("the output of {command:?} could not be read"),
    }
}

/// The quantile of numbers, by the nearest rank. 0 of none.
pub fn quantile(numbers: &[f64], part: f64) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_nearest_rank() {
        let numbers: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(quantile(&numbers, 0.5), 50.0);
        assert_eq!(quantile(&numbers, 0.99), 99.0);
        assert_eq!(quantile(&numbers, 1.0), 100.0);
        assert_eq!(quantile(&numbers, 0.0), 1.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }

    #[test]
    fn a_process_without_end_is_ended() {
        let mut cat = Command::new("cat");
        let ended = output(&mut cat, b"a", Duration::from_secs(60)).expect("a program");
        assert_eq!(ended.as_deref(), Some("a"));
        let mut sleep = Command::new("sleep");
        let ended = output(sleep.arg("600"), b"", Duration::ZERO).expect("a program");
        assert_eq!(ended, None);
    }
}
