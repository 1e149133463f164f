// SPDX-License-Identifier: MIT OR Apache-2.0
//! One who is told of a batch of the loader, as a request of zernel is.

use std::sync::{Arc, Mutex};

use tokio::time::Instant;
use zernel_prefetch::batch::Ready;
use zernel_prefetch::loader::{Loader, Settings};
use zernel_prefetch::prefetcher::Options;
use zernel_prefetch::{Fault, Kind};

use crate::lab::{prefetcher, unseen, Ill, ROUND_TRIP};
use crate::loader::{row, store};

/// When one was told, and of which fault.
type Telling = (Instant, Option<Kind>);

/// All that one was told.
#[derive(Debug, Clone, Default)]
struct Told(Arc<Mutex<Vec<Telling>>>);

impl Told {
    fn tell(&self, fault: Option<Kind>) {
        let now = Instant::now();
        self.0.lock().expect("no panic").push((now, fault));
    }

    fn all(&self) -> Vec<Telling> {
        self.0.lock().expect("no panic").clone()
    }

    /// Nobody else holds it: it was dropped.
    fn is_alone(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

impl Ready for Told {
    fn ready(&self) {
        self.tell(None);
    }

    fn failed(&self, fault: &Fault) {
        self.tell(Some(fault.kind()));
    }
}

#[tokio::test(start_paused = true)]
async fn ready_is_told_when_the_last_chunk_is_there() {
    let store = store().await;
    let prefetcher = prefetcher(&store, 64, Options::default());
    let settings = Settings {
        depth: 2,
        ..unseen()
    };
    let mut loader = Loader::new(&prefetcher, settings, (0..3).map(row)).expect("a stream");
    let begin = Instant::now();
    let first = Told::default();
    let loaded = loader.next_with(Box::new(first.clone())).await;
    assert!(loaded.is_some_and(|loaded| loaded.is_ok()));
    // The array, the index, the data.
    assert_eq!(first.all(), [(begin + 3 * ROUND_TRIP, None)]);
    assert!(first.is_alone());
    // One that is there is told at once.
    tokio::time::sleep(10 * ROUND_TRIP).await;
    let (second, now) = (Told::default(), Instant::now());
    loader.next_with(Box::new(second.clone())).await;
    assert_eq!(second.all(), [(now, None)]);
    loader.next().await.expect("one more").expect("no fault");
    // There is no batch to be told of.
    let last = Told::default();
    assert!(loader.next_with(Box::new(last.clone())).await.is_none());
    assert!(last.all().is_empty() && last.is_alone());
}

#[tokio::test(start_paused = true)]
async fn a_fault_is_told_as_it_comes() {
    let store = store().await;
    store.fails("a/c/0/0", Ill::Denied);
    let prefetcher = prefetcher(&store, 64, Options::default());
    let mut loader = Loader::new(&prefetcher, unseen(), (0..1).map(row)).expect("a stream");
    let told = Told::default();
    let loaded = loader.next_with(Box::new(told.clone())).await;
    let fault = loaded.expect("one").expect_err("it is denied");
    assert!(matches!(told.all()[..], [(_, Some(kind))] if kind == fault.kind()));
    assert!(told.is_alone());
}

#[tokio::test(start_paused = true)]
async fn the_first_is_told_of_a_batch_that_is_waited_for_again() {
    let store = store().await;
    let prefetcher = prefetcher(&store, 64, Options::default());
    let mut loader = Loader::new(&prefetcher, unseen(), (0..1).map(row)).expect("a stream");
    let (first, second) = (Told::default(), Told::default());
    let early = tokio::time::timeout(ROUND_TRIP, loader.next_with(Box::new(first.clone()))).await;
    assert!(early.is_err());
    let loaded = loader.next_with(Box::new(second.clone())).await;
    assert!(loaded.is_some_and(|loaded| loaded.is_ok()));
    assert_eq!((first.all().len(), second.all().len()), (1, 0));
    assert!(second.is_alone());
}

#[tokio::test(start_paused = true)]
async fn a_loader_that_is_dropped_tells_nobody() {
    let store = store().await;
    let prefetcher = prefetcher(&store, 64, Options::default());
    let mut loader = Loader::new(&prefetcher, unseen(), (0..1).map(row)).expect("a stream");
    let told = Told::default();
    let early = tokio::time::timeout(ROUND_TRIP, loader.next_with(Box::new(told.clone()))).await;
    assert!(early.is_err());
    drop(loader);
    tokio::time::sleep(10 * ROUND_TRIP).await;
    assert!(told.all().is_empty() && told.is_alone());
}
