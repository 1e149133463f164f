// SPDX-License-Identifier: GPL-2.0
//! One key: the memory of its preparation times.

use crate::{
    glue::{
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
                Features,
                Regression, //
            },
            Choice,
            History,
            Kind, //
        },
        units::{
            Ns,
            Permille, //
        },
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
    /// Its bursts, of requests that had a place in the order of deadlines.
    bursts: Bursts,
    /// From the first request with features on that count.
    regression: Option<KBox<Regression>>,
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
                    regression: None,
                }, c"zernel_key"),
                version: Atomic::new(0),
                used: Atomic::new(0),
            }),
            account_nowait(),
        )
    }

    /// Learns from a preparation, how it was predicted, and its features if those were asked.
    pub(crate) fn learn(&self, took: Ns, choice: Choice, features: &Features) {
        self.touch();
        let mut known = self.known.lock();
        match choice.margin {
            true => known.learn_more(took, choice, features),
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

    /// The same for a request with these features.
    #[cold]
    #[inline(never)]
    pub(crate) fn predict_from(&self, features: &Features, choice: Choice) -> Option<Ns> {
        let known = self.known.lock();
        let fallback = known.history.predict(choice);
        match &known.regression {
            Some(regression) => regression.predict(features, choice.costs, fallback),
            None => fallback,
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
        self.known.lock().regression.is_some()
    }

    /// Makes that room.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn make_room(&self) -> Result {
        let new = KBox::new(Regression::NEW, GFP_KERNEL_ACCOUNT)?;
        let mut known = self.known.lock();
        let unused = match known.regression {
            Some(_) => Some(new),
            None => known.regression.replace(new),
        };
        // Dropped without the lock.
        drop(known);
        drop(unused);
        Ok(())
    }

    /// The share of its preparations that features foretold lately, and whether predictions follow
    /// them; `None` if no request had any that counted.
    pub(crate) fn confidence(&self) -> Option<(Permille, bool)> {
        let known = self.known.lock();
        let regression = known.regression.as_ref()?;
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
    /// Learns from a preparation, from its features, or from the error of its prediction.
    #[cold]
    #[inline(never)]
    fn learn_more(&mut self, took: Ns, choice: Choice, features: &Features) {
        if let (Kind::Features, Some(regression)) = (choice.kind, &mut self.regression) {
            let fallback = self.history.predict(choice);
            let memory = tuned::features().unwrap_or_default();
            regression.observe(features, took, choice.costs, fallback, memory);
        }
        self.history.observe(took, choice);
    }
}
