// SPDX-License-Identifier: MIT OR Apache-2.0
//! Consolidated metadata: the group at the root of a store tells of all arrays in it, in one object.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::fetch::given_up;
use super::{Format, Shared};
use crate::array::ArrayMeta;
use crate::source::Ask;
use crate::sync::{lock, Mutex};
use crate::{Fault, Kind};

/// The description of a group that is larger is none.
const LARGEST: u64 = 16 << 20;

type Descriptions = HashMap<Box<str>, Box<str>>;

/// Descriptions of arrays, by their places in the store: their text, of which nothing else is in memory.
#[derive(Debug, Default)]
pub(super) struct Group {
    three: Descriptions,
    two: Descriptions,
}

fn corrupt(place: &str, error: impl std::fmt::Display) -> Fault {
    Fault::new(Kind::Corrupt, format!("{place}: {error}"))
}

/// An object by its text. Its values stay text.
fn object<'a, T: Deserialize<'a>>(place: &str, name: &str, json: &'a str) -> Result<T, Fault> {
    if !json.trim_ascii_start().starts_with('{') {
        return Err(corrupt(place, format!("{name} is no object")));
    }
    serde_json::from_str(json).map_err(|error| corrupt(place, error))
}

fn text<'a>(place: &str, bytes: &'a [u8]) -> Result<&'a str, Fault> {
    std::str::from_utf8(bytes).map_err(|error| corrupt(place, error))
}

fn is_text(json: Option<&RawValue>, text: &str) -> bool {
    json.is_some_and(|json| serde_json::from_str::<String>(json.get()).is_ok_and(|it| it == text))
}

#[derive(serde::Deserialize)]
struct Root3<'a> {
    #[serde(borrow)]
    consolidated_metadata: Option<&'a RawValue>,
}

#[derive(serde::Deserialize)]
struct Told<'a> {
    #[serde(borrow)]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    must_understand: Option<&'a RawValue>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

#[derive(serde::Deserialize)]
struct Node<'a> {
    #[serde(borrow)]
    node_type: Option<Cow<'a, str>>,
}

/// The form of the names of arrays in a group.
trait Form {
    /// The place of an array, by a name and the text behind it; `None`: it is of something else.
    fn array(name: &str, json: &str) -> Result<Option<Box<str>>, String>;
}

struct Three;

impl Form for Three {
    fn array(name: &str, json: &str) -> Result<Option<Box<str>>, String> {
        let node = object::<Node<'_>>(name, "it", json).map_err(|fault| fault.text().to_owned())?;
        match node.node_type.as_deref() {
            Some("array") => Ok(Some(named(name))),
            Some("group") => Ok(None),
            _ => Err(format!("{name} is no node")),
        }
    }
}

struct Two;

impl Form for Two {
    fn array(name: &str, _: &str) -> Result<Option<Box<str>>, String> {
        // "a.zarray" is a file of its own.
        let path = match name.trim_start_matches('/') {
            ".zarray" => Some(""),
            name => name.strip_suffix("/.zarray"),
        };
        Ok(path.map(named))
    }
}

/// The arrays of a group, in their form. Nodes that are none are left while they are read.
struct Arrays<F>(Descriptions, std::marker::PhantomData<F>);

impl<'a, F: Form> Deserialize<'a> for Arrays<F> {
    fn deserialize<D: Deserializer<'a>>(all: D) -> Result<Self, D::Error> {
        all.deserialize_map(Self(Descriptions::new(), std::marker::PhantomData))
    }
}

impl<'a, F: Form> Visitor<'a> for Arrays<F> {
    type Value = Self;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("descriptions")
    }

    fn visit_map<A: MapAccess<'a>>(mut self, mut all: A) -> Result<Self, A::Error> {
        while let Some((name, json)) = all.next_entry::<Cow<'a, str>, &'a RawValue>()? {
            if let Some(place) = F::array(&name, json.get()).map_err(A::Error::custom)? {
                self.0.insert(place, json.get().into());
            }
        }
        Ok(self)
    }
}

/// The arrays that a place of a group tells of, in one of both forms.
fn arrays<F: Form>(place: &str, metadata: Option<&RawValue>) -> Result<Descriptions, Fault> {
    let json = metadata.map_or("null", RawValue::get);
    let all = object::<Arrays<F>>(place, "its metadata", json)?;
    Ok(all.0)
}

impl Group {
    /// A group by its `zarr.json`. One that tells of no arrays, or is an array itself, has none.
    fn parse_v3(json: &[u8]) -> Result<Self, Fault> {
        let place = "zarr.json";
        let all: Root3<'_> = object(place, "it", text(place, json)?)?;
        let Some(told) = all.consolidated_metadata else {
            return Ok(Self::default());
        };
        let told: Told<'_> = object(place, "its consolidated_metadata", told.get())?;
        if !is_text(told.kind, "inline") {
            // It says so of itself, unless it is to be understood.
            if told.must_understand.map(RawValue::get) == Some("false") {
                return Ok(Self::default());
            }
            let text = format!("{place}: consolidated metadata of another kind");
            return Err(Fault::new(Kind::Unsupported, text));
        }
        Ok(Self {
            three: arrays::<Three>(place, told.metadata)?,
            two: Descriptions::new(),
        })
    }

    /// A group by its `.zmetadata`.
    fn parse_v2(json: &[u8]) -> Result<Self, Fault> {
        #[derive(serde::Deserialize)]
        struct Root2<'a> {
            #[serde(borrow)]
            metadata: Option<&'a RawValue>,
        }
        let place = ".zmetadata";
        let all: Root2<'_> = object(place, "it", text(place, json)?)?;
        Ok(Self {
            three: Descriptions::new(),
            two: arrays::<Two>(place, all.metadata)?,
        })
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

/// A group, or the reason for which there is none, with its end.
#[derive(Debug)]
struct Known {
    group: Result<Group, Fault>,
    stale_at: Option<Instant>,
}

/// The group of a store, once it is known.
#[derive(Debug, Default)]
pub(super) struct Root(Mutex<Arc<OnceCell<Known>>>);

impl Root {
    /// Has it be read anew by those who come.
    pub(super) fn renew(&self) {
        *lock(&self.0) = Arc::default();
    }

    /// Those who come at once have the same.
    fn cell(&self) -> Arc<OnceCell<Known>> {
        let mut cell = lock(&self.0);
        let stale_at = cell.get().and_then(|known| known.stale_at);
        if stale_at.is_some_and(|at| Instant::now() >= at) {
            *cell = Arc::default();
        }
        Arc::clone(&cell)
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
        let cell = self.root.cell();
        let known = cell.get_or_try_init(|| self.known_group(batch)).await?;
        match &known.group {
            Ok(group) => group.array(path).transpose(),
            Err(fault) => Err(fault.clone()),
        }
    }

    /// The group; after a fault that may be over at once the next one tries again.
    async fn known_group(&self, batch: u64) -> Result<Known, Fault> {
        let group = self.read_group(batch).await;
        let stale_at = match &group {
            Ok(_) => None,
            Err(fault) if fault.kind().is_transient() => return Err(fault.clone()),
            Err(_) => Instant::now().checked_add(self.options.keep_faults),
        };
        Ok(Known { group, stale_at })
    }

    async fn read_group(&self, batch: u64) -> Result<Group, Fault> {
        let read = |place| self.source.read(Ask::new(place, LARGEST, batch));
        let format = self.options.format;
        if format != Format::V2 {
            if let Some(read) = read("zarr.json").await? {
                return parsed(read.bytes, Group::parse_v3).await;
            }
        }
        if format != Format::V3 {
            if let Some(read) = read(".zmetadata").await? {
                return parsed(read.bytes, Group::parse_v2).await;
            }
        }
        Ok(Group::default())
    }
}

/// A group, parsed where others do not wait for it.
async fn parsed(bytes: Bytes, parse: fn(&[u8]) -> Result<Group, Fault>) -> Result<Group, Fault> {
    let group = spawn_blocking(move || parse(&bytes)).await;
    group.unwrap_or_else(|_| Err(given_up()))
}

#[cfg(test)]
mod tests {
    use serde_json::{json, Value};

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
        assert_eq!(three(json!([])), Err(Kind::Corrupt));
        // Names and kinds in other letters are the same.
        let json = br#" {"consolidated_metadata": {"kind": "\u0069nline", "metadata":
            {"\u0061": {"node_type": "arra\u0079"}}}} "#;
        let group = Group::parse_v3(json).expect("a group");
        assert!(group.three.contains_key("a"));
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
            ".zgroup": {}, ".zarray": {}, "a/.zarray": {}, "a/.zattrs": {}, "b/.zgroup": {},
            "foo.zarray": {}, "a/foo.zarray": {}}});
        assert_eq!(two(&all.to_string()), Ok((0, 2)));
        let group = Group::parse_v2(all.to_string().as_bytes()).expect("a group");
        assert!(group.two.contains_key("") && group.two.contains_key("a"));
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
