// SPDX-License-Identifier: MIT OR Apache-2.0
//! `prefetch`: the signals to load the next batch, and reading ahead for programs that do not know
//! of them.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use libzernel::prefetch::Ranges;
use libzernel::{Target, Timestamp, Zernel};
use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags};
use rustix::io::Errno;
use serde::Serialize;

use crate::exit::Unsound;
use crate::output;

/// The process, the action at each signal, and the end.
#[derive(Debug)]
pub struct Options {
    /// The process.
    pub pid: u32,
    /// The file to read ahead.
    pub ahead: Option<Ahead>,
    /// Stop after this many signals.
    pub count: Option<u64>,
}

/// The range of a file to read at each signal.
#[derive(Debug)]
pub struct Ahead {
    /// The file.
    pub path: PathBuf,
    /// Where the first range begins.
    pub offset: u64,
    /// Bytes for each signal.
    pub length: u64,
    /// After so many bytes it begins anew; none: at the end of the file.
    pub span: Option<u64>,
}

/// A signal, as a line of JSON.
#[derive(Debug, Serialize)]
struct Signal {
    /// When it was received.
    time_ns: Timestamp,
    /// From 1.
    number: u64,
    pid: u32,
}

/// Prints signals until there is a reason to stop: the process has ended, or there were enough.
pub fn run(zernel: &Zernel, options: &Options, json: bool) -> Result<()> {
    let target = Target::pidfd(options.pid)?;
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let _reader = match &options.ahead {
        Some(ahead) => {
            let (file, ranges) = ahead.open()?;
            Some(zernel.subscribe_read_ahead(&target, file.as_fd(), &ranges)?)
        }
        None => None,
    };
    let _subscription = zernel.subscribe_eventfd(&target, bell.as_fd())?;
    let mut out = io::stdout().lock();
    let mut shown = 0;
    loop {
        let mut count = [0; 8];
        let new = match rustix::io::read(&bell, &mut count) {
            Ok(_) => u64::from_ne_bytes(count),
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(errno) => return Err(errno).context("cannot read the eventfd"),
        };
        for _ in 0..new {
            if options.count.is_some_and(|count| shown >= count) {
                break;
            }
            shown += 1;
            let signal = Signal {
                time_ns: Timestamp::now(),
                number: shown,
                pid: options.pid,
            };
            if json {
                output::json_line(&mut out, &signal)?;
            } else {
                writeln!(out, "{}", describe(&signal))?;
            }
        }
        // The reader of a pipe wants signals when they happen.
        out.flush()?;
        if options.count.is_some_and(|count| shown >= count) || !wait(&bell, &target)? {
            return Ok(());
        }
    }
}

/// Waits for a signal. Returns false if the process has ended and there is none.
fn wait(bell: &impl AsFd, target: &Target) -> Result<bool> {
    let mut fds = vec![PollFd::new(bell, PollFlags::IN)];
    if let Target::Pidfd(process) = target {
        fds.push(PollFd::new(process, PollFlags::IN));
    }
    match poll(&mut fds, None) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(errno) => return Err(errno).context("cannot wait for a signal"),
    }
    let rings = !fds[0].revents().is_empty();
    let ended = fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
    Ok(rings || !ended)
}

fn describe(signal: &Signal) -> String {
    let Signal {
        time_ns,
        number,
        pid,
    } = signal;
    format!("{time_ns} #{number:<5} prefetch       pid {pid}")
}

impl Ahead {
    fn open(&self) -> Result<(File, Ranges)> {
        let path = self.path.display();
        let mut file = File::open(&self.path).with_context(|| format!("cannot open {path}"))?;
        // Of a block device this is the size, too.
        let size = file.seek(SeekFrom::End(0));
        let size = size.with_context(|| format!("cannot tell the size of {path}"))?;
        Ok((file, self.ranges(size)?))
    }

    fn ranges(&self, size: u64) -> Result<Ranges> {
        let path = self.path.display();
        let rest = size.saturating_sub(self.offset);
        if rest == 0 {
            let offset = self.offset;
            let why =
                format!("{path} has only {size} bytes; give an --offset below that, not {offset}");
            return Err(Unsound(why).into());
        }
        let span = self.span.unwrap_or(rest.max(self.length));
        if span < self.length {
            let length = self.length;
            let why =
                format!("the span of {span} bytes is shorter than the length of {length} bytes");
            return Err(Unsound(why).into());
        }
        Ok(Ranges {
            offset: self.offset,
            length: self.length,
            span,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ahead(offset: u64, length: u64, span: Option<u64>) -> Ahead {
        Ahead {
            path: "/data/train.bin".into(),
            offset,
            length,
            span,
        }
    }

    #[test]
    fn the_whole_file_is_gone_through() {
        let ranges = ahead(100, 50, None).ranges(1_000).unwrap();
        assert_eq!((ranges.offset, ranges.length, ranges.span), (100, 50, 900));
        let ranges = ahead(0, 50, Some(200)).ranges(1_000).unwrap();
        assert_eq!(ranges.span, 200);
        // A shorter file is read whole each time.
        assert_eq!(ahead(0, 5_000, None).ranges(1_000).unwrap().span, 5_000);
    }

    #[test]
    fn what_makes_no_sense_is_told_in_a_sentence() {
        for (ahead, said) in [
            (
                ahead(1_000, 50, None),
                "give an --offset below that, not 1000",
            ),
            (ahead(0, 50, Some(49)), "the span of 49 bytes is shorter"),
            (ahead(0, 50, Some(0)), "the span of 0 bytes is shorter"),
        ] {
            let error = ahead.ranges(1_000).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
            assert!(error.is::<Unsound>());
        }
    }

    #[test]
    fn signals_are_lines() {
        let signal = Signal {
            time_ns: Timestamp::from_ns(12_000_000_345),
            number: 4,
            pid: 77,
        };
        assert_eq!(
            describe(&signal),
            "12.000000345 #4     prefetch       pid 77"
        );
        let json = serde_json::to_value(&signal).unwrap();
        assert_eq!(json["number"], 4);
        assert_eq!(json["time_ns"], 12_000_000_345u64);
    }
}
