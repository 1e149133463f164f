// SPDX-License-Identifier: MIT OR Apache-2.0
//! Instructions as text, those that are known and those that are not.

use super::*;
use crate::sample::listing;

fn one(line: &str) -> Result<Instruction, Unknown> {
    let text = listing(&format!(".L_x_0:\n{line}"));
    let found = decode(&Listing::parse(&text).unwrap())?;
    Ok(found[0])
}

#[test]
fn accesses_are_told_apart_by_their_scope() {
    let scope = |line| match one(line).unwrap().effect {
        Effect::Load { scope, .. } | Effect::Store { scope, .. } => scope,
        other => panic!("{other:?}"),
    };
    assert_eq!(scope("LDG.E.STRONG.SYS R0, [R2.64]"), Scope::System);
    assert_eq!(scope("LDG.E.STRONG.GPU R0, [R2.64]"), Scope::Narrower);
    assert_eq!(scope("LDG.E R0, [UR2]"), Scope::Narrower);
    assert_eq!(
        scope("STG.E.STRONG.SYS desc[UR4][R2.64], R0"),
        Scope::System
    );
    assert_eq!(scope("STG.E [R2], R0"), Scope::Narrower);
}

#[test]
fn a_carry_has_one_bit() {
    let carry = |line| match one(line) {
        Ok(Instruction {
            effect: Effect::Add { carry_out, .. },
            ..
        }) => Some(carry_out.is_some()),
        _ => None,
    };
    assert_eq!(carry("IADD3 R0, R1, R2, R3"), Some(false));
    assert_eq!(carry("IADD3 R0, P0, R1, R2, RZ"), Some(true));
    assert_eq!(carry("IADD3 R0, P0, PT, R1, R2, RZ"), Some(true));
    assert_eq!(
        carry("UIADD3.64 UR4, UPT, UPT, UR6, -UR4, URZ"),
        Some(false)
    );
    assert_eq!(carry("IADD3 R0, P0, R1, R2, R3"), None);
    assert_eq!(carry("IADD3 R0, P0, P1, R1, R2, RZ"), None);
    assert_eq!(carry("IADD3.X R0, R1, R2, RZ, P0, P1"), None);
}

#[test]
fn comparisons_have_a_width_and_a_sign() {
    let found = |line| match one(line).unwrap().effect {
        Effect::Compare {
            width,
            signed,
            lower,
            ..
        } => (width, signed, lower.is_some()),
        other => panic!("{other:?}"),
    };
    let word = Width::Word;
    assert_eq!(
        found("ISETP.GE.AND P0, PT, R0, RZ, PT"),
        (word, true, false)
    );
    let unsigned = "ISETP.GE.U32.AND P0, PT, R0, RZ, PT";
    assert_eq!(found(unsigned), (word, false, false));
    let upper = "ISETP.GT.AND.EX P0, PT, R0, RZ, PT, P1";
    assert_eq!(found(upper), (word, true, true));
    let pair = "ISETP.LE.U64.AND P0, PT, R0, UR2, PT";
    assert_eq!(found(pair), (Width::Pair, false, false));
}

#[test]
fn a_guard_goes_with_any_instruction() {
    let found = one("@!P0 BRA `(.L_x_0)").unwrap();
    assert!(found.guard.negated && found.guard.of.is_some());
    assert_eq!(found.effect, Effect::Branch(0));
}

#[test]
fn other_instructions_and_modifiers_are_not_known() {
    for line in [
        "ATOMG.E.ADD.STRONG.SYS R0, [R2.64], R4",
        "BAR.SYNC.DEFER_BLOCKING 0x0",
        "BRA `(.L_x_9)",
        "BSYNC B0",
        "CALL.REL.NOINC `(.L_x_0)",
        "CS2R.32 R0, SR_GLOBALTIMERLO",
        "IADD3 R0, R1, R2",
        "IMAD.MOV.U32 R0, R1, RZ, R2",
        "IMAD.IADD R0, R1, 0x2, R2",
        "IMNMX.S64 PT, PT, R0, RZ, R2, !PT, PT",
        "ISETP.GE.OR P0, PT, R0, RZ, PT",
        "ISETP.GE.U64.AND.EX P0, PT, R0, R2, PT, P1",
        "ISETP.GE.AND P0, P1, R0, RZ, PT",
        "LDC R0, R2",
        "LDG.E.64.STRONG.SYS R0, [R2.64]",
        "LDL R0, [R1]",
        "LDS R0, [R1]",
        "MOV R16, RZ",
        "NANOSLEEP R0",
        "S2R R0, SR_CTAID.X",
        "S2R R0, SR_GLOBALTIMERLO",
        "SHFL.IDX PT, R0, R0, R0, R0",
        "@P9 EXIT",
    ] {
        let error = one(line).unwrap_err();
        let operation = line.trim_start_matches("@P9 ").split(' ').next().unwrap();
        assert!(error.to_string().contains(operation), "{error}");
    }
    assert!(one("@!PT SHFL.IDX PT, RZ, RZ, RZ, RZ").is_ok());
}
