// SPDX-License-Identifier: GPL-2.0
//! A subscription: the action at the signals of a process.

use super::{
    bell::Bell,
    quota::{
        self,
        Charge, //
    },
    reader::Reader, //
};
use crate::glue::{
    detached::{
        Detached,
        Queue, //
    },
    identity::{
        Pid,
        Viewer, //
    },
    slots::{
        SlotWords,
        Words, //
    },
    thread::Thread, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The workqueues of the actions.
pub(super) struct Queues {
    /// Reads ahead.
    readers: Queue,
    /// Signals eventfds, which a file system that does not answer must not delay.
    bells: Queue,
}

impl Queues {
    /// Both.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            readers: Queue::new()?,
            bells: Queue::new()?,
        })
    }
}

/// The action at a signal.
pub(crate) enum Way {
    /// 1 is added to an eventfd.
    Eventfd(Arc<Detached<Bell>>),
    /// The word of a slot counts it.
    Word {
        words: SlotWords,
        signals: u32,
        _charge: Charge,
    },
    /// A range of a file is read ahead.
    ReadAhead(Arc<Detached<Reader>>),
}

impl Way {
    /// Counts in the word of a slot, from its present value.
    ///
    /// # Errors
    ///
    /// `ENOENT` there is no such slot.
    pub(crate) fn word(words: SlotWords, charge: Charge) -> Result<Self> {
        let signals = words.get().map(Words::signals).ok_or(ENOENT)?;
        Ok(Self::Word {
            words,
            signals,
            _charge: charge,
        })
    }
}

/// A subscription.
pub(crate) struct Subscription {
    /// The process of the signals. The reference keeps its key from being another's.
    process: Pid,
    /// The subscriber.
    viewer: Viewer,
    way: Way,
}

impl Subscription {
    /// Has something be done at each signal for a process, as long as `viewer` may see it.
    pub(crate) fn new(process: Pid, viewer: Viewer, way: Way) -> Self {
        Self {
            process,
            viewer,
            way,
        }
    }

    /// The process whose signals they are.
    pub(super) fn process(&self) -> &Pid {
        &self.process
    }

    /// A process, of which this is a thread, has a signal. The open file of the subscription keeps
    /// the module there meanwhile.
    pub(super) fn signal(&mut self, process: &Pid, thread: &Thread, queues: &Queues) {
        if !thread.is_seen_by(&self.viewer) || !self.viewer.is_in_reach(process) {
            return;
        }
        match &mut self.way {
            Way::Eventfd(bell) => {
                bell.owe();
                queues.bells.start_again(bell);
            }
            Way::Word { words, signals, .. } => {
                *signals = signals.wrapping_add(1);
                if let Some(words) = words.get() {
                    words.set_signals(*signals);
                }
            }
            // Started and counted at once: the reader counts its bytes afterwards.
            Way::ReadAhead(reader) => quota::count(|counters| match queues.readers.start(reader) {
                true => counters.readaheads += 1,
                false => counters.skipped += 1,
            }),
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        match &self.way {
            Way::Eventfd(bell) => bell.end(),
            Way::ReadAhead(reader) => reader.end(),
            Way::Word { .. } => {}
        }
    }
}
