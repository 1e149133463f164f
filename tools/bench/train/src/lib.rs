// SPDX-License-Identifier: MIT OR Apache-2.0
//! A training loop that reads, computes and steps, and logs the time of each step: zernel's phases
//! and the use of its prefetch signal are measured against that.

mod agreement;
mod disk;
mod loader;
mod program;
mod queue;
mod run;
mod source;
mod step;
mod watch;

pub use agreement::Agreement;
pub use disk::{Disk, Missing};
pub use program::Program;
pub use queue::Queue;
pub use run::{Does, EngineUse, Run, Section, Span};
pub use source::Source;
pub use step::Step;
pub use watch::{Lines, Told, Watch};
