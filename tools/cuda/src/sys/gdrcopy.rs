// SPDX-License-Identifier: MIT OR Apache-2.0
//! GDRCopy (`libgdrapi.so.2`): maps memory of the GPU for the CPU, through BAR1 of the GPU.
//!
//! Its calls are not safe for threads: all of them are made one after the other.

use std::ffi::{c_int, c_uint, c_ulong};
use std::path::Path;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libloading::Library;

use super::{Address, Raw};
use crate::{Error, Result};

/// Bytes of a page of the GPU: memory is pinned in whole ones.
pub const PAGE: usize = 1 << 16;

/// Mappings stay when their memory is freed (`gdr_attr`).
const PERSISTENT: c_int = 1;

/// Memory that is pinned (`gdr_mh_t`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Pin {
    handle: c_ulong,
}

/// `gdr_info_v2_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Info {
    /// First address that is pinned, as the GPU sees it.
    base: u64,
    length: u64,
    page: u32,
    _cycles: u64,
    _cycles_per_ms: u32,
    _is_mapped: c_uint,
    _kind: c_uint,
}

crate::functions! {
    struct Functions;
    open = "gdr_open" () -> Raw;
    close = "gdr_close" (Raw) -> c_int;
    attribute = "gdr_get_attribute" (Raw, c_int, *mut c_int) -> c_int;
    pin = "gdr_pin_buffer" (Raw, c_ulong, usize, u64, u32, *mut Pin) -> c_int;
    unpin = "gdr_unpin_buffer" (Raw, Pin) -> c_int;
    map = "gdr_map" (Raw, Pin, *mut Raw, usize) -> c_int;
    unmap = "gdr_unmap" (Raw, Pin, Raw, usize) -> c_int;
    info = "gdr_get_info_v2" (Raw, Pin, *mut Info) -> c_int;
}

/// The right to make a call.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An error for a status that is none of success: an errno.
fn check(call: &str, status: c_int) -> Result<()> {
    if status == 0 {
        return Ok(());
    }
    let why = std::io::Error::from_raw_os_error(status);
    Err(Error::NoWindow(format!("{call}: {why}")))
}

/// The library, open.
#[derive(Debug)]
pub struct GdrCopy {
    functions: Functions,
    handle: usize,
}

impl GdrCopy {
    /// Loads and opens a library.
    ///
    /// # Errors
    ///
    /// [`Error::NoWindow`]: there is none, it lacks a function, it has no access to the GPU, or its
    /// mappings end with their memory, so that a late store would be a fault.
    pub fn open(library: &Path) -> Result<Self> {
        let shown = library.display();
        let none = |why: String| Err(Error::NoWindow(why));
        let guard = turn();
        // SAFETY: The library is GDRCopy's, or one that stands for it; its initialisers are as safe
        // as those of any program that uses it.
        let loaded = match unsafe { Library::new(library) } {
            Ok(loaded) => loaded,
            Err(error) => return none(format!("{shown} cannot be loaded: {error}")),
        };
        let functions = match Functions::find(loaded) {
            Ok(functions) => functions,
            Err(names) => {
                return none(format!(
                    "{shown} lacks {}; GDRCopy has all from 2.5 on",
                    names.join(", ")
                ))
            }
        };
        // SAFETY: It takes nothing.
        let handle = unsafe { (functions.open)() };
        if handle.is_null() {
            return none(
                "gdr_open failed: is its driver loaded, and /dev/gdrdrv open to this user?".into(),
            );
        }
        let gdrcopy = Self {
            functions,
            handle: handle as usize,
        };
        let mut is_persistent = 0;
        // SAFETY: It was opened, and `is_persistent` is valid for writes.
        let status =
            unsafe { (gdrcopy.functions.attribute)(handle, PERSISTENT, &mut is_persistent) };
        drop(guard);
        check("gdr_get_attribute", status)?;
        match is_persistent {
            0 => none("GDRCopy ends mappings with their memory: load gdrdrv with use_persistent_mapping=1".into()),
            _ => Ok(gdrcopy),
        }
    }

    fn raw(&self) -> Raw {
        self.handle as Raw
    }
}

impl Drop for GdrCopy {
    fn drop(&mut self) {
        let _turn = turn();
        // SAFETY: It was opened, and is closed once. Failing leaves nothing to do.
        let _ = unsafe { (self.functions.close)(self.raw()) };
    }
}

/// Memory of the GPU that is pinned for the CPU.
#[derive(Debug)]
struct Pinned {
    gdrcopy: GdrCopy,
    pin: Pin,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _turn = turn();
        // SAFETY: It was pinned, and its mapping is over.
        let _ = unsafe { (self.gdrcopy.functions.unpin)(self.gdrcopy.raw(), self.pin) };
    }
}

/// A page of the GPU that the CPU has mapped.
///
/// # Invariants
///
/// The mapping has [`PAGE`] bytes of that page from `first` on, and stays until this is dropped, even
/// when the memory is freed.
#[derive(Debug)]
pub struct Mapping {
    pinned: Pinned,
    place: usize,
    length: usize,
    first: usize,
}

impl Mapping {
    /// Of a page at an address as the GPU sees it, a multiple of [`PAGE`].
    ///
    /// # Errors
    ///
    /// [`Error::NoWindow`]. Nothing is pinned then.
    pub fn new(gdrcopy: GdrCopy, base: Address) -> Result<Self> {
        let raw = gdrcopy.raw();
        let mut pin = Pin { handle: 0 };
        let guard = turn();
        // SAFETY: It is open; an address without memory is refused; `pin` is valid for writes.
        let status = unsafe { (gdrcopy.functions.pin)(raw, base as c_ulong, PAGE, 0, 0, &mut pin) };
        drop(guard);
        check("gdr_pin_buffer", status)?;
        let pinned = Pinned { gdrcopy, pin };
        let functions = &pinned.gdrcopy.functions;
        // More is pinned where pages of the machine are larger.
        let mut info = Info::default();
        let guard = turn();
        // SAFETY: It is pinned, and `info` is valid for writes.
        let status = unsafe { (functions.info)(raw, pin, &mut info) };
        drop(guard);
        check("gdr_get_info_v2", status)?;
        let offset = base.checked_sub(info.base);
        let within = offset.filter(|offset| offset + PAGE as u64 <= info.length);
        let Some(offset) = within.and_then(|offset| usize::try_from(offset).ok()) else {
            let other = format!("gdr_pin_buffer has pinned other memory than {base:#x}");
            return Err(Error::NoWindow(other));
        };
        let length = offset + PAGE;
        let mut place = ptr::null_mut();
        let guard = turn();
        // SAFETY: It is pinned with so many bytes at least, and `place` is valid for writes.
        let status = unsafe { (functions.map)(raw, pin, &mut place, length) };
        drop(guard);
        check("gdr_map", status)?;
        // INVARIANT: Just mapped; mappings are persistent.
        Ok(Self {
            pinned,
            place: place as usize,
            length,
            first: place as usize + offset,
        })
    }

    /// Where it is.
    pub fn first(&self) -> usize {
        self.first
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let gdrcopy = &self.pinned.gdrcopy;
        let _turn = turn();
        let (pin, place) = (self.pinned.pin, self.place as Raw);
        // SAFETY: It was mapped so, and nothing refers to it any more.
        let _ = unsafe { (gdrcopy.functions.unmap)(gdrcopy.raw(), pin, place, self.length) };
    }
}
