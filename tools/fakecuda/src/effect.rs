// SPDX-License-Identifier: MIT OR Apache-2.0
//! Effects of commands that are over, on memory and on streams that wait.

use std::sync::Arc;

use crate::command::{At, Effect, Rows};
use crate::context::Context;
use crate::driver;
use crate::space::{Held, Kind, Spot};
use crate::status::{Result, Status};
use crate::sys::memory;

/// Bytes from the first to the last one of rows.
pub(crate) fn span(pitch: u64, width: u64, height: u64) -> Result<u64> {
    let rows = pitch.checked_mul(height.saturating_sub(1));
    rows.and_then(|rows| rows.checked_add(width))
        .ok_or(Status::INVALID_VALUE)
}

impl Effect {
    /// Makes the change. `end_ns`: end of the command, in nanoseconds of the GPU's timer. An error:
    /// there is no such memory.
    pub(crate) fn apply(self, context: &Arc<Context>, end_ns: u64) -> Result<()> {
        match self {
            Self::Copy(rows) => rows.copy(),
            Self::Put(rows, bytes) => rows.put(&bytes),
            Self::Fill {
                to,
                value,
                unit,
                pitch,
                width,
                height,
            } => {
                let held = At::Gpu(to).hold(span(pitch, width * unit, height)?)?;
                fill(held.host, value, unit, pitch, width, height)
            }
            Self::Compute(compute) => {
                compute.run(|address, length| driver::space().hold_at(address, length))
            }
            Self::Fault => Err(Status::ILLEGAL_ADDRESS),
            // Memory that was freed in the order of a stream.
            Self::Free(base) => driver::space().remove(base, Kind::Device).map(|_| ()),
            Self::Store { word, value } => driver::space().store(word.spot, value, word.is_wide),
            Self::Time(clock) => {
                clock.set(end_ns);
                Ok(())
            }
            Self::Open(gate) => {
                context.gpu.open(gate);
                Ok(())
            }
            Self::Call(callback, gate) => {
                context.helpers.call(context, callback, gate);
                Ok(())
            }
            Self::Watch(check, gate) => {
                context.helpers.watch(context, check, gate);
                Ok(())
            }
        }
    }
}

impl At {
    /// The memory, `length` bytes.
    fn hold(self, length: u64) -> Result<Held> {
        match self {
            Self::Gpu(spot) => driver::space().hold(spot, length),
            Self::Program(host) => Ok(Held::of_program(host)),
        }
    }

    /// The spot, of what the GPU sees.
    pub(crate) fn spot(self) -> Option<Spot> {
        match self {
            Self::Gpu(spot) => Some(spot),
            Self::Program(_) => None,
        }
    }
}

impl Rows {
    fn hold_to(&self) -> Result<Held> {
        self.to.hold(span(self.to_pitch, self.width, self.height)?)
    }

    fn hold_from(&self) -> Result<Held> {
        let span = span(self.from_pitch, self.width, self.height)?;
        self.from.hold(span)
    }

    /// The bytes of all rows, without gaps.
    pub(crate) fn read(&self) -> Result<Arc<[u8]>> {
        let width = usize::try_from(self.width).map_err(|_| Status::INVALID_VALUE)?;
        let from = self.hold_from()?;
        let mut bytes = Vec::with_capacity(width * self.height as usize);
        for row in 0..self.height {
            let row = from.host + row * self.from_pitch;
            bytes.extend(memory::read::<u8>(row, width)?);
        }
        Ok(bytes.into())
    }

    /// Writes bytes that are in rows without gaps.
    fn put(&self, bytes: &[u8]) -> Result<()> {
        let to = self.hold_to()?;
        for (row, bytes) in (0..).zip(bytes.chunks(self.width.max(1) as usize)) {
            memory::write(to.host + row * self.to_pitch, bytes)?;
        }
        Ok(())
    }

    fn copy(&self) -> Result<()> {
        let (to, from) = (self.hold_to()?, self.hold_from()?);
        let is_plain = self.to_pitch == self.width && self.from_pitch == self.width;
        if is_plain {
            return memory::copy(to.host, from.host, self.width * self.height);
        }
        for row in 0..self.height {
            let (below, above) = (row * self.to_pitch, row * self.from_pitch);
            memory::copy(to.host + below, from.host + above, self.width)?;
        }
        Ok(())
    }
}

/// Fills rows. `width`: units of a row; `pitch`: bytes from row to row.
fn fill(to: u64, value: u32, unit: u64, pitch: u64, width: u64, height: u64) -> Result<()> {
    /// Bytes that are written at once.
    const MOST: u64 = 1 << 20;
    let bytes = value.to_le_bytes();
    let unit_bytes = bytes.get(..unit as usize).ok_or(Status::INVALID_VALUE)?;
    let length = width * unit;
    let part = unit_bytes.repeat((length.min(MOST) / unit) as usize);
    for row in 0..height {
        let mut done = 0;
        while done < length {
            let count = (length - done).min(part.len() as u64);
            memory::write(to + row * pitch + done, &part[..count as usize])?;
            done += count;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::memory::Pages;

    #[test]
    fn rows_are_copied_and_filled() {
        let pages = Pages::map(4_096).unwrap();
        let base = pages.base();
        fill(base, 0x0201, 2, 8, 3, 2).unwrap();
        let filled = [1, 2, 1, 2, 1, 2, 0, 0, 1, 2, 1, 2, 1, 2, 0, 0, 0];
        assert_eq!(memory::read::<u8>(base, 17).unwrap(), filled);
        let rows = Rows {
            to: At::Program(base + 100),
            to_pitch: 4,
            from: At::Program(base),
            from_pitch: 8,
            width: 3,
            height: 2,
        };
        rows.copy().unwrap();
        let copied = [1, 2, 1, 0, 1, 2, 1, 0];
        assert_eq!(memory::read::<u8>(base + 100, 8).unwrap(), copied);
        assert_eq!(rows.read().unwrap()[..], [1, 2, 1, 1, 2, 1]);
        let outside = Rows {
            to: At::Program(8),
            ..rows
        };
        assert_eq!(outside.copy(), Err(Status::INVALID_VALUE));
        fill(base, 7, 1, 0, 3 << 10, 1).unwrap();
        assert_eq!(memory::read::<u8>(base + 3_071, 2).unwrap(), [7, 0]);
    }

    #[test]
    fn memory_that_was_freed_is_no_more_there() {
        let owner = crate::space::Owner {
            context: 16,
            device: 0,
        };
        let range = driver::space().allocate(owner, 64, 1 << 20).unwrap();
        let rows = Rows {
            to: At::Gpu(range.spot(range.base)),
            to_pitch: 8,
            from: At::Gpu(range.spot(range.base + 32)),
            from_pitch: 8,
            width: 8,
            height: 1,
        };
        memory::write(range.host + 32, &[5u8]).unwrap();
        rows.copy().unwrap();
        assert_eq!(memory::read_one::<u8>(range.host), Ok(5));
        driver::space().remove(range.base, Kind::Device).unwrap();
        assert_eq!(rows.copy(), Err(Status::INVALID_VALUE));
        assert_eq!(rows.put(&[0; 8]), Err(Status::INVALID_VALUE));
    }
}
