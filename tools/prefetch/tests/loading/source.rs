// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bounds of a source: requests at once, of one store and of several, and second reads.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use tokio::time::Instant;
use zernel_prefetch::source::{Ask, Bounds, Hedges, Source};
use zernel_prefetch::turnstile::Turnstile;

use crate::lab::{Ill, Store, ROUND_TRIP};

const STALL: Duration = Duration::from_secs(2);

async fn store() -> Arc<Store> {
    let store = Arc::new(Store::default());
    for at in 0..64 {
        let place = Path::from(format!("{at}"));
        store
            .inner
            .put(&place, vec![at; 9].into())
            .await
            .expect("memory");
    }
    store
}

fn source(store: &Arc<Store>, bounds: Bounds) -> Arc<Source> {
    let store: Arc<dyn ObjectStore> = Arc::<Store>::clone(store);
    Source::within(store, bounds)
}

/// Reads objects, all at once.
async fn read(source: &Source, objects: std::ops::Range<u8>) {
    let one = |at: u8| async move {
        let read = source
            .read(Ask::new(&format!("{at}"), 9, u64::from(at)))
            .await;
        let read = read.expect("no fault").expect("an object");
        assert_eq!(read.bytes, vec![at; 9]);
    };
    join_all(objects.map(one)).await;
}

fn hedged(in_flight: usize) -> Bounds {
    Bounds {
        in_flight,
        hedges: Some(Hedges::default()),
        ..Bounds::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_that_is_late_is_sent_a_second_time() {
    let store = store().await;
    let source = source(&store, hedged(64));
    read(&source, 0..64).await;
    store.stalls_once("5", STALL);
    let begin = Instant::now();
    read(&source, 0..64).await;
    // It is late after one and a half times of the others, and the second is as quick as these.
    assert_eq!(begin.elapsed(), ROUND_TRIP.mul_f64(2.5));
    let counts = source.counts();
    assert_eq!(
        (counts.requests, counts.hedges, counts.retries),
        (129, 1, 0)
    );
    // The second can be as late: the first that answers is it.
    store.stalls_once("5", STALL);
    let begin = Instant::now();
    tokio::join!(read(&source, 5..6), async {
        tokio::time::sleep(ROUND_TRIP).await;
        store.stalls_once("5", 2 * STALL);
    });
    assert_eq!(begin.elapsed(), STALL + ROUND_TRIP);
}

#[tokio::test(start_paused = true)]
async fn one_of_the_first_reads_is_late_when_the_others_have_told() {
    let store = store().await;
    let source = source(&store, hedged(64));
    store.stalls_once("5", STALL);
    let begin = Instant::now();
    read(&source, 0..64).await;
    // It is looked at again every 50 ms.
    assert!(begin.elapsed() <= 4 * ROUND_TRIP, "{:?}", begin.elapsed());
    assert_eq!(source.counts().hedges, 1);
}

#[tokio::test(start_paused = true)]
async fn a_second_read_that_fails_is_none() {
    let store = store().await;
    let source = source(&store, hedged(64));
    read(&source, 0..64).await;
    // The first sees the object as it is when it is answered, behind the second.
    store.stalls_once("5", STALL);
    store.fails("5", Ill::Denied);
    let begin = Instant::now();
    tokio::join!(read(&source, 5..6), async {
        tokio::time::sleep(STALL / 2).await;
        store.heals("5");
    });
    assert_eq!(begin.elapsed(), STALL + ROUND_TRIP);
    assert_eq!(source.counts().hedges, 1);
}

#[tokio::test(start_paused = true)]
async fn second_reads_keep_the_bound() {
    let store = store().await;
    for in_flight in [1, 2] {
        let source = source(&store, hedged(in_flight));
        read(&source, 0..64).await;
        store.stalls_once("0", STALL);
        let begin = Instant::now();
        read(&source, 0..8).await;
        assert_eq!(store.at_once(), in_flight);
        match in_flight {
            // There is no room for it.
            1 => assert_eq!(begin.elapsed(), STALL + 8 * ROUND_TRIP),
            // It goes before those behind it: 50 ms of one, 50 ms of the next, then it.
            _ => assert!(begin.elapsed() < STALL, "{:?}", begin.elapsed()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_read_is_waited_for_without_hedges_or_with_times_without_an_end() {
    let never = |factor, least| {
        Some(Hedges {
            factor,
            least,
            ..Hedges::default()
        })
    };
    for hedges in [
        None,
        never(f64::INFINITY, Duration::ZERO),
        never(1.0, Duration::MAX),
    ] {
        let store = store().await;
        let bounds = Bounds {
            hedges,
            ..hedged(64)
        };
        let source = source(&store, bounds);
        read(&source, 0..64).await;
        store.stalls_once("5", STALL);
        let begin = Instant::now();
        read(&source, 0..64).await;
        assert_eq!(begin.elapsed(), STALL + ROUND_TRIP);
        assert_eq!(source.counts().requests, 128);
    }
}

#[tokio::test(start_paused = true)]
async fn stores_share_a_bound() {
    let (one, two) = (store().await, store().await);
    let all = Turnstile::new(3);
    let bounds = || Bounds {
        in_flight: 2,
        all: Some(Arc::clone(&all)),
        ..Bounds::default()
    };
    let begin = Instant::now();
    let (first, second) = (source(&one, bounds()), source(&two, bounds()));
    tokio::join!(read(&first, 0..12), read(&second, 0..12));
    assert_eq!((one.at_once(), two.at_once()), (2, 2));
    // 24 of three at once; the last may be of one store, which has two.
    let rounds = begin.elapsed().div_duration_f64(ROUND_TRIP);
    assert!((8.0..=9.0).contains(&rounds), "{rounds}");
    assert_eq!(all.waiting(), 0);
}
