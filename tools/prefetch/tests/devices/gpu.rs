// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waves on a GPU: sizes, statuses, faults, and libraries that are not there.

use std::path::Path;
use std::sync::Arc;

use object_store::path::Path as Place;
use object_store::ObjectStoreExt as _;
use zernel_prefetch::gpu::{Gpu, LIBRARIES};
use zernel_prefetch::loader::{Loader, Settings};
use zernel_prefetch::prefetcher::Options;
use zernel_prefetch::wave::{Backend, Counts, Decoding, Hint};
use zernel_prefetch::{Fault, Kind};

use crate::fake::{compiled, driver, library, Knobs};
use crate::lab::{in_simulated_time, prefetcher, sample, Store};

const ZSTD: &str = r#"{"name": "zstd", "configuration": {"level": 1, "checksum": false}}"#;
const GZIP: &str = r#"{"name": "gzip", "configuration": {"level": 1}}"#;
const BLOSC: &str = r#"{"name": "blosc", "configuration": {"cname": "NAME", "clevel": 5,
    "shuffle": "shuffle", "typesize": 4, "blocksize": 1024}}"#;

/// Bytes of a chunk: 1,024 numbers.
const CHUNK: usize = 4_096;

fn gpu(most: u64) -> Arc<Gpu> {
    let (driver, device) = driver();
    Arc::new(Gpu::open(&driver, device, &library(), most).expect("all functions"))
}

fn counts(backend: u64, returned: u64) -> Counts {
    Counts {
        backend,
        returned,
        cpu: 0,
    }
}

/// An array of 8 chunks in a shard. `broken`: the first has other bytes at its end.
async fn store(codec: &str, broken: bool) -> Arc<Store> {
    let store = Arc::new(Store::default());
    let shape = [8 * 1_024];
    store
        .write_packed("a", &shape, &shape, &[1_024], Some(codec))
        .await;
    if broken {
        // An index of 16 bytes for each chunk and a checksum are at the end of the shard.
        let place = Place::from("a/c/0");
        let whole = store.inner.get(&place).await.expect("it is there");
        let mut bytes = whole.bytes().await.expect("memory").to_vec();
        let index = bytes.len() - (8 * 16 + 4);
        let number = |at: usize| {
            let number = bytes[index + at..][..8].try_into().expect("eight");
            u64::from_le_bytes(number) as usize
        };
        let (start, size) = (number(0), number(8));
        // The first block is of a kind that neither format has.
        assert!(size > 20);
        bytes[start + 7..start + 11].fill(0xff);
        store.inner.put(&place, bytes.into()).await.expect("memory");
    }
    store
}

/// The numbers of the array, and the counts.
fn read(codec: &str, broken: bool, gpu: &Arc<Gpu>) -> (Result<Vec<u8>, Fault>, Counts) {
    in_simulated_time(async {
        let store = store(codec, broken).await;
        let prefetcher = prefetcher(&store, 64, Options::default());
        let backend: Arc<dyn Backend> = Arc::<Gpu>::clone(gpu);
        let decoding = Decoding::by(backend);
        prefetcher.decode_by(decoding.clone()).expect("the first");
        let batches = vec![vec![sample("a", &[0], &[8 * 1_024])]];
        let loader = Loader::new(&prefetcher, Settings::default(), batches.into_iter());
        let loaded = loader.expect("a stream").next().await.expect("a batch");
        (
            loaded.map(|mut loaded| loaded.data.remove(0)),
            decoding.counts(),
        )
    })
}

fn written() -> Vec<u8> {
    (1..=8 * 1_024_u32).flat_map(u32::to_ne_bytes).collect()
}

fn check(codec: &str, gpu: &Arc<Gpu>, expected: Counts, why: &str) {
    let (found, counts) = read(codec, false, gpu);
    assert!(found.expect("no fault") == written(), "{why}");
    assert_eq!(counts, expected, "{why}");
}

#[test]
fn chunks_of_each_packing_are_as_written() {
    let knobs = Knobs::turn();
    knobs.set("NVCOMP", "6000");
    let six = gpu(64 << 20);
    knobs.clear();
    let gpu = gpu(64 << 20);
    for codec in [
        ZSTD,
        GZIP,
        &BLOSC.replace("NAME", "lz4"),
        &BLOSC.replace("NAME", "zstd"),
    ] {
        check(codec, &gpu, counts(8, 0), codec);
        check(codec, &six, counts(8, 0), codec);
    }
    knobs.set("FAILS", "nvcompBatchedGzipDecompressGetTempSize");
    check(GZIP, &six, counts(0, 8), "its own functions");
    check(GZIP, &gpu, counts(8, 0), "its own functions");
    assert!(gpu.room() > 8 * CHUNK && gpu.room() < 1 << 20);
}

#[test]
fn a_wave_has_no_more_memory_than_its_bound() {
    let knobs = Knobs::turn();
    // Two chunks at once, one, and none.
    for (most, expected) in [(5 * CHUNK, 8), (3 * CHUNK, 8), (CHUNK, 0)] {
        let gpu = gpu(most as u64);
        check(ZSTD, &gpu, counts(expected, 8 - expected), "a bound");
        assert!(gpu.room() <= most);
    }
    // The GPU has less than the bound.
    let gpu = gpu(64 << 20);
    knobs.set("MEMORY", (5 * CHUNK).to_string());
    check(ZSTD, &gpu, counts(8, 0), "little memory");
    knobs.set("MEMORY", "0");
    let empty = self::gpu(64 << 20);
    check(ZSTD, &empty, counts(0, 8), "no memory");
    assert_eq!(empty.room(), 0);
}

#[test]
fn a_broken_chunk_is_named_and_the_others_are_unpacked() {
    let _knobs = Knobs::turn();
    let gpu = gpu(64 << 20);
    for codec in [ZSTD, GZIP] {
        let (found, counts) = read(codec, true, &gpu);
        let fault = found.expect_err("it is broken");
        assert_eq!(fault.kind(), Kind::Corrupt);
        assert!(fault.text().starts_with("a/c/0: "), "{fault}");
        assert!(counts.returned >= 1 && counts.backend <= 7, "{counts:?}");
    }
    check(ZSTD, &gpu, counts(8, 0), "behind it");
}

#[test]
fn calls_that_fail_leave_chunks_to_the_cpu() {
    let knobs = Knobs::turn();
    for name in [
        "nvcompBatchedZstdDecompressGetTempSizeAsync",
        "nvcompBatchedZstdDecompressAsync",
    ] {
        let gpu = gpu(64 << 20);
        knobs.set("FAILS", name);
        check(ZSTD, &gpu, counts(0, 8), name);
        check(GZIP, &gpu, counts(8, 0), name);
        assert!(!gpu.is_lost());
        knobs.clear();
        check(ZSTD, &gpu, counts(8, 0), name);
    }
    for name in [
        "cuMemAllocAsync",
        "cuMemcpyHtoDAsync",
        "cuMemcpyDtoHAsync",
        "cuStreamSynchronize",
    ] {
        let gpu = gpu(64 << 20);
        knobs.set("FAILS", name);
        check(ZSTD, &gpu, counts(0, 8), name);
        assert!(gpu.is_lost(), "{name}");
        knobs.clear();
        // A context is not asked again.
        check(ZSTD, &gpu, counts(0, 8), name);
    }
}

#[test]
fn a_hint_gets_the_memory_before_the_wave() {
    let _knobs = Knobs::turn();
    let gpu = gpu(1 << 20);
    let hint = |chunks| Hint {
        chunks,
        substreams: 1,
        bytes: CHUNK as u64,
    };
    gpu.expect(hint(8));
    let room = gpu.room();
    assert!(room > 2 * 8 * CHUNK, "{room}");
    check(ZSTD, &gpu, counts(8, 0), "a hint");
    assert_eq!(gpu.room(), room);
    // One that is beyond the bound gets none.
    gpu.expect(hint(u32::MAX));
    assert_eq!(gpu.room(), room);
}

#[test]
fn a_hint_makes_no_call_of_a_lost_context() {
    let knobs = Knobs::turn();
    let gpu = gpu(1 << 20);
    let hint = Hint {
        chunks: 8,
        substreams: 1,
        bytes: CHUNK as u64,
    };
    knobs.set("FAILS", "cuMemAllocAsync");
    gpu.expect(hint);
    assert!(gpu.is_lost());
    knobs.clear();
    gpu.expect(hint);
    assert_eq!(gpu.room(), 0);
}

#[test]
fn a_wave_waits_for_no_other_stream() {
    let knobs = Knobs::turn();
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    knobs.set("LOG", &log);
    let gpu = gpu(64 << 20);
    gpu.expect(Hint {
        chunks: 1,
        substreams: 1,
        bytes: 1,
    });
    let room = gpu.room();
    check(ZSTD, &gpu, counts(8, 0), "more room");
    assert!(gpu.room() > room && room > 0);
    drop(gpu);
    // That call waits for all streams, and those of the program may wait for the wave.
    let calls = std::fs::read_to_string(&log).expect("a log");
    assert!(!calls.contains("cuMemFree"), "{calls}");
    assert!(calls.contains("cuStreamDestroy"), "{calls}");
}

#[test]
fn libraries_that_are_not_there_are_named() {
    let knobs = Knobs::turn();
    let (driver, device) = driver();
    let refused = |library: &Path| {
        let fault = Gpu::open(&driver, device, library, 1 << 20).expect_err("refused");
        assert_eq!(fault.kind(), Kind::Unsupported);
        fault.text().to_owned()
    };
    let text = refused(&Path::new("/nonexistent").join(LIBRARIES[1]));
    let begin = "no decoding on a GPU: /nonexistent/libnvcomp.so.5 cannot be loaded: ";
    assert!(text.starts_with(begin), "{text}");
    let folder = tempfile::tempdir().expect("a folder");
    let common = "int nvcompGetProperties(unsigned *p) { *p = VERSION; return 0; }
        int nvcompBatchedZstdDecompressAsync(void) { return 0; }
        int nvcompBatchedLZ4DecompressAsync(void) { return 0; }";
    let other = compiled(folder.path(), &common.replace("VERSION", "5000"));
    let text = refused(&other);
    assert!(
        text.ends_with(" lacks nvcompBatchedGzipDecompressAsync"),
        "{text}"
    );
    let names = |end: &str| {
        let name = |of: &&str| format!("nvcompBatched{of}DecompressGetTempSize{end}");
        let names: Vec<_> = ["Zstd", "Gzip", "LZ4"].iter().map(name).collect();
        format!(" lacks {}", names.join(", "))
    };
    for (version, end) in [("5300", "Async"), ("6000", "")] {
        let more = "int nvcompBatchedGzipDecompressAsync(void) { return 0; }";
        let source = format!("{}{more}", common.replace("VERSION", version));
        let folder = tempfile::tempdir().expect("a folder");
        let text = refused(&compiled(folder.path(), &source));
        assert!(text.ends_with(&names(end)), "{text}");
    }
    for (version, shown) in [("4200", "4.2"), ("7000", "7.0")] {
        knobs.set("NVCOMP", version);
        let text = refused(&library());
        let told = format!("is nvCOMP {shown}; it takes 5 or 6");
        assert!(text.ends_with(&told), "{text}");
    }
    knobs.clear();
    for (name, told) in [
        (
            "nvcompGetProperties",
            "nvcompGetProperties: nvcompStatus_t 10",
        ),
        (
            "cuDevicePrimaryCtxRetain",
            "cuDevicePrimaryCtxRetain: CUDA_ERROR_FAKE (719)",
        ),
        (
            "cuStreamCreateWithPriority",
            "cuStreamCreateWithPriority: CUDA_ERROR_FAKE (719)",
        ),
    ] {
        knobs.set("FAILS", name);
        let text = refused(&library());
        assert!(text.ends_with(told), "{text}");
    }
}
