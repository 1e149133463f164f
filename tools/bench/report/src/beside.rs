// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of the same parts on two GPUs, side by side.

use anyhow::{ensure, Result};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

use crate::outcome::Mode;
use crate::suite::Done;
use crate::table::Row;

/// A figure of a run on two GPUs.
#[derive(Debug, Clone, PartialEq)]
struct Pair {
    /// Workload, its parameter and the mode.
    run: String,
    /// Its name and unit.
    figure: String,
    of: [f64; 2],
    /// They are as near to each other, or to their goal, as they are to be.
    is_near: bool,
}

impl Pair {
    fn cells(&self) -> [String; 5] {
        let [first, second] = self.of;
        let apart = match first {
            0.0 => "-".to_owned(),
            first => format!("{:+.1} %", 100.0 * (second / first - 1.0)),
        };
        let mark = if self.is_near { "" } else { " !" };
        [
            self.run.clone(),
            self.figure.clone(),
            format!("{first:.3}"),
            format!("{second:.3}"),
            format!("{apart}{mark}"),
        ]
    }
}

/// Bounds of figures of runs under zernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slack {
    /// LC latency and BE share are this near to each other, in percent of those of the first GPU.
    pub percent: f64,
    /// The same, in microseconds, for what little there is of added latency.
    pub us: f64,
    /// Shares by weight on both GPUs are this near to those that are due, in percent of these.
    pub weights_percent: f64,
}

/// The figures of two GPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct Beside {
    labels: [String; 2],
    pairs: Vec<Pair>,
}

impl Beside {
    /// Puts results of two GPUs side by side, which have the same parts.
    ///
    /// # Errors
    ///
    /// They have not.
    pub fn new(labels: [&str; 2], first: &[Done], second: &[Done], slack: Slack) -> Result<Self> {
        let mut pairs = Vec::new();
        ensure!(!first.is_empty(), "there are no results");
        ensure!(first.len() == second.len(), "they have other parts");
        for (one, other) in first.iter().zip(second) {
            ensure!(
                (&one.workload, one.parameter) == (&other.workload, other.parameter)
                    && one.rows.len() == other.rows.len(),
                "{} and {} are other parts",
                one.workload,
                other.workload
            );
            let parameter = one.parameter.map(|value| format!(" {value}"));
            let name = format!("{}{}", one.workload, parameter.unwrap_or_default());
            for rows in one.rows.iter().zip(&other.rows) {
                of_rows(&name, rows, slack, &mut pairs);
            }
            of_shares(&name, (one, other), slack, &mut pairs);
        }
        Ok(Self {
            labels: labels.map(str::to_owned),
            pairs,
        })
    }

    /// As text.
    pub fn render(&self) -> String {
        let mut table = Table::new();
        let [first, second] = &self.labels;
        table
            .load_preset(UTF8_FULL_CONDENSED)
            .set_header(["run", "figure", first, second, "apart"]);
        for pair in &self.pairs {
            table.add_row(pair.cells());
        }
        for column in table.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        format!("{table}\n")
    }

    /// Runs with figures that are further apart than they may be.
    pub fn apart(&self) -> Vec<String> {
        let far = self.pairs.iter().filter(|pair| !pair.is_near);
        far.map(|pair| format!("{}, {}", pair.run, pair.figure))
            .collect()
    }
}

fn of_rows(name: &str, (one, other): (&Row, &Row), slack: Slack, pairs: &mut Vec<Pair>) {
    let mode = one.mode;
    let mut add = |figure: &str, of: [f64; 2], least: f64| {
        let near = (slack.percent / 100.0 * of[0].abs()).max(least);
        pairs.push(Pair {
            run: format!("{name} · {}", one.mode_and_setting()),
            figure: figure.to_owned(),
            of,
            is_near: mode != Mode::Zernel || (of[0] - of[1]).abs() <= near,
        });
    };
    let mean = [one.lc.mean_ns / 1e6, other.lc.mean_ns / 1e6];
    add("LC mean, ms", mean, 0.0);
    if mode == Mode::Alone {
        return;
    }
    let both = |of: &dyn Fn(&Row) -> Option<f64>| Some([of(one)?, of(other)?]);
    if let Some(added) = both(&|row| row.lc_added_us) {
        add("LC added mean, µs", added, slack.us);
    }
    if let Some(added) = both(&|row| Some(row.lc_added_at_us?[1])) {
        add("LC added p99, µs", added, slack.us);
    }
    let be = [one.be_gpu_percent, other.be_gpu_percent];
    add("BE share of the GPU, %", be, 0.0);
}

fn of_shares(name: &str, (one, other): (&Done, &Done), slack: Slack, pairs: &mut Vec<Pair>) {
    for ((mode, shares), (_, others)) in one.shares.iter().zip(&other.shares) {
        for (at, (share, other)) in shares.iter().zip(others).enumerate() {
            pairs.push(Pair {
                run: format!("{name} · {mode}"),
                figure: format!("share of process {} by weight {}, %", at + 1, share.weight),
                of: [share.had_percent, other.had_percent],
                is_near: [share, other]
                    .iter()
                    .all(|one| one.error_percent().abs() <= slack.weights_percent),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Share;
    use crate::suite::Section;
    use crate::table;
    use crate::testdata::comparison;
    use zernel_workload::Deployment;

    const SLACK: Slack = Slack {
        percent: 10.0,
        us: 5.0,
        weights_percent: 2.0,
    };

    fn done(had_percent: f64) -> Done {
        let share = Share {
            weight: 3,
            due_percent: 75.0,
            had_percent,
        };
        let comparison = comparison("B1");
        Done {
            section: Section::Weights,
            parameter: Some(2.0),
            workload: "B1".to_owned(),
            title: String::new(),
            deployment: Deployment::PerClient,
            seconds: 1.0,
            published: None,
            rows: table::rows(&comparison),
            curves: Vec::new(),
            shares: vec![(Mode::Zernel, vec![share])],
            recovery: Vec::new(),
        }
    }

    fn apart(first: &Done, second: &Done) -> Vec<String> {
        let both = [first, second].map(|one| vec![one.clone()]);
        let [first, second] = &both;
        Beside::new(["one", "other"], first, second, SLACK)
            .unwrap()
            .apart()
    }

    fn zernel(done: &mut Done) -> &mut Row {
        let of = |row: &&mut Row| row.mode == Mode::Zernel;
        done.rows.iter_mut().find(of).unwrap()
    }

    #[test]
    fn the_same_is_not_apart() {
        assert!(apart(&done(75.0), &done(75.0)).is_empty());
        assert!(apart(&done(75.0), &done(76.4)).is_empty());
    }

    #[test]
    fn each_figure_counts_under_zernel() {
        let good = done(75.0);
        for change in [
            |row: &mut Row| row.lc.mean_ns *= 1.11,
            |row: &mut Row| row.lc_added_us = row.lc_added_us.map(|us| us * 1.11 + 5.0),
            |row: &mut Row| {
                row.lc_added_at_us = row.lc_added_at_us.map(|us| us.map(|us| us + 99.0))
            },
            |row: &mut Row| row.be_gpu_percent += 10.0,
        ] {
            let mut bad = good.clone();
            change(zernel(&mut bad));
            assert_eq!(apart(&good, &bad).len(), 1, "{:?}", apart(&good, &bad));
        }
        let mut other = good.clone();
        let of = |row: &&mut Row| row.mode == Mode::Default;
        other.rows.iter_mut().find(of).unwrap().lc.mean_ns *= 2.0;
        assert!(apart(&good, &other).is_empty());
    }

    #[test]
    fn shares_are_near_to_what_is_due() {
        assert_eq!(apart(&done(75.0), &done(77.0)).len(), 1);
        assert_eq!(apart(&done(77.0), &done(77.0)).len(), 1);
    }

    #[test]
    fn other_parts_cannot_be_compared() {
        let (one, mut other) = (done(75.0), done(75.0));
        other.parameter = None;
        let of = |one: &[Done], other: &[Done]| Beside::new(["", ""], one, other, SLACK);
        let one = [one];
        assert!(of(&one, &[other]).is_err());
        assert!(of(&one, &[]).is_err());
        assert!(of(&[], &[]).is_err());
        let text = of(&one, &one).unwrap().render();
        assert!(
            text.contains("LC added p99") && text.contains("by weight 3"),
            "{text}"
        );
    }
}
