// SPDX-License-Identifier: MIT OR Apache-2.0
//! Consolidated metadata: the group at the root of a store tells of all arrays in it, in one object.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::OnceCell;

use super::{Format, Shared};
use crate::array::ArrayMeta;
use crate::source::Ask;
use crate::sync::{lock, Mutex};
use crate::{Fault, Kind};

/// The description of a group that is larger is none.
const LARGEST: u64 = 16 << 20;

/// Descriptions of arrays, by their places in the store.
#[derive(Debug, Default)]
pub(super) struct Group {
    three: HashMap<Box<str>, Box<str>>,
    two: HashMap<Box<str>, Box<str>>,
}

fn corrupt(place: &str, error: impl std::fmt::Display) -> Fault {
    Fault::new(Kind::Corrupt, format!("{place}: {error}"))
}

fn object(place: &str, name: &str, value: Value) -> Result<Map<String, Value>, Fault> {
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(corrupt(place, format!("{name} is no object"))),
    }
}

impl Group {
    /// A group by its `zarr.json`. One that tells of no arrays, or is an array itself, has none.
    fn parse_v3(json: &[u8]) -> Result<Self, Fault> {
        let place = "zarr.json";
        let all = serde_json::from_slice(json).map_err(|error| corrupt(place, error))?;
        let mut all = object(place, "it", all)?;
        let mut told = match all.remove("consolidated_metadata") {
            None | Some(Value::Null) => return Ok(Self::default()),
            Some(told) => object(place, "its consolidated_metadata", told)?,
        };
        if told.get("kind").and_then(Value::as_str) != Some("inline") {
            // It says so of itself, unless it is to be understood.
            if told.get("must_understand") == Some(&Value::Bool(false)) {
                return Ok(Self::default());
            }
            let text = format!("{place}: consolidated metadata of another kind");
            return Err(Fault::new(Kind::Unsupported, text));
        }
        let metadata = told.remove("metadata").unwrap_or_default();
        let mut group = Self::default();
        for (path, node) in object(place, "its metadata", metadata)? {
            match node.get("node_type").and_then(Value::as_str) {
                Some("array") => {}
                Some("group") => continue,
                _ => return Err(corrupt(place, format!("{path} is no node"))),
            }
            group.three.insert(named(&path), node.to_string().into());
        }
        Ok(group)
    }

    /// A group by its `.zmetadata`.
    fn parse_v2(json: &[u8]) -> Result<Self, Fault> {
        let place = ".zmetadata";
        let all = serde_json::from_slice(json).map_err(|error| corrupt(place, error))?;
        let mut all = object(place, "it", all)?;
        let metadata = all.remove("metadata").unwrap_or_default();
        let mut group = Self::default();
        for (path, node) in object(place, "its metadata", metadata)? {
            let Some(path) = path.strip_suffix(".zarray") else {
                continue;
            };
            group.two.insert(named(path), node.to_string().into());
        }
        Ok(group)
    }

    /// An array of the group, and the bytes of its description. `None`: it tells of none.
    fn array(&self, path: &str) -> Option<Result<(ArrayMeta, u64), Fault>> {
        let name = path.trim_matches('/');
        let (json, parsed) = match (self.three.get(name), self.two.get(name)) {
            (Some(json), _) => (json, ArrayMeta::parse_v3(path, json.as_bytes())),
            (None, Some(json)) => (json, ArrayMeta::parse_v2(path, json.as_bytes())),
            (None, None) => return None,
        };
        Some(parsed.map(|array| (array, json.len() as u64)))
    }
}

fn named(path: &str) -> Box<str> {
    path.trim_matches('/').into()
}

/// The group of a store, once it is known.
#[derive(Debug, Default)]
pub(super) struct Root(Mutex<Arc<OnceCell<Group>>>);

impl Root {
    /// Has it be read anew by those who come.
    pub(super) fn renew(&self) {
        *lock(&self.0) = Arc::default();
    }
}

impl Shared {
    /// An array that the group of the store tells of. `None`: its own file does. One who calls this holds
    /// no place among those who wait for requests: the one who reads the group needs one.
    pub(super) async fn array_of_group(
        &self,
        path: &str,
        batch: u64,
    ) -> Result<Option<(ArrayMeta, u64)>, Fault> {
        let cell = Arc::clone(&lock(&self.root.0));
        // After a fault the next one tries again.
        let group = cell.get_or_try_init(|| self.read_group(batch)).await?;
        group.array(path).transpose()
    }

    async fn read_group(&self, batch: u64) -> Result<Group, Fault> {
        let read = |place| self.source.read(Ask::new(place, LARGEST, batch));
        let format = self.options.format;
        if format != Format::V2 {
            if let Some(read) = read("zarr.json").await? {
                return Group::parse_v3(&read.bytes);
            }
        }
        if format != Format::V3 {
            if let Some(read) = read(".zmetadata").await? {
                return Group::parse_v2(&read.bytes);
            }
        }
        Ok(Group::default())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(group: Result<Group, Fault>) -> Result<(usize, usize), Kind> {
        let group = group.map_err(|fault| fault.kind())?;
        Ok((group.three.len(), group.two.len()))
    }

    fn three(told: Value) -> Result<(usize, usize), Kind> {
        let json = json!({"zarr_format": 3, "node_type": "group", "consolidated_metadata": told});
        kind(Group::parse_v3(json.to_string().as_bytes()))
    }

    #[test]
    fn groups_of_version_3_tell_of_arrays_or_are_faults() {
        let metadata = json!({
            "a": {"node_type": "group", "zarr_format": 3},
            "a/b": {"node_type": "array", "zarr_format": 3},
            "/c/": {"node_type": "array", "zarr_format": 3},
        });
        let inline = |metadata: &Value| json!({"kind": "inline", "must_understand": false, "metadata": metadata});
        assert_eq!(three(inline(&metadata)), Ok((2, 0)));
        assert_eq!(three(Value::Null), Ok((0, 0)));
        assert_eq!(kind(Group::parse_v3(b"{}")), Ok((0, 0)));
        let other = |must: bool| json!({"kind": "other", "must_understand": must});
        assert_eq!(three(other(false)), Ok((0, 0)));
        assert_eq!(three(other(true)), Err(Kind::Unsupported));
        for metadata in [json!(null), json!([]), json!({"a": 3}), json!({"a": {}})] {
            assert_eq!(three(inline(&metadata)), Err(Kind::Corrupt), "{metadata}");
        }
        assert_eq!(three(json!("inline")), Err(Kind::Corrupt));
        for json in [&b"[]"[..], b"", b"{", b"{\"a\": \"\xff\"}"] {
            assert_eq!(kind(Group::parse_v3(json)), Err(Kind::Corrupt));
        }
        let deep = [vec![b'['; 1 << 20], vec![b']'; 1 << 20]].concat();
        assert_eq!(kind(Group::parse_v3(&deep)), Err(Kind::Corrupt));
    }

    #[test]
    fn groups_of_version_2_tell_of_arrays_or_are_faults() {
        let two = |json: &str| kind(Group::parse_v2(json.as_bytes()));
        let all = json!({"zarr_consolidated_format": 1, "metadata": {
            ".zgroup": {}, ".zarray": {}, "a/.zarray": {}, "a/.zattrs": {}, "b/.zgroup": {}}});
        assert_eq!(two(&all.to_string()), Ok((0, 2)));
        for json in ["{}", "3", "{\"metadata\": 3}", "{\"metadata\": {}"] {
            assert_eq!(two(json), Err(Kind::Corrupt), "{json}");
        }
    }

    #[test]
    fn an_array_is_as_bad_as_its_description() {
        let json = json!({"metadata": {"a/.zarray": {"zarr_format": 2}}}).to_string();
        let group = Group::parse_v2(json.as_bytes()).expect("a group");
        let fault = group
            .array("/a")
            .expect("it is there")
            .expect_err("no array");
        assert_eq!(fault.kind(), Kind::Corrupt);
        assert!(group.array("b").is_none());
    }
}
