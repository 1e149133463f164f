// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests: a process tells when it begins to prepare data, and the GPU is free when that is
//! ready.
//!
//! [`Slots`] are memory that the program shares with zernel and the GPU: the stream of request `n`
//! waits there until the trigger word has reached `n`, runs a holder until the release word has, and
//! then its kernels. In the steady state a request takes one system call,
//! [`Slot::begin`]; that it is ready and done are stores.
//!
//! ```no_run
//! use std::time::Duration;
//! use libzernel::request::{Begin, Slots};
//! use libzernel::{tsg, Zernel};
//!
//! # fn prepare() {}
//! # fn wait_for_the_gpu() {}
//! let zernel = Zernel::open()?;
//! let slots = Slots::map(&zernel, 0..64)?;
//! let slot = slots.slot(0).expect("it was mapped");
//! let begin = Begin::new(tsg::Id::new(7)).expected(Duration::from_micros(200));
//! for _ in 0..1000 {
//!     let request = slot.begin(&begin)?.number;
//!     prepare();
//!     slot.ready(request);
//!     wait_for_the_gpu();
//!     slot.done(request);
//! }
//! # Ok::<(), libzernel::Error>(())
//! ```

mod begin;
mod gate;
mod number;
mod owned;
mod slot;
mod slots;
mod stats;

pub use begin::{Begin, Begun, Features};
pub use gate::Gate;
pub use number::Number;
pub use owned::Request;
pub use slot::{Slot, Word};
pub use slots::Slots;
pub use stats::{Bucket, Durations, Histogram, Of, RequestStats};
