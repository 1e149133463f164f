// SPDX-License-Identifier: GPL-2.0
//! The file `records` of debugfs: what the records of context switches tell, up to now.

use crate::{
    glue::debugfs::{
        Show,
        Text, //
    },
    operations::{
        Driver,
        Hook,
        Nvidia, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A line per GPU and per MIG instance, with its counts, the durations of saves and restores, and its clock beside the
/// kernel's; then one per TSG, with its time as told, by looks, and by records.
pub(crate) struct Records<D: Driver = Hook>(Arc<Nvidia<D>>);

impl<D: Driver> Records<D> {
    /// Those of a provider.
    pub(crate) fn new(nvidia: Arc<Nvidia<D>>) -> Self {
        Self(nvidia)
    }
}

impl<D: Driver> Show for Records<D> {
    fn show(&self, out: &mut Text) -> Result {
        let mut gpus = KVec::new();
        for gpu in self.0.traces().lock().gpus() {
            gpus.push(gpu, GFP_KERNEL)?;
        }
        for &gpu in &gpus {
            self.0.follow(gpu, true);
        }
        self.0.traces().lock().show(out)?;
        self.0.meters().lock().show(out)
    }
}
