// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies. A call site is the address that a call returns to, which only the first instruction of a
//! function finds: it passes it on as a further argument. Rust has no function without a frame on all compilers
//! that this library is for, so these are of the assembler.

use std::arch::global_asm;
use std::ffi::c_int;

use super::exports::NOT_INITIALIZED;
use super::find;
use super::forms::{Form, FORMS};
use super::guard;
use super::streams::{default_stream, stream_of};
use crate::watch::{self, Copy, Ends};

/// A function of the driver with up to five arguments, all of them in registers.
type Real = unsafe extern "C-unwind" fn(u64, u64, u64, u64, u64) -> c_int;

/// The arguments of a copy, by their places.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// To, from, bytes, stream.
    Plain(Ends),
    /// Addresses that tell what they are of: to, from, bytes, stream.
    Unified,
    /// To an array, its offset, from, bytes, stream.
    ToArray,
    /// From an array: to, array, its offset, bytes, stream.
    FromArray,
    /// A description of rows, stream.
    Rows,
    /// A description of layers, stream.
    Layers,
}

/// `CUDA_MEMCPY2D`, as far as it matters.
#[repr(C)]
struct Rows {
    from_place: [usize; 2],
    from_kind: u32,
    from_host: u64,
    from_device: u64,
    from_array: u64,
    from_pitch: usize,
    to_place: [usize; 2],
    to_kind: u32,
    to_host: u64,
    to_device: u64,
    to_array: u64,
    to_pitch: usize,
    width: usize,
    height: usize,
}

/// `CUDA_MEMCPY3D`, as far as it matters.
#[repr(C)]
struct Layers {
    from_place: [usize; 4],
    from_kind: u32,
    from_host: u64,
    from_device: u64,
    from_array: u64,
    from_reserved: u64,
    from_pitch: [usize; 2],
    to_place: [usize; 4],
    to_kind: u32,
    to_host: u64,
    to_device: u64,
    to_array: u64,
    to_reserved: u64,
    to_pitch: [usize; 2],
    width: usize,
    height: usize,
    depth: usize,
}

const _: () = assert!(size_of::<Rows>() == 128 && size_of::<Layers>() == 200);

/// The ends of a copy that is described: kind, address of unified memory.
fn ends(to: (u32, u64), from: (u32, u64)) -> Ends {
    const HOST: u32 = 1;
    const DEVICE: u32 = 2;
    const ARRAY: u32 = 3;
    const UNIFIED: u32 = 4;
    match (to.0, from.0) {
        (DEVICE | ARRAY, HOST) => Ends::In,
        (HOST, DEVICE | ARRAY) => Ends::Out,
        // The other end is as good as an address of that kind, if it can be asked for.
        (UNIFIED, UNIFIED | HOST) | (HOST, UNIFIED) => Ends::Unified(to.1, from.1),
        _ => Ends::Other,
    }
}

fn bytes(width: usize, height: usize, depth: usize) -> u64 {
    width.saturating_mul(height).saturating_mul(depth) as u64
}

impl Kind {
    /// The copy of a call.
    ///
    /// # Safety
    ///
    /// The first argument of one that is described is null or the address of the description.
    #[inline]
    unsafe fn read(self, arguments: [u64; 5]) -> (Ends, u64, u64) {
        let [a, b, c, d, e] = arguments;
        match self {
            Self::Plain(ends) => (ends, c, d),
            Self::Unified => (Ends::Unified(a, b), c, d),
            Self::ToArray => (Ends::In, d, e),
            Self::FromArray => (Ends::Out, d, e),
            Self::Rows | Self::Layers if a == 0 => (Ends::Other, 0, b),
            Self::Rows => {
                // SAFETY: By the caller.
                let rows = unsafe { &*(a as *const Rows) };
                let ends = ends(
                    (
                        rows.to_kind,
                        pick(rows.to_kind, rows.to_host, rows.to_device),
                    ),
                    (
                        rows.from_kind,
                        pick(rows.from_kind, rows.from_host, rows.from_device),
                    ),
                );
                (ends, bytes(rows.width, rows.height, 1), b)
            }
            Self::Layers => {
                // SAFETY: By the caller.
                let all = unsafe { &*(a as *const Layers) };
                let ends = ends(
                    (all.to_kind, pick(all.to_kind, all.to_host, all.to_device)),
                    (
                        all.from_kind,
                        pick(all.from_kind, all.from_host, all.from_device),
                    ),
                );
                (ends, bytes(all.width, all.height, all.depth), b)
            }
        }
    }
}

/// The address of an end: memory of the host has a field of its own.
fn pick(kind: u32, host: u64, device: u64) -> u64 {
    match kind {
        1 => host,
        _ => device,
    }
}

/// A copy of the program: `FORM` is its function, `KIND` its kind in [`KINDS`]; `caller` is the
/// address that it returns to.
unsafe extern "C-unwind" fn copy<const FORM: usize, const KIND: usize, const LATER: bool>(
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    e: u64,
    caller: usize,
) -> c_int {
    let real = find::real(FORM);
    if real == 0 {
        return NOT_INITIALIZED;
    }
    // SAFETY: The driver's functions of these forms have no more arguments, each of an integer;
    // those beyond its own are not read.
    let real = unsafe { std::mem::transmute::<usize, Real>(real) };
    if !guard::is_watching() {
        // SAFETY: The arguments are the program's.
        return unsafe { real(a, b, c, d, e) };
    }
    let is_per_thread = FORMS[FORM].is_per_thread;
    // SAFETY: The arguments are those of the function.
    let (ends, bytes, stream) = unsafe { KINDS[KIND].read([a, b, c, d, e]) };
    let stream = match LATER {
        true => stream_of(stream, is_per_thread),
        false => default_stream(is_per_thread),
    };
    let copy = Copy {
        ends,
        bytes,
        stream,
        is_synchronous: !LATER,
    };
    watch::copying(&copy, caller);
    // SAFETY: As above.
    let status = unsafe { real(a, b, c, d, e) };
    if status == 0 {
        watch::copied(&copy);
    }
    status
}

const KINDS: [Kind; 7] = [
    Kind::Plain(Ends::In),
    Kind::Plain(Ends::Out),
    Kind::Unified,
    Kind::ToArray,
    Kind::FromArray,
    Kind::Rows,
    Kind::Layers,
];

/// Declares functions: the number of their kind, and the text that makes them return before the
/// copy is over.
macro_rules! copies {
    ($($kind:literal $is_later:literal: $($name:ident)*;)*) => {
        $($(
            global_asm!(
                concat!(".pushsection .text.", stringify!($name), ",\"ax\",@progbits"),
                concat!(".globl ", stringify!($name)),
                concat!(".type ", stringify!($name), ",@function"),
                concat!(stringify!($name), ":"),
                ".cfi_startproc",
                "mov r9, [rsp]",
                "jmp {copy}",
                ".cfi_endproc",
                concat!(".size ", stringify!($name), ", . - ", stringify!($name)),
                ".popsection",
                copy = sym copy::<{ Form::$name as usize }, $kind, $is_later>,
            );
        )*)*

        extern "C-unwind" {
            $($(
                /// A copy, as the driver's function of this name makes it.
                pub fn $name() -> c_int;
            )*)*
        }
    };
}

copies! {
    0 false: cuMemcpyHtoD_v2 cuMemcpyHtoD_v2_ptds;
    0 true: cuMemcpyHtoDAsync_v2 cuMemcpyHtoDAsync_v2_ptsz;
    1 false: cuMemcpyDtoH_v2 cuMemcpyDtoH_v2_ptds;
    2 false: cuMemcpy cuMemcpy_ptds;
    2 true: cuMemcpyAsync cuMemcpyAsync_ptsz;
    3 false: cuMemcpyHtoA_v2 cuMemcpyHtoA_v2_ptds;
    3 true: cuMemcpyHtoAAsync_v2 cuMemcpyHtoAAsync_v2_ptsz;
    4 false: cuMemcpyAtoH_v2 cuMemcpyAtoH_v2_ptds;
    5 false: cuMemcpy2D_v2 cuMemcpy2D_v2_ptds cuMemcpy2DUnaligned_v2 cuMemcpy2DUnaligned_v2_ptds;
    5 true: cuMemcpy2DAsync_v2 cuMemcpy2DAsync_v2_ptsz;
    6 false: cuMemcpy3D_v2 cuMemcpy3D_v2_ptds;
    6 true: cuMemcpy3DAsync_v2 cuMemcpy3DAsync_v2_ptsz;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The copy of a call that is described.
    fn read(kind: Kind, description: u64) -> (Ends, u64, u64) {
        // SAFETY: The tests describe copies.
        unsafe { kind.read([description, 9, 0, 0, 0]) }
    }

    fn rows(to_kind: u32, from_kind: u32) -> Rows {
        Rows {
            from_place: [0; 2],
            from_kind,
            from_host: 10,
            from_device: 20,
            from_array: 0,
            from_pitch: 0,
            to_place: [0; 2],
            to_kind,
            to_host: 30,
            to_device: 40,
            to_array: 0,
            to_pitch: 0,
            width: 100,
            height: 3,
        }
    }

    #[test]
    fn rows_say_where_they_go() {
        for (to, from, ends) in [
            (2, 1, Ends::In),
            (3, 1, Ends::In),
            (1, 2, Ends::Out),
            (1, 3, Ends::Out),
            (2, 2, Ends::Other),
            (1, 1, Ends::Other),
            (4, 4, Ends::Unified(40, 20)),
            (4, 1, Ends::Unified(40, 10)),
            (1, 4, Ends::Unified(30, 20)),
            (9, 9, Ends::Other),
        ] {
            let rows = rows(to, from);
            let read = read(Kind::Rows, &raw const rows as u64);
            assert_eq!(read, (ends, 300, 9), "{to} {from}");
        }
        assert_eq!(read(Kind::Rows, 0), (Ends::Other, 0, 9));
        assert_eq!(read(Kind::Layers, 0), (Ends::Other, 0, 9));
    }

    #[test]
    fn arguments_are_found_by_their_places() {
        let read = |kind: Kind| {
            // SAFETY: It is not described.
            unsafe { kind.read([1, 2, 3, 4, 5]) }
        };
        assert_eq!(read(Kind::Plain(Ends::In)), (Ends::In, 3, 4));
        assert_eq!(read(Kind::Unified), (Ends::Unified(1, 2), 3, 4));
        assert_eq!(read(Kind::ToArray), (Ends::In, 4, 5));
        assert_eq!(read(Kind::FromArray), (Ends::Out, 4, 5));
    }
}
