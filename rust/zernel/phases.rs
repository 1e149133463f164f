// SPDX-License-Identifier: GPL-2.0
//! Phases of machine-learning programs.
//!
//! One [sampler](sampler::Sampler) asks the workers of the GPUs what these did for the programs, and
//! when they have answered takes a sample of each thread, as long as something happens; then it
//! rests, and has the threads ring. What it says of a thread is kept with that.
//!
//! # Locking
//!
//! The state of the sampler is locked first, then any one of: the registry, the table of tracked
//! threads, the meters of a GPU, the subscriptions of prefetch signals.

pub(crate) mod meters;
pub(crate) mod program;
pub(crate) mod sampler;
pub(crate) mod settings;
