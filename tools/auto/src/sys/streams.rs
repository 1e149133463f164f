// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers for streams: the handles that the driver gives, and one for each default stream.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The legacy default stream, by the handle that it has.
const LEGACY: u64 = 1;
/// The default stream of the calling thread, by the handle that it has in any thread.
const PER_THREAD: u64 = 2;
/// Of numbers that are no handles: those are addresses of user space.
const OF_THREAD: u64 = 1 << 63;

thread_local! {
    /// The number of this thread's default stream; 0: it has none yet.
    static OWN: Cell<u64> = const { Cell::new(0) };
}

/// The number of the default stream of calls.
#[inline]
pub fn default_stream(is_per_thread: bool) -> u64 {
    match is_per_thread {
        false => LEGACY,
        true => OWN.with(|own| match own.get() {
            0 => number_thread(own),
            number => number,
        }),
    }
}

#[cold]
fn number_thread(own: &Cell<u64>) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(OF_THREAD);
    // Never the same one twice: a thread may have ended with a request under way.
    let number = NEXT.fetch_add(1, Relaxed);
    own.set(number);
    number
}

/// The number of the stream of an argument: null is a default stream.
#[inline]
pub fn stream_of(stream: u64, is_per_thread: bool) -> u64 {
    match stream {
        0 => default_stream(is_per_thread),
        PER_THREAD => default_stream(true),
        stream => stream,
    }
}

/// The handle of a stream of this thread's calls, for the driver.
pub fn handle_of(stream: u64) -> u64 {
    match stream & OF_THREAD {
        0 => stream,
        _ => PER_THREAD,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_streams_have_numbers() {
        assert_eq!((stream_of(0, false), stream_of(1, true)), (LEGACY, LEGACY));
        assert_eq!((stream_of(77, false), stream_of(77, true)), (77, 77));
        let own = stream_of(0, true);
        assert_eq!((stream_of(2, false), stream_of(0, true)), (own, own));
        assert_eq!((handle_of(own), handle_of(77)), (PER_THREAD, 77));
    }

    #[test]
    fn each_thread_has_its_own() {
        let numbers = [(); 2].map(|()| std::thread::spawn(|| stream_of(0, true)).join().unwrap());
        assert_ne!(numbers[0], numbers[1]);
        assert!(!numbers.contains(&stream_of(0, true)));
    }
}
