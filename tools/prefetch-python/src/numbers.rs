// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers of samples, in the order of [`zernel_prefetch::order`].

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use zernel_prefetch::order::{Batches, Order, Position};
use zernel_prefetch::{Fault, Kind};

use crate::error::{call, Error};

/// An epoch has its numbers in memory, 8 bytes each.
const MOST_SAMPLES: u64 = 1 << 32;

fn order(
    samples: u64,
    batch: u64,
    seed: Option<u64>,
    rank: u64,
    ranks: u64,
) -> Result<Order, Error> {
    if samples > MOST_SAMPLES {
        let text = format!("an index of {samples} samples, more than {MOST_SAMPLES}");
        return Err(Fault::new(Kind::TooLarge, text).into());
    }
    let order = Order {
        samples,
        batch,
        seed,
        rank,
        ranks,
    };
    match order.batches() {
        Ok(_) => Ok(order),
        Err(error) => Err(Error::misuse(error.to_string())),
    }
}

/// The batches that a rank has in an epoch.
#[pyfunction]
pub(crate) fn batches(samples: u64, batch_size: u64, rank: u64, ranks: u64) -> PyResult<u64> {
    call(|| {
        let order = order(samples, batch_size, None, rank, ranks)?;
        order
            .batches()
            .map_err(|error| Error::misuse(error.to_string()))
    })
}

/// The numbers of the samples of each batch, without an end.
#[pyclass(frozen, module = "zernel_prefetch._native")]
pub(crate) struct Numbers(Mutex<Batches>);

#[pymethods]
impl Numbers {
    #[new]
    fn new(
        py: Python<'_>,
        samples: u64,
        batch_size: u64,
        seed: Option<u64>,
        rank: u64,
        ranks: u64,
        place: (u64, u64),
    ) -> PyResult<Self> {
        let (epoch, batch) = place;
        py.detach(|| {
            call(|| {
                let order = order(samples, batch_size, seed, rank, ranks)?;
                let batches = order.from(Position { epoch, batch });
                batches.map_err(|error| Error::misuse(error.to_string()))
            })
        })
        .map(|batches| Self(Mutex::new(batches)))
    }

    /// The place of the next batch: its epoch, and its number in that.
    #[getter]
    fn place(&self) -> (u64, u64) {
        let batches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Position { epoch, batch } = batches.position();
        (epoch, batch)
    }

    /// The numbers of the next batch.
    fn take(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        // Those of a new epoch take a while.
        py.detach(|| {
            call(|| {
                let mut batches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(batches.next().unwrap_or_default())
            })
        })
    }
}
