// SPDX-License-Identifier: MIT OR Apache-2.0
//! The execution trace: the TSG on each engine, with begin and end.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use bytemuck::Zeroable;
use serde::{Deserialize, Serialize};

use crate::sys::{abi, sim as calls};
use crate::{Call, Error, Result, Timestamp};

/// The activity of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Activity {
    /// It ran the TSG's work.
    Run,
    /// It saved the TSG's context.
    Save,
    /// It restored the TSG's context.
    Restore,
    /// It had nothing to do.
    Idle,
    /// Something that this crate does not know.
    Unknown,
}

/// An activity of an engine, with its begin and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// From.
    pub start_ns: Timestamp,
    /// Until.
    pub end_ns: Timestamp,
    /// Handle of the TSG; 0 while idle.
    pub tsg: u64,
    /// Engine.
    pub engine: u32,
    /// The activity.
    pub activity: Activity,
    /// Process in the initial namespace; 0 while idle.
    pub pid: i32,
}

impl From<&abi::zernel_sim_trace_record> for Record {
    fn from(raw: &abi::zernel_sim_trace_record) -> Self {
        Self {
            start_ns: Timestamp::from_ns(raw.start_ns),
            end_ns: Timestamp::from_ns(raw.end_ns),
            tsg: raw.tsg,
            engine: raw.engine,
            activity: match raw.kind {
                abi::ZERNEL_SIM_TRACE_RUN => Activity::Run,
                abi::ZERNEL_SIM_TRACE_SAVE => Activity::Save,
                abi::ZERNEL_SIM_TRACE_RESTORE => Activity::Restore,
                abi::ZERNEL_SIM_TRACE_IDLE => Activity::Idle,
                _ => Activity::Unknown,
            },
            pid: raw.pid,
        }
    }
}

/// A trace in progress. Dropping it ends it.
#[derive(Debug)]
pub struct Trace {
    fd: Arc<OwnedFd>,
    gpu: u32,
}

impl Trace {
    pub(super) fn start(fd: Arc<OwnedFd>, gpu: u32, capacity: u32) -> Result<Self> {
        let mut raw = abi::zernel_sim_trace_start { gpu, capacity };
        calls::trace_start(fd.as_fd(), &mut raw).map_err(Error::call(Call::SimTraceStart))?;
        Ok(Self { fd, gpu })
    }

    /// Takes all records there are. Returns them, and how many were dropped since the start.
    pub fn read(&self) -> Result<(Vec<Record>, u64)> {
        let mut page = vec![abi::zernel_sim_trace_record::zeroed(); 512];
        let mut records = Vec::new();
        loop {
            let (count, dropped) = calls::trace_read(self.fd.as_fd(), self.gpu, &mut page)
                .map_err(Error::call(Call::SimTraceRead))?;
            records.extend(page[..count].iter().map(Record::from));
            if count < page.len() {
                return Ok((records, dropped));
            }
        }
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let mut raw = abi::zernel_sim_trace_start {
            gpu: self.gpu,
            capacity: 0,
        };
        // The trace ends with its file at the latest.
        let _ = calls::trace_start(self.fd.as_fd(), &mut raw);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_taken_apart() {
        let raw = abi::zernel_sim_trace_record {
            start_ns: 10,
            end_ns: 20,
            tsg: 5,
            engine: 0,
            kind: abi::ZERNEL_SIM_TRACE_RESTORE,
            context: 1,
            pid: 42,
        };
        let record = Record::from(&raw);
        assert_eq!(record.activity, Activity::Restore);
        assert_eq!((record.tsg, record.pid), (5, 42));
        assert_eq!(record.end_ns.since(record.start_ns).as_nanos(), 10);
    }
}
