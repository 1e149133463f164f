// SPDX-License-Identifier: MIT OR Apache-2.0
//! A store that is asked over a connection in memory, in simulated time.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::time::Instant;
use zernel_store::objects::Objects;
use zernel_store::server::{Counts, Store, COUNTS};

fn store(weather: &str) -> Arc<Store> {
    let mut objects = Objects::default();
    objects.put("a", Bytes::from_static(b"0123456789"));
    objects.put("large", Bytes::from(vec![7; 200_000]));
    Store::new(objects, weather.parse().expect("a weather"))
}

fn connect(store: &Arc<Store>) -> DuplexStream {
    let (client, server) = tokio::io::duplex(1 << 20);
    tokio::spawn(Arc::clone(store).connection(server));
    client
}

/// The status and the body of an answer.
async fn ask(stream: &mut DuplexStream, method: &str, path: &str, more: &str) -> (u16, Vec<u8>) {
    let request = format!("{method} {path} HTTP/1.1\r\nhost: a\r\n{more}\r\n");
    stream.write_all(request.as_bytes()).await.expect("memory");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("an answer"));
    }
    let head = String::from_utf8(head).expect("ASCII");
    let status = head
        .split(' ')
        .nth(1)
        .expect("a status")
        .parse()
        .expect("a number");
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |length| length.parse().expect("a number"));
    let mut body = vec![0; if method == "HEAD" { 0 } else { length }];
    stream.read_exact(&mut body).await.expect("a body");
    (status, body)
}

#[tokio::test(start_paused = true)]
async fn connections_and_requests_wait() {
    let store = store("connect=30,latency=50");
    let begin = Instant::now();
    let mut stream = connect(&store);
    assert_eq!(
        ask(&mut stream, "GET", "/a", "").await,
        (200, b"0123456789".to_vec())
    );
    assert_eq!(begin.elapsed(), Duration::from_millis(80));
    let range = "range: bytes=2-3\r\n";
    assert_eq!(
        ask(&mut stream, "GET", "/a", range).await,
        (206, b"23".to_vec())
    );
    assert_eq!(begin.elapsed(), Duration::from_millis(130));
    // Other connections do not wait for this one.
    let (mut one, mut two) = (connect(&store), connect(&store));
    let begin = Instant::now();
    let both = tokio::join!(
        ask(&mut one, "GET", "/b", ""),
        ask(&mut two, "HEAD", "/a", "")
    );
    assert_eq!((both.0 .0, both.1 .0), (404, 200));
    assert_eq!(begin.elapsed(), Duration::from_millis(80));
    let expected = Counts {
        connections: 3,
        requests: 4,
        errors: 0,
        bytes: 12,
        at_once: 2,
    };
    assert_eq!(store.counts(), expected);
}

#[tokio::test(start_paused = true)]
async fn requests_fail_and_stall_as_their_fates_say() {
    let store = store("latency=10,stalls=0.2,stall=2000,errors=0.3,seed=5");
    let weather = "latency=10,stalls=0.2,stall=2000,errors=0.3,seed=5".parse();
    let weather: zernel_store::weather::Weather = weather.expect("a weather");
    let mut stream = connect(&store);
    let mut errors = 0;
    for request in 0..50 {
        let fate = weather.fate(request);
        let begin = Instant::now();
        let (status, body) = ask(&mut stream, "GET", "/a", "").await;
        assert_eq!(begin.elapsed(), fate.wait);
        assert_eq!(
            (status, body.len()),
            if fate.fails { (503, 0) } else { (200, 10) }
        );
        errors += u64::from(fate.fails);
    }
    assert!(errors > 5);
    assert_eq!(store.counts().errors, errors);
}

#[tokio::test(start_paused = true)]
async fn connections_share_the_bandwidth() {
    let store = store("bandwidth=100000");
    let (mut one, mut two) = (connect(&store), connect(&store));
    let begin = Instant::now();
    let both = tokio::join!(
        ask(&mut one, "GET", "/large", ""),
        ask(&mut two, "GET", "/large", "")
    );
    assert_eq!(both.0, (200, vec![7; 200_000]));
    assert_eq!(both.1, both.0);
    assert_eq!(begin.elapsed(), Duration::from_secs(4));
}

#[tokio::test(start_paused = true)]
async fn counts_are_told_at_once() {
    let store = store("latency=600000,errors=1");
    let begin = Instant::now();
    let (status, body) = ask(&mut connect(&store), "GET", COUNTS, "").await;
    assert_eq!((status, begin.elapsed()), (200, Duration::ZERO));
    let text = String::from_utf8(body).expect("ASCII");
    assert!(
        text.starts_with("{\"connections\": 1, \"requests\": 0,"),
        "{text}"
    );
}
