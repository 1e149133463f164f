// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls that a stream carries out, as the program makes them or a graph keeps them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::capture;
use crate::command::{Command, Condition, Effect, Word};
use crate::context::Context;
use crate::cost::Size;
use crate::driver::{self, Target};
use crate::event::Event;
use crate::gpu::Gpu;
use crate::kernel::{self, Launch};
use crate::knobs::knobs;
use crate::module::Function;
use crate::queue::LEGACY;
use crate::space::Kind;
use crate::status::{Result, Status};
use crate::sys::process::Callback;
use crate::transfer::{Filling, Transfer};

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
            _ => gpu.word(host, &range),
        };
        Ok(Word {
            spot: range.spot(self.address),
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

/// A part of calls that are to be carried out.
#[derive(Debug)]
enum Part {
    Commands(VecDeque<Command>),
    Record(Arc<Event>),
    /// Waits for the last record before, in the same calls or not.
    Await(Arc<Event>),
}

/// Calls that are to be carried out: all addresses are known, so that none of them is refused when
/// the first ones are on their way.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    context: &'a Context,
    parts: Vec<Part>,
}

impl<'a> Plan<'a> {
    pub(crate) fn new(context: &'a Context) -> Self {
        let parts = Vec::new();
        Self { context, parts }
    }

    fn commands(&mut self, commands: impl IntoIterator<Item = Command>) {
        if let Some(Part::Commands(last)) = self.parts.last_mut() {
            return last.extend(commands);
        }
        let commands = commands.into_iter().collect();
        self.parts.push(Part::Commands(commands));
    }

    /// Adds a call. `is_late`: of a graph.
    pub(crate) fn add(&mut self, call: &Call, is_late: bool) -> Result<()> {
        let (context, gpu) = (self.context, &self.context.gpu);
        match call {
            Call::Kernel(function, size, arguments) => {
                if function.context != context.handle {
                    return Err(Status::INVALID_HANDLE);
                }
                self.commands([launch(function, *size, arguments, gpu)]);
            }
            Call::Copy(transfer) => self.commands(transfer.resolve(gpu, is_late)?.command),
            Call::Fill(filling) => self.commands(filling.command(gpu)?),
            Call::Host(callback) => self.commands([Command::Call(*callback)]),
            Call::MemoryOperations(operations) => {
                if knobs().no_memops {
                    return Err(Status::NOT_SUPPORTED);
                }
                let commands = operations.iter().map(|operation| operation.command(gpu));
                let commands: Vec<_> = commands.collect::<Result<_>>()?;
                self.commands(commands.into_iter().flatten());
            }
            Call::Free(base) => self.commands([Command::Then(Effect::Free(*base))]),
            Call::Graph(calls) => {
                for call in calls.iter() {
                    self.add(call, true)?;
                }
            }
            Call::Record(event) => {
                event.check_context(context)?;
                self.parts.push(Part::Record(event.clone()));
            }
            Call::Await(event) => {
                let is_it = |part: &Part| match part {
                    Part::Record(other) => Arc::ptr_eq(other, event),
                    _ => false,
                };
                if !self.parts.iter().any(is_it) {
                    event.check()?;
                }
                self.parts.push(Part::Await(event.clone()));
            }
            Call::Nothing => {}
        }
        Ok(())
    }

    /// Has a stream carry them out, one after the other.
    pub(crate) fn run(self, target: &Target) -> Result<()> {
        let (context, number) = (&target.context, target.number);
        let mut ready = VecDeque::new();
        for part in self.parts {
            match part {
                Part::Commands(commands) => ready.extend(commands),
                Part::Await(event) => ready.extend(event.command(context)?),
                Part::Record(event) => {
                    context.queue(number, std::mem::take(&mut ready))?;
                    event.record(target)?;
                }
            }
        }
        match ready.is_empty() {
            // Later work of other streams waits for those that this one would wait for.
            true if number == LEGACY => context.record(number).map(|_| ()),
            true => Ok(()),
            false => context.queue(number, ready),
        }
    }
}

/// Has a stream carry out a call, or a capture keep it.
pub(crate) fn run(target: &Target, call: Call) -> Result<()> {
    if capture::add(target, &call)? {
        return Ok(());
    }
    let mut plan = Plan::new(&target.context);
    plan.add(&call, false)?;
    plan.run(target)
}

/// Copies in a stream; `is_synchronous`: the call ends with the copy, unless both ends are of the
/// device.
pub(crate) fn copy(target: &Target, transfer: Transfer, is_synchronous: bool) -> Result<()> {
    let is_captured = capture::info(target).is_some();
    if is_synchronous {
        capture::refuse_unsafe()?;
        capture::refuse(target)?;
    }
    let copying = transfer.resolve(&target.context.gpu, is_captured)?;
    if capture::add(target, &Call::Copy(transfer))? {
        return Ok(());
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
