// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace of zernel's tracepoints by the monotonic clock, in an instance of its own.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{bail, Context as _, Result};
use libzernel::Timestamp;

use crate::work::not_here;

const TRACEFS: &str = "/sys/kernel/tracing";
/// The instance; one that a killed run has left is taken over.
const INSTANCE: &str = "instances/zernel-verify";

/// True once the process ends, and no instance is made any more.
static IS_CLOSED: Mutex<bool> = Mutex::new(false);

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When, to a microsecond.
    pub at: Timestamp,
    /// The name of its tracepoint.
    pub name: String,
    fields: String,
}

impl Event {
    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.split(' ').filter_map(|f| f.split_once('='));
        fields.find(|(found, _)| *found == name).map(|(_, v)| v)
    }

    /// From a line such as `zernel/0-77 [001] .... 12.000345: tsg_kicked: gpu=7 tsg=12 error=0`.
    fn parse(line: &str) -> Option<Self> {
        let (head, told) = line.split_once(": ")?;
        let (name, fields) = told.split_once(": ")?;
        let (seconds, micros) = head.split_whitespace().last()?.split_once('.')?;
        let micros = format!("{micros:0<9}").parse::<u64>().ok()?;
        let seconds = seconds.parse::<u64>().ok()?;
        Some(Self {
            at: Timestamp::from_ns(seconds * 1_000_000_000 + micros),
            name: name.trim().to_owned(),
            fields: fields.trim().to_owned(),
        })
    }
}

/// A trace of some tracepoints. Dropped, it is gone.
#[derive(Debug)]
pub struct Tracer(PathBuf);

impl Tracer {
    /// Traces these tracepoints of zernel from now on.
    ///
    /// Errors: [`NotHere`](crate::work::NotHere) without tracefs, or without the right to use it.
    pub fn new(names: &[&str]) -> Result<Self> {
        let path = Path::new(TRACEFS).join(INSTANCE);
        let is_closed = IS_CLOSED.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_closed {
            bail!("no trace is made: the process ends");
        }
        if !path.exists() {
            if let Err(error) = fs::create_dir(&path) {
                return not_here(format!("no trace at {TRACEFS}: {error}"));
            }
        }
        let tracer = Self(path);
        tracer.write("trace_clock", "mono")?;
        tracer.write("trace", "")?;
        for name in names {
            tracer.write(&format!("events/zernel/{name}/enable"), "1")?;
        }
        Ok(tracer)
    }

    fn write(&self, name: &str, value: &str) -> Result<()> {
        let path = self.0.join(name);
        fs::write(&path, value).with_context(|| path.display().to_string())
    }

    /// The events so far, in order.
    pub fn events(&self) -> Result<Vec<Event>> {
        let path = self.0.join("trace");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Ok(lines.filter_map(Event::parse).collect())
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // The next one takes it over if it stays.
        let _ = self.write("events/enable", "0");
        let _ = fs::remove_dir(&self.0);
    }
}

/// Removes the instance, if it is there, where nothing is dropped: the process ends.
pub fn close() {
    let mut is_closed = IS_CLOSED.lock().unwrap_or_else(PoisonError::into_inner);
    *is_closed = true;
    let path = Path::new(TRACEFS).join(INSTANCE);
    remove(&path, || fs::remove_dir(&path));
}

/// Removes a folder which the thread of the checks may be reading.
fn remove(path: &Path, mut remove_dir: impl FnMut() -> std::io::Result<()>) {
    const TRIES: usize = 100;
    const PAUSE: Duration = Duration::from_millis(10);
    for _ in 0..TRIES {
        match remove_dir() {
            Err(error) if error.kind() == ErrorKind::ResourceBusy => sleep(PAUSE),
            Err(error) if error.kind() != ErrorKind::NotFound => {
                eprintln!("zernelctl: {} stays: {error}", path.display());
                return;
            }
            _ => return,
        }
    }
    eprintln!("zernelctl: {} stays: it is in use", path.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_taken_apart() {
        let line =
            " kworker/u8:2-77      [001] .....    12.000345: tsg_kicked: gpu=7 tsg=12 error=0";
        let event = Event::parse(line).unwrap();
        assert_eq!(event.at.as_ns(), 12_000_345_000);
        assert_eq!(event.name, "tsg_kicked");
        assert_eq!(event.field("tsg"), Some("12"));
        assert_eq!(event.field("error"), Some("0"));
        assert_eq!(event.field("verdict"), None);
        assert_eq!(Event::parse("CPU:1 [LOST 5 EVENTS]"), None);
        assert_eq!(Event::parse(""), None);
    }

    #[test]
    fn a_folder_in_use_is_removed_once_it_is_not() {
        let mut tries = 0;
        remove(Path::new("a"), || {
            tries += 1;
            let busy = tries < 3;
            match busy {
                true => Err(ErrorKind::ResourceBusy.into()),
                false => Ok(()),
            }
        });
        assert_eq!(tries, 3);
        for kind in [ErrorKind::NotFound, ErrorKind::PermissionDenied] {
            let mut tries = 0;
            remove(Path::new("a"), || {
                tries += 1;
                Err(kind.into())
            });
            assert_eq!(tries, 1, "{kind}");
        }
    }
}
