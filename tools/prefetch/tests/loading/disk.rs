// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads that are kept on a local disk.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use object_store::ObjectStore;
use tempfile::TempDir;
use tokio::runtime::Handle;
use zernel_prefetch::loader::{Loader, Settings};
use zernel_prefetch::prefetcher::{Options, Prefetcher, Sample};
use zernel_prefetch::source::{Ask, Bounds, Disk, Source};
use zernel_prefetch::Kind;

use crate::lab::{sample, Store, Tags};
use crate::read::expected;

const BYTES: u64 = 64 << 20;

/// A store with an array of 8 shards of 8 chunks, and one of 8 objects.
async fn store() -> Arc<Store> {
    let store = Arc::new(Store::default());
    store.write("sharded", &[64, 8], &[8, 8], &[1, 8]).await;
    store.write("plain", &[64, 8], &[8, 8], &[8, 8]).await;
    store
}

fn source(store: &Arc<Store>, disk: Option<Arc<Disk>>) -> Arc<Source> {
    within(store, disk, 64)
}

fn within(store: &Arc<Store>, disk: Option<Arc<Disk>>, in_flight: usize) -> Arc<Source> {
    let store: Arc<dyn ObjectStore> = Arc::<Store>::clone(store);
    let bounds = Bounds {
        in_flight,
        disk,
        ..Bounds::default()
    };
    Source::within(store, bounds)
}

/// All of both arrays, but for a row of each shard.
fn samples() -> Vec<Sample> {
    let rows = |at: u64, array| sample(array, &[8 * at, 0], &[6, 8]);
    let both = (0..8).flat_map(|at| [rows(at, "sharded"), rows(at, "plain")]);
    both.collect()
}

/// The numbers of all samples, read by one who knows nothing but the disk.
async fn load(source: &Arc<Source>) -> Vec<Vec<u32>> {
    let prefetcher = Prefetcher::new(Arc::clone(source), Options::default(), Handle::current());
    let prefetcher = prefetcher.expect("floors that fit");
    let batches = std::iter::once(samples());
    let mut loader = Loader::new(&prefetcher, Settings::default(), batches).expect("a stream");
    let loaded = loader.next().await.expect("one").expect("no fault");
    let number = |bytes: &[u8]| u32::from_ne_bytes(bytes.try_into().expect("four"));
    let numbers = |data: &Vec<u8>| data.chunks(4).map(number).collect();
    loaded.data.iter().map(numbers).collect()
}

fn right() -> Vec<Vec<u32>> {
    let all = samples();
    all.iter().map(|one| expected(&[64, 8], one)).collect()
}

/// The place of the files in the folder of a disk.
const OWN: &str = "zernel-reads-1";

/// The files of a folder that are whole.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join(OWN)).expect("a folder");
    let places = entries.map(|entry| entry.expect("a file").path());
    let mut places: Vec<_> = places
        .filter(|place| place.extension().is_some_and(|kind| kind == "read"))
        .collect();
    places.sort();
    places
}

/// Waits until a folder has so many files, which threads write.
fn wait_for(folder: &Path, count: usize) {
    for _ in 0..10_000 {
        if files(folder).len() == count {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{} files, not {count}", files(folder).len());
}

/// Descriptions of two arrays, 8 indexes, and 16 reads of data.
const READS: usize = 2 + 8 + 16;

/// A folder with all reads of a store.
async fn kept(store: &Arc<Store>) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Disk::open(folder.path(), BYTES, "a").expect("a disk");
    assert_eq!(load(&source(store, Some(disk))).await, right());
    wait_for(folder.path(), READS);
    folder
}

fn open(folder: &TempDir, store: &str) -> Option<Arc<Disk>> {
    Some(Disk::open(folder.path(), BYTES, store).expect("a disk"))
}

#[tokio::test(start_paused = true)]
async fn a_later_run_reads_data_from_the_disk() {
    let store = store().await;
    let folder = kept(&store).await;
    store.log();
    let source = source(&store, open(&folder, "a"));
    assert_eq!(load(&source).await, right());
    // Those of known versions are not asked for; of the others the store says that they are the same.
    let counts = source.counts();
    assert_eq!(store.log().len(), READS - 8);
    assert_eq!((counts.disk, counts.bytes), (READS as u64, 0));
    // To another store they are nothing.
    let other = self::source(&store, open(&folder, "b"));
    assert_eq!(load(&other).await, right());
    assert_eq!(other.counts().disk, 0);
}

#[tokio::test(start_paused = true)]
async fn few_requests_at_once_are_enough_with_a_disk() {
    let store = store().await;
    let folder = tempfile::tempdir().expect("a folder");
    for (at, in_flight) in [(0, 1), (1, 1), (2, 3), (3, 64)] {
        let source = within(&store, open(&folder, "a"), in_flight);
        assert_eq!(load(&source).await, right());
        wait_for(folder.path(), READS);
        let expected = if at == 0 { 0 } else { READS as u64 };
        assert_eq!(source.counts().disk, expected, "{in_flight}");
        assert!(store.at_once() <= in_flight, "{in_flight}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_that_nobody_needs_is_not_looked_for() {
    let store = store().await;
    let folder = kept(&store).await;
    store.log();
    let source = source(&store, open(&folder, "a"));
    let looked = AtomicUsize::new(0);
    let is_needed = || {
        looked.fetch_add(1, Ordering::Relaxed);
        false
    };
    for version in [None, Some("v")] {
        let ask = Ask {
            is_needed: Some(&is_needed),
            version,
            ..Ask::new("plain/zarr.json", 1 << 20, 0)
        };
        let fault = source.read(ask).await.expect_err("nobody needs it");
        assert_eq!(fault.kind(), Kind::Cancelled);
    }
    assert_eq!(looked.load(Ordering::Relaxed), 2);
    assert_eq!((source.counts().disk, store.log().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn objects_that_have_changed_are_read_anew() {
    let store = store().await;
    let folder = kept(&store).await;
    for object in 0..8 {
        for array in ["sharded", "plain"] {
            let place = object_store::path::Path::from(format!("{array}/c/{object}/0"));
            let bytes = store.inner.get_opts(&place, Default::default()).await;
            let bytes = bytes.expect("an object").bytes().await.expect("memory");
            let mut bytes = bytes.to_vec();
            bytes[..256].fill(0);
            let put = store
                .inner
                .put_opts(&place, bytes.into(), Default::default());
            put.await.expect("memory");
        }
    }
    let source = source(&store, open(&folder, "a"));
    assert_eq!(load(&source).await, vec![vec![0; 48]; 16]);
    // The descriptions are the same.
    assert_eq!(source.counts().disk, 2);
}

#[tokio::test(start_paused = true)]
async fn files_that_are_not_as_written_are_none() {
    let store = store().await;
    type Harm = fn(&Path, &[u8]);
    let harms: [Harm; 8] = [
        |file, _| fs::write(file, b"").expect("a file"),
        |file, _| {
            let bytes = fs::read(file).expect("a file");
            fs::write(file, &bytes[..bytes.len() - 1]).expect("a file");
        },
        |file, _| {
            let bytes = fs::read(file).expect("a file");
            fs::write(file, [&bytes[..], b"more"].concat()).expect("a file");
        },
        // The last byte of the data, and the first of a length.
        |file, _| flip(file, |bytes| bytes - 5),
        |file, _| flip(file, |_| 16),
        |file, _| fs::write(file, vec![b'z'; 5_000]).expect("a file"),
        // That of another read, whole.
        |file, other| fs::write(file, other).expect("a file"),
        |file, _| {
            fs::remove_file(file).expect("a file");
            fs::create_dir(file).expect("a folder");
        },
    ];
    for (number, harm) in harms.into_iter().enumerate() {
        let folder = kept(&store).await;
        let all = files(folder.path());
        let originals: Vec<_> = all
            .iter()
            .map(|file| fs::read(file).expect("a file"))
            .collect();
        for (at, file) in all.iter().enumerate() {
            harm(file, &originals[(at + 1) % all.len()]);
        }
        let source = source(&store, open(&folder, "a"));
        assert_eq!(load(&source).await, right(), "{number}");
        assert_eq!(source.counts().disk, 0, "{number}");
        if number + 1 < harms.len() {
            // They are written anew.
            let is_whole = || {
                let mut files = all.iter().zip(&originals);
                files.all(|(file, bytes)| fs::read(file).is_ok_and(|there| there == *bytes))
            };
            for _ in 0..10_000 {
                if is_whole() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(is_whole(), "{number}");
        }
    }
}

fn flip(file: &Path, at: fn(usize) -> usize) {
    let mut bytes = fs::read(file).expect("a file");
    let at = at(bytes.len());
    bytes[at] ^= 1;
    fs::write(file, bytes).expect("a file");
}

#[tokio::test(start_paused = true)]
async fn versions_that_do_not_name_bytes_are_not_kept() {
    for tags in [Tags::Weak, Tags::None] {
        let store = store().await;
        store.tags(tags);
        let folder = tempfile::tempdir().expect("a folder");
        for _ in 0..2 {
            let source = source(&store, open(&folder, "a"));
            assert_eq!(load(&source).await, right());
            assert_eq!(source.counts().disk, 0);
        }
        assert_eq!(files(folder.path()), Vec::<PathBuf>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn the_oldest_go_and_the_bytes_are_kept() {
    let store = Arc::new(Store::default());
    for at in 0..64 {
        let place = object_store::path::Path::from(format!("{at}"));
        let bytes = vec![at; 8_000];
        let put = store
            .inner
            .put_opts(&place, bytes.into(), Default::default());
        put.await.expect("memory");
    }
    let folder = tempfile::tempdir().expect("a folder");
    // Others than those that are written here stay.
    let mine = folder.path().join(OWN).join("mine.read");
    fs::create_dir(folder.path().join(OWN)).expect("a folder");
    fs::write(&mine, vec![0; 300 << 10]).expect("a file");
    let bytes = 256 << 10;
    let disk = Disk::open(folder.path(), bytes, "a").expect("a disk");
    let source = source(&store, Some(Arc::clone(&disk)));
    let used = || {
        let sizes = files(folder.path()).into_iter();
        let sizes = sizes.filter(|file| *file != mine);
        let sizes = sizes.filter_map(|file| fs::metadata(file).ok());
        sizes.map(|there| there.len()).sum::<u64>()
    };
    for at in 0..64_u8 {
        let before = files(folder.path());
        let path = format!("{at}");
        source
            .read(Ask::new(&path, 9_000, 0))
            .await
            .expect("no fault");
        for _ in 0..10_000 {
            if files(folder.path()) != before {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // Files are told apart by their times.
        for file in files(folder.path()) {
            if file == mine {
                continue;
            }
            let there = fs::metadata(&file)
                .expect("a file")
                .modified()
                .expect("a time");
            if there
                .elapsed()
                .is_ok_and(|age| age < Duration::from_secs(10))
            {
                let before = SystemTime::now() - Duration::from_secs(1_000 - u64::from(at));
                let file = fs::File::options().write(true).open(&file);
                file.expect("a file").set_modified(before).expect("a time");
            }
        }
        assert!(used() <= bytes, "{at}: {}", used());
    }
    assert!(used() > bytes / 2, "{}", used());
    assert!(mine.exists());
    // The last one is there, the first is not.
    for (at, is_there) in [(63, 1), (0, 0)] {
        let before = source.counts().disk;
        let path = format!("{at}");
        source
            .read(Ask::new(&path, 9_000, 0))
            .await
            .expect("no fault");
        assert_eq!(source.counts().disk - before, is_there, "{at}");
    }
    // One that is large beside all is not kept.
    let folder = tempfile::tempdir().expect("a folder");
    for bytes in [0, 16 * 7_999] {
        let disk = Disk::open(folder.path(), bytes, "a").expect("a disk");
        let source = self::source(&store, Some(disk));
        let read = source.read(Ask::new("3", 9_000, 0)).await;
        read.expect("no fault");
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(files(folder.path()).len(), 0, "{bytes}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_takes_no_files_is_no_fault() {
    let store = store().await;
    let folder = tempfile::tempdir().expect("a folder");
    let source = source(&store, open(&folder, "a"));
    fs::remove_dir_all(folder.path()).expect("its owner");
    for _ in 0..2 {
        assert_eq!(load(&source).await, right());
        assert_eq!(source.counts().disk, 0);
    }
    assert!(!folder.path().exists());
}

#[test]
fn folders_of_others_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mode = |mode| fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode));
    for shared in [0o777, 0o720, 0o702] {
        mode(shared).expect("its owner");
        let refused = Disk::open(folder.path(), BYTES, "a").expect_err("others may write");
        assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    }
    mode(0o755).expect("its owner");
    Disk::open(folder.path(), BYTES, "a").expect("a disk");
    let file = folder.path().join("file");
    fs::write(&file, b"").expect("a file");
    Disk::open(&file, BYTES, "a").expect_err("it is a file");
    // One that is made is for its user alone, and so are its files.
    let made = folder.path().join("of/two");
    Disk::open(&made, BYTES, "a").expect("a disk");
    let there = fs::metadata(&made).expect("a folder");
    assert_eq!(there.permissions().mode() & 0o777, 0o700);
    let there = fs::metadata(made.join(OWN)).expect("a folder");
    assert_eq!(there.permissions().mode() & 0o777, 0o700);
    // Links lead elsewhere.
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&made, &link).expect("a link");
    let refused = Disk::open(&link, BYTES, "a").expect_err("a link");
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    let of_link = folder.path().join("of-link");
    fs::create_dir(&of_link).expect("a folder");
    std::os::unix::fs::symlink(&made, of_link.join(OWN)).expect("a link");
    Disk::open(&of_link, BYTES, "a").expect_err("a link in it");
    fs::remove_file(of_link.join(OWN)).expect("a link");
    fs::create_dir(of_link.join(OWN)).expect("a folder");
    fs::set_permissions(of_link.join(OWN), fs::Permissions::from_mode(0o777)).expect("its owner");
    Disk::open(&of_link, BYTES, "a").expect_err("others may write to it");
}

#[test]
fn several_have_a_folder_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |_| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_time()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let store = store().await;
            for round in 0..8 {
                // Little room: files go while others are read.
                let bytes = [BYTES, 100 << 10][round % 2];
                let disk = Disk::open(folder.path(), bytes, "a").expect("a disk");
                assert_eq!(load(&source(&store, Some(disk))).await, right());
            }
        });
    };
    std::thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || run(number));
        }
    });
    let parts = fs::read_dir(folder.path().join(OWN)).expect("a folder");
    let parts = parts.filter(|entry| {
        let place = entry.as_ref().expect("a file").path();
        place.extension().is_some_and(|kind| kind == "part")
    });
    assert_eq!(parts.count(), 0);
}
