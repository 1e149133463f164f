// SPDX-License-Identifier: GPL-2.0
//! The calls of `/dev/zernel` before ABI 1.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::ioctl::{ioctl, opcode, Opcode, Updater};

use super::page::SharedPage;
use super::{abi, checked_opcode, plain_call};

plain_call!(
    /// `ZERNEL_V0_IOC_VERSION`.
    version, read, abi::ZERNEL_V0_IOC_MAGIC, abi::ZERNEL_V0_NR_VERSION,
    LIBZERNEL_V0_IOC_VERSION, zernel_v0_version
);
plain_call!(
    /// `ZERNEL_V0_IOC_STATS`.
    stats, read, abi::ZERNEL_V0_IOC_MAGIC, abi::ZERNEL_V0_NR_STATS,
    LIBZERNEL_V0_IOC_STATS, zernel_v0_stats
);

/// Defines a safe function for an enumeration that fills `entries`.
macro_rules! list_call {
    ($(#[$doc:meta])* $name:ident, $nr:expr, $op:ident, $entry:ident) => {
        $(#[$doc])*
        ///
        /// Returns how many entries were filled and moves `cursor` on.
        pub fn $name(
            fd: BorrowedFd<'_>,
            cursor: &mut u64,
            entries: &mut [abi::$entry],
        ) -> Result<usize, Errno> {
            checked_opcode!(OP, read_write, abi::ZERNEL_V0_IOC_MAGIC, $nr, $op, zernel_v0_list);
            let mut list = abi::zernel_v0_list {
                cursor: *cursor,
                entries: entries.as_mut_ptr() as u64,
                count: u32::try_from(entries.len()).unwrap_or(u32::MAX),
                entry_size: size_of::<abi::$entry>() as u32,
                flags: 0,
                reserved: 0,
            };
            // SAFETY: The number belongs to a call that reads and writes one `zernel_v0_list` and at
            // most `count` entries of `entry_size` bytes at `entries`. The slice is that long, is
            // borrowed exclusively for the call, and any bytes make a valid entry.
            unsafe { ioctl(fd, Updater::<OP, abi::zernel_v0_list>::new(&mut list))? };
            *cursor = list.cursor;
            Ok((list.count as usize).min(entries.len()))
        }
    };
}

list_call!(
    /// `ZERNEL_V0_IOC_LIST_GPUS`.
    list_gpus, abi::ZERNEL_V0_NR_LIST_GPUS, LIBZERNEL_V0_IOC_LIST_GPUS, zernel_v0_gpu_info
);
list_call!(
    /// `ZERNEL_V0_IOC_LIST_TSGS`.
    list_tsgs, abi::ZERNEL_V0_NR_LIST_TSGS, LIBZERNEL_V0_IOC_LIST_TSGS, zernel_v0_tsg_info
);

plain_call!(
    /// `ZERNEL_V0_IOC_PAGE_UNREGISTER`.
    page_unregister, write, abi::ZERNEL_V0_IOC_MAGIC, abi::ZERNEL_V0_NR_PAGE_UNREGISTER,
    LIBZERNEL_V0_IOC_PAGE_UNREGISTER, zernel_v0_page
);
plain_call!(
    /// `ZERNEL_V0_IOC_BEGIN`.
    begin, read_write, abi::ZERNEL_V0_IOC_MAGIC, abi::ZERNEL_V0_NR_BEGIN,
    LIBZERNEL_V0_IOC_BEGIN, zernel_v0_begin
);
plain_call!(
    /// `ZERNEL_V0_IOC_READY`.
    ready, write, abi::ZERNEL_V0_IOC_MAGIC, abi::ZERNEL_V0_NR_READY,
    LIBZERNEL_V0_IOC_READY, zernel_v0_request
);
plain_call!(
    /// `ZERNEL_V0_IOC_DONE`.
    done, write, abi::ZERNEL_V0_IOC_MAGIC, abi::ZERNEL_V0_NR_DONE,
    LIBZERNEL_V0_IOC_DONE, zernel_v0_request
);
plain_call!(
    /// `ZERNEL_V0_IOC_CANCEL`.
    cancel, write, abi::ZERNEL_V0_IOC_MAGIC, abi::ZERNEL_V0_NR_CANCEL,
    LIBZERNEL_V0_IOC_CANCEL, zernel_v0_request
);

/// `ZERNEL_V0_IOC_PAGE_REGISTER`: returns the number of the page.
pub fn page_register(fd: BorrowedFd<'_>, page: &SharedPage) -> Result<u32, Errno> {
    checked_opcode!(
        OP,
        read_write,
        abi::ZERNEL_V0_IOC_MAGIC,
        abi::ZERNEL_V0_NR_PAGE_REGISTER,
        LIBZERNEL_V0_IOC_PAGE_REGISTER,
        zernel_v0_page
    );
    let mut arg = abi::zernel_v0_page {
        address: page.address(),
        page: 0,
        flags: 0,
    };
    // SAFETY: The number belongs to a call that reads and writes one `zernel_v0_page`, and has the
    // kernel store to the words of the page at `address`, which all sides reach atomically. It
    // stores to the memory, which stays its own even when the mapping ends.
    unsafe { ioctl(fd, Updater::<OP, abi::zernel_v0_page>::new(&mut arg))? };
    Ok(arg.page)
}

/// `ZERNEL_V0_IOC_REQUEST_STATS` of what `stats` asks for: fills `buckets`, if there are any, and
/// returns how many it has filled.
pub fn request_stats(
    fd: BorrowedFd<'_>,
    stats: &mut abi::zernel_v0_request_stats,
    buckets: &mut [u64],
) -> Result<usize, Errno> {
    checked_opcode!(
        OP,
        read_write,
        abi::ZERNEL_V0_IOC_MAGIC,
        abi::ZERNEL_V0_NR_REQUEST_STATS,
        LIBZERNEL_V0_IOC_REQUEST_STATS,
        zernel_v0_request_stats
    );
    (stats.nr_buckets, stats.buckets) = match buckets.len() {
        0 => (0, 0),
        len => (
            u32::try_from(len).unwrap_or(u32::MAX),
            buckets.as_mut_ptr() as u64,
        ),
    };
    // SAFETY: The number belongs to a call that reads and writes one `zernel_v0_request_stats` and
    // writes at most `nr_buckets` numbers at `buckets`, a slice of that length that is borrowed
    // exclusively.
    unsafe { ioctl(fd, Updater::<OP, abi::zernel_v0_request_stats>::new(stats))? };
    Ok((stats.nr_buckets as usize).min(buckets.len()))
}
