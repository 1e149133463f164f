// SPDX-License-Identifier: GPL-2.0
//! Which TSGs serve several processes (MPS), so that each is counted once, whenever that begins.

use crate::counters;
use kernel::{
    prelude::*,
    rbtree::RBTree, //
};

/// The TSGs that zernel follows and that serve several processes.
pub(crate) struct Shared(RBTree<u64, ()>);

impl Shared {
    /// None.
    pub(crate) fn new() -> Self {
        Self(RBTree::new())
    }

    /// A TSG is one of them; people are told when it is the first ever.
    pub(crate) fn note(&mut self, tsg: u64) {
        if self.0.get(&tsg).is_some() {
            return;
        }
        // Without memory for it, it is counted again the next time.
        let _ = self.0.try_create_and_insert(tsg, (), GFP_KERNEL);
        if counters::SHARED.count() {
            pr_info!("MPS is in use: several processes share its TSGs, so no class raises them\n");
        }
    }

    /// A TSG is gone.
    pub(crate) fn forget(&mut self, tsg: u64) {
        self.0.remove(&tsg);
    }
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_nvidia_shared)]
mod tests {
    use crate::shared::*;

    #[test]
    fn each_is_counted_once() {
        let mut shared = Shared::new();
        let before = counters::SHARED.value();
        for tsg in [3, 4, 3, 3, 4] {
            shared.note(tsg);
        }
        assert_eq!(counters::SHARED.value(), before + 2);
        shared.forget(3);
        shared.forget(3);
        assert!(shared.0.get(&3).is_none());
        shared.note(4);
        assert_eq!(counters::SHARED.value(), before + 2);
    }
}
