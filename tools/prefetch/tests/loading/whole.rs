// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shards that are read by one request, and those that are not.

use std::sync::Arc;

use object_store::path::Path;
use object_store::ObjectStoreExt as _;
use tokio::time::Instant;
use zernel_prefetch::prefetcher::{Options, Sample};
use zernel_prefetch::read::Waves;
use zernel_prefetch::Kind;

use crate::lab::{prefetcher, sample, Ill, Store, ROUND_TRIP};
use crate::read::{expected, numbers, source};

/// A store with an array of 32 by 32 numbers: 4 by 4 shards of 4 by 2 chunks each, but for the last in
/// either dimension, which have half of that.
async fn store() -> Arc<Store> {
    let store = Arc::new(Store::default());
    store.write("a", &[28, 28], &[8, 8], &[2, 4]).await;
    store
}

/// The requests for a batch of a prefetcher that knows nothing, and the round trips.
async fn cost(store: &Arc<Store>, options: Options, samples: &[Sample]) -> (usize, u32) {
    let prefetcher = prefetcher(store, 64, options);
    let stream = prefetcher.stream().expect("the first");
    store.log();
    let begin = Instant::now();
    let batch = stream.submit(samples.to_vec());
    let found = numbers(&source(store), &batch, Waves::default()).await;
    let all: Vec<_> = samples.iter().map(|one| expected(&[28, 28], one)).collect();
    assert_eq!(found.expect("no fault"), all);
    let trips = begin.elapsed().as_micros() / ROUND_TRIP.as_micros();
    (store.log().len(), trips as u32)
}

#[tokio::test(start_paused = true)]
async fn a_shard_of_which_nearly_all_is_read_takes_one_request() {
    let store = store().await;
    let default = Options::default();
    for (start, shape, requests) in [
        // All of one, of four, of one at the edge, and of one in the corner.
        ([0, 0], [8, 8], 1),
        ([8, 8], [16, 16], 4),
        ([8, 24], [8, 4], 1),
        ([24, 24], [4, 4], 1),
        // Each chunk of it is touched.
        ([1, 3], [6, 2], 1),
        // Six of eight: index and ranges.
        ([0, 0], [6, 8], 2),
    ] {
        let samples = [sample("a", &start, &shape)];
        let trips = if requests == 2 { 3 } else { 2 };
        let found = cost(&store, default, &samples).await;
        assert_eq!(found, (1 + requests, trips), "{start:?} + {shape:?}");
    }
    // Samples share the request.
    let samples = [sample("a", &[0, 0], &[8, 8]), sample("a", &[0, 0], &[7, 7])];
    assert_eq!(cost(&store, default, &samples).await, (2, 2));
    // A shard that is larger than a range may be is read in ranges.
    // Its index, of 132 bytes, counts.
    for (longest_range, requests) in [(388, 2), (387, 3), (256, 3), (255, 4), (64, 6)] {
        let options = Options {
            longest_range,
            ..Options::default()
        };
        let samples = [sample("a", &[0, 0], &[8, 8])];
        let found = cost(&store, options, &samples).await;
        assert_eq!(found.0, requests, "{longest_range}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_index_that_is_larger_than_the_elements_is_asked_for_with_room() {
    let store = Arc::new(Store::default());
    // Chunks of 20 and of 12 bytes; each takes 16 of the index.
    store.write("a", &[20], &[20], &[5]).await;
    store.write("b", &[12], &[12], &[3]).await;
    for (array, count, requests, is_counted) in [("a", 20, 1, false), ("b", 12, 2, true)] {
        let prefetcher = prefetcher(&store, 64, Options::default());
        let stream = prefetcher.stream().expect("the first");
        let samples = vec![sample(array, &[0], &[count])];
        store.log();
        let batch = stream.submit(samples.clone());
        batch.planned().await.expect("no fault");
        let used = prefetcher.used();
        let found = numbers(&source(&store), &batch, Waves::default()).await;
        assert_eq!(found.expect("no fault"), [expected(&[count], &samples[0])]);
        assert_eq!(store.log().len(), 1 + requests, "{array}");
        drop(batch);
        let alone = description(&store, array).await;
        assert_eq!(used > alone, is_counted, "{array}");
    }
}

/// Bytes of the description of an array.
async fn description(store: &Arc<Store>, array: &str) -> u64 {
    let prefetcher = prefetcher(store, 64, Options::default());
    let stream = prefetcher.stream().expect("the first");
    let batch = stream.submit(vec![sample(array, &[0], &[0])]);
    batch.planned().await.expect("no fault");
    prefetcher.used()
}

#[tokio::test(start_paused = true)]
async fn an_index_that_is_known_is_used() {
    let store = store().await;
    let stream = prefetcher(&store, 64, Options::default())
        .stream()
        .expect("the first");
    let part = stream.submit(vec![sample("a", &[0, 0], &[1, 1])]);
    part.planned().await.expect("no fault");
    let whole = stream.submit(vec![sample("a", &[0, 0], &[8, 8])]);
    let plan = whole.planned().await.expect("no fault");
    assert!(plan.objects[0].version.is_some());
    assert_eq!((plan.bytes(), plan.requests()), (256, 1));
    // It is of the version that the ranges are of.
    store.write("a", &[28, 28], &[8, 8], &[2, 4]).await;
    let found = numbers(&source(&store), &whole, Waves::default()).await;
    assert_eq!(found.expect_err("another version").kind(), Kind::Changed);
}

#[tokio::test(start_paused = true)]
async fn a_shard_with_much_else_in_it_is_read_by_its_index() {
    let store = store().await;
    let place = Path::from("a/c/0/0");
    let object = store.inner.get(&place).await.expect("it is there");
    let bytes = object.bytes().await.expect("memory").to_vec();
    let index = bytes.len() - (8 * 16 + 4);
    for (dead, requests) in [(10, 1), (1 << 17, 3)] {
        let bytes = [&bytes[..index], &vec![9; dead], &bytes[index..]].concat();
        store.inner.put(&place, bytes.into()).await.expect("memory");
        let samples = [sample("a", &[0, 0], &[8, 8]), sample("a", &[0, 0], &[8, 8])];
        let found = cost(&store, Options::default(), &samples).await;
        assert_eq!(found.0, 1 + requests, "{dead}");
    }
}

#[tokio::test(start_paused = true)]
async fn faults_of_whole_shards_are_told() {
    let store = store().await;
    let place = Path::from("a/c/0/0");
    let object = store.inner.get(&place).await.expect("it is there");
    let bytes = object.bytes().await.expect("memory").to_vec();
    let put = |bytes: &[u8]| store.inner.put(&place, bytes.to_vec().into());
    let read = || async {
        let stream = prefetcher(&store, 64, Options::default()).stream();
        let stream = stream.expect("the first");
        let batch = stream.submit(vec![sample("a", &[0, 0], &[8, 8])]);
        let found = numbers(&source(&store), &batch, Waves::default()).await;
        found.map_err(|fault| fault.kind())
    };
    // Beyond its end, without an index, without a whole one, and with one whose checksum is wrong.
    let mut other = bytes.clone();
    other[bytes.len() - 10] ^= 1;
    for damaged in [&bytes[200..], &[], &bytes[bytes.len() - 5..], &other] {
        put(damaged).await.expect("memory");
        assert_eq!(read().await, Err(Kind::Corrupt), "{}", damaged.len());
    }
    put(&bytes).await.expect("memory");
    for (ill, kind) in [
        (Ill::Denied, Kind::Denied),
        (Ill::Shorter, Kind::Unavailable),
    ] {
        store.fails("a/c/0/0", ill);
        assert_eq!(read().await, Err(kind));
    }
    store.heals("a/c/0/0");
    assert!(read().await.is_ok());
    // One that is not there is fill value, and is looked for each time.
    store.inner.delete(&place).await.expect("memory");
    assert_eq!(read().await, Ok(vec![vec![7; 64]]));
    put(&bytes).await.expect("memory");
    assert_ne!(read().await, Ok(vec![vec![7; 64]]));
}
