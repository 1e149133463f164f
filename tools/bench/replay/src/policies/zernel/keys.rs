// SPDX-License-Identifier: MIT OR Apache-2.0
//! The histories of keys: each client's own, as many in all as the kernel has.

use std::collections::BTreeMap;

use super::estimate::Estimate;
use super::{Asked, Options};
use crate::policy::deadline::burst::Bursts;
use crate::policy::predict::{Choice, History, Kind};
use crate::policy::units::Ns;

/// Most keys: those of `rust/zernel/request/keys.rs`.
const MOST: usize = 65_536;

/// The knowledge of a key.
struct Known {
    /// When it was used last.
    age: u64,
    history: History,
    estimate: Estimate,
    bursts: Bursts,
}

/// All keys. The kernel has them for each user, not for each client.
#[derive(Default)]
pub(super) struct Keys {
    known: BTreeMap<(usize, u64), Known>,
    /// The keys by their ages.
    order: BTreeMap<u64, (usize, u64)>,
    age: u64,
}

impl Keys {
    /// Learns from the preparation of a client's request. Where there is no room for its key, the one
    /// that was used least recently is forgotten.
    pub(super) fn learn(
        &mut self,
        client: usize,
        asked: &Asked,
        took: Ns,
        options: &Options,
        choice: Choice,
    ) {
        let place = (client, asked.key);
        self.age += 1;
        let age = self.age;
        let known = self.known.entry(place).or_insert_with(|| Known {
            age,
            history: History::new(options.safety_margin),
            estimate: Estimate::new(options.estimator),
            bursts: Bursts::NEW,
        });
        self.order.remove(&known.age);
        self.order.insert(age, place);
        known.age = age;
        if choice.kind == Kind::Features {
            let costs = asked.costs;
            let fallback = known.history.predict(Choice { costs, ..choice });
            let memory = options.memory;
            known
                .estimate
                .observe(&asked.features, took, costs, fallback, memory);
        }
        known.history.observe(took, choice);
        if self.known.len() > MOST {
            if let Some((_, oldest)) = self.order.pop_first() {
                self.known.remove(&oldest);
            }
        }
    }

    /// Learns from the burst of a client's request, if its key is known.
    pub(super) fn learn_burst(&mut self, client: usize, asked: &Asked, took: Ns) {
        if let Some(known) = self.known.get_mut(&(client, asked.key)) {
            known.bursts.observe(took);
        }
    }

    /// The time that a burst of the key seldom exceeds, if one was seen.
    pub(super) fn burst(&self, client: usize, asked: &Asked) -> Option<Ns> {
        self.known.get(&(client, asked.key))?.bursts.bound()
    }

    /// The time that the preparation of a client's request will take, if anything is known.
    pub(super) fn predict(&self, client: usize, asked: &Asked, choice: Choice) -> Option<Ns> {
        let known = self.known.get(&(client, asked.key))?;
        let fallback = known.history.predict(choice);
        match choice.kind {
            Kind::Features => known
                .estimate
                .predict(&asked.features, choice.costs, fallback),
            _ => fallback,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::predict::{fixed::Fixed, Costs};

    #[test]
    fn the_key_that_was_used_least_recently_is_forgotten() {
        let options = Options::DEFAULT;
        let choice = Choice {
            kind: Kind::Ema,
            costs: Costs { early: 1, late: 6 },
            fixed: Fixed::default(),
            margin: false,
        };
        let asked = |key| Asked {
            key,
            ..Asked::default()
        };
        let mut keys = Keys::default();
        let learn = |keys: &mut Keys, client, key| {
            keys.learn(client, &asked(key), Ns(9_000), &options, choice);
        };
        for key in 0..MOST as u64 - 1 {
            learn(&mut keys, 0, key);
        }
        learn(&mut keys, 1, 0);
        learn(&mut keys, 0, 0);
        let known = |keys: &Keys, client, key| keys.predict(client, &asked(key), choice).is_some();
        assert!(known(&keys, 0, 1) && known(&keys, 1, 0));
        learn(&mut keys, 1, 7);
        assert_eq!((keys.known.len(), keys.order.len()), (MOST, MOST));
        assert!(!known(&keys, 0, 1));
        assert!(known(&keys, 0, 0) && known(&keys, 0, 2) && known(&keys, 1, 0));
    }
}
