// SPDX-License-Identifier: MIT OR Apache-2.0
//! The holder as NVIDIA's assemblers make it, for every target: `scripts/holder` runs these.

use std::sync::Arc;

use anyhow::{ensure, Context, Result};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use zernel_holder::assembler::{Assembled, Assemblers, RELEASES};
use zernel_holder::entry::Entry;
use zernel_holder::machine::{parameters, Fault, Machine, Program, Step};
use zernel_holder::rules::{self, Unread};
use zernel_holder::variants::{self, Found, VARIANTS};
use zernel_holder::world::{reached, worlds, Breach, World, Writer, HELD, RELEASE};
use zernel_holder::{ENTRY, HOLDER};

/// Targets that the holder must be there for, whichever release makes it.
const NEEDED: [u32; 12] = [70, 72, 75, 80, 86, 87, 89, 90, 100, 103, 120, 121];

/// Calls with a text for each target, by each release that knows it.
fn each(text: &str, test: impl Fn(&Assembled) -> Result<()>) -> Result<()> {
    let assemblers = Assemblers::find()?;
    for release in &RELEASES {
        for &target in release.targets {
            let named = || format!("sm_{target} by CUDA {}", release.name);
            let assembled = assemblers.assemble(release, target, text);
            test(&assembled.with_context(named)?).with_context(named)?;
        }
    }
    Ok(())
}

fn holder(assembled: &Assembled) -> Result<Entry> {
    assembled.entry(ENTRY).context(ENTRY)
}

fn each_program(test: impl Fn(&Arc<Program>) -> Result<()>) -> Result<()> {
    each(HOLDER, |assembled| {
        let program = rules::read(&holder(assembled)?)?;
        let marked = program.mark.map(|_| Program {
            mark: Some(1),
            ..program.clone()
        });
        let mut both = [Some(program), marked].into_iter().flatten();
        both.try_for_each(|program| test(&Arc::new(program)))
    })
}

/// Runs thread 0 with a word that does not change. Each reading of the timer is the next one; the
/// last one stays. Returns the readings after which it has ended, the first one included, or `None`
/// if it goes on behind the last.
fn run(
    program: &Program,
    number: u32,
    word: u32,
    bound: u64,
    times: &[u64],
) -> Result<Option<usize>, Fault> {
    let mut machine = Machine::new(program, 0, parameters(HELD, RELEASE, number, bound));
    let mut read = 0;
    loop {
        let value = match machine.next(program)? {
            Step::End => return Ok(Some(read)),
            Step::Load { .. } => u64::from(word),
            Step::Timer => {
                read += 1;
                match times.get(read - 1) {
                    Some(&time) => time,
                    None => return Ok(None),
                }
            }
            _ => 0,
        };
        machine.take(program, value)?;
    }
}

#[test]
#[ignore = "scripts/holder runs it"]
fn every_target_that_is_known_is_asked_for() -> Result<()> {
    let assemblers = Assemblers::find()?;
    for release in &RELEASES {
        let known = assemblers.known(release)?;
        let strange = known.iter().filter(|target| {
            let mut targets = RELEASES.iter().flat_map(|release| release.targets);
            !targets.any(|other| other == *target)
        });
        let strange: Vec<_> = strange.collect();
        ensure!(strange.is_empty(), "CUDA {}: {strange:?}", release.name);
    }
    for needed in NEEDED {
        let asked = RELEASES
            .iter()
            .any(|release| release.targets.contains(&needed));
        ensure!(asked, "sm_{needed}");
    }
    Ok(())
}

#[test]
#[ignore = "scripts/holder runs it"]
fn it_keeps_the_rules() -> Result<()> {
    each(HOLDER, |assembled| {
        let found = rules::breaches(&holder(assembled)?)?;
        ensure!(found.is_empty(), "{found:?}");
        Ok(())
    })
}

#[test]
#[ignore = "scripts/holder runs it"]
fn the_other_threads_do_nothing() -> Result<()> {
    each_program(|program| {
        for thread in 1..32 {
            let mut machine = Machine::new(program, thread, parameters(HELD, RELEASE, 1, 1));
            ensure!(machine.next(program)? == Step::End, "thread {thread}");
        }
        Ok(())
    })
}

#[test]
#[ignore = "scripts/holder runs it"]
fn a_program_and_zernel_in_every_order() -> Result<()> {
    each_program(|program| {
        worlds::honest(program).into_iter().for_each(World::assert);
        Ok(())
    })
}

#[test]
#[ignore = "scripts/holder runs it"]
fn any_word_in_every_order() -> Result<()> {
    each_program(|program| {
        worlds::hostile(program).into_iter().for_each(World::assert);
        Ok(())
    })
}

#[test]
#[ignore = "scripts/holder runs it"]
fn any_timer_in_every_order() -> Result<()> {
    each_program(|program| {
        worlds::timers(program).into_iter().for_each(World::assert);
        Ok(())
    })
}

#[test]
#[ignore = "scripts/holder runs it"]
fn a_program_without_order_is_found() -> Result<()> {
    each_program(|program| {
        for (writer, breach) in [
            (Writer::Disordered, Breach::Stale),
            (Writer::Hasty, Breach::TriggeredUnreleased),
        ] {
            let world = World {
                writer,
                ..World::honest(program, 1)
            };
            let found = world.explore();
            ensure!(found.contains(&breach), "{breach:?}: {found:?}");
        }
        Ok(())
    })
}

#[test]
#[ignore = "scripts/holder runs it"]
fn it_ends_at_once_for_half_of_all_words() -> Result<()> {
    each_program(|program| {
        let near = prop_oneof![any::<u32>(), 0..3u32, Just(1 << 31), Just((1 << 31) - 1)];
        let mut runner = TestRunner::new(Config::with_cases(2_000));
        let property = |(number, ahead): (u32, u32)| {
            let word = number.wrapping_add(ahead);
            let ended = run(program, number, word, u64::MAX, &[5, 5]) == Ok(Some(1));
            prop_assert_eq!(ended, reached(word, number));
            Ok(())
        };
        Ok(runner.run(&(any::<u32>(), near), property)?)
    })
}

#[test]
#[ignore = "scripts/holder runs it"]
fn it_ends_when_the_steps_of_the_timer_make_its_bound() -> Result<()> {
    each_program(|program| {
        let step = prop_oneof![
            0..3u64,
            0..1u64 << 20,
            0..1u64 << 34,
            any::<u64>(),
            (1..1u64 << 34).prop_map(|back| back.wrapping_neg()),
        ];
        let steps = proptest::collection::vec(step, 1..12);
        let bound = prop_oneof![0..5u64, 0..1u64 << 36, any::<u64>()];
        let mut runner = TestRunner::new(Config::with_cases(2_000));
        let property = |(first, steps, bound): (u64, Vec<u64>, u64)| {
            let mut times = vec![first];
            let mut sum = 0u128;
            let mut expected = None;
            for (index, &step) in steps.iter().enumerate() {
                times.push(times[index].wrapping_add(step));
                sum += u128::try_from(step as i64).unwrap_or(0);
                if expected.is_none() && sum >= bound.into() {
                    expected = Some(index + 2);
                }
            }
            prop_assert_eq!(run(program, 1, 0, bound, &times), Ok(expected));
            Ok(())
        };
        Ok(runner.run(&(any::<u64>(), steps, bound), property)?)
    })
}

/// The first world of all that tells a breach.
fn tells(program: Program, breach: Breach) -> bool {
    let program = Arc::new(program);
    let mut worlds = worlds::all(&program).into_iter();
    worlds.any(|world| world.explore().contains(&breach))
}

fn is_too_much(report: &str, name: &str) -> bool {
    let found = rules::resources(report);
    let mut found = found.iter();
    found.any(|rule| matches!(rule, rules::Breach::TooMuch(_, other, _) if *other == name))
}

/// True if the second thread does anything but end.
fn others_go_on(program: &Program) -> Result<bool, Fault> {
    let mut machine = Machine::new(program, 1, parameters(HELD, RELEASE, 1, 1));
    Ok(machine.next(program)? != Step::End)
}

#[test]
#[ignore = "scripts/holder runs it"]
fn each_fault_is_found_on_every_target() -> Result<()> {
    let text = variants::text(HOLDER).context("the holder has changed")?;
    each(&text, |assembled| {
        for (index, variant) in VARIANTS.iter().enumerate() {
            let entry = assembled.entry(&variants::name(index));
            let entry = entry.context(variant.name)?;
            for found in variant.found {
                let is_found = match *found {
                    Found::World(breach) => tells(rules::read(&entry)?, breach),
                    Found::Rule(rule) => rules::breaches(&entry)?.iter().any(rule),
                    Found::Report(name) => is_too_much(&entry.report, name),
                    Found::Unknown(part) => match rules::read(&entry) {
                        Err(Unread::Unknown(unknown)) => unknown.0.contains(part),
                        _ => false,
                    },
                    Found::Others => others_go_on(&rules::read(&entry)?)?,
                };
                ensure!(is_found, "{} is not found", variant.name);
            }
        }
        Ok(())
    })
}
