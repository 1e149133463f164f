// SPDX-License-Identifier: MIT OR Apache-2.0
//! The use of the GPU that a context is on.

use libzernel::Target;
use rustix::io::Errno;

use crate::{sys, Error, Result, Runtime};

/// The use of a GPU, and how often the TSG of a context was taken off it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time for which the GPU has worked, for any program, in nanoseconds.
    pub busy_ns: u64,
    /// The time of that figure, by CLOCK_MONOTONIC, in nanoseconds.
    pub at_ns: u64,
    /// Times that the TSG was taken off the GPU while it had work there.
    pub times_preempted: u64,
}

impl Runtime {
    /// The use of the GPU of its context; `None` where it is inert, or the GPU or the TSG is gone.
    ///
    /// # Errors
    ///
    /// [`Error::Zernel`], [`Error::Forked`].
    pub fn usage(&self) -> Result<Option<Usage>> {
        let Some(active) = self.active() else {
            return Ok(None);
        };
        if sys::is_child() {
            return Err(Error::Forked);
        }
        let zernel = active.zernel();
        let mut own = zernel.tsgs_of(&Target::Tsg(active.tsg()));
        let tsg = match own.next() {
            Some(Ok(tsg)) => tsg,
            None => return Ok(None),
            Some(Err(error)) if error.errno() == Some(Errno::NOENT) => return Ok(None),
            Some(Err(error)) => return Err(error.into()),
        };
        let mut gpus = zernel.gpus();
        let gpu = gpus.find(|gpu| gpu.as_ref().map_or(true, |gpu| gpu.id == tsg.gpu));
        let usage = gpu.transpose()?.map(|gpu| {
            // One that has not yet worked has been idle since zernel has known it.
            let (busy_ns, at) = match gpu.busy_at_ns {
                Some(at) => (gpu.busy_ns, at),
                None => (0, gpu.added_ns),
            };
            Usage {
                busy_ns,
                at_ns: at.as_ns(),
                times_preempted: tsg.preemptions,
            }
        });
        Ok(usage)
    }
}
