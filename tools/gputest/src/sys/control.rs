// SPDX-License-Identifier: MIT OR Apache-2.0
//! The objects that a driver library makes for this process, seen in its calls of `ioctl()`, and
//! controls of them through the file in which they were made.

use std::ffi::{c_int, c_ulong, c_void};
use std::sync::{Mutex, PoisonError};

use bytemuck::Pod;
use nvrm::abi::{class, escape, AllocLong, AllocShort, Control, TsgParams, Xfer};

/// A TSG of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    fd: c_int,
    client: u32,
    /// Its handle.
    pub object: u32,
    /// Its engine, as the library has asked for it.
    pub engine: u32,
    /// Channels that were made in it.
    pub channels: u32,
}

static SEEN: Mutex<Vec<Seen>> = Mutex::new(Vec::new());

/// The TSGs that were seen so far.
pub fn seen() -> Vec<Seen> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The letter of NVIDIA's calls.
const LETTER: c_ulong = 0x46;

fn call(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    // SAFETY: The arguments are those of the caller, which the kernel checks.
    unsafe { libc::syscall(libc::SYS_ioctl, fd, request, argument) as c_int }
}

/// `ioctl()` of this program and of all libraries that it loads.
///
/// # Safety
///
/// As in C.
#[no_mangle]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    let done = call(fd, request, argument);
    if done == 0 && (request >> 8) & 0xff == LETTER && !argument.is_null() {
        let (mut number, mut length) = ((request & 0xff) as u32, (request >> 16) & 0x3fff);
        let mut at = argument.cast_const();
        if number == escape::XFER && length as usize == size_of::<Xfer>() {
            // SAFETY: The driver has just taken a structure of this length there.
            let other: Xfer = unsafe { at.cast::<Xfer>().read_unaligned() };
            (number, length) = (other.cmd, other.size.into());
            at = other.pointer as usize as *const c_void;
        }
        if number == escape::ALLOC && !at.is_null() {
            // SAFETY: As above; its length tells the form.
            unsafe { see(fd, at, length as usize) };
        }
    }
    done
}

/// Keeps `ioctl()` in a program that does not call it.
#[used]
static KEPT: unsafe extern "C" fn(c_int, c_ulong, *mut c_void) -> c_int = ioctl;

/// Notes an object that was made.
///
/// # Safety
///
/// `at` is a structure of this length, which the driver has filled; parameters of a TSG are where it
/// says.
unsafe fn see(fd: c_int, at: *const c_void, length: usize) {
    let (root, parent, object, kind, params, status) = if length == size_of::<AllocLong>() {
        // SAFETY: By the caller.
        let long = unsafe { at.cast::<AllocLong>().read_unaligned() };
        let of = (long.root, long.parent, long.object, long.class);
        (of.0, of.1, of.2, of.3, long.params, long.status)
    } else if length == size_of::<AllocShort>() {
        // SAFETY: By the caller.
        let short = unsafe { at.cast::<AllocShort>().read_unaligned() };
        let of = (short.root, short.parent, short.object, short.class);
        (of.0, of.1, of.2, of.3, short.params, short.status)
    } else {
        return;
    };
    if status != 0 {
        return;
    }
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if kind == class::TSG {
        let engine = match params {
            0 => 0,
            // SAFETY: By the caller.
            at => unsafe { (at as usize as *const TsgParams).read_unaligned() }.engine,
        };
        seen.push(Seen {
            fd,
            client: root,
            object,
            engine,
            channels: 0,
        });
    } else if kind & 0xff == class::CHANNEL & 0xff {
        let is_in = |tsg: &&mut Seen| (tsg.client, tsg.object) == (root, parent);
        if let Some(tsg) = seen.iter_mut().find(is_in) {
            tsg.channels += 1;
        }
    }
}

impl Seen {
    /// The same object, however many channels it has got meanwhile.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.client, self.object) == (other.client, other.object)
    }

    /// A control of it, through the file in which it was made. The status is the resource manager's.
    pub fn control<T: Pod>(&self, cmd: u32, params: &mut T) -> Result<(), u32> {
        let mut raw = Control {
            client: self.client,
            object: self.object,
            cmd,
            params: std::ptr::from_mut(params) as u64,
            size: size_of::<T>() as u32,
            ..Control::default()
        };
        let length = size_of::<Control>() as c_ulong;
        let request = 3 << 30 | length << 16 | LETTER << 8 | c_ulong::from(escape::CONTROL);
        match call(self.fd, request, std::ptr::from_mut(&mut raw).cast()) {
            0 if raw.status == 0 => Ok(()),
            0 => Err(raw.status),
            _ => Err(u32::MAX),
        }
    }
}
