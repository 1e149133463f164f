// SPDX-License-Identifier: GPL-2.0
//! The GPUs of the driver, and which of them heed interleave levels.

use crate::glue::time::now_ns;
use kernel::prelude::*;

/// A GPU.
struct Gpu {
    id: u32,
    /// When it was added, in ns.
    since: u64,
    /// Its run lists were asked to heed interleave levels and would not.
    unheeding: bool,
}

/// The GPUs that `zernel.ko` was told of.
pub(crate) struct Gpus(KVec<Gpu>);

impl Gpus {
    /// None.
    pub(crate) const fn new() -> Self {
        Self(KVec::new())
    }

    /// A GPU is there.
    pub(crate) fn add(&mut self, id: u32) -> Result {
        self.0.push(
            Gpu {
                id,
                since: now_ns(),
                unheeding: false,
            },
            GFP_KERNEL,
        )?;
        Ok(())
    }

    /// A GPU is gone.
    pub(crate) fn remove(&mut self, id: u32) {
        self.0.retain(|gpu| gpu.id != id);
    }

    /// Their numbers.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().map(|gpu| gpu.id)
    }

    /// When a GPU was added, in ns.
    pub(crate) fn since(&self, id: u32) -> Option<u64> {
        let mut gpus = self.0.iter();
        gpus.find(|gpu| gpu.id == id).map(|gpu| gpu.since)
    }

    /// True if it makes sense to ask the run lists of a GPU to heed interleave levels.
    pub(crate) fn may_heed(&self, id: u32) -> bool {
        self.0.iter().any(|gpu| gpu.id == id && !gpu.unheeding)
    }

    /// The run lists of a GPU would not. Returns whether that is new.
    pub(crate) fn set_unheeding(&mut self, id: u32) -> bool {
        match self.0.iter_mut().find(|gpu| gpu.id == id) {
            Some(gpu) => !core::mem::replace(&mut gpu.unheeding, true),
            None => false,
        }
    }

    /// The driver starts anew: every GPU may be asked again.
    pub(crate) fn restart(&mut self) {
        for gpu in &mut self.0 {
            gpu.unheeding = false;
        }
    }
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_nvidia_gpus)]
mod tests {
    use crate::gpus::*;

    #[test]
    fn each_gpu_is_asked_until_it_refuses() -> Result {
        let mut gpus = Gpus::new();
        assert!(!gpus.may_heed(7));
        gpus.add(7)?;
        gpus.add(9)?;
        assert!(gpus.may_heed(7));
        assert!(gpus.set_unheeding(7));
        assert!(!gpus.set_unheeding(7));
        assert!(!gpus.may_heed(7));
        assert!(gpus.may_heed(9));
        gpus.restart();
        assert!(gpus.may_heed(7));
        gpus.remove(7);
        assert!(!gpus.may_heed(7));
        assert!(!gpus.set_unheeding(7));
        assert!(gpus.ids().eq([9]));
        Ok(())
    }
}
