// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes that the stages of a prefetcher share. Each stage has a floor that no other can take.

use std::sync::{Arc, Weak};

use event_listener::{Event, EventListener};

use crate::sync::{lock, AtomicU64, Mutex, Ordering};

/// A stage of a budget: the right to take bytes.
#[derive(Debug)]
pub struct Stage {
    budget: Arc<Budget>,
    at: usize,
    /// The most bytes of the stage.
    most: u64,
}

/// A cache, as far as others of its budget need it.
pub(crate) trait Reclaim: Send + Sync {
    /// Evicts entries that nobody needs, for so many bytes. Returns the bytes.
    fn reclaim(&self, bytes: u64) -> u64;
}

struct Share {
    floor: u64,
    used: u64,
    cache: Option<Weak<dyn Reclaim>>,
}

#[derive(Default)]
struct Shares {
    used: u64,
    all: Vec<Share>,
}

impl Shares {
    /// There is room for a stage's bytes, beside what others may take at any time.
    fn fits(&self, total: u64, at: usize, bytes: u64) -> bool {
        let others = self
            .all
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != at);
        let kept = others.map(|(_, share)| share.floor.saturating_sub(share.used));
        let all = [self.used, bytes].into_iter().chain(kept);
        all.fold(0, u64::saturating_add) <= total
    }
}

/// Floors that are larger than the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the floors of the stages, {floors} bytes, are larger than the budget, {total} bytes")]
pub struct FloorsTooLarge {
    /// Their sum.
    pub floors: u64,
    /// The budget.
    pub total: u64,
}

/// The bytes of all stages.
pub struct Budget {
    total: u64,
    shares: Mutex<Shares>,
    /// It is notified when there may be room again.
    freed: Event,
    /// Not 0: somebody waits for that.
    is_awaited: AtomicU64,
}

impl std::fmt::Debug for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let used = self.used();
        f.debug_struct("Budget")
            .field("total", &self.total)
            .field("used", &used)
            .finish_non_exhaustive()
    }
}

impl Budget {
    /// So many bytes, and a floor for each stage.
    ///
    /// # Errors
    ///
    /// [`FloorsTooLarge`].
    pub fn split<const STAGES: usize>(
        total: u64,
        floors: [u64; STAGES],
    ) -> Result<[Stage; STAGES], FloorsTooLarge> {
        let sum = floors
            .iter()
            .fold(0, |sum: u64, floor| sum.saturating_add(*floor));
        if sum > total {
            return Err(FloorsTooLarge { floors: sum, total });
        }
        let shares = Shares {
            used: 0,
            all: floors
                .iter()
                .map(|floor| Share {
                    floor: *floor,
                    used: 0,
                    cache: None,
                })
                .collect(),
        };
        let budget = Arc::new(Self {
            total,
            shares: Mutex::new(shares),
            freed: Event::new(),
            is_awaited: AtomicU64::new(0),
        });
        Ok(std::array::from_fn(|at| Stage {
            budget: Arc::clone(&budget),
            at,
            most: total - (sum - floors[at]),
        }))
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        lock(&self.shares).used
    }
}

impl Stage {
    /// The budget.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// The most bytes of the stage.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    pub(crate) fn join(&self, cache: Weak<dyn Reclaim>) {
        lock(&self.budget.shares).all[self.at].cache = Some(cache);
    }

    /// Takes bytes, if there is room.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let mut shares = lock(&self.budget.shares);
        let fits = shares.fits(self.budget.total, self.at, bytes);
        if fits {
            shares.used += bytes;
            shares.all[self.at].used += bytes;
        }
        fits
    }

    /// Takes bytes of a value that is there: beyond the budget, too. Nothing else is admitted then.
    pub(crate) fn force(&self, bytes: u64) {
        let mut shares = lock(&self.budget.shares);
        shares.used += bytes;
        shares.all[self.at].used += bytes;
    }

    /// Gives bytes back. [`Self::notify`] tells those who wait for room.
    pub(crate) fn give(&self, bytes: u64) {
        let mut shares = lock(&self.budget.shares);
        shares.used -= bytes;
        shares.all[self.at].used -= bytes;
    }

    /// Has other stages evict entries that nobody needs, above their floors, for `bytes`. Returns
    /// whether one did.
    pub(crate) fn reclaim(&self, bytes: u64) -> bool {
        let others = {
            let shares = lock(&self.budget.shares);
            let others = shares.all.iter().enumerate();
            let others = others.filter(|(at, share)| *at != self.at && share.used > share.floor);
            others
                .filter_map(|(_, share)| {
                    let cache = share.cache.as_ref()?.upgrade()?;
                    Some((cache, share.used - share.floor))
                })
                .collect::<Vec<_>>()
        };
        let mut freed = 0;
        for (cache, above) in others {
            if freed >= bytes {
                break;
            }
            freed += cache.reclaim(above.min(bytes - freed));
        }
        freed > 0
    }

    /// Tells those who wait for room that there may be some.
    pub(crate) fn notify(&self) {
        let budget = &self.budget;
        if budget.is_awaited.swap(0, Ordering::SeqCst) != 0 {
            budget.freed.notify(usize::MAX);
        }
    }

    /// Waits for room, from now on. One who finds none after this is told of some: a lock that was
    /// held to look for it was taken again to make it.
    pub(crate) fn listen(&self) -> EventListener {
        let listener = self.budget.freed.listen();
        // Not a mere store: it comes behind what the last one who told has read.
        self.budget.is_awaited.swap(1, Ordering::SeqCst);
        listener
    }
}
