// SPDX-License-Identifier: GPL-2.0
//! The execution trace: the TSG on each engine, with begin and end.

use super::{
    must_be_zero,
    Arg, //
};
use crate::{
    file::File,
    glue::{
        abi,
        sim::task, //
    },
    records::Records,
    report::Trace,
    uapi::*, //
};
use kernel::prelude::*;

/// Most records of a trace: 40 MiB.
const MAX_CAPACITY: u32 = 1 << 20;
/// Records copied at a time.
const BATCH: usize = 32;

/// Starts or stops the trace of a GPU.
pub(super) fn start(file: &File, io: &zernel_sim_trace_start) -> Result {
    if !task::may_observe() {
        return Err(EPERM);
    }
    let card = file.card(io.gpu)?;
    if io.capacity > MAX_CAPACITY {
        return Err(EINVAL);
    }
    let mut trace = match io.capacity {
        0 => None,
        capacity => {
            let records =
                Records::with_capacity(capacity as usize, zernel_sim_trace_record::default())?;
            Some(Trace {
                file: file.number,
                records,
            })
        }
    };
    // Both sides of the change happen at a time that the model has reached.
    card.at_present(|_| ());
    let result = card.with_trace(|current| match (current.as_ref(), trace.is_some()) {
        (Some(_), true) => Err(EBUSY),
        (Some(other), false) if other.file != file.number => Err(EBUSY),
        _ => {
            core::mem::swap(current, &mut trace);
            Ok(())
        }
    });
    // The memory of a trace that has ended is freed here, not under the lock.
    drop(trace);
    result
}

/// Takes records.
pub(super) fn read(file: &File, arg: Arg) -> Result {
    let mut io: zernel_sim_trace_read = arg.read()?;
    must_be_zero(&[io.reserved])?;
    let card = file.card(io.gpu)?;
    if io.capacity == 0 {
        return Err(EINVAL);
    }
    let size = size_of::<zernel_sim_trace_record>();
    let first = usize::try_from(io.buffer).map_err(|_| EFAULT)?;
    let mut batch = KVec::from_elem(
        zernel_sim_trace_record::default(),
        BATCH,
        GFP_KERNEL_ACCOUNT,
    )?;
    let _reader = file.reader.lock();
    card.at_present(|_| ());
    let with_records = |f: &mut dyn FnMut(&mut Records<zernel_sim_trace_record>)| {
        card.with_trace(|trace| match trace {
            Some(trace) if trace.file == file.number => {
                f(&mut trace.records);
                Ok(())
            }
            _ => Err(EPERM),
        })
    };
    let mut taken = 0usize;
    while taken < io.capacity as usize {
        let room = BATCH.min(io.capacity as usize - taken);
        let slots = batch.get_mut(..room).ok_or(EINVAL)?;
        let mut count = 0;
        with_records(&mut |records| count = records.peek(taken, slots))?;
        if count == 0 {
            break;
        }
        for record in slots.iter().take(count) {
            let address = taken
                .checked_mul(size)
                .and_then(|offset| first.checked_add(offset));
            abi::write(address.ok_or(EFAULT)?, size, record)?;
            taken += 1;
        }
    }
    io.count = taken as u32;
    with_records(&mut |records| io.dropped = records.dropped())?;
    arg.write(&io)?;
    with_records(&mut |records| records.consume(taken))
}

/// Ends all traces of a file that is closed.
pub(crate) fn stop(file: &File) {
    let mut number = 0;
    while let Ok(card) = file.card(number) {
        let ended = card.with_trace(|current| {
            let mine = current
                .as_ref()
                .is_some_and(|trace| trace.file == file.number);
            if mine {
                current.take()
            } else {
                None
            }
        });
        drop(ended);
        number += 1;
    }
}
