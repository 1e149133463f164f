// SPDX-License-Identifier: GPL-2.0
//! The streams that show the same objects, and the events on their way to them.

use super::{
    event::{
        Event,
        Subject, //
    },
    file::Stream,
    inbox::{
        Inbox,
        Letter,
        OF_AUDIENCE, //
    },
    running::Named, //
};
use crate::glue::{
    identity::{
        Pid,
        Uid, //
    },
    work::Kick, //
};
use kernel::{
    prelude::*,
    rbtree::RBTree,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc, //
    },
};

/// Streams that get an event in one hold.
const PIECE: usize = 8;

/// Events that have still to get to streams; written with the list locked.
pub(super) static PENDING: Atomic<u32> = Atomic::new(0);

/// The objects that a stream shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Audience {
    /// Everything.
    All,
    /// GPUs, and the objects of a user.
    User(Uid),
}

impl Audience {
    /// The one that a stream is of.
    pub(super) fn of(stream: &Stream) -> Self {
        match stream.viewer() {
            viewer if viewer.sees_all() => Self::All,
            viewer => Self::User(viewer.uid()),
        }
    }
}

/// A stream, and the number of the last event that came before it.
pub(super) struct Entry {
    pub(super) stream: Arc<Stream>,
    pub(super) after: u64,
}

/// The streams of an audience, one or more.
///
/// # Invariants
///
/// `count` is the number of `streams`, which have their runs as keys.
pub(super) struct Streams {
    pub(super) streams: RBTree<u64, Entry>,
    pub(super) count: usize,
    pub(super) inbox: Inbox,
    /// The number of the last event for everybody that is in the inbox.
    seen: u64,
    /// The streams before this run have the first event of the inbox.
    cursor: u64,
    /// Wakes the readers of streams that got events.
    pub(super) waker: Kick,
}

impl Streams {
    /// None; one is to follow at once.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(waker: Kick) -> Result<Self> {
        // INVARIANT: Both are nothing.
        Ok(Self {
            streams: RBTree::new(),
            count: 0,
            inbox: Inbox::new(OF_AUDIENCE)?,
            seen: 0,
            cursor: 0,
            waker,
        })
    }

    /// There are none yet: what everybody has got was before them.
    pub(super) fn begin(&mut self, common: &Inbox) {
        self.seen = common.sent();
    }

    /// Puts an event in, behind those that everybody gets. Returns its number, and how many streams lose
    /// one for want of room.
    pub(super) fn put(&mut self, event: &Event, subject: &Subject<'_>) -> (Option<u64>, u64) {
        match self.inbox.put(event, subject) {
            true => {
                PENDING.fetch_add(1, Relaxed);
                (Some(self.inbox.sent()), 0)
            }
            false => (None, self.count as u64),
        }
    }

    /// Takes in the events that everybody gets. Returns how many streams lose one for want of room.
    pub(super) fn catch_up(&mut self, common: &Inbox) -> u64 {
        let mut dropped = 0;
        for letter in common.after(self.seen) {
            self.inbox.lose(letter.lost);
            dropped += self.put(&letter.event, &Subject::of_gpu(letter.gpu)).1;
            self.seen = letter.number;
        }
        dropped
    }

    /// Hands events up to a number to [`PIECE`] streams that may see their subjects.
    pub(super) fn deliver(&mut self, last: u64) -> Delivered {
        let (mut done, mut tells) = (Delivered::default(), false);
        let mut left = PIECE;
        while left > 0 {
            let Some(letter) = self.inbox.first().filter(|letter| letter.number <= last) else {
                break;
            };
            let mut named = Named::new(letter);
            let mut next = run_from(&self.streams, self.cursor);
            while let Some(run) = next.filter(|_| left > 0) {
                left -= 1;
                let entry = self.streams.get(&run);
                // One that was started afterwards does not get it.
                let entry = entry.filter(|entry| entry.after < letter.number);
                if let Some(pushed) = entry.and_then(|entry| entry.stream.push(&mut named)) {
                    done.taken += 1;
                    done.lost += u64::from(pushed.overwrote);
                    tells |= pushed.tells;
                }
                next = run_from(&self.streams, run.saturating_add(1));
            }
            self.cursor = next.unwrap_or(0);
            if next.is_none() {
                let tasks = self.inbox.remove_first();
                if let Some(place) = done.tasks.get_mut(left) {
                    *place = tasks;
                }
                PENDING.fetch_sub(1, Relaxed);
                left = left.saturating_sub(1);
            }
        }
        if tells {
            self.waker.kick();
        }
        let is_left = |letter: &Letter| letter.number <= last;
        done.more = self.inbox.first().is_some_and(is_left);
        done
    }
}

/// Events that streams have got.
#[derive(Default)]
pub(super) struct Delivered {
    /// Streams that took one.
    pub(super) taken: u64,
    /// Streams that lost one for it.
    pub(super) lost: u64,
    /// There is more.
    pub(super) more: bool,
    /// Tasks of events that have got everywhere, to be dropped without a lock.
    tasks: [[Option<Pid>; 2]; PIECE + 1],
}

/// The first run from a number on.
fn run_from(streams: &RBTree<u64, Entry>, from: u64) -> Option<u64> {
    let cursor = streams.cursor_lower_bound(&from)?;
    Some(*cursor.current().0)
}
