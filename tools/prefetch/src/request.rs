// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of zernel: the end of a batch is stored to a slot, without a system call and without a
//! thread that wakes up for it. When the batch is there the request is ready; when it fails, or is
//! dropped, the request is cancelled.
//!
//! ```no_run
//! use std::sync::Arc;
//! use libzernel::request::{Begin, Request, Slots};
//! use libzernel::{tsg, Zernel};
//! # use zernel_prefetch::loader::Loader;
//!
//! # async fn next(mut loader: Loader) -> Result<(), Box<dyn std::error::Error>> {
//! let slots = Arc::new(Slots::map(&Zernel::open()?, 0..64)?);
//! let begin = Begin::new(tsg::Id::new(7));
//! let request = Request::begin(&slots, 0, &begin)?;
//! // Queue wait, holder, copies and kernels for `request.number()` here.
//! let loaded = loader.next_with(Box::new(request)).await;
//! # Ok(())
//! # }
//! ```

use libzernel::request::Request;

use crate::batch::Ready;
use crate::Fault;

impl Ready for Request {
    fn ready(&self) {
        Self::ready(self);
    }

    fn failed(&self, _: &Fault) {
        self.cancel();
    }
}
