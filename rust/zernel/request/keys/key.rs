// SPDX-License-Identifier: GPL-2.0
//! One key: the memory of its preparation times, and the way to what was learned from features.

use crate::{
    glue::{
        identity::Uid,
        irqlock::{
            new_irq_lock,
            IrqLock, //
        },
        memory::account_nowait, //
    },
    policy::{
        deadline::burst::Bursts,
        predict::{
            features::{
                lessons::Taken,
                Features, //
            },
            Choice,
            Costs,
            History, //
        },
        units::{
            Ns,
            Permille, //
        },
    },
    request::share::{
        learner::Learner,
        seat::Seat, //
    },
    tuned, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            ordering::Relaxed,
            Atomic, //
        },
        Arc, //
    }, //
};

/// Uses of a key until its place is kept. Making a key takes fewer: a program that makes keys
/// without end keeps none of them.
pub(super) const OFTEN: u32 = 2;

/// The history of one key.
#[pin_data]
pub(crate) struct Key {
    /// Fed when a request of the key was ready.
    #[pin]
    known: IrqLock<Known>,
    /// Times that it was fed. Wraps.
    version: Atomic<u32>,
    /// Uses since it was last looked at for being forgotten, up to [`OFTEN`].
    used: Atomic<u32>,
}

/// All that is known of a key's preparations.
struct Known {
    history: History,
    /// From the first request with features on.
    seat: Option<Seat>,
    /// Its bursts, of requests that had a place in the order of deadlines.
    bursts: Bursts,
}

/// The prediction of a request with features.
pub(crate) struct Thought {
    /// The time from begin at which the GPU shall be free.
    pub(crate) told: Option<Ns>,
    /// The same without features.
    pub(crate) fallback: Option<Ns>,
    /// The costs of errors that both are for.
    pub(crate) costs: Costs,
}

/// The prediction of a key.
#[derive(Clone, Copy)]
pub(crate) struct Prediction {
    /// The question.
    pub(crate) choice: Choice,
    version: u32,
    /// The time from begin at which the GPU shall be free; `None` if nothing is known.
    pub(crate) time: Option<Ns>,
}

impl Key {
    pub(super) fn new() -> Result<Arc<Self>> {
        let margin = tuned::safety_margin().into();
        Arc::pin_init(
            pin_init!(Self {
                known <- new_irq_lock!(Known {
                    history: History::new(margin),
                    seat: None,
                    bursts: Bursts::NEW,
                }, c"zernel_key"),
                version: Atomic::new(0),
                used: Atomic::new(0),
            }),
            account_nowait(),
        )
    }

    /// Learns from a preparation and how it was predicted; from its features by [`Self::think`].
    pub(crate) fn learn(&self, took: Ns, choice: Choice) {
        self.touch();
        let mut known = self.known.lock();
        match choice.margin {
            true => known.learn_more(took, choice),
            false => known.history.observe(took, choice),
        }
        let version = self.version.load(Relaxed);
        self.version.store(version.wrapping_add(1), Relaxed);
    }

    /// The time from begin at which the GPU shall be free.
    pub(crate) fn predict(&self, choice: Choice) -> Prediction {
        let known = self.known.lock();
        Prediction {
            choice,
            version: self.version.load(Relaxed),
            time: known.history.predict(choice),
        }
    }

    /// Learns from requests that are over, and predicts one with these features. `None`: it has no room
    /// for what is learned from features.
    ///
    /// Sleeps: a regression has a mutex, so that no interrupt waits for it.
    pub(crate) fn think(&self, due: Taken, features: &Features, choice: Choice) -> Option<Thought> {
        let learner = self.learner()?;
        learner.touch();
        let mut knowledge = learner.knowledge();
        let knowledge = (*knowledge).as_mut()?;
        let tuning = tuned::features();
        for learnt in due {
            knowledge.learn(&learnt, tuning);
        }
        let fallback = self.known.lock().history.predict(choice);
        Some(Thought {
            told: knowledge.predict(features, choice.costs, fallback),
            fallback,
            costs: choice.costs,
        })
    }

    /// Learns from requests that are over, if there is room for that. Sleeps.
    pub(crate) fn study(&self, due: Taken) {
        let Some(learner) = self.learner() else {
            return;
        };
        let tuning = tuned::features();
        let mut knowledge = learner.knowledge();
        if let Some(knowledge) = &mut *knowledge {
            for learnt in due {
                knowledge.learn(&learnt, tuning);
            }
        }
    }

    fn learner(&self) -> Option<Arc<Learner>> {
        self.known.lock().seat.as_ref().map(Seat::learner)
    }

    /// Learns from a burst.
    #[cold]
    #[inline(never)]
    pub(crate) fn learn_burst(&self, took: Ns) {
        self.known.lock().bursts.observe(took);
    }

    /// Learns from a burst that took this time at least.
    #[cold]
    #[inline(never)]
    pub(crate) fn learn_least(&self, least: Ns) {
        self.known.lock().bursts.observe_least(least);
    }

    /// The time that a burst seldom exceeds; `None` if none was seen.
    pub(crate) fn burst(&self) -> Option<Ns> {
        self.known.lock().bursts.bound()
    }

    /// Makes room for what is learned from features, for one of `user`'s keys. Returns false without
    /// memory, and if features do not count any more.
    pub(crate) fn make_room(&self, user: Uid) -> bool {
        let Some(new) = Seat::new(user, tuned::features()) else {
            return false;
        };
        let mut known = self.known.lock();
        let has_room = known.seat.as_ref().is_some_and(Seat::is_kept);
        // Unless another thread was faster.
        let unused = match has_room {
            true => Some(new),
            false => known.seat.replace(new),
        };
        drop(known);
        // Dropped without the lock.
        drop(unused);
        true
    }

    /// The share of its preparations that features foretold lately, and whether predictions follow
    /// them; `None` if no request had any that count.
    pub(crate) fn confidence(&self) -> Option<(Permille, bool)> {
        let learner = self.learner()?;
        let tuning = tuned::features();
        tuning.memory?;
        let knowledge = learner.knowledge();
        knowledge.as_ref()?.confidence(tuning.epoch)
    }

    /// True if this is still the answer of [`Self::predict`].
    pub(crate) fn predicts(&self, prediction: &Prediction) -> bool {
        prediction.version == self.version.load(Relaxed)
    }

    /// Uses since the last look, up to [`OFTEN`]; counts anew from 1.
    pub(super) fn look(&self) -> u32 {
        self.used.xchg(1, Relaxed)
    }

    /// Keeps it from being the next that is forgotten.
    pub(super) fn touch(&self) {
        let used = self.used.load(Relaxed);
        if used < OFTEN {
            self.used.store(used + 1, Relaxed);
        }
    }
}

impl Known {
    /// Learns from a preparation, and from the error of its prediction.
    #[cold]
    #[inline(never)]
    fn learn_more(&mut self, took: Ns, choice: Choice) {
        self.history.observe(took, choice);
    }
}
