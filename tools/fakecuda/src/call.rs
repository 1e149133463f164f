// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls that a stream carries out, as the program makes them or a graph keeps them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::capture;
use crate::command::{Command, Condition, Effect, Rows, Word};
use crate::context::Context;
use crate::cost::Size;
use crate::driver::{self, Target};
use crate::event::Event;
use crate::gpu::Gpu;
use crate::kernel::{self, Launch};
use crate::knobs::knobs;
use crate::module::Function;
use crate::queue::LEGACY;
use crate::space::{Kind, Range};
use crate::status::{Result, Status};
use crate::sys::memory;
use crate::sys::process::Callback;

/// A call.
#[derive(Debug, Clone)]
pub(crate) enum Call {
    /// A launch, with the bytes of its arguments.
    Kernel(Arc<Function>, Size, Arc<[u8]>),
    Copy(Transfer),
    Fill(Filling),
    Host(Callback),
    MemoryOperations(Arc<[Operation]>),
    Record(Arc<Event>),
    Await(Arc<Event>),
    /// The calls of a graph.
    Graph(Arc<[Call]>),
    /// Gives memory back, by its address.
    Free(u64),
    Nothing,
}

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

/// A stream memory operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Wait(Place, Condition, u64),
    Write(Place, u64),
    /// A barrier, or a flush of remote writes: all is in order anyway.
    Barrier,
}

/// A word, as the GPU sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) address: u64,
    pub(crate) is_wide: bool,
}

/// An end of a copy with the address for the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Resolved {
    host: u64,
    is_device: bool,
    /// Memory of the program that is not registered.
    is_pageable: bool,
}

fn of_range(range: &Range, address: u64) -> Resolved {
    Resolved {
        host: range.host + (address - range.base),
        is_device: range.kind == Kind::Device,
        is_pageable: false,
    }
}

/// Bytes from the first to the last one of rows.
fn span(pitch: u64, width: u64, height: u64) -> Result<u64> {
    let rows = pitch.checked_mul(height.saturating_sub(1));
    rows.and_then(|rows| rows.checked_add(width))
        .ok_or(Status::INVALID_VALUE)
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
            let inside = registered.filter(|range| host + length <= range.host + range.length);
            let is_below = host.checked_add(length).is_some_and(|end| end < 1 << 47);
            let last = host + length.saturating_sub(1);
            // The rest is looked at when it is copied.
            let is_there = is_below
                && memory::read_one::<u8>(host).is_ok()
                && memory::read_one::<u8>(last).is_ok();
            match is_there {
                true => Ok(Resolved {
                    host,
                    is_device: false,
                    is_pageable: inside.is_none(),
                }),
                false => Err(Status::INVALID_VALUE),
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
    command: Option<Command>,
    /// The program gets data in memory that is not registered: the call ends with the copy.
    pub(crate) is_waited_for: bool,
    /// An end is memory of the host.
    pub(crate) is_of_host: bool,
    pub(crate) is_pageable: bool,
}

impl Transfer {
    pub(crate) fn resolve(&self, gpu: &Gpu) -> Result<Copying> {
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
            to: to.host,
            to_pitch: self.to_pitch,
            from: from.host,
            from_pitch: self.from_pitch,
            width: self.width,
            height: self.height,
        };
        let effect = match from.is_pageable {
            true => Effect::Put(rows, rows.read()?),
            false => Effect::Copy(rows),
        };
        let time = match (to.is_device, from.is_device) {
            (true, true) => gpu.costs.streaming(bytes.saturating_mul(2)),
            _ => gpu.costs.link(bytes),
        };
        Ok(Copying {
            command: Some(Command::Copy { time, effect }),
            is_waited_for: to.is_pageable,
            is_of_host: !(to.is_device && from.is_device),
            is_pageable: to.is_pageable || from.is_pageable,
        })
    }
}

impl Rows {
    /// The bytes of all rows, without gaps.
    fn read(&self) -> Result<Arc<[u8]>> {
        let width = usize::try_from(self.width).map_err(|_| Status::INVALID_VALUE)?;
        let mut bytes = Vec::with_capacity(width * self.height as usize);
        for row in 0..self.height {
            bytes.extend(memory::read::<u8>(
                self.from + row * self.from_pitch,
                width,
            )?);
        }
        Ok(bytes.into())
    }
}

impl Filling {
    fn command(&self, gpu: &Gpu) -> Result<Option<Command>> {
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
        let to = driver::space().resolve(self.to, span(self.pitch, width, self.height)?)?;
        let effect = Effect::Fill {
            to,
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

impl Place {
    /// The word, where the GPU or the helper thread finds it.
    fn word(self, gpu: &Gpu) -> Result<Word> {
        let size = if self.is_wide { 8 } else { 4 };
        if self.address % size != 0 {
            return Err(Status::INVALID_VALUE);
        }
        let range = driver::space().find(self.address, size)?;
        let host = range.host + (self.address - range.base);
        let number = match range.kind {
            Kind::Device => None,
            _ => gpu.word(host, (range.host, range.length)),
        };
        Ok(Word {
            host,
            number,
            is_wide: self.is_wide,
        })
    }
}

impl Operation {
    fn command(self, gpu: &Gpu) -> Result<Option<Command>> {
        Ok(match self {
            Self::Wait(place, condition, value) => Some(Command::Wait {
                word: place.word(gpu)?,
                condition,
                value,
            }),
            Self::Write(place, value) => Some(Command::Write {
                word: place.word(gpu)?,
                value,
            }),
            Self::Barrier => None,
        })
    }
}

fn launch(function: &Function, size: Size, arguments: &[u8], gpu: &Gpu) -> Command {
    // An address that is not the GPU's is found when the kernel runs.
    let fault = Command::Work {
        time: Duration::ZERO,
        permille: 1,
        effect: Some(Effect::Fault),
    };
    match kernel::launch(&function.entry, arguments, size, &gpu.costs) {
        Launch::Work(time, permille, compute) => Command::Work {
            time,
            permille,
            effect: compute.map(Effect::Compute),
        },
        Launch::Hold {
            held,
            release,
            number,
            bound,
        } => {
            let word = |address| {
                let place = Place {
                    address,
                    is_wide: false,
                };
                place.word(gpu)
            };
            match (word(held), word(release)) {
                (Ok(held), Ok(release)) => Command::Hold {
                    held,
                    release,
                    number,
                    bound,
                },
                _ => fault,
            }
        }
        Launch::Fault => fault,
    }
}

impl Call {
    /// The commands of a call, for a stream of a context.
    fn commands(&self, context: &Context, commands: &mut VecDeque<Command>) -> Result<()> {
        let gpu = &context.gpu;
        match self {
            Self::Kernel(function, size, arguments) => {
                if function.context != context.handle {
                    return Err(Status::INVALID_HANDLE);
                }
                commands.push_back(launch(function, *size, arguments, gpu));
            }
            Self::Copy(transfer) => commands.extend(transfer.resolve(gpu)?.command),
            Self::Fill(filling) => commands.extend(filling.command(gpu)?),
            Self::Host(callback) => commands.push_back(Command::Call(*callback)),
            Self::MemoryOperations(operations) => {
                if knobs().no_memops {
                    return Err(Status::NOT_SUPPORTED);
                }
                for operation in operations.iter() {
                    commands.extend(operation.command(gpu)?);
                }
            }
            Self::Await(event) => commands.extend(event.command(context)?),
            Self::Free(base) => commands.push_back(Command::Then(Effect::Free(*base))),
            Self::Graph(calls) => {
                for call in calls.iter() {
                    call.commands(context, commands)?;
                }
            }
            Self::Record(_) | Self::Nothing => {}
        }
        Ok(())
    }

    fn records(&self) -> Vec<Arc<Event>> {
        match self {
            Self::Record(event) => vec![event.clone()],
            Self::Graph(calls) => calls.iter().flat_map(Self::records).collect(),
            _ => Vec::new(),
        }
    }
}

/// Has a stream carry out calls, one after the other.
pub(crate) fn run_all<'a>(
    target: &Target,
    calls: impl IntoIterator<Item = &'a Call>,
) -> Result<()> {
    let mut commands = VecDeque::new();
    for call in calls {
        call.commands(&target.context, &mut commands)?;
        let records = call.records();
        if !records.is_empty() {
            target
                .context
                .queue(target.number, std::mem::take(&mut commands))?;
        }
        for event in records {
            event.record(target)?;
        }
    }
    target.context.queue(target.number, commands)
}

/// Has a stream carry out a call, or a capture keep it.
pub(crate) fn run(target: &Target, call: Call) -> Result<()> {
    if capture::is_any(&target.context) {
        if target.number == LEGACY {
            return Err(Status::CAPTURE_IMPLICIT);
        }
        if capture::add(target, &call)? {
            return Ok(());
        }
    }
    run_all(target, [&call])
}

/// Copies in a stream; `is_synchronous`: the call ends with the copy, unless both ends are of the
/// device.
pub(crate) fn copy(target: &Target, transfer: Transfer, is_synchronous: bool) -> Result<()> {
    let copying = transfer.resolve(&target.context.gpu)?;
    if capture::is_any(&target.context) {
        if is_synchronous {
            return Err(capture::refuse(target)
                .err()
                .unwrap_or(Status::CAPTURE_IMPLICIT));
        }
        return run(target, Call::Copy(transfer));
    }
    if is_synchronous && copying.is_pageable && knobs().stall_copies {
        target.context.synchronize()?;
    }
    let is_waited_for = copying.is_waited_for || is_synchronous && copying.is_of_host;
    target
        .context
        .queue(target.number, copying.command.into_iter().collect())?;
    match is_waited_for {
        true => target.context.wait(&target.context.point(target.number)?),
        false => Ok(()),
    }
}
