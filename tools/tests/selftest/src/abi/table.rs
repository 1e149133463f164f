// SPDX-License-Identifier: GPL-2.0
//! Every call with a structure that it takes, and what it needs to be taken.

use std::os::fd::{AsFd, BorrowedFd};

use anyhow::Result;
use bytemuck::{bytes_of, Pod, Zeroable};
use libzernel::sim::Context;
use libzernel::sys::abi;
use libzernel::{Level, Target};

use crate::common::Lab;
use crate::sys::Area;

/// A call, with a structure that it takes.
pub struct Call {
    /// Its name.
    pub name: &'static str,
    /// Its number.
    pub number: u32,
    /// What to hand it.
    pub request: Vec<u8>,
    /// It reads what it is handed.
    pub reads: bool,
    /// It writes an answer.
    pub answers: bool,
    /// Size of the structure's first version.
    pub first: usize,
}

impl Call {
    fn new<T: Pod>(name: &'static str, number: u32, request: &T) -> Self {
        // As _IOC_WRITE and _IOC_READ say it.
        let direction = number >> 30;
        Self {
            name,
            number,
            request: bytes_of(request).to_vec(),
            reads: direction & 1 != 0,
            answers: direction & 2 != 0,
            first: size_of::<T>(),
        }
    }

    /// The same call, whose structure was that long at first.
    fn grown_from(self, first: usize) -> Self {
        Self { first, ..self }
    }

    /// Length of its structure.
    pub fn size(&self) -> usize {
        self.request.len()
    }

    /// The number with another size in it.
    pub fn sized(&self, size: usize) -> u32 {
        self.number & !(0x3fff << 16) | (size as u32) << 16
    }
}

/// What the calls need: a TSG, memory for entries.
pub struct Stage {
    /// Both devices.
    pub lab: Lab,
    /// Where lists are written to.
    entries: Area,
    _context: Context,
}

impl Stage {
    /// Sets it up.
    pub fn new() -> Result<Self> {
        let lab = Lab::open()?;
        let (context, _) = lab.compute()?;
        let stage = Self {
            lab,
            entries: Area::new()?,
            _context: context,
        };
        Ok(stage)
    }

    /// zernel.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.lab.zernel.as_fd()
    }

    /// Every call. Each can be made once, and again when it is renewed.
    pub fn calls(&self) -> Result<Vec<Call>> {
        let list = |entry_size: usize| abi::zernel_v0_list {
            entries: self.entries.address(0),
            count: 1,
            entry_size: entry_size as u32,
            ..abi::zernel_v0_list::zeroed()
        };
        let gpus = list(size_of::<abi::zernel_v0_gpu_info>());
        let tsgs = list(size_of::<abi::zernel_v0_tsg_info>());
        let (version, stats) = (
            abi::zernel_v0_version::zeroed(),
            abi::zernel_v0_stats::zeroed(),
        );
        let mut calls = vec![
            Call::new("VERSION", abi::LIBZERNEL_V0_IOC_VERSION, &version),
            Call::new("STATS", abi::LIBZERNEL_V0_IOC_STATS, &stats).grown_from(120),
            Call::new("LIST_GPUS", abi::LIBZERNEL_V0_IOC_LIST_GPUS, &gpus),
            Call::new("LIST_TSGS", abi::LIBZERNEL_V0_IOC_LIST_TSGS, &tsgs),
        ];
        for call in &mut calls {
            // What is to be cleared is set by the call before.
            if call.name != "CLASS_CLEAR" {
                self.renew(call)?;
            }
        }
        Ok(calls)
    }

    /// Makes what a call ends, so that it can be made again.
    pub fn renew(&self, call: &mut Call) -> Result<()> {
        match call.name {
            "CLASS_CLEAR" => {
                let me = Target::current_process();
                self.lab.zernel.set_class(&me, Level::BE)?;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
