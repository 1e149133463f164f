// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loader: order, bounds, faults of one batch, and objects that change.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use object_store::path::Path;
use object_store::ObjectStoreExt as _;
use tokio::time::Instant;
use zernel_prefetch::loader::{Loader, Settings};
use zernel_prefetch::order::{Order, Position};
use zernel_prefetch::prefetcher::{Options, Sample};
use zernel_prefetch::Kind;

use crate::lab::{prefetcher, sample, unseen, Ill, Store, Tags, ROUND_TRIP};

/// A store with an array of 64 rows of 8 numbers: 8 shards of 8 rows, each row a chunk.
pub async fn store() -> Arc<Store> {
    let store = Arc::new(Store::default());
    store.write("a", &[64, 8], &[8, 8], &[1, 8]).await;
    store
}

pub fn row(at: u64) -> Vec<Sample> {
    vec![sample("a", &[at, 0], &[1, 8])]
}

fn numbers(at: u64) -> Vec<u8> {
    (1..=8)
        .flat_map(|column| (8 * at as u32 + column).to_ne_bytes())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn batches_come_in_order_and_hide_their_round_trips() {
    let store = store().await;
    let prefetcher = prefetcher(&store, 64, Options::default());
    let rows = || (0..64).map(|at| at * 37 % 64);
    let mut loader = Loader::new(&prefetcher, unseen(), rows().map(row)).expect("a stream");
    let begin = Instant::now();
    for (number, at) in rows().enumerate() {
        let asked = Instant::now();
        let loaded = loader.next().await.expect("one more").expect("no fault");
        assert_eq!(loaded.data, [numbers(at)]);
        // A program that takes as long as a round trip waits for the first batch alone.
        if number > 0 {
            assert_eq!(asked.elapsed(), Duration::ZERO, "batch {number}");
        }
        tokio::time::sleep(ROUND_TRIP).await;
    }
    assert!(loader.next().await.is_none());
    assert_eq!(begin.elapsed(), (3 + 64) * ROUND_TRIP);
}

#[tokio::test(start_paused = true)]
async fn reading_ahead_is_bounded() {
    let row_bytes = 32;
    for (settings, expected) in [
        (
            Settings {
                depth: 3,
                ..unseen()
            },
            3,
        ),
        (
            Settings {
                bytes: 2 * 4_096,
                ..unseen()
            },
            2,
        ),
        (
            Settings {
                depth: 0,
                ..unseen()
            },
            1,
        ),
    ] {
        let store = store().await;
        let prefetcher = prefetcher(&store, 64, Options::default());
        let submitted = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&submitted);
        let count = move |_: &Vec<Sample>| {
            counted.fetch_add(1, Ordering::Relaxed);
        };
        let lookahead = 5;
        let settings = Settings {
            lookahead,
            ..settings
        };
        let all = (0..64).map(row).inspect(count);
        let mut loader = Loader::new(&prefetcher, settings, all).expect("a stream");
        tokio::time::sleep(Duration::from_secs(10)).await;
        let data = || prefetcher.source().counts().bytes;
        let before = data();
        // One more waits for room, and has left the lookahead.
        assert_eq!(submitted.load(Ordering::Relaxed), expected + lookahead);
        loader.next().await.expect("one more").expect("no fault");
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(submitted.load(Ordering::Relaxed), expected + lookahead + 1);
        assert!(data() >= before + row_bytes, "no more was read");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_is_that_of_its_batch() {
    let store = store().await;
    store.fails("a/c/1/0", Ill::Denied);
    let prefetcher = prefetcher(&store, 64, Options::default());
    let mut loader = Loader::new(&prefetcher, unseen(), (0..24).map(row)).expect("a stream");
    for at in 0..24 {
        let loaded = loader.next().await.expect("one more");
        match at / 8 {
            1 => assert_eq!(loaded.expect_err("denied").kind(), Kind::Denied),
            _ => assert_eq!(loaded.expect("no fault").data, [numbers(at)]),
        }
    }
    assert!(loader.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn objects_that_change_are_read_anew() {
    let store = store().await;
    let prefetcher = prefetcher(&store, 64, Options::default());
    let keep = prefetcher.stream().expect("one");
    let known = keep.submit(row(0));
    known.planned().await.expect("no fault");
    store.write("a", &[64, 8], &[8, 8], &[1, 8]).await;
    let load = |settings| Loader::new(&prefetcher, settings, std::iter::once(row(0)));
    let never = Settings {
        changes: 0,
        ..unseen()
    };
    let loaded = load(never).expect("a stream").next().await.expect("one");
    assert_eq!(loaded.expect_err("it changed").kind(), Kind::Changed);
    let loaded = load(unseen()).expect("a stream").next().await.expect("one");
    assert_eq!(loaded.expect("no fault").data, [numbers(0)]);
    // Those who have the old index see what they had.
    assert!(known.plan().is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_array_in_another_shape_is_read_anew_with_and_without_versions() {
    for tags in [Tags::Strong, Tags::Weak, Tags::None] {
        // Longer and shorter shards than before.
        for shard in [[16, 8], [4, 8]] {
            let store = store().await;
            store.tags(tags);
            let prefetcher = prefetcher(&store, 64, Options::default());
            let load = || {
                let rows = (0..64).map(row);
                Loader::new(&prefetcher, unseen(), rows).expect("a stream")
            };
            let mut known = load();
            while let Some(loaded) = known.next().await {
                loaded.expect("no fault");
            }
            store.write("a", &[64, 8], &shard, &[2, 8]).await;
            let mut loader = load();
            for at in 0..64 {
                let loaded = loader.next().await.expect("one more");
                let loaded = loaded.unwrap_or_else(|fault| panic!("{tags:?} {shard:?}: {fault}"));
                assert_eq!(loaded.data, [numbers(at)], "{tags:?} {shard:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_loader_that_is_dropped_ends_its_work() {
    let store = store().await;
    let prefetcher = prefetcher(&store, 1, Options::default());
    // All metadata is there when the first data is on its way; other batches wait for their turn.
    let settings = Settings {
        lookahead: 1,
        ..unseen()
    };
    let loader = Loader::new(&prefetcher, settings, (0..8).map(row)).expect("a stream");
    tokio::time::sleep(5 * ROUND_TRIP / 2).await;
    let requests = || prefetcher.source().counts().requests;
    assert_eq!(requests(), 3);
    drop(loader);
    tokio::time::sleep(100 * ROUND_TRIP).await;
    assert_eq!(requests(), 3);
}

#[tokio::test(start_paused = true)]
async fn one_who_stops_waiting_misses_no_batch() {
    let store = store().await;
    let prefetcher = prefetcher(&store, 1, Options::default());
    let settings = Settings {
        depth: 1,
        ..unseen()
    };
    let mut loader = Loader::new(&prefetcher, settings, (0..8).map(row)).expect("a stream");
    let (mut all, mut waits) = (Vec::new(), 0);
    loop {
        match tokio::time::timeout(ROUND_TRIP / 3, loader.next()).await {
            Ok(Some(loaded)) => all.extend(loaded.expect("no fault").data),
            Ok(None) => break,
            Err(_) => waits += 1,
        }
    }
    assert!(waits > 8, "{waits}");
    assert_eq!(all, (0..8).map(numbers).collect::<Vec<_>>());
    assert!(loader.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn batches_that_panic_are_no_end() {
    let store = store().await;
    let prefetcher = prefetcher(&store, 64, Options::default());
    let settings = Settings {
        lookahead: 1,
        ..unseen()
    };
    let batches = (0..3).map(|at| match at {
        2 => panic!("of the caller"),
        at => row(at),
    });
    let mut loader = Loader::new(&prefetcher, settings, batches).expect("a stream");
    for at in 0..2 {
        let loaded = loader.next().await.expect("one more");
        assert_eq!(loaded.expect("no fault").data, [numbers(at)]);
    }
    let fault = loader.next().await.expect("a fault").expect_err("a fault");
    assert_eq!(fault.kind(), Kind::Misuse);
    assert!(loader.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_loader_is_resumed_behind_each_of_its_batches() {
    let store = store().await;
    let prefetcher = prefetcher(&store, 64, Options::default());
    let order = Order {
        samples: 8,
        batch: 1,
        seed: Some(3),
        rank: 0,
        ranks: 1,
    };
    let load = |position, count| {
        let batches = order.from(position).expect("an order").placed().take(count);
        let batches = batches.map(|(behind, at)| (behind, row(at[0])));
        Loader::placed(&prefetcher, unseen(), batches).expect("a stream")
    };
    let mut whole = load(Position::default(), 12);
    let mut parts = load(Position::default(), 1);
    while let Some(loaded) = whole.next().await {
        let loaded = loaded.expect("no fault");
        let part = parts.next().await.expect("one").expect("no fault");
        assert_eq!(part.data, loaded.data);
        assert_eq!(part.behind, loaded.behind);
        parts = load(part.behind.expect("an order"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_box_that_no_memory_holds_is_a_fault() {
    let store = store().await;
    let json = r#"{"zarr_format": 2, "shape": [281474976710656], "chunks": [2147483648],
        "dtype": "|u1", "order": "C", "fill_value": 0, "filters": null, "compressor": null}"#;
    store
        .inner
        .put(&Path::from("large/.zarray"), json.into())
        .await
        .expect("memory");
    let prefetcher = prefetcher(&store, 64, Options::default());
    let batches = [vec![sample("large", &[0], &[1 << 48])], row(1)];
    let mut loader = Loader::new(&prefetcher, unseen(), batches.into_iter());
    let loader = loader.as_mut().expect("a stream");
    let fault = loader.next().await.expect("one").expect_err("no memory");
    assert_eq!(fault.kind(), Kind::TooLarge);
    let loaded = loader.next().await.expect("one more").expect("no fault");
    assert_eq!(loaded.data, [numbers(1)]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_came_waits_for_none_behind_it() {
    let store = store().await;
    let prefetcher = prefetcher(&store, 64, Options::default());
    let settings = Settings {
        depth: 1,
        ..unseen()
    };
    let (send, mut come) = tokio::sync::mpsc::unbounded_channel();
    let batches = stream::poll_fn(move |context| come.poll_recv(context));
    let mut loader = Loader::streamed(&prefetcher, settings, batches).expect("a stream");
    let submit = |at: u64| {
        let behind = Position {
            epoch: 0,
            batch: at + 1,
        };
        send.send((behind, row(at))).expect("a loader");
    };
    submit(0);
    tokio::time::sleep(10 * ROUND_TRIP).await;
    // Its array, its index and its data.
    assert_eq!(store.log(), ["a/zarr.json", "a/c/0/0", "a/c/0/0"]);
    let mut next = async || loader.next().await.expect("one more").expect("no fault");
    assert_eq!(next().await.data, [numbers(0)]);
    // One is loaded and fills the depth, another waits: the metadata of those behind is read meanwhile.
    submit(1);
    submit(2);
    tokio::time::sleep(10 * ROUND_TRIP).await;
    store.log();
    submit(24);
    submit(40);
    tokio::time::sleep(10 * ROUND_TRIP).await;
    assert_eq!(store.log(), ["a/c/3/0", "a/c/5/0"]);
    for at in [1, 2, 24, 40] {
        let loaded = next().await;
        assert_eq!(loaded.data, [numbers(at)]);
        assert_eq!(loaded.behind.map(|behind| behind.batch), Some(at + 1));
    }
    drop(send);
    assert!(loader.next().await.is_none());
}
