// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stream memory operations.

use std::ffi::c_uint;

use crate::call::{self, Call, Operation, Place};
use crate::command::Condition;
use crate::knobs::knobs;
use crate::status::{Result, Status};
use crate::sys::args::{functions, In, StreamOf};

/// `CU_STREAM_WAIT_VALUE_FLUSH`.
const FLUSH: c_uint = 1 << 30;

fn condition(flags: c_uint) -> Result<Condition> {
    match flags & !FLUSH {
        0 => Ok(Condition::AtLeast),
        1 => Ok(Condition::Equal),
        2 => Ok(Condition::And),
        3 => Ok(Condition::Nor),
        _ => Err(Status::INVALID_VALUE),
    }
}

fn wait(address: u64, value: u64, flags: c_uint, is_wide: bool) -> Result<Operation> {
    let place = Place { address, is_wide };
    Ok(Operation::Wait(place, condition(flags)?, value))
}

fn write(address: u64, value: u64, flags: c_uint, is_wide: bool) -> Result<Operation> {
    match flags {
        0 | 1 => Ok(Operation::Write(Place { address, is_wide }, value)),
        _ => Err(Status::INVALID_VALUE),
    }
}

/// Operations as `CUstreamBatchMemOpParams` has them.
pub(super) fn operations(list: In<[u64; 6]>, count: c_uint) -> Result<Vec<Operation>> {
    /// More are refused, as the header says.
    const MOST: c_uint = 256;
    if count > MOST {
        return Err(Status::INVALID_VALUE);
    }
    let operation = |words: [u64; 6]| {
        let [kind, address, value, flags, ..] = words;
        // One without an address has its flags beside the kind.
        let (kind, own_flags, flags) = (kind as u32, (kind >> 32) as u32, flags as u32);
        match kind {
            1 => wait(address, value & u64::from(u32::MAX), flags, false),
            2 => write(address, value & u64::from(u32::MAX), flags, false),
            4 => wait(address, value, flags, true),
            5 => write(address, value, flags, true),
            3 if own_flags == 0 => Ok(Operation::Barrier),
            6 if own_flags <= 1 => Ok(Operation::Barrier),
            8 => Err(Status::NOT_SUPPORTED),
            _ => Err(Status::INVALID_VALUE),
        }
    };
    list.list(count as usize)?
        .into_iter()
        .map(operation)
        .collect()
}

fn run(stream: StreamOf, operation: Result<Operation>) -> Result<()> {
    let target = stream.target()?;
    if knobs().no_memops {
        return Err(Status::NOT_SUPPORTED);
    }
    call::run(&target, Call::MemoryOperations([operation?].into()))
}

/// The first form, which current drivers refuse unless they are told otherwise.
fn refuse(stream: StreamOf) -> Result<()> {
    stream.target()?;
    Err(Status::NOT_SUPPORTED)
}

functions! {
    [cuStreamWaitValue32_v2 cuStreamWaitValue32_v2_ptsz](
        stream: StreamOf, address: u64, value: c_uint, flags: c_uint
    ) {
        run(stream, wait(address, value.into(), flags, false))
    }

    [cuStreamWriteValue32_v2 cuStreamWriteValue32_v2_ptsz](
        stream: StreamOf, address: u64, value: c_uint, flags: c_uint
    ) {
        run(stream, write(address, value.into(), flags, false))
    }

    [cuStreamWaitValue64_v2 cuStreamWaitValue64_v2_ptsz](
        stream: StreamOf, address: u64, value: u64, flags: c_uint
    ) {
        run(stream, wait(address, value, flags, true))
    }

    [cuStreamWriteValue64_v2 cuStreamWriteValue64_v2_ptsz](
        stream: StreamOf, address: u64, value: u64, flags: c_uint
    ) {
        run(stream, write(address, value, flags, true))
    }

    [cuStreamBatchMemOp_v2 cuStreamBatchMemOp_v2_ptsz](
        stream: StreamOf, count: c_uint, list: In<[u64; 6]>, flags: c_uint
    ) {
        let target = stream.target()?;
        if knobs().no_memops {
            return Err(Status::NOT_SUPPORTED);
        }
        if flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        call::run(&target, Call::MemoryOperations(operations(list, count)?.into()))
    }

    [cuStreamWaitValue32 cuStreamWaitValue32_ptsz](
        stream: StreamOf, address: u64, value: c_uint, flags: c_uint
    ) {
        let _ = (address, value, flags);
        refuse(stream)
    }

    [cuStreamWriteValue32 cuStreamWriteValue32_ptsz](
        stream: StreamOf, address: u64, value: c_uint, flags: c_uint
    ) {
        let _ = (address, value, flags);
        refuse(stream)
    }

    [cuStreamWaitValue64 cuStreamWaitValue64_ptsz](
        stream: StreamOf, address: u64, value: u64, flags: c_uint
    ) {
        let _ = (address, value, flags);
        refuse(stream)
    }

    [cuStreamWriteValue64 cuStreamWriteValue64_ptsz](
        stream: StreamOf, address: u64, value: u64, flags: c_uint
    ) {
        let _ = (address, value, flags);
        refuse(stream)
    }

    [cuStreamBatchMemOp cuStreamBatchMemOp_ptsz](
        stream: StreamOf, count: c_uint, list: In<[u64; 6]>, flags: c_uint
    ) {
        let _ = (count, list, flags);
        refuse(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[[u64; 6]]) -> Result<Vec<Operation>> {
        operations(
            In::from_address(words.as_ptr() as u64),
            words.len() as c_uint,
        )
    }

    #[test]
    fn operations_are_read() {
        let place = |is_wide| Place {
            address: 64,
            is_wide,
        };
        let found = read(&[
            [1, 64, 1 << 32 | 5, FLUSH as u64 | 1, 0, 0],
            [5, 64, 1 << 32 | 5, 1, 0, 0],
            [3, 0, 0, 0, 0, 0],
        ]);
        let expected = [
            Operation::Wait(place(false), Condition::Equal, 5),
            Operation::Write(place(true), 1 << 32 | 5),
            Operation::Barrier,
        ];
        assert_eq!(found.unwrap(), expected);
        assert_eq!(operations(In::from_address(0), 0), Ok(Vec::new()));
    }

    #[test]
    fn others_are_refused() {
        for (words, error) in [
            ([1, 64, 5, 4, 0, 0], Status::INVALID_VALUE),
            ([2, 64, 5, 2, 0, 0], Status::INVALID_VALUE),
            ([1 << 32 | 3, 0, 0, 0, 0, 0], Status::INVALID_VALUE),
            ([7, 0, 0, 0, 0, 0], Status::INVALID_VALUE),
            ([8, 64, 5, 0, 0, 0], Status::NOT_SUPPORTED),
        ] {
            assert_eq!(read(&[words]), Err(error), "{words:?}");
        }
        assert_eq!(
            operations(In::from_address(0), 1),
            Err(Status::INVALID_VALUE)
        );
        assert_eq!(
            operations(In::from_address(0), 257),
            Err(Status::INVALID_VALUE)
        );
    }
}
