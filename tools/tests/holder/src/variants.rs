// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holders with a fault, each made of the good one by a change of its text. The proof is worth
//! something only if it finds them all.

use crate::rules::Breach as Rule;
use crate::world::Breach;
use crate::ENTRY;

/// The way in which a fault is found.
#[derive(Clone, Copy, Debug)]
pub enum Found {
    /// In one of the worlds.
    World(Breach),
    /// By a rule for the text.
    Rule(fn(&Rule) -> bool),
    /// By the report of the assembler, where this is too much.
    Report(&'static str),
    /// It has an instruction that is not known, with this in its text.
    Unknown(&'static str),
    /// Another thread of the warp does something.
    Others,
}

use Found::{Others, Report, Unknown, World};

/// A holder with a fault.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// The fault.
    pub name: &'static str,
    /// Pieces of the text, each of which is there once, and those in their place.
    changes: &'static [Change],
    /// The ways in which it is found: each of them.
    pub found: &'static [Found],
}

type Change = (&'static str, &'static str);

impl Variant {
    const fn new(name: &'static str, changes: &'static [Change], found: &'static [Found]) -> Self {
        Self {
            name,
            changes,
            found,
        }
    }

    /// The text as an entry of a name, or `None` if a piece is not in the good one exactly once.
    fn text(&self, good: &str, name: &str) -> Option<String> {
        let mut text = good.to_owned();
        for (old, new) in self.changes {
            if text.matches(old).count() != 1 {
                return None;
            }
            text = text.replace(old, new);
        }
        Some(text.replace(ENTRY, name))
    }
}

/// The name of the entry of one of them.
pub fn name(index: usize) -> String {
    format!("fault_{index}")
}

/// All of them as entries of one text, as a disassembler takes longer to begin than for all of its
/// work. `None` if a piece is not in the good one exactly once.
pub fn text(good: &str) -> Option<String> {
    let (head, body) = good.split_at(good.find(".visible .entry")?);
    let one = |(index, variant): (usize, &Variant)| variant.text(body, &name(index));
    let all = VARIANTS.iter().enumerate().map(one);
    Some(head.to_owned() + &all.collect::<Option<String>>()?)
}

const NARROW: Found = Found::Rule(|rule| matches!(rule, Rule::Narrow(_)));
const NO_RELEASE: Found = Found::Rule(|rule| *rule == Rule::NoRelease);
const NO_TIMER: Found = Found::Rule(|rule| *rule == Rule::Loop("a look at the timer"));
const NO_SLEEP: Found = Found::Rule(|rule| *rule == Rule::Loop("sleep"));
const LONG_SLEEP: Found = Found::Rule(|rule| *rule == Rule::Sleep(1_000_000));

// Pieces of the good one.
const BEGIN: &str = "\tmov.u64\t\t%last, %globaltimer;\n";
const STORE: &str = "\tst.release.sys.global.u32\t[%held], %number;\n";
const LOOP: &str = "POLL:\n";
const LOAD: &str = "\tld.acquire.sys.global.u32\t%word, [%release];\n";
const AHEAD: &str = "\tsub.s32\t\t%word, %word, %number;\n";
const REACHED: &str = "\tsetp.ge.s32\t%over, %word, 0;\n";
const NOW: &str = "\tmov.u64\t\t%now, %globaltimer;\n";
const FORWARD: &str = "\tmax.s64\t\t%step, %step, 0;\n";
const LAST: &str = "\tmov.u64\t\t%last, %now;\n";
const OVER: &str = "\tsetp.ge.u64\t%over, %step, %left;\n";
const LEFT: &str = "\tsub.u64\t\t%left, %left, %step;\n";
const SLEEP: &str = "\tnanosleep.u32\t200;\n";

// Pieces of those with a fault.
const STORE_AND_LOOP: &str = "POLL:\nst.release.sys.global.u32 [%held], %number;\n";
const LOAD_AND_STORE: &str = "\
    ld.acquire.sys.global.u32 %word, [%release];
    st.release.sys.global.u32 [%held], %number;\n";
const REACHED_AND_STORE: &str = "\
    setp.ge.s32 %over, %word, 0;
    @%over st.release.sys.global.u32 [%held], %number;\n";
const STORE_OTHER: &str = "\
    add.u32 %lane, %number, 1;
    st.release.sys.global.u32 [%held], %lane;\n";
const STORE_AND_BEGIN: &str = "\
    st.release.sys.global.u32 [%held], %number;
    mov.u64 %last, %globaltimer;\n";
const OVER_32: &str = "\
    cvt.u32.u64 %lane, %left;
    cvt.u32.u64 %word, %step;
    setp.ge.u32 %over, %word, %lane;\n";
const SLEEP_AND_SHARED: &str = "\
    nanosleep.u32 200;
    .shared .b32 own;
    st.shared.u32 [own], %word;\n";
const SLEEP_AND_LOCAL: &str = "\
    nanosleep.u32 200;
    .local .b32 own[64];
    and.b32 %lane, %word, 252;
    cvt.u64.u32 %now, %lane;
    mov.u64 %step, own;
    add.u64 %now, %now, %step;
    st.local.u32 [%now], %word;
    ld.local.u32 %lane, [own];
    add.u32 %number, %number, %lane;\n";
const SLEEP_AND_ADD: &str = "\
    nanosleep.u32 200;
    red.add.sys.global.u32 [%held], 1;\n";
const NOW_32: &str = "\
    mov.u32 %lane, %globaltimer_lo;
    cvt.u64.u32 %now, %lane;\n";

/// All of them.
pub const VARIANTS: &[Variant] = &[
    Variant::new(
        "the load is relaxed",
        &[(LOAD, "ld.relaxed.sys.global.u32 %word, [%release];\n")],
        &[World(Breach::Stale)],
    ),
    Variant::new(
        "the load is volatile",
        &[(LOAD, "ld.volatile.global.u32 %word, [%release];\n")],
        &[World(Breach::Stale)],
    ),
    Variant::new(
        "the load is for the GPU alone",
        &[(LOAD, "ld.acquire.gpu.global.u32 %word, [%release];\n")],
        &[World(Breach::Strange), NARROW],
    ),
    Variant::new(
        "another word is looked at",
        &[(LOAD, "ld.acquire.sys.global.u32 %word, [%held];\n")],
        &[World(Breach::Strange)],
    ),
    Variant::new(
        "the number itself is waited for",
        &[(REACHED, "setp.eq.s32 %over, %word, 0;\n")],
        &[World(Breach::GoesOn)],
    ),
    Variant::new(
        "a later number is waited for",
        &[(REACHED, "setp.gt.s32 %over, %word, 0;\n")],
        &[World(Breach::GoesOn)],
    ),
    Variant::new(
        "numbers do not wrap",
        &[
            (AHEAD, ""),
            (REACHED, "setp.ge.u32 %over, %word, %number;\n"),
        ],
        &[World(Breach::EndsEarly), World(Breach::GoesOn)],
    ),
    Variant::new(
        "there is no bound",
        &[(OVER, "setp.ne.u64 %over, %left, %left;\n")],
        &[World(Breach::EndsLate), NO_TIMER],
    ),
    Variant::new(
        "the bound is one nanosecond longer",
        &[(OVER, "setp.gt.u64 %over, %step, %left;\n")],
        &[World(Breach::EndsLate)],
    ),
    Variant::new(
        "the bound has 32 bits",
        &[(OVER, OVER_32)],
        &[World(Breach::EndsEarly)],
    ),
    Variant::new(
        "a step back counts",
        &[(FORWARD, "")],
        &[World(Breach::EndsEarly)],
    ),
    Variant::new(
        "a step back makes the bound longer",
        &[
            (FORWARD, ""),
            (LAST, ""),
            (OVER, "setp.ge.s64 %over, %step, %left;\n"),
            (LEFT, ""),
        ],
        &[World(Breach::EndsLate)],
    ),
    Variant::new(
        "held is not stored",
        &[(STORE, "")],
        &[World(Breach::NotHeld)],
    ),
    Variant::new(
        "held is stored when it ends",
        &[(STORE, ""), (REACHED, REACHED_AND_STORE)],
        &[World(Breach::NotHeld)],
    ),
    Variant::new(
        "held is stored behind the first look",
        &[(STORE, ""), (LOAD, LOAD_AND_STORE)],
        &[World(Breach::NotHeld)],
    ),
    Variant::new(
        "held is stored at each look",
        &[(STORE, ""), (LOOP, STORE_AND_LOOP)],
        &[World(Breach::HeldAgain)],
    ),
    Variant::new(
        "held gets another number",
        &[(STORE, STORE_OTHER)],
        &[World(Breach::HeldOther)],
    ),
    Variant::new(
        "held is stored for the GPU alone",
        &[(STORE, "st.release.gpu.global.u32 [%held], %number;\n")],
        &[World(Breach::Strange), NARROW],
    ),
    Variant::new(
        "held is no release",
        &[(STORE, "st.relaxed.sys.global.u32 [%held], %number;\n")],
        &[NO_RELEASE],
    ),
    Variant::new(
        "held is stored before the time begins",
        &[(BEGIN, ""), (STORE, STORE_AND_BEGIN)],
        &[World(Breach::EndsLate)],
    ),
    Variant::new("all threads hold", &[("\t@%other ret;\n", "")], &[Others]),
    Variant::new("it does not sleep", &[(SLEEP, "")], &[NO_SLEEP]),
    Variant::new(
        "it sleeps for a millisecond",
        &[(SLEEP, "nanosleep.u32 1000000;\n")],
        &[LONG_SLEEP],
    ),
    Variant::new(
        "it waits for others",
        &[(SLEEP, "nanosleep.u32 200;\nbar.sync 0;\n")],
        &[Unknown("BAR.")],
    ),
    Variant::new(
        "it has shared memory",
        &[(SLEEP, SLEEP_AND_SHARED)],
        &[Unknown("STS"), Report("bytes smem")],
    ),
    Variant::new(
        "it has local memory",
        &[(SLEEP, SLEEP_AND_LOCAL)],
        &[Unknown("STL"), Report("bytes stack frame")],
    ),
    Variant::new(
        "the timer is read by halves",
        &[(NOW, NOW_32)],
        &[Unknown("SR_GLOBALTIMERLO")],
    ),
    Variant::new(
        "it adds to another word",
        &[(SLEEP, SLEEP_AND_ADD)],
        &[Unknown("RED")],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HOLDER;

    #[test]
    fn each_differs_from_the_good_one() {
        for variant in VARIANTS {
            let text = variant.text(HOLDER, ENTRY);
            assert!(text.is_some_and(|text| text != HOLDER), "{}", variant.name);
            assert!(!variant.found.is_empty(), "{}", variant.name);
        }
        let all = text(HOLDER).unwrap();
        assert_eq!(all.matches(".version").count(), 1);
        assert_eq!(all.matches(".entry fault_").count(), VARIANTS.len());
        assert!(!all.contains(ENTRY));
    }

    #[test]
    fn a_piece_that_is_not_there_once_is_refused() {
        let variant = Variant::new("", &[("a", "b")], &[Others]);
        assert_eq!(variant.text("cab", "").as_deref(), Some("cbb"));
        assert_eq!(variant.text("b", ""), None);
        assert_eq!(variant.text("aa", ""), None);
        assert_eq!(text(".visible .entry zernel_holder"), None);
        assert_eq!(text(""), None);
    }
}
