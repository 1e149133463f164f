// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of `/dev/zernel` that are taken or refused: memory, sizes, numbers, fields; and programs
//! that were built for another version of the header.
//!
//! The layouts are the same for 32-bit programs, so that the kernel's `compat_ptr_ioctl` is all there
//! is to their calls. Of the test kernels the debug kernel runs such programs.

pub(crate) mod filter;
mod sizes;
pub(crate) mod stage;
pub(crate) mod validity;
mod versions;

use std::os::fd::BorrowedFd;

use anyhow::Result;
use bytemuck::{bytes_of_mut, Pod, Zeroable};
use libzernel::request::Of;
use libzernel::sys::abi;
use libzernel::{Stats, Target, Zernel};
use rustix::io::Errno;

use crate::check_eq;
use crate::child::in_child;
use crate::common::{wait_set, Lab};
use crate::harness::{case, suite, Outcome, Suite};
use crate::sys;

/// The suite.
pub const SUITE: Suite = suite(
    "abi",
    &[
        case("every_call_works", sizes::every_call_works),
        case("addresses", sizes::addresses),
        case("other_sizes", sizes::other_sizes),
        case("other_numbers", sizes::other_numbers),
        case("other_files", sizes::other_files),
        case("seccomp_tells_calls_apart", sizes::seccomp_tells_apart),
        case("fields", validity::fields),
        case("targets", validity::targets),
        case("clocks_of_time_namespaces", clocks_of_time_namespaces),
        case("old_programs", versions::old_programs),
    ],
);

/// Runs `f` and fails if anything but the count of refusals is different afterwards.
pub fn unchanged<T>(zernel: &Zernel, f: impl FnOnce() -> Result<T>) -> Result<T> {
    let look = || -> Result<(Stats, _, _)> {
        let stats = Stats {
            denied: 0,
            ..zernel.stats()?
        };
        let requests = zernel.request_stats(Of::All)?;
        let own = zernel.class(&Target::current_process())?;
        Ok((stats, requests, own))
    };
    // Changes that succeeded before are applied a moment later.
    wait_set(zernel)?;
    let before = look()?;
    let result = f()?;
    check_eq!(look()?, before, "a call that failed changed something");
    Ok(result)
}

/// Makes a call on a structure and hands back both.
pub fn call<T: Pod>(fd: BorrowedFd<'_>, number: u32, value: &T) -> (Result<i32, Errno>, T) {
    let mut value = *value;
    let result = sys::ioctl_bytes(fd, number, bytes_of_mut(&mut value));
    (result, value)
}

/// The offset of a time namespace is that by which its clock differs.
fn clocks_of_time_namespaces() -> Outcome {
    const NEWTIME: libc::c_int = 0x80;
    const OFFSET_S: i64 = 7200;
    if !std::path::Path::new("/proc/self/ns/time").exists() {
        eprintln!("this kernel has no time namespaces");
        return Ok(());
    }
    in_child(|| {
        sys::unshare(NEWTIME)?;
        let offset = format!("monotonic {OFFSET_S} 0");
        std::fs::write("/proc/self/timens_offsets", offset)?;
        // The namespace is that of children.
        in_child(|| {
            let info = Lab::open()?.zernel.info()?;
            check_eq!(info.clock_offset_ns, OFFSET_S * 1_000_000_000);
            let now = libzernel::Timestamp::now().as_ns() as i64 - info.clock_offset_ns;
            check_eq!(now > info.loaded_at.as_ns() as i64, true, "{info:?}");
            Ok(())
        })
    })
}

/// The number of TSGs in the first part of their list through this file.
pub fn count_tsgs(fd: BorrowedFd<'_>) -> Result<usize> {
    let mut part = [abi::zernel_tsg_info::zeroed(); 64];
    Ok(crate::list::part(fd, abi::ZERNEL_LIST_TSGS, 0, &mut part)?.0)
}

/// Sets a class through a file that is no [`Zernel`].
pub fn set_through(fd: BorrowedFd<'_>, target: &Target, level: u32) -> Result<(), Errno> {
    let mut call = abi::zernel_class_set {
        target: target.raw(),
        set: abi::ZERNEL_CLASS_LEVEL,
        level,
        ..Zeroable::zeroed()
    };
    libzernel::sys::zernel::class_set(fd, &mut call)
}
