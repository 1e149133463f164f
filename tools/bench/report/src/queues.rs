// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of training loops whose batches come when they are needed, at zernel's signal, or from a
//! queue that is kept full.

mod figures;
mod goals;
mod table;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use zernel_train::Queue;

pub use self::figures::{Figures, Level};
pub use self::goals::goals;
pub use self::table::{cells, render, tables, HEAD, LEGEND};
use crate::training::{Lengths, Plan};

/// The file of these results in a folder.
pub const FILE: &str = "queues.json";

/// The depths of queues that are compared.
pub const DEPTHS: [usize; 5] = [1, 2, 4, 8, 16];

/// Part of the most steps that are as good.
const NEARLY: f64 = 0.99;

/// The way in which a loop has its batches loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// By the thread that trains, between computations.
    Sequence,
    /// By a thread that waits for zernel's signal.
    Signal,
    /// By the workers of a queue.
    Queue(Queue),
}

impl Way {
    /// All that are compared, in the order of their rows.
    pub fn all() -> impl Iterator<Item = Self> {
        let queues = DEPTHS.map(|depth| Self::Queue(Queue::of(depth)));
        [Self::Sequence, Self::Signal].into_iter().chain(queues)
    }

    /// Its name.
    pub fn name(self) -> String {
        match self {
            Self::Sequence => "no prefetch".to_owned(),
            Self::Signal => "zernel's signal".to_owned(),
            Self::Queue(queue) => {
                let Queue { workers, factor } = queue;
                format!("queue of {} ({workers} x {factor})", queue.depth())
            }
        }
    }
}

/// Loops of a plan that run at once, on one GPU and with one store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The plan of each.
    pub plan: Plan,
    /// Their number.
    pub jobs: usize,
    /// Reads that the store serves at once.
    pub at_once: u64,
}

impl Setting {
    /// In words.
    pub fn title(&self) -> String {
        let (jobs, at_once) = (self.jobs, self.at_once);
        let loops = match jobs {
            1 => "A training loop".to_owned(),
            _ => format!("{jobs} training loops on one GPU"),
        };
        let parts = self.plan.parts();
        let reads = if at_once == 1 { "read" } else { "reads" };
        format!("{loops} · {parts} · a store of {at_once} {reads} at once")
    }
}

/// The figures of a way.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The way.
    pub way: Way,
    /// Its figures.
    pub figures: Figures,
}

/// The ways of a setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// The setting.
    pub setting: Setting,
    /// The ways.
    pub rows: Vec<Row>,
}

impl Compared {
    /// A computation hides the next loading.
    pub fn hides(&self) -> bool {
        match self.setting.plan.lengths {
            Lengths::Fixed {
                load_ms,
                compute_ms,
            } => load_ms <= compute_ms,
            Lengths::Random { .. } => false,
        }
    }

    /// The figures of the fastest queue, and its depth: the first of those that do the most steps,
    /// or nearly.
    pub fn fastest(&self) -> Option<(usize, &Figures)> {
        let steps = |one: &(usize, &Figures)| one.1.steps_per_s;
        let most = self.queues().map(|one| steps(&one)).fold(0.0, f64::max);
        self.queues().find(|one| steps(one) >= NEARLY * most)
    }

    /// The figures of the loops with the signal.
    pub fn signal(&self) -> Option<&Figures> {
        let mut rows = self.rows.iter();
        rows.find(|row| row.way == Way::Signal)
            .map(|row| &row.figures)
    }

    /// The figures of queues, by their depth.
    pub fn queues(&self) -> impl Iterator<Item = (usize, &Figures)> {
        self.rows.iter().filter_map(|row| match row.way {
            Way::Queue(queue) => Some((queue.depth(), &row.figures)),
            Way::Sequence | Way::Signal => None,
        })
    }
}

/// Writes results to a folder.
pub fn save(all: &[Compared], dir: &Path) -> Result<()> {
    let path = dir.join(FILE);
    fs::write(&path, serde_json::to_vec_pretty(all)?)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Reads the results of a folder; nothing if there are none.
pub fn load(dir: &Path) -> Result<Vec<Compared>> {
    let path = dir.join(FILE);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text)
        .with_context(|| format!("{} holds no results of queues", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testdata;

    #[test]
    fn what_is_saved_is_loaded() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(load(dir.path()).unwrap(), []);
        let all = [testdata::queues(1), testdata::queues(3)];
        save(&all, dir.path()).unwrap();
        assert_eq!(load(dir.path()).unwrap(), all);
        fs::write(dir.path().join(FILE), "{").unwrap();
        let error = load(dir.path()).unwrap_err().to_string();
        assert!(error.contains("queues.json holds no results of"), "{error}");
    }

    #[test]
    fn settings_and_ways_are_told_in_words() {
        let names: Vec<_> = Way::all().map(Way::name).collect();
        assert_eq!(names.len(), 2 + DEPTHS.len());
        assert_eq!(
            names[..3],
            ["no prefetch", "zernel's signal", "queue of 1 (1 x 1)"]
        );
        assert_eq!(names[6], "queue of 16 (8 x 2)");
        let title = testdata::queues(3).setting.title();
        assert!(
            title.starts_with("3 training loops on one GPU · load "),
            "{title}"
        );
        assert!(title.ends_with("a store of 1 read at once"), "{title}");
    }

    #[test]
    fn the_signal_and_the_queues_are_found() {
        let compared = testdata::queues(1);
        assert!(compared.signal().is_some());
        assert_eq!(compared.queues().map(|(depth, _)| depth).max(), Some(16));
        let mut compared = testdata::queues(1);
        compared.rows[3].figures.steps_per_s += 1.0;
        assert_eq!(compared.fastest().map(|(depth, _)| depth), Some(2));
        compared.rows[4].figures.steps_per_s = 1.009 * compared.rows[3].figures.steps_per_s;
        assert_eq!(compared.fastest().map(|(depth, _)| depth), Some(2));
        assert!(compared.hides());
        compared.setting.plan.lengths = Lengths::Random { seed: 1 };
        assert!(!compared.hides());
    }
}
