// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boxes of arrays, read by their plans, element by element.

use std::sync::Arc;

use crate::lab::{in_simulated_time, prefetcher, sample, Ill, Store, ROUND_TRIP};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use proptest::prelude::*;
use tokio::time::Instant;
use zernel_prefetch::prefetcher::{Ahead, Options, Sample};
use zernel_prefetch::read::{places, read, Decoding, Waves};
use zernel_prefetch::source::{Retries, Source};
use zernel_prefetch::{Fault, Kind};

pub fn source(store: &Arc<Store>) -> Arc<Source> {
    let store: Arc<dyn ObjectStore> = Arc::<Store>::clone(store);
    Source::new(store, 64, Retries::default())
}

/// The numbers of a batch's samples.
pub async fn numbers(
    source: &Source,
    batch: &Ahead,
    waves: impl Into<Decoding>,
) -> Result<Vec<Vec<u32>>, Fault> {
    let plan = batch.planned().await?;
    let samples = batch.samples();
    let count = |sample: &Sample| sample.region.elements().expect("small") as usize;
    let mut bytes: Vec<_> = samples
        .iter()
        .map(|sample| vec![0xee; 4 * count(sample)])
        .collect();
    let mut places = places(&mut bytes, samples);
    read(source, &plan, 0, waves, &mut places).await?;
    let number = |bytes: &[u8]| u32::from_ne_bytes(bytes.try_into().expect("four"));
    Ok(bytes
        .iter()
        .map(|bytes| bytes.chunks(4).map(number).collect())
        .collect())
}

/// The numbers of a box of an array whose elements are 1, 2, 3 …
pub fn expected(shape: &[u64], sample: &Sample) -> Vec<u32> {
    let (start, size) = (&sample.region.start, &sample.region.shape);
    let mut all = vec![0];
    for ((side, start), size) in shape.iter().zip(start).zip(size) {
        let next = |at: &u64| {
            (*start..start + size)
                .map(|next| at * side + next)
                .collect::<Vec<_>>()
        };
        all = all.iter().flat_map(next).collect();
    }
    all.iter().map(|at| *at as u32 + 1).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100, failure_persistence: None, ..ProptestConfig::default()
    })]
    #[test]
    fn boxes_are_as_written(
        boxes in prop::collection::vec((0_u64..18, 0_u64..11, 0_u64..18, 0_u64..11, any::<bool>()), 1..6),
        max_chunks in 0_u32..4,
        gap in 0_u64..200,
        are_whole in any::<bool>(),
    ) {
        in_simulated_time(async {
            let shape = [18, 11];
            let store = Arc::new(Store::default());
            store.write("sharded", &shape, &[8, 6], &[4, 2]).await;
            store.write("plain", &shape, &[5, 4], &[5, 4]).await;
            // A shard has 192 bytes, and its index 100.
            let longest_range = if are_whole { 292 } else { 291 };
            let options = Options { gap, longest_range, ..Options::default() };
            let stream = prefetcher(&store, 64, options).stream().expect("the first");
            let samples: Vec<_> = boxes
                .iter()
                .map(|(row, column, rows, columns, is_plain)| {
                    let size = [*rows.min(&(18 - row)), *columns.min(&(11 - column))];
                    sample(if *is_plain { "plain" } else { "sharded" }, &[*row, *column], &size)
                })
                .collect();
            let all: Vec<_> = samples.iter().map(|sample| expected(&shape, sample)).collect();
            let batch = stream.submit(samples);
            let found = numbers(&source(&store), &batch, Waves { max_chunks, ..Waves::default() }).await;
            assert_eq!(found.expect("no fault"), all);
        });
    }
}

#[tokio::test(start_paused = true)]
async fn data_takes_one_round_trip_more() {
    let store = Arc::new(Store::default());
    store.write("a", &[16, 16], &[8, 8], &[4, 2]).await;
    let stream = prefetcher(&store, 64, Options::default())
        .stream()
        .expect("the first");
    let begin = Instant::now();
    let batch = stream.submit(vec![sample("a", &[0, 0], &[16, 16])]);
    let found = numbers(&source(&store), &batch, Waves::default())
        .await
        .expect("no fault");
    assert_eq!(found, [(1..=256).collect::<Vec<u32>>()]);
    // Of whole shards no index is read before.
    assert_eq!(begin.elapsed(), 2 * ROUND_TRIP);
    assert_eq!(store.log().len(), 1 + 4);
    let batch = stream.submit(vec![sample("a", &[7, 7], &[2, 2])]);
    let begin = Instant::now();
    let found = numbers(&source(&store), &batch, Waves::default()).await;
    assert_eq!(found.expect("no fault"), [[120, 121, 136, 137]]);
    // The indexes have come with them.
    assert_eq!(begin.elapsed(), ROUND_TRIP);
    assert_eq!(store.log().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn samples_share_requests_and_chunks() {
    let store = Arc::new(Store::default());
    store.write("a", &[16], &[8], &[4]).await;
    store.write("b", &[16], &[8], &[8]).await;
    let samples = || {
        let starts = [0, 1, 4, 6];
        let of = |array: &'static str| starts.map(|at| sample(array, &[at], &[2]));
        [of("a"), of("b")].concat()
    };
    let all: Vec<_> = samples().iter().map(|one| expected(&[16], one)).collect();
    for (longest_range, requests) in [(8 << 20, 2), (16, 3), (0, 3)] {
        let options = Options {
            longest_range,
            ..Options::default()
        };
        let stream = prefetcher(&store, 64, options).stream().expect("the first");
        let batch = stream.submit(samples());
        batch.planned().await.expect("no fault");
        store.log();
        let found = numbers(&source(&store), &batch, Waves::default()).await;
        assert_eq!(found.expect("no fault"), all);
        assert_eq!(store.log().len(), requests, "{longest_range}");
    }
}

#[tokio::test(start_paused = true)]
async fn chunks_that_are_not_there_are_fill_value() {
    let store = Arc::new(Store::default());
    store.write("a", &[4, 4], &[2, 2], &[1, 1]).await;
    store.write("b", &[4], &[2], &[2]).await;
    for path in ["a/c/0/1", "b/c/1"] {
        store.inner.delete(&Path::from(path)).await.expect("memory");
    }
    let stream = prefetcher(&store, 64, Options::default())
        .stream()
        .expect("the first");
    let batch = stream.submit(vec![sample("a", &[1, 0], &[1, 4]), sample("b", &[1], &[3])]);
    let found = numbers(&source(&store), &batch, Waves::default())
        .await
        .expect("no fault");
    assert_eq!(found, [vec![5, 6, 7, 7], vec![2, 7, 7]]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_changes_is_never_mixed() {
    let store = Arc::new(Store::default());
    store.write("a", &[4, 4], &[4, 4], &[2, 2]).await;
    let stream = prefetcher(&store, 64, Options::default())
        .stream()
        .expect("the first");
    let batch = stream.submit(vec![sample("a", &[0, 0], &[4, 2])]);
    batch.planned().await.expect("no fault");
    store.write("a", &[4, 4], &[4, 4], &[2, 2]).await;
    let found = numbers(&source(&store), &batch, Waves::default()).await;
    assert_eq!(found.expect_err("another version").kind(), Kind::Changed);
    store
        .inner
        .delete(&Path::from("a/c/0/0"))
        .await
        .expect("memory");
    let found = numbers(&source(&store), &batch, Waves::default()).await;
    assert_eq!(found.expect_err("it is gone").kind(), Kind::Changed);
}

#[tokio::test(start_paused = true)]
async fn faults_of_data_are_told() {
    let store = Arc::new(Store::default());
    store.write("a", &[4], &[4], &[2]).await;
    let stream = prefetcher(&store, 64, Options::default())
        .stream()
        .expect("the first");
    let batch = stream.submit(vec![sample("a", &[0], &[4])]);
    let plan = batch.planned().await.expect("no fault");
    store.fails("a/c/0", Ill::Denied);
    let found = numbers(&source(&store), &batch, Waves::default()).await;
    assert_eq!(found.expect_err("denied").kind(), Kind::Denied);
    let none = read(&source(&store), &plan, 0, Waves::default(), &mut []).await;
    assert_eq!(none.expect_err("denied").kind(), Kind::Denied);
    store.fails("a/c/0", Ill::Shorter);
    let found = numbers(&source(&store), &batch, Waves::default()).await;
    assert_eq!(found.expect_err("short").kind(), Kind::Unavailable);
}
