// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of a run as the cells of a table, and the style of all tables.

use std::fmt;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement};

/// The figures of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Figures {
    /// Mean LC latency from the start of the preparation, in nanoseconds.
    pub lc_mean_ns: f64,
    /// The same less the mean alone, in microseconds.
    pub added_us: Option<f64>,
    /// The added latency over the same requests alone, in microseconds: median, 99th and 99.9th
    /// percentile, longest.
    pub added_at_us: Option<[f64; 4]>,
    /// Mean LC latency from the arrival, in nanoseconds.
    pub with_queue_ns: f64,
    /// LC requests per second.
    pub lc_rate: f64,
    /// BE requests per second, if there were to be any.
    pub be_rate: Option<f64>,
    /// GPU time of BE clients, in percent.
    pub be_percent: f64,
    /// GPU time that waited for data, in percent.
    pub held_percent: f64,
    /// GPU time in context switches, in percent.
    pub switch_percent: f64,
    /// GPU time in which nothing ran, in percent.
    pub idle_percent: f64,
    /// Context switches per second.
    pub switches: f64,
}

/// Columns of figures.
pub const COLUMNS: usize = 14;

/// Their names; those of the added latency belong together.
pub const HEAD: [&str; COLUMNS] = [
    "LC mean\nms",
    "added µs\nmean",
    "\np50",
    "\np99",
    "\np99.9",
    "\nmax",
    "+queue\nmean ms",
    "LC\nreq/s",
    "BE\nreq/s",
    "BE\nGPU %",
    "held\n%",
    "switch\n%",
    "idle\n%",
    "switches\n/s",
];

/// Their meaning.
pub const LEGEND: &str = "\
LC latency counts from the start of data preparation; '+queue' counts from the arrival.
'added mean' is the mean less the mean alone; p50 to max are of the differences between each request
and the same request alone. 'held' is GPU time that waited for data.
";

impl Figures {
    /// As text, a column each.
    pub fn cells(&self) -> [String; COLUMNS] {
        let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let added = |at: usize| dash(self.added_at_us.map(|us| format!("{:.0}", us[at])));
        let ms = |ns: f64| format!("{:.3}", ns / 1e6);
        [
            ms(self.lc_mean_ns),
            dash(self.added_us.map(|us| format!("{us:.1}"))),
            added(0),
            added(1),
            added(2),
            added(3),
            ms(self.with_queue_ns),
            format!("{:.1}", self.lc_rate),
            dash(self.be_rate.map(|rate| format!("{rate:.1}"))),
            format!("{:.1}", self.be_percent),
            format!("{:.2}", self.held_percent),
            format!("{:.1}", self.switch_percent),
            format!("{:.1}", self.idle_percent),
            format!("{:.0}", self.switches),
        ]
    }
}

/// A table: text columns at the left, figures, and text again.
pub struct Table {
    table: comfy_table::Table,
    figures: std::ops::Range<usize>,
}

impl Table {
    /// With these names of columns, of which those in `figures` are numbers.
    pub fn new<T: ToString>(
        head: impl IntoIterator<Item = T>,
        figures: std::ops::Range<usize>,
    ) -> Self {
        let mut table = comfy_table::Table::new();
        table
            .load_preset(UTF8_FULL_CONDENSED)
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header(head.into_iter().map(|name| name.to_string()));
        Self { table, figures }
    }

    /// Adds a row.
    pub fn add(&mut self, cells: impl IntoIterator<Item = String>) {
        self.table.add_row(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = self.table.clone();
        let columns = table.column_iter_mut().enumerate();
        for (_, column) in columns.filter(|(at, _)| self.figures.contains(at)) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(f, "{table}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_a_dash() {
        let cells = Figures::default().cells();
        assert_eq!(cells[1..6], ["-"; 5]);
        assert_eq!(cells[8], "-");
        let all = Figures {
            added_us: Some(12.34),
            added_at_us: Some([1.0, 2.4, 3.6, 4.0]),
            be_rate: Some(106.66),
            ..Figures::default()
        };
        assert_eq!(all.cells()[1..6], ["12.3", "1", "2", "4", "4"]);
        assert_eq!(all.cells()[8], "106.7");
    }

    #[test]
    fn figures_are_at_the_right_and_lines_equally_wide() {
        let mut table = Table::new(["", "a\nb"], 1..2);
        table.add(["x".to_owned(), "1".to_owned()]);
        table.add(["long".to_owned(), "100".to_owned()]);
        let text = table.to_string();
        assert!(text.contains("┆   1 │") && text.contains("│ x "), "{text}");
        let widths: Vec<_> = text.lines().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]));
    }
}
