// SPDX-License-Identifier: GPL-2.0
//! The calls of `/dev/zernel` before ABI 1.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::ioctl::{ioctl, opcode, Opcode, Updater};

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
