// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of `/dev/zernel-sim`.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::ioctl::{ioctl, opcode, Opcode, Updater};

use super::{abi, checked_opcode, plain_call};

macro_rules! sim_call {
    ($(#[$doc:meta])* $name:ident, $dir:ident, $nr:ident, $op:ident, $arg:ident) => {
        plain_call!($(#[$doc])* $name, $dir, abi::ZERNEL_SIM_IOC_TYPE, abi::$nr, $op, $arg);
    };
}

sim_call!(
    /// `ZERNEL_SIM_IOC_VERSION`.
    version, read, ZERNEL_SIM_NR_VERSION, LIBZERNEL_SIM_IOC_VERSION, zernel_sim_version
);
sim_call!(
    /// `ZERNEL_SIM_IOC_GPU_INFO`.
    gpu_info, read_write, ZERNEL_SIM_NR_GPU_INFO, LIBZERNEL_SIM_IOC_GPU_INFO,
    zernel_sim_gpu_info
);
sim_call!(
    /// `ZERNEL_SIM_IOC_CONTEXT_CREATE`.
    context_create, read_write, ZERNEL_SIM_NR_CONTEXT_CREATE, LIBZERNEL_SIM_IOC_CONTEXT_CREATE,
    zernel_sim_context_create
);
sim_call!(
    /// `ZERNEL_SIM_IOC_CONTEXT_DESTROY`.
    context_destroy, write, ZERNEL_SIM_NR_CONTEXT_DESTROY, LIBZERNEL_SIM_IOC_CONTEXT_DESTROY,
    zernel_sim_context_destroy
);
sim_call!(
    /// `ZERNEL_SIM_IOC_WAIT`.
    wait, read_write, ZERNEL_SIM_NR_WAIT, LIBZERNEL_SIM_IOC_WAIT, zernel_sim_wait
);
sim_call!(
    /// `ZERNEL_SIM_IOC_EVENTFD`.
    eventfd, write, ZERNEL_SIM_NR_EVENTFD, LIBZERNEL_SIM_IOC_EVENTFD, zernel_sim_eventfd
);
sim_call!(
    /// `ZERNEL_SIM_IOC_DOORBELL`.
    doorbell, write, ZERNEL_SIM_NR_DOORBELL, LIBZERNEL_SIM_IOC_DOORBELL, zernel_sim_doorbell
);
sim_call!(
    /// `ZERNEL_SIM_IOC_TSG_STATS`.
    tsg_stats, read_write, ZERNEL_SIM_NR_TSG_STATS, LIBZERNEL_SIM_IOC_TSG_STATS,
    zernel_sim_tsg_stats
);
sim_call!(
    /// `ZERNEL_SIM_IOC_ENGINE_STATS`.
    engine_stats, read_write, ZERNEL_SIM_NR_ENGINE_STATS, LIBZERNEL_SIM_IOC_ENGINE_STATS,
    zernel_sim_engine_stats
);
sim_call!(
    /// `ZERNEL_SIM_IOC_TRACE_START`.
    trace_start, write, ZERNEL_SIM_NR_TRACE_START, LIBZERNEL_SIM_IOC_TRACE_START,
    zernel_sim_trace_start
);
sim_call!(
    /// `ZERNEL_SIM_IOC_FAULT`.
    fault, read_write, ZERNEL_SIM_NR_FAULT, LIBZERNEL_SIM_IOC_FAULT, zernel_sim_fault
);
sim_call!(
    /// `ZERNEL_SIM_IOC_SUSPEND`.
    suspend, write, ZERNEL_SIM_NR_SUSPEND, LIBZERNEL_SIM_IOC_SUSPEND, zernel_sim_suspend
);
sim_call!(
    /// `ZERNEL_SIM_IOC_TSG_CONTROL`.
    tsg_control, write, ZERNEL_SIM_NR_TSG_CONTROL, LIBZERNEL_SIM_IOC_TSG_CONTROL,
    zernel_sim_tsg_control
);
sim_call!(
    /// `ZERNEL_SIM_IOC_MEMORY`.
    memory, write, ZERNEL_SIM_NR_MEMORY, LIBZERNEL_SIM_IOC_MEMORY, zernel_sim_memory
);
sim_call!(
    /// `ZERNEL_SIM_IOC_CONTEXT_ATTACH`.
    context_attach, read_write, ZERNEL_SIM_NR_CONTEXT_ATTACH, LIBZERNEL_SIM_IOC_CONTEXT_ATTACH,
    zernel_sim_context_attach
);
sim_call!(
    /// `ZERNEL_SIM_IOC_REGISTERS`.
    registers, write, ZERNEL_SIM_NR_REGISTERS, LIBZERNEL_SIM_IOC_REGISTERS, zernel_sim_registers
);
sim_call!(
    /// `ZERNEL_SIM_IOC_TSG_DESCRIBE`.
    tsg_describe, write, ZERNEL_SIM_NR_TSG_DESCRIBE, LIBZERNEL_SIM_IOC_TSG_DESCRIBE,
    zernel_sim_tsg_describe
);

/// `ZERNEL_SIM_IOC_SUBMIT`: queues `items`; returns the last sequence number and the time.
pub fn submit(
    fd: BorrowedFd<'_>,
    context: u32,
    channel: u32,
    items: &[abi::zernel_sim_item],
) -> Result<(u64, u64), Errno> {
    checked_opcode!(
        OP,
        read_write,
        abi::ZERNEL_SIM_IOC_TYPE,
        abi::ZERNEL_SIM_NR_SUBMIT,
        LIBZERNEL_SIM_IOC_SUBMIT,
        zernel_sim_submit
    );
    let mut arg = abi::zernel_sim_submit {
        context,
        channel,
        nr_items: u32::try_from(items.len()).unwrap_or(u32::MAX),
        flags: 0,
        items: items.as_ptr() as u64,
        last_seq: 0,
        submitted_ns: 0,
    };
    // SAFETY: The number belongs to a call that reads and writes one `zernel_sim_submit` and reads
    // `nr_items` items at `items`, which is a borrowed slice of that length.
    unsafe { ioctl(fd, Updater::<OP, abi::zernel_sim_submit>::new(&mut arg))? };
    Ok((arg.last_seq, arg.submitted_ns))
}

/// `ZERNEL_SIM_IOC_COMPLETIONS`: fills `buffer`; returns how many, and how many were dropped.
pub fn completions(
    fd: BorrowedFd<'_>,
    buffer: &mut [abi::zernel_sim_completion],
) -> Result<(usize, u64), Errno> {
    checked_opcode!(
        OP,
        read_write,
        abi::ZERNEL_SIM_IOC_TYPE,
        abi::ZERNEL_SIM_NR_COMPLETIONS,
        LIBZERNEL_SIM_IOC_COMPLETIONS,
        zernel_sim_completions
    );
    let mut arg = abi::zernel_sim_completions {
        buffer: buffer.as_mut_ptr() as u64,
        capacity: u32::try_from(buffer.len()).unwrap_or(u32::MAX),
        count: 0,
        dropped: 0,
    };
    // SAFETY: The number belongs to a call that reads and writes one `zernel_sim_completions` and
    // writes at most `capacity` completions at `buffer`, a slice of that length that is borrowed
    // exclusively; any bytes make a valid completion.
    unsafe {
        ioctl(
            fd,
            Updater::<OP, abi::zernel_sim_completions>::new(&mut arg),
        )?
    };
    Ok(((arg.count as usize).min(buffer.len()), arg.dropped))
}

/// `ZERNEL_SIM_IOC_TRACE_READ`: fills `buffer`; returns how many, and how many were dropped.
pub fn trace_read(
    fd: BorrowedFd<'_>,
    gpu: u32,
    buffer: &mut [abi::zernel_sim_trace_record],
) -> Result<(usize, u64), Errno> {
    checked_opcode!(
        OP,
        read_write,
        abi::ZERNEL_SIM_IOC_TYPE,
        abi::ZERNEL_SIM_NR_TRACE_READ,
        LIBZERNEL_SIM_IOC_TRACE_READ,
        zernel_sim_trace_read
    );
    let mut arg = abi::zernel_sim_trace_read {
        gpu,
        capacity: u32::try_from(buffer.len()).unwrap_or(u32::MAX),
        buffer: buffer.as_mut_ptr() as u64,
        count: 0,
        reserved: 0,
        dropped: 0,
    };
    // SAFETY: The number belongs to a call that reads and writes one `zernel_sim_trace_read` and
    // writes at most `capacity` records at `buffer`, a slice of that length that is borrowed
    // exclusively; any bytes make a valid record.
    unsafe { ioctl(fd, Updater::<OP, abi::zernel_sim_trace_read>::new(&mut arg))? };
    Ok(((arg.count as usize).min(buffer.len()), arg.dropped))
}
