// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams: a thread each, which does one thing after another. The end of one is waited for by nobody.

use std::collections::BTreeMap;
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Something that is done.
type Work = Box<dyn FnOnce() + Send>;

/// Things that were given to a stream and are not done.
#[derive(Default)]
struct Open {
    count: Mutex<usize>,
    changed: Condvar,
}

/// A stream.
#[derive(Clone)]
pub(crate) struct Stream {
    send: Sender<Work>,
    open: Arc<Open>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stream {
    fn new() -> Self {
        let (send, work) = channel::<Work>();
        let open = Arc::new(Open::default());
        let own = Arc::clone(&open);
        thread::spawn(move || {
            for work in work {
                work();
                *lock(&own.count) -= 1;
                own.changed.notify_all();
            }
        });
        Self { send, open }
    }

    /// Gives it something to do.
    pub(crate) fn give(&self, work: impl FnOnce() + Send + 'static) {
        *lock(&self.open.count) += 1;
        // Its thread is there while this is.
        let _ = self.send.send(Box::new(work));
    }

    pub(crate) fn is_idle(&self) -> bool {
        *lock(&self.open.count) == 0
    }

    pub(crate) fn wait(&self) {
        let mut count = lock(&self.open.count);
        while *count > 0 {
            let changed = self.open.changed.wait(count);
            count = changed.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// All of them, by their handles, none of which comes twice.
struct All {
    streams: BTreeMap<usize, Stream>,
    last: usize,
}

static ALL: Mutex<All> = Mutex::new(All {
    streams: BTreeMap::new(),
    last: 100,
});

pub(crate) fn create() -> usize {
    let mut all = lock(&ALL);
    all.last += 1;
    let handle = all.last;
    all.streams.insert(handle, Stream::new());
    handle
}

pub(crate) fn find(handle: usize) -> Option<Stream> {
    lock(&ALL).streams.get(&handle).cloned()
}

pub(crate) fn destroy(handle: usize) -> bool {
    lock(&ALL).streams.remove(&handle).is_some()
}
