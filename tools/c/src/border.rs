// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of `runtime.h`, and the common part of those of the other headers. The only unsafe
//! code of the crate.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::mem::size_of;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

use cuda::Stream;
use libzernel::request::Features;
use libzernel::tsg;
use zernel_runtime::{Mode, Options, ReleaseWord, Request, Spec};

use crate::fault::{self, Fault};
use crate::handle::Handle;

mod class;
mod config;
mod gpu;
mod graph;
mod told;

/// Types and functions as the header declares them.
#[allow(
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    unused_qualifications,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
mod abi {
    include!(concat!(env!("OUT_DIR"), "/abi.rs"));
}

/// Calls, and turns errors and panics into numbers.
fn call(calls: impl FnOnce() -> Result<(), Fault>) -> c_int {
    let result = catch_unwind(AssertUnwindSafe(calls)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(Fault::Internal(text.unwrap_or_default()))
    });
    match result {
        Ok(()) => 0,
        Err(fault) => fault::remember(&fault),
    }
}

/// Structures that begin with their size, in bytes, and have zero for the usual of all else.
///
/// # Safety
///
/// Any bytes make a valid one.
unsafe trait Sized32: Default {}

// SAFETY: Integers.
unsafe impl Sized32 for abi::zernel_options {}
// SAFETY: Integers and an address that is not followed here.
unsafe impl Sized32 for abi::zernel_spec {}

/// Copies a structure of any size.
///
/// # Safety
///
/// `from` is null, or valid for reads of as many bytes as its first 32 bits tell.
unsafe fn read<T: Sized32>(from: *const T, least: usize) -> Result<T, Fault> {
    if from.is_null() {
        return Ok(T::default());
    }
    // SAFETY: By the caller.
    let told = unsafe { from.cast::<u32>().read_unaligned() };
    let (size, most) = (told as usize, size_of::<T>());
    if size < least {
        return Err(Fault::Argument(
            "a structure is shorter than its first version",
        ));
    }
    // SAFETY: By the caller.
    let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), size) };
    if bytes.iter().skip(most).any(|&byte| byte != 0) {
        return Err(Fault::Size(told));
    }
    let mut copy = T::default();
    // SAFETY: Both are valid for so many bytes, and any make a valid value.
    unsafe {
        std::ptr::copy_nonoverlapping(
            bytes.as_ptr(),
            std::ptr::from_mut(&mut copy).cast::<u8>(),
            size.min(most),
        );
    }
    Ok(copy)
}

/// A structure for a result, as long as its caller says.
struct Place<T> {
    to: *mut T,
    size: u32,
}

impl<T: Sized32> Place<T> {
    /// The place at a pointer. The first version of the structure has `least` bytes; `reserved` tells
    /// the fields that are zero.
    ///
    /// # Safety
    ///
    /// As [`read`], and it stays valid for writes of as many bytes.
    unsafe fn at(
        to: *mut T,
        least: usize,
        reserved: impl FnOnce(&T) -> u32,
    ) -> Result<Self, Fault> {
        place(to)?;
        // SAFETY: By the caller.
        let asked = unsafe { read(to.cast_const(), least)? };
        if reserved(&asked) != 0 {
            return Err(Fault::Argument("a reserved field is not zero"));
        }
        // SAFETY: By the caller.
        let size = unsafe { to.cast::<u32>().read_unaligned() };
        Ok(Self { to, size })
    }

    /// Stores a result, as far as there is place for it.
    fn store(&self, result: &T) {
        let most = size_of::<T>().min(self.size as usize);
        // SAFETY: By the caller of `at()` the place is valid for `size` bytes; the result has as many
        // as its type.
        unsafe {
            std::ptr::copy_nonoverlapping(
                std::ptr::from_ref(result).cast::<u8>(),
                self.to.cast::<u8>(),
                most,
            );
        }
    }
}

/// The runtime behind a pointer.
///
/// # Safety
///
/// It is null, or of `zernel_attach()` and not yet given to `zernel_detach()`.
unsafe fn handle<'a>(runtime: *mut abi::zernel_runtime) -> Result<&'a Handle, Fault> {
    // SAFETY: By the caller.
    let handle = unsafe { runtime.cast::<Handle>().as_ref() };
    handle.ok_or(Fault::Argument("the runtime is a null pointer"))
}

/// True for a request that does nothing. Programs without zernel have no others.
#[inline]
fn is_nothing(runtime: *mut abi::zernel_runtime, request: u64) -> bool {
    request == 0 && !runtime.is_null()
}

/// Fails for a place that is none, before anything is done that has a result for it.
fn place<T>(to: *mut T) -> Result<(), Fault> {
    match to.is_null() {
        true => Err(Fault::Argument("a result has a null pointer for its place")),
        false => Ok(()),
    }
}

/// Stores a result.
///
/// # Safety
///
/// `to` is null or valid for writes.
unsafe fn write<T>(to: *mut T, value: T) -> Result<(), Fault> {
    place(to)?;
    // SAFETY: By the caller, and not null.
    unsafe { to.write(value) };
    Ok(())
}

fn options(raw: &abi::zernel_options) -> Result<Options, Fault> {
    let mut options = match raw.mode {
        abi::ZERNEL_MODE_ENVIRONMENT => Options::from_environment()?,
        abi::ZERNEL_MODE_AUTO => Options::default().mode(Mode::Auto),
        abi::ZERNEL_MODE_OFF => Options::default().mode(Mode::Off),
        abi::ZERNEL_MODE_REQUIRE => Options::default().mode(Mode::Require),
        _ => return Err(Fault::Argument("the mode is not known")),
    };
    options = options.release_word(match raw.release_word {
        abi::ZERNEL_WORD_AUTO => ReleaseWord::Auto,
        abi::ZERNEL_WORD_HOST => ReleaseWord::Host,
        abi::ZERNEL_WORD_GPU => ReleaseWord::Gpu,
        _ => return Err(Fault::Argument("the release word is not known")),
    });
    if raw.lanes != 0 {
        options = options.lanes(raw.lanes);
    }
    if raw.bound_ns != 0 {
        options = options.bound(Duration::from_nanos(raw.bound_ns));
    }
    if raw.tsg != 0 {
        options = options.tsg(tsg::Id::new(raw.tsg));
    }
    Ok(options.linger(Duration::from_nanos(raw.linger_ns)))
}

/// Begins a request by `begins`, with a description that is good, and stores its number.
///
/// # Safety
///
/// As [`handle`] for `runtime`, [`read`] for `from` and [`write`] for `request`.
#[inline]
unsafe fn begin(
    runtime: *mut abi::zernel_runtime,
    from: *const abi::zernel_spec,
    request: *mut u64,
    begins: impl FnOnce(&Handle, &abi::zernel_spec) -> Result<u64, Fault>,
) -> c_int {
    call(|| {
        // SAFETY: By the caller.
        let handle = unsafe { handle(runtime)? };
        place(request)?;
        // SAFETY: By the caller.
        let raw = unsafe { read(from, SPEC)? };
        check(&raw)?;
        let number = begins(handle, &raw)?;
        // SAFETY: By the caller, and not null.
        unsafe { write(request, number) }
    })
}

/// Refuses a description that is not. It is all that a request that does nothing needs of one.
fn check(raw: &abi::zernel_spec) -> Result<(), Fault> {
    let known = abi::ZERNEL_SPEC_EXACT | abi::ZERNEL_SPEC_INLINE;
    if raw.flags & !known != 0 {
        return Err(Fault::Argument("a flag is not known"));
    }
    if raw.flags & abi::ZERNEL_SPEC_INLINE == 0 && !raw.stream.is_null() {
        return Err(Fault::Argument(
            "a stream takes the flag ZERNEL_SPEC_INLINE",
        ));
    }
    // Nearly all have no features, and nothing at all in their place.
    let any = raw.feature.iter().fold(0, |any, &feature| any | feature);
    if (raw.features, raw.reserved, any) != (0, 0, 0) {
        return check_features(raw);
    }
    Ok(())
}

#[cold]
fn check_features(raw: &abi::zernel_spec) -> Result<(), Fault> {
    let Some(rest) = raw.feature.get(raw.features as usize..) else {
        return Err(Fault::Argument("there are more than 8 features"));
    };
    if raw.reserved != 0 {
        return Err(Fault::Argument("a reserved field is not zero"));
    }
    match rest.iter().any(|&feature| feature != 0) {
        true => Err(Fault::Argument(
            "a feature beyond those that are given is not zero",
        )),
        false => Ok(()),
    }
}

/// A description that is good, for the runtime.
fn spec(raw: &abi::zernel_spec) -> Spec {
    let mut spec = Spec::new()
        .key(raw.key)
        .expected(Duration::from_nanos(raw.expected_ns))
        .slo(Duration::from_nanos(raw.slo_ns));
    if raw.flags & abi::ZERNEL_SPEC_EXACT != 0 {
        spec = spec.exact();
    }
    let given = raw.feature.get(..raw.features as usize).unwrap_or_default();
    if let (false, Some(features)) = (given.is_empty(), Features::new(given)) {
        spec = spec.features(features);
    }
    match raw.flags & abi::ZERNEL_SPEC_INLINE {
        0 => spec,
        // SAFETY: By the caller of zernel_begin().
        _ => spec.inline(unsafe { Stream::from_raw(raw.stream) }),
    }
}

const _: () = assert!(abi::ZERNEL_SPEC_FEATURES as usize == Features::MAX);

/// Bytes of the first version of each structure.
const OPTIONS: usize = 40;
const SPEC: usize = 40;

#[no_mangle]
extern "C" fn zernel_version() -> u32 {
    abi::ZERNEL_RUNTIME_VERSION
}

/// # Safety
///
/// As the header says, here and below.
#[no_mangle]
unsafe extern "C" fn zernel_attach(
    from: *const abi::zernel_options,
    runtime: *mut *mut abi::zernel_runtime,
) -> c_int {
    call(|| {
        place(runtime)?;
        // SAFETY: By the caller.
        let options = options(&unsafe { read(from, OPTIONS)? })?;
        let handle = Box::new(Handle::attach(&options)?);
        // SAFETY: By the caller, and not null.
        unsafe { write(runtime, Box::into_raw(handle).cast()) }
    })
}

#[no_mangle]
unsafe extern "C" fn zernel_detach(runtime: *mut abi::zernel_runtime) {
    call(|| {
        if !runtime.is_null() {
            // SAFETY: By the caller, it was made of a box and is given back once.
            drop(unsafe { Box::from_raw(runtime.cast::<Handle>()) });
        }
        Ok(())
    });
}

#[no_mangle]
unsafe extern "C" fn zernel_is_inert(runtime: *mut abi::zernel_runtime) -> c_int {
    let mut inert = 0;
    let result = call(|| {
        // SAFETY: By the caller.
        if let Some(why) = unsafe { handle(runtime)? }.runtime().inert() {
            fault::remember(&why.into());
            inert = 1;
        }
        Ok(())
    });
    match result {
        0 => inert,
        error => error,
    }
}

#[no_mangle]
unsafe extern "C" fn zernel_tsg(runtime: *mut abi::zernel_runtime, tsg: *mut u64) -> c_int {
    call(|| {
        // SAFETY: By the caller.
        let id = unsafe { handle(runtime)? }.runtime().tsg();
        // SAFETY: By the caller.
        unsafe { write(tsg, id.map_or(0, tsg::Id::as_u64)) }
    })
}

#[no_mangle]
unsafe extern "C" fn zernel_begin(
    runtime: *mut abi::zernel_runtime,
    from: *const abi::zernel_spec,
    request: *mut u64,
) -> c_int {
    // SAFETY: By the caller.
    unsafe {
        begin(runtime, from, request, |handle, raw| {
            handle.begin(|| spec(raw))
        })
    }
}

#[no_mangle]
unsafe extern "C" fn zernel_begin_admitted(
    runtime: *mut abi::zernel_runtime,
    from: *const abi::zernel_spec,
    burst_ns: u64,
    request: *mut u64,
    earliest_ns: *mut u64,
) -> c_int {
    let admitted = |handle: &Handle, raw: &abi::zernel_spec| {
        if raw.slo_ns == 0 {
            return Err(Fault::Argument(
                "a deadline can be promised only to a request that has one",
            ));
        }
        let mut earliest = Duration::ZERO;
        let burst = Duration::from_nanos(burst_ns);
        let number = handle.begin_admitted(&spec(raw), burst, &mut earliest);
        if !earliest_ns.is_null() {
            let ns = u64::try_from(earliest.as_nanos()).unwrap_or(u64::MAX);
            // SAFETY: By the caller, and not null.
            unsafe { write(earliest_ns, ns)? };
        }
        number
    };
    // SAFETY: By the caller.
    unsafe { begin(runtime, from, request, admitted) }
}

#[no_mangle]
unsafe extern "C" fn zernel_predicted(
    runtime: *mut abi::zernel_runtime,
    request: u64,
    ns: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: By the caller.
        let handle = unsafe { handle(runtime)? };
        let predicted = handle.with(request, |request| request.predicted())?;
        let predicted = predicted.unwrap_or_default().as_nanos();
        // SAFETY: By the caller.
        unsafe { write(ns, u64::try_from(predicted).unwrap_or(u64::MAX)) }
    })
}

#[no_mangle]
unsafe extern "C" fn zernel_ready(runtime: *mut abi::zernel_runtime, request: u64) -> c_int {
    if is_nothing(runtime, request) {
        return 0;
    }
    // SAFETY: By the caller.
    call(|| unsafe { handle(runtime)? }.with(request, Request::ready))
}

#[no_mangle]
unsafe extern "C" fn zernel_done(runtime: *mut abi::zernel_runtime, request: u64) -> c_int {
    if is_nothing(runtime, request) {
        return 0;
    }
    // SAFETY: By the caller.
    call(|| unsafe { handle(runtime)? }.end(request, Request::done))
}

#[no_mangle]
unsafe extern "C" fn zernel_done_in(
    runtime: *mut abi::zernel_runtime,
    request: u64,
    stream: *mut c_void,
) -> c_int {
    call(|| {
        // SAFETY: By the caller.
        let (handle, stream) = unsafe { (handle(runtime)?, Stream::from_raw(stream)) };
        handle.end_in(request, stream)
    })
}

#[no_mangle]
unsafe extern "C" fn zernel_cancel(runtime: *mut abi::zernel_runtime, request: u64) -> c_int {
    // SAFETY: By the caller.
    call(|| unsafe { handle(runtime)? }.end(request, Request::cancel))
}

#[no_mangle]
extern "C" fn zernel_error_name() -> *const c_char {
    fault::last(|told| told.name.as_ptr().cast())
}

#[no_mangle]
extern "C" fn zernel_error() -> *const c_char {
    fault::last(|told| told.text.as_ptr().cast())
}

/// The functions have the types that the header declares.
#[allow(clippy::type_complexity)]
const _: () = {
    let _: [unsafe extern "C" fn() -> u32; 2] = [abi::zernel_version, zernel_version];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [abi::zernel_attach, zernel_attach];
    let _: [unsafe extern "C" fn(_); 2] = [abi::zernel_detach, zernel_detach];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [abi::zernel_is_inert, zernel_is_inert];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [abi::zernel_tsg, zernel_tsg];
    let _: [unsafe extern "C" fn(_, _, _) -> _; 2] = [abi::zernel_begin, zernel_begin];
    let _: [unsafe extern "C" fn(_, _, _, _, _) -> _; 2] =
        [abi::zernel_begin_admitted, zernel_begin_admitted];
    let _: [unsafe extern "C" fn(_, _, _) -> _; 2] = [abi::zernel_predicted, zernel_predicted];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [abi::zernel_ready, zernel_ready];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [abi::zernel_done, zernel_done];
    let _: [unsafe extern "C" fn(_, _, _) -> _; 2] = [abi::zernel_done_in, zernel_done_in];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [abi::zernel_cancel, zernel_cancel];
    let _: [unsafe extern "C" fn() -> *const c_char; 4] = [
        abi::zernel_error_name,
        zernel_error_name,
        abi::zernel_error,
        zernel_error,
    ];
};

#[cfg(test)]
mod tests;
