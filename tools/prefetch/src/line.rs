// SPDX-License-Identifier: MIT OR Apache-2.0
//! A line of batches that take room of a cache: each waits until those before it have all theirs. One
//! that has a part of its room, and waits for the rest, waits for those before it alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use event_listener::Event;

use crate::sync::{lock, Mutex};

#[derive(Debug, Default)]
struct Batch {
    /// Spots that have not left.
    spots: usize,
    /// It is notified when its turn comes.
    turn: Arc<Event>,
}

/// A line.
#[derive(Debug, Default)]
pub(crate) struct Line(Mutex<BTreeMap<u64, Batch>>);

impl Line {
    /// Puts a batch into the line, by its number, with so many spots.
    pub(crate) fn enter(self: &Arc<Self>, batch: u64, spots: usize) -> Vec<Spot> {
        if spots > 0 {
            lock(&self.0).entry(batch).or_default().spots += spots;
        }
        let spot = |_| Spot {
            line: Arc::clone(self),
            batch,
        };
        (0..spots).map(spot).collect()
    }
}

/// A spot in a line. Dropped, it has left.
#[derive(Debug)]
pub(crate) struct Spot {
    line: Arc<Line>,
    batch: u64,
}

impl Spot {
    /// No batch is before its own.
    pub(crate) fn is_turn(&self) -> bool {
        let first = lock(&self.line.0)
            .first_key_value()
            .map(|(first, _)| *first);
        first.is_none_or(|first| first >= self.batch)
    }

    /// Waits for the turn of its batch.
    pub(crate) async fn turn(&self) {
        loop {
            let turn = lock(&self.line.0)
                .get(&self.batch)
                .map(|own| Arc::clone(&own.turn));
            let Some(turn) = turn else {
                return;
            };
            let listener = turn.listen();
            if self.is_turn() {
                return;
            }
            listener.await;
        }
    }
}

impl Drop for Spot {
    fn drop(&mut self) {
        let mut batches = lock(&self.line.0);
        let Some(own) = batches.get_mut(&self.batch) else {
            return;
        };
        own.spots -= 1;
        if own.spots > 0 {
            return;
        }
        batches.remove(&self.batch);
        let next = batches.first_key_value();
        let turn = next.map(|(_, batch)| Arc::clone(&batch.turn));
        drop(batches);
        if let Some(turn) = turn {
            turn.notify(usize::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn a_batch_waits_for_all_spots_before_it() {
        let line = Arc::new(Line::default());
        let mut first = line.enter(0, 2);
        let second = line.enter(1, 1);
        assert!(line.enter(2, 0).is_empty());
        let third = line.enter(3, 1);
        assert!(first[0].is_turn() && first[1].is_turn());
        let mut context = Context::from_waker(Waker::noop());
        {
            let mut turn = pin!(second[0].turn());
            assert!(turn.as_mut().poll(&mut context).is_pending());
            first.pop();
            assert!(turn.as_mut().poll(&mut context).is_pending());
            first.pop();
            assert!(turn.as_mut().poll(&mut context).is_ready());
        }
        // One that comes again is before those that came behind it.
        let again = line.enter(0, 1);
        assert!(again[0].is_turn() && !second[0].is_turn());
        drop(again);
        assert!(second[0].is_turn() && !third[0].is_turn());
        drop(second);
        assert!(third[0].is_turn());
    }
}
