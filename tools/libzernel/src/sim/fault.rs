// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults: provider operations of the software GPU that fail or take longer.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use bytemuck::Zeroable;
use rustix::io::Errno;

use crate::sys::{abi, sim as calls};
use crate::time::saturating_ns;
use crate::{Call, Error, Result};

/// A provider operation that a fault can hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Set a time slice.
    SetTimeslice,
    /// Get a time slice.
    GetTimeslice,
    /// Take the engine away.
    Preempt,
    /// Let a TSG be scheduled or not.
    SetEnabled,
    /// Set an interleave level.
    SetInterleave,
    /// Tell the load.
    QueryLoad,
    /// A change that the owner of a TSG has made after zernel has allowed it.
    UserControl,
    /// Have a run list begin anew.
    Kick,
    /// Tell the load of a TSG.
    QueryTsg,
}

impl Operation {
    fn to_abi(self) -> u32 {
        match self {
            Self::SetTimeslice => abi::ZERNEL_SIM_OP_SET_TIMESLICE,
            Self::GetTimeslice => abi::ZERNEL_SIM_OP_GET_TIMESLICE,
            Self::Preempt => abi::ZERNEL_SIM_OP_PREEMPT,
            Self::SetEnabled => abi::ZERNEL_SIM_OP_SET_ENABLED,
            Self::SetInterleave => abi::ZERNEL_SIM_OP_SET_INTERLEAVE,
            Self::QueryLoad => abi::ZERNEL_SIM_OP_QUERY_LOAD,
            Self::UserControl => abi::ZERNEL_SIM_OP_USER_CONTROL,
            Self::Kick => abi::ZERNEL_SIM_OP_KICK,
            Self::QueryTsg => abi::ZERNEL_SIM_OP_QUERY_TSG,
        }
    }
}

/// Makes calls of an operation sleep and then fail, or do their work if there is no error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// GPU.
    pub gpu: u32,
    /// Operation; a new fault replaces the one before.
    pub operation: Operation,
    /// Calls that are hit; `u32::MAX` stands for all, 0 ends the fault.
    pub count: u32,
    /// Error that they return.
    pub error: Option<Errno>,
    /// The time that they sleep, at most 10 s.
    pub delay: Duration,
    /// Only calls for this TSG handle.
    pub tsg: Option<u64>,
}

impl Fault {
    fn encode(&self) -> abi::zernel_sim_fault {
        abi::zernel_sim_fault {
            gpu: self.gpu,
            op: self.operation.to_abi(),
            count: self.count,
            error: self.error.map_or(0, |errno| -errno.raw_os_error()),
            delay_ns: saturating_ns(self.delay),
            tsg: self.tsg.unwrap_or(0),
            ..abi::zernel_sim_fault::zeroed()
        }
    }

    pub(super) fn inject(&self, fd: BorrowedFd<'_>) -> Result<u32> {
        let mut raw = self.encode();
        calls::fault(fd, &mut raw).map_err(Error::call(Call::SimFault))?;
        Ok(raw.count)
    }
}

pub(super) fn injected(fd: BorrowedFd<'_>, gpu: u32, operation: Operation) -> Result<u64> {
    let mut raw = abi::zernel_sim_fault {
        gpu,
        op: operation.to_abi(),
        flags: abi::ZERNEL_SIM_FAULT_QUERY,
        ..abi::zernel_sim_fault::zeroed()
    };
    calls::fault(fd, &mut raw).map_err(Error::call(Call::SimFault))?;
    Ok(raw.injected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_encode_as_the_header_says() {
        let raw = Fault {
            gpu: 1,
            operation: Operation::QueryLoad,
            count: u32::MAX,
            error: Some(Errno::AGAIN),
            delay: Duration::from_millis(2),
            tsg: None,
        }
        .encode();
        assert_eq!((raw.gpu, raw.op, raw.error), (1, 6, -11));
        assert_eq!((raw.delay_ns, raw.tsg, raw.flags), (2_000_000, 0, 0));
    }
}
