// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptions of version 2, told as those of version 3. Fill values that others write and `zarrs` does
//! not read, booleans and complex numbers, are read here.

use serde_json::{json, Value};
use zarrs::array::ArrayMetadata;
use zarrs::config::global_config;
use zarrs::metadata::v2::ArrayMetadataV2;
use zarrs::metadata_ext::v2_to_v3::array_metadata_v2_to_v3;

use super::{corrupt, lacking};
use crate::Fault;

/// The description of an array by the contents of its `.zarray`.
pub(super) fn described(path: &str, json: &[u8]) -> Result<ArrayMetadata, Fault> {
    let error = |error: &dyn std::fmt::Display| corrupt(path, error);
    let mut all: Value = serde_json::from_slice(json).map_err(|found| error(&found))?;
    let fill = all.get_mut("fill_value").map_or(Value::Null, Value::take);
    let (plain, parts) = match fill {
        Value::Bool(is_set) => (json!(u8::from(is_set)), None),
        Value::Array(parts) => (Value::Null, Some(parts)),
        other => (other, None),
    };
    if let Some(place) = all.get_mut("fill_value") {
        *place = plain.clone();
    }
    let two: ArrayMetadataV2 = serde_json::from_value(all).map_err(|found| error(&found))?;
    let config = global_config();
    let three = array_metadata_v2_to_v3(
        &two,
        config.codec_aliases_v2(),
        config.codec_aliases_v3(),
        config.data_type_aliases_v2(),
        config.data_type_aliases_v3(),
    );
    let mut three = three.map_err(|found| lacking(path, &found.to_string()))?;
    if three.data_type.name().starts_with("complex") {
        let parts = parts.unwrap_or_else(|| match plain {
            Value::Null => vec![json!(0.0), json!(0.0)],
            real => vec![real, json!(0.0)],
        });
        let fill = serde_json::from_value(Value::Array(parts)).map_err(|found| error(&found))?;
        three.fill_value = fill;
    } else if parts.is_some() {
        return Err(corrupt(path, "its fill value is a list"));
    }
    Ok(ArrayMetadata::V3(three))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::ArrayMeta;
    use crate::Kind;

    fn array(dtype: &str, fill: Value) -> Result<ArrayMeta, Fault> {
        let json = json!({"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": dtype,
            "compressor": null, "filters": null, "order": "C", "fill_value": fill});
        ArrayMeta::parse_v2("a", json.to_string().as_bytes())
    }

    fn fill(dtype: &str, fill: Value) -> Vec<u8> {
        array(dtype, fill).expect("an array").fill_value().to_vec()
    }

    fn complex(real: f32, imaginary: f32) -> Vec<u8> {
        [real.to_ne_bytes(), imaginary.to_ne_bytes()].concat()
    }

    #[test]
    fn fill_values_are_read() {
        assert_eq!(fill("|b1", json!(true)), [1]);
        assert_eq!(fill("|b1", json!(false)), [0]);
        assert_eq!(fill("|b1", json!(1)), [1]);
        assert_eq!(fill("|b1", Value::Null), [0]);
        assert_eq!(fill("<i2", json!(-2)), (-2_i16).to_ne_bytes());
        assert_eq!(fill(">i2", Value::Null), [0, 0]);
        assert_eq!(
            fill("<f4", json!("-Infinity")),
            f32::NEG_INFINITY.to_ne_bytes()
        );
        assert_eq!(fill("<c8", json!([1.5, -2.0])), complex(1.5, -2.0));
        assert_eq!(
            fill(">c8", json!([0.0, "Infinity"])),
            complex(0.0, f32::INFINITY)
        );
        assert_eq!(fill("<c8", json!(2.5)), complex(2.5, 0.0));
        assert_eq!(fill("<c8", Value::Null), complex(0.0, 0.0));
    }

    #[test]
    fn fill_values_of_no_element_are_told() {
        let kind = |dtype, fill| array(dtype, fill).expect_err("no array").kind();
        assert_eq!(kind("<i2", json!([1, 2])), Kind::Corrupt);
        assert_eq!(kind("<i2", json!({})), Kind::Corrupt);
        assert_eq!(kind("<i2", json!("a")), Kind::Unsupported);
        assert_eq!(kind("<c8", json!([1.0])), Kind::Unsupported);
        assert_eq!(kind("<c8", json!("a")), Kind::Unsupported);
        let fault = ArrayMeta::parse_v2("a", b"[]").expect_err("no description");
        assert_eq!(fault.kind(), Kind::Corrupt);
        let fault = ArrayMeta::parse_v2("a", b"{").expect_err("no description");
        assert_eq!(fault.kind(), Kind::Corrupt);
    }
}
