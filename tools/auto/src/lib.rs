// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of CUDA programs that know nothing of zernel.
//!
//! Preloaded into a program, the library sees its copies, launches and synchronisations, whichever
//! way the program reaches the driver. The first copy to a device begins a request, the first
//! launch makes it ready, and the synchronisation ends it. Requests run beside the program's own
//! streams: each call of the program goes to the driver as it is. Documentation/auto.rst has the
//! rules.

mod contexts;
mod course;
mod kernels;
mod key;
mod pairs;
mod requests;
mod settings;
mod sites;
mod sys;
mod tell;
mod thread;
mod turn;
mod underway;
mod verdict;
mod watch;
