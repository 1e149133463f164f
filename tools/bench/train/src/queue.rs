// SPDX-License-Identifier: MIT OR Apache-2.0
//! A queue of batches that workers keep full at all times, as the loaders of most frameworks do.

use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use anyhow::Result;
use libzernel::Timestamp;
use serde::{Deserialize, Serialize};

use crate::loader::Batch;
use crate::run::Span;
use crate::source::Source;

/// A queue, as PyTorch's `DataLoader` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Each loads a batch at a time; they take turns.
    pub workers: usize,
    /// Batches that are asked of each ahead: PyTorch's `prefetch_factor`.
    pub factor: usize,
}

impl Queue {
    /// One of so many batches, 1 or an even number: two for each worker, as is PyTorch's default.
    pub const fn of(depth: usize) -> Self {
        let workers = if depth < 2 { 1 } else { depth / 2 };
        Self {
            workers,
            factor: if depth < 2 { 1 } else { 2 },
        }
    }

    /// Batches that are asked for and not handed over.
    pub const fn depth(self) -> usize {
        self.workers * self.factor
    }
}

/// Loads ordered batches, one after the other.
pub(crate) fn work(
    mut source: Source,
    orders: &Receiver<Duration>,
    batches: &Sender<Result<Batch>>,
) {
    while let Ok(load) = orders.recv() {
        let began = Timestamp::now();
        let batch = source.read_for(load).map(|()| Batch {
            signalled: false,
            read: Span {
                began,
                ended: Timestamp::now(),
            },
        });
        if batches.send(batch).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_queue_is_as_deep_as_it_says() {
        for (depth, workers) in [(1, 1), (2, 1), (4, 2), (8, 4), (16, 8)] {
            let queue = Queue::of(depth);
            assert_eq!((queue.depth(), queue.workers), (depth, workers));
        }
    }

    #[test]
    fn a_worker_loads_what_is_ordered_and_ends_with_its_orders() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("batches");
        std::fs::write(&path, vec![7; 3 * 4096]).unwrap();
        let source = || Source::shared(&path, Duration::from_millis(4)).unwrap();
        let ((order, orders), (batch, batches)) = (channel(), channel());
        for _ in 0..3 {
            order.send(Duration::from_millis(8)).unwrap();
        }
        drop(order);
        let broken = source();
        work(source(), &orders, &batch);
        let read: Vec<Batch> = batches.try_iter().collect::<Result<_>>().unwrap();
        assert_eq!(read.len(), 3);
        assert!(read
            .windows(2)
            .all(|two| two[0].read.ended <= two[1].read.began));
        // A read that fails is told to the one who waits.
        std::fs::write(&path, [7]).unwrap();
        let (order, orders) = channel();
        order.send(Duration::ZERO).unwrap();
        drop(order);
        work(broken, &orders, &batch);
        let error = batches.recv().unwrap().err().unwrap().to_string();
        assert!(error.contains("has become shorter"), "{error}");
    }
}
