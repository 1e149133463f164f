// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only unsafe code of the crate: raw layouts and the calls that take them.

pub mod memory;
pub mod probe;
#[cfg(test)]
mod shared;
pub mod sim;
pub mod zernel;

/// Layouts and constants as generated from the C headers.
///
/// Every structure is [`bytemuck::Pod`], which the compiler accepts only for a
/// layout without padding; bindgen adds assertions of all sizes and offsets.
#[allow(
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    unsafe_code,
    unused_qualifications,
    clippy::undocumented_unsafe_blocks
)]
pub mod abi {
    include!(concat!(env!("OUT_DIR"), "/abi.rs"));
}

/// Defines a safe function for a call without addresses in its structure.
///
/// The number comes from the C header. That it carries the size and the
/// direction of the Rust structure is checked when this crate is built.
macro_rules! plain_call {
    ($(#[$doc:meta])* $name:ident, $dir:ident, $group:expr, $nr:expr, $op:ident, $arg:ident) => {
        $(#[$doc])*
        pub fn $name(fd: BorrowedFd<'_>, arg: &mut abi::$arg) -> Result<(), Errno> {
            crate::sys::checked_opcode!(OP, $dir, $group, $nr, $op, $arg);
            // SAFETY: The number belongs to a call that reads and writes one `$arg`, which `arg`
            // is, and the structure holds no address that the kernel would follow.
            unsafe { ioctl(fd, Updater::<OP, abi::$arg>::new(arg)) }
        }
    };
}

/// Defines `$const`, the number of a call, and compares C's and Rust's idea of it.
macro_rules! checked_opcode {
    ($const:ident, $dir:ident, $group:expr, $nr:expr, $op:ident, $arg:ident) => {
        const $const: Opcode = abi::$op as Opcode;
        const _: () = assert!($const == opcode::$dir::<abi::$arg>($group as u8, $nr as u8));
    };
}

pub(crate) use {checked_opcode, plain_call};
