// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data that is kept in memory.

use std::sync::Arc;

use object_store::path::Path;
use object_store::ObjectStoreExt as _;
use zernel_prefetch::loader::{Loader, Settings};
use zernel_prefetch::prefetcher::{Options, Prefetcher, Sample};

use crate::lab::{prefetcher, sample, Ill, Store};
use crate::read::expected;

/// A store with an array of 8 shards of 8 chunks, one of 64 objects, and 4 of one object each.
async fn store() -> Arc<Store> {
    let store = Arc::new(Store::default());
    store.write("sharded", &[64, 8], &[8, 8], &[1, 8]).await;
    store.write("plain", &[64, 8], &[1, 8], &[1, 8]).await;
    for at in 0..4 {
        let name = format!("small/{at}");
        store.write(&name, &[64, 8], &[64, 8], &[64, 8]).await;
    }
    store
}

fn keeping(store: &Arc<Store>, data: u64) -> Prefetcher {
    let options = Options {
        data,
        ..Options::default()
    };
    prefetcher(store, 64, options)
}

/// Rows of an array.
fn rows(array: &str, rows: std::ops::Range<u64>) -> Vec<Sample> {
    vec![sample(array, &[rows.start, 0], &[rows.end - rows.start, 8])]
}

fn numbers(bytes: &[u8]) -> Vec<u32> {
    let number = |bytes: &[u8]| u32::from_ne_bytes(bytes.try_into().expect("four"));
    bytes.chunks(4).map(number).collect()
}

/// Loads batches, which have to be as they were written, and returns the number of requests.
async fn load(store: &Store, prefetcher: &Prefetcher, batches: Vec<Vec<Sample>>) -> usize {
    store.log();
    let mut loader =
        Loader::new(prefetcher, Settings::default(), batches.into_iter()).expect("a stream");
    while let Some(loaded) = loader.next().await {
        let loaded = loaded.expect("no fault");
        for (sample, data) in loaded.samples.iter().zip(&loaded.data) {
            assert_eq!(numbers(data), expected(&[64, 8], sample));
        }
    }
    store.log().len()
}

#[tokio::test(start_paused = true)]
async fn an_epoch_that_is_in_memory_takes_no_requests() {
    let store = store().await;
    let epoch = || {
        let small = (0..4).map(|at| rows(&format!("small/{at}"), 0..64));
        let plain = (0..8).map(|at| rows("plain", 8 * at..8 * at + 8));
        // Of two shards, and of the whole of two.
        let parts = (0..2).map(|at| rows("sharded", 8 * at + 3..8 * at + 5));
        let whole = (2..4).map(|at| rows("sharded", 8 * at..8 * at + 8));
        small.chain(plain).chain(parts).chain(whole).collect()
    };
    let cold = 4 * 2 + 1 + 64 + 1 + 2 * 2 + 2;
    for (data, warm) in [(0, 4 + 64 + 2 + 2), (1 << 20, 0)] {
        let prefetcher = keeping(&store, data);
        assert_eq!(load(&store, &prefetcher, epoch()).await, cold);
        assert_eq!(load(&store, &prefetcher, epoch()).await, warm, "{data}");
        assert_eq!(prefetcher.kept() > 0, data > 0);
    }
    // Beside chunks that are known others are read alone.
    let prefetcher = keeping(&store, 1 << 20);
    load(&store, &prefetcher, vec![rows("sharded", 2..4)]).await;
    for (more, requests) in [(1..5, 1), (0..6, 1), (0..6, 0), (0..8, 1), (7..9, 2)] {
        let batch = vec![rows("sharded", more.clone())];
        assert_eq!(load(&store, &prefetcher, batch).await, requests, "{more:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_cache_keeps_most_of_what_it_has() {
    let store = store().await;
    // There is one entry for 2 KiB.
    let bytes = 16 << 11;
    let prefetcher = keeping(&store, bytes);
    let epoch = || (0..64).map(|at| rows("plain", at..at + 1)).collect();
    assert_eq!(load(&store, &prefetcher, epoch()).await, 1 + 64);
    for _ in 0..8 {
        let requests = load(&store, &prefetcher, epoch()).await;
        // All but those that fit; and one of 16 that were read has taken the place of another.
        assert!((48..=52).contains(&requests), "{requests}");
        assert!(prefetcher.kept() <= bytes);
    }
    // Others come in with time.
    let other = || (0..16).map(|at| rows("sharded", at..at + 1)).collect();
    let first = load(&store, &prefetcher, other()).await;
    let mut last = first;
    for _ in 0..64 {
        last = load(&store, &prefetcher, other()).await;
    }
    assert!(last < 8, "{first} requests, and then {last}");
    // Of 4 chunks of 2 KiB, and 256 bytes for each, 2 fit.
    let prefetcher = keeping(&store, 2 * (2_048 + 256));
    let small = || {
        (0..4)
            .map(|at| rows(&format!("small/{at}"), 0..64))
            .collect()
    };
    assert_eq!(load(&store, &prefetcher, small()).await, 8);
    assert_eq!(load(&store, &prefetcher, small()).await, 2);
    assert_eq!(prefetcher.kept(), 2 * (2_048 + 256));
    // One that does not fit at all is not kept.
    let prefetcher = keeping(&store, 100);
    assert_eq!(load(&store, &prefetcher, epoch()).await, 1 + 64);
    assert_eq!(load(&store, &prefetcher, epoch()).await, 64);
    assert_eq!(prefetcher.kept(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_stands_until_it_is_renewed() {
    let store = store().await;
    let prefetcher = keeping(&store, 1 << 20);
    let all = || {
        ["sharded", "plain"]
            .map(|array| rows(array, 3..5))
            .into_iter()
    };
    load(&store, &prefetcher, all().collect()).await;
    // Shards of other versions, with other data.
    for array in ["sharded", "plain"] {
        for object in 0..5 {
            let place = Path::from(format!("{array}/c/{object}/0"));
            let bytes = store.inner.get(&place).await.expect("an object");
            let mut bytes = bytes.bytes().await.expect("memory").to_vec();
            let end = bytes.len().min(8 * 32);
            bytes[..end].fill(0);
            store.inner.put(&place, bytes.into()).await.expect("memory");
        }
    }
    assert_eq!(load(&store, &prefetcher, all().collect()).await, 0);
    let first = |loaded: &[u8]| numbers(loaded)[0];
    let one = |batch| async {
        let batches = std::iter::once(batch);
        let loader = Loader::new(&prefetcher, Settings::default(), batches);
        let loaded = loader.expect("a stream").next().await.expect("one");
        loaded.expect("no fault").data.remove(0)
    };
    // A chunk that is read beside them tells that the shard has changed: all are read anew.
    let mixed = one(rows("sharded", 3..6)).await;
    assert_eq!(numbers(&mixed), [0; 24]);
    // An object that is one chunk has no others.
    assert_eq!(first(&one(rows("plain", 3..5)).await), 25);
    prefetcher.renew();
    assert_eq!(prefetcher.kept(), 0);
    assert_eq!(first(&one(rows("plain", 3..5)).await), 0);
    assert_eq!(first(&one(rows("sharded", 3..5)).await), 0);
}

#[tokio::test(start_paused = true)]
async fn faults_are_not_kept() {
    let store = store().await;
    let prefetcher = keeping(&store, 1 << 20);
    let one = || async {
        let batches = std::iter::once(rows("plain", 0..1));
        let loader = Loader::new(&prefetcher, Settings::default(), batches);
        let loaded = loader.expect("a stream").next().await.expect("one");
        loaded.map(|loaded| loaded.data)
    };
    store.fails("plain/c/0/0", Ill::Denied);
    one().await.expect_err("denied");
    store.heals("plain/c/0/0");
    one().await.expect("no fault");
    // Nor is a chunk that is not there.
    let place = Path::from("plain/c/1/0");
    let object = store.inner.get(&place).await.expect("an object");
    let object = object.bytes().await.expect("memory");
    store.inner.delete(&place).await.expect("memory");
    let batches = || vec![rows("plain", 1..2)].into_iter();
    let mut loader = Loader::new(&prefetcher, Settings::default(), batches()).expect("a stream");
    let loaded = loader.next().await.expect("one").expect("no fault");
    assert_eq!(numbers(&loaded.data[0]), [7; 8]);
    store
        .inner
        .put(&place, object.into())
        .await
        .expect("memory");
    assert_eq!(load(&store, &prefetcher, batches().collect()).await, 1);
}
