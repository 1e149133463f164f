// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies, and memory that is filled: their ends and their times.

use crate::command::{At, Command, Effect, Rows};
use crate::driver;
use crate::effect::span;
use crate::gpu::Gpu;
use crate::space::{Kind, Range};
use crate::status::{Result, Status};
use crate::sys::memory;

/// An end of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Host(u64),
    Device(u64),
    /// Its kind follows from the address.
    Unified(u64),
}

/// A copy of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) to: End,
    pub(crate) from: End,
    pub(crate) to_pitch: u64,
    pub(crate) from_pitch: u64,
    /// Bytes of a row.
    pub(crate) width: u64,
    pub(crate) height: u64,
}

impl Transfer {
    /// A copy of bytes without gaps.
    pub(crate) fn plain(to: End, from: End, length: u64) -> Self {
        Self {
            to,
            from,
            to_pitch: length,
            from_pitch: length,
            width: length,
            height: 1,
        }
    }
}

/// Rows that are filled with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Filling {
    pub(crate) to: u64,
    pub(crate) value: u32,
    /// Bytes of the value.
    pub(crate) unit: u64,
    /// Bytes from row to row.
    pub(crate) pitch: u64,
    /// Values of a row.
    pub(crate) width: u64,
    pub(crate) height: u64,
}

/// An end of a copy that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Resolved {
    at: At,
    is_device: bool,
}

impl Resolved {
    /// Memory of the program that is not registered.
    fn is_pageable(&self) -> bool {
        self.at.spot().is_none()
    }
}

fn of_range(range: &Range, address: u64) -> Resolved {
    Resolved {
        at: At::Gpu(range.spot(address)),
        is_device: range.kind == Kind::Device,
    }
}

impl End {
    fn resolve(self, length: u64) -> Result<Resolved> {
        let space = driver::space();
        let seen = |address| {
            space
                .find(address, length)
                .map(|range| of_range(&range, address))
        };
        let pageable = |host: u64| {
            let registered = space.find_host(host).ok();
            let is_below = host.checked_add(length).is_some_and(|end| end < 1 << 47);
            let end = host.saturating_add(length);
            let inside = registered.filter(|range| end <= range.host + range.length);
            let last = end.saturating_sub(1);
            // The rest is looked at when it is copied.
            let is_there = is_below
                && memory::read_one::<u8>(host).is_ok()
                && memory::read_one::<u8>(last).is_ok();
            match inside {
                _ if !is_there => Err(Status::INVALID_VALUE),
                Some(range) => Ok(of_range(&range, range.base + (host - range.host))),
                None => Ok(Resolved {
                    at: At::Program(host),
                    is_device: false,
                }),
            }
        };
        match self {
            Self::Host(host) if host < 1 << 47 => pageable(host),
            Self::Host(_) => Err(Status::INVALID_VALUE),
            Self::Device(address) => seen(address),
            Self::Unified(address) => seen(address).or_else(|error| match address < 1 << 47 {
                true => pageable(address),
                false => Err(error),
            }),
        }
    }
}

/// A copy whose ends are known.
#[derive(Debug)]
pub(crate) struct Copying {
    pub(crate) command: Option<Command>,
    /// The program gets data in memory that is not registered: the call ends with the copy.
    pub(crate) is_waited_for: bool,
    /// An end is memory of the host.
    pub(crate) is_of_host: bool,
    pub(crate) is_pageable: bool,
}

impl Transfer {
    /// `is_late`: a source that is not registered is read when the copy has run, as graphs do.
    pub(crate) fn resolve(&self, gpu: &Gpu, is_late: bool) -> Result<Copying> {
        let bytes = self
            .width
            .checked_mul(self.height)
            .ok_or(Status::INVALID_VALUE)?;
        if bytes == 0 {
            return Ok(Copying {
                command: None,
                is_waited_for: false,
                is_of_host: false,
                is_pageable: false,
            });
        }
        if self.height > 1 && self.to_pitch.min(self.from_pitch) < self.width {
            return Err(Status::INVALID_VALUE);
        }
        let to = self
            .to
            .resolve(span(self.to_pitch, self.width, self.height)?)?;
        let from = self
            .from
            .resolve(span(self.from_pitch, self.width, self.height)?)?;
        let rows = Rows {
            to: to.at,
            to_pitch: self.to_pitch,
            from: from.at,
            from_pitch: self.from_pitch,
            width: self.width,
            height: self.height,
        };
        let effect = match from.is_pageable() && !is_late {
            true => Effect::Put(rows, rows.read()?),
            false => Effect::Copy(rows),
        };
        let time = match (to.is_device, from.is_device) {
            (true, true) => gpu.costs.streaming(bytes.saturating_mul(2)),
            _ => gpu.costs.link(bytes),
        };
        Ok(Copying {
            command: Some(Command::Copy { time, effect }),
            is_waited_for: to.is_pageable(),
            is_of_host: !(to.is_device && from.is_device),
            is_pageable: to.is_pageable() || from.is_pageable(),
        })
    }
}

impl Filling {
    pub(crate) fn command(&self, gpu: &Gpu) -> Result<Option<Command>> {
        let width = self
            .width
            .checked_mul(self.unit)
            .ok_or(Status::INVALID_VALUE)?;
        let bytes = width
            .checked_mul(self.height)
            .ok_or(Status::INVALID_VALUE)?;
        if self.to % self.unit != 0 {
            return Err(Status::INVALID_VALUE);
        }
        if bytes == 0 {
            return Ok(None);
        }
        let is_apart = self.height > 1 && self.pitch < width;
        if is_apart || self.pitch % self.unit != 0 {
            return Err(Status::INVALID_VALUE);
        }
        let span = span(self.pitch, width, self.height)?;
        let range = driver::space().find(self.to, span)?;
        let effect = Effect::Fill {
            to: range.spot(self.to),
            value: self.value,
            unit: self.unit,
            pitch: self.pitch,
            width: self.width,
            height: self.height,
        };
        Ok(Some(Command::Work {
            time: gpu.costs.streaming(bytes),
            permille: 1_000,
            effect: Some(effect),
        }))
    }
}
