// SPDX-License-Identifier: MIT OR Apache-2.0
//! Costs of the cache: of a look by handle, of asking and advancing, and of a batch that ends.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{clock_gettime, ClockId};
use zernel_prefetch::budget::Budget;
use zernel_prefetch::cache::{Admission, Cache, Handle, Limits, Look, StreamId};

type Words = Cache<u64, u64>;

/// Time of this thread on its processor.
fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Steps through all numbers below a power of two, far apart.
const STRIDE: u64 = 0x9e37_79b1;

fn cache(entries: u32) -> (Arc<Words>, StreamId) {
    let [stage] = Budget::split(u64::MAX, [0]).expect("no floors");
    let limits = Limits {
        entries,
        keep_faults: Duration::from_secs(3_600),
    };
    let cache = Cache::new(limits, stage);
    let stream = cache.open().expect("the first");
    (cache, stream)
}

fn admit(cache: &Words, key: u64, stream: StreamId, batch: u64) -> Handle {
    match cache
        .admit(&key, stream, batch, 100)
        .expect("an open stream")
    {
        Admission::New(handle, flight) => {
            flight.ready(key, 100);
            handle
        }
        Admission::Found(handle) => handle,
        Admission::Again => panic!("there is room"),
    }
}

/// Looks a second by `threads` at once, in order or at random entries.
pub fn looks(entries: u32, threads: u64, is_random: bool) -> f64 {
    const EACH: u64 = 20_000_000;
    let (cache, stream) = cache(entries);
    let all: Vec<_> = (0..u64::from(entries))
        .map(|key| admit(&cache, key, stream, 0))
        .collect();
    let step = if is_random { STRIDE } else { 1 };
    let order: Vec<_> = (0..u64::from(entries))
        .map(|at| all[(at.wrapping_mul(step) % u64::from(entries)) as usize])
        .collect();
    let look = || {
        let begin = own_time();
        for handle in order.iter().cycle().take(EACH as usize) {
            let look = cache.try_get(*handle);
            assert!(matches!(black_box(look), Ok(Look::Ready(_))));
        }
        EACH as f64 / (own_time() - begin).as_secs_f64()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(look)).collect();
        let each = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        each.sum()
    })
}

/// Pairs a second of asking for a key, in a full cache, and of a batch that ends.
pub fn admissions(entries: u32) -> f64 {
    const PAIRS: u64 = 5_000_000;
    let (cache, stream) = cache(entries);
    for key in 0..u64::from(entries) {
        admit(&cache, key, stream, 0);
    }
    let begin = own_time();
    for batch in 1..=PAIRS {
        // One of three is new.
        let key = match batch % 3 {
            0 => u64::from(entries) + batch,
            _ => batch.wrapping_mul(STRIDE) % u64::from(entries),
        };
        cache.advance(stream, batch).expect("it is open");
        black_box(admit(&cache, key, stream, batch));
    }
    PAIRS as f64 / (own_time() - begin).as_secs_f64()
}

/// Nanoseconds of the end of a batch of `entries` / `batches` entries.
pub fn advance(entries: u32, batches: u64) -> f64 {
    let (cache, stream) = cache(entries);
    for key in 0..u64::from(entries) {
        admit(&cache, key, stream, key % batches);
    }
    let begin = own_time();
    for batch in 1..=batches {
        cache.advance(stream, batch).expect("it is open");
    }
    (own_time() - begin).as_nanos() as f64 / batches as f64
}
