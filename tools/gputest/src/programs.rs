// SPDX-License-Identifier: MIT OR Apache-2.0
//! The programs, in the order in which they run.

mod attributes;
mod graph;
mod holder;
mod lanes;
mod lost;
mod neighbour;
mod pinned;
pub mod slices;
mod stall;
mod switch;
mod tsg;
mod wait;

use anyhow::Result;

use crate::gpu::Gpu;
use crate::report::Findings;

/// A program.
#[derive(Debug)]
pub struct Program {
    pub name: &'static str,
    /// Its subject.
    pub about: &'static str,
    pub run: fn(&Gpu) -> Result<Findings>,
}

/// All of them.
pub const PROGRAMS: [Program; 12] = [
    Program {
        name: "attributes",
        about: "what the device and its driver say of themselves",
        run: attributes::run,
    },
    Program {
        name: "wait",
        about: "from the store of a trigger to the work behind the wait for it",
        run: wait::run,
    },
    Program {
        name: "holder",
        about: "from a trigger to the holder, and from its release to the work behind it",
        run: holder::run,
    },
    Program {
        name: "neighbour",
        about: "the cost of a holder for a kernel beside it",
        run: neighbour::run,
    },
    Program {
        name: "pinned",
        about: "a page that is pinned twice",
        run: pinned::run,
    },
    Program {
        name: "tsg",
        about: "the TSGs that the driver makes for a context",
        run: tsg::run,
    },
    Program {
        name: "slices",
        about: "time slices of own TSGs, set through the driver's own file",
        run: slices::run,
    },
    Program {
        name: "switch",
        about: "the time of a switch between two processes",
        run: switch::run,
    },
    Program {
        name: "lanes",
        about: "streams that are blocked by those that wait for a trigger",
        run: lanes::run,
    },
    Program {
        name: "graph",
        about: "graphs with requests in them, and the place where a preemption cuts a graph",
        run: graph::run,
    },
    Program {
        name: "stall",
        about: "calls that wait for a holder",
        run: stall::run,
    },
    Program {
        name: "lost",
        about: "results of kernels that are preempted again and again",
        run: lost::run,
    },
];
