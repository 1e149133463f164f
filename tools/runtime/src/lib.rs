// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of CUDA programs.
//!
//! A program says that it begins to prepare data, that the data is ready, and that the result is
//! there. While it prepares, a small *holder* kernel takes the GPU for its context, so that its
//! kernels start without waiting for the slice of another program.
//!
//! ```no_run
//! use zernel_runtime::{Options, Request, Runtime, Spec};
//!
//! # fn decode() {}
//! # fn launch_first() {}
//! # fn launch_others_and_wait() {}
//! // With the context current that the program computes in.
//! let runtime = Runtime::attach(&Options::from_environment()?)?;
//! let spec = Spec::new().key(7);
//! loop {
//!     let mut request: Request = runtime.begin(&spec)?;
//!     decode();
//!     launch_first();
//!     request.ready();
//!     launch_others_and_wait();
//!     request.done();
//! #   break;
//! }
//! # Ok::<(), zernel_runtime::Error>(())
//! ```
//!
//! Requests are advice. Where zernel, its permission, a GPU or a usable driver is missing, the
//! runtime is *inert*: it says once why, and every call does nothing. A request that cannot have a
//! lane or is refused does nothing either, and is counted.
#![deny(missing_docs)]

mod active;
mod counters;
mod error;
mod graph;
mod holder;
mod lane;
mod options;
mod place;
mod release;
mod request;
mod runtime;
mod sys;
mod usage;
mod want;

pub use counters::Counters;
pub use error::{Error, Result};
pub use graph::{GraphRequests, Recorded};
pub use libzernel::request::Features;
pub use options::{Mode, Options, ReleaseWord};
pub use place::TsgsBefore;
pub use request::{Idle, Request, Spec};
pub use runtime::Runtime;
pub use usage::Usage;
pub use want::Want;
