// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tunables that checks set, and that are put back on every way out but SIGKILL.
//!
//! Each set is remembered before the next one begins. To put back is to undo them in reverse order,
//! so that a budget is never above its period in between. [`Guard`] does it at the end of a scope, a
//! panic included, [`watch`] at a signal, and for a check that hangs in a call of the driver.

use std::sync::{mpsc, Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, Context as _, Result};
use libzernel::tunable::Tunables;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::keep::Keep;
use crate::report::Report;
use crate::tracefs;

/// Tunables, and their values from before.
#[derive(Debug)]
pub struct Settings {
    tunables: Tunables,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Name and value from before of each set, in the order of the sets.
    sets: Vec<(String, String)>,
    /// The process ends: nothing is set any more.
    is_closed: bool,
    /// When the check that runs ends at the latest, and its name.
    deadline: Option<(Instant, &'static str)>,
}

impl Settings {
    /// Of these tunables, with nothing set.
    pub fn new(tunables: Tunables) -> Self {
        Self {
            tunables,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of a tunable.
    pub fn get(&self, name: &str) -> Result<String> {
        Ok(self.tunables.get(name)?.value)
    }

    /// Sets a tunable.
    ///
    /// Errors: [`libzernel::Error::Tunable`].
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        let mut state = self.state();
        if state.is_closed {
            bail!("{name} is not set: the process ends");
        }
        let before = self.tunables.get(name)?.value;
        if before == value {
            return Ok(());
        }
        self.tunables.set(name, value)?;
        state.sets.push((name.to_owned(), before));
        Ok(())
    }

    /// Undoes all sets.
    ///
    /// Errors: names the tunables that did not take their values from before. They stay to be
    /// undone by the next call.
    pub fn put_back(&self) -> Result<()> {
        self.undo(&mut self.state())
    }

    /// As [`Self::put_back`], and nothing is set any more.
    pub fn close(&self) -> Result<()> {
        let mut state = self.state();
        state.is_closed = true;
        self.undo(&mut state)
    }

    fn undo(&self, state: &mut State) -> Result<()> {
        let mut why = Vec::new();
        let mut failed = Vec::new();
        while let Some((name, value)) = state.sets.pop() {
            if let Err(error) = self.tunables.set(&name, &value) {
                why.push(format!("{name}={value} ({error})"));
                failed.push((name, value));
            }
        }
        failed.reverse();
        state.sets = failed;
        if !why.is_empty() {
            bail!("tunables were not put back: {}", why.join(", "));
        }
        Ok(())
    }

    /// A check begins that ends by a time; `None`: none runs.
    pub fn set_deadline(&self, deadline: Option<(Instant, &'static str)>) {
        self.state().deadline = deadline;
    }

    /// The check that should have ended so long ago.
    fn overdue(&self, grace: Duration) -> Option<&'static str> {
        let state = self.state();
        let (deadline, name) = state.deadline?;
        (Instant::now() > deadline + grace).then_some(name)
    }
}

/// Puts tunables back when it is dropped.
#[derive(Debug)]
pub struct Guard<'a>(pub &'a Settings);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.put_back() {
            eprintln!("zernelctl: {error:#}");
        }
    }
}

/// Time after its deadline in which a check ends by itself.
const GRACE: Duration = Duration::from_secs(15);

/// From one look for a check that hangs to the next.
const LOOK: Duration = Duration::from_millis(500);

/// Longest time for which a report is written and printed at a signal: nobody may read it.
const PRINT: Duration = Duration::from_secs(5);

/// All that is needed to end the process early.
struct Exit {
    settings: Arc<Settings>,
    keep: Arc<Keep>,
    print: fn(&Report, bool) -> Result<()>,
    json: bool,
}

/// Puts tunables back when the process gets a signal that ends it, prints the report so far, and
/// ends the process by that signal; and when a check hangs.
pub fn watch(
    settings: &Arc<Settings>,
    keep: &Arc<Keep>,
    json: bool,
    print: fn(&Report, bool) -> Result<()>,
) -> Result<()> {
    let mut signals =
        Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM]).context("cannot wait for signals")?;
    let exit = Arc::new(Exit {
        settings: settings.clone(),
        keep: keep.clone(),
        print,
        json,
    });
    let of_signals = exit.clone();
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                end(&of_signals, "interrupted", signal);
            }
        })?;
    thread::Builder::new()
        .name("deadline".to_owned())
        .spawn(move || loop {
            thread::sleep(LOOK);
            if let Some(name) = exit.settings.overdue(GRACE) {
                let why = format!("check {name} hangs in a call of the driver");
                end(&exit, &why, SIGTERM);
            }
        })?;
    Ok(())
}

/// Puts tunables back and ends the process by a signal, without the end of other threads, which may
/// hang.
fn end(exit: &Arc<Exit>, why: &str, signal: i32) {
    // First, as a check that cannot set a tunable any more fails.
    let report = exit.keep.cut(why);
    match exit.settings.close() {
        Ok(()) => eprintln!("zernelctl: {why}; tunables are put back"),
        Err(error) => eprintln!("zernelctl: {why}; {error:#}"),
    }
    tracefs::close();
    if let Some(report) = report {
        let (done, is_done) = mpsc::channel();
        let exit = exit.clone();
        let printer = thread::Builder::new().spawn(move || {
            let written = exit.keep.write(&report);
            for result in [written, (exit.print)(&report, exit.json)] {
                if let Err(error) = result {
                    eprintln!("zernelctl: {error:#}");
                }
            }
            // It may have taken too long.
            let _ = done.send(());
        });
        if printer.is_ok() {
            let _ = is_done.recv_timeout(PRINT);
        }
    }
    // It returns for signals without an effect alone.
    let _ = emulate_default_handler(signal);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn folder() -> (tempfile::TempDir, Settings) {
        let dir = tempfile::tempdir().unwrap();
        for (name, value) in [("rotation", "fair"), ("level7_timeslice_us", "200")] {
            fs::write(dir.path().join(name), format!("{value}\n")).unwrap();
        }
        let settings = Settings::new(Tunables::open_at(dir.path()).unwrap());
        (dir, settings)
    }

    fn values(settings: &Settings) -> [String; 2] {
        ["rotation", "level7_timeslice_us"].map(|name| settings.get(name).unwrap())
    }

    #[test]
    fn sets_are_undone_in_reverse() {
        let (_dir, settings) = folder();
        for value in ["1000", "2000", "4000"] {
            settings.set("level7_timeslice_us", value).unwrap();
        }
        settings.set("rotation", "none").unwrap();
        assert_eq!(values(&settings), ["none", "4000"]);
        let order: Vec<_> = settings.state().sets.iter().map(|s| s.1.clone()).collect();
        assert_eq!(order, ["200", "1000", "2000", "fair"]);
        settings.put_back().unwrap();
        assert_eq!(values(&settings), ["fair", "200"]);
        // Nothing is left to undo: a later change of somebody else stays.
        settings.tunables.set("rotation", "rr").unwrap();
        settings.put_back().unwrap();
        assert_eq!(values(&settings), ["rr", "200"]);
    }

    #[test]
    fn a_scope_ends_with_all_put_back() {
        let (_dir, settings) = folder();
        let settings = Arc::new(settings);
        let inner = settings.clone();
        let panicked = thread::spawn(move || {
            let _guard = Guard(&inner);
            inner.set("rotation", "none").unwrap();
            panic!("as a check with a fault");
        });
        assert!(panicked.join().is_err());
        assert_eq!(values(&settings), ["fair", "200"]);
    }

    #[test]
    fn nothing_is_set_at_the_end() {
        let (_dir, settings) = folder();
        settings.set("rotation", "none").unwrap();
        settings.close().unwrap();
        let error = settings.set("rotation", "rr").unwrap_err();
        assert!(error.to_string().contains("the process ends"), "{error}");
        assert_eq!(values(&settings), ["fair", "200"]);
    }

    #[test]
    fn a_value_that_is_not_taken_is_named() {
        let (dir, settings) = folder();
        settings.set("rotation", "none").unwrap();
        settings.set("level7_timeslice_us", "500").unwrap();
        fs::remove_file(dir.path().join("rotation")).unwrap();
        let error = settings.put_back().unwrap_err().to_string();
        assert!(error.contains("rotation=fair"), "{error}");
        assert_eq!(settings.get("level7_timeslice_us").unwrap(), "200");
        // It is put back by the next call, beneath what was set meanwhile.
        fs::write(dir.path().join("rotation"), "none\n").unwrap();
        settings.set("rotation", "rr").unwrap();
        settings.put_back().unwrap();
        assert_eq!(values(&settings), ["fair", "200"]);
        assert!(settings.state().sets.is_empty());
    }

    #[test]
    fn an_unknown_tunable_changes_nothing() {
        let (_dir, settings) = folder();
        assert!(settings.set("speed", "9").is_err());
        assert!(settings.state().sets.is_empty());
    }

    #[test]
    fn a_check_is_overdue_after_its_deadline() {
        let (_dir, settings) = folder();
        assert_eq!(settings.overdue(Duration::ZERO), None);
        let now = Instant::now();
        settings.set_deadline(Some((now, "slice")));
        thread::sleep(Duration::from_millis(2));
        assert_eq!(settings.overdue(Duration::ZERO), Some("slice"));
        assert_eq!(settings.overdue(Duration::from_secs(3600)), None);
        settings.set_deadline(None);
        assert_eq!(settings.overdue(Duration::ZERO), None);
    }
}
