// SPDX-License-Identifier: GPL-2.0
//! Every call with a structure that it takes, and what it needs to be taken.

use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{Context as _, Result};
use bytemuck::{bytes_of, Pod, Zeroable};
use libzernel::sim::Context;
use libzernel::sys::{abi, v0 as raw};
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

/// What the calls need: a TSG, a page of slots, memory for entries.
pub struct Stage {
    /// Both devices.
    pub lab: Lab,
    /// Where lists are written to.
    entries: Area,
    memory: Area,
    _context: Context,
    tsg: u64,
    page: u32,
}

impl Stage {
    /// Sets it up.
    pub fn new() -> Result<Self> {
        let lab = Lab::open()?;
        let (context, tsg) = lab.compute()?;
        let mut stage = Self {
            lab,
            entries: Area::new()?,
            memory: Area::new()?,
            _context: context,
            tsg: tsg.id.as_u64(),
            page: 0,
        };
        stage.page = stage.register()?;
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
        let (page, named) = (
            abi::zernel_v0_page::zeroed(),
            abi::zernel_v0_request::zeroed(),
        );
        let all = abi::zernel_v0_request_stats {
            level: abi::ZERNEL_V0_LEVEL_NONE,
            ..abi::zernel_v0_request_stats::zeroed()
        };
        let (begin, register) = (self.begin(0), self.page_request());
        let mut calls = vec![
            Call::new("VERSION", abi::LIBZERNEL_V0_IOC_VERSION, &version),
            Call::new("STATS", abi::LIBZERNEL_V0_IOC_STATS, &stats).grown_from(120),
            Call::new("LIST_GPUS", abi::LIBZERNEL_V0_IOC_LIST_GPUS, &gpus),
            Call::new("LIST_TSGS", abi::LIBZERNEL_V0_IOC_LIST_TSGS, &tsgs),
            Call::new(
                "PAGE_REGISTER",
                abi::LIBZERNEL_V0_IOC_PAGE_REGISTER,
                &register,
            ),
            Call::new(
                "PAGE_UNREGISTER",
                abi::LIBZERNEL_V0_IOC_PAGE_UNREGISTER,
                &page,
            ),
            Call::new("BEGIN", abi::LIBZERNEL_V0_IOC_BEGIN, &begin),
            Call::new("READY", abi::LIBZERNEL_V0_IOC_READY, &named),
            Call::new("DONE", abi::LIBZERNEL_V0_IOC_DONE, &named),
            Call::new("CANCEL", abi::LIBZERNEL_V0_IOC_CANCEL, &named),
            Call::new("REQUEST_STATS", abi::LIBZERNEL_V0_IOC_REQUEST_STATS, &all).grown_from(240),
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
        let slot = match call.name {
            "READY" => 1,
            "DONE" => 2,
            "CANCEL" => 3,
            "CLASS_CLEAR" => {
                let me = Target::current_process();
                self.lab.zernel.set_class(&me, Level::BE)?;
                return Ok(());
            }
            "PAGE_UNREGISTER" => {
                let page = abi::zernel_v0_page {
                    page: self.register()?,
                    ..abi::zernel_v0_page::zeroed()
                };
                call.request = bytes_of(&page).to_vec();
                return Ok(());
            }
            _ => return Ok(()),
        };
        let mut begin = self.begin(slot);
        raw::begin(self.fd(), &mut begin).context("begin a request")?;
        let named = abi::zernel_v0_request {
            page: self.page,
            slot,
            request: begin.request,
            flags: 0,
        };
        call.request = bytes_of(&named).to_vec();
        Ok(())
    }

    fn page_request(&self) -> abi::zernel_v0_page {
        abi::zernel_v0_page {
            address: self.memory.address(0),
            ..abi::zernel_v0_page::zeroed()
        }
    }

    fn register(&self) -> Result<u32> {
        let number = abi::LIBZERNEL_V0_IOC_PAGE_REGISTER;
        let (result, page) = super::call(self.fd(), number, &self.page_request());
        result.context("register a page")?;
        Ok(page.page)
    }

    /// A request that lasts until it is ended.
    fn begin(&self, slot: u32) -> abi::zernel_v0_begin {
        abi::zernel_v0_begin {
            tsg: self.tsg,
            expected_ns: 36_000_000_000_000,
            page: self.page,
            slot,
            predictor: abi::ZERNEL_V0_PREDICT_FIXED,
            ..abi::zernel_v0_begin::zeroed()
        }
    }
}
