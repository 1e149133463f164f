// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls that use a handle of the program's, whose end they have to come before.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Those of a handle that are under way.
///
/// A child of `fork()` has the count of its parent, whose calls do not end there: it neither begins one
/// nor waits.
#[derive(Default)]
pub(crate) struct Calls {
    under_way: Mutex<usize>,
    ended: Condvar,
}

impl Calls {
    fn under_way(&self) -> MutexGuard<'_, usize> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins one.
    pub(crate) fn begin(self: &Arc<Self>) -> Call {
        *self.under_way() += 1;
        Call(self.clone())
    }

    /// Waits until none is under way. No other thread needs the interpreter for that.
    pub(crate) fn wait(&self) {
        let mut under_way = self.under_way();
        while *under_way > 0 {
            under_way = self
                .ended
                .wait(under_way)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A call that is under way. Dropped, it is over.
pub(crate) struct Call(Arc<Calls>);

impl Drop for Call {
    fn drop(&mut self) {
        *self.0.under_way() -= 1;
        self.0.ended.notify_all();
    }
}
