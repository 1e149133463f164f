// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of `runtime.h` for the class of a TSG.

use libzernel::class::Attributes;
use libzernel::Level;

use super::{abi, c_int, call, handle, place, write, Fault};

/// A level of a program.
fn level_of(number: u32) -> Result<Level, Fault> {
    let level = u8::try_from(number).ok().and_then(Level::new);
    level.ok_or(Fault::Argument("the level is above 7"))
}

/// A time slice of a program.
fn slice_of(us: u32) -> Result<u32, Fault> {
    match us {
        10..=10_000_000 => Ok(us),
        _ => Err(Fault::Argument("a time slice has 10 to 10,000,000 us")),
    }
}

/// # Safety
///
/// As the header says, here and below.
#[no_mangle]
pub(super) unsafe extern "C" fn zernel_set_level(
    runtime: *mut abi::zernel_runtime,
    level: u32,
) -> c_int {
    call(|| {
        // SAFETY: By the caller.
        let handle = unsafe { handle(runtime)? };
        Ok(handle.runtime().set_level(level_of(level)?)?)
    })
}

#[no_mangle]
pub(super) unsafe extern "C" fn zernel_set_timeslice(
    runtime: *mut abi::zernel_runtime,
    us: u32,
) -> c_int {
    call(|| {
        // SAFETY: By the caller.
        let handle = unsafe { handle(runtime)? };
        let class = Attributes::default().timeslice_us(slice_of(us)?);
        Ok(handle.runtime().set_class(class)?)
    })
}

#[no_mangle]
pub(super) unsafe extern "C" fn zernel_clear_level(runtime: *mut abi::zernel_runtime) -> c_int {
    // SAFETY: By the caller.
    call(|| Ok(unsafe { handle(runtime)? }.runtime().clear_level()?))
}

#[no_mangle]
pub(super) unsafe extern "C" fn zernel_want_class(
    runtime: *mut abi::zernel_runtime,
    level: u32,
    us: u32,
    want: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: By the caller.
        let handle = unsafe { handle(runtime)? };
        place(want)?;
        let slice = match us {
            0 => None,
            us => Some(slice_of(us)?),
        };
        // SAFETY: By the caller, and not null.
        let number = handle.want(unsafe { want.read() }, level_of(level)?, slice)?;
        // SAFETY: By the caller, and not null.
        unsafe { write(want, number) }
    })
}

#[no_mangle]
pub(super) unsafe extern "C" fn zernel_drop_class(
    runtime: *mut abi::zernel_runtime,
    want: u64,
) -> c_int {
    // SAFETY: By the caller.
    call(|| unsafe { handle(runtime)? }.end_want(want))
}

/// The functions have the types that the header declares.
#[allow(clippy::type_complexity)]
const _: () = {
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [abi::zernel_set_level, zernel_set_level];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [abi::zernel_set_timeslice, zernel_set_timeslice];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [abi::zernel_clear_level, zernel_clear_level];
    let _: [unsafe extern "C" fn(_, _, _, _) -> _; 2] = [abi::zernel_want_class, zernel_want_class];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [abi::zernel_drop_class, zernel_drop_class];
};
