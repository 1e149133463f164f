// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decoders that are busy, in a process of their own.
#![cfg(not(loom))]

#[path = "loading/lab.rs"]
#[allow(dead_code)]
mod lab;

use std::sync::mpsc::channel;
use std::sync::Arc;

use lab::{prefetcher, sample, Store};
use zernel_prefetch::prefetcher::Options;
use zernel_prefetch::read::{read, Waves};
use zernel_prefetch::region::Place;

#[tokio::test(start_paused = true)]
async fn reads_go_on_while_chunks_wait_for_a_decoder() {
    let store = Arc::new(Store::default());
    store.write("a", &[4], &[1], &[1]).await;
    // One request at a time: the next is sent when somebody looks at the last.
    let prefetcher = prefetcher(&store, 1, Options::default());
    let stream = prefetcher.stream().expect("the first");
    let batch = stream.submit(vec![sample("a", &[0], &[4])]);
    let plan = batch.planned().await.expect("no fault");
    // All decoders wait.
    let held: Vec<_> = (0..rayon::current_num_threads())
        .map(|_| {
            let (hold, wait) = channel::<()>();
            rayon::spawn(move || {
                let _is_over = wait.recv();
            });
            hold
        })
        .collect();
    store.log();
    let mut bytes = [0; 16];
    let shape = [4];
    let mut places = [Place {
        bytes: &mut bytes,
        shape: &shape,
    }];
    let waves = Waves {
        max_chunks: 1,
        ..Waves::default()
    };
    let reading = read(prefetcher.source(), &plan, 0, waves, &mut places);
    let sent = async {
        tokio::time::sleep(20 * lab::ROUND_TRIP).await;
        drop(held);
        prefetcher.source().counts().requests
    };
    let (read, sent) = tokio::join!(reading, sent);
    // The array is one.
    assert_eq!(sent, 1 + 4);
    read.expect("no fault");
    let numbers = bytes.chunks(4).map(|one| one[0]).collect::<Vec<_>>();
    assert_eq!(numbers, [1, 2, 3, 4]);
}
