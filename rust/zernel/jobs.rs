// SPDX-License-Identifier: GPL-2.0
//! Work in the background, on zernel's own workqueue.
//!
//! The [task reaper](task_reaper) ends what tasks had that have exited, the
//! [record reaper](record_reaper) drops the records of threads that have, and the
//! [cgroup sync](cgroup_sync) looks at everything that has a cgroup.
//!
//! One [sampler](sampler::Sampler) asks the workers of the GPUs what these did for the programs, and
//! when they have answered takes a sample of each thread, as long as something happens; then it
//! rests, and has the threads ring. What it says of a thread is kept with that.
//!
//! # Locking
//!
//! The state of the sampler is locked first, then any one of: the registry, the table of tracked
//! threads, the meters of a GPU, the subscriptions of prefetch signals.

pub(crate) mod cgroup_sync;
pub(crate) mod record_reaper;
pub(crate) mod sampler;
pub(crate) mod task_reaper;
