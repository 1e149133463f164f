// SPDX-License-Identifier: GPL-2.0
//! Structures of an ioctl ABI and their way to and from user space.
//!
//! A structure is versioned by its size: a shorter one is taken as zero-extended, a longer one
//! must be zero where this module does not know it, and only known bytes are written back.

use kernel::{
    prelude::*,
    uaccess::{
        UserPtr,
        UserSlice, //
    },
};

/// A structure of a user ABI.
///
/// # Safety
///
/// The type is `repr(C)`, has no padding, and every bit pattern is a value of it.
pub(crate) unsafe trait Abi: Copy + Default {
    /// Size of the first version of the structure: a shorter one is refused.
    const FIRST_SIZE: usize;

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

/// Declares structures of a user ABI with the size that the header gives them, and the size of
/// their first version where that is another.
macro_rules! abi {
    (@first $size:expr) => { $size };
    (@first $size:expr, $first:expr) => { $first };
    ($($type:ty = $size:expr $(, first $first:expr)?;)*) => {$(
        // Bindgen made the type from the C header: the size tells that both agree, and that the
        // fields leave no room for padding is told by `make check` (`-Wpadded`).
        kernel::prelude::static_assert!(size_of::<$type>() == $size);
        // SAFETY: Integers and arrays of integers alone, without padding, see above.
        unsafe impl $crate::glue::abi::Abi for $type {
            const FIRST_SIZE: usize = $crate::glue::abi::abi!(@first $size $(, $first)?);
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
    let known = size.min(size_of::<T>());
    let mut reader = UserSlice::new(UserPtr::from_addr(address), size).reader();
    reader.read_slice(value.bytes_mut().get_mut(..known).ok_or(EINVAL)?)?;
    let mut rest = [0u8; 64];
    while !reader.is_empty() {
        let chunk = reader.len().min(rest.len());
        let chunk = rest.get_mut(..chunk).ok_or(EINVAL)?;
        reader.read_slice(chunk)?;
        if chunk.iter().any(|&b| b != 0) {
            return Err(E2BIG);
        }
    }
    Ok(value)
}

/// Writes as much of a structure to user space as a program with `size` bytes for it knows.
///
/// # Errors
///
/// `EINVAL` shorter than the first version, `EFAULT`.
pub(crate) fn write<T: Abi>(address: usize, size: usize, value: &T) -> Result {
    if size < T::FIRST_SIZE {
        return Err(EINVAL);
    }
    let known = size.min(size_of::<T>());
    UserSlice::new(UserPtr::from_addr(address), known)
        .writer()
        .write_slice(value.bytes().get(..known).ok_or(EINVAL)?)
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
