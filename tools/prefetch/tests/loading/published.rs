// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counters of a loader, as others find them.

use std::sync::Arc;
use std::time::Duration;

use libzernel::loader::{of_process, Pace, Record};
use zernel_prefetch::loader::{Loader, Settings};
use zernel_prefetch::pace::{Signal, Signals};
use zernel_prefetch::prefetcher::Options;

use crate::lab::{prefetcher, Ill, Store};
use crate::loader::row;

/// The longest time until loaders of other tests leave room for this one.
const LOOKS: usize = 600;

/// The records of loaders with so many bytes; other tests have loaders in this process, too.
fn records(bytes: u64) -> Vec<Record> {
    let listed = of_process(std::process::id()).expect("this process");
    let all = listed.loaders.into_iter().map(|one| one.record);
    all.filter(|one| one.bytes_max == bytes).collect()
}

/// The record that `is_it`, as soon as it is found.
fn find(bytes: u64, is_it: impl Fn(&Record) -> bool) -> Record {
    for _ in 0..LOOKS {
        if let Some(record) = records(bytes).into_iter().find(&is_it) {
            return record;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("not found: {:?}", records(bytes));
}

fn settings(bytes: u64, paced: bool) -> Settings {
    Settings {
        bytes,
        paced,
        ..Settings::default()
    }
}

async fn store() -> Arc<Store> {
    let store = Arc::new(Store::default());
    store.write("a", &[64, 8], &[8, 8], &[1, 8]).await;
    store
}

#[derive(Debug)]
struct Always;

impl Signals for Always {
    fn take(&mut self) -> (u64, Option<Signal>) {
        let time = Duration::from_millis(10);
        let (compute, lead) = (time, time);
        (2, Some(Signal { compute, lead }))
    }
}

#[tokio::test(start_paused = true)]
async fn counters_are_found_until_the_loader_is_gone() {
    const BYTES: u64 = 123 << 20;
    let store = store().await;
    store.fails("a/c/1/0", Ill::Denied);
    let prefetcher = prefetcher(&store, 64, Options::default());
    let samples = (0..64).map(row);
    let mut loader = Loader::new(&prefetcher, settings(BYTES, false), samples).expect("a stream");
    let begun = find(BYTES, |_| true);
    assert_eq!((begun.batches, begun.depth, begun.depth_max), (0, 4, 4));
    assert_eq!(begun.pace, Pace::Fixed);
    for batch in 0..9 {
        let loaded = loader.next().await.expect("one more");
        assert_eq!(loaded.is_err(), batch == 8);
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let found = find(BYTES, |one| one.batches == 9);
    let (counters, counts) = (loader.counters(), prefetcher.source().counts());
    assert_eq!((found.faults, found.late), (1, counters.late));
    assert_eq!(u128::from(found.waited_ns), counters.waited.as_nanos());
    assert!(found.waited_ns > 0 && found.bytes == counters.bytes);
    assert_eq!(found.requests, counts.requests);
    assert_eq!(
        (found.retries, found.hedges),
        (counts.retries, counts.hedges)
    );
    assert_eq!((found.read_bytes, found.ahead), (counts.bytes, 4));
    // Each takes a page of the budget.
    assert_eq!(found.bytes_ahead, 4 * 4_096);
    assert_eq!(found.metadata_bytes, prefetcher.used());
    drop(loader);
    // The task ends when the runtime next has a moment.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(records(BYTES), []);
}

#[tokio::test(start_paused = true)]
async fn the_source_of_the_depth_is_told() {
    const BYTES: u64 = 124 << 20;
    let store = store().await;
    let prefetcher = prefetcher(&store, 64, Options::default());
    let samples = (0..64).map(row);
    let mut loader = Loader::new(&prefetcher, settings(BYTES, true), samples).expect("a stream");
    assert_eq!(find(BYTES, |_| true).pace, Pace::Own);
    loader.follow(Box::new(Always));
    for _ in 0..2 {
        loader.next().await.expect("one more").expect("no fault");
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let found = find(BYTES, |one| one.batches == 2);
    assert_eq!((found.pace, found.signals), (Pace::Zernel, 4));
}

#[tokio::test(start_paused = true)]
async fn a_loader_that_is_not_to_be_seen_is_not() {
    const BYTES: u64 = 125 << 20;
    let store = store().await;
    let prefetcher = prefetcher(&store, 64, Options::default());
    let settings = Settings {
        published: false,
        ..settings(BYTES, false)
    };
    let mut loader = Loader::new(&prefetcher, settings, (0..64).map(row)).expect("a stream");
    loader.next().await.expect("one more").expect("no fault");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(records(BYTES), []);
}
