// SPDX-License-Identifier: GPL-2.0
//! Structures of an ioctl ABI and their way to and from user space.
//!
//! A structure is versioned by its size: a shorter one is taken as zero-extended, a longer one
//! must be zero where this module does not know it, and only known bytes are written back. In ABI 1
//! of `/dev/zernel` the input comes first, then the output: [`call`] reads the one and writes the
//! other.

use kernel::{
    prelude::*,
    uaccess::{
        UserPtr,
        UserSlice, //
    },
};

extern "C" {
    fn zernel_helper_read_words(to: *mut u64, from: *const c_void, count: usize) -> bool;
    #[cfg(zernel_core)]
    fn zernel_helper_write_words_nofault(to: *mut c_void, from: *const u64, count: usize) -> bool;
}

/// Words of a structure that is read in one go.
const SMALL: usize = 8;

/// The largest structure that tells its own size.
#[cfg(zernel_core)]
const LARGEST: usize = 4_096;

/// A structure of a user ABI.
///
/// # Safety
///
/// The type is `repr(C)`, has no padding, and every bit pattern is a value of it.
pub(crate) unsafe trait Abi: Copy + Default {
    /// Size of the first version of the structure: a shorter one is refused.
    const FIRST_SIZE: usize;
    /// Size of the part that is read; the rest is only written.
    const INPUT_SIZE: usize;

    /// Its bytes.
    fn bytes(&self) -> &[u8] {
        // SAFETY: No padding, by the contract of the trait.
        unsafe { core::slice::from_raw_parts(core::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }

    /// Its bytes, to be written.
    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: No padding and no invalid bit pattern, by the contract of the trait.
        unsafe {
            core::slice::from_raw_parts_mut(core::ptr::from_mut(self).cast(), size_of::<Self>())
        }
    }
}

/// Declares structures of a user ABI with their size in the header, the size of their first version
/// where that differs, and the size of the part that is read where the rest is only written.
macro_rules! abi {
    (@or $size:expr) => { $size };
    (@or $size:expr, $other:expr) => { $other };
    ($($type:ty = $size:expr $(, first $first:expr)? $(, input $input:expr)?;)*) => {$(
        // Bindgen made the type from the C header: the size tells that both agree, and that the
        // fields leave no room for padding is told by `make check` (`-Wpadded`).
        kernel::prelude::static_assert!(size_of::<$type>() == $size);
        // SAFETY: Integers and arrays of integers alone, without padding, see above.
        unsafe impl $crate::glue::abi::Abi for $type {
            const FIRST_SIZE: usize = $crate::glue::abi::abi!(@or $size $(, $first)?);
            const INPUT_SIZE: usize = $crate::glue::abi::abi!(@or $size $(, $input)?);
        }
    )*};
}
pub(crate) use abi;

/// Reads a structure of `size` bytes from user space.
///
/// # Errors
///
/// `EINVAL` shorter than the first version, `E2BIG` unknown bytes that are not zero, `EFAULT`.
pub(crate) fn read<T: Abi>(address: usize, size: usize) -> Result<T> {
    if size < T::FIRST_SIZE {
        return Err(EINVAL);
    }
    let mut value = T::default();
    let known = size.min(T::INPUT_SIZE);
    read_bytes(address, value.bytes_mut().get_mut(..known).ok_or(EINVAL)?)?;
    if size > size_of::<T>() {
        check_rest(address, size, size_of::<T>())?;
    }
    Ok(value)
}

/// Reads bytes.
fn read_bytes(address: usize, bytes: &mut [u8]) -> Result {
    // As most structures are.
    let words = bytes.len() / size_of::<u64>();
    if words <= SMALL && bytes.len() == words * size_of::<u64>() {
        let to = bytes.as_mut_ptr().cast::<u64>();
        if to.is_aligned() {
            // SAFETY: `to` is aligned and valid for writes of so many words; any address may be
            // asked for.
            let is_read = unsafe { zernel_helper_read_words(to, address as *const c_void, words) };
            return if is_read { Ok(()) } else { Err(EFAULT) };
        }
    }
    let length = bytes.len();
    let mut reader = UserSlice::new(UserPtr::from_addr(address), length).reader();
    reader.read_slice(bytes)
}

/// Checks that the unknown part is zero: everything from `known` on.
fn check_rest(address: usize, size: usize, known: usize) -> Result {
    let mut reader = UserSlice::new(UserPtr::from_addr(address), size).reader();
    reader.skip(known)?;
    let mut rest = [0u8; 64];
    while !reader.is_empty() {
        let chunk = reader.len().min(rest.len());
        let chunk = rest.get_mut(..chunk).ok_or(EINVAL)?;
        reader.read_slice(chunk)?;
        if chunk.iter().any(|&b| b != 0) {
            return Err(E2BIG);
        }
    }
    Ok(())
}

/// Writes as much of a structure to user space as a program with `size` bytes for it knows.
///
/// # Errors
///
/// `EINVAL` shorter than the first version, `EFAULT`.
#[cfg(any(zernel_sim, zernel_simrm))]
pub(crate) fn write<T: Abi>(address: usize, size: usize, value: &T) -> Result {
    if size < T::FIRST_SIZE {
        return Err(EINVAL);
    }
    let known = size.min(size_of::<T>());
    UserSlice::new(UserPtr::from_addr(address), known)
        .writer()
        .write_slice(value.bytes().get(..known).ok_or(EINVAL)?)
}

/// Reads the input of a structure of ABI 1 that has `size` bytes in the program; its output is zero.
///
/// # Errors
///
/// `EINVAL` shorter than the first version, or not a multiple of 8; `E2BIG` unknown bytes that are
/// not zero; `EFAULT`.
#[cfg(zernel_core)]
pub(crate) fn read_input<T: Abi>(address: usize, size: usize) -> Result<T> {
    if size % size_of::<u64>() != 0 {
        return Err(EINVAL);
    }
    read(address, size)
}

/// The size of a structure that begins with it.
///
/// # Errors
///
/// `EFAULT`; `E2BIG` above [`LARGEST`], which no version will be.
#[cfg(zernel_core)]
pub(crate) fn read_size(address: usize) -> Result<usize> {
    let mut size = [0; size_of::<u32>()];
    read_bytes(address, &mut size)?;
    let size = u32::from_ne_bytes(size) as usize;
    match size > LARGEST {
        true => Err(E2BIG),
        false => Ok(size),
    }
}

/// Makes a call of ABI 1 on the structure of `size` bytes at `address`: `make` takes the input from
/// its argument and puts the output there. If it fails, nothing is written.
///
/// # Errors
///
/// Those of [`read_input`] and `make`; `EFAULT` also when the answer cannot be written. Then `make`
/// has taken effect: see [`call_or_undo`].
#[cfg(zernel_core)]
pub(crate) fn call<T: Abi>(
    address: usize,
    size: usize,
    make: impl FnOnce(&mut T) -> Result,
) -> Result {
    call_or_undo(address, size, make, |_| ())
}

/// Makes a call as [`call`] does, and undoes `make` with `undo` if the answer cannot be written.
///
/// # Errors
///
/// As [`call`].
#[cfg(zernel_core)]
pub(crate) fn call_or_undo<T: Abi>(
    address: usize,
    size: usize,
    make: impl FnOnce(&mut T) -> Result,
    undo: impl FnOnce(&T),
) -> Result {
    let mut value = read_input(address, size)?;
    make(&mut value)?;
    write_output(address, size, &value).inspect_err(|_| undo(&value))
}

/// Writes the output of a structure, as far as a program with `size` bytes for it knows it.
#[cfg(zernel_core)]
fn write_output<T: Abi>(address: usize, size: usize, value: &T) -> Result {
    let known = size.min(size_of::<T>());
    let output = value.bytes().get(T::INPUT_SIZE..known).unwrap_or_default();
    if output.is_empty() {
        return Ok(());
    }
    let address = address.checked_add(T::INPUT_SIZE).ok_or(EFAULT)?;
    UserSlice::new(UserPtr::from_addr(address), output.len())
        .writer()
        .write_slice(output)
}

/// Where an answer is to be written: the end of a structure in user space.
#[cfg(zernel_core)]
#[derive(Clone, Copy)]
pub(crate) struct Answer {
    address: usize,
    from: usize,
    to: usize,
}

#[cfg(zernel_core)]
impl Answer {
    /// The part of a `T` from `from` on, as far as a program with `size` bytes for it knows it.
    ///
    /// # Errors
    ///
    /// `EINVAL` it does not know that part, `EFAULT`.
    pub(crate) fn new<T: Abi>(address: usize, size: usize, from: usize) -> Result<Self> {
        let to = size.min(size_of::<T>());
        if to < from {
            return Err(EINVAL);
        }
        let address = address.checked_add(from).ok_or(EFAULT)?;
        Ok(Self { address, from, to })
    }

    /// Writes that part of `value` without sleeping: if the memory is there.
    pub(crate) fn try_write<T: Abi>(self, value: &T) -> bool {
        let Some(part) = value.bytes().get(self.from..self.to) else {
            return false;
        };
        let words = part.len() / size_of::<u64>();
        let from = part.as_ptr().cast::<u64>();
        if part.len() != words * size_of::<u64>() || !from.is_aligned() {
            // No program asks for a part of a word.
            return false;
        }
        // SAFETY: `from` is aligned and valid for reads of so many words; any address may be asked
        // for.
        unsafe { zernel_helper_write_words_nofault(self.address as *mut c_void, from, words) }
    }

    /// Has the memory be there, with what is in it. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(crate) fn fault_in(self) -> Result {
        let length = self.to - self.from;
        // SAFETY: Any address may be asked for, and nothing there changes.
        let missing = unsafe {
            kernel::bindings::fault_in_safe_writeable(self.address as *const c_char, length)
        };
        match missing {
            0 => Ok(()),
            _ => Err(EFAULT),
        }
    }
}

/// Writes an array of numbers to user space.
///
/// # Errors
///
/// `EFAULT`, also for an address range that wraps.
#[cfg(zernel_core)]
pub(crate) fn write_words(address: usize, words: &[u64]) -> Result {
    let length = size_of_val(words);
    // SAFETY: Any bytes of integers may be read.
    let bytes = unsafe { core::slice::from_raw_parts(words.as_ptr().cast::<u8>(), length) };
    UserSlice::new(UserPtr::from_addr(address), length)
        .writer()
        .write_slice(bytes)
}

/// Writes an array of structures to user space, each in `stride` bytes: cut or zero-extended.
///
/// # Errors
///
/// `EFAULT`, also for an address range that wraps.
#[cfg(zernel_core)]
pub(crate) fn write_array<T: Abi>(address: usize, stride: usize, values: &[T]) -> Result {
    const ZEROES: [u8; 64] = [0; 64];
    let length = values.len().checked_mul(stride).ok_or(EFAULT)?;
    let mut writer = UserSlice::new(UserPtr::from_addr(address), length).writer();
    for value in values {
        let known = stride.min(size_of::<T>());
        writer.write_slice(value.bytes().get(..known).ok_or(EINVAL)?)?;
        let mut missing = stride - known;
        while missing > 0 {
            let chunk = missing.min(ZEROES.len());
            writer.write_slice(ZEROES.get(..chunk).ok_or(EINVAL)?)?;
            missing -= chunk;
        }
    }
    Ok(())
}
