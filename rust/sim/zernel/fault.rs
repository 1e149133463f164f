// SPDX-License-Identifier: GPL-2.0
//! Faults that tests put into the operations of the provider.

use crate::uapi::*;
use kernel::prelude::*;

/// Operations, by the numbers of the header.
const OPERATIONS: usize = ZERNEL_SIM_OP_QUERY_TSG as usize;

/// A fault of one operation.
#[derive(Clone, Copy)]
pub(crate) struct Fault {
    /// Calls left; `u32::MAX`: all.
    pub(crate) count: u32,
    /// 0 or a negative errno.
    pub(crate) error: i32,
    /// The additional time of the call, in ns.
    pub(crate) delay: u64,
    /// Which TSG; 0: any.
    pub(crate) tsg: u64,
    /// Calls hit since the module was loaded.
    pub(crate) injected: u64,
}

/// The faults of a GPU.
pub(crate) struct Faults([Fault; OPERATIONS]);

/// The effect of faults on a call.
pub(crate) struct Injection {
    /// 0 or a negative errno.
    pub(crate) error: i32,
    /// In ns.
    pub(crate) delay: u64,
}

impl Faults {
    /// None.
    pub(crate) const fn new() -> Self {
        let none = Fault {
            count: 0,
            error: 0,
            delay: 0,
            tsg: 0,
            injected: 0,
        };
        Self([none; OPERATIONS])
    }

    /// The fault of an operation.
    ///
    /// # Errors
    ///
    /// `EINVAL` no such operation.
    pub(crate) fn of(&mut self, op: u32) -> Result<&mut Fault> {
        let at = (op as usize).checked_sub(1).ok_or(EINVAL)?;
        self.0.get_mut(at).ok_or(EINVAL)
    }

    /// The effect on a call of `op` for `tsg`; uses it up.
    pub(crate) fn take(&mut self, op: u32, tsg: u64) -> Option<Injection> {
        let fault = self.of(op).ok()?;
        if fault.count == 0 || (fault.tsg != 0 && fault.tsg != tsg) {
            return None;
        }
        if fault.count != u32::MAX {
            fault.count -= 1;
        }
        fault.injected = fault.injected.saturating_add(1);
        Some(Injection {
            error: fault.error,
            delay: fault.delay,
        })
    }
}

#[cfg(zernel_kunit)]
#[kernel::macros::kunit_tests(zernel_sim_fault)]
mod tests {
    use crate::host::fault::*;

    #[test]
    fn a_fault_hits_its_tsg_and_ends() -> Result {
        let mut faults = Faults::new();
        assert!(faults.of(0).is_err());
        assert!(faults.of(ZERNEL_SIM_OP_QUERY_TSG + 1).is_err());
        let fault = faults.of(ZERNEL_SIM_OP_PREEMPT)?;
        fault.count = 2;
        fault.error = -5;
        fault.tsg = 77;
        assert!(faults.take(ZERNEL_SIM_OP_PREEMPT, 76).is_none());
        assert!(faults.take(ZERNEL_SIM_OP_SET_TIMESLICE, 77).is_none());
        assert_eq!(
            faults.take(ZERNEL_SIM_OP_PREEMPT, 77).map(|hit| hit.error),
            Some(-5)
        );
        assert!(faults.take(ZERNEL_SIM_OP_PREEMPT, 77).is_some());
        assert!(faults.take(ZERNEL_SIM_OP_PREEMPT, 77).is_none());
        assert_eq!(faults.of(ZERNEL_SIM_OP_PREEMPT)?.injected, 2);
        Ok(())
    }

    #[test]
    fn a_fault_without_end_stays() -> Result {
        let mut faults = Faults::new();
        faults.of(ZERNEL_SIM_OP_SET_ENABLED)?.count = u32::MAX;
        for _ in 0..100 {
            assert!(faults.take(ZERNEL_SIM_OP_SET_ENABLED, 1).is_some());
        }
        Ok(())
    }
}
