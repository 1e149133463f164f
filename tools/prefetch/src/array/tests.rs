// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptions and indexes, whole and broken.

use serde_json::{json, Value};

use super::*;

fn metadata() -> Value {
    json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": [20, 10],
        "data_type": "uint16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8, 4]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 7,
        "codecs": [{"name": "sharding_indexed", "configuration": {
            "chunk_shape": [4, 2],
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "index_codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "crc32c"},
            ],
            "index_location": "end",
        }}],
    })
}

fn parse(json: &Value) -> Result<ArrayMeta, Fault> {
    ArrayMeta::parse_v3("a/b", json.to_string().as_bytes())
}

/// An index with these numbers, and its checksum.
fn index(numbers: &[u64], size: u64) -> Read {
    let mut bytes: Vec<u8> = numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    let sum = crc32c(&bytes);
    bytes.extend(sum.to_le_bytes());
    Read {
        bytes: bytes.into(),
        version: Some("v".to_owned()),
        size,
    }
}

/// The checksum of Castagnoli, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 }
        })
    })
}

#[test]
fn shards_and_chunks_are_found() {
    let array = parse(&metadata()).expect("it is an array");
    assert_eq!((array.shape(), array.tile()), (&[20, 10][..], &[8, 4][..]));
    assert_eq!(array.fill_value(), 7_u16.to_ne_bytes());
    assert_eq!(array.key(&[2, 1]), "a/b/c/2/1");
    let sharding = array.sharding().expect("it has shards");
    assert_eq!(
        (sharding.chunk(), sharding.chunks()),
        (&[4, 2][..], &[2, 2][..])
    );
    assert_eq!(sharding.index_bytes(), 4 * 16 + 4);
    assert_eq!(sharding.index_range(), GetRange::Suffix(68));
    let read = index(&[0, 16, ABSENT, ABSENT, 16, 16, 32, 16], 116);
    let index = sharding.decode_index("k", read).expect("it is whole");
    assert_eq!(index.range(&[0, 0]), Some((0, 16)));
    assert_eq!(index.range(&[0, 1]), None);
    assert_eq!(index.range(&[1, 1]), Some((32, 16)));
    assert_eq!((index.version(), index.bytes()), (Some("v"), 64));
    let elements: Vec<u8> = (0..8_u16).flat_map(u16::to_le_bytes).collect();
    assert_eq!(array.decode_inner("k", &elements), Ok(elements.clone()));
}

#[test]
fn an_index_that_lies_is_a_fault() {
    let array = parse(&metadata()).expect("it is an array");
    let sharding = array.sharding().expect("it has shards");
    let good = [0, 16, ABSENT, ABSENT, 16, 16, 32, 16];
    let mut broken = index(&good, 116);
    broken.bytes = [&[1], &broken.bytes[1..]].concat().into();
    let mut short = index(&good, 116);
    short.bytes = short.bytes.slice(1..);
    let mut beyond = good;
    beyond[7] = 85;
    let mut around = good;
    around[6] = ABSENT - 1;
    let wholes = [broken, short, index(&beyond, 116), index(&around, 116)];
    for (at, read) in wholes.into_iter().enumerate() {
        let fault = sharding.decode_index("k", read).expect_err("it lies");
        assert_eq!(fault.kind(), Kind::Corrupt, "{at}: {fault}");
        assert!(fault.text().starts_with("k: "), "{fault}");
    }
}

#[test]
fn a_shard_of_another_size_than_its_bytes_is_a_fault() {
    let array = parse(&metadata()).expect("it is an array");
    let sharding = array.sharding().expect("it has shards");
    let numbers = [0, 16, ABSENT, ABSENT, 16, 16, ABSENT, ABSENT];
    let mut whole = index(&numbers, 100);
    whole.bytes = [&[0; 32], &whole.bytes[..]].concat().into();
    for (size, is_it) in [(100, true), (99, false), (101, false), (u64::MAX, false)] {
        whole.size = size;
        let found = sharding.decode_index_of("k", &whole);
        match is_it {
            true => assert_eq!(found.expect("it is whole").range(&[1, 0]), Some((16, 16))),
            false => assert_eq!(found.expect_err("it lies").kind(), Kind::Corrupt),
        }
    }
}

#[test]
fn arrays_that_are_none_are_told() {
    let change = |pointer: &str, value: Value| {
        let mut json = metadata();
        *json.pointer_mut(pointer).expect("a place of the metadata") = value;
        parse(&json).expect_err(pointer).kind()
    };
    assert_eq!(
        parse(&json!("no array")).expect_err("a text").kind(),
        Kind::Corrupt
    );
    assert_eq!(change("/data_type", json!("uint17")), Kind::Unsupported);
    assert_eq!(change("/node_type", json!("group")), Kind::Corrupt);
    let inner = "/codecs/0/configuration/chunk_shape";
    assert_eq!(change(inner, json!([3, 2])), Kind::Corrupt);
    assert_eq!(change(inner, json!([4])), Kind::Corrupt);
    let tile = "/chunk_grid/configuration/chunk_shape";
    assert_eq!(change(tile, json!([1 << 30, 1 << 30])), Kind::Unsupported);
    let codecs = "/codecs/0/configuration/index_codecs";
    let gzip = json!([{"name": "bytes", "configuration": {"endian": "little"}},
        {"name": "gzip", "configuration": {"level": 1}}]);
    assert_eq!(change(codecs, gzip), Kind::Corrupt);
}

#[test]
fn chunks_that_are_too_large_and_elements_without_a_size_are_told() {
    let change = |change: &dyn Fn(&mut Value)| {
        let mut json = metadata();
        change(&mut json);
        parse(&json).map(|_| ()).map_err(|fault| fault.kind())
    };
    let plain = |json: &mut Value| {
        json["codecs"] = json!([{"name": "bytes", "configuration": {"endian": "little"}}]);
    };
    let tile = |sides: [u64; 2]| {
        move |json: &mut Value| {
            plain(json);
            json["chunk_grid"]["configuration"]["chunk_shape"] = json!(sides);
        }
    };
    assert_eq!(change(&tile([1 << 30, 1])), Ok(()));
    assert_eq!(change(&tile([1 << 30, 2])), Err(Kind::TooLarge));
    assert_eq!(change(&tile([1 << 62, 1 << 62])), Err(Kind::TooLarge));
    let inner = |json: &mut Value| {
        for pointer in [
            "/chunk_grid/configuration/chunk_shape",
            "/codecs/0/configuration/chunk_shape",
        ] {
            *json.pointer_mut(pointer).expect("a place") = json!([1 << 30, 2]);
        }
    };
    assert_eq!(change(&inner), Err(Kind::TooLarge));
    for (name, fill, codec) in [
        ("string", json!(""), "vlen-utf8"),
        ("bytes", json!([]), "vlen-bytes"),
        ("r0", json!([]), "bytes"),
    ] {
        let typed = |json: &mut Value| {
            json["data_type"] = json!(name);
            json["fill_value"] = fill.clone();
            json["codecs"] = json!([{"name": codec}]);
        };
        assert_eq!(change(&typed), Err(Kind::Unsupported), "{name}");
    }
}

#[test]
fn shards_within_other_codecs_are_whole_objects() {
    let mut json = metadata();
    let codecs = json["codecs"].as_array_mut().expect("a list");
    codecs.push(json!({"name": "gzip", "configuration": {"level": 1}}));
    assert!(parse(&json).expect("it is an array").sharding().is_none());
    // Their chunks have no bound.
    let inner = "/codecs/0/configuration/codecs";
    let codecs = json.pointer_mut(inner).expect("a list").as_array_mut();
    let zstd = json!({"name": "zstd", "configuration": {"level": 1, "checksum": false}});
    codecs.expect("a list").push(zstd);
    assert_eq!(parse(&json).expect_err("none").kind(), Kind::Unsupported);
    json["codecs"].as_array_mut().expect("a list").pop();
    assert!(parse(&json).expect("it is an array").sharding().is_some());
}

#[test]
fn version_2_is_read() {
    let json = json!({
        "zarr_format": 2, "shape": [5], "chunks": [2], "dtype": ">i4", "order": "C",
        "fill_value": -1, "filters": null, "compressor": null, "dimension_separator": ".",
    });
    let array = ArrayMeta::parse_v2("", json.to_string().as_bytes()).expect("an array");
    assert_eq!((array.shape(), array.tile()), (&[5][..], &[2][..]));
    assert_eq!(array.key(&[2]), "2");
    assert_eq!(array.fill_value(), (-1_i32).to_ne_bytes());
    let elements = [1_i32, -2].map(i32::to_be_bytes).concat();
    let decoded = array.decode("2", &elements).expect("whole");
    assert_eq!(decoded, [1_i32, -2].map(i32::to_ne_bytes).concat());
    assert_eq!(
        array.decode("2", &elements[1..]).expect_err("short").kind(),
        Kind::Corrupt
    );
}
