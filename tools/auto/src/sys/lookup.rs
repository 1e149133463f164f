// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions by name: `dlsym()` and `cuGetProcAddress()`. A program that asks for a function that
//! is seen gets the one of this library.

use std::arch::naked_asm;
use std::ffi::{c_char, c_int, c_void, CStr};

use super::find::{self, Dlsym};
use super::forms::{self, Form};
use super::guard;

/// The answer to a look-up, in two registers.
#[repr(C)]
struct Answer {
    /// The result, or the function that knows it.
    address: usize,
    /// Not 0: it is the result.
    is_result: usize,
}

impl Answer {
    fn result(address: *mut c_void) -> Self {
        Self {
            address: address as usize,
            is_result: 1,
        }
    }
}

/// Looks a name up: the C library does, but for functions that are seen.
///
/// `RTLD_NEXT` and `RTLD_DEFAULT` depend on the caller, by the address that the call returns to. So
/// nothing stands between the caller and the C library's function: it is jumped to.
///
/// # Safety
///
/// As `dlsym(3)`.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    naked_asm!(
        "push rdi",
        "push rsi",
        // Calls are made with a multiple of 16.
        "sub rsp, 8",
        "call {answer}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rdx, rdx",
        "jnz 2f",
        "jmp rax",
        "2:",
        "ret",
        answer = sym answer,
    )
}

/// The answer for a name and a handle.
unsafe extern "C" fn answer(handle: *mut c_void, name: *const c_char) -> Answer {
    let Some(dlsym) = find::dlsym() else {
        // There is none in any library: the failure is all that can be told.
        return Answer::result(std::ptr::null_mut());
    };
    let others = Answer {
        address: dlsym as usize,
        is_result: 0,
    };
    if name.is_null() {
        return others;
    }
    // SAFETY: The caller gives a text that ends with a zero.
    let name = unsafe { CStr::from_ptr(name) };
    if !name.to_bytes().starts_with(b"cu") || guard::is_own() {
        return others;
    }
    match forms::by_symbol(name) {
        Some(form) => answer_form(dlsym, handle, form).unwrap_or(others),
        None => others,
    }
}

/// `None`: the C library's answer is right.
#[cold]
fn answer_form(dlsym: Dlsym, handle: *mut c_void, form: usize) -> Option<Answer> {
    let name = forms::FORMS.get(form)?.symbol.as_ptr();
    // An object that asks for the next one means that behind itself: the C library finds it.
    // Without CUDA that would be one of this library.
    if handle == libc::RTLD_NEXT {
        // SAFETY: The name ends with a zero. There is none, and the C library keeps the reason.
        return (!find::is_loaded()).then(|| Answer::result(unsafe { dlsym(handle, name) }));
    }
    // SAFETY: The name ends with a zero; the handle is as good as the caller's.
    let of_handle = unsafe { dlsym(handle, name) };
    if of_handle.is_null() {
        return Some(Answer::result(of_handle));
    }
    let own = forms::wrapper(form);
    if of_handle as usize == own {
        // That of this library is found as it is preloaded. A program that looks for CUDA in this
        // way finds it where CUDA is loaded, as it would without.
        return Some(match find::is_loaded() {
            true => Answer::result(of_handle),
            // SAFETY: As above. There is none, and the C library keeps the reason.
            false => Answer::result(unsafe { dlsym(libc::RTLD_NEXT, name) }),
        });
    }
    let is_drivers = find::is_loaded() && find::is_of(form, of_handle as usize);
    Some(Answer::result(match is_drivers {
        true => own as *mut c_void,
        false => of_handle,
    }))
}

/// Puts the function of this library in the place of one that the driver has given.
///
/// # Safety
///
/// `found` is null or valid for reads and writes.
unsafe fn replace(found: *mut *mut c_void) {
    if found.is_null() || guard::is_own() {
        return;
    }
    // SAFETY: By the caller.
    let address = unsafe { *found } as usize;
    // The driver's functions are known by their addresses alone: a newer form, with other
    // arguments, has another one and stays as it is.
    if let Some(form) = find::form_of(address) {
        // SAFETY: By the caller.
        unsafe { *found = forms::wrapper(form) as *mut c_void };
    }
}

/// `cuGetProcAddress()` of CUDA 11.
///
/// # Safety
///
/// As the driver's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cuGetProcAddress(
    name: *const c_char,
    found: *mut *mut c_void,
    version: c_int,
    flags: u64,
) -> c_int {
    type Real = unsafe extern "C-unwind" fn(*const c_char, *mut *mut c_void, c_int, u64) -> c_int;
    let real = find::real(Form::cuGetProcAddress as usize);
    if real == 0 {
        return super::exports::NOT_INITIALIZED;
    }
    // SAFETY: The driver's function has this type; the arguments are the program's.
    unsafe {
        let real = std::mem::transmute::<usize, Real>(real);
        let status = real(name, found, version, flags);
        if status == 0 {
            replace(found);
        }
        status
    }
}

/// `cuGetProcAddress()` from CUDA 12 on.
///
/// # Safety
///
/// As the driver's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cuGetProcAddress_v2(
    name: *const c_char,
    found: *mut *mut c_void,
    version: c_int,
    flags: u64,
    state: *mut c_int,
) -> c_int {
    type Real = unsafe extern "C-unwind" fn(
        *const c_char,
        *mut *mut c_void,
        c_int,
        u64,
        *mut c_int,
    ) -> c_int;
    let real = find::real(Form::cuGetProcAddress_v2 as usize);
    if real == 0 {
        return super::exports::NOT_INITIALIZED;
    }
    // SAFETY: The driver's function has this type; the arguments are the program's.
    unsafe {
        let real = std::mem::transmute::<usize, Real>(real);
        let status = real(name, found, version, flags, state);
        if status == 0 {
            replace(found);
        }
        status
    }
}
