// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probes of functions in which threads wait for the GPU.

use std::os::fd::{AsFd, AsRawFd};

use bytemuck::Zeroable;
use rustix::io::Errno;

use crate::sys::{abi, probe, zernel as calls};
use crate::{Call, Result, Zernel};

/// Most probes of an open [`Zernel`].
pub const MAX_PER_FILE: usize = 64;

/// Most probes of all.
pub const MAX: usize = 256;

impl Zernel {
    /// Has tracked threads counted as waiting for the GPU from the call of a function to its
    /// return. It begins at `offset` in `library`, an ELF file that is open for reading and has it
    /// in its symbol table. Returns the handle of the probe, which ends when it is
    /// [removed](Self::remove_probe) or this file is closed.
    ///
    /// The place is mapped during the call, so that one that cannot be probed is found.
    ///
    /// Errors: [`Error::Call`](crate::Error::Call) with `EPERM` without `CAP_SYS_ADMIN`, `EDQUOT`, `ENOSPC`, `EBADF`,
    /// `EACCES`, `ENODEV`, `ERANGE`, `ENOEXEC`, `EIO` or `EOPNOTSUPP`.
    pub fn add_probe(&self, library: impl AsFd, offset: u64) -> Result<u32> {
        let library = library.as_fd();
        // A file that cannot be mapped is refused by the call.
        let _mapped = probe::Mapped::of(library, offset);
        let mut raw = abi::zernel_probe {
            fd: library.as_raw_fd(),
            offset,
            ..abi::zernel_probe::zeroed()
        };
        calls::probe(self.as_fd(), &mut raw).map_err(self.failed(Call::Probe))?;
        Ok(raw.handle)
    }

    /// Ends a probe, and the waits that it has seen to begin.
    ///
    /// Errors: [`Error::Call`](crate::Error::Call) with `ENOENT` when this file has no such probe.
    pub fn remove_probe(&self, handle: u32) -> Result<()> {
        let mut raw = abi::zernel_remove { handle, flags: 0 };
        calls::remove(self.as_fd(), &mut raw).map_err(self.failed(Call::RemoveProbe))
    }
}

/// The meaning of `errno` as the answer to a call about probes, if it has one there alone.
pub(crate) fn sentence(errno: Errno) -> Option<&'static str> {
    Some(match errno {
        Errno::PERM => "a probe needs CAP_SYS_ADMIN, and a kernel that is not locked down",
        Errno::DQUOT => "this file's room for probes is used up; remove one first",
        Errno::NOSPC => "the module's room for probes is used up; remove one first",
        Errno::BADF => "the library is not open",
        Errno::ACCESS => "the library is not open for reading",
        Errno::NODEV => "the library is not a regular file",
        Errno::RANGE => "the offset lies beyond the end of the library",
        Errno::NOEXEC => "no function of the symbol table begins at that offset, or its first instruction cannot be probed",
        Errno::IO => "the kernel cannot probe that file",
        Errno::OPNOTSUPP => "the kernel has no uprobes; build it with CONFIG_UPROBES",
        Errno::NOENT => "there is no such probe",
        _ => return None,
    })
}
