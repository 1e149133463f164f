// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report as it grows, so that a run that is cut short has one, too.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result};

use crate::check::Check;
use crate::report::{Outcome, Report, Verdict};

/// A file for the report. It has its name once the report is over; before, that and `.partial`.
#[derive(Debug)]
pub struct Out {
    file: File,
    path: PathBuf,
    /// The name until then. `None`: the file is no regular one, and is not replaced.
    partial: Option<PathBuf>,
}

impl Out {
    /// Makes it. A file that is there is left as it is for now.
    pub fn create(path: &Path) -> Result<Self> {
        // A link stays one.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let is_other = fs::metadata(&path).is_ok_and(|there| !there.is_file());
        let partial = (!is_other).then(|| {
            let mut name = path.clone().into_os_string();
            name.push(".partial");
            PathBuf::from(name)
        });
        let opened = match &partial {
            None => OpenOptions::new().write(true).open(&path),
            Some(partial) => {
                // That of a run that was killed; and nobody's link is followed.
                let _ = fs::remove_file(partial);
                OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .open(partial)
            }
        };
        let file = opened.with_context(|| path.display().to_string())?;
        Ok(Self {
            file,
            path,
            partial,
        })
    }

    /// Writes a report that may grow.
    fn write(&mut self, report: &Report) -> Result<()> {
        if self.partial.is_some() {
            self.file.rewind()?;
            self.file.set_len(0)?;
            self.put(report)?;
            // The machine may not live to see the next check.
            self.file.sync_all()?;
        }
        Ok(())
    }

    fn put(&mut self, report: &Report) -> Result<()> {
        let mut text = serde_json::to_string_pretty(report)?;
        text.push('\n');
        Ok(self.file.write_all(text.as_bytes())?)
    }

    /// Writes the whole report.
    fn finish(mut self, report: &Report) -> Result<()> {
        let end = |out: &mut Self| match out.partial.clone() {
            None => out.put(report),
            Some(partial) => {
                out.write(report)?;
                Ok(fs::rename(partial, &out.path)?)
            }
        };
        end(&mut self).with_context(|| self.path.display().to_string())
    }
}

/// The report so far, the check that runs, and the file.
#[derive(Debug, Default)]
pub struct Keep {
    state: Mutex<State>,
    /// Apart, so that nobody waits for a disk who wants the report.
    out: Mutex<Option<Out>>,
}

#[derive(Debug, Default)]
struct State {
    report: Option<Report>,
    runs: Option<(Check, Instant)>,
    is_over: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Keep {
    /// With nothing in it yet.
    pub fn new(out: Option<Out>) -> Self {
        Self {
            state: Mutex::default(),
            out: Mutex::new(out),
        }
    }

    /// Takes the report so far; `next` is the check that begins. Returns false once it is over.
    pub fn step(&self, report: &Report, next: Option<&Check>) -> bool {
        let mut state = lock(&self.state);
        if state.is_over {
            return false;
        }
        state.report = Some(report.clone());
        state.runs = next.map(|check| (*check, Instant::now()));
        drop(state);
        if let Some(out) = &mut *lock(&self.out) {
            // The end tells if it cannot be written.
            let _ = out.write(report);
        }
        true
    }

    /// The whole report, unless somebody has had it.
    pub fn whole(&self) -> Option<Report> {
        let mut state = lock(&self.state);
        state.is_over = true;
        state.report.take()
    }

    /// The report so far, unless somebody has had it: the check that runs has failed for this reason.
    pub fn cut(&self, why: &str) -> Option<Report> {
        let mut state = lock(&self.state);
        state.is_over = true;
        let mut report = state.report.take()?;
        report.complete = false;
        if let Some((check, since)) = state.runs.take() {
            report.checks.push(Outcome {
                name: check.name,
                asks: check.asks,
                verdict: Verdict::Failed,
                reason: Some(why.to_owned()),
                seconds: since.elapsed().as_secs_f64(),
                figures: Vec::new(),
            });
        }
        Some(report)
    }

    /// Gives the file its content and its name, if there is one.
    pub fn write(&self, report: &Report) -> Result<()> {
        match lock(&self.out).take() {
            Some(out) => out.finish(report),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Figures;
    use crate::report::tests::{outcome, report};
    use std::os::unix::fs::symlink;

    fn read(path: &Path) -> serde_json::Value {
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }

    fn part(names: &[&'static str]) -> Report {
        let checks = names
            .iter()
            .map(|name| outcome(name, Verdict::Ok, Figures::new()));
        Report {
            complete: false,
            ..report(checks.collect())
        }
    }

    #[test]
    fn an_older_report_stays_until_there_is_a_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let (path, partial) = (dir.path().join("a"), dir.path().join("a.partial"));
        fs::write(&path, "older").unwrap();
        fs::write(&partial, "of a run that was killed").unwrap();
        let keep = Keep::new(Some(Out::create(&path).unwrap()));
        assert_eq!(fs::read_to_string(&partial).unwrap(), "");
        assert!(keep.step(&part(&["clock"]), crate::named("slice")));
        assert_eq!(read(&partial)["checks"][0]["name"], "clock");
        assert_eq!(read(&partial)["complete"], false);
        let all = report(Vec::new());
        assert!(keep.step(&all, None));
        assert_eq!(fs::read_to_string(&path).unwrap(), "older");
        let whole = keep.whole().unwrap();
        keep.write(&whole).unwrap();
        assert_eq!(read(&path)["complete"], true);
        assert!(!partial.exists());
        // Nobody else has it, and nothing follows.
        assert!(keep.cut("interrupted").is_none());
        assert!(!keep.step(&all, None));
    }

    #[test]
    fn a_run_that_is_cut_short_tells_which_check_ran() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let keep = Keep::new(Some(Out::create(&path).unwrap()));
        keep.step(&part(&["clock"]), crate::named("slice"));
        let cut = keep.cut("interrupted").unwrap();
        keep.write(&cut).unwrap();
        assert!(!cut.is_good());
        let told = read(&path);
        assert_eq!(told["complete"], false);
        assert_eq!(told["checks"][0]["verdict"], "ok");
        assert_eq!(told["checks"][1]["name"], "slice");
        assert_eq!(told["checks"][1]["verdict"], "failed");
        assert_eq!(told["checks"][1]["reason"], "interrupted");
        assert!(keep.whole().is_none());
        // Between two checks none has failed.
        let keep = Keep::default();
        assert!(keep.cut("interrupted").is_none());
        let keep = Keep::default();
        keep.step(&part(&["clock"]), None);
        assert_eq!(keep.cut("interrupted").unwrap().checks.len(), 1);
    }

    #[test]
    fn links_and_devices_are_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("a"), dir.path().join("link"));
        fs::write(&path, "older").unwrap();
        symlink(&path, &link).unwrap();
        let null = Path::new("/dev/null");
        for name in [link.as_path(), null] {
            let keep = Keep::new(Some(Out::create(name).unwrap()));
            keep.step(&part(&[]), None);
            keep.write(&part(&["clock"])).unwrap();
        }
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(read(&path)["checks"][0]["name"], "clock");
        assert!(!fs::metadata(null).unwrap().is_file());
    }

    #[test]
    fn a_file_that_cannot_be_is_named() {
        let error = Out::create(Path::new("/nonexistent/a")).unwrap_err();
        assert_eq!(error.to_string(), "/nonexistent/a");
    }
}
