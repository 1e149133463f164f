// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client of a workload: its requests, from their arrival to their result.

use std::path::Path;
use std::time::Duration;

use anyhow::{ensure, Result};
use serde::{Deserialize, Serialize};

use crate::transfer::Transfer;
use crate::{Arrival, Draw, Moments, Piece, Preparation, Program};

/// Microseconds that a client prepares its data on the CPU, unless it says otherwise.
const PREPARE_US: u64 = 200;
/// The smallest copy to the GPU.
const COPY_IN: Duration = Duration::from_micros(80);
/// The result, some kilobytes.
const COPY_OUT: Duration = Duration::from_micros(10);

/// The role of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Latency-critical.
    Lc,
    /// Best-effort.
    Be,
}

/// One client: a process with a TSG on the compute engine and one on a copy engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientSpec {
    /// Its role.
    pub role: Role,
    /// Its service.
    pub network: Program,
    /// When requests arrive.
    #[serde(with = "serde_yaml_ng::with::singleton_map")]
    pub arrival: Arrival,
    /// Preparation of the data on the CPU, in microseconds.
    #[serde(default = "prepare_us")]
    pub prepare_us: Preparation,
    /// The copy to the GPU.
    #[serde(
        default,
        rename = "copy_in",
        skip_serializing_if = "Transfer::is_usual"
    )]
    pub input: Transfer,
    /// The copy from the GPU.
    #[serde(
        default,
        rename = "copy_out",
        skip_serializing_if = "Transfer::is_usual"
    )]
    pub output: Transfer,
    /// Share of the GPU that it is to have among best-effort clients, relative to theirs.
    #[serde(default = "weight", skip_serializing_if = "is_usual")]
    pub weight: u32,
}

pub(crate) const fn prepare_us() -> Preparation {
    Preparation::Constant(PREPARE_US)
}

const fn weight() -> u32 {
    1
}

const fn is_usual(weight: &u32) -> bool {
    *weight == 1
}

impl ClientSpec {
    /// A client that takes 200 µs for each preparation.
    pub fn new(role: Role, network: impl Into<Program>, arrival: Arrival) -> Self {
        Self {
            role,
            network: network.into(),
            arrival,
            prepare_us: prepare_us(),
            input: Transfer::default(),
            output: Transfer::default(),
            weight: weight(),
        }
    }

    /// Time of the copy to the GPU of a request of this size.
    pub fn copy_in(&self, size: u64) -> Duration {
        self.input.time(COPY_IN, size)
    }

    /// Time of the copy from the GPU.
    pub fn copy_out(&self, size: u64) -> Duration {
        self.output.time(COPY_OUT, size)
    }

    /// The kernels of a request.
    pub fn pieces(&self, draw: &Draw) -> Vec<Piece> {
        self.network.pieces(draw)
    }

    /// True if its requests differ in more than their preparation.
    pub fn varies(&self) -> bool {
        self.network.varies() || self.copies_by_size()
    }

    /// Typical latency of a request when nothing else runs.
    pub fn latency_alone(&self) -> Duration {
        self.besides_alone() + self.network.service_of(self.mean_size())
    }

    /// The part of it that is none of the kernels: the preparation and the copies.
    pub fn besides_alone(&self) -> Duration {
        let size = self.mean_size();
        self.prepare_us.mean() + self.copy_in(size) + self.copy_out(size)
    }

    /// The mean and the mean square of the time of a request's kernels alone, with the sizes of its
    /// trace. None where requests differ and there is no formula for them.
    pub fn moments(&self) -> Option<Moments> {
        let sizes = match &self.arrival {
            Arrival::Trace(trace) => {
                let rows = trace.rows().ok()?;
                Moments::of(rows.iter().map(|row| row.traced.size as f64))
            }
            _ => Moments::default(),
        };
        self.network.moments(sizes)
    }

    fn mean_size(&self) -> u64 {
        match &self.arrival {
            Arrival::Trace(trace) => trace.mean_size(),
            _ => 0,
        }
    }

    /// True if something of its requests depends on their size.
    pub fn counts_size(&self) -> bool {
        self.network.counts_size() || self.copies_by_size()
    }

    fn copies_by_size(&self) -> bool {
        self.input.bytes_per_size > 0 || self.output.bytes_per_size > 0
    }

    /// Reads its trace, if it has one, which `dir` has if its path is relative.
    pub(crate) fn open(&mut self, dir: &Path) -> Result<()> {
        let Arrival::Trace(trace) = &mut self.arrival else {
            return Ok(());
        };
        trace.open(dir)?;
        let (largest, file) = (trace.largest(), trace.file.clone());
        ensure!(
            largest.is_some() || !self.counts_size(),
            "{} counts the size of its requests, but no request of the trace {} has one",
            self.network.name(),
            file.display()
        );
        self.check_sizes(largest.unwrap_or(0))
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.arrival.check()?;
        ensure!(
            (1..=1_000).contains(&self.weight),
            "a weight of {} is out of range (1 to 1000)",
            self.weight
        );
        ensure!(
            matches!(self.arrival, Arrival::Trace(_)) || !self.counts_size(),
            "{} counts the size of its requests, which only a trace tells",
            self.network.name()
        );
        self.check_sizes(0)?;
        self.prepare_us.check()
    }

    /// Checks what can be too long for requests of up to this size.
    fn check_sizes(&self, largest: u64) -> Result<()> {
        self.network.check(largest)?;
        self.input.check("copy_in", COPY_IN, largest)?;
        self.output.check("copy_out", COPY_OUT, largest)
    }
}
