// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library: initialisation, version, errors, functions by name.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::driver;
use crate::knobs::{is_absent, knobs};
use crate::names::{self, Found};
use crate::status::Status;
use crate::sys::args::{functions, Out, Text};
use crate::sys::exports;

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const PER_THREAD: u64 = 2;
/// All flags of `cuGetProcAddress`.
const FLAGS: u64 = 3;

functions! {
    cuInit(flags: c_uint) {
        match flags {
            0 => driver::init(),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    cuDriverGetVersion(version: Out<c_int>) {
        version.set(knobs().version)
    }

    cuGetErrorName(error: c_int, text: Out<*const c_char>) {
        let name = Status(error).name();
        text.set(name.map_or(std::ptr::null(), |name| name.as_ptr()))?;
        name.map(|_| ()).ok_or(Status::INVALID_VALUE)
    }

    cuGetErrorString(error: c_int, text: Out<*const c_char>) {
        let found = Status(error).text();
        text.set(found.map_or(std::ptr::null(), |found| found.as_ptr()))?;
        found.map(|_| ()).ok_or(Status::INVALID_VALUE)
    }

    cuGetProcAddress(name: Text, function: Out<*const c_void>, version: c_int, flags: u64) {
        look_up(name, function, version, flags, None)
    }

    cuGetProcAddress_v2(
        name: Text, function: Out<*const c_void>, version: c_int, flags: u64, status: Out<c_int>
    ) {
        look_up(name, function, version, flags, Some(status))
    }

    cuProfilerStart() {
        driver::current().map(|_| ())
    }

    cuProfilerStop() {
        driver::current().map(|_| ())
    }
}

fn look_up(
    name: Text,
    function: Out<*const c_void>,
    version: c_int,
    flags: u64,
    status: Option<Out<c_int>>,
) -> crate::status::Result<()> {
    let name = name.get()?;
    function.check()?;
    if flags & !FLAGS != 0 || flags == FLAGS || version > knobs().version {
        return Err(Status::INVALID_VALUE);
    }
    let tell = |value| status.map(|status| status.set_if_wanted(value));
    let found = match is_absent(&name) {
        true => Found::No,
        false => names::find(&name, version, flags == PER_THREAD),
    };
    let (address, value) = match found {
        Found::Symbol(symbol) => (exports::find(&symbol), 0),
        Found::No => (None, 1),
        Found::Newer => (None, 2),
    };
    let value = if address.is_none() && value == 0 {
        1
    } else {
        value
    };
    tell(value);
    function.set(address.unwrap_or(std::ptr::null()))?;
    match address.is_none() && status.is_none() {
        // The first form has no other way to say so.
        true => Err(Status::NOT_FOUND),
        false => Ok(()),
    }
}
