// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules, on a holder written by hand.

use super::*;
use crate::sample::{changed, listing, PARAMETERS as FIRST, SAMPLE};

const REPORT: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'zernel_holder' for 'sm_75'
ptxas info    : Function properties for zernel_holder
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 16 registers, used 0 barriers, 384 bytes cmem[0]
ptxas info    : Compile time = 3.4 ms
";

fn entry(report: &str, lines: &str) -> Entry {
    Entry {
        name: "zernel_holder".into(),
        target: 75,
        report: report.into(),
        listing: listing(lines),
        parameters: FIRST,
        sections: [".nv.constant0.zernel_holder", ".text.zernel_holder"]
            .map(Into::into)
            .into(),
    }
}

fn broken(lines: &str) -> Vec<Breach> {
    breaches(&entry(REPORT, lines)).unwrap()
}

#[test]
fn the_sample_breaks_none() {
    assert_eq!(broken(SAMPLE), []);
    assert_eq!(registers(REPORT), Some(16));
}

#[test]
fn the_report_tells_each_number() {
    for (from, to, expected) in [
        (
            "16 registers",
            "17 registers",
            Breach::TooMuch(17, "registers", 16),
        ),
        (
            "0 bytes stack",
            "8 bytes stack",
            Breach::TooMuch(8, "bytes stack frame", 0),
        ),
        (
            "used 0 barriers",
            "used 1 barriers",
            Breach::TooMuch(1, "barriers", 0),
        ),
        (
            "384 bytes cmem[0]",
            "4 bytes smem",
            Breach::TooMuch(4, "bytes smem", 0),
        ),
        (
            "0 bytes gmem",
            "4 bytes gmem",
            Breach::TooMuch(4, "bytes gmem", 0),
        ),
        (
            "0 bytes spill loads",
            "",
            Breach::Untold("bytes spill loads"),
        ),
    ] {
        let report = REPORT.replace(from, to);
        let found = breaches(&entry(&report, SAMPLE)).unwrap();
        assert_eq!(found, [expected]);
    }
}

#[test]
fn a_section_with_memory_is_found() {
    for name in [
        ".nv.local.zernel_holder",
        ".nv.shared.zernel_holder",
        ".nv.global.init",
    ] {
        let mut changed = entry(REPORT, SAMPLE);
        changed.sections.push(name.into());
        assert_eq!(breaches(&changed).unwrap(), [Breach::Section(name.into())]);
    }
}

#[test]
fn accesses_are_for_the_system() {
    let narrow = changed("LDG.E.STRONG.SYS", "LDG.E.STRONG.GPU");
    assert_eq!(broken(&narrow), [Breach::Narrow(10)]);
    let narrow = changed("STG.E.STRONG.SYS", "STG.E");
    assert_eq!(broken(&narrow), [Breach::Narrow(9)]);
}

#[test]
fn the_store_is_one_and_a_release() {
    let relaxed = changed("MEMBAR.ALL.SYS", "MEMBAR.ALL.GPU");
    assert_eq!(broken(&relaxed), [Breach::NoRelease]);
    let none = changed("STG.E.STRONG.SYS [R4.64], R9", "NOP");
    assert_eq!(broken(&none), [Breach::Stores(0)]);
    let store = "STG.E.STRONG.SYS [R4.64], R9";
    let two = changed(store, &format!("{store}\n{store}"));
    assert_eq!(broken(&two), [Breach::Stores(2)]);
    // The fence can be passed by.
    let around = changed(
        "MEMBAR.ALL.SYS",
        "@P0 BRA `(.L_x_1)\nMEMBAR.ALL.SYS\n.L_x_1:",
    );
    assert_eq!(broken(&around), [Breach::NoRelease]);
}

#[test]
fn constants_are_parameters() {
    let stack = changed("S2R R0, SR_TID.X", "LDC R1, c[0x0][0x28]\nS2R R0, SR_TID.X");
    assert_eq!(broken(&stack), []);
    for strange in [
        "LDC R8, c[0x0][0x28]",
        "LDC R8, c[0x0][0x180]",
        "IADD R8, R0, c[0x0][0x28]",
    ] {
        let strange = changed("NANOSLEEP", &format!("{strange}\nNANOSLEEP"));
        assert_eq!(broken(&strange), [Breach::Constant(22)]);
    }
}

#[test]
fn a_loop_has_all_it_needs() {
    let loops = |old, expected| {
        let found = broken(&changed(old, "NOP"));
        assert_eq!(found, [Breach::Loop(expected)], "{old}");
    };
    loops("LDG.E.STRONG.SYS R0, [R6.64]", "a look at release");
    loops("CS2R R12, SR_GLOBALTIMERLO", "a look at the timer");
    loops("NANOSLEEP 0xc8", "sleep");
    let long = changed("NANOSLEEP 0xc8", "NANOSLEEP 0x1f5");
    assert_eq!(broken(&long), [Breach::Sleep(501)]);
    let graph = Graph::new(&read(&entry(REPORT, SAMPLE)).unwrap().code);
    assert_eq!((graph.reachable.len(), graph.in_loops()), (24, 14));
}

#[test]
fn each_way_ends() {
    let open = changed("BRA `(.L_x_0)", "@P0 BRA `(.L_x_0)");
    let found = broken(&open);
    assert!(found.contains(&Breach::Beyond(24)), "{found:?}");
    let stuck = changed("NANOSLEEP 0xc8", ".L_x_1:\nBRA `(.L_x_1)");
    let found = broken(&stuck);
    assert!(found.contains(&Breach::NoEnd(22)), "{found:?}");
}

#[test]
fn an_instruction_that_is_not_known_is_an_error() {
    let error = breaches(&entry(REPORT, "BAR.SYNC 0x0\nNOP\nRET R2")).unwrap_err();
    assert_eq!(error.to_string(), "not known: BAR.SYNC 0x0; RET R2");
    let error = breaches(&entry(REPORT, "")).unwrap_err();
    assert_eq!(error, Unread::Listing(listing::Error::Empty));
}
