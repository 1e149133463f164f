// SPDX-License-Identifier: GPL-2.0
//! Attributes of a class one by one: their values in force, and the settings of a TSG.

use super::fixture::{
    self,
    admin,
    in_force,
    level,
    owner,
    process,
    thread,
    work,
    FakeDriver,
    DEFAULT_US, //
};
use crate::{
    error::Failure,
    glue::identity::Viewer,
    policy::{
        attribute::Source,
        class::Values,
        level::Level,
        permit::{
            Change,
            Set, //
        },
        rotation::Weight,
        slices::Policy,
        tunables::settings::Why,
        units::Us, //
    },
    registry::{
        class::{
            Answer,
            Named,
            Told, //
        },
        gpu,
        Registry, //
    },
};
use kernel::prelude::*;

/// Sets the time slice alone.
fn slice(us: u32) -> Change {
    Change {
        set: Values {
            timeslice: Some(Us(us)),
            ..Values::default()
        },
        ..Change::default()
    }
}

/// Sets the weight alone.
fn weight(number: u32) -> Change {
    Change {
        set: Values {
            weight: Weight::new(number).ok(),
            ..Values::default()
        },
        ..Change::default()
    }
}

/// Clears the time slice alone.
fn no_slice() -> Change {
    Change {
        clear: Set {
            timeslice: true,
            ..Set::default()
        },
        ..Change::default()
    }
}

fn ask(r: &mut Registry, named: &Named) -> Result<Answer> {
    Ok(r.get_class(admin(), named, &Viewer::current())?)
}

fn told<T: Copy>(told: Told<T>) -> (T, Source, Why) {
    (told.value, told.origin.source, told.why)
}

const BECAUSE: Why = Why(0);

#[kernel::macros::kunit_tests(zernel_attributes)]
mod cases {
    use super::*;

    #[test]
    fn a_slice_of_its_own_replaces_the_levels_and_ends_with_it() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        let id = r.add_tsg(gpu, fixture::tsg(1)?)?;
        r.change_class(admin(), process()?, Level::BE)?;
        r.change_class(admin(), thread()?, slice(700))?;
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), 700);
        let answer = ask(&mut r, &Named::Tsg(id))?;
        assert_eq!(told(answer.timeslice), (700, Source::Thread, BECAUSE));
        assert_eq!(
            told(answer.level),
            (Some(Level::BE), Source::Process, BECAUSE)
        );
        r.change_class(admin(), thread()?, no_slice())?;
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), 200);
        assert_eq!(r.assignments.count(), 1);
        let answer = ask(&mut r, &Named::Tsg(id))?;
        assert_eq!(told(answer.timeslice), (200, Source::Level, BECAUSE));
        Ok(())
    }

    #[test]
    fn without_a_class_an_owner_shortens_what_the_driver_gave() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        let id = r.add_tsg(gpu, fixture::tsg(1)?)?;
        let before = d.held.get();
        // Longer than the driver's unknown slice: without effect.
        r.change_class(owner(), Named::Tsg(id), slice(3000))?;
        work(&mut r, gpu, &d);
        assert_eq!(d.held.get(), before);
        let answer = ask(&mut r, &Named::Tsg(id))?;
        assert_eq!(told(answer.timeslice), (0, Source::None, Why::UNPRIVILEGED));
        r.change_class(owner(), Named::Tsg(id), slice(300))?;
        work(&mut r, gpu, &d);
        assert_eq!(
            (d.slice(), d.held.get().interleave),
            (300, before.interleave)
        );
        assert_eq!(in_force(&r, id), None);
        let answer = ask(&mut r, &Named::Tsg(id))?;
        assert_eq!(told(answer.timeslice), (300, Source::Tsg, BECAUSE));
        let longer = r.change_class(owner(), Named::Tsg(id), slice(301));
        assert_eq!(longer, Err(Failure::NotPermitted));
        let clear = r.change_class(owner(), Named::Tsg(id), Change::CLEAR);
        assert_eq!(clear, Err(Failure::NotPermitted));
        r.change_class(admin(), Named::Tsg(id), Change::CLEAR)?;
        work(&mut r, gpu, &d);
        assert_eq!(d.held.get(), before);
        Ok(())
    }

    #[test]
    fn a_manager_lengthens_it_without_a_class() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        r.add_tsg(gpu, fixture::tsg(1)?)?;
        let before = d.held.get();
        r.change_class(admin(), process()?, slice(4000))?;
        work(&mut r, gpu, &d);
        assert_eq!(
            (d.slice(), d.held.get().interleave),
            (4000, before.interleave)
        );
        // The owner takes less, and may not have the whole of it back.
        r.change_class(owner(), process()?, slice(2000))?;
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), 2000);
        let back = r.change_class(owner(), process()?, slice(4000));
        assert_eq!(back, Err(Failure::NotPermitted));
        r.change_class(admin(), process()?, Change::CLEAR)?;
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), DEFAULT_US);
        Ok(())
    }

    #[test]
    fn a_weight_comes_from_whoever_has_one() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let id = r.add_tsg(gpu, fixture::tsg(1)?)?;
        r.change_class(admin(), process()?, weight(3000))?;
        r.change_class(admin(), thread()?, Level::BE)?;
        let answer = ask(&mut r, &Named::Tsg(id))?;
        assert_eq!(told(answer.weight), (3000, Source::Process, BECAUSE));
        r.change_class(owner(), thread()?, weight(5))?;
        let answer = ask(&mut r, &Named::Tsg(id))?;
        assert_eq!(told(answer.weight), (5, Source::Thread, BECAUSE));
        let more = r.change_class(owner(), process()?, weight(3001));
        assert_eq!(more, Err(Failure::NotPermitted));
        assert_eq!(in_force(&r, id), Some(Level::BE));
        Ok(())
    }

    #[test]
    fn what_does_not_count_has_a_reason() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let mut copy = fixture::tsg(1)?;
        copy.traits.compute = false;
        let copy = r.add_tsg(gpu, copy)?;
        r.change_class(owner(), process()?, level(6))?;
        let answer = ask(&mut r, &process()?)?;
        assert_eq!(told(answer.level), (None, Source::None, Why::UNPRIVILEGED));
        r.change_class(admin(), process()?, Level::LC)?;
        let answer = ask(&mut r, &Named::Tsg(copy))?;
        assert_eq!(told(answer.level), (None, Source::None, Why::ENGINE));
        assert_eq!(told(answer.timeslice), (0, Source::None, Why::ENGINE));
        assert_eq!(told(answer.weight), (1024, Source::None, BECAUSE));
        r.tune(|t| {
            t.set_enabled(false);
            Ok(())
        })
        .map_err(|_| EINVAL)?;
        let answer = ask(&mut r, &process()?)?;
        assert_eq!(told(answer.timeslice), (0, Source::None, Why::DISABLED));
        Ok(())
    }

    #[test]
    fn each_assignment_has_an_id_and_counts_its_tsgs() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let id = r.add_tsg(gpu, fixture::tsg(1)?)?;
        r.add_tsg(gpu, fixture::tsg(2)?)?;
        r.change_class(admin(), process()?, Level::BE)?;
        r.change_class(admin(), Named::Tsg(id), level(3))?;
        let first = r.assignments.from(0).map(|(id, _, held)| (id, held.tsgs()));
        let (process_id, tsgs) = first.ok_or(ENOENT)?;
        assert_eq!(tsgs, 1);
        let answer = ask(&mut r, &process()?)?;
        assert_eq!(answer.own.map(|own| own.id), Some(process_id));
        assert_eq!(answer.level.origin.assignment, process_id);
        // A change is the same assignment.
        r.change_class(admin(), process()?, weight(7))?;
        let answer = ask(&mut r, &process()?)?;
        assert_eq!(answer.own.map(|own| own.id), Some(process_id));
        r.change_class(admin(), Named::Tsg(id), Change::CLEAR)?;
        let held = r.assignments.by_id(process_id).ok_or(ENOENT)?.1;
        assert_eq!(held.tsgs(), 2);
        r.remove_tsg(id);
        let held = r.assignments.by_id(process_id).ok_or(ENOENT)?.1;
        assert_eq!(held.tsgs(), 1);
        assert_eq!(r.assignments.changes(), 3);
        let counters = r.counters();
        assert_eq!((counters.classes_set, counters.classes_cleared), (3, 1));
        Ok(())
    }

    #[test]
    fn the_same_level_once_more_has_the_provider_asked_again() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let d = FakeDriver::new();
        r.add_tsg(gpu, fixture::tsg(1)?)?;
        d.slice_error.set(Some(EIO));
        r.change_class(owner(), process()?, Level::BE)?;
        work(&mut r, gpu, &d);
        assert_eq!(r.counters().errors, 1);
        d.slice_error.set(None);
        r.change_class(owner(), process()?, Level::BE)?;
        work(&mut r, gpu, &d);
        assert_eq!(d.slice(), 200);
        Ok(())
    }

    #[test]
    fn the_slice_that_is_told_is_the_one_that_is_asked_for() -> Result {
        let (mut r, gpu) = fixture::registry()?;
        let (d, mut copies) = (FakeDriver::new(), fixture::tsg(2)?);
        (copies.traits.compute, copies.traits.copies) = (false, true);
        let first = r.add_tsg(gpu, fixture::tsg(1)?)?;
        let of_all = [first, r.add_tsg(gpu, copies)?];
        r.change_class(admin(), process()?, Level::LC)?;
        r.tune(|t| {
            t.slices_mut().set_policy(Policy::Slack);
            Ok(())
        })
        .map_err(|_| EINVAL)?;
        let (none, yields) = (BECAUSE, Why::YIELDS);
        for (own, is_held, whys, slices) in [
            (None, false, none, [5_000_000, 190]),
            (Some(Us(700)), false, none, [700, 190]),
            (Some(Us(700)), true, yields, [200, 10]),
            (None, true, yields, [200, 10]),
            (None, false, none, [5_000_000, 190]),
        ] {
            for (id, slice) in of_all.into_iter().zip(slices) {
                r.set_slice(id, own);
                assert!(r.set_yielding(gpu, id, is_held));
                work(&mut r, gpu, &d);
                let answer = ask(&mut r, &Named::Tsg(id))?;
                assert_eq!(told(answer.timeslice), (slice, Source::Level, whys));
                assert_eq!(fixture::slice(&r, id), Some(slice));
            }
        }
        // Nor on another GPU, nor one that is gone.
        assert!(!r.set_yielding(gpu::Id(gpu.0 + 1), first, true));
        r.remove_tsg(first);
        assert!(!r.set_yielding(gpu, first, true));
        Ok(())
    }
}
