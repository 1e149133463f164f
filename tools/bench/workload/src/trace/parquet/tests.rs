// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces that the crate's own writer has written, and such files with wrong contents.

use std::sync::Arc;
use std::time::Duration;

use parquet::basic::Encoding;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DoubleType, FloatType, Int32Type, Int64Type,
};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

use super::*;
use crate::trace::{Row, Trace};

/// The cells of a column.
enum Cells {
    I32(Vec<Option<i32>>),
    I64(Vec<Option<i64>>),
    F32(Vec<Option<f32>>),
    F64(Vec<Option<f64>>),
    Bool(Vec<Option<bool>>),
    Text(Vec<Option<ByteArray>>),
}
use Cells::{F32, F64, I32, I64};

fn put<T: DataType>(to: &mut SerializedColumnWriter, cells: &[Option<T::T>]) {
    let levels: Vec<i16> = cells.iter().map(|cell| cell.is_some().into()).collect();
    let values: Vec<T::T> = cells.iter().flatten().cloned().collect();
    let to = to.typed::<T>();
    to.write_batch(&values, Some(&levels), None).unwrap();
}

fn usual() -> WriterProperties {
    WriterProperties::builder().build()
}

/// A file of row groups with these columns.
fn written(fields: &str, groups: &[&[Cells]], properties: WriterProperties) -> Vec<u8> {
    let schema = parse_message_type(&format!("message trace {{ {fields} }}")).unwrap();
    let mut file =
        SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties)).unwrap();
    for columns in groups {
        let mut group = file.next_row_group().unwrap();
        for cells in *columns {
            let mut to = group.next_column().unwrap().unwrap();
            match cells {
                I32(cells) => put::<Int32Type>(&mut to, cells),
                I64(cells) => put::<Int64Type>(&mut to, cells),
                F32(cells) => put::<FloatType>(&mut to, cells),
                F64(cells) => put::<DoubleType>(&mut to, cells),
                Cells::Bool(cells) => put::<BoolType>(&mut to, cells),
                Cells::Text(cells) => put::<ByteArrayType>(&mut to, cells),
            }
            to.close().unwrap();
        }
        group.close().unwrap();
    }
    file.into_inner().unwrap()
}

fn opened(file: &[u8], change: impl FnOnce(&mut Trace)) -> Result<Arc<[Row]>> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("trace.parquet"), file).unwrap();
    let mut trace = Trace::new("trace.parquet");
    change(&mut trace);
    trace.open(dir.path())?;
    trace.rows()
}

/// The rows of a file with one row group, written as usual.
fn rows(fields: &str, columns: &[Cells]) -> Result<Arc<[Row]>> {
    opened(&written(fields, &[columns], usual()), |_| {})
}

fn error(fields: &str, columns: &[Cells]) -> String {
    format!("{:#}", rows(fields, columns).unwrap_err())
}

fn some<T: Copy>(values: &[T]) -> Vec<Option<T>> {
    values.iter().copied().map(Some).collect()
}

fn at(rows: &[Row]) -> Vec<Duration> {
    rows.iter().map(|row| row.at).collect()
}

const ALL: &str = "optional int64 size; required double time_s; \
                   optional int32 deadline_us (integer(32, false)); \
                   optional int64 key (integer(64, false));";

fn all() -> [Cells; 4] {
    [
        I64(vec![Some(12), None, Some(3)]),
        F64(some(&[0.5, 0.5, 2.25])),
        I32(vec![Some(2_000), None, Some(-1_294_967_296)]),
        I64(vec![Some(7), None, Some(-1)]),
    ]
}

#[test]
fn columns_are_found_by_name_and_may_be_missing() {
    let expected = [
        (500, traced([Some(7), Some(12), Some(2_000)])),
        (500, traced([None; 3])),
        (
            2_250,
            traced([Some(u64::MAX), Some(3), Some(3_000_000_000)]),
        ),
    ];
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(Default::default()),
    ];
    for codec in codecs {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let properties = WriterProperties::builder()
                .set_compression(codec)
                .set_writer_version(version)
                .build();
            let file = written(ALL, &[&all()], properties);
            let rows = opened(&file, |_| {}).unwrap();
            let rows: Vec<_> = rows.iter().map(|row| (row.at, row.traced)).collect();
            let expected = expected.map(|(ms, traced)| (Duration::from_millis(ms), traced));
            assert_eq!(rows, expected);
        }
    }
    let one = rows("required float time_s;", &[F32(some(&[1.5]))]).unwrap();
    assert_eq!(at(&one), [Duration::from_millis(1_500)]);
    let whole = rows("required int32 time_s;", &[I32(some(&[1, 4]))]).unwrap();
    assert_eq!(at(&whole), [1, 4].map(Duration::from_secs));
}

#[test]
fn moments_count_from_the_first_in_their_unit() {
    // A day of 2023, as a number of nanoseconds no longer exact in a double.
    let first = 1_700_158_623_979_960_000;
    for (kind, unit) in [
        ("timestamp(millis, true)", 1_000_000),
        ("timestamp(micros, false)", 1_000),
        ("timestamp(nanos, true)", 1),
        ("timestamp_millis", 1_000_000),
        ("timestamp_micros", 1_000),
    ] {
        let times = [0, 250_000_000, 86_400_000_000_000].map(|later| (first + later) / unit);
        let fields = format!("optional int64 time_s ({kind});");
        let rows = rows(&fields, &[I64(some(&times))]).unwrap();
        let expected = [0.0, 0.25, 86_400.0].map(Duration::from_secs_f64);
        assert_eq!(at(&rows), expected);
    }
}

#[test]
fn row_groups_and_batches_follow_each_other() {
    let count = 2 * BATCH as i64 + 5;
    let column = |from: i64, to: i64| {
        let time = (from..to).map(|n| Some(n as f64));
        [
            F64(time.collect()),
            I64((from..to).map(|n| (n % 3 > 0).then_some(n)).collect()),
        ]
    };
    let groups = [column(0, 10), column(10, count)];
    let groups: Vec<&[Cells]> = groups.iter().map(|group| &group[..]).collect();
    let file = written(
        "required double time_s; optional int64 key;",
        &groups,
        usual(),
    );
    let rows = opened(&file, |_| {}).unwrap();
    assert_eq!(rows.len() as i64, count);
    for (n, row) in (0..).zip(rows.iter()) {
        assert_eq!(row.at, Duration::from_secs(n));
        assert_eq!(row.traced.key, (n % 3 > 0).then_some(n));
    }
    let part = opened(&file, |trace| trace.key = Some(8_192)).unwrap();
    assert_eq!(at(&part), [Duration::from_secs(8_192)]);
    let none = opened(&file, |trace| trace.key = Some(9)).unwrap_err();
    assert!(format!("{none:#}").contains("has no request with the key 9"));
}

#[test]
fn each_bad_file_has_an_error_of_its_own() {
    let time = || F64(some(&[1.0]));
    let text = || Cells::Text(vec![Some("soon".into())]);
    let number = |number| I64(some(&[number]));
    let cases: Vec<(&str, Vec<Cells>, &str)> = vec![
        (
            "required int64 key;",
            vec![number(1)],
            "has no column time_s",
        ),
        (
            "required double time_s; required int64 colour;",
            vec![time(), number(1)],
            "has a column 'colour'",
        ),
        (
            "required double time_s; required double time_s;",
            vec![time(), time()],
            "has the column time_s twice",
        ),
        (
            "required double time_s;",
            vec![F64(vec![])],
            "has no requests",
        ),
        (
            "optional double time_s;",
            vec![F64(vec![Some(1.0), None])],
            "row 2: time_s is empty",
        ),
        (
            "required binary time_s (utf8);",
            vec![text()],
            "the column time_s is BYTE_ARRAY (UTF8); it can be seconds as DOUBLE",
        ),
        (
            "required double time_s; required double size;",
            vec![time(), time()],
            "the column size is DOUBLE; it can be whole numbers of 32 or 64 bits",
        ),
        (
            "required double time_s; required int64 deadline_us (timestamp_millis);",
            vec![time(), number(1)],
            "the column deadline_us is INT64 (TIMESTAMP_MILLIS); it can be",
        ),
        (
            "required int64 time_s (decimal(9, 3));",
            vec![number(1)],
            "the column time_s is INT64 (D",
        ),
        (
            "required int32 time_s (time_millis);",
            vec![I32(some(&[1]))],
            "the column time_s is INT32 (T",
        ),
        (
            "required double time_s; required boolean key;",
            vec![time(), Cells::Bool(some(&[true]))],
            "the column key is BOOLEAN;",
        ),
        (
            "required group time_s { required double seconds; }",
            vec![time()],
            "the column time_s is a group;",
        ),
        (
            "required double time_s; required int64 key;",
            vec![time(), number(-1)],
            "row 1: a key of -1 is out of range",
        ),
        (
            "required double time_s; required int64 size;",
            vec![time(), number(0)],
            "row 1: a size of 0 is out of range",
        ),
        (
            "required double time_s; required int64 deadline_us;",
            vec![time(), number(3_600_000_001)],
            "row 1: a deadline_us of 3600000001 is out of range",
        ),
        (
            "required double time_s;",
            vec![F64(some(&[f64::NAN]))],
            "row 1: a time_s of NaN is out of range",
        ),
        (
            "required double time_s;",
            vec![F64(some(&[2.0, 1.5]))],
            "row 2: time_s goes back from 2 to 1.5",
        ),
        (
            "required int64 time_s (timestamp_millis);",
            vec![I64(some(&[i64::MAX, i64::MIN]))],
            "row 2: time_s goes back from 0 to",
        ),
    ];
    for (fields, columns, said) in cases {
        let error = error(fields, &columns);
        assert!(error.contains(said), "{error}, not {said}");
        assert!(error.contains("trace.parquet"), "{error}");
    }
}

#[test]
fn other_compressions_are_refused_by_name() {
    // Snappy's number in the place of each column, and that of Brotli instead.
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .build();
    let fields = "required double time_s;";
    let mut file = written(fields, &[&[F64(some(&[1.0]))]], properties);
    let name = b"time_s\x15";
    let at = file.windows(name.len()).rposition(|part| part == name);
    let codec = &mut file[at.unwrap() + name.len()];
    assert_eq!(*codec, 2, "the number 1, as thrift has it");
    *codec = 8;
    let error = format!("{:#}", opened(&file, |_| {}).unwrap_err());
    assert!(
        error.contains("the column time_s is compressed by BROTLI"),
        "{error}"
    );
}

#[test]
fn a_part_of_a_file_is_refused() {
    let file = written(ALL, &[&all()], usual());
    assert!(opened(&file, |_| {}).is_ok());
    for len in MAGIC[0].len()..file.len() {
        let error = format!("{:#}", opened(&file[..len], |_| {}).unwrap_err());
        assert!(
            error.contains("trace.parquet: is Parquet that cannot be read"),
            "{error}"
        );
    }
    let mut encrypted = file.clone();
    let end = file.len() - 4;
    encrypted[..4].copy_from_slice(MAGIC[1]);
    encrypted[end..].copy_from_slice(MAGIC[1]);
    let error = format!("{:#}", opened(&encrypted, |_| {}).unwrap_err());
    assert!(error.contains("encrypt"), "{error}");
}

#[test]
fn no_wrong_byte_is_more_than_an_error() {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .build();
    let file = written(ALL, &[&all()], properties);
    for at in MAGIC[0].len()..file.len() {
        for bits in [0x01, 0xff] {
            let mut wrong = file.clone();
            wrong[at] ^= bits;
            if let Err(error) = opened(&wrong, |_| {}) {
                assert!(format!("{error:#}").contains("trace.parquet"));
            }
        }
    }
}

/// A dictionary of so many values, in four bytes.
struct Told(u32);

impl Iterator for Told {
    type Item = Decoded<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Told {
    fn get_next_page(&mut self) -> Decoded<Option<Page>> {
        Ok(Some(Page::DictionaryPage {
            buf: vec![0; 4].into(),
            num_values: self.0,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        }))
    }

    fn peek_next_page(&mut self) -> Decoded<Option<PageMetadata>> {
        Ok(None)
    }

    fn skip_next_page(&mut self) -> Decoded<()> {
        Ok(())
    }
}

#[test]
fn a_dictionary_is_not_larger_than_its_page() {
    let page = |told| Pages(Box::new(Told(told))).get_next_page();
    assert!(page(1).is_ok());
    let error = page(i32::MAX as u32).unwrap_err();
    assert!(error.to_string().contains("2147483647 values in 4 bytes"));
}
