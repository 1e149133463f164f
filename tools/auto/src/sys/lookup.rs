// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions by name: `dlsym()` and `cuGetProcAddress()`. A program that asks for a function that
//! is seen gets the one of this library.

use std::arch::global_asm;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::mem::MaybeUninit;

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

// Looks a name up: the C library does, but for functions that are seen.
//
// `RTLD_NEXT` and `RTLD_DEFAULT` depend on the caller, by the address that the call returns to. So
// nothing stands between the caller and the C library's function: it is jumped to.
global_asm!(
    ".pushsection .text.dlsym,\"ax\",@progbits",
    ".globl dlsym",
    ".type dlsym,@function",
    "dlsym:",
    ".cfi_startproc",
    // The address that the call returns to.
    "mov rdx, [rsp]",
    "push rdi",
    ".cfi_adjust_cfa_offset 8",
    "push rsi",
    ".cfi_adjust_cfa_offset 8",
    // Calls are made with a multiple of 16.
    "sub rsp, 8",
    ".cfi_adjust_cfa_offset 8",
    "call {answer}",
    "add rsp, 8",
    ".cfi_adjust_cfa_offset -8",
    "pop rsi",
    ".cfi_adjust_cfa_offset -8",
    "pop rdi",
    ".cfi_adjust_cfa_offset -8",
    "test rdx, rdx",
    "jnz 2f",
    "jmp rax",
    "2:",
    "ret",
    ".cfi_endproc",
    ".size dlsym, . - dlsym",
    ".popsection",
    answer = sym answer,
);

/// The answer for a name and a handle. `caller`: an address in the object that asks.
unsafe extern "C" fn answer(
    handle: *mut c_void,
    name: *const c_char,
    caller: *const c_void,
) -> Answer {
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
        Some(form) => answer_form(dlsym, handle, form, caller).unwrap_or(others),
        None => others,
    }
}

/// `None`: the C library's answer is right.
#[cold]
fn answer_form(
    dlsym: Dlsym,
    handle: *mut c_void,
    form: usize,
    caller: *const c_void,
) -> Option<Answer> {
    let name = forms::FORMS.get(form)?.symbol.as_ptr();
    let own = forms::wrapper(form);
    // SAFETY: The name ends with a zero; the handle is as good as the caller's.
    let find = |handle| unsafe { dlsym(handle, name) };
    // An object that asks for the next one means that behind itself: the C library finds it. Where
    // none comes behind this library it would be one of this library.
    if handle == libc::RTLD_NEXT {
        let next = find(libc::RTLD_NEXT);
        return next.is_null().then(|| Answer::result(next));
    }
    let mut found = find(handle);
    if found as usize == own {
        // That of this library is found first, as it is preloaded. Without it there would be the
        // next one, or one among the libraries of the object that asks.
        found = find(libc::RTLD_NEXT);
        if found.is_null() && handle == libc::RTLD_DEFAULT {
            // SAFETY: The object has made the call, and stays loaded meanwhile.
            let object = unsafe { object_of(caller) };
            let among = object.map(find).filter(|among| *among as usize != own);
            found = among.unwrap_or_else(|| find(libc::RTLD_NEXT));
        }
    }
    let is_drivers = !found.is_null() && find::is_loaded() && find::is_of(form, found as usize);
    Some(Answer::result(match is_drivers {
        true => own as *mut c_void,
        false => found,
    }))
}

/// A handle of the object that an address is in, by which its libraries are searched; none for the
/// program itself, whose libraries are those of all.
///
/// # Safety
///
/// It stays loaded while the handle is used.
unsafe fn object_of(address: *const c_void) -> Option<*mut c_void> {
    /// `RTLD_DL_LINKMAP`.
    const LINK_MAP: c_int = 2;
    /// `struct link_map`, which handles of `dlopen(3)` are addresses of.
    #[repr(C)]
    struct LinkMap {
        offset: usize,
        name: *const c_char,
    }
    extern "C" {
        fn dladdr1(
            address: *const c_void,
            found: *mut libc::Dl_info,
            map: *mut *mut LinkMap,
            flags: c_int,
        ) -> c_int;
    }
    let mut found = MaybeUninit::uninit();
    let mut map: *mut LinkMap = std::ptr::null_mut();
    // SAFETY: Both places are valid for writes, the second one for an address of a map.
    let known = unsafe { dladdr1(address, found.as_mut_ptr(), &mut map, LINK_MAP) };
    // SAFETY: By the caller.
    let read = unsafe { map.as_ref() }.filter(|_| known != 0)?;
    // SAFETY: The loader's name of an object ends with a zero.
    let is_program = read.name.is_null() || unsafe { *read.name } == 0;
    (!is_program).then_some(map.cast())
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
