// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver's own functions, behind those of the same names here.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::forms::{Form, FORMS};
use super::guard;

/// `dlsym()`.
pub type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// `cuGetProcAddress()` in its second form.
type ByName =
    unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_int) -> c_int;

const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;

/// Addresses of the driver's exported functions, by form; 0: it has none.
static EXPORTED: [AtomicUsize; FORMS.len()] = [const { AtomicUsize::new(0) }; FORMS.len()];

/// Addresses that the driver gives out for them by name: others, perhaps.
static NAMED: [AtomicUsize; FORMS.len()] = [const { AtomicUsize::new(0) }; FORMS.len()];

/// The driver's library, or 0.
static LIBRARY: AtomicUsize = AtomicUsize::new(0);

/// The C library's `dlsym()`, which this library has one of its own in the place of.
pub fn dlsym() -> Option<Dlsym> {
    static FOUND: AtomicUsize = AtomicUsize::new(0);
    let mut found = FOUND.load(Relaxed);
    for version in [c"GLIBC_2.34", c"GLIBC_2.2.5"] {
        if found != 0 {
            break;
        }
        // SAFETY: Both texts end with a zero.
        let next = unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) };
        found = next as usize;
    }
    FOUND.store(found, Relaxed);
    // SAFETY: Not 0, it is the address of a function of this type.
    (found != 0).then(|| unsafe { std::mem::transmute::<usize, Dlsym>(found) })
}

/// A function of a library, by its exported name; 0: it has none.
fn exported(library: *mut c_void, symbol: &CStr) -> usize {
    // SAFETY: The handle is a library's, and the name ends with a zero.
    dlsym().map_or(0, |dlsym| unsafe {
        dlsym(library, symbol.as_ptr()) as usize
    })
}

/// A function of the driver that is not seen.
pub fn other(symbol: &CStr) -> usize {
    match LIBRARY.load(Acquire) {
        0 => 0,
        library => exported(library as *mut c_void, symbol),
    }
}

/// Looks for the driver. It is there once the program has loaded it, and stays then.
#[cold]
fn load() -> bool {
    let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
    // SAFETY: The name ends with a zero. Nothing is loaded.
    let library = unsafe { libc::dlopen(cuda_library().as_ptr(), flags) };
    if library.is_null() {
        return false;
    }
    for (place, known) in EXPORTED.iter().zip(FORMS) {
        place.store(exported(library, known.symbol), Relaxed);
    }
    let by_name = EXPORTED[Form::cuGetProcAddress_v2 as usize].load(Relaxed);
    if by_name != 0 {
        // SAFETY: The driver's function of this name has this type.
        let by_name = unsafe { std::mem::transmute::<usize, ByName>(by_name) };
        for (form, known) in FORMS.iter().enumerate() {
            let (mut address, mut status) = (ptr::null_mut(), 0);
            let flags = if known.is_per_thread {
                PER_THREAD
            } else {
                LEGACY
            };
            let (name, version) = (known.name.as_ptr(), known.version);
            // SAFETY: The name ends with a zero, both places are valid for writes.
            let failed = unsafe { by_name(name, &mut address, version, flags, &mut status) };
            let is_own = failed == 0 && !is_older(form, address as usize);
            NAMED[form].store(if is_own { address as usize } else { 0 }, Relaxed);
        }
    }
    LIBRARY.store(library as usize, Release);
    true
}

/// True if an address that the driver gives out for a form is that of an older one, or of one with
/// another default stream: it has no such form, and takes other arguments.
fn is_older(form: usize, address: usize) -> bool {
    let is_same = |other: usize| FORMS[other].name == FORMS[form].name;
    let others = (0..FORMS.len()).filter(|&other| other != form && is_same(other));
    let of = |places: &[AtomicUsize], other: usize| places[other].load(Relaxed) == address;
    // Those behind it were not asked for yet.
    let mut others = others.map(|other| of(&EXPORTED, other) || other < form && of(&NAMED, other));
    others.any(|is_it| is_it)
}

fn cuda_library() -> &'static CStr {
    const NAME: &CStr = c"libcuda.so.1";
    debug_assert_eq!(NAME.to_bytes(), cuda::LIBRARY.as_bytes());
    NAME
}

/// True if the program has loaded the driver. The first time, the wishes of the user are read.
pub fn is_loaded() -> bool {
    if LIBRARY.load(Acquire) != 0 {
        return true;
    }
    let is_loaded = guard::aside(load).unwrap_or(false);
    if is_loaded {
        guard::set_up();
    }
    is_loaded
}

/// The address of the driver's function of a form; 0: it has none.
#[inline]
pub fn real(form: usize) -> usize {
    match EXPORTED[form].load(Relaxed) {
        0 => real_of_late(form),
        address => address,
    }
}

#[cold]
fn real_of_late(form: usize) -> usize {
    if !is_loaded() {
        return 0;
    }
    match EXPORTED[form].load(Relaxed) {
        0 => NAMED[form].load(Relaxed),
        address => address,
    }
}

/// True if it is the address of the driver's function of a form.
pub fn is_of(form: usize, address: usize) -> bool {
    let is_it = |place: &AtomicUsize| address != 0 && place.load(Relaxed) == address;
    is_it(&EXPORTED[form]) || is_it(&NAMED[form])
}

/// The form of a function of the driver, by its address.
pub fn form_of(address: usize) -> Option<usize> {
    (0..FORMS.len()).find(|&form| is_of(form, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_form_is_no_newer_one() {
        let [first, second, last] = [
            Form::cuCtxCreate_v2,
            Form::cuCtxCreate_v3,
            Form::cuCtxCreate_v4,
        ];
        EXPORTED[first as usize].store(100, Relaxed);
        NAMED[second as usize].store(200, Relaxed);
        let is_older = |form: Form, address| is_older(form as usize, address);
        assert!(is_older(last, 100) && is_older(last, 200));
        assert!(!is_older(last, 300) && !is_older(first, 100));
        assert!(is_older(second, 100) && !is_older(second, 200));
        // A function with another name may have the same address.
        assert!(!is_older(Form::cuCtxDestroy, 100));
        EXPORTED[first as usize].store(0, Relaxed);
        NAMED[second as usize].store(0, Relaxed);
    }
}
