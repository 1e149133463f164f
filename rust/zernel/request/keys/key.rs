// SPDX-License-Identifier: GPL-2.0
//! One key: the memory of its preparation times.

use crate::{
    error::Failure,
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
                lessons::Learnt,
                Features,
                Regression, //
            },
            Choice,
            History, //
        },
        units::{
            Ns,
            Permille, //
        },
    },
    request::share::learner::Learner,
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
    /// Its bursts, of requests that had a place in the order of deadlines.
    bursts: Bursts,
    /// From the first request with features on, for as long as they count.
    learned: Option<Learned>,
}

/// The knowledge from features.
struct Learned {
    regression: KBox<Regression>,
    #[expect(dead_code, reason = "it is only dropped")]
    place: Learner,
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
                    bursts: Bursts::NEW,
                    learned: None,
                }, c"zernel_key"),
                version: Atomic::new(0),
                used: Atomic::new(0),
            }),
            account_nowait(),
        )
    }

    /// Learns from a preparation and how it was predicted; from its features by [`Self::study`].
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

    /// The same for a request with these features, and what it would be without.
    #[cold]
    #[inline(never)]
    pub(crate) fn predict_from(
        &self,
        features: &Features,
        choice: Choice,
    ) -> (Option<Ns>, Option<Ns>) {
        let known = self.known.lock();
        let fallback = known.history.predict(choice);
        let told = match &known.learned {
            Some(learned) => learned.regression.predict(features, choice.costs, fallback),
            None => fallback,
        };
        (told, fallback)
    }

    /// Learns from the features of a preparation, if there is room for that.
    #[cold]
    #[inline(never)]
    pub(crate) fn study(&self, learnt: &Learnt) {
        if let Some(learned) = &mut self.known.lock().learned {
            let memory = tuned::features().unwrap_or_default();
            learnt.teach(&mut learned.regression, memory);
        }
    }

    /// Learns from a burst.
    #[cold]
    #[inline(never)]
    pub(crate) fn learn_burst(&self, took: Ns) {
        self.known.lock().bursts.observe(took);
    }

    /// The time that a burst seldom exceeds; `None` if none was seen.
    pub(crate) fn burst(&self) -> Option<Ns> {
        self.known.lock().bursts.bound()
    }

    /// True if it has room for what is learned from features.
    pub(crate) fn has_room(&self) -> bool {
        self.known.lock().learned.is_some()
    }

    /// Makes that room, for one of `user`'s keys. Returns false without memory or a place for it, and if
    /// features do not count any more.
    pub(crate) fn make_room(&self, user: Uid) -> bool {
        let Ok(new) = Learned::new(user) else {
            return false;
        };
        let mut known = self.known.lock();
        // Looked at with the lock held: `forget_features` takes it once they do not count.
        let unused = match known.learned.is_none() && tuned::features().is_some() {
            true => known.learned.replace(new),
            false => Some(new),
        };
        let has_room = known.learned.is_some();
        // Dropped without the lock.
        drop(known);
        drop(unused);
        has_room
    }

    /// Gives that room back, and forgets what was learned.
    pub(crate) fn forget_features(&self) {
        let unused = self.known.lock().learned.take();
        // Dropped without the lock.
        drop(unused);
    }

    /// The share of its preparations that features foretold lately, and whether predictions follow
    /// them; `None` if no request had any that counted.
    pub(crate) fn confidence(&self) -> Option<(Permille, bool)> {
        let known = self.known.lock();
        let regression = &known.learned.as_ref()?.regression;
        Some((regression.confidence(), regression.is_used()))
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

impl Learned {
    /// Nothing yet.
    ///
    /// # Errors
    ///
    /// As [`Learner::new`].
    fn new(user: Uid) -> Result<Self, Failure> {
        // First, so that it takes no memory where there is no place.
        let place = Learner::new(user)?;
        let regression = KBox::new(Regression::NEW, GFP_KERNEL_ACCOUNT)?;
        Ok(Self { regression, place })
    }
}
