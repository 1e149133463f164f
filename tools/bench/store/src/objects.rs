// SPDX-License-Identifier: MIT OR Apache-2.0
//! Objects in memory, and the answers to requests for them: whole ones and one range of bytes, with
//! the version that an object has to have.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use bytes::Bytes;
use http::header::{HeaderName, ACCEPT_RANGES, CONTENT_RANGE, ETAG, IF_MATCH, RANGE};
use http::{HeaderMap, Method, Response, StatusCode};

/// Objects by their names, which begin with no `/`.
#[derive(Debug, Clone, Default)]
pub struct Objects(HashMap<String, Object>);

#[derive(Debug, Clone)]
struct Object {
    bytes: Bytes,
    version: String,
}

impl Objects {
    /// The files of a folder, and of folders in it.
    ///
    /// # Errors
    ///
    /// A file or folder cannot be read.
    pub fn read(folder: &Path) -> std::io::Result<Self> {
        let mut objects = Self::default();
        let mut folders = vec![(folder.to_owned(), String::new())];
        while let Some((folder, prefix)) = folders.pop() {
            for entry in std::fs::read_dir(folder)? {
                let entry = entry?;
                let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
                if entry.file_type()?.is_dir() {
                    folders.push((entry.path(), format!("{name}/")));
                } else {
                    objects.put(&name, std::fs::read(entry.path())?.into());
                }
            }
        }
        Ok(objects)
    }

    /// Adds an object, or another version of one.
    pub fn put(&mut self, name: &str, bytes: Bytes) {
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let version = format!("\"{:016x}\"", hasher.finish());
        self.0.insert(name.to_owned(), Object { bytes, version });
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The answer to a request.
    pub fn answer(&self, method: &Method, path: &str, headers: &HeaderMap) -> Response<Bytes> {
        if method != Method::GET && method != Method::HEAD {
            return plain(StatusCode::METHOD_NOT_ALLOWED);
        }
        let Some(object) = self.0.get(path.trim_start_matches('/')) else {
            return plain(StatusCode::NOT_FOUND);
        };
        let header = |name: HeaderName| headers.get(name).map(|value| value.to_str());
        match header(IF_MATCH) {
            Some(Ok(asked))
                if asked == "*" || asked.split(',').any(|one| one.trim() == object.version) => {}
            Some(_) => return plain(StatusCode::PRECONDITION_FAILED),
            None => {}
        }
        let size = object.bytes.len();
        let mut response = match header(RANGE) {
            // One that is not understood is none.
            None | Some(Err(_)) => Response::new(object.bytes.clone()),
            Some(Ok(text)) => match range(text, size) {
                Asked::All => Response::new(object.bytes.clone()),
                Asked::None => {
                    let mut response = plain(StatusCode::RANGE_NOT_SATISFIABLE);
                    put(&mut response, CONTENT_RANGE, &format!("bytes */{size}"));
                    return response;
                }
                Asked::Part(first, end) => {
                    let mut response = Response::new(object.bytes.slice(first..end));
                    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
                    let range = format!("bytes {first}-{}/{size}", end - 1);
                    put(&mut response, CONTENT_RANGE, &range);
                    response
                }
            },
        };
        put(&mut response, ETAG, &object.version);
        put(&mut response, ACCEPT_RANGES, "bytes");
        put(
            &mut response,
            http::header::LAST_MODIFIED,
            "Thu, 01 Jan 1970 00:00:00 GMT",
        );
        response
    }
}

/// An answer without a body.
pub fn plain(status: StatusCode) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = status;
    response
}

fn put(response: &mut Response<Bytes>, name: HeaderName, value: &str) {
    // All that is put here is text of ASCII.
    if let Ok(value) = value.parse() {
        response.headers_mut().insert(name, value);
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Asked {
    All,
    /// From a byte on, to one that is not in it any more.
    Part(usize, usize),
    /// None of the object.
    None,
}

/// The bytes that a header asks for, of an object of `size` bytes.
fn range(text: &str, size: usize) -> Asked {
    let Some((first, last)) = text
        .strip_prefix("bytes=")
        .filter(|ranges| !ranges.contains(','))
        .and_then(|range| range.trim().split_once('-'))
    else {
        return Asked::All;
    };
    match (first.parse::<usize>(), last.parse::<usize>()) {
        (Ok(first), Ok(last)) if first <= last && first < size => {
            Asked::Part(first, size.min(last.saturating_add(1)))
        }
        (Ok(first), Ok(last)) if first > last => Asked::All,
        (Ok(first), Err(_)) if last.is_empty() && first < size => Asked::Part(first, size),
        (Err(_), Ok(last)) if first.is_empty() && last > 0 && size > 0 => {
            Asked::Part(size.saturating_sub(last), size)
        }
        (Ok(_), Ok(_)) => Asked::None,
        (Ok(_), Err(_)) if last.is_empty() => Asked::None,
        (Err(_), Ok(_)) if first.is_empty() => Asked::None,
        _ => Asked::All,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_http() {
        for (text, expected) in [
            ("bytes=0-0", Asked::Part(0, 1)),
            ("bytes=2-4", Asked::Part(2, 5)),
            ("bytes=2-99", Asked::Part(2, 10)),
            ("bytes=2-18446744073709551615", Asked::Part(2, 10)),
            ("bytes=9-", Asked::Part(9, 10)),
            ("bytes=-3", Asked::Part(7, 10)),
            ("bytes=-99", Asked::Part(0, 10)),
            ("bytes=10-", Asked::None),
            ("bytes=10-12", Asked::None),
            ("bytes=-0", Asked::None),
            ("bytes=4-2", Asked::All),
            ("bytes=0-1,3-4", Asked::All),
            ("bytes=a-b", Asked::All),
            ("lines=0-1", Asked::All),
            ("bytes=-", Asked::All),
        ] {
            assert_eq!(range(text, 10), expected, "{text}");
        }
        assert_eq!(range("bytes=-1", 0), Asked::None);
        assert_eq!(range("bytes=0-", 0), Asked::None);
    }

    fn ask(
        objects: &Objects,
        method: Method,
        path: &str,
        headers: &[(HeaderName, &str)],
    ) -> Response<Bytes> {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.clone(), value.parse().expect("ASCII")));
        objects.answer(&method, path, &headers.collect())
    }

    #[test]
    fn answers_have_status_version_and_bytes() {
        let mut objects = Objects::default();
        objects.put("a/b", Bytes::from_static(b"0123456789"));
        let whole = ask(&objects, Method::GET, "/a/b", &[]);
        assert_eq!(
            (whole.status(), &whole.body()[..]),
            (StatusCode::OK, &b"0123456789"[..])
        );
        let version = whole.headers()[ETAG].to_str().expect("ASCII").to_owned();
        let part = ask(
            &objects,
            Method::GET,
            "/a/b",
            &[(RANGE, "bytes=-2"), (IF_MATCH, &version)],
        );
        assert_eq!(
            (part.status(), &part.body()[..]),
            (StatusCode::PARTIAL_CONTENT, &b"89"[..])
        );
        assert_eq!(part.headers()[CONTENT_RANGE], "bytes 8-9/10");
        assert_eq!(part.headers()[ETAG], version.as_str());
        let none = ask(&objects, Method::GET, "/a/b", &[(RANGE, "bytes=10-")]);
        assert_eq!(none.status(), StatusCode::RANGE_NOT_SATISFIABLE);
        assert_eq!(none.headers()[CONTENT_RANGE], "bytes */10");
        let head = ask(&objects, Method::HEAD, "/a/b", &[]);
        assert_eq!(head.status(), StatusCode::OK);
        assert_eq!(
            ask(&objects, Method::GET, "/a", &[]).status(),
            StatusCode::NOT_FOUND
        );
        let put = ask(&objects, Method::PUT, "/a/b", &[]);
        assert_eq!(put.status(), StatusCode::METHOD_NOT_ALLOWED);

        objects.put("a/b", Bytes::from_static(b"abcdefghij"));
        let other = ask(&objects, Method::GET, "/a/b", &[(IF_MATCH, &version)]);
        assert_eq!(other.status(), StatusCode::PRECONDITION_FAILED);
        let listed = format!(
            "\"x\", {}",
            ask(&objects, Method::GET, "/a/b", &[]).headers()[ETAG]
                .to_str()
                .expect("ASCII")
        );
        for any in ["*", listed.as_str()] {
            assert_eq!(
                ask(&objects, Method::GET, "/a/b", &[(IF_MATCH, any)]).status(),
                StatusCode::OK
            );
        }
    }
}
