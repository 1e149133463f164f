// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report: a verdict for each check, its figures, tables for people and JSON for programs.

use std::fmt::Write as _;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use libzernel::Gpu;
use serde::Serialize;

use crate::figure::{Figure, Judgement, Range, Unit};

/// Version of the JSON; grows when the meaning of something changes.
pub const SCHEMA: u32 = 1;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// All figures that are judged are in their ranges.
    #[serde(rename = "ok")]
    Ok,
    /// A figure is not.
    #[serde(rename = "outside")]
    Outside,
    /// It cannot be done here.
    #[serde(rename = "not here")]
    NotHere,
    /// It came to no end.
    #[serde(rename = "failed")]
    Failed,
}

impl Verdict {
    /// As text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Outside => "outside",
            Self::NotHere => "not here",
            Self::Failed => "failed",
        }
    }
}

/// A figure and the judgement on it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judged {
    /// The figure.
    #[serde(flatten)]
    pub figure: Figure,
    /// The judgement.
    pub judgement: Judgement,
}

/// The outcome of a check.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// Its name.
    pub name: &'static str,
    /// Its question.
    pub asks: &'static str,
    /// The result.
    pub verdict: Verdict,
    /// The reason, unless it is ok.
    pub reason: Option<String>,
    /// Seconds that it took.
    pub seconds: f64,
    /// Its figures.
    pub figures: Vec<Judged>,
}

/// A report.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// True if the figures are those of a GPU.
    pub hardware: bool,
    /// The same as a sentence.
    pub note: &'static str,
    /// The work that was used.
    pub work: &'static str,
    /// Version of the running kernel.
    pub kernel: String,
    /// TSGs of others on the GPU at the start, as far as the caller may see them.
    pub others: usize,
    /// False if the run was cut short: checks are missing, and the last one may have been running.
    pub complete: bool,
    /// The GPU at the start.
    pub gpu: Gpu,
    /// The checks in the order in which they ran.
    pub checks: Vec<Outcome>,
}

/// The note of a report.
pub fn note(hardware: bool) -> &'static str {
    if hardware {
        "The figures are those of this GPU."
    } else {
        "No figure here is a GPU's: the GPU is software. Verdicts are about functions; costs are \
         not judged."
    }
}

impl Report {
    /// True if no check is outside or failed.
    pub fn is_good(&self) -> bool {
        let bad = |outcome: &Outcome| matches!(outcome.verdict, Verdict::Outside | Verdict::Failed);
        !self.checks.iter().any(bad)
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = self.head();
        let rows = self.checks.iter().map(|outcome| {
            vec![
                outcome.name.to_owned(),
                outcome.verdict.name().to_owned(),
                format!("{:.1} s", outcome.seconds),
                outcome.reason.clone().unwrap_or_default(),
            ]
        });
        text += &table(&["CHECK", "VERDICT", "TIME", ""], &["TIME"], rows);
        for outcome in &self.checks {
            if !outcome.figures.is_empty() {
                text += &format!("\n\n{}: {}\n", outcome.name, outcome.asks);
                text += &figures(outcome);
            }
        }
        text + "\n"
    }

    fn head(&self) -> String {
        let mut head = String::new();
        let gpu = &self.gpu;
        for (name, value) in [
            (
                "GPU",
                format!("{} at {} (id {})", gpu.name, gpu.bus, gpu.id),
            ),
            ("provider", format!("{} {}", gpu.provider, gpu.driver)),
            ("kernel", self.kernel.clone()),
            ("work", self.work.to_owned()),
        ] {
            // A String takes all.
            let _ = writeln!(head, "{name:<9} {}", value.trim_end());
        }
        head += &format!("\n{}\n", self.note);
        if self.others > 0 {
            head += &format!(
                "{} TSGs of others are on the GPU: figures are those beside them.\n",
                self.others
            );
        }
        if !self.complete {
            head += "The run was cut short: checks are missing.\n";
        }
        head + "\n"
    }
}

fn figures(outcome: &Outcome) -> String {
    const HEADER: [&str; 8] = [
        "  FIGURE", "MEDIAN", "MIN", "P99", "MAX", "N", "EXPECTED", "",
    ];
    let rows = outcome.figures.iter().map(|Judged { figure, judgement }| {
        let sample = &figure.sample;
        let value = |value: f64| with_unit(value, figure.unit);
        let single = sample.n == 1;
        let spread = |value: f64| if single { String::new() } else { number(value) };
        vec![
            format!("  {}", figure.name),
            value(sample.median),
            spread(sample.min),
            spread(sample.p99),
            spread(sample.max),
            if single {
                String::new()
            } else {
                sample.n.to_string()
            },
            expected(figure.expected),
            match judgement {
                Judgement::Within => "ok",
                Judgement::Outside => "outside",
                Judgement::NotJudged => "",
            }
            .to_owned(),
        ]
    });
    table(&HEADER, &HEADER[1..6], rows)
}

fn with_unit(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Count => number(value),
        unit => format!("{} {unit}", number(value)),
    }
}

fn expected(range: Option<Range>) -> String {
    match range {
        None => "not known".to_owned(),
        Some(range) if range.min == range.max => number(range.min),
        Some(range) => format!("{} to {}", number(range.min), number(range.max)),
    }
}

/// With three digits or more, and no more of a fraction than that takes.
fn number(value: f64) -> String {
    match value.abs() {
        // Without a sign.
        0.0 => "0".to_owned(),
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A table without lines.
pub fn table(
    header: &[&str],
    right: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let mut table = Table::new();
    table
        .load_preset(NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header.to_vec())
        .add_rows(rows);
    let last = header.len() - 1;
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index == last { 0 } else { 2 }));
        if right.contains(&header[index]) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

#[cfg(test)]
pub mod tests;
