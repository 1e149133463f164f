// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table that compares the ways in which batches are loaded.

use super::{Compared, Row};
use crate::figures::Table;

/// Names of its columns.
pub const HEAD: [&str; 12] = [
    "",
    "steps\n/s",
    "GPU idle\n%",
    "first step\nms",
    "held\nmean",
    "\nmax",
    "reading\nmean",
    "\nmax",
    "read ms\nmean",
    "\nmax",
    "age ms\nmean",
    "\nmax",
];

/// Their meaning.
pub const LEGEND: &str = "\
A queue of W x F has W workers that read a batch each, and F batches asked of each ahead, as PyTorch's
DataLoader. 'held' are batches in memory, from the begin of their read to the end of their
computation; 'reading' those that are read at once; both means are over the time in which there is
something left to read. 'read' is the time that a batch takes to be read, 'age' the time from then to
its computation. 'first step' is the time until each loop has its first batch. The store serves one
read of 4 KiB in 4 ms.
";

/// A line.
pub fn cells(row: &Row) -> [String; HEAD.len()] {
    let figures = &row.figures;
    [
        row.way.name(),
        format!("{:.2}", figures.steps_per_s),
        format!("{:.1}", figures.gpu_idle_percent),
        format!("{:.0}", figures.first_ms),
        format!("{:.2}", figures.held.mean),
        format!("{:.0}", figures.held.max),
        format!("{:.2}", figures.reading.mean),
        format!("{:.0}", figures.reading.max),
        format!("{:.0}", figures.read_ms.mean),
        format!("{:.0}", figures.read_ms.max),
        format!("{:.0}", figures.age_ms.mean),
        format!("{:.0}", figures.age_ms.max),
    ]
}

/// The table with its title.
pub fn render(compared: &Compared) -> String {
    let mut table = Table::new(HEAD, 1..HEAD.len());
    for row in &compared.rows {
        table.add(cells(row));
    }
    format!("{}\n{table}", compared.setting.title())
}

/// A table for each, and what they mean; nothing if there is none.
pub fn tables(all: &[Compared]) -> String {
    match all {
        [] => String::new(),
        _ => {
            let tables: String = all.iter().map(|one| format!("\n{}", render(one))).collect();
            format!("{tables}\n{LEGEND}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testdata;

    #[test]
    fn the_table_has_a_line_for_each_way() {
        let compared = testdata::queues(1);
        let text = tables(std::slice::from_ref(&compared));
        for row in &compared.rows {
            assert!(text.contains(&row.way.name()), "{text}");
        }
        assert!(text.ends_with(LEGEND));
        let lines: Vec<_> = text.lines().skip(2).collect();
        let widths = lines[..compared.rows.len() + 4]
            .iter()
            .map(|line| line.chars().count());
        assert!(widths.clone().all(|width| width <= 132));
        assert_eq!(widths.clone().min(), widths.max());
        assert_eq!(tables(&[]), "");
    }
}
