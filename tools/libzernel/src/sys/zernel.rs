// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of `/dev/zernel`, ABI 1.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;

use bytemuck::Pod;
use rustix::io::Errno;
use rustix::ioctl::{ioctl, opcode, Opcode, Updater};

use super::{abi, checked_opcode, plain_call};

/// The part of a number that names a call: all but the size of its structure.
pub const CALL_MASK: u32 = abi::LIBZERNEL_IOC_MASK;

/// Defines a safe function for a call without addresses for the kernel in its structure.
macro_rules! call {
    ($name:ident, $nr:ident, $op:ident, $arg:ident) => {
        plain_call!(
            #[doc = concat!("The call on a `", stringify!($arg), "`.")]
            $name,
            read_write,
            abi::ZERNEL_IOC_MAGIC,
            abi::$nr,
            $op,
            $arg
        );
    };
}

call!(info, ZERNEL_NR_INFO, LIBZERNEL_IOC_INFO, zernel_info);
call!(
    events,
    ZERNEL_NR_EVENTS,
    LIBZERNEL_IOC_EVENTS,
    zernel_events
);
call!(
    remove,
    ZERNEL_NR_REMOVE,
    LIBZERNEL_IOC_REMOVE,
    zernel_remove
);
call!(
    class_set,
    ZERNEL_NR_CLASS_SET,
    LIBZERNEL_IOC_CLASS_SET,
    zernel_class_set
);
call!(
    class_get,
    ZERNEL_NR_CLASS_GET,
    LIBZERNEL_IOC_CLASS_GET,
    zernel_class_get
);
call!(
    request_update,
    ZERNEL_NR_REQUEST_UPDATE,
    LIBZERNEL_IOC_REQUEST_UPDATE,
    zernel_request_update
);
call!(track, ZERNEL_NR_TRACK, LIBZERNEL_IOC_TRACK, zernel_track);
call!(hint, ZERNEL_NR_HINT, LIBZERNEL_IOC_HINT, zernel_hint);
call!(
    subscribe,
    ZERNEL_NR_SUBSCRIBE,
    LIBZERNEL_IOC_SUBSCRIBE,
    zernel_subscribe
);
call!(probe, ZERNEL_NR_PROBE, LIBZERNEL_IOC_PROBE, zernel_probe);

/// `ZERNEL_IOC_REQUEST_BEGIN`, without options.
pub fn request_begin(
    fd: BorrowedFd<'_>,
    begin: &mut abi::zernel_request_begin,
) -> Result<(), Errno> {
    plain_call!(
        /// The call; `options` is the address of nothing.
        call, read_write, abi::ZERNEL_IOC_MAGIC, abi::ZERNEL_NR_REQUEST_BEGIN,
        LIBZERNEL_IOC_REQUEST_BEGIN, zernel_request_begin
    );
    begin.options = 0;
    call(fd, begin)
}

/// `ZERNEL_IOC_REQUEST_BEGIN`, with options.
pub fn request_begin_with(
    fd: BorrowedFd<'_>,
    begin: &mut abi::zernel_request_begin,
    options: &mut abi::zernel_request_options,
) -> Result<(), Errno> {
    checked_opcode!(
        OP,
        read_write,
        abi::ZERNEL_IOC_MAGIC,
        abi::ZERNEL_NR_REQUEST_BEGIN,
        LIBZERNEL_IOC_REQUEST_BEGIN,
        zernel_request_begin
    );
    options.size = size_of::<abi::zernel_request_options>() as u32;
    begin.options = (&raw mut *options) as u64;
    // SAFETY: The number belongs to a call that reads and writes one `zernel_request_begin`, and one
    // `zernel_request_options` of its own size, which is borrowed exclusively until it returns.
    let result = unsafe { ioctl(fd, Updater::<OP, abi::zernel_request_begin>::new(begin)) };
    begin.options = 0;
    result
}

/// `ZERNEL_IOC_LIST` as in `list`, into `entries`. Returns the number of filled ones.
pub fn list<T: Pod>(
    fd: BorrowedFd<'_>,
    list: &mut abi::zernel_list,
    entries: &mut [T],
) -> Result<usize, Errno> {
    checked_opcode!(
        OP,
        read_write,
        abi::ZERNEL_IOC_MAGIC,
        abi::ZERNEL_NR_LIST,
        LIBZERNEL_IOC_LIST,
        zernel_list
    );
    list.entries = entries.as_mut_ptr() as u64;
    list.entry_size = u32::try_from(size_of::<T>()).unwrap_or(u32::MAX);
    list.room = u32::try_from(entries.len()).unwrap_or(u32::MAX);
    // SAFETY: The number belongs to a call that reads and writes one `zernel_list` and at most
    // `room` entries of `entry_size` bytes at `entries`. The slice is that long, is borrowed
    // exclusively for the call, and any bytes make a valid entry.
    unsafe { ioctl(fd, Updater::<OP, abi::zernel_list>::new(list))? };
    Ok((list.filled as usize).min(entries.len()))
}

/// `ZERNEL_IOC_HISTOGRAM` as in `histogram`, into `buckets`. Returns the number of filled ones.
pub fn histogram(
    fd: BorrowedFd<'_>,
    histogram: &mut abi::zernel_histogram,
    buckets: &mut [u64],
) -> Result<usize, Errno> {
    checked_opcode!(
        OP,
        read_write,
        abi::ZERNEL_IOC_MAGIC,
        abi::ZERNEL_NR_HISTOGRAM,
        LIBZERNEL_IOC_HISTOGRAM,
        zernel_histogram
    );
    (histogram.buckets, histogram.room) = match buckets.len() {
        0 => (0, 0),
        len => (
            buckets.as_mut_ptr() as u64,
            u32::try_from(len).unwrap_or(u32::MAX),
        ),
    };
    // SAFETY: The number belongs to a call that reads and writes one `zernel_histogram` and writes
    // at most `room` numbers at `buckets`, a slice of that length that is borrowed exclusively.
    unsafe { ioctl(fd, Updater::<OP, abi::zernel_histogram>::new(histogram))? };
    Ok((histogram.filled as usize).min(buckets.len()))
}
