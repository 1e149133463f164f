// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays that the group of a store tells of.

use std::sync::Arc;

use object_store::path::Path;
use object_store::ObjectStoreExt as _;
use serde_json::{json, Map, Value};
use tokio::time::Instant;
use zernel_prefetch::loader::{Loader, Settings};
use zernel_prefetch::prefetcher::{Format, Options, Sample};
use zernel_prefetch::Kind;

use crate::lab::{prefetcher, sample, Ill, Store, ROUND_TRIP};

const CONSOLIDATED: Options = options();

const fn options() -> Options {
    Options {
        consolidated: true,
        bytes: 256 << 20,
        floor_arrays: 16 << 20,
        floor_shards: 64 << 20,
        arrays: 1 << 10,
        shards: 1 << 10,
        keep_faults: std::time::Duration::from_secs(60),
        longest_wait: std::time::Duration::from_secs(60),
        gap: 64 << 10,
        longest_range: 8 << 20,
        format: Format::Any,
        data: 0,
    }
}

async fn put(store: &Store, place: &str, bytes: impl Into<object_store::PutPayload>) {
    let place = Path::from(place);
    store.inner.put(&place, bytes.into()).await.expect("memory");
}

/// Has the group tell of arrays, as they are described now.
async fn consolidate(store: &Store, arrays: &[&str]) {
    let mut metadata = Map::new();
    for array in arrays {
        let place = Path::from(format!("{array}/zarr.json"));
        let json = store.inner.get(&place).await.expect("an array");
        let json: Value =
            serde_json::from_slice(&json.bytes().await.expect("memory")).expect("JSON");
        metadata.insert((*array).to_owned(), json);
    }
    let group = json!({"zarr_format": 3, "node_type": "group", "consolidated_metadata": {
        "kind": "inline", "must_understand": false, "metadata": metadata}});
    put(store, "zarr.json", group.to_string()).await;
}

/// A store with arrays of one chunk, of all of which but the last the group tells.
async fn store() -> (Arc<Store>, Vec<String>) {
    let store = Arc::new(Store::default());
    let names: Vec<_> = (0..9).map(|at| format!("in/{at}")).collect();
    for name in &names {
        store.write(name, &[4], &[4], &[4]).await;
    }
    let told: Vec<_> = names.iter().map(String::as_str).take(8).collect();
    consolidate(&store, &told).await;
    (store, names)
}

fn all(names: &[String]) -> Vec<Sample> {
    let samples = names.iter().map(|name| sample(name, &[0], &[4]));
    samples.collect()
}

#[tokio::test(start_paused = true)]
async fn arrays_of_a_group_take_one_request() {
    let (store, names) = store().await;
    for in_flight in [1, 64] {
        let prefetcher = prefetcher(&store, in_flight, CONSOLIDATED);
        let stream = prefetcher.stream().expect("the first");
        let begin = Instant::now();
        let batch = stream.submit(all(&names[..8]));
        assert_eq!(batch.planned().await.expect("no fault").requests(), 8);
        assert_eq!(begin.elapsed(), ROUND_TRIP);
        assert_eq!(store.log(), ["zarr.json"]);
        // It is not asked for again; an array that it does not tell of has a file of its own.
        let batch = stream.submit(all(&names));
        assert_eq!(batch.planned().await.expect("no fault").requests(), 9);
        assert_eq!(store.log(), ["in/8/zarr.json"]);
        let batch = stream.submit(vec![sample("none", &[0], &[1])]);
        let fault = batch.planned().await.expect_err("there is none");
        assert_eq!(fault.kind(), Kind::Missing);
        // All anew.
        prefetcher.renew();
        store.log();
        let batch = stream.submit(all(&names[..8]));
        batch.planned().await.expect("no fault");
        assert_eq!(store.log(), ["zarr.json"]);
    }
}

#[tokio::test(start_paused = true)]
async fn groups_of_version_2_tell_of_arrays() {
    let (store, _) = store().await;
    store
        .inner
        .delete(&Path::from("zarr.json"))
        .await
        .expect("memory");
    let array = json!({"zarr_format": 2, "shape": [5], "chunks": [2], "dtype": "<i4", "order": "C",
        "fill_value": 0, "filters": null, "compressor": null});
    let group = json!({"zarr_consolidated_format": 1, "metadata": {"old/.zarray": array}});
    put(&store, ".zmetadata", group.to_string()).await;
    for (format, log) in [
        (Format::Any, &["zarr.json", ".zmetadata"][..]),
        (Format::V2, &[".zmetadata"]),
    ] {
        let options = Options {
            format,
            ..CONSOLIDATED
        };
        let stream = prefetcher(&store, 64, options).stream().expect("the first");
        let batch = stream.submit(vec![sample("old", &[0], &[5])]);
        assert_eq!(batch.planned().await.expect("no fault").requests(), 3);
        assert_eq!(store.log(), log);
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_not_there_tells_of_none() {
    let (store, names) = store().await;
    store
        .inner
        .delete(&Path::from("zarr.json"))
        .await
        .expect("memory");
    let stream = prefetcher(&store, 64, CONSOLIDATED)
        .stream()
        .expect("the first");
    let batch = stream.submit(all(&names));
    assert_eq!(batch.planned().await.expect("no fault").requests(), 9);
    assert_eq!(store.log().len(), 2 + 9);
}

#[tokio::test(start_paused = true)]
async fn faults_of_a_group_are_those_of_its_arrays_until_it_is_whole() {
    let (store, names) = store().await;
    let stream = prefetcher(
        &store,
        64,
        Options {
            keep_faults: std::time::Duration::ZERO,
            ..CONSOLIDATED
        },
    )
    .stream()
    .expect("the first");
    let read = || async {
        let batch = stream.submit(all(&names));
        let planned = batch.planned().await;
        batch.batch().drained().await;
        planned
            .map(|plan| plan.requests())
            .map_err(|fault| fault.kind())
    };
    store.fails("zarr.json", Ill::Denied);
    assert_eq!(read().await, Err(Kind::Denied));
    store.heals("zarr.json");
    put(&store, "zarr.json", "{").await;
    assert_eq!(read().await, Err(Kind::Corrupt));
    put(&store, "zarr.json", vec![b' '; (16 << 20) + 1]).await;
    assert_eq!(read().await, Err(Kind::TooLarge));
    consolidate(&store, &[&names[0], &names[3]]).await;
    assert_eq!(read().await, Ok(9));
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_a_group_is_kept_for_all_arrays_and_then_asked_for_anew() {
    let (store, names) = store().await;
    put(&store, "zarr.json", "{").await;
    let options = Options {
        keep_faults: std::time::Duration::from_secs(3),
        ..CONSOLIDATED
    };
    let prefetcher = prefetcher(&store, 64, options);
    let stream = prefetcher.stream().expect("the first");
    for name in &names {
        let batch = stream.submit(all(std::slice::from_ref(name)));
        let fault = batch.planned().await.expect_err("no group");
        assert_eq!(fault.kind(), Kind::Corrupt);
    }
    assert_eq!(store.log(), ["zarr.json"]);
    tokio::time::advance(std::time::Duration::from_secs(3)).await;
    consolidate(&store, &[&names[8]]).await;
    // The arrays have their own clock, which is not that of the test.
    let batch = stream.submit(vec![sample("in/9", &[0], &[1])]);
    assert_eq!(
        batch.planned().await.expect_err("none").kind(),
        Kind::Missing
    );
    assert_eq!(store.log()[0], "zarr.json");
    // One that may be over at once is not kept.
    prefetcher.renew();
    store.fails("zarr.json", Ill::Shorter);
    for at in [10, 11] {
        let batch = stream.submit(vec![sample(&format!("in/{at}"), &[0], &[1])]);
        let fault = batch.planned().await.expect_err("it broke off");
        assert_eq!(fault.kind(), Kind::Unavailable);
        assert!(!store.log().is_empty(), "{at}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_is_read_anew_when_its_arrays_change() {
    let store = Arc::new(Store::default());
    store.write("a", &[64, 8], &[8, 8], &[1, 8]).await;
    consolidate(&store, &["a"]).await;
    let prefetcher = prefetcher(&store, 64, CONSOLIDATED);
    for shard in [[8, 8], [16, 8], [4, 8]] {
        store.write("a", &[64, 8], &shard, &[2, 8]).await;
        consolidate(&store, &["a"]).await;
        let rows = (0..64).map(|at| vec![sample("a", &[at, 0], &[1, 8])]);
        let mut loader = Loader::new(&prefetcher, Settings::default(), rows).expect("a stream");
        for at in 0..64_u32 {
            let loaded = loader.next().await.expect("one more").expect("no fault");
            let expected: Vec<u8> = (1..=8)
                .flat_map(|column| (8 * at + column).to_ne_bytes())
                .collect();
            assert_eq!(loaded.data, [expected], "{shard:?} {at}");
        }
    }
}
