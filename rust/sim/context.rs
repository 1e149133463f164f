// SPDX-License-Identifier: GPL-2.0
//! The owner's side of a TSG: its words, its waiters and its user.

use super::{
    inbox::Inbox,
    user::User, //
};
use crate::{
    glue::{
        eventfd::EventFd,
        irqlock::{
            new_irq_lock,
            IrqLock, //
        },
        sim::{
            task::Pid,
            words::Words, //
        },
    },
    model::{
        gpu::MAX_CHANNELS,
        tsg, //
    },
};
use kernel::{
    new_condvar,
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc,
        CondVar, //
    }, //
};

/// Nobody waits for an item.
const NOBODY: u64 = u64::MAX;

/// The owner's side of a TSG.
///
/// Lock order: the lock of the GPU, then `eventfds` or the lock of the inbox.
#[pin_data]
pub(crate) struct Context {
    /// Id in its file.
    pub(crate) id: u32,
    /// Semaphore words.
    pub(crate) words: Arc<Words>,
    /// Where completions go.
    pub(crate) inbox: Arc<Inbox>,
    /// The user that it counts for.
    pub(crate) user: Arc<User>,
    /// Process that made it.
    pub(crate) process: Pid,
    /// Thread that made it.
    pub(crate) thread: Pid,
    /// Tasks that wait for an item; with the lock of the GPU.
    #[pin]
    pub(crate) waiters: CondVar,
    /// Per channel, the first item that somebody waits for. Changed under the lock of the GPU.
    wake_at: [Atomic<u64>; MAX_CHANNELS as usize],
    #[pin]
    eventfds: IrqLock<[Option<EventFd>; MAX_CHANNELS as usize]>,
}

impl Context {
    /// A context of the calling thread.
    pub(crate) fn new(
        id: u32,
        words: Arc<Words>,
        inbox: Arc<Inbox>,
        user: Arc<User>,
    ) -> Result<Arc<Self>> {
        let (process, thread) = (Pid::current_process()?, Pid::current_thread()?);
        Arc::pin_init(
            pin_init!(Self {
                id,
                words,
                inbox,
                user,
                process,
                thread,
                waiters <- new_condvar!("zernel_sim_waiters"),
                wake_at: [const { Atomic::new(NOBODY) }; MAX_CHANNELS as usize],
                eventfds <- new_irq_lock!([const { None }; MAX_CHANNELS as usize], c"zernel_sim_eventfds"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// The caller, with the lock of the GPU held, will wait for item `seq` of a channel.
    pub(crate) fn will_wait(&self, channel: u32, seq: u64) {
        if let Some(wake_at) = self.wake_at.get(channel as usize) {
            wake_at.store(wake_at.load(Relaxed).min(seq), Relaxed);
        }
    }

    /// Item `seq` of a channel has completed. The caller holds the lock of the GPU.
    pub(crate) fn wake(&self, channel: u32, seq: u64) {
        if let Some(wake_at) = self.wake_at.get(channel as usize) {
            if seq >= wake_at.load(Relaxed) {
                wake_at.store(NOBODY, Relaxed);
                self.waiters.notify_all();
            }
        }
    }

    /// Sets the eventfd of a channel. Returns the one before, to be dropped by the caller.
    pub(crate) fn set_eventfd(&self, channel: u32, fd: Option<EventFd>) -> Option<EventFd> {
        match self.eventfds.lock().get_mut(channel as usize) {
            Some(slot) => core::mem::replace(slot, fd),
            None => fd,
        }
    }

    /// Signals the eventfd of a channel, if it has one.
    pub(crate) fn signal(&self, channel: u32) {
        if let Some(Some(fd)) = self.eventfds.lock().get(channel as usize) {
            fd.signal();
        }
    }
}

impl tsg::Context for Arc<Context> {
    fn load(&self, word: u16) -> u32 {
        self.words.load(word)
    }

    fn store(&self, word: u16, value: u32) {
        self.words.store(word, value);
    }
}
