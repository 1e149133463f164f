// SPDX-License-Identifier: GPL-2.0
//! Statistics of requests: per TSG, and per level on a GPU.

use crate::{
    glue::irqlock::{
        new_irq_lock,
        IrqLock, //
    },
    policy::{
        counters::Counters,
        histogram::Latencies,
        level::{
            self,
            Level, //
        },
        preempt::Verdict,
        units::Ns, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        lock::{
            mutex::MutexBackend,
            Guard, //
        },
        Arc,
        Mutex, //
    },
};

/// Counters of requests for system calls, timers and workers.
#[pin_data]
pub(crate) struct Shared {
    #[pin]
    counters: IrqLock<KBox<Counters>>,
    /// From a trigger until the TSG has the engine.
    #[pin]
    preemptions: IrqLock<KBox<Latencies>>,
}

impl Shared {
    /// Nothing is counted yet.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let counters = KBox::zeroed(GFP_KERNEL_ACCOUNT)?;
        let preemptions = KBox::zeroed(GFP_KERNEL_ACCOUNT)?;
        Arc::pin_init(
            pin_init!(Self {
                counters <- new_irq_lock!(counters, c"zernel_request_stats"),
                preemptions <- new_irq_lock!(preemptions, c"zernel_preemptions"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Counts something.
    pub(super) fn count(&self, f: impl FnOnce(&mut Counters)) {
        f(&mut self.counters.lock());
    }

    /// Counts a wait for the engine.
    pub(super) fn waited(&self, time: Ns) {
        self.preemptions.lock().record(time);
    }

    /// Requests that are done.
    pub(crate) fn done(&self) -> u64 {
        self.counters.lock().done
    }

    /// Adds everything that was counted of requests to `sum`.
    pub(crate) fn add_to(&self, sum: &mut Counters) {
        sum.merge(&self.counters.lock());
    }

    /// Adds the waits for the engine to `sum`.
    pub(crate) fn add_preemptions_to(&self, sum: &mut Latencies) {
        sum.merge(&self.preemptions.lock());
    }

    /// Adds the latencies of requests to `sum`.
    pub(crate) fn add_latencies_to(&self, sum: &mut Latencies) {
        sum.merge(&self.counters.lock().latency);
    }
}

/// The statistics of all requests on a GPU, by the level that was in force when they began.
pub(crate) struct Totals {
    /// One per level, and one for requests without a level.
    levels: KVec<Arc<Shared>>,
}

impl Totals {
    /// Nothing is counted yet.
    pub(crate) fn new() -> Result<Self> {
        let mut levels = KVec::with_capacity(level::COUNT + 1, GFP_KERNEL)?;
        for _ in 0..=level::COUNT {
            levels.push(Shared::new()?, GFP_KERNEL)?;
        }
        Ok(Self { levels })
    }

    /// The statistics of a level; `None`: of requests without a level.
    pub(crate) fn of(&self, level: Option<Level>) -> Option<&Shared> {
        self.levels.get(place(level)).map(|shared| &**shared)
    }

    /// Those of all levels.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Shared> {
        self.levels.iter().map(|shared| &**shared)
    }

    /// A TSG was to be taken off the GPU for requests of a level.
    pub(crate) fn preempted(&self, level: Level, verdict: Verdict) {
        if let Some(shared) = self.of(Some(level)) {
            shared.count(|counters| counters.preempt(verdict));
        }
    }
}

/// The counters of GPUs that are gone, and the lock that keeps a sum whole: a GPU goes with it held,
/// and a reader that adds everything up holds it from the first part to the last.
#[pin_data]
pub(crate) struct Gone {
    #[pin]
    kept: Mutex<Levels>,
}

/// As those of [`Totals`].
pub(crate) struct Levels(KVec<Kept>);

/// The counters of a level.
pub(crate) struct Kept {
    counters: KBox<Counters>,
    preemptions: KBox<Latencies>,
}

impl Gone {
    /// No GPU is gone.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let mut levels = KVec::with_capacity(level::COUNT + 1, GFP_KERNEL)?;
        for _ in 0..=level::COUNT {
            let kept = Kept {
                counters: KBox::zeroed(GFP_KERNEL)?,
                preemptions: KBox::zeroed(GFP_KERNEL)?,
            };
            levels.push(kept, GFP_KERNEL)?;
        }
        let levels = Levels(levels);
        Arc::pin_init(
            pin_init!(Self {
                kept <- new_mutex!(levels, "zernel_gone_requests"),
            }),
            GFP_KERNEL,
        )
    }

    /// Their counters.
    pub(crate) fn lock(&self) -> Guard<'_, Levels, MutexBackend> {
        self.kept.lock()
    }
}

impl Levels {
    /// Takes over the counters of a GPU without requests under way.
    pub(crate) fn take_over(&mut self, totals: &Totals) {
        for (kept, shared) in self.0.iter_mut().zip(totals.all()) {
            shared.add_to(&mut kept.counters);
            shared.add_preemptions_to(&mut kept.preemptions);
        }
    }

    /// The counters of a level; `None`: of requests without a level.
    pub(crate) fn of(&self, level: Option<Level>) -> Option<&Kept> {
        self.0.get(place(level))
    }

    /// The counters of all levels.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Kept> {
        self.0.iter()
    }
}

/// A part of a sum.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    /// Of a TSG or of a GPU that is there.
    Live(&'a Shared),
    /// Of those that are gone.
    Gone(&'a Kept),
}

impl Part<'_> {
    /// Adds counters of requests to `sum`.
    pub(crate) fn add_to(self, sum: &mut Counters) {
        match self {
            Self::Live(shared) => shared.add_to(sum),
            Self::Gone(kept) => sum.merge(&kept.counters),
        }
    }

    /// Adds the waits for the engine to `sum`.
    pub(crate) fn add_preemptions_to(self, sum: &mut Latencies) {
        match self {
            Self::Live(shared) => shared.add_preemptions_to(sum),
            Self::Gone(kept) => sum.merge(&kept.preemptions),
        }
    }

    /// Adds the latencies of requests to `sum`.
    pub(crate) fn add_latencies_to(self, sum: &mut Latencies) {
        match self {
            Self::Live(shared) => shared.add_latencies_to(sum),
            Self::Gone(kept) => sum.merge(&kept.counters.latency),
        }
    }
}

/// Place of a level among the counters of all; `None`: of requests without a level.
fn place(level: Option<Level>) -> usize {
    level.map_or(level::COUNT, |level| level.number() as usize)
}
