// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order of samples: shuffled by a seed, shared out among ranks, and resumed where it was left.

use rand::seq::SliceRandom as _;
use rand_chacha::rand_core::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

/// An order of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// Samples of the data set.
    pub samples: u64,
    /// Samples of a batch.
    pub batch: u64,
    /// `None`: in the order of their numbers.
    pub seed: Option<u64>,
    /// The number of this rank, from 0.
    pub rank: u64,
    /// The number of ranks. All have the same number of batches: what is left over is left out.
    pub ranks: u64,
}

/// A place in an order: the next batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position {
    /// The epoch, from 0.
    pub epoch: u64,
    /// The batch in it.
    pub batch: u64,
}

/// An order that gives no batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoOrder {
    /// A batch has no samples.
    #[error("a batch has no samples")]
    EmptyBatch,
    /// The rank is not one of the ranks.
    #[error("rank {rank} is none of {ranks}")]
    NoRank {
        /// The rank.
        rank: u64,
        /// Their number.
        ranks: u64,
    },
    /// There are not enough samples for a batch of each rank.
    #[error("{samples} samples are no batch for each rank")]
    TooFew {
        /// The samples.
        samples: u64,
    },
}

impl Order {
    /// The batches of a rank in an epoch.
    ///
    /// # Errors
    ///
    /// [`NoOrder`].
    pub fn batches(&self) -> Result<u64, NoOrder> {
        let Self { rank, ranks, .. } = *self;
        if self.batch == 0 {
            return Err(NoOrder::EmptyBatch);
        }
        if rank >= ranks {
            return Err(NoOrder::NoRank { rank, ranks });
        }
        match self.samples / ranks / self.batch {
            0 => Err(NoOrder::TooFew {
                samples: self.samples,
            }),
            batches => Ok(batches),
        }
    }

    /// The samples of an epoch, in their order, of all ranks.
    fn epoch(&self, epoch: u64) -> Vec<u64> {
        let mut all: Vec<u64> = (0..self.samples).collect();
        if let Some(seed) = self.seed {
            let mut seeds = [0; 32];
            seeds[..8].copy_from_slice(&seed.to_le_bytes());
            seeds[8..16].copy_from_slice(&epoch.to_le_bytes());
            all.shuffle(&mut ChaCha8Rng::from_seed(seeds));
        }
        all
    }

    /// Batches of sample numbers from a position on, for ever.
    ///
    /// # Errors
    ///
    /// [`NoOrder`].
    pub fn from(self, position: Position) -> Result<Batches, NoOrder> {
        let batches = self.batches()?;
        let position = Position {
            epoch: position.epoch.saturating_add(position.batch / batches),
            batch: position.batch % batches,
        };
        Ok(Batches {
            order: self,
            batches,
            all: self.epoch(position.epoch),
            position,
        })
    }
}

/// Batches of sample numbers.
#[derive(Debug, Clone)]
pub struct Batches {
    order: Order,
    batches: u64,
    all: Vec<u64>,
    position: Position,
}

impl Batches {
    /// The next batch: what resumes this order.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Each batch with the position behind it.
    pub fn placed(mut self) -> impl Iterator<Item = (Position, Vec<u64>)> {
        std::iter::from_fn(move || {
            let samples = self.next()?;
            Some((self.position, samples))
        })
    }
}

impl Iterator for Batches {
    type Item = Vec<u64>;

    fn next(&mut self) -> Option<Vec<u64>> {
        let Order {
            batch, rank, ranks, ..
        } = self.order;
        // The ranks take turns, so that all of them together go through the epoch side by side.
        let first = self.position.batch * batch;
        let samples = (first..first + batch)
            .map(|at| self.all[(at * ranks + rank) as usize])
            .collect();
        self.position.batch += 1;
        if self.position.batch == self.batches {
            self.position = Position {
                epoch: self.position.epoch.saturating_add(1),
                batch: 0,
            };
            self.all = self.order.epoch(self.position.epoch);
        }
        Some(samples)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranks_share_an_epoch_out(
            samples in 1_u64..200,
            batch in 1_u64..9,
            ranks in 1_u64..5,
            seed in proptest::option::of(any::<u64>()),
            epoch in 0_u64..3,
        ) {
            let order = |rank| Order { samples, batch, seed, rank, ranks };
            let Ok(batches) = order(0).batches() else {
                prop_assert!(samples < batch * ranks);
                return Ok(());
            };
            let mut seen = BTreeSet::new();
            for rank in 0..ranks {
                let begin = Position { epoch, batch: 0 };
                let all = order(rank).from(begin).expect("as of the first");
                for batch in all.clone().take(batches as usize) {
                    for sample in batch {
                        prop_assert!(sample < samples && seen.insert(sample), "{} twice", sample);
                    }
                }
                // An order that is resumed is the same.
                let mut resumed = all.clone();
                for expected in all.skip(1).take(2 * batches as usize) {
                    resumed.next();
                    let mut again = order(rank).from(resumed.position()).expect("as of the first");
                    prop_assert_eq!(again.next(), Some(expected));
                }
            }
            prop_assert_eq!(seen.len() as u64, batches * batch * ranks);
        }
    }

    #[test]
    fn seeds_and_epochs_differ() {
        let order = |seed| Order {
            samples: 1_000,
            batch: 1_000,
            seed,
            rank: 0,
            ranks: 1,
        };
        let mut some = order(Some(1)).from(Position::default()).expect("an order");
        let (first, second) = (some.next(), some.next());
        assert_ne!(first, second);
        let other = order(Some(2))
            .from(Position::default())
            .expect("an order")
            .next();
        assert_ne!(first, other);
        let plain = order(None)
            .from(Position::default())
            .expect("an order")
            .next();
        assert_eq!(plain, Some((0..1_000).collect()));
    }

    #[test]
    fn orders_that_give_no_batches_are_told() {
        let order = Order {
            samples: 10,
            batch: 3,
            seed: None,
            rank: 0,
            ranks: 2,
        };
        assert_eq!(order.batches(), Ok(1));
        let none = |order: Order| order.from(Position::default()).map(drop).expect_err("none");
        assert_eq!(none(Order { batch: 0, ..order }), NoOrder::EmptyBatch);
        let no_rank = NoOrder::NoRank { rank: 2, ranks: 2 };
        assert_eq!(none(Order { rank: 2, ..order }), no_rank);
        assert_eq!(
            none(Order { batch: 6, ..order }),
            NoOrder::TooFew { samples: 10 }
        );
    }
}
