// SPDX-License-Identifier: MIT OR Apache-2.0
//! Instructions, executed. Sums and comparisons of halves are tried on all pairs of edges.

use super::*;
use crate::sample::program;

const EDGES: [u64; 12] = [
    0,
    1,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x1_0000_0001,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0x8000_0000_0000_0001,
    0xffff_ffff_0000_0000,
    u64::MAX,
];

/// The value that is stored by a code that begins with `a` in R2 and R3, `b` in R4 and R5.
fn stored(lines: &str, a: u64, b: u64) -> Result<u32, Fault> {
    let loads = "LDC.64 R2, c[0x0][0x160]\nLDC.64 R4, c[0x0][0x168]\n";
    let program = program(&format!("{loads}{lines}\nSTG.E [R14], R0\nEXIT"));
    let mut parameters = parameters(a, b, 7, 0x1234_5678_9abc_def0);
    parameters[5] = 9;
    let mut machine = Machine::new(&program, 3, parameters);
    // Any address.
    machine
        .write(Register::parse("R14"), Width::Pair, 0x100)
        .unwrap();
    match machine.next(&program)? {
        Step::Store { value, .. } => Ok(value),
        other => panic!("{other:?}"),
    }
}

fn stored_pair(lines: &str, a: u64, b: u64) -> u64 {
    let low = stored(lines, a, b).unwrap();
    let high = stored(&format!("{lines}\nMOV R0, R1"), a, b).unwrap();
    u64::from(high) << 32 | u64::from(low)
}

#[test]
fn sums_and_differences() {
    for a in EDGES {
        for b in EDGES {
            let found = stored_pair("IADD.64 R0, R2, R4", a, b);
            assert_eq!(found, a.wrapping_add(b));
            let difference = a.wrapping_sub(b);
            for lines in [
                "IADD.64 R0, R2, -R4",
                "IADD.64 R0, -R4, R2",
                "IADD3 R0, P0, R2, -R4, RZ\nIMAD.X R1, R3, 0x1, ~R5, P0",
                "IADD3 R0, P1, PT, -R4, R2, RZ\nIADD3.X R1, R3, ~R5, RZ, P1, !PT",
                "MOV R0, R2\nMOV R1, R3\nIADD.64 R0, R0, -c[0x0][0x168]",
            ] {
                assert_eq!(stored_pair(lines, a, b), difference, "{lines}: {a:x} {b:x}");
            }
            let low = stored("IMAD.IADD R0, R2, 0x1, -R4", a, b).unwrap();
            assert_eq!(low, difference as u32);
        }
    }
}

#[test]
fn comparisons() {
    let bit = "SEL R0, R2, RZ, P0\nMOV R0, RZ\n@P0 MOV R0, 0x1";
    for a in EDGES {
        for b in EDGES {
            let holds = |lines: &str| stored(&format!("{lines}\n{bit}"), a, b).unwrap() == 1;
            for (name, order) in [
                ("LT", [a < b, (a as i64) < b as i64]),
                ("LE", [a <= b, a as i64 <= b as i64]),
                ("EQ", [a == b, a == b]),
                ("NE", [a != b, a != b]),
                ("GE", [a >= b, a as i64 >= b as i64]),
                ("GT", [a > b, a as i64 > b as i64]),
            ] {
                for (kind, upper, expected) in [("U64", "U32.", order[0]), ("S64", "", order[1])] {
                    let pair = format!("ISETP.{name}.{kind}.AND P0, PT, R2, R4, PT");
                    assert_eq!(holds(&pair), expected, "{pair} {a:x} {b:x}");
                    let halves = format!(
                        "ISETP.{name}.U32.AND P0, PT, R2, R4, PT\n\
                         ISETP.{name}.{upper}AND.EX P0, PT, R3, R5, PT, P0"
                    );
                    assert_eq!(holds(&halves), expected, "{halves} {a:x} {b:x}");
                }
            }
            let (low, other) = (a as u32 as i32, b as u32 as i32);
            assert_eq!(holds("ISETP.GE.AND P0, PT, R2, R4, PT"), low >= other);
            assert!(!holds("ISETP.GE.AND P0, PT, R2, R2, !PT"));
        }
    }
}

#[test]
fn extremes_and_choices() {
    for a in EDGES {
        for b in EDGES {
            let greater = "IMNMX.S64 PT, PT, R0, R2, R4, !PT, !PT";
            assert_eq!(stored_pair(greater, a, b) as i64, (a as i64).max(b as i64));
            let less = "IMNMX.S64 PT, PT, R0, R2, R4, PT, !PT";
            assert_eq!(stored_pair(less, a, b) as i64, (a as i64).min(b as i64));
        }
    }
    assert_eq!(stored("SEL R0, R2, R4, PT", 5, 6), Ok(5));
    assert_eq!(stored("SEL R0, R2, R4, !PT", 5, 6), Ok(6));
}

#[test]
fn copies_and_constants() {
    assert_eq!(stored("S2R R0, SR_TID.X", 0, 0), Ok(3));
    assert_eq!(stored("LDC R0, c[0x0][0x170]", 0, 0), Ok(7));
    let bound = "ULDC.64 UR4, c[0x0][0x178]\nIMAD.U32 R0, RZ, RZ, UR5";
    assert_eq!(stored(bound, 0, 0), Ok(0x1234_5678));
    let through = "UMOV.64 UR6, UR4\nUMOV UR4, UR7\nIMAD.U32 R0, RZ, RZ, UR4";
    let bound = format!("LDCU.64 UR4, c[0x0][0x178]\n{through}");
    assert_eq!(stored(&bound, 0, 0), Ok(0x1234_5678));
    assert_eq!(stored("VIADD R0, R2, -c[0x0][0x170]", 17, 0), Ok(10));
    let never = "MOV R0, R2\n@!PT MOV R0, R4\n@!PT SHFL.IDX PT, RZ, RZ, RZ, RZ";
    assert_eq!(stored(never, 5, 6), Ok(5));
}

#[test]
fn only_values_that_were_given_are_read() {
    assert_eq!(stored("MOV R0, R9", 0, 0), Err(Fault::Unset(2)));
    assert_eq!(
        stored("MOV R0, RZ\n@P3 MOV R0, RZ", 0, 0),
        Err(Fault::Unset(3))
    );
    // A word of the driver.
    assert_eq!(stored("LDC R0, c[0x0][0x28]", 0, 0), Err(Fault::Unset(3)));
    let reckons = "LDC R1, c[0x0][0x28]\nIADD R0, R1, R2";
    assert_eq!(stored(reckons, 0, 0), Err(Fault::Unset(3)));
    // Behind the parameters, and across two.
    assert_eq!(
        stored("LDC R0, c[0x0][0x180]", 0, 0),
        Err(Fault::Constant(2))
    );
    assert_eq!(
        stored("LDC R0, c[0x0][0x162]", 0, 0),
        Err(Fault::Constant(2))
    );
}

#[test]
fn a_descriptor_is_a_word_of_the_driver() {
    let load = |first: &str| {
        let lines = format!("{first}\nLDG.E R0, desc[UR4][R2.64+0x4]\nEXIT");
        let program = program(&format!("LDC.64 R2, c[0x0][0x160]\n{lines}"));
        Machine::new(&program, 0, parameters(0xffff_fffe, 0, 0, 0)).next(&program)
    };
    let address = 0x1_0000_0002;
    let scope = Scope::Narrower;
    let given = load("ULDC.64 UR4, c[0x0][0x118]");
    assert_eq!(given, Ok(Step::Load { address, scope }));
    assert_eq!(load("ULDC.64 UR4, c[0x0][0x160]"), Err(Fault::Unset(2)));
    assert_eq!(load("NOP"), Err(Fault::Unset(2)));
}

#[test]
fn steps_come_in_order_and_give_values() {
    let program = program(
        "CS2R R2, SR_GLOBALTIMERLO\nNANOSLEEP 0x64\nCCTL.IVALL\nLDG.E.STRONG.SYS R0, [R2]\n\
         STG.E.STRONG.SYS [R2], R0\nEXIT",
    );
    let mut machine = Machine::new(&program, 0, parameters(0, 0, 0, 0));
    let (address, scope) = (0x5_0000_0004, Scope::System);
    let value = 8;
    for (expected, value) in [
        (Step::Timer, address),
        (Step::Sleep, 0),
        (Step::Invalidate, 0),
        (Step::Load { address, scope }, value),
        (
            Step::Store {
                address,
                value: value as u32,
                scope,
            },
            0,
        ),
        (Step::End, 0),
        (Step::End, 0),
    ] {
        assert_eq!(machine.next(&program), Ok(expected));
        machine.take(&program, value).unwrap();
    }
}

#[test]
fn a_mark_may_be_read_where_there_is_one() {
    let lines = "ISETP.NE.U32.AND P0, PT, RZ, UR2, PT\n@P0 EXIT\nNANOSLEEP 0x1\nEXIT";
    let next = |mark| {
        let program = Program {
            mark,
            ..(*program(lines)).clone()
        };
        Machine::new(&program, 0, parameters(0, 0, 0, 0)).next(&program)
    };
    assert_eq!(next(None), Err(Fault::Unset(0)));
    assert_eq!(next(Some(0)), Ok(Step::Sleep));
    assert_eq!(next(Some(1)), Ok(Step::End));
}

#[test]
fn code_has_an_end() {
    let spinning = program(".L_x_0:\nBRA `(.L_x_0)");
    let mut machine = Machine::new(&spinning, 0, parameters(0, 0, 0, 0));
    assert_eq!(machine.next(&spinning), Err(Fault::Spins));
    let open = program("NOP");
    assert_eq!(machine.next(&open), Err(Fault::Beyond));
}
