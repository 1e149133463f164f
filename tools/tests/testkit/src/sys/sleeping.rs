// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls that a thread sleeps in, each by its own number: libraries choose among them.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use rustix::io::Errno;

/// `futex_wait()`, which libc does not know.
const SYS_FUTEX_WAIT: libc::c_long = 455;
/// `FUTEX2_SIZE_U32 | FUTEX2_PRIVATE`.
const FUTEX2_FLAGS: u32 = 2 | 128;
/// Bytes of a set of signals.
const SIGNALS: usize = 8;
/// Files of which select(2) can be asked.
const FILES: usize = 1024;

/// A system call that sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sleeping {
    /// `futex()`.
    Futex,
    /// `futex_wait()`.
    FutexWait,
    /// `futex_waitv()`.
    FutexWaitv,
    /// `poll()`.
    Poll,
    /// `ppoll()`.
    Ppoll,
    /// `select()`.
    Select,
    /// `pselect6()`.
    Pselect6,
    /// `epoll_wait()`.
    EpollWait,
    /// `epoll_pwait()`.
    EpollPwait,
    /// `epoll_pwait2()`.
    EpollPwait2,
    /// `read()`.
    Read,
    /// `readv()`.
    Readv,
    /// `pread64()`.
    Pread64,
    /// `preadv()`.
    Preadv,
    /// `preadv2()`.
    Preadv2,
    /// `write()`.
    Write,
    /// `writev()`.
    Writev,
    /// `pwrite64()`.
    Pwrite64,
    /// `pwritev()`.
    Pwritev,
    /// `pwritev2()`.
    Pwritev2,
}

impl Sleeping {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::Futex,
        Self::FutexWait,
        Self::FutexWaitv,
        Self::Poll,
        Self::Ppoll,
        Self::Select,
        Self::Pselect6,
        Self::EpollWait,
        Self::EpollPwait,
        Self::EpollPwait2,
        Self::Read,
        Self::Readv,
        Self::Pread64,
        Self::Preadv,
        Self::Preadv2,
        Self::Write,
        Self::Writev,
        Self::Pwrite64,
        Self::Pwritev,
        Self::Pwritev2,
    ];

    fn number(self) -> libc::c_long {
        match self {
            Self::Futex => libc::SYS_futex,
            Self::FutexWait => SYS_FUTEX_WAIT,
            Self::FutexWaitv => libc::SYS_futex_waitv,
            Self::Poll => libc::SYS_poll,
            Self::Ppoll => libc::SYS_ppoll,
            Self::Select => libc::SYS_select,
            Self::Pselect6 => libc::SYS_pselect6,
            Self::EpollWait => libc::SYS_epoll_wait,
            Self::EpollPwait => libc::SYS_epoll_pwait,
            Self::EpollPwait2 => libc::SYS_epoll_pwait2,
            Self::Read => libc::SYS_read,
            Self::Readv => libc::SYS_readv,
            Self::Pread64 => libc::SYS_pread64,
            Self::Preadv => libc::SYS_preadv,
            Self::Preadv2 => libc::SYS_preadv2,
            Self::Write => libc::SYS_write,
            Self::Writev => libc::SYS_writev,
            Self::Pwrite64 => libc::SYS_pwrite64,
            Self::Pwritev => libc::SYS_pwritev,
            Self::Pwritev2 => libc::SYS_pwritev2,
        }
    }

    /// Calls it once, and says what it returned; 0 where the time was over.
    ///
    /// Those for a thread wait for nobody, for `time`. Those of poll(2) and select(2) wait for `fd`
    /// to be readable, those of epoll for what `fd` tells, for `time` at most. The others move
    /// `bytes`: where a place in the file is named, from its begin; without end where one is not.
    pub fn call(
        self,
        fd: BorrowedFd<'_>,
        bytes: &mut [u8],
        time: Duration,
    ) -> Result<usize, Errno> {
        let file = fd.as_raw_fd() as usize;
        assert!(file < FILES);
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let (second, nanos) = (1_000_000_000, i64::from(time.subsec_nanos()));
        let seconds = time.as_secs() as i64;
        let at = now.tv_nsec + nanos;
        let end = [now.tv_sec + seconds + at / second, at % second];
        let mut left = [seconds, nanos];
        let mut left_us = [seconds, nanos / 1_000];
        let milliseconds = time.as_millis() as usize;
        let word = 0u32;
        let word = &raw const word as usize;
        // `struct futex_waitv`: value, address, flags.
        let waiter = [0, word as u64, FUTEX2_FLAGS.into()];
        let mut polled = libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut set = [0u64; FILES / 64];
        set[file / 64] |= 1 << (file % 64);
        let mut told = libc::epoll_event { events: 0, u64: 0 };
        let part = [bytes.as_mut_ptr() as usize, bytes.len()];
        let (end, left) = (end.as_ptr() as usize, left.as_mut_ptr() as usize);
        let (polled, told) = (&raw mut polled as usize, &raw mut told as usize);
        let parts = part.as_ptr() as usize;
        let private = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
        let monotonic = libc::CLOCK_MONOTONIC as usize;
        let any = u32::MAX as usize;
        let arguments = match self {
            Self::Futex => [word, private, 0, left, 0, 0],
            Self::FutexWait => [word, 0, any, FUTEX2_FLAGS as usize, end, monotonic],
            Self::FutexWaitv => [waiter.as_ptr() as usize, 1, 0, end, monotonic, 0],
            Self::Poll => [polled, 1, milliseconds, 0, 0, 0],
            Self::Ppoll => [polled, 1, left, 0, SIGNALS, 0],
            Self::Select => {
                let left = left_us.as_mut_ptr() as usize;
                [file + 1, set.as_mut_ptr() as usize, 0, 0, left, 0]
            }
            Self::Pselect6 => [file + 1, set.as_mut_ptr() as usize, 0, 0, left, 0],
            Self::EpollWait => [file, told, 1, milliseconds, 0, 0],
            Self::EpollPwait => [file, told, 1, milliseconds, 0, SIGNALS],
            Self::EpollPwait2 => [file, told, 1, left, 0, SIGNALS],
            Self::Read | Self::Write => [file, part[0], part[1], 0, 0, 0],
            Self::Pread64 | Self::Pwrite64 => [file, part[0], part[1], 0, 0, 0],
            Self::Readv | Self::Writev => [file, parts, 1, 0, 0, 0],
            Self::Preadv | Self::Pwritev => [file, parts, 1, 0, 0, 0],
            // No place at all is -1.
            Self::Preadv2 | Self::Pwritev2 => [file, parts, 1, usize::MAX, 0, 0],
        };
        let [a, b, c, d, e, f] = arguments;
        // SAFETY: All that they point to is above, as long as told, and lives until the end.
        let result = unsafe { libc::syscall(self.number(), a, b, c, d, e, f) };
        match usize::try_from(result) {
            Ok(result) => Ok(result),
            Err(_) => match io::Error::last_os_error().raw_os_error() {
                Some(libc::ETIMEDOUT) => Ok(0),
                errno => Err(Errno::from_raw_os_error(errno.unwrap_or(libc::EIO))),
            },
        }
    }
}
