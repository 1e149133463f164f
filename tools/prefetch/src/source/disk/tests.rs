// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of a disk: their names, their number, and those that are not as they were written.

use super::*;

fn paths(disk: &Disk) -> Vec<PathBuf> {
    let entries = fs::read_dir(&disk.folder).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").path());
    names.collect()
}

#[test]
fn names_of_others_are_none() {
    let hash = "0123456789abcdef";
    let own = |name: String| Own::by(OsStr::new(&name));
    assert_eq!(
        own(format!("{hash}.read")),
        Some(Own::Read(0x0123_4567_89ab_cdef))
    );
    assert_eq!(own(format!("{hash}.{hash}.part")), Some(Own::Part));
    for name in [
        "x.read".to_owned(),
        "x.part".to_owned(),
        "read".to_owned(),
        format!("{hash}.part"),
        format!("{hash}.{hash}.read"),
        format!("{hash}.{hash}.{hash}.part"),
        format!("{hash}0.read"),
        "+123456789abcdef.read".to_owned(),
        format!("{}.read", hash.to_uppercase()),
        format!("{hash}.read~"),
    ] {
        assert_eq!(own(name.clone()), None, "{name}");
    }
}

#[test]
fn the_number_of_files_is_bounded() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Disk::open(folder.path(), 1 << 20, "a").expect("a disk");
    let mut disk = Arc::into_inner(disk).expect("the only one");
    disk.files = 16;
    for at in 0..17 {
        let name = Name::new(&format!("{at}"), None);
        disk.write(&name, b"header", b"body").expect("room");
        let file = File::options()
            .write(true)
            .open(disk.file(disk.hash(&name)));
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(at);
        file.expect("a file").set_modified(at).expect("a time");
    }
    disk.clear();
    let is_there = |at: usize| {
        let name = Name::new(&format!("{at}"), None);
        disk.file(disk.hash(&name)).exists()
    };
    assert_eq!(paths(&disk).len(), 14);
    assert!(!is_there(2) && is_there(3), "the oldest go");
}

#[tokio::test]
async fn bytes_of_another_number_than_the_object_says_are_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Disk::open(folder.path(), 1 << 20, "a").expect("a disk");
    for (range, size, is_it) in [
        (None, 9, true),
        (None, 8, false),
        (None, u64::MAX, false),
        (Some(GetRange::Bounded(1..10)), 10, true),
        (Some(GetRange::Bounded(1..11)), 10, true),
        (Some(GetRange::Bounded(1..10)), 9, false),
        (Some(GetRange::Bounded(11..20)), 10, false),
        (Some(GetRange::Offset(1)), 10, true),
        (Some(GetRange::Offset(2)), 10, false),
        (Some(GetRange::Suffix(9)), 100, true),
        (Some(GetRange::Suffix(9)), 8, false),
    ] {
        let name = Name::new("b", range.as_ref());
        let header = disk.header(&name, "v", size, 9);
        disk.write(&name, &header, &[1; 9]).expect("room");
        let found = disk.find(name, 9).await;
        assert_eq!(found.is_some(), is_it, "{range:?} of {size}");
    }
}

#[tokio::test]
async fn links_and_pipes_are_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Disk::open(folder.path(), 1 << 20, "a").expect("a disk");
    let name = Name::new("b", None);
    let header = disk.header(&name, "v", 9, 9);
    disk.write(&name, &header, &[1; 9]).expect("room");
    let place = disk.file(disk.hash(&name));
    let other = folder.path().join("other");
    fs::rename(&place, &other).expect("a file");
    std::os::unix::fs::symlink(&other, &place).expect("a link");
    assert!(disk.find(name.clone(), 9).await.is_none());
    // It is neither counted nor removed.
    disk.clear();
    assert_eq!(paths(&disk), [&*place]);
    fs::remove_file(&place).expect("a link");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &place, kind, mode, 0).expect("a pipe");
    assert!(disk.find(name.clone(), 9).await.is_none());
    fs::remove_file(&place).expect("a pipe");
    fs::rename(&other, &place).expect("a file");
    assert!(disk.find(name, 9).await.is_some());
}

#[tokio::test]
async fn a_write_that_fails_leaves_nothing_and_is_not_tried_again_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Disk::open(folder.path(), 1 << 20, "a").expect("a disk");
    let name = Name::new("b", None);
    // It fails at its last step, with all bytes in another file.
    let place = disk.file(disk.hash(&name));
    fs::create_dir(&place).expect("a folder");
    disk.write(&name, b"header", b"body").expect_err("a folder");
    let names = || paths(&disk);
    assert_eq!(names(), [&*place]);
    let read = |size| Read {
        bytes: vec![1; 9].into(),
        version: Some("v".to_owned()),
        size,
    };
    disk.keep(name.clone(), &read(9));
    while lock(&disk.resumes).is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    fs::remove_dir(&place).expect("it is empty");
    disk.keep(name.clone(), &read(9));
    assert_eq!(disk.pending.load(Ordering::Relaxed), 0);
    assert_eq!(names(), Vec::<PathBuf>::new());
    *lock(&disk.resumes) = Some(Instant::now());
    disk.keep(name.clone(), &read(9));
    while names() != [&*place] {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let found = disk.find(name.clone(), 9).await.expect("it is kept");
    assert_eq!((&found.bytes[..], found.size), (&[1; 9][..], 9));
    assert!(disk.find(name, 8).await.is_none(), "more than may come");
}

#[test]
fn files_that_others_wrote_stay_and_those_that_nobody_ends_go() {
    let folder = tempfile::tempdir().expect("a folder");
    // No file fits.
    let disk = Disk::open(folder.path(), 0, "a").expect("a disk");
    let hash = "0123456789abcdef";
    let begun = format!("{hash}.{hash}.part");
    let old = SystemTime::now() - Duration::from_secs(7_200);
    let recent = SystemTime::now() - Duration::from_secs(60);
    let all = [
        ("x.read".to_owned(), old, true),
        ("x.part".to_owned(), old, true),
        (format!("{hash}.part"), old, true),
        (begun.clone(), recent, true),
        (begun, old, false),
        (format!("{hash}.read"), recent, false),
    ];
    for (name, at, is_left) in all {
        for folder in [folder.path(), &disk.folder] {
            let place = folder.join(&name);
            let file = File::create(&place).expect("a file");
            (&file).write_all(b"some").expect("room");
            file.set_modified(at).expect("a time");
        }
        disk.clear();
        assert_eq!(disk.folder.join(&name).exists(), is_left, "{name}");
        // Beside the folder of its own nothing is looked at.
        assert!(folder.path().join(&name).exists(), "{name}");
    }
}

#[test]
fn a_name_of_a_store_is_not_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = Name::new("b", None);
    let secret = "http://user:secret@host/?key=secret";
    let disk = |store| Disk::open(folder.path(), 1 << 20, store).expect("a disk");
    let first = disk(secret);
    let header = first.header(&name, "v", 9, 9);
    first.write(&name, &header, &[1; 9]).expect("room");
    assert!(first.find_now(&name, 9).is_some());
    assert!(disk("http://user:other@host/").find_now(&name, 9).is_none());
    let bytes = fs::read(first.file(first.hash(&name))).expect("a file");
    assert!(!bytes.windows(6).any(|part| part == b"secret"));
}
