// SPDX-License-Identifier: MIT OR Apache-2.0
//! The prefetcher, on a store whose round trip is counted in simulated time.

use std::sync::Arc;
use std::time::Duration;

use crate::lab::{prefetcher, sample, Ill, Store, ROUND_TRIP};
use object_store::path::Path;
use object_store::ObjectStoreExt as _;
use tokio::time::Instant;
use zernel_prefetch::prefetcher::{Format, Options};
use zernel_prefetch::Kind;

/// A store with an array of 4 by 4 shards of 2 by 2 chunks each.
async fn store() -> Arc<Store> {
    let store = Arc::new(Store::default());
    store.write("a", &[16, 16], &[4, 4], &[2, 2]).await;
    store
}

#[tokio::test(start_paused = true)]
async fn a_batch_takes_two_round_trips_and_then_none() {
    let store = store().await;
    let stream = prefetcher(&store, 64, Options::default())
        .stream()
        .expect("the first");
    let begin = Instant::now();
    let batch = stream.submit(vec![
        sample("a", &[2, 2], &[4, 4]),
        sample("a", &[0, 0], &[1, 1]),
    ]);
    assert!(batch.plan().expect("no fault").is_none());
    let plan = batch.planned().await.expect("no fault");
    assert_eq!(begin.elapsed(), 2 * ROUND_TRIP);
    let mut log = store.log();
    log[1..].sort();
    assert_eq!(
        log,
        ["a/zarr.json", "a/c/0/0", "a/c/0/1", "a/c/1/0", "a/c/1/1"]
    );
    // One chunk of each shard for the one; the other's is of the first shard, and read with it.
    assert_eq!(
        (plan.objects.len(), plan.requests(), plan.absent.len()),
        (4, 4, 0)
    );
    let again = stream.submit(vec![sample("a", &[1, 1], &[6, 6])]);
    assert!(again.batch().is_ready());
    assert!(again.plan().expect("no fault").is_some());
    assert_eq!(store.log(), [""; 0]);
    assert_eq!(stream.open(), 2);
    drop(batch);
    drop(again);
    assert_eq!(stream.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn arrays_of_whole_objects_take_one_round_trip() {
    let store = store().await;
    store.write("b", &[8], &[4], &[4]).await;
    let stream = prefetcher(&store, 64, Options::default())
        .stream()
        .expect("the first");
    let begin = Instant::now();
    let batch = stream.submit(vec![sample("b", &[3], &[2])]);
    let plan = batch.planned().await.expect("no fault");
    assert_eq!(begin.elapsed(), ROUND_TRIP);
    let keys: Vec<_> = plan
        .objects
        .iter()
        .map(|object| object.key.as_str())
        .collect();
    assert_eq!(keys, ["b/c/0", "b/c/1"]);
    // A box without elements is ready at once, and touches nothing.
    let empty = stream.submit(vec![sample("b", &[3], &[0])]);
    assert_eq!(
        empty
            .plan()
            .expect("no fault")
            .expect("it is ready")
            .requests(),
        0
    );
    let none = stream.submit(Vec::new());
    assert!(none.batch().is_ready());
}

#[tokio::test(start_paused = true)]
async fn version_2_is_found_behind_version_3() {
    let store = store().await;
    let json = r#"{"zarr_format": 2, "shape": [5], "chunks": [2], "dtype": "<i4", "order": "C",
        "fill_value": 0, "filters": null, "compressor": null}"#;
    store
        .inner
        .put(&Path::from("old/.zarray"), json.into())
        .await
        .expect("memory");
    for (format, trips) in [(Format::Any, 2), (Format::V2, 1)] {
        let options = Options {
            format,
            ..Options::default()
        };
        let stream = prefetcher(&store, 64, options).stream().expect("the first");
        let begin = Instant::now();
        let batch = stream.submit(vec![sample("old", &[0], &[5])]);
        assert_eq!(batch.planned().await.expect("no fault").requests(), 3);
        assert_eq!(begin.elapsed(), trips * ROUND_TRIP);
    }
    let options = Options {
        format: Format::V3,
        ..Options::default()
    };
    let stream = prefetcher(&store, 64, options).stream().expect("the first");
    let batch = stream.submit(vec![sample("old", &[0], &[5])]);
    assert_eq!(
        batch.planned().await.expect_err("no version 3").kind(),
        Kind::Missing
    );
}

#[tokio::test(start_paused = true)]
async fn faults_reach_the_batch_and_stand() {
    let store = store().await;
    store.fails("a/c/3/3", Ill::Denied);
    store.fails("a/c/2/2", Ill::Other);
    let stream = prefetcher(&store, 64, Options::default())
        .stream()
        .expect("the first");
    let last = |at| sample("a", &[at, at], &[1, 1]);
    for (sample, kind, words) in [
        (sample("none", &[0], &[1]), Kind::Missing, "none"),
        (sample("a", &[16, 0], &[1, 1]), Kind::Misuse, "[16, 16]"),
        (last(15), Kind::Denied, "a/c/3/3"),
        (last(9), Kind::Corrupt, "a/c/2/2"),
    ] {
        for is_first in [true, false] {
            let batch = stream.submit(vec![last(0), sample.clone()]);
            let fault = batch.planned().await.expect_err("a fault");
            assert_eq!(fault.kind(), kind, "{fault}");
            assert!(fault.text().contains(words), "{fault}");
            batch.batch().drained().await;
            let asked = store
                .log()
                .iter()
                .filter(|key| key.contains("none"))
                .count();
            let expected = if is_first && words == "none" { 2 } else { 0 };
            assert_eq!(asked, expected);
        }
    }
    // Others of the same array are as before.
    assert!(stream.submit(vec![last(0)]).batch().is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_is_not_there_is_fill_value() {
    let store = store().await;
    store
        .inner
        .delete(&Path::from("a/c/0/1"))
        .await
        .expect("memory");
    let stream = prefetcher(&store, 64, Options::default())
        .stream()
        .expect("the first");
    let batch = stream.submit(vec![sample("a", &[0, 3], &[1, 3])]);
    let plan = batch.planned().await.expect("no fault");
    assert_eq!(plan.objects.len(), 1);
    let places: Vec<_> = plan
        .absent
        .iter()
        .map(|(_, piece)| piece.tile.at.to_vec())
        .collect();
    assert_eq!(places, [[0, 1]]);
}

#[tokio::test(start_paused = true)]
async fn the_earliest_batch_is_read_first() {
    let store = store().await;
    let stream = prefetcher(&store, 1, Options::default())
        .stream()
        .expect("the first");
    drop(
        stream
            .submit(vec![sample("a", &[0, 0], &[1, 1])])
            .planned()
            .await,
    );
    store.log();
    let row = |at: u64| vec![sample("a", &[at, 0], &[1, 16])];
    let batches: Vec<_> = [4, 8, 12].map(|at| stream.submit(row(at))).into();
    for batch in batches.iter().rev() {
        batch.planned().await.expect("no fault");
    }
    let log = store.log();
    // The first to come has the permit already; from then on it is the order of batches.
    let rows: Vec<_> = log.iter().map(|key| key.as_bytes()[4] - b'0').collect();
    assert_eq!(rows, [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_full_cache_waits_for_batches_that_end() {
    let store = store().await;
    let options = Options {
        shards: 2,
        longest_wait: Duration::from_secs(5),
        ..Options::default()
    };
    let prefetcher = prefetcher(&store, 64, options);
    let stream = prefetcher.stream().expect("the first");
    let first = stream.submit(vec![sample("a", &[0, 0], &[1, 8])]);
    first.planned().await.expect("no fault");
    let second = stream.submit(vec![sample("a", &[4, 0], &[1, 8])]);
    let begin = Instant::now();
    let waits = tokio::time::timeout(Duration::from_secs(1), second.planned()).await;
    assert!(waits.is_err(), "there is no room");
    drop(first);
    second.planned().await.expect("no fault");
    assert!(
        begin.elapsed() < Duration::from_secs(2),
        "{:?}",
        begin.elapsed()
    );
    // Room that does not come is a fault of the first batch that is open.
    let other = prefetcher.stream().expect("the second");
    let third = other.submit(vec![sample("a", &[8, 0], &[1, 8])]);
    let begin = Instant::now();
    assert_eq!(
        third.planned().await.expect_err("no room").kind(),
        Kind::Saturated
    );
    assert_eq!(begin.elapsed(), Duration::from_secs(5));
    third.batch().drained().await;
    drop(second);
    drop(third);
    // A batch that needs more than there is.
    let large = stream.submit(vec![sample("a", &[0, 0], &[1, 12])]);
    assert_eq!(
        large.planned().await.expect_err("no room").kind(),
        Kind::Saturated
    );
    drop(large);
    let again = stream.submit(vec![sample("a", &[0, 0], &[1, 8])]);
    again.planned().await.expect("no fault");
    drop(again);
    drop(stream);
    assert!(prefetcher.used() > 0);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_given_up_ends_at_once_and_its_reads_serve_others() {
    let store = store().await;
    let stream = prefetcher(&store, 64, Options::default())
        .stream()
        .expect("the first");
    let box_ = || vec![sample("a", &[0, 0], &[1, 1])];
    let given_up = stream.submit(box_());
    let other = stream.submit(box_());
    tokio::time::sleep(ROUND_TRIP / 2).await;
    let begin = Instant::now();
    given_up.batch().cancel();
    given_up.batch().drained().await;
    assert_eq!(begin.elapsed(), Duration::ZERO);
    assert_eq!(
        given_up.planned().await.expect_err("given up").kind(),
        Kind::Cancelled
    );
    drop(given_up);
    other.planned().await.expect("no fault");
    assert_eq!(store.log(), ["a/zarr.json", "a/c/0/0"]);
}

#[tokio::test(start_paused = true)]
async fn bytes_that_do_not_come_are_asked_for_again() {
    let store = store().await;
    store.fails("a/zarr.json", Ill::Shorter);
    let stream = prefetcher(&store, 64, Options::default())
        .stream()
        .expect("the first");
    let batch = stream.submit(vec![sample("a", &[0, 0], &[1, 1])]);
    assert_eq!(
        batch.planned().await.expect_err("never whole").kind(),
        Kind::Unavailable
    );
    assert_eq!(store.log().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn room_is_given_in_the_order_of_batches() {
    let store = store().await;
    store.write("b", &[16, 16], &[4, 4], &[2, 2]).await;
    let options = Options {
        shards: 3,
        ..Options::default()
    };
    let prefetcher = prefetcher(&store, 64, options);
    let stream = prefetcher.stream().expect("the first");
    // The array of the second is known, and that of others is not.
    let known = stream.submit(vec![sample("b", &[0, 0], &[1, 1])]);
    known.planned().await.expect("no fault");
    drop(known);
    // Any two of these need more than there is.
    let batches: Vec<_> = ["a", "b", "a"]
        .into_iter()
        .zip([0, 4, 8])
        .map(|(array, at)| stream.submit(vec![sample(array, &[at, 0], &[1, 8]); 2]))
        .collect();
    let begin = Instant::now();
    let mut logs = Vec::new();
    for batch in batches {
        batch.planned().await.expect("room");
        drop(batch);
        logs.push(store.log());
    }
    assert!(begin.elapsed() < Duration::from_secs(1));
    let read = |name: &str| {
        logs.iter()
            .position(|log| log.iter().any(|key| key == name))
    };
    let read = ["a/c/0/0", "a/c/0/1", "b/c/1/1", "a/c/2/1"].map(read);
    assert!(read.is_sorted() && read[0] == Some(0), "{read:?}");
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_pauses_for_long_loses_nothing() {
    let store = store().await;
    let options = Options {
        shards: 2,
        longest_wait: Duration::from_secs(5),
        ..Options::default()
    };
    let prefetcher = prefetcher(&store, 64, options);
    let stream = prefetcher.stream().expect("the first");
    let batches: Vec<_> = [0, 4, 8, 12]
        .map(|at| stream.submit(vec![sample("a", &[at, 0], &[1, 8])]))
        .into();
    for batch in batches {
        tokio::time::sleep(Duration::from_secs(60)).await;
        batch.planned().await.expect("room");
    }
}

#[tokio::test(start_paused = true)]
async fn streams_share_requests_in_the_order_of_their_batches() {
    let store = store().await;
    let prefetcher = prefetcher(&store, 1, Options::default());
    let streams = [0, 1].map(|_| prefetcher.stream().expect("one of few"));
    let known = streams[0].submit(vec![sample("a", &[0, 0], &[1, 1])]);
    known.planned().await.expect("no fault");
    store.log();
    // Of the first stream come two, then one of the second, then one of the first.
    let batches: Vec<_> = [(0, 4), (0, 8), (1, 12), (0, 0)]
        .map(|(stream, at)| streams[stream].submit(vec![sample("a", &[at, 0], &[1, 16])]))
        .into();
    for batch in &batches {
        batch.planned().await.expect("no fault");
    }
    let log = store.log();
    let rows: Vec<_> = log.iter().map(|key| key.as_bytes()[4] - b'0').collect();
    assert_eq!(rows, [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_is_written_later_is_found_when_its_time_is_over() {
    for keep_faults in [Duration::ZERO, Duration::from_secs(3_600)] {
        let store = store().await;
        let place = Path::from("a/c/0/1");
        let whole = store.inner.get(&place).await.expect("memory");
        let whole = whole.bytes().await.expect("memory");
        store.inner.delete(&place).await.expect("memory");
        let options = Options {
            keep_faults,
            ..Options::default()
        };
        let prefetcher = prefetcher(&store, 64, options);
        let stream = prefetcher.stream().expect("the first");
        let mut absent = Vec::new();
        for _ in 0..2 {
            let batch = stream.submit(vec![sample("a", &[0, 4], &[1, 1])]);
            absent.push(batch.planned().await.expect("no fault").absent.len());
            store
                .inner
                .put(&place, whole.clone().into())
                .await
                .expect("memory");
        }
        assert_eq!(absent, [1, usize::from(!keep_faults.is_zero())]);
    }
}

#[tokio::test(start_paused = true)]
async fn reads_that_nobody_needs_are_not_sent() {
    let store = store().await;
    let prefetcher = prefetcher(&store, 1, Options::default());
    let stream = prefetcher.stream().expect("the first");
    let known = stream.submit(vec![sample("a", &[0, 0], &[1, 1])]);
    known.planned().await.expect("no fault");
    store.log();
    let other = prefetcher.stream().expect("the second");
    let batch = stream.submit(vec![sample("a", &[4, 0], &[1, 16])]);
    let needed = other.submit(vec![sample("a", &[4, 12], &[1, 1])]);
    tokio::time::sleep(ROUND_TRIP / 2).await;
    drop((known, batch, stream));
    needed.planned().await.expect("no fault");
    tokio::time::sleep(100 * ROUND_TRIP).await;
    // One was on its way, and the last has two who need it.
    assert_eq!(store.log(), ["a/c/1/0", "a/c/1/3"]);
    let again = other.submit(vec![sample("a", &[4, 0], &[1, 16])]);
    again.planned().await.expect("no fault");
    assert_eq!(store.log(), ["a/c/1/1", "a/c/1/2"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_too_large_is_not_read() {
    let store = store().await;
    let large = vec![b' '; (16 << 20) + 1];
    let place = Path::from("large/zarr.json");
    store.inner.put(&place, large.into()).await.expect("memory");
    let prefetcher = prefetcher(&store, 64, Options::default());
    let stream = prefetcher.stream().expect("the first");
    let batch = stream.submit(vec![sample("large", &[0], &[1])]);
    let fault = batch.planned().await.expect_err("too large");
    assert_eq!(fault.kind(), Kind::TooLarge);
    assert_eq!(prefetcher.source().counts().bytes, 0);
}
