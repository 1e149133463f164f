// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables for people, JSON for programs.

use std::io::{self, Write};

use anyhow::Result;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use libzernel::Level;
use serde::Serialize;

/// Prints `value` as JSON.
pub fn json(value: &impl Serialize) -> Result<()> {
    json_to(&mut io::stdout().lock(), value)
}

/// Writes `value` as JSON.
pub fn json_to(out: &mut impl Write, value: &impl Serialize) -> Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    Ok(writeln!(out)?)
}

/// Prints `value` as one line of JSON.
pub fn json_line(out: &mut impl Write, value: &impl Serialize) -> Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    Ok(writeln!(out)?)
}

/// Prints text, a line at least.
pub fn text(text: &str) -> Result<()> {
    Ok(writeln!(io::stdout().lock(), "{}", text.trim_end())?)
}

/// A table without lines, with columns as wide as they need to be.
pub fn table<'a>(
    header: impl IntoIterator<Item = &'a str>,
    right: impl Fn(&str) -> bool,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let header: Vec<_> = header.into_iter().collect();
    let mut table = Table::new();
    table
        .load_preset(NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header.clone())
        .add_rows(rows);
    let last = header.len().saturating_sub(1);
    for (index, (column, name)) in table.column_iter_mut().zip(header).enumerate() {
        column.set_padding((0, if index == last { 0 } else { 2 }));
        if right(name) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// A level, or a dash for none.
pub fn level(level: Option<Level>) -> String {
    level.map_or_else(|| "-".to_owned(), |level| level.to_string())
}

/// Microseconds in the unit that reads best.
pub fn microseconds(us: u32) -> String {
    match us {
        0 => "-".to_owned(),
        us if us % 1_000_000 == 0 => format!("{} s", us / 1_000_000),
        us if us >= 10_000 && us % 1_000 == 0 => format!("{} ms", us / 1_000),
        us => format!("{us} us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [
            vec!["a".to_owned(), "1".to_owned()],
            vec!["long".to_owned(), "100".to_owned()],
        ];
        let text = table(["NAME", "N"], |name| name == "N", rows);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines, ["NAME    N", "a       1", "long  100"]);
    }

    #[test]
    fn times_read_well() {
        assert_eq!(microseconds(0), "-");
        assert_eq!(microseconds(200), "200 us");
        assert_eq!(microseconds(1_024), "1024 us");
        assert_eq!(microseconds(50_000), "50 ms");
        assert_eq!(microseconds(5_000_000), "5 s");
    }
}
