// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arguments of the functions of the library, and the functions' frame.

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::panic::{catch_unwind, AssertUnwindSafe};

use crate::driver::{driver, Target, LEGACY_HANDLE, PER_THREAD_HANDLE};
use crate::module::Image;
use crate::ptx::Parameter;
use crate::status::{Result, Status};

/// A handle: a number that nobody follows.
pub(crate) type Handle = u64;

/// Runs the body of a function. A panic does not leave the library.
pub(crate) fn call(body: impl FnOnce() -> Result<()>) -> c_int {
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Status::UNKNOWN));
    result.err().unwrap_or(Status::SUCCESS).0
}

/// A place for a result.
///
/// # Invariants
///
/// It is null or valid for writes while the call lasts, as the program says by giving it.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    /// No place.
    pub(crate) fn nowhere() -> Self {
        Self(std::ptr::null_mut())
    }

    /// The same place for a value of another type.
    pub(crate) fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }

    /// Fails where there must be a place.
    pub(crate) fn check(self) -> Result<()> {
        match self.0.is_null() {
            true => Err(Status::INVALID_VALUE),
            false => Ok(()),
        }
    }

    pub(crate) fn set(self, value: T) -> Result<()> {
        self.check()?;
        self.set_if_wanted(value);
        Ok(())
    }

    /// Sets it if there is a place.
    pub(crate) fn set_if_wanted(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: By the invariants, and not null.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// The value there, for what is both.
    pub(crate) fn get(self) -> Result<T>
    where
        T: Copy,
    {
        self.check()?;
        // SAFETY: By the invariants; the program has set it.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Sets the first ones of a list of `room` places.
    pub(crate) fn set_list(self, values: impl IntoIterator<Item = T>, room: usize) -> Result<()> {
        self.check()?;
        for (at, value) in values.into_iter().take(room).enumerate() {
            // SAFETY: By the invariants, which hold for each place of the list.
            unsafe { self.0.add(at).write_unaligned(value) };
        }
        Ok(())
    }
}

impl Out<c_char> {
    /// Sets a text of at most `room` bytes with the zero at its end; a longer one is cut.
    pub(crate) fn set_text(self, text: &str, room: c_int) -> Result<()> {
        let room = usize::try_from(room).ok().filter(|&room| room > 0);
        let room = room.ok_or(Status::INVALID_VALUE)?;
        let text = text.bytes().take(room - 1).map(|byte| byte as c_char);
        self.set_list(text.chain([0]), room)
    }
}

/// A value, or a list of values.
///
/// # Invariants
///
/// It is null or valid for reads while the call lasts.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T: Copy> In<T> {
    pub(crate) fn get(self) -> Result<T> {
        self.list(1)?.pop().ok_or(Status::INVALID_VALUE)
    }

    /// Reads `count` values; null is a list of none.
    pub(crate) fn list(self, count: usize) -> Result<Vec<T>> {
        if count > 0 && self.0.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        let read = |at| {
            // SAFETY: By the invariants, which hold for each place of the list.
            unsafe { self.0.add(at).read_unaligned() }
        };
        Ok((0..count).map(read).collect())
    }

    /// Fails where values are given, and not all of them are 0: what they ask for is not here.
    pub(crate) fn refuse_all_but_zero(self, count: usize) -> Result<()>
    where
        T: bytemuck::Zeroable + PartialEq,
    {
        if self.0.is_null() {
            return Ok(());
        }
        match self.list(count)?.iter().all(|value| *value == T::zeroed()) {
            true => Ok(()),
            false => Err(Status::NOT_SUPPORTED),
        }
    }

    /// The same for a place within a structure.
    pub(crate) fn from_address(address: u64) -> Self {
        Self(address as *const T)
    }
}

/// A text.
///
/// # Invariants
///
/// It is null or ends with a zero.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    pub(crate) fn get(self) -> Result<String> {
        if self.0.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: By the invariants.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str()
            .map(str::to_owned)
            .map_err(|_| Status::INVALID_VALUE)
    }
}

/// The image of a module: a text that ends with a zero, or something that tells its own length.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Code(*const c_void);

impl Code {
    pub(crate) fn get(self) -> Result<Image> {
        /// ELF, a container of images, and the pointer to one that compilers make.
        const BINARIES: [[u8; 4]; 3] = [
            *b"\x7fELF",
            0xba55_ed50_u32.to_le_bytes(),
            0x4662_43b1_u32.to_le_bytes(),
        ];
        let bytes = In(self.0.cast::<u8>());
        // A text is as long as its first word, or ends earlier.
        let mut head = [0; 4];
        for (at, byte) in head.iter_mut().enumerate() {
            *byte = bytes.list(at + 1)?.pop().unwrap_or(0);
            if *byte == 0 {
                break;
            }
        }
        match BINARIES.contains(&head) {
            true => Ok(Image::Binary),
            false => {
                let text = Text(self.0.cast()).get();
                text.map(Image::Text).map_err(|_| Status::INVALID_IMAGE)
            }
        }
    }
}

/// A stream, or one of the default streams.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct StreamOf(pub(crate) Handle);

impl StreamOf {
    /// The legacy default stream.
    pub(crate) const LEGACY: Self = Self(LEGACY_HANDLE);
    /// The default stream of the thread.
    pub(crate) const PER_THREAD: Self = Self(PER_THREAD_HANDLE);

    pub(crate) fn target(self) -> Result<Target> {
        driver()?.target(self.0)
    }
}

/// An argument that may mean something else in the functions with per-thread default streams.
pub(crate) trait Argument: Sized {
    fn per_thread(self) -> Self {
        self
    }
}

impl Argument for StreamOf {
    fn per_thread(self) -> Self {
        match self.0 {
            0 => Self::PER_THREAD,
            _ => self,
        }
    }
}

impl<T> Argument for Out<T> {}
impl<T> Argument for In<T> {}
impl Argument for Text {}
impl Argument for Code {}
impl Argument for u8 {}
impl Argument for u16 {}
impl Argument for c_uint {}
impl Argument for c_int {}
impl Argument for u64 {}
impl Argument for usize {}
impl<T> Argument for Option<T> {}

/// Places of the arguments of a kernel (`kernelParams`, `extra`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arguments {
    pub(crate) places: In<u64>,
    pub(crate) extra: In<u64>,
}

impl Arguments {
    /// The bytes of the arguments.
    pub(crate) fn read(self, parameters: &[Parameter]) -> Result<Vec<u8>> {
        let end = parameters.last().map_or(0, |last| last.offset + last.size);
        match (self.places.0.is_null(), self.extra.0.is_null()) {
            (true, false) => return self.read_extra(end),
            (false, false) => return Err(Status::INVALID_VALUE),
            (_, true) => {}
        }
        let mut bytes = vec![0; end];
        let places = self.places.list(parameters.len())?;
        for (parameter, place) in parameters.iter().zip(places) {
            let argument = In::<u8>::from_address(place).list(parameter.size)?;
            bytes[parameter.offset..][..parameter.size].copy_from_slice(&argument);
        }
        Ok(bytes)
    }

    /// Arguments that the program has put together: their address and length.
    fn read_extra(self, end: usize) -> Result<Vec<u8>> {
        const END: u64 = 0;
        const BUFFER: u64 = 1;
        const SIZE: u64 = 2;
        let (mut buffer, mut size) = (0, 0);
        for at in (0..).step_by(2) {
            match self.extra.list(at + 1)?[at] {
                END => break,
                BUFFER => buffer = self.extra.list(at + 2)?[at + 1],
                SIZE => {
                    let place = self.extra.list(at + 2)?[at + 1];
                    size = In::<usize>::from_address(place).get()?;
                }
                _ => return Err(Status::INVALID_VALUE),
            }
        }
        match size >= end {
            true => In::<u8>::from_address(buffer).list(size),
            false => Err(Status::INVALID_VALUE),
        }
    }
}

/// Declares functions of the library. `[name other](...)`: the second one has default streams per
/// thread.
macro_rules! functions {
    ($($names:tt $args:tt $body:block)*) => {
        $(crate::sys::args::function! { $names $args $body })*

        /// A function of this file.
        pub(crate) fn find(name: &str) -> Option<*const std::ffi::c_void> {
            None$(.or_else(|| crate::sys::args::named!(name $names)))*
        }
    };
}

macro_rules! function {
    ($name:ident ($($arg:ident: $type:ty),* $(,)?) $body:block) => {
        #[no_mangle]
        unsafe extern "C" fn $name($($arg: $type),*) -> std::ffi::c_int {
            crate::sys::args::call(move || $body)
        }
    };
    ([$name:ident $other:ident] ($($arg:ident: $type:ty),* $(,)?) $body:block) => {
        crate::sys::args::function! { $name ($($arg: $type),*) $body }

        #[no_mangle]
        unsafe extern "C" fn $other($($arg: $type),*) -> std::ffi::c_int {
            $(let $arg = crate::sys::args::Argument::per_thread($arg);)*
            crate::sys::args::call(move || $body)
        }
    };
}

/// The function of a name, if it is one of these.
macro_rules! named {
    ($wanted:ident $name:ident) => {
        ($wanted == stringify!($name)).then_some($name as *const std::ffi::c_void)
    };
    ($wanted:ident [$name:ident $other:ident]) => {
        crate::sys::args::named!($wanted $name)
            .or_else(|| crate::sys::args::named!($wanted $other))
    };
}

pub(crate) use {function, functions, named};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_may_be_missing() {
        let mut value = 1;
        let out = Out(&mut value as *mut i32);
        out.set(5).unwrap();
        assert_eq!(out.get(), Ok(5));
        let missing = Out::<i32>(std::ptr::null_mut());
        assert_eq!(missing.set(5), Err(Status::INVALID_VALUE));
        assert_eq!(missing.get(), Err(Status::INVALID_VALUE));
        missing.set_if_wanted(5);
        let none = In::<i32>(std::ptr::null());
        assert_eq!(none.list(0), Ok(Vec::new()));
        assert_eq!(none.list(1), Err(Status::INVALID_VALUE));
        assert_eq!(Text(std::ptr::null()).get(), Err(Status::INVALID_VALUE));
    }

    #[test]
    fn values_that_ask_for_nothing_are_taken() {
        let none = In::<u64>(std::ptr::null());
        none.refuse_all_but_zero(2).unwrap();
        let values = [0, 0, 1_u64];
        let all = In(values.as_ptr());
        all.refuse_all_but_zero(2).unwrap();
        assert_eq!(all.refuse_all_but_zero(3), Err(Status::NOT_SUPPORTED));
    }

    #[test]
    fn texts_are_cut() {
        let mut room = [1; 8];
        let out = Out(room.as_mut_ptr());
        out.set_text("software", 5).unwrap();
        assert_eq!(room.map(|letter| letter as u8), *b"soft\0\x01\x01\x01");
        assert_eq!(out.set_text("a", 0), Err(Status::INVALID_VALUE));
        assert_eq!(out.set_text("a", -1), Err(Status::INVALID_VALUE));
    }

    #[test]
    fn images_are_told_apart() {
        let image = |bytes: &[u8]| Code(bytes.as_ptr().cast()).get();
        assert_eq!(image(b"a\0"), Ok(Image::Text("a".to_owned())));
        assert_eq!(image(b"\x7fELF\x02"), Ok(Image::Binary));
        assert_eq!(image(&0xba55_ed50_u32.to_le_bytes()), Ok(Image::Binary));
        assert_eq!(image(b"abcd\xff\0"), Err(Status::INVALID_IMAGE));
        assert_eq!(Code(std::ptr::null()).get(), Err(Status::INVALID_VALUE));
    }

    #[test]
    fn arguments_come_in_two_ways() {
        let parameters = [(0, 8), (8, 4), (16, 8)].map(|(offset, size)| Parameter { offset, size });
        let (a, b, c) = (1_u64, 2_u32, 3_u64);
        let places = [
            &a as *const u64 as u64,
            &b as *const u32 as u64,
            &c as *const u64 as u64,
        ];
        let none = In(std::ptr::null());
        let arguments = Arguments {
            places: In(places.as_ptr()),
            extra: none,
        };
        let mut bytes = [0; 24];
        (bytes[0], bytes[8], bytes[16]) = (1, 2, 3);
        assert_eq!(arguments.read(&parameters).unwrap(), bytes);
        let size = bytes.len();
        let extra = [1, bytes.as_ptr() as u64, 2, &size as *const usize as u64, 0];
        let mut arguments = Arguments {
            places: none,
            extra: In(extra.as_ptr()),
        };
        assert_eq!(arguments.read(&parameters).unwrap(), bytes);
        arguments.places = In(places.as_ptr());
        assert_eq!(arguments.read(&parameters), Err(Status::INVALID_VALUE));
        arguments.places = none;
        let short = 20_usize;
        let extra = [
            1,
            bytes.as_ptr() as u64,
            2,
            &short as *const usize as u64,
            0,
        ];
        arguments.extra = In(extra.as_ptr());
        assert_eq!(arguments.read(&parameters), Err(Status::INVALID_VALUE));
        arguments.extra = In([7, 0].as_ptr());
        assert_eq!(arguments.read(&parameters), Err(Status::INVALID_VALUE));
        arguments.extra = none;
        assert_eq!(arguments.read(&parameters), Err(Status::INVALID_VALUE));
        assert_eq!(arguments.read(&[]), Ok(Vec::new()));
    }

    #[test]
    fn a_panic_is_an_error() {
        assert_eq!(call(|| Err(Status::NOT_READY)), 600);
        assert_eq!(call(|| Ok(())), 0);
        assert_eq!(call(|| panic!("for the test")), 999);
    }
}
