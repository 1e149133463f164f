// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lanes order what their requests leave behind: data that is not atomic goes from one request of a
//! lane to the next; Miri and ThreadSanitizer find it if that is not ordered (scripts/sanitizers).

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;

use crate::lane::Lanes;

/// Requests of a thread; Miri is slow.
const ROUNDS: u32 = if cfg!(miri) { 30 } else { 10_000 };
const THREADS: u32 = 3;
const LANES: u32 = 2;

/// A lane: the requests that it had, and its done word.
#[derive(Default)]
struct Lane {
    had: UnsafeCell<u64>,
    done: AtomicU32,
}

// SAFETY: None. That threads take turns with it is what is tested.
unsafe impl Sync for Lane {}

impl Lane {
    /// One more.
    fn count(&self) -> u32 {
        // SAFETY: The lane is taken by this thread alone, or the test fails.
        let had = unsafe { &mut *self.had.get() };
        *had += 1;
        *had as u32
    }
}

/// Lanes are taken, and given back at once or by a done word that a stream stores. `told`: the order
/// of that store.
fn take_and_give(told: Ordering) {
    let lanes = Lanes::new(LANES);
    let all: [Lane; LANES as usize] = Default::default();
    let taken = AtomicU64::new(0);
    let is_done = |lane: u32, number: u32| {
        let done = all[lane as usize].done.load(Ordering::Acquire);
        done.wrapping_sub(number) as i32 >= 0
    };
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (lanes, all, taken) = (&lanes, &all, &taken);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let Some(lane) = lanes.take(is_done) else {
                        thread::yield_now();
                        continue;
                    };
                    taken.fetch_add(1, Ordering::Relaxed);
                    let number = all[lane as usize].count();
                    if (thread + round) % 2 == 0 {
                        lanes.give(lane);
                        continue;
                    }
                    // Its stream works on with what the request has, and tells at its end.
                    lanes.give_after(lane, number + 1);
                    all[lane as usize].count();
                    all[lane as usize].done.store(number + 1, told);
                    taken.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let had: u64 = all.into_iter().map(|lane| lane.had.into_inner()).sum();
    assert_eq!(had, taken.into_inner());
}

#[test]
fn lanes_order_what_requests_leave() {
    take_and_give(Ordering::Release);
}

/// Fails with each of the tools, which shows that they look. Without them it may pass.
#[test]
#[ignore = "a race: scripts/sanitizers shows that it is found"]
fn planted_a_done_word_without_order() {
    take_and_give(Ordering::Relaxed);
}
