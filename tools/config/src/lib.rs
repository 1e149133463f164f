// SPDX-License-Identifier: MIT OR Apache-2.0
//! The configuration file of programs with a scheduler, the same for all languages.
//!
//! It is YAML. Each section and each field may be left out, or be null: its default holds then.
//!
//! ```
//! use zernel_config::Config;
//!
//! let text = "
//! scheduler:
//!   gpu_id: 0
//! priorities:
//!   latency_critical: lc
//!   best_effort: 6
//! preemption:
//!   lanes: 4
//! ";
//! let config = Config::from_text("here.yaml", text)?;
//! assert_eq!(config.preemption.lanes, 4);
//! assert_eq!(config.priorities.best_effort.number(), 6);
//! assert_eq!(config.resources.workers, 2);
//! # Ok::<(), zernel_config::Error>(())
//! ```
//!
//! Fields, with their units, ranges and defaults, are those of [`Config`]. A field that is not
//! known is an error, so that a misspelt one is not left unused.

mod config;
mod error;
mod line;
mod read;

pub use config::{
    Config, Monitoring, Policy, Preemption, Priorities, ReleaseWord, Resources, Scheduler, Slices,
};
pub use error::{Error, Place, Result};
