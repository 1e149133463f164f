// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waves of chunks, by a back-end that keeps a log, lies and fails when it is told to.

use std::io::Read as _;
use std::sync::{Arc, Mutex};

use object_store::path::Path;
use object_store::ObjectStoreExt as _;
use zernel_prefetch::layout::{Method, Piece};
use zernel_prefetch::loader::{Loader, Settings};
use zernel_prefetch::prefetcher::{Ahead, Options, Stream};
use zernel_prefetch::read::Waves;
use zernel_prefetch::wave::{Backend, Chunk, Counts, Decoding, Hint, BACKEND_CHUNKS};
use zernel_prefetch::{Fault, Kind};

use crate::lab::{prefetcher, sample, Store};
use crate::read::numbers;

const ZSTD: &str = r#"{"name": "zstd", "configuration": {"level": 1, "checksum": false}}"#;
const CHECKED: &str = r#"{"name": "zstd", "configuration": {"level": 1, "checksum": true}}"#;
const GZIP: &str = r#"{"name": "gzip", "configuration": {"level": 1}}"#;
const BLOSC: &str = r#"{"name": "blosc", "configuration": {"cname": "zstd", "clevel": 5,
    "shuffle": "shuffle", "typesize": 4, "blocksize": 256}}"#;

/// The fault of a back-end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Ill {
    #[default]
    None,
    /// It unpacks nothing.
    Refuses,
    /// It has fewer answers than chunks.
    Short,
    /// A byte is missing.
    Truncates,
    /// A byte is another.
    Lies,
    Panics,
}

#[derive(Debug, Default)]
struct Log {
    ill: Ill,
    /// Chunks of each wave.
    waves: Mutex<Vec<usize>>,
    hints: Mutex<Vec<Hint>>,
}

fn unpacked(method: Method, piece: &Piece, bytes: &[u8]) -> Option<Vec<u8>> {
    let from = &bytes[piece.from.clone()];
    if piece.is_raw {
        return Some(from.to_vec());
    }
    match method {
        Method::Zstd => zstd::bulk::decompress(from, piece.to.len()).ok(),
        Method::Gzip => {
            let mut all = Vec::new();
            let mut packed = flate2::read::GzDecoder::new(from);
            packed.read_to_end(&mut all).ok().map(|_| all)
        }
        Method::Lz4 => None,
    }
}

impl Backend for Log {
    fn unpack(&self, wave: &[Chunk<'_>]) -> Vec<Option<Vec<u8>>> {
        self.waves.lock().expect("a log").push(wave.len());
        assert_ne!(self.ill, Ill::Panics);
        let one = |chunk: &Chunk<'_>| {
            let pieces = chunk.layout.pieces().iter();
            let pieces = pieces.map(|piece| unpacked(chunk.layout.method(), piece, chunk.bytes));
            let mut all = pieces.collect::<Option<Vec<_>>>()?.concat();
            match self.ill {
                Ill::Refuses => return None,
                Ill::Truncates => drop(all.pop()),
                Ill::Lies => all[0] ^= 1,
                _ => {}
            }
            Some(all)
        };
        let skipped = usize::from(self.ill == Ill::Short);
        wave.iter().skip(skipped).map(one).collect()
    }

    fn expect(&self, hint: Hint) {
        self.hints.lock().expect("a log").push(hint);
    }
}

fn ill(ill: Ill) -> Arc<Log> {
    Arc::new(Log {
        ill,
        ..Log::default()
    })
}

fn decoding(log: &Arc<Log>, waves: Waves) -> Decoding {
    let backend: Arc<dyn Backend> = Arc::<Log>::clone(log);
    Decoding::by(backend).within(waves).expect("bounds")
}

/// An array of 1,024 numbers in 8 chunks of 128, in a shard for each 4 of these; and a batch of it.
async fn array(codec: &str) -> (Arc<Store>, Stream, Ahead) {
    let store = Arc::new(Store::default());
    store
        .write_packed("a", &[1_024], &[512], &[128], Some(codec))
        .await;
    let stream = prefetcher(&store, 64, Options::default()).stream();
    let stream = stream.expect("the first");
    let batch = stream.submit(vec![sample("a", &[0], &[1_024])]);
    (store, stream, batch)
}

async fn read(
    (store, _stream, batch): &(Arc<Store>, Stream, Ahead),
    decoding: Decoding,
) -> Result<Vec<Vec<u32>>, Fault> {
    let prefetcher = prefetcher(store, 64, Options::default());
    numbers(prefetcher.source(), batch, decoding).await
}

fn written() -> Vec<Vec<u32>> {
    vec![(1..=1_024).collect()]
}

fn counts(backend: u64, returned: u64, cpu: u64) -> Counts {
    Counts {
        backend,
        returned,
        cpu,
    }
}

#[tokio::test(start_paused = true)]
async fn waves_are_as_written_and_no_longer_than_their_bound() {
    for codec in [ZSTD, GZIP, BLOSC] {
        let array = array(codec).await;
        for (max_chunks, most) in [(0, 8), (1, 1), (3, 3), (8, 8), (BACKEND_CHUNKS, 8)] {
            let (log, max_substreams) = (Arc::new(Log::default()), 0);
            let decoding = decoding(
                &log,
                Waves {
                    max_chunks,
                    max_substreams,
                },
            );
            let found = read(&array, decoding.clone()).await;
            assert_eq!(found.expect("no fault"), written(), "{codec}");
            let waves = log.waves.lock().expect("a log");
            assert_eq!(waves.iter().sum::<usize>(), 8);
            assert!(waves.iter().all(|count| *count <= most), "{waves:?}");
            assert_eq!(decoding.counts(), counts(8, 0, 0));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn chunks_that_a_backend_gives_back_are_decoded_here() {
    let array = array(GZIP).await;
    for (of, expected) in [
        (Ill::Refuses, counts(0, 8, 0)),
        (Ill::Truncates, counts(0, 8, 0)),
        (Ill::Lies, counts(0, 8, 0)),
        (Ill::Panics, counts(0, 8, 0)),
    ] {
        let decoding = decoding(&ill(of), Waves::default());
        let found = read(&array, decoding.clone()).await;
        assert_eq!(found.expect("no fault"), written(), "{of:?}");
        assert_eq!(decoding.counts(), expected, "{of:?}");
    }
    // Answers that are not those of their chunks have another checksum.
    let decoding = decoding(&ill(Ill::Short), Waves::default());
    let found = read(&array, decoding.clone()).await;
    assert_eq!(found.expect("no fault"), written());
    assert_eq!(decoding.counts().returned, 8);
}

#[tokio::test(start_paused = true)]
async fn chunks_of_unknown_layout_come_to_no_backend() {
    let array = array(CHECKED).await;
    let log = Arc::new(Log::default());
    let decoding = decoding(&log, Waves::default());
    let found = read(&array, decoding.clone()).await;
    assert_eq!(found.expect("no fault"), written());
    assert_eq!(decoding.counts(), counts(0, 0, 8));
    assert!(log.waves.lock().expect("a log").is_empty());
}

#[tokio::test(start_paused = true)]
async fn chunks_of_many_substreams_are_decoded_here_and_those_of_more_are_faults() {
    let store = Arc::new(Store::default());
    // 8 KiB in 64 blocks.
    let codec = BLOSC.replace("256", "128");
    store
        .write_packed("a", &[2_048], &[2_048], &[2_048], Some(&codec))
        .await;
    let stream = prefetcher(&store, 64, Options::default()).stream();
    let stream = stream.expect("the first");
    let batch = stream.submit(vec![sample("a", &[0], &[2_048])]);
    let array = (store, stream, batch);
    let log = Arc::new(Log::default());
    let waves = |max_substreams| Waves {
        max_substreams,
        ..Waves::default()
    };
    let by_backend = decoding(&log, waves(64));
    let found = read(&array, by_backend.clone()).await.expect("no fault");
    assert_eq!(found, [(1..=2_048).collect::<Vec<u32>>()]);
    assert_eq!(by_backend.counts(), counts(0, 0, 1));
    for decoding in [decoding(&log, waves(63)), waves(63).into()] {
        let fault = read(&array, decoding).await.expect_err("too many");
        assert_eq!(fault.kind(), Kind::TooLarge);
        assert_eq!(
            fault.text(),
            "a/c/0: a chunk of 64 substreams, of 63 at most"
        );
    }
    assert!(log.waves.lock().expect("a log").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_broken_chunk_is_named_once_both_have_failed() {
    let store = Arc::new(Store::default());
    store
        .write_packed("a", &[512], &[512], &[512], Some(ZSTD))
        .await;
    let place = Path::from("a/c/0");
    let whole = store.inner.get(&place).await.expect("it is there");
    let mut bytes = whole.bytes().await.expect("memory").to_vec();
    let end = bytes.len() - 4;
    bytes[end..].fill(0xff);
    store.inner.put(&place, bytes.into()).await.expect("memory");
    let stream = prefetcher(&store, 64, Options::default()).stream();
    let stream = stream.expect("the first");
    let batch = stream.submit(vec![sample("a", &[0], &[512])]);
    let log = Arc::new(Log::default());
    let decoding = decoding(&log, Waves::default());
    let found = read(&(store, stream, batch), decoding.clone()).await;
    let fault = found.expect_err("it is broken");
    assert_eq!(fault.kind(), Kind::Corrupt, "{fault}");
    assert!(fault.text().starts_with("a/c/0: "), "{fault}");
    assert_eq!(*log.waves.lock().expect("a log"), [1]);
    assert_eq!(decoding.counts(), counts(0, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn bounds_are_checked() {
    let backend: Arc<dyn Backend> = Arc::new(Log::default());
    let waves = Waves {
        max_chunks: BACKEND_CHUNKS + 1,
        ..Waves::default()
    };
    let by_backend = Decoding::by(backend);
    let fault = by_backend.within(waves).expect_err("too many");
    assert_eq!(fault.kind(), Kind::Misuse);
    assert!(fault.text().contains("65536 chunks"), "{fault}");
    assert!(Decoding::default().within(waves).is_ok());
    // A loader tells it with its first batch.
    let array = array(ZSTD).await;
    let prefetcher = prefetcher(&array.0, 64, Options::default());
    prefetcher.decode_by(by_backend.clone()).expect("the first");
    let fault = prefetcher.decode_by(by_backend).expect_err("a second way");
    assert_eq!(fault.kind(), Kind::Misuse);
    let settings = Settings {
        waves,
        ..Settings::default()
    };
    let batches = vec![vec![sample("a", &[0], &[4])]];
    let mut loader = Loader::new(&prefetcher, settings, batches.into_iter()).expect("a stream");
    let loaded = loader.next().await.expect("a batch");
    assert_eq!(loaded.expect_err("too many").kind(), Kind::Misuse);
}

#[tokio::test(start_paused = true)]
async fn an_array_is_probed_once_and_for_a_backend_alone() {
    for (codec, by_backend, requests, substreams) in [
        (BLOSC, false, 1 + 2 + 2, None),
        (BLOSC, true, 1 + 2 + 2 + 1, Some(2)),
        (GZIP, true, 1 + 2 + 2, Some(1)),
    ] {
        let (store, ..) = array(codec).await;
        // A shard has one byte more, so its index is read.
        let options = Options {
            longest_range: 4 * 512 - 1,
            ..Options::default()
        };
        let prefetcher = prefetcher(&store, 64, options);
        let log = Arc::new(Log::default());
        if by_backend {
            let decoding = decoding(&log, Waves::default());
            prefetcher.decode_by(decoding).expect("the first");
        }
        // Two batches of a shard each.
        let batches = [0, 512].map(|at| vec![sample("a", &[at], &[512])]);
        let mut loader = Loader::new(&prefetcher, Settings::default(), batches.into_iter());
        let loader = loader.as_mut().expect("a stream");
        let mut found = 0;
        while let Some(loaded) = loader.next().await {
            assert_eq!(loaded.expect("no fault").data[0].len(), 4 * 512);
            found += 1;
        }
        assert_eq!(found, 2);
        assert_eq!(prefetcher.source().counts().requests, requests, "{codec}");
        let hints = log.hints.lock().expect("a log");
        let expected = substreams.map(|substreams| Hint {
            chunks: 4,
            substreams,
            bytes: 512,
        });
        assert_eq!(hints.first().copied(), expected, "{codec}");
    }
}

#[tokio::test(start_paused = true)]
async fn shards_that_are_read_whole_are_not_probed_and_their_chunks_count() {
    let one = || vec![sample("a", &[0], &[512])];
    // All of a shard, the same twice, and a chunk of another.
    let twice = || [one(), one()].concat();
    let and_part = || [one(), vec![sample("a", &[512], &[128])]].concat();
    for (codec, batch, requests, expected) in [
        (BLOSC, one(), 1 + 1, None),
        (GZIP, one(), 1 + 1, Some((4, 1))),
        (GZIP, twice(), 1 + 1, Some((4, 1))),
        (GZIP, vec![sample("a", &[1], &[500])], 1 + 1, Some((4, 1))),
        (BLOSC, and_part(), 1 + 1 + 2 + 1, Some((5, 2))),
    ] {
        let (store, ..) = array(codec).await;
        let prefetcher = prefetcher(&store, 64, Options::default());
        let log = Arc::new(Log::default());
        let decoding = decoding(&log, Waves::default());
        prefetcher.decode_by(decoding).expect("the first");
        let batches = std::iter::once(batch.clone());
        let mut loader = Loader::new(&prefetcher, Settings::default(), batches).expect("a stream");
        loader.next().await.expect("one").expect("no fault");
        let found = prefetcher.source().counts().requests;
        assert_eq!(found, requests, "{codec} {batch:?}");
        let hints = log.hints.lock().expect("a log");
        let expected = expected.map(|(chunks, substreams)| Hint {
            chunks,
            substreams,
            bytes: 512,
        });
        assert_eq!(hints.first().copied(), expected, "{codec} {batch:?}");
    }
}
