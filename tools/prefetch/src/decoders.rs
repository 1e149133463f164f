// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads that decode, one for each processor, and the tables of the codecs. A child of `fork()` has
//! no thread of its parent, and makes its own.

use std::sync::OnceLock;

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

use crate::array::ArrayMeta;

/// A description with each kind of a codec. `zarrs` makes its tables for the first one that it reads.
const EACH: &str = r#"{
    "zarr_format": 3, "node_type": "array", "shape": [4, 4], "data_type": "uint16",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 4]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": 0, "codecs": [{"name": "sharding_indexed", "configuration": {
        "chunk_shape": [2, 2],
        "codecs": [
            {"name": "transpose", "configuration": {"order": [1, 0]}},
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "gzip", "configuration": {"level": 1}},
            {"name": "zstd", "configuration": {"level": 1, "checksum": false}}],
        "index_codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]}}]}"#;

/// The threads of a process, and those of the children of that.
struct Decoders {
    process: u32,
    pool: ThreadPool,
    /// Those of a process that was forked from this one.
    child: OnceLock<Box<Self>>,
}

static FIRST: OnceLock<Box<Decoders>> = OnceLock::new();

/// Makes the threads of this process, and the tables, if there are none. To be called before a `fork()`
/// can come beside the first batch: a child finds no step half done then.
///
/// # Errors
///
/// A thread cannot be made.
pub fn prepare() -> Result<(), ThreadPoolBuildError> {
    // A test has read it.
    let _is_read = ArrayMeta::parse_v3("", EACH.as_bytes());
    own().map(drop)
}

fn own() -> Result<&'static ThreadPool, ThreadPoolBuildError> {
    let process = std::process::id();
    let mut place = &FIRST;
    loop {
        match place.get() {
            Some(decoders) if decoders.process == process => return Ok(&decoders.pool),
            Some(decoders) => place = &decoders.child,
            None => {
                let pool = ThreadPoolBuilder::new()
                    .thread_name(|at| format!("zernel-decode-{at}"))
                    .build()?;
                let child = OnceLock::new();
                // Those of another thread, which was faster, do as well.
                let _was_first = place.set(Box::new(Decoders {
                    process,
                    pool,
                    child,
                }));
            }
        }
    }
}

/// Has a decoder run. Where no threads can be made it runs at once.
pub(crate) fn spawn(decoder: impl FnOnce() + Send + 'static) {
    match own() {
        Ok(pool) => pool.spawn(decoder),
        Err(_) => decoder(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_has_each_kind_of_a_codec() {
        let array = ArrayMeta::parse_v3("", EACH.as_bytes()).expect("it is read");
        assert!(array.sharding().is_some());
    }

    #[test]
    fn a_process_has_one_pool() {
        prepare().expect("threads");
        let first = own().expect("threads");
        assert!(std::ptr::eq(first, own().expect("threads")));
        let (send, name) = std::sync::mpsc::channel();
        spawn(move || {
            let name = std::thread::current().name().map(str::to_owned);
            send.send(name).expect("somebody waits");
        });
        let name = name.recv().expect("a thread").expect("its name");
        assert!(name.starts_with("zernel-decode-"), "{name}");
    }
}
