// SPDX-License-Identifier: MIT OR Apache-2.0
//! Safe wrapper of zernel's two interfaces: `/dev/zernel`, which classes the work of GPUs, and
//! `/dev/zernel-sim`, the software GPU.
//!
//! Layouts and call numbers come from the C headers at build time. `unsafe` is confined to
//! [`sys`]; everything above it is safe.
//!
//! ```no_run
//! use libzernel::{Level, Target, Zernel};
//!
//! let zernel = Zernel::open()?;
//! zernel.set_class(&Target::current_process(), Level::LC)?;
//! for tsg in zernel.tsgs() {
//!     let tsg = tsg?;
//!     println!("{} of process {}: {} us", tsg.id, tsg.pid, tsg.timeslice_us);
//! }
//! # Ok::<(), libzernel::Error>(())
//! ```
#![deny(missing_docs)]

pub mod class;
pub mod device;
mod error;
pub mod event;
pub mod gpu;
pub mod info;
mod level;
pub mod level_info;
mod list;
pub mod loader;
pub mod phase;
pub mod prefetch;
pub mod probe;
pub mod request;
pub mod sim;
mod stats;
pub mod sys;
mod target;
mod text;
pub mod thread;
mod time;
pub mod tsg;
pub mod tunable;
mod weight;

pub use class::Class;
pub use device::Zernel;
pub use error::{Call, Cause, Error, Result};
pub use event::{Event, EventStream};
pub use gpu::Gpu;
pub use info::Info;
pub use level::{Level, ParseLevelError};
pub use level_info::LevelInfo;
pub use phase::{Cgroup, ParsePhaseError, Phase, Process};
pub use prefetch::Subscription;
pub use request::RequestStats;
pub use stats::Stats;
pub use target::{Source, Target};
pub use thread::{Thread, Tracking};
pub use time::Timestamp;
pub use tsg::Tsg;
pub use weight::{ParseWeightError, Weight};
