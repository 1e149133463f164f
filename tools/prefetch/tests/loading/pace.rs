// SPDX-License-Identifier: MIT OR Apache-2.0
//! The depth of a loader that follows its consumer, and its counts.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use object_store::path::Path;
use object_store::ObjectStoreExt as _;
use zernel_prefetch::loader::{Loader, Settings};
use zernel_prefetch::pace::{Signal, Signals};
use zernel_prefetch::prefetcher::Options;

use crate::lab::{prefetcher, unseen, Ill, Store, ROUND_TRIP};
use crate::loader::row;

const PACED: Settings = Settings {
    paced: true,
    depth: 16,
    lookahead: 16,
    bytes: 1 << 30,
    waves: zernel_prefetch::read::Waves {
        max_chunks: 0,
        max_substreams: 0,
    },
    changes: 3,
    published: false,
};

/// The consumer's time for a batch: two loads.
const SLOW: Duration = Duration::from_millis(2 * ROUND_TRIP.as_millis() as u64);

/// A store with an array of 64 rows, a chunk each, that are not there: nothing is decoded, which takes time
/// that is not simulated. A load is a round trip.
async fn store() -> Arc<Store> {
    let store = Arc::new(Store::default());
    store.write("a", &[64, 8], &[1, 8], &[1, 8]).await;
    for row in 0..64 {
        let place = Path::from(format!("a/c/{row}/0"));
        store.inner.delete(&place).await.expect("a chunk");
    }
    store
}

/// Hands batches over to a consumer that computes so long on each.
async fn consume(loader: &mut Loader, batches: u32, compute: Duration) {
    for _ in 0..batches {
        loader.next().await.expect("one more").expect("no fault");
        tokio::time::sleep(compute).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_depth_follows_the_consumer() {
    let store = store().await;
    let prefetcher = prefetcher(&store, 64, Options::default());
    let mut loader = Loader::new(&prefetcher, PACED, (0..64).map(row)).expect("a stream");
    assert_eq!(loader.counters().depth, 16);
    consume(&mut loader, 40, SLOW).await;
    let slow = loader.counters();
    // One batch ahead, and that of the consumer.
    assert_eq!((slow.batches, slow.depth), (40, 2));
    // The first batch was waited for: its array, and its chunk.
    assert_eq!((slow.late, slow.waited), (1, 2 * ROUND_TRIP));
    // A faster consumer has more ahead, and waits for none when that is so.
    consume(&mut loader, 24, ROUND_TRIP / 4).await;
    let fast = loader.counters();
    assert_eq!(fast.depth, 5);
    assert!(loader.next().await.is_none());
    assert_eq!(loader.counters().batches, 64);
    assert_eq!(loader.counters().bytes, 64 * 32);
}

#[tokio::test(start_paused = true)]
async fn fewer_batches_are_loaded_ahead() {
    let store = store().await;
    let prefetcher = prefetcher(&store, 64, Options::default());
    let mut loader = Loader::new(&prefetcher, PACED, (0..64).map(row)).expect("a stream");
    consume(&mut loader, 40, SLOW).await;
    tokio::time::sleep(100 * ROUND_TRIP).await;
    // Those that are there are handed over at once; the others are still to be loaded.
    let late = loader.counters().late;
    let mut there = 0;
    while loader.counters().late == late {
        loader.next().await.expect("one more").expect("no fault");
        there += 1;
    }
    // The last one was late.
    assert_eq!(there, 2 + 1);
}

#[tokio::test(start_paused = true)]
async fn faults_are_counted() {
    let store = store().await;
    (8..16).for_each(|row| store.fails(&format!("a/c/{row}/0"), Ill::Denied));
    let prefetcher = prefetcher(&store, 64, Options::default());
    let settings = unseen();
    let mut loader = Loader::new(&prefetcher, settings, (0..16).map(row)).expect("a stream");
    while loader.next().await.is_some() {}
    let counters = loader.counters();
    assert_eq!((counters.batches, counters.faults), (16, 8));
    assert_eq!((counters.bytes, counters.depth), (8 * 32, 4));
}

/// Signals as a test gives them.
#[derive(Debug, Clone, Default)]
struct Given(Arc<Mutex<Vec<Signal>>>);

impl Signals for Given {
    fn take(&mut self) -> (u64, Option<Signal>) {
        let mut given = self.0.lock().expect("no panic");
        let taken = (given.len() as u64, given.last().copied());
        given.clear();
        taken
    }
}

#[tokio::test(start_paused = true)]
async fn signals_count_more_than_own_measures() {
    let store = store().await;
    let prefetcher = prefetcher(&store, 64, Options::default());
    let mut loader = Loader::new(&prefetcher, PACED, (0..64).map(row)).expect("a stream");
    let given = Given::default();
    loader.follow(Box::new(given.clone()));
    consume(&mut loader, 40, SLOW).await;
    assert_eq!(loader.counters().depth, 2);
    let signal = |lead: u32| Signal {
        compute: ROUND_TRIP,
        lead: lead * ROUND_TRIP,
    };
    given
        .0
        .lock()
        .expect("no panic")
        .extend([signal(1), signal(6)]);
    consume(&mut loader, 1, SLOW).await;
    let told = loader.counters();
    assert_eq!((told.depth, told.signals), (7, 2));
    // Without more of them it goes by its own measures again.
    consume(&mut loader, 20, SLOW).await;
    assert_eq!((loader.counters().depth, loader.counters().signals), (2, 2));
}
