// SPDX-License-Identifier: GPL-2.0
//! Statistics of requests: per TSG, per level, and of all together.

use crate::{
    glue::irqlock::{
        new_irq_lock,
        IrqLock, //
    },
    policy::{
        level::{
            self,
            Level, //
        },
        preempt::Verdict,
        tally::Tally, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A tally that system calls and timers feed.
#[pin_data]
pub(crate) struct Shared {
    #[pin]
    tally: IrqLock<KBox<Tally>>,
}

impl Shared {
    /// Nothing is counted yet.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let tally = KBox::zeroed(GFP_KERNEL_ACCOUNT)?;
        Arc::pin_init(
            pin_init!(Self {
                tally <- new_irq_lock!(tally, c"zernel_request_stats"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Counts something.
    pub(super) fn count(&self, f: impl FnOnce(&mut Tally)) {
        f(&mut self.tally.lock());
    }

    /// Adds everything that was counted to `sum`.
    pub(crate) fn add_to(&self, sum: &mut Tally) {
        sum.merge(&self.tally.lock());
    }
}

/// The statistics of all requests, by the level that was in force when they began.
pub(crate) struct Totals {
    /// One per level, and one for what had none.
    levels: KVec<Arc<Shared>>,
}

impl Totals {
    /// Nothing is counted yet.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let mut levels = KVec::with_capacity(level::COUNT + 1, GFP_KERNEL)?;
        for _ in 0..=level::COUNT {
            levels.push(Shared::new()?, GFP_KERNEL)?;
        }
        Ok(Arc::new(Self { levels }, GFP_KERNEL)?)
    }

    /// The statistics of a level.
    pub(super) fn of(&self, level: Option<Level>) -> Option<&Shared> {
        let index = level.map_or(level::COUNT, |level| level.number() as usize);
        self.levels.get(index).map(|shared| &**shared)
    }

    /// A TSG was to be taken off the GPU for requests of a level.
    pub(crate) fn preempted(&self, level: Level, verdict: Verdict) {
        if let Some(shared) = self.of(Some(level)) {
            shared.count(|tally| tally.preempt(verdict));
        }
    }

    /// The budget of a level is spent.
    pub(crate) fn throttled(&self, level: Level) {
        if let Some(shared) = self.of(Some(level)) {
            shared.count(Tally::throttle);
        }
    }

    /// Adds what was counted of a level, or of all, to `sum`.
    pub(crate) fn add_to(&self, level: Option<Level>, sum: &mut Tally) {
        match level {
            Some(_) => {
                if let Some(shared) = self.of(level) {
                    shared.add_to(sum);
                }
            }
            None => {
                for shared in &self.levels {
                    shared.add_to(sum);
                }
            }
        }
    }
}
