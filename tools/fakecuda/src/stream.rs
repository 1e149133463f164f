// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams that a program makes.

use std::sync::Arc;

use crate::context::Context;
use crate::driver::{Driver, Object};
use crate::status::{Result, Status};

/// It does not wait for the legacy default stream, nor that for it.
const NON_BLOCKING: u32 = 1;
/// The most urgent priority; 0 is the least urgent one.
pub(crate) const GREATEST: i32 = -5;

/// A stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) context: Arc<Context>,
    /// Its number in the context: its handle.
    pub(crate) number: u64,
    pub(crate) flags: u32,
    pub(crate) priority: i32,
}

impl Driver {
    /// Makes a stream; returns its handle. The priority is kept and changes nothing.
    pub(crate) fn create_stream(
        &self,
        context: &Arc<Context>,
        flags: u32,
        priority: i32,
    ) -> Result<u64> {
        if flags > NON_BLOCKING {
            return Err(Status::INVALID_VALUE);
        }
        let number = self.new_handle();
        context.add_stream(number, flags & NON_BLOCKING == 0)?;
        let stream = Stream {
            context: context.clone(),
            number,
            flags,
            priority: priority.clamp(GREATEST, 0),
        };
        self.insert(number, Object::Stream(Arc::new(stream)));
        Ok(number)
    }

    /// Ends a stream; its work goes on.
    pub(crate) fn destroy_stream(&self, handle: u64) -> Result<()> {
        let stream = self.stream(handle)?;
        stream.context.status()?;
        self.remove(handle);
        stream.context.remove_stream(stream.number);
        Ok(())
    }
}
