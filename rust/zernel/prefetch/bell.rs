// SPDX-License-Identifier: GPL-2.0
//! Signals an eventfd: later, as its waiters are woken one by one.

use super::quota::Charge;
use crate::glue::{
    detached::{
        Detached,
        Job, //
    },
    eventfd::EventFd,
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            ordering::{
                Full,
                Relaxed, //
            },
            Atomic,
        },
        Arc, //
    },
};

/// An eventfd, and the number still to be added to it.
pub(crate) struct Bell {
    eventfd: EventFd,
    owed: Atomic<u32>,
    ended: Atomic<bool>,
    _charge: Charge,
}

impl Bell {
    /// One to which nothing is to be added.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(eventfd: EventFd, charge: Charge) -> Result<Arc<Detached<Self>>> {
        Detached::new(Self {
            eventfd,
            owed: Atomic::new(0),
            ended: Atomic::new(false),
            _charge: charge,
        })
    }

    /// 1 is to be added when it runs next.
    pub(super) fn owe(&self) {
        self.owed.fetch_add(1, Full);
    }

    /// Nothing more is to be added.
    pub(super) fn end(&self) {
        self.ended.store(true, Relaxed);
    }
}

impl Job for Bell {
    type Done = ();

    fn run(&self) {
        for _ in 0..self.owed.xchg(0, Full) {
            if !self.ended.load(Relaxed) {
                self.eventfd.signal();
            }
        }
    }
}
