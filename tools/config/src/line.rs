// SPDX-License-Identifier: MIT OR Apache-2.0
//! The line of a field, which values do not keep.

use std::fmt;

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::Deserializer;
use serde_yaml_ng::Value;

/// Reads up to a field, and fails there, so that the error has its place.
struct Upto<'a>(&'a [Value]);

impl<'de> DeserializeSeed<'de> for Upto<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.0 {
            [] => deserializer.deserialize_any(Here),
            _ => deserializer.deserialize_map(self),
        }
    }
}

impl<'de> Visitor<'de> for Upto<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((first, rest)) = self.0.split_first() else {
            return Ok(());
        };
        while let Some(key) = map.next_key::<Value>()? {
            if key != *first {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            return map.next_value_seed(Upto(rest));
        }
        Ok(())
    }
}

/// Fails for any value.
struct Here;

impl<'de> Visitor<'de> for Here {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing")
    }

    fn visit_map<A: MapAccess<'de>>(self, _map: A) -> Result<(), A::Error> {
        Err(A::Error::custom("here"))
    }
}

/// The line of the value of a field, from 1 on.
pub(crate) fn of(text: &str, path: &[Value]) -> Option<usize> {
    let deserializer = serde_yaml_ng::Deserializer::from_str(text);
    let error = Upto(path).deserialize(deserializer).err()?;
    Some(error.location()?.line())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, path: &[&str]) -> Option<usize> {
        let path: Vec<_> = path.iter().map(|&name| Value::from(name)).collect();
        of(text, &path)
    }

    #[test]
    fn a_field_has_the_line_of_its_value() {
        let text = "a:\n  x: 1\n\nb:\n  # none\n  x: [1,\n    2]\n  y:\n    text\n  z:\n";
        assert_eq!(line(text, &["a", "x"]), Some(2));
        assert_eq!(line(text, &["b", "x"]), Some(6));
        assert_eq!(line(text, &["b", "y"]), Some(9));
        assert_eq!(line(text, &["b", "z"]), Some(10));
        assert_eq!(line(text, &["b", "none"]), None);
        assert_eq!(line("{a: {x: 1,\n y: {z: 2}}}", &["a", "y"]), Some(2));
    }
}
