// SPDX-License-Identifier: GPL-2.0
//! Tests of news: what workers are told, once and a few at a time.

use super::fixture::{
    self,
    add,
    add_at,
    admin,
    turn_off,
    work,
    FakeDriver, //
};
use crate::{
    policy::{
        level::Level,
        units::Ns, //
    },
    registry::{
        class::Named,
        gpu,
        gpu_time::Done,
        news::PIECE,
        plan::{
            turns::Candidate,
            Change, //
        },
        reader::{
            Piece,
            Reader, //
        },
        Registry, //
    },
};
use kernel::prelude::*;

/// The news that are left for a reader, and the pieces that they came in.
pub(super) fn news(
    r: &mut Registry,
    gpu: gpu::Id,
    reader: &mut Reader,
) -> Result<(KVec<Change>, usize)> {
    let (mut all, mut pieces) = (KVec::new(), 0);
    loop {
        let mut piece = Piece::default();
        r.read_news(gpu, reader, &mut piece);
        for change in piece.changes.iter().flatten() {
            all.push(*change, GFP_KERNEL)?;
        }
        pieces += 1;
        if !piece.more {
            return Ok((all, pieces));
        }
    }
}

/// Every TSG of a GPU, as a worker is told that knows of none.
pub(super) fn all_news(r: &mut Registry, gpu: gpu::Id) -> Result<KVec<Change>> {
    Ok(news(r, gpu, &mut Reader::default())?.0)
}

/// The TSGs that take turns.
pub(super) fn candidates(r: &mut Registry, gpu: gpu::Id) -> Result<KVec<Candidate>> {
    let mut candidates = KVec::new();
    for candidate in all_news(r, gpu)?.iter().filter_map(|change| change.turns) {
        candidates.push(candidate, GFP_KERNEL)?;
    }
    Ok(candidates)
}

/// A report of a provider.
fn ran(ns: u64) -> Done {
    Done {
        ran: Ns(ns),
        ..Done::default()
    }
}

/// The only one.
fn one(r: &mut Registry, gpu: gpu::Id, reader: &mut Reader) -> Result<Change> {
    let (all, pieces) = news(r, gpu, reader)?;
    assert_eq!((all.len(), pieces), (1, 1));
    all.first().copied().ok_or(ENOENT)
}

#[kernel::macros::kunit_tests(zernel_news)]
mod cases {
    use crate::registry::tests::news::*;

    #[test]
    fn a_change_is_told_once() -> Result {
        let (mut r, gpu) = fixture::registry_with_turns()?;
        let mut reader = Reader::default();
        let id = add_at(&mut r, gpu, 1, Level::BE)?;
        assert!(one(&mut r, gpu, &mut reader)?.turns.is_some());
        assert_eq!(news(&mut r, gpu, &mut reader)?.0.len(), 0);
        // The same again changes nothing; two changes are told at once, as it is then.
        r.change_class(admin(), Named::Tsg(id), Level::BE)?;
        assert_eq!(news(&mut r, gpu, &mut reader)?.0.len(), 0);
        r.change_class(admin(), Named::Tsg(id), fixture::level(3))?;
        r.change_class(admin(), Named::Tsg(id), Level::LC)?;
        let change = one(&mut r, gpu, &mut reader)?;
        assert_eq!((change.id, change.handle), (id, 1));
        assert_eq!((change.turns, change.budget), (None, Some(Level::LC)));
        // It runs on another run list.
        r.change_class(admin(), Named::Tsg(id), Level::BE)?;
        let mut now = r.tsgs.get(&id).ok_or(ENOENT)?.traits;
        now.runlist = 5;
        r.change_tsg(id, now);
        let change = one(&mut r, gpu, &mut reader)?;
        assert_eq!(change.turns.map(|turns| turns.runlist), Some(5));
        assert_eq!(change.budget, None);
        Ok(())
    }

    #[test]
    fn who_enabled_it_is_no_secret() -> Result {
        let (mut r, gpu) = fixture::registry_with_turns()?;
        let (mut reader, d) = (Reader::default(), FakeDriver::new());
        let id = add_at(&mut r, gpu, 1, Level::BE)?;
        work(&mut r, gpu, &d);
        news(&mut r, gpu, &mut reader)?;
        assert!(r.will_disable(id, true));
        assert_eq!(r.was_disabled(id, true, Ok(())), None);
        assert_eq!(news(&mut r, gpu, &mut reader)?.0.len(), 0);
        r.let_run(id);
        work(&mut r, gpu, &d);
        let change = one(&mut r, gpu, &mut reader)?;
        assert_eq!(change.turns.map(|turns| turns.disabled), Some(Some(false)));
        Ok(())
    }

    #[test]
    fn who_is_gone_is_told_to_those_who_know_it() -> Result {
        let (mut r, gpu) = fixture::registry_with_turns()?;
        let mut reader = Reader::default();
        news(&mut r, gpu, &mut reader)?;
        // It went before anybody was told.
        let id = add(&mut r, gpu, 1, 0)?;
        r.remove_tsg(id);
        assert!(r.news.is_empty());
        let id = add_at(&mut r, gpu, 2, Level::BE)?;
        one(&mut r, gpu, &mut reader)?;
        // With news that were not told, too.
        r.change_class(admin(), Named::Tsg(id), Level::LC)?;
        r.take_done(gpu, 2, ran(70));
        r.remove_tsg(id);
        let change = one(&mut r, gpu, &mut reader)?;
        assert_eq!((change.id, change.handle), (id, 2));
        assert_eq!((change.turns, change.budget), (None, None));
        assert_eq!(change.ended, Some(Ns(70)));
        assert!(r.news.is_empty());
        // The last report of its provider comes with the end, or there is none.
        for (handle, last, expected) in [(3, Some(ran(90)), 90), (4, None, 20)] {
            let id = add_at(&mut r, gpu, handle, Level::LC)?;
            assert_eq!(one(&mut r, gpu, &mut reader)?.ended, None);
            r.take_done(gpu, handle, ran(20));
            r.end_tsg(id, last);
            let change = one(&mut r, gpu, &mut reader)?;
            assert_eq!(change.ended, Some(Ns(expected)));
        }
        Ok(())
    }

    #[test]
    fn many_are_told_in_pieces_and_in_order() -> Result {
        let (mut r, gpu) = fixture::registry_with_turns()?;
        let mut reader = Reader::default();
        news(&mut r, gpu, &mut reader)?;
        let count = 5 * PIECE as u64;
        for handle in (0..count).rev() {
            add(&mut r, gpu, handle, 0)?;
        }
        let (all, pieces) = news(&mut r, gpu, &mut reader)?;
        assert_eq!(pieces, 5);
        assert!(all.iter().map(|change| change.handle).eq((0..count).rev()));
        // So are all of them when the tunables have changed, with what else is new among them.
        turn_off(&mut r)?;
        add(&mut r, gpu, count, 0)?;
        let (all, pieces) = news(&mut r, gpu, &mut reader)?;
        assert_eq!(pieces, 6);
        assert!(all.iter().map(|change| change.handle).eq(0..=count));
        assert_eq!(news(&mut r, gpu, &mut reader)?.0.len(), 0);
        Ok(())
    }

    #[test]
    fn the_tunables_come_with_their_change() -> Result {
        let (mut r, gpu) = fixture::registry_with_turns()?;
        let mut reader = Reader::default();
        let mut terms = |r: &mut Registry| {
            let mut piece = Piece::default();
            r.read_news(gpu, &mut reader, &mut piece);
            piece.terms
        };
        let first = terms(&mut r).ok_or(ENOENT)?;
        assert!(first.turns.discipline().is_some());
        assert!(first.budgets.iter().take(7).all(Option::is_some));
        assert!(terms(&mut r).is_none());
        turn_off(&mut r)?;
        assert!(terms(&mut r).is_some_and(|terms| terms.turns.discipline().is_none()));
        Ok(())
    }

    #[test]
    fn nothing_is_left_of_a_gpu() -> Result {
        let (mut r, gpu) = fixture::registry_with_turns()?;
        for handle in 0..3 * PIECE as u64 {
            add(&mut r, gpu, handle, 0)?;
        }
        all_news(&mut r, gpu)?;
        r.close_gpu(gpu);
        while r.remove_any_tsg(gpu) {
            r.settle();
        }
        assert!(!r.news.is_empty() && r.schedule.is_empty());
        let mut gone = Default::default();
        while r.news.forget(gpu, &mut gone) {}
        assert!(r.news.is_empty());
        Ok(())
    }
}
