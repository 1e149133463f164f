// SPDX-License-Identifier: MIT OR Apache-2.0
//! The demo's result at one look, for the README: a picture, and a table of four rows.

mod queues;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use askama::Template;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use self::queues::Queues;
use crate::outcome::Mode;
use crate::queues::Compared;
use crate::table::Row;
use crate::training;

/// The file of the demo's figures in its folder.
const SUMMARY: &str = "summary.json";
/// The figures shown, the picture and the table.
const JSON: &str = "demo.json";
const SVG: &str = "demo.svg";
const TABLE: &str = "readme.md";
/// Where the repository has the first two.
const IMAGES: &str = "Documentation/images";
/// Lines around the table in the README.
const MARKS: (&str, &str) = ("<!-- demo table -->", "<!-- end of demo table -->");

/// All figures of the demo.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Of each run of a workload.
    pub rows: Vec<Row>,
    /// Of the training loops.
    pub training: Vec<training::Summary>,
    /// Of those beside queues.
    #[serde(default)]
    pub queues: Vec<Compared>,
}

impl Summary {
    /// Writes it to its file in `dir`.
    pub fn save(&self, dir: &Path) -> Result<()> {
        write(&dir.join(SUMMARY), &serde_json::to_string_pretty(self)?)
    }
}

/// The figures that are shown, with the digits that are shown, so that the demo's next run changes
/// few of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shown {
    workloads: Vec<Workload>,
    training: Option<Training>,
    queues: Option<Queues>,
}

/// A workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Workload {
    name: String,
    runs: Vec<Run>,
}

/// A run of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    mode: Mode,
    lc_mean_ms: f64,
    lc_dropped_percent: f64,
    be_rate: f64,
}

/// The training loop whose loading a computation can hide.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Training {
    without_signal: Loop,
    with_signal: Loop,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Loop {
    gpu_idle_percent: f64,
    steps_per_s: f64,
}

impl Shown {
    /// Of the demo's figures.
    pub fn of(summary: &Summary) -> Self {
        let mut workloads: Vec<Workload> = Vec::new();
        for row in &summary.rows {
            let arrived = (row.lc.count + row.lc_dropped).max(1);
            let run = Run {
                mode: row.mode,
                lc_mean_ms: rounded(row.lc.mean_ns / 1e6, 3),
                lc_dropped_percent: rounded(100.0 * row.lc_dropped as f64 / arrived as f64, 0),
                be_rate: rounded(row.be_rate, 1),
            };
            match workloads.iter_mut().find(|one| one.name == row.workload) {
                Some(one) => one.runs.push(run),
                None => workloads.push(Workload {
                    name: row.workload.clone(),
                    runs: vec![run],
                }),
            }
        }
        let of = |one: &training::Figures| Loop {
            gpu_idle_percent: rounded(one.gpu_idle_percent, 1),
            steps_per_s: rounded(one.steps_per_s, 2),
        };
        let training = summary.training.iter().find_map(|one| {
            let fixed = matches!(one.plan.lengths, training::Lengths::Fixed { .. });
            Some(Training {
                without_signal: of(one.without_signal.as_ref().filter(|_| fixed)?),
                with_signal: of(one.with_signal.as_ref()?),
            })
        });
        Self {
            workloads,
            training,
            queues: Queues::of(&summary.queues),
        }
    }

    fn save(&self, dir: &Path) -> Result<[PathBuf; 2]> {
        let [json, svg] = [JSON, SVG].map(|name| dir.join(name));
        write(&json, &(serde_json::to_string_pretty(self)? + "\n"))?;
        write(&svg, &self.picture()?)?;
        Ok([json, svg])
    }

    /// The picture: SVG that reads on light and on dark pages.
    pub fn picture(&self) -> Result<String> {
        Ok(Picture::of(self).render()? + "\n")
    }

    /// The table, in Markdown.
    pub fn table(&self) -> Result<String> {
        let rows = self.workloads.iter().map(|one| TableRow {
            what: one.clients(),
            cells: MODES.map(|mode| one.mean(mode)),
            be: one.be(),
        });
        let table = MarkdownTable {
            rows: rows.collect(),
            training: self.training,
            queues: self.queues,
        };
        Ok(table.render()? + "\n")
    }
}

/// The figures shown of a folder: of a demo's results, or as they were written.
fn load(dir: &Path) -> Result<Shown> {
    let summary = dir.join(SUMMARY);
    match summary.exists() {
        true => Ok(Shown::of(&read(&summary)?)),
        false => read(&dir.join(JSON)),
    }
}

/// Writes the figures shown, the picture and the table to the demo's folder; returns the files.
pub fn write_all(dir: &Path) -> Result<Vec<PathBuf>> {
    let shown = load(dir)?;
    let mut files = shown.save(dir)?.to_vec();
    files.push(dir.join(TABLE));
    write(&dir.join(TABLE), &shown.table()?)?;
    Ok(files)
}

/// Writes the same to the repository in `root`: its README and the images of its documentation.
pub fn record(dir: &Path, root: &Path) -> Result<Vec<PathBuf>> {
    let shown = load(dir)?;
    let mut files = shown.save(&root.join(IMAGES))?.to_vec();
    let readme = root.join("README.md");
    let text =
        fs::read_to_string(&readme).with_context(|| format!("cannot read {}", readme.display()))?;
    let (before, rest) = text
        .split_once(MARKS.0)
        .context("README.md has no mark of the demo's table")?;
    let (_, after) = rest
        .split_once(MARKS.1)
        .context("README.md has no mark of the end of the demo's table")?;
    let table = shown.table()?;
    let text = [before, MARKS.0, "\n", &table, MARKS.1, after].concat();
    write(&readme, &text)?;
    files.push(readme);
    Ok(files)
}

/// The runs that are compared, in their order.
const MODES: [Mode; 3] = [Mode::Alone, Mode::Default, Mode::Zernel];

impl Workload {
    fn run(&self, mode: Mode) -> Option<&Run> {
        self.runs.iter().find(|run| run.mode == mode)
    }

    /// Its clients in words.
    fn clients(&self) -> &'static str {
        match self.name.as_str() {
            "A" => "LC 100/s, BE 100/s",
            "B1" => "LC 150/s, BE without pause",
            "C" => "LC 100/s, five BE programs",
            _ => "LC and BE",
        }
    }

    fn mean(&self, mode: Mode) -> String {
        let run = self.run(mode);
        run.map_or("-".to_owned(), |run| format!("{:.3}", run.lc_mean_ms))
    }

    /// Best-effort requests per second with default slices and with zernel.
    fn be(&self) -> String {
        let rate = |mode| self.run(mode).map_or(0.0, |run| run.be_rate);
        let [default, zernel] = [Mode::Default, Mode::Zernel].map(rate);
        format!("{default:.1} → {zernel:.1} requests/s")
    }
}

impl Run {
    fn latency(&self) -> String {
        let dropped = match self.lc_dropped_percent {
            0.0 => String::new(),
            percent => format!(", {percent:.0} % dropped"),
        };
        format!("{:.2} ms{dropped}", self.lc_mean_ms)
    }
}

#[derive(Template)]
#[template(path = "readme.txt", escape = "none")]
struct MarkdownTable {
    rows: Vec<TableRow>,
    training: Option<Training>,
    queues: Option<Queues>,
}

struct TableRow {
    what: &'static str,
    cells: [String; 3],
    be: String,
}

/// Geometry of the picture, in units of length.
const WIDTH: u32 = 840;
const LEFT: u32 = 216;
/// Length of the longest bar: room for its figure is right of it.
const LONGEST: f64 = 340.0;
const BAR: u32 = 18;
const GROUP_GAP: u32 = 18;
const TITLE: u32 = 56;

#[derive(Template)]
#[template(path = "demo.svg", escape = "html")]
struct Picture {
    width: u32,
    height: u32,
    left: u32,
    bar: u32,
    groups: Vec<Group>,
}

/// Bars that belong together.
struct Group {
    /// Headline of all groups from here on.
    headline: Option<&'static str>,
    headline_y: u32,
    title: &'static str,
    title_y: u32,
    note: String,
    note_y: u32,
    bars: Vec<Bar>,
}

struct Bar {
    class: &'static str,
    y: u32,
    text_y: u32,
    length: u32,
    text: String,
    text_x: u32,
}

impl Picture {
    fn of(shown: &Shown) -> Self {
        let runs = || shown.workloads.iter().flat_map(|one| &one.runs);
        let most = runs().fold(0.1, |most: f64, run| most.max(run.lc_mean_ms));
        let mut picture = Self {
            width: WIDTH,
            height: 8,
            left: LEFT,
            bar: BAR - 4,
            groups: Vec::new(),
        };
        let mut headline = Some("Mean latency of latency-critical (LC) requests");
        for one in &shown.workloads {
            let bars = MODES.into_iter().filter_map(|mode| {
                let run = one.run(mode)?;
                let class = mode.name();
                let name = match mode {
                    Mode::Alone => "LC alone",
                    Mode::Default => "default slices",
                    _ => "zernel",
                };
                let text = format!("{name} {}", run.latency());
                Some((class, run.lc_mean_ms / most, text))
            });
            let note = format!("BE {}", one.be());
            let bars: Vec<_> = bars.collect();
            picture.add(headline.take(), one.clients(), note, bars);
        }
        if let Some(Training {
            without_signal,
            with_signal,
        }) = &shown.training
        {
            let most = without_signal.gpu_idle_percent.max(1.0);
            let bar = |class, name, one: &Loop| {
                let idle = one.gpu_idle_percent;
                (class, idle / most, format!("{name} {idle:.1} %"))
            };
            let bars = vec![
                bar("default", "without the signal", without_signal),
                bar("zernel", "with zernel's signal", with_signal),
            ];
            let [before, after] = [without_signal, with_signal].map(|one| one.steps_per_s);
            picture.add(
                Some("Idle GPU time of a training loop"),
                "training loop",
                format!("{before:.2} → {after:.2} steps/s"),
                bars,
            );
        }
        picture.height += GROUP_GAP / 2;
        picture
    }

    fn add(
        &mut self,
        headline: Option<&'static str>,
        title: &'static str,
        note: String,
        bars: Vec<(&'static str, f64, String)>,
    ) {
        let headline_y = self.height + 30;
        if headline.is_some() {
            self.height += TITLE - GROUP_GAP / 2;
        }
        let top = self.height;
        let of_bar = |(number, (class, share, text)): (usize, (&'static str, f64, String))| {
            let y = top + BAR * number as u32;
            let length = ((LONGEST * share).round() as u32).max(2);
            Bar {
                class,
                y,
                text_y: y + BAR - 7,
                length,
                text,
                text_x: LEFT + length + 8,
            }
        };
        let bars: Vec<Bar> = bars.into_iter().enumerate().map(of_bar).collect();
        self.height += BAR * bars.len() as u32 + GROUP_GAP;
        let middle = top + BAR * bars.len() as u32 / 2;
        self.groups.push(Group {
            headline,
            headline_y,
            title,
            title_y: middle - 4,
            note,
            note_y: middle + 13,
            bars,
        });
    }
}

fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text)
        .with_context(|| format!("{} is not a result of the demo", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;
    use crate::testdata;

    const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

    fn summary() -> Summary {
        let rows = ["A", "B1", "C"].map(|name| table::rows(&testdata::comparison(name)));
        let plans = [training::Plan::RANDOM, training::Plan::FIXED];
        Summary {
            rows: rows.concat(),
            training: plans
                .map(|plan| testdata::training(plan).summary())
                .to_vec(),
            queues: testdata::all_queues(),
        }
    }

    #[test]
    fn a_demo_becomes_figures_a_picture_and_a_table() {
        let dir = tempfile::tempdir().unwrap();
        summary().save(dir.path()).unwrap();
        assert_eq!(write_all(dir.path()).unwrap().len(), 3);
        let shown: Shown = read(&dir.path().join(JSON)).unwrap();
        assert_eq!(shown, Shown::of(&summary()));
        let [svg, table] = [SVG, TABLE].map(|name| fs::read_to_string(dir.path().join(name)));
        let (svg, table) = (svg.unwrap(), table.unwrap());
        assert!(svg.starts_with("<svg ") && svg.contains("five BE programs"));
        let rows = table.lines().filter(|line| line.starts_with("| "));
        assert_eq!(rows.count(), 5, "{table}");
        assert!(table.contains("steps/s**"), "{table}");
        assert!(table.contains("queue of 16 it holds"), "{table}");
        // Of a demo that had no store to read from there is no sentence.
        let mut less = summary();
        less.queues.pop();
        let table = Shown::of(&less).table().unwrap();
        assert!(!table.contains("queue of"), "{table}");
    }

    #[test]
    fn what_is_recorded_replaces_what_was() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        summary().save(root).unwrap();
        fs::create_dir_all(root.join(IMAGES)).unwrap();
        let readme = root.join("README.md");
        fs::write(&readme, format!("a\n{}\nold\n{}\nb\n", MARKS.0, MARKS.1)).unwrap();
        record(root, root).unwrap();
        let text = fs::read_to_string(&readme).unwrap();
        let table = Shown::of(&summary()).table().unwrap();
        assert_eq!(text, format!("a\n{}\n{table}{}\nb\n", MARKS.0, MARKS.1));
        // Once more, from what was recorded.
        record(&root.join(IMAGES), root).unwrap();
        assert_eq!(fs::read_to_string(&readme).unwrap(), text);
        fs::write(&readme, "none").unwrap();
        assert!(record(root, root).is_err());
    }

    /// The repository's own, as `scripts/demo --record` wrote them.
    #[test]
    fn the_picture_and_the_table_of_the_readme_are_current() {
        let root = Path::new(ROOT);
        let shown = load(&root.join(IMAGES)).unwrap();
        let again =
            "run scripts/demo --record, or zernel-load readme Documentation/images --record .";
        let picture = fs::read_to_string(root.join(IMAGES).join(SVG)).unwrap();
        assert!(
            shown.picture().unwrap() == picture,
            "demo.svg is old: {again}"
        );
        assert!(picture.len() < 60_000);
        let readme = fs::read_to_string(root.join("README.md")).unwrap();
        assert!(
            readme.contains(&shown.table().unwrap()),
            "README.md is old: {again}"
        );
        assert!(readme.contains("Documentation/images/demo.svg"));
    }
}
