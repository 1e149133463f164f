// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the finding of publications, among the open files of the test itself.

use std::ffi::CString;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{fchown, ftruncate, Uid};
use rustix::io::{dup, pwrite};

use super::*;
use crate::loader::tests::record;
use crate::loader::Publication;

/// A process has one list of files: tests that publish take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn me() -> u32 {
    std::process::id()
}

fn published(number: u64) -> Publication {
    let publication = Publication::new().unwrap();
    publication.write(&record(number)).unwrap();
    publication
}

fn found(finder: Finder) -> (Vec<u64>, u64) {
    let listed = finder.end();
    let numbers = listed.loaders.iter().map(|one| one.record.number);
    (numbers.collect(), listed.left_out)
}

#[test]
fn what_is_published_is_found_until_it_is_dropped() {
    let _turn = turn();
    let publication = Publication::new().unwrap();
    assert_eq!(of_process(me()).unwrap(), Listed::default());
    publication.write(&record(1)).unwrap();
    let again = Record {
        batches: 8,
        ..record(1)
    };
    publication.write(&again).unwrap();
    let duplicate = dup(&publication.0).unwrap();
    let all = all().unwrap().loaders;
    let mine: Vec<_> = all.iter().filter(|one| one.pid == me()).collect();
    assert_eq!(mine.len(), 1, "once, however many descriptors there are");
    assert_eq!((mine[0].record, mine[0].uid), (again, own_uid()));
    assert!(!mine[0].comm.is_empty());
    drop((publication, duplicate));
    assert_eq!(of_process(me()).unwrap(), Listed::default());
}

fn own_uid() -> u32 {
    rustix::process::getuid().as_raw()
}

#[test]
fn files_of_the_name_that_are_no_records_are_counted() {
    let _turn = turn();
    let good = published(1);
    let files: Vec<_> = (0..4).map(|_| memory().unwrap()).collect();
    // Another version, a part of a record, one that says less than it has; a hole of 1 TiB is read
    // as any other.
    pwrite(&files[0], b"zloader2", 0).unwrap();
    pwrite(&files[1], &record(2).encode(me())[..80], 0).unwrap();
    let mut damaged = record(3).encode(me());
    damaged[BYTES - 1] ^= 1;
    pwrite(&files[2], &damaged, 0).unwrap();
    ftruncate(&files[3], 1 << 40).unwrap();
    let listed = of_process(me()).unwrap();
    let numbers: Vec<_> = listed.loaders.iter().map(|one| one.record.number).collect();
    assert_eq!(numbers, [1]);
    assert_eq!((listed.other_versions, listed.damaged), (2, 2));
    drop(good);
}

#[test]
fn a_file_elsewhere_is_not_opened() {
    let _turn = turn();
    let _good = published(1);
    // As one that lies about its name: the device tells.
    let mut finder = Finder::new().unwrap();
    finder.memory.1 += 1;
    finder.look(me()).unwrap();
    assert_eq!(found(finder), (vec![], 0));
    let folder = openat(CWD, "/", DIRECTORY, Mode::empty()).unwrap();
    let found = Attributes::of(folder.as_fd()).unwrap();
    assert!(!found.is_file && found.place.0 != Finder::new().unwrap().memory);
}

#[test]
fn a_process_that_has_the_file_alone_is_no_loader() {
    let _turn = turn();
    let publication = published(1);
    let mut child = Command::new("sleep")
        .arg("60")
        .stdin(Stdio::from(dup(&publication.0).unwrap()))
        .spawn()
        .unwrap();
    let others = of_process(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(others.unwrap(), Listed::default());
    let gone = of_process(child.id()).map_err(|error| error.kind());
    assert_eq!(gone, Err(io::ErrorKind::NotFound));
}

#[test]
fn a_file_of_another_user_is_passed_by() {
    let _turn = turn();
    let finder = Finder::new().unwrap();
    let publication = published(1);
    let folder = openat(CWD, "/proc/self/fd", DIRECTORY, Mode::empty()).unwrap();
    let name = CString::new(publication.0.as_raw_fd().to_string()).unwrap();
    let looked = |uid| finder.file(folder.as_fd(), &name, uid, &mut HashSet::new());
    assert!(looked(own_uid()).is_some());
    assert!(looked(own_uid() + 1).is_none());
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // As those that another user has sent: with this process's number, damaged, of another version.
    let others = [published(2), Publication(memory().unwrap())];
    let (damaged, version) = (memory().unwrap(), memory().unwrap());
    pwrite(&damaged, &record(3).encode(me())[..80], 0).unwrap();
    pwrite(&version, b"zloader2", 0).unwrap();
    let sent = [&others[0].0, &others[1].0, &damaged, &version];
    let whole = of_process(me()).unwrap();
    assert_eq!((whole.loaders.len(), whole.damaged), (2, 1));
    assert_eq!(whole.other_versions, 1);
    for file in sent {
        fchown(file, Some(Uid::from_raw(65_534)), None).unwrap();
    }
    let listed = of_process(me()).unwrap();
    let ranks: Vec<_> = listed.loaders.iter().map(|one| one.record.number).collect();
    assert_eq!(ranks, [1]);
    let Listed {
        other_versions,
        damaged,
        left_out,
        ..
    } = listed;
    assert_eq!((other_versions, damaged, left_out), (0, 0, 0));
    // Nor do they take the place of one that is there.
    let mut finder = Finder::new().unwrap();
    finder.bounds.of_process = 1;
    finder.look(me()).unwrap();
    assert_eq!(found(finder), (vec![1], 0));
}

#[test]
fn loaders_of_one_number_have_ranks_of_their_own() {
    let _turn = turn();
    let all: Vec<_> = [7, u64::MAX, 7, 1].map(published).into();
    let ranks = |pid| {
        let loaders = of_process(pid).unwrap().loaders;
        let ranks = loaders.iter().map(|one| (one.rank, one.record.number));
        ranks.collect::<Vec<_>>()
    };
    assert_eq!(ranks(me()), [(1, 1), (2, 7), (3, 7), (4, u64::MAX)]);
    // Another number changes nothing but the order.
    all[3].write(&record(8)).unwrap();
    assert_eq!(ranks(me()), [(1, 7), (2, 7), (3, 8), (4, u64::MAX)]);
    // Each process has its own.
    let mut finder = Finder::new().unwrap();
    finder.look(me()).unwrap();
    let mut others = finder.found.clone();
    others.iter_mut().for_each(|(_, one)| one.pid += 1);
    finder.found.extend(others);
    let ranks: Vec<_> = finder.end().loaders.iter().map(|one| one.rank).collect();
    assert_eq!(ranks, [1, 2, 3, 4, 1, 2, 3, 4]);
}

#[test]
fn bounds_are_kept_and_told() {
    let _turn = turn();
    let _all: Vec<_> = (1..=5).map(published).collect();
    let look = |bounds| {
        let mut finder = Finder::new().unwrap();
        finder.bounds = bounds;
        finder.look(me()).unwrap();
        found(finder)
    };
    let is_part = |(numbers, left_out): (Vec<u64>, u64), most| {
        assert_eq!((numbers.len(), left_out), (most, 1));
    };
    assert_eq!(look(BOUNDS), ((1..=5).collect(), 0));
    is_part(
        look(Bounds {
            of_process: 3,
            ..BOUNDS
        }),
        3,
    );
    is_part(
        look(Bounds {
            of_user: 2,
            ..BOUNDS
        }),
        2,
    );
    is_part(look(Bounds { files: 1, ..BOUNDS }), 0);
    // A user with more of both counts once, and its next process is not looked at.
    let mut finder = Finder::new().unwrap();
    finder.bounds.of_user = 0;
    finder.look(me()).unwrap();
    finder.bounds.files_of_user = 1;
    let files = finder.users[&own_uid()].files;
    finder.look(me()).unwrap();
    assert_eq!(finder.users[&own_uid()].files, files);
    is_part(found(finder), 0);
    // One process is looked at up to the user's bound.
    let mut finder = Finder::new().unwrap();
    finder.bounds.files_of_user = 1;
    finder.look(me()).unwrap();
    assert_eq!(finder.users[&own_uid()].files, 2);
    is_part(found(finder), 0);
}
