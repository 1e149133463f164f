// SPDX-License-Identifier: MIT OR Apache-2.0
//! Types of elements: their names, and the codes that DLPack and the buffer protocol have for them.

use std::ffi::CStr;

use zarrs::array::DataType;

/// A type of DLPack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code {
    pub(crate) code: u8,
    pub(crate) bits: u8,
    /// The first minor version of DLPack 1 that has it; 0 also stands for those before 1.
    pub(crate) since: u32,
}

/// A type of elements.
#[derive(Debug, Clone)]
pub(crate) struct Element {
    pub(crate) name: String,
    /// Its bytes.
    pub(crate) size: usize,
    /// `None`: DLPack has no code.
    pub(crate) code: Option<Code>,
    /// `None`: the buffer protocol has no code, and elements are bytes there.
    #[cfg_attr(not(Py_3_11), expect(dead_code, reason = "there are no buffers"))]
    pub(crate) format: Option<&'static CStr>,
}

impl Element {
    pub(crate) fn new(data_type: &DataType, size: usize) -> Self {
        let (code, format) = codes(data_type);
        // A code of another size than the elements in memory is none of theirs.
        let code = code.filter(|code| usize::from(code.bits) == 8 * size);
        Self {
            name: data_type.name(),
            size,
            format: format.filter(|_| code.is_some()),
            code,
        }
    }
}

/// Codes of DLPack (`DLDataTypeCode`) and of the module `struct`, with `Z` for complex numbers
/// (PEP 3118).
fn codes(data_type: &DataType) -> (Option<Code>, Option<&'static CStr>) {
    const INT: u8 = 0;
    const UINT: u8 = 1;
    const FLOAT: u8 = 2;
    const BFLOAT: u8 = 4;
    const COMPLEX: u8 = 5;
    const BOOL: u8 = 6;
    let both = |code, bits, format| {
        let since = 0;
        (Some(Code { code, bits, since }), format)
    };
    let byte = |code| {
        let (bits, since) = (8, 1);
        (Some(Code { code, bits, since }), None)
    };
    match data_type {
        DataType::Bool => both(BOOL, 8, Some(c"?")),
        DataType::Int8 => both(INT, 8, Some(c"b")),
        DataType::Int16 => both(INT, 16, Some(c"h")),
        DataType::Int32 => both(INT, 32, Some(c"i")),
        DataType::Int64 => both(INT, 64, Some(c"q")),
        DataType::UInt8 => both(UINT, 8, Some(c"B")),
        DataType::UInt16 => both(UINT, 16, Some(c"H")),
        DataType::UInt32 => both(UINT, 32, Some(c"I")),
        DataType::UInt64 => both(UINT, 64, Some(c"Q")),
        DataType::Float16 => both(FLOAT, 16, Some(c"e")),
        DataType::Float32 => both(FLOAT, 32, Some(c"f")),
        DataType::Float64 => both(FLOAT, 64, Some(c"d")),
        DataType::BFloat16 => both(BFLOAT, 16, None),
        DataType::ComplexFloat16 => both(COMPLEX, 32, None),
        DataType::Complex64 | DataType::ComplexFloat32 => both(COMPLEX, 64, Some(c"Zf")),
        DataType::Complex128 | DataType::ComplexFloat64 => both(COMPLEX, 128, Some(c"Zd")),
        DataType::Float8E3M4 => byte(7),
        DataType::Float8E4M3 => byte(8),
        DataType::Float8E4M3B11FNUZ => byte(9),
        DataType::Float8E4M3FNUZ => byte(11),
        DataType::Float8E5M2 => byte(12),
        DataType::Float8E5M2FNUZ => byte(13),
        DataType::Float8E8M0FNU => byte(14),
        _ => (None, None),
    }
}
