// SPDX-License-Identifier: MIT OR Apache-2.0
//! A holder written by hand in machine code, for tests without the assemblers.

use std::sync::Arc;

use crate::code::decode;
use crate::listing::Listing;
use crate::machine::Program;

/// Where its parameters begin.
pub(crate) const PARAMETERS: u16 = 0x160;

/// Its instructions; labels have a line of their own.
pub(crate) const SAMPLE: &str = "\
S2R R0, SR_TID.X
ISETP.NE.U32.AND P0, PT, R0, RZ, PT
@P0 EXIT
CS2R R2, SR_GLOBALTIMERLO
LDC R9, c[0x0][0x170]
LDC.64 R4, c[0x0][0x160]
LDC.64 R6, c[0x0][0x168]
LDC.64 R10, c[0x0][0x178]
MEMBAR.ALL.SYS
STG.E.STRONG.SYS [R4.64], R9
.L_x_0:
LDG.E.STRONG.SYS R0, [R6.64]
CCTL.IVALL
IMAD.IADD R0, R0, 0x1, -R9
ISETP.GE.AND P0, PT, R0, RZ, PT
@P0 EXIT
CS2R R12, SR_GLOBALTIMERLO
IADD.64 R14, -R2, R12
IMNMX.S64 PT, PT, R14, RZ, R14, !PT, !PT
MOV.64 R2, R12
ISETP.GE.U64.AND P0, PT, R14, R10, PT
@P0 EXIT
IADD.64 R10, R10, -R14
NANOSLEEP 0xc8
BRA `(.L_x_0)";

/// A listing of instructions, as the disassembler prints them.
pub(crate) fn listing(lines: &str) -> String {
    let mut address = 0;
    let one = |line: &str| {
        if line.starts_with('.') {
            return format!("{line}\n");
        }
        address += 16;
        format!("        /*{:04x}*/  {line} ;\n", address - 16)
    };
    lines.lines().map(one).collect()
}

/// Code that can be executed.
pub(crate) fn program(lines: &str) -> Arc<Program> {
    let listing = Listing::parse(&listing(lines)).unwrap();
    Arc::new(Program {
        code: decode(&listing).unwrap(),
        parameters: PARAMETERS,
        mark: None,
    })
}

/// The sample with another text in the place of one of its own.
pub(crate) fn changed(old: &str, new: &str) -> String {
    assert_eq!(SAMPLE.matches(old).count(), 1, "{old}");
    SAMPLE.replace(old, new)
}
