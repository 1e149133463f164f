// SPDX-License-Identifier: MIT OR Apache-2.0
//! The world, on a holder written by hand: it is good, and what is broken in it is found.

use super::*;
use crate::sample::{changed, program, SAMPLE};

fn found(world: World, expected: Breach) {
    let found = world.explore();
    assert!(found.contains(&expected), "{expected:?}: {found:?}");
}

#[test]
fn the_sample_is_good() {
    World::honest(&program(SAMPLE), u32::MAX).assert();
}

#[test]
fn the_order_of_the_program_matters() {
    let mut world = World::honest(&program(SAMPLE), 1);
    assert_eq!(world.clone().explore(), []);
    world.writer = Writer::Disordered;
    found(world, Breach::Stale);
}

#[test]
fn each_breach_is_found() {
    for (old, new, expected) in [
        ("STG.E.STRONG.SYS [R4.64], R9", "NOP", Breach::NotHeld),
        ("[R4.64], R9", "[R4.64], RZ", Breach::HeldOther),
        ("[R4.64], R9", "[R6.64], R9", Breach::Strange),
        (
            ".L_x_0:\nLDG",
            ".L_x_0:\nSTG.E.STRONG.SYS [R4.64], R9\nLDG",
            Breach::HeldAgain,
        ),
        ("LDG.E.STRONG.SYS", "LDG.E", Breach::Strange),
        ("CCTL.IVALL", "NOP", Breach::Stale),
        ("ISETP.GE.AND", "ISETP.GT.AND", Breach::GoesOn),
        ("ISETP.GE.AND", "ISETP.LT.AND", Breach::EndsEarly),
        ("ISETP.GE.U64.AND", "ISETP.LT.U64.AND", Breach::EndsEarly),
        ("IADD.64 R10, R10, -R14", "NOP", Breach::EndsLate),
        (
            "MOV.64 R2, R12",
            "MOV.64 R2, R8",
            Breach::Fault(crate::machine::Fault::Unset(18)),
        ),
    ] {
        let world = World::honest(&program(&changed(old, new)), 1);
        found(world, expected);
    }
}

#[test]
fn an_own_trigger_comes_with_its_release() {
    // A program that stores the trigger first; zernel does not.
    let mut world = World::honest(&program(SAMPLE), 1);
    world.writer = Writer::Hasty;
    found(world, Breach::TriggeredUnreleased);
}

#[test]
fn a_jump_back_neither_ends_nor_prolongs() {
    let mut world = World::honest(&program(SAMPLE), 1);
    world.clock.jumps = vec![-1, -1000, 1];
    world.clone().assert();
    let counted = changed("IMNMX.S64 PT, PT, R14, RZ, R14, !PT, !PT", "NOP");
    world.program = program(&counted);
    found(world.clone(), Breach::EndsEarly);
    // The difference to the first reading, with a sign.
    let from_start = SAMPLE
        .replace(
            "IMNMX.S64 PT, PT, R14, RZ, R14, !PT, !PT\nMOV.64 R2, R12\n",
            "",
        )
        .replace("ISETP.GE.U64", "ISETP.GE.S64")
        .replace("IADD.64 R10, R10, -R14\n", "");
    world.program = program(&from_start);
    found(world, Breach::EndsLate);
}

#[test]
fn a_world_without_an_end_is_told() {
    let mut world = World::honest(&program(SAMPLE), 1);
    world.bound = u64::MAX;
    world.writer = Writer::Hostile(vec![world.number.wrapping_add(1 << 31)]);
    assert!(!world.can_release() && !world.is_bounded());
    world.assert();
}

#[test]
fn numbers_wrap_around_0() {
    assert_eq!(
        [before(1), before(2), before(u32::MAX)],
        [u32::MAX, 1, u32::MAX - 1]
    );
    assert!(reached(1, u32::MAX) && !reached(u32::MAX, 1));
    assert!(reached(0x8000_0000, 1) && !reached(0x8000_0001, 1));
}
