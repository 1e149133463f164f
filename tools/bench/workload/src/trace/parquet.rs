// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces in the format Parquet, of which a batch of rows is in memory at a time.

use std::fs::File;
use std::panic::{catch_unwind, AssertUnwindSafe};

use anyhow::{anyhow, ensure, Context, Result};
use parquet::basic::{
    Compression, ConvertedType, LogicalType, Repetition, TimeUnit, Type as Stored,
};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::{get_column_reader, ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::{ParquetError, Result as Decoded};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::schema::types::Type;

use super::{columns, in_range, traced, Rows, COLUMNS};

/// The words that a file begins with; that with the second is encrypted.
pub(super) const MAGIC: [&[u8; 4]; 2] = [b"PAR1", b"PARE"];

/// Rows that are decoded at a time.
const BATCH: usize = 8_192;

/// Adds the rows of a file.
pub(super) fn read(file: File, rows: &mut Rows) -> Result<()> {
    // The crate has assertions for what only a file with wrong contents can be.
    catch_unwind(AssertUnwindSafe(|| parse(file, rows)))
        .unwrap_or_else(|_| Err(anyhow!("is Parquet with wrong contents; write it anew")))
}

fn parse(file: File, rows: &mut Rows) -> Result<()> {
    let file = SerializedFileReader::new(file)
        .context("is Parquet that cannot be read; it may be a part of a file")?;
    let fields = file.metadata().file_metadata().schema().get_fields();
    let places = columns(fields.iter().map(|field| field.name()))?;
    let mut forms = [None; 4];
    for (column, place) in places.iter().enumerate() {
        forms[column] = place.map(|at| form(column, &fields[at])).transpose()?;
    }
    // The first of the times that count from another moment than the start of the run.
    let mut epoch = None;
    let mut number = 0_u64;
    for group in 0..file.num_row_groups() {
        let group = file.get_row_group(group)?;
        let mut left = usize::try_from(group.metadata().num_rows())?;
        let mut readers = [const { None }; 4];
        for (column, place) in places.iter().enumerate() {
            let opened = place.map(|at| open(&*group, column, at));
            readers[column] = opened.transpose()?;
        }
        while left > 0 {
            let count = left.min(BATCH);
            let mut cells: [Vec<Option<Cell>>; 4] = Default::default();
            for (column, reader) in readers.iter_mut().enumerate() {
                if let (Some(reader), Some(form)) = (reader, forms[column]) {
                    cells[column] = next(reader, form, count).with_context(|| {
                        format!("the column {} cannot be read", COLUMNS[column])
                    })?;
                }
            }
            for at in 0..count {
                number += 1;
                let cell = |column: usize| cells[column].get(at).copied().flatten();
                let whole = |column| match cell(column) {
                    Some(Cell::Whole(number)) => in_range(column, number).map(Some),
                    _ => Ok(None),
                };
                let time = cell(0).zip(forms[0]);
                time.context("time_s is empty")
                    .map(|(cell, form)| seconds(cell, form, &mut epoch))
                    .and_then(|at| rows.add(at, traced([whole(1)?, whole(2)?, whole(3)?])))
                    .with_context(|| format!("row {number}"))?;
            }
            left -= count;
        }
    }
    Ok(())
}

/// The meaning of a column's numbers.
#[derive(Clone, Copy)]
enum Form {
    /// Numbers with a sign.
    Signed,
    /// Numbers without one.
    Unsigned,
    /// Moments, which count this part of a second.
    Instant(f64),
}

/// A value of a column.
#[derive(Clone, Copy)]
enum Cell {
    Whole(i128),
    Real(f64),
}

/// The form of a column by its type.
fn form(column: usize, field: &Type) -> Result<Form> {
    let info = field.get_basic_info();
    let form = match (info.logical_type_ref(), info.converted_type()) {
        _ if !field.is_primitive() || info.repetition() == Repetition::REPEATED => None,
        (Some(LogicalType::Timestamp { unit, .. }), _) => Some(Form::Instant(match unit {
            TimeUnit::MILLIS => 1e-3,
            TimeUnit::MICROS => 1e-6,
            TimeUnit::NANOS => 1e-9,
        })),
        (Some(LogicalType::Integer { is_signed, .. }), _) => Some(match is_signed {
            true => Form::Signed,
            false => Form::Unsigned,
        }),
        // As older writers have it.
        (None, ConvertedType::TIMESTAMP_MILLIS) => Some(Form::Instant(1e-3)),
        (None, ConvertedType::TIMESTAMP_MICROS) => Some(Form::Instant(1e-6)),
        (
            None,
            ConvertedType::UINT_8
            | ConvertedType::UINT_16
            | ConvertedType::UINT_32
            | ConvertedType::UINT_64,
        ) => Some(Form::Unsigned),
        (
            None,
            ConvertedType::NONE
            | ConvertedType::INT_8
            | ConvertedType::INT_16
            | ConvertedType::INT_32
            | ConvertedType::INT_64,
        ) => Some(Form::Signed),
        _ => None,
    };
    let name = COLUMNS[column];
    let stored = field.is_primitive().then(|| field.get_physical_type());
    let form = form.filter(|form| match (stored, form) {
        (Some(Stored::INT64), Form::Instant(_)) => column == 0,
        (Some(Stored::INT32 | Stored::INT64), _) => true,
        (Some(Stored::FLOAT | Stored::DOUBLE), Form::Signed) => column == 0,
        _ => false,
    });
    form.with_context(|| {
        let told = match (stored, info.logical_type_ref(), info.converted_type()) {
            (None, ..) => "a group".to_owned(),
            (Some(stored), None, ConvertedType::NONE) => stored.to_string(),
            (Some(stored), None, converted) => format!("{stored} ({converted})"),
            (Some(stored), Some(logical), _) => format!("{stored} ({logical:?})"),
        };
        let taken = match column {
            0 => "seconds as DOUBLE, FLOAT or whole numbers, or TIMESTAMP of 64 bits",
            _ => "whole numbers of 32 or 64 bits",
        };
        format!("the column {name} is {told}; it can be {taken}")
    })
}

/// The time of a row in seconds: from the first moment, if it is one.
fn seconds(cell: Cell, form: Form, epoch: &mut Option<i128>) -> f64 {
    match (cell, form) {
        (Cell::Real(seconds), _) => seconds,
        (Cell::Whole(count), Form::Instant(part)) => {
            let epoch = *epoch.get_or_insert(count);
            (count - epoch) as f64 * part
        }
        (Cell::Whole(seconds), _) => seconds as f64,
    }
}

/// Pages whose dictionary has no more values than its bytes can hold: the crate makes room for as many
/// as are told.
struct Pages(Box<dyn PageReader>);

impl Iterator for Pages {
    type Item = Decoded<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Decoded<Option<Page>> {
        let page = self.0.get_next_page()?;
        match &page {
            Some(Page::DictionaryPage {
                buf, num_values, ..
            }) if *num_values as usize > buf.len() => {
                let told = format!("a dictionary of {num_values} values in {} bytes", buf.len());
                Err(ParquetError::General(told))
            }
            _ => Ok(page),
        }
    }

    fn peek_next_page(&mut self) -> Decoded<Option<PageMetadata>> {
        self.0.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Decoded<()> {
        self.0.skip_next_page()
    }
}

/// The reader of a column, whose place among the columns of the file is `at`.
fn open(group: &dyn RowGroupReader, column: usize, at: usize) -> Result<ColumnReader> {
    let name = COLUMNS[column];
    let chunk = group.metadata().column(at);
    let compression = chunk.compression();
    ensure!(
        matches!(
            compression,
            Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_)
        ),
        "the column {name} is compressed by {compression}; it can be by SNAPPY or ZSTD"
    );
    let pages = group
        .get_column_page_reader(at)
        .with_context(|| format!("the column {name} cannot be read"))?;
    Ok(get_column_reader(
        chunk.column_descr_ptr(),
        Box::new(Pages(pages)),
    ))
}

/// The next cells of a column.
fn next(reader: &mut ColumnReader, form: Form, count: usize) -> Result<Vec<Option<Cell>>> {
    let unsigned = matches!(form, Form::Unsigned);
    let whole = |signed: i64, unsigned_value: u64| match unsigned {
        true => Cell::Whole(unsigned_value.into()),
        false => Cell::Whole(signed.into()),
    };
    match reader {
        ColumnReader::Int32ColumnReader(reader) => batch(reader, count, |number| {
            whole(number.into(), u64::from(number as u32))
        }),
        ColumnReader::Int64ColumnReader(reader) => {
            batch(reader, count, |number| whole(number, number as u64))
        }
        ColumnReader::FloatColumnReader(reader) => {
            batch(reader, count, |number| Cell::Real(number.into()))
        }
        ColumnReader::DoubleColumnReader(reader) => batch(reader, count, Cell::Real),
        _ => Err(anyhow!("its pages have another type")),
    }
}

fn batch<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    count: usize,
    cell: impl Fn(T::T) -> Cell,
) -> Result<Vec<Option<Cell>>> {
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    let (rows, ..) = reader.read_records(count, Some(&mut levels), None, &mut values)?;
    ensure!(rows == count, "it ends before the others");
    let mut cells = values.into_iter().map(cell);
    if levels.is_empty() {
        return Ok(cells.map(Some).collect());
    }
    let present = levels.into_iter().map(|level| level > 0);
    Ok(present
        .map(|is| is.then(|| cells.next()).flatten())
        .collect())
}

#[cfg(test)]
mod tests;
