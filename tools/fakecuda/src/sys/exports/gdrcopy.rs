// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of GDRCopy, as gdrapi.h declares them, for programs that take this library for it.

use std::ffi::{c_int, c_uint, c_ulong};

use rustix::io::Errno;

use crate::gdrcopy::{state, Result, PAGE};
use crate::knobs::{fails, is_fleeting};
use crate::sys::args::{Handle, Out};

/// `GDR_ATTR_USE_PERSISTENT_MAPPING`.
const PERSISTENT: c_int = 1;
/// `GDR_MAPPING_TYPE_WC`.
const GATHERED: c_uint = 1;

/// `gdr_info_v2_t`.
#[repr(C)]
struct Info {
    base: u64,
    length: u64,
    page: u32,
    cycles: u64,
    cycles_per_ms: u32,
    /// Mapped, and gathering stores.
    flags: c_uint,
    kind: c_uint,
}

fn call(name: &str, body: impl FnOnce() -> Result<()>) -> c_int {
    let result = match fails(name) {
        true => Err(Errno::IO),
        false => body(),
    };
    result.err().map_or(0, Errno::raw_os_error)
}

fn set<T>(place: Out<T>, value: T) -> Result<()> {
    place.set(value).map_err(|_| Errno::INVAL)
}

/// Declares functions whose result is 0 or an errno.
macro_rules! functions {
    ($($name:ident ($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            #[no_mangle]
            unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
                call(stringify!($name), move || $body)
            }
        )*
    };
}

#[no_mangle]
unsafe extern "C" fn gdr_open() -> Handle {
    match fails("gdr_open") {
        true => 0,
        false => state().open(),
    }
}

functions! {
    gdr_close(gdr: Handle) {
        state().close(gdr)
    }

    gdr_get_attribute(gdr: Handle, attribute: c_int, value: Out<c_int>) {
        state().check(gdr)?;
        match attribute {
            PERSISTENT => set(value, c_int::from(!is_fleeting())),
            _ => Err(Errno::INVAL),
        }
    }

    gdr_pin_buffer(
        gdr: Handle, address: c_ulong, size: usize, token: u64, space: u32, pin: Out<c_ulong>
    ) {
        let _ = (token, space);
        let number = state().pin(gdr, address, size as u64)?;
        set(pin, number)
    }

    gdr_get_info_v2(gdr: Handle, pin: c_ulong, info: Out<Info>) {
        let (base, length, is_mapped) = state().info(gdr, pin)?;
        let is_mapped = c_uint::from(is_mapped);
        set(info, Info {
            base,
            length,
            page: PAGE as u32,
            cycles: 0,
            cycles_per_ms: 0,
            flags: is_mapped * 3,
            kind: is_mapped * GATHERED,
        })
    }

    gdr_map(gdr: Handle, pin: c_ulong, place: Out<u64>, size: usize) {
        let base = state().map(gdr, pin, size as u64)?;
        set(place, base)
    }

    gdr_unmap(gdr: Handle, pin: c_ulong, place: u64, size: usize) {
        let _ = size;
        state().unmap(gdr, pin, place)
    }

    gdr_unpin_buffer(gdr: Handle, pin: c_ulong) {
        state().unpin(gdr, pin)
    }
}
