// SPDX-License-Identifier: GPL-2.0
//! Threads with a changed nice value: for their phase, or for a request.
//!
//! A thread is in the table as long as a phase or request asks for another value. Each asks again
//! when that changes, and at its end asks for nothing: then the thread has its base again.
//!
//! # Locking
//!
//! `control` → registry, and `control` → table of tracked threads → `threads`. The last one
//! is a spinlock, under which the scheduler's own are taken. Threads take it as they make others,
//! and the workers for each change; no timer does, nor a hook of the scheduler.

use crate::{
    glue::{
        irqlock::{
            new_irq_lock,
            IrqLock, //
        },
        memory::account_nowait,
        nice::Bases,
        thread::Thread, //
    },
    policy::nice::{
        self,
        Ask,
        Held,
        Nice,
        Seen, //
    },
};
use kernel::{
    prelude::*,
    rbtree::{
        self,
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::Arc, //
};

/// A thread for which something is asked.
struct Entry {
    thread: Thread,
    held: Option<Held>,
    /// For its phase.
    phase: Ask,
    /// For its requests, and how many of them ask.
    request: Ask,
    requests: u32,
}

impl Entry {
    fn new(thread: Thread) -> Self {
        Self {
            thread,
            held: None,
            phase: Ask::NONE,
            request: Ask::NONE,
            requests: 0,
        }
    }

    fn is_empty(&self) -> bool {
        self.phase.is_none() && self.requests == 0
    }

    /// Gives the thread the value asked for.
    fn settle(&mut self) {
        let Some(seen) = self.thread.niceness() else {
            return;
        };
        let (set, held) = nice::next(self.held, &seen, &[self.phase, self.request]);
        if set != seen.now {
            self.thread.set_nice(set);
        }
        self.held = held;
    }
}

/// The table.
#[pin_data]
pub(crate) struct Table {
    /// By their keys.
    #[pin]
    threads: IrqLock<RBTree<usize, Entry>>,
}

impl Table {
    /// An empty one.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                threads <- new_irq_lock!(RBTree::new(), c"zernel_nice"),
            }),
            GFP_KERNEL,
        )
    }

    /// Something else is asked for a thread than before. `more`: perhaps for the first time.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, with `more` alone: nothing has changed.
    fn change(&self, thread: &Thread, more: bool, f: impl FnOnce(&mut Entry)) -> Result {
        let mut room = match more {
            true => Some(
                thread
                    .pays(|| RBTreeNodeReservation::new(account_nowait()))
                    .ok_or(ENOMEM)??,
            ),
            false => None,
        };
        let mut unused = None;
        let mut threads = self.threads.lock();
        match threads.entry(thread.key()) {
            rbtree::Entry::Occupied(mut known) => {
                let entry = known.get_mut();
                f(entry);
                entry.settle();
                if entry.is_empty() {
                    unused = Some(known.remove_node());
                }
            }
            rbtree::Entry::Vacant(place) => {
                if let Some(room) = room.take() {
                    let entry = place.insert(Entry::new(thread.clone()), room);
                    f(entry);
                    entry.settle();
                }
            }
        }
        drop(threads);
        // Dropped without the lock.
        drop(unused);
        Ok(())
    }

    /// This is asked for the phase of a thread.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, if that is not nothing: nothing has changed.
    pub(crate) fn ask_for_phase(&self, thread: &Thread, ask: Ask) -> Result {
        self.change(thread, !ask.is_none(), |entry| entry.phase = ask)
    }

    /// One more request of a thread asks for this.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: nothing has changed.
    pub(crate) fn begin_request(&self, thread: &Thread, ask: Ask) -> Result {
        self.change(thread, true, |entry| {
            entry.request = ask;
            entry.requests = entry.requests.saturating_add(1);
        })
    }

    /// The requests of a thread ask for something else.
    pub(crate) fn ask_for_request(&self, thread: &Thread, ask: Ask) {
        // Fails only for more.
        let _ = self.change(thread, false, |entry| entry.request = ask);
    }

    /// Balances [`Self::begin_request`].
    pub(crate) fn end_request(&self, thread: &Thread) {
        // Fails only for more.
        let _ = self.change(thread, false, |entry| {
            entry.requests = entry.requests.saturating_sub(1);
            if entry.requests == 0 {
                entry.request = Ask::NONE;
            }
        });
    }

    /// The addition to the nice value of a thread now.
    pub(crate) fn delta(&self, thread: &Thread) -> i32 {
        let threads = self.threads.lock();
        let held = threads.get(&thread.key()).and_then(|entry| entry.held);
        let seen = thread.niceness();
        let is_set = |held: &Held| seen.is_some_and(|seen| seen.now == held.set());
        held.filter(is_set).map_or(0, Held::delta)
    }
}

impl Bases for Table {
    fn base_of(&self, key: usize, look: &dyn Fn() -> Seen) -> Nice {
        let threads = self.threads.lock();
        let held = threads.get(&key).and_then(|entry| entry.held);
        // With the lock, so that both are of the same time.
        nice::base(held, &look())
    }
}
