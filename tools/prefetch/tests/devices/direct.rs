// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads into memory of a GPU: their ends, their order, faults, and a library that is not there.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use cuda::{Context, Driver, Memory, Own, Stream};
use tempfile::TempDir;
use zernel_prefetch::batch::Ready;
use zernel_prefetch::direct::{Direct, File, Lane, Reading, LIBRARY, MOST_BYTES};
use zernel_prefetch::{Fault, Kind};

use crate::fake::{compiled, driver, library, Knobs};

/// Bytes of the file.
const SIZE: u64 = 100_000;

/// A GPU, a file of it, and a word that streams wait for.
struct Lab {
    direct: Direct,
    folder: TempDir,
    bytes: Vec<u8>,
    // It ends before its context.
    word: Arc<Memory>,
    driver: Arc<Driver>,
    own: Own,
}

impl Lab {
    fn new(cufile: &Path) -> Self {
        let (driver, device) = driver();
        let direct = Direct::open(&driver, device, cufile).expect("a context");
        let own = driver.primary_context(device).expect("a context");
        let folder = tempfile::tempdir().expect("a folder");
        let bytes: Vec<u8> = (0..SIZE).map(|at| (at / 7 % 251) as u8).collect();
        std::fs::write(folder.path().join("data"), &bytes).expect("a file");
        Self {
            word: direct.memory(4).expect("memory"),
            direct,
            folder,
            bytes,
            driver,
            own,
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn context(&self) -> Context {
        self.own.context()
    }

    fn file(&self) -> File {
        self.direct.file(&self.path()).expect("it is there")
    }

    fn set(&self, word: u32) {
        let stream = self.driver.create_usual_stream(self.context());
        let stream = stream.expect("a stream");
        let entered = self.driver.enter(self.context()).expect("a context");
        let written = self
            .word
            .write(&entered, stream.stream(), 0, &word.to_le_bytes());
        written.expect("a word");
    }

    /// Has a stream wait until the word is set.
    fn park(&self, stream: Stream) {
        self.set(0);
        let entered = self.driver.enter(self.context()).expect("a context");
        let parked = entered.wait_word(stream, self.word.base(), 1);
        parked.expect("a stream");
    }

    /// The bytes of memory.
    fn found(&self, memory: &Memory) -> Vec<u8> {
        let stream = self.driver.create_usual_stream(self.context());
        let stream = stream.expect("a stream");
        let entered = self.driver.enter(self.context()).expect("a context");
        let mut bytes = vec![0; memory.length()];
        let read = memory.read(&entered, stream.stream(), 0, &mut bytes);
        read.expect("memory");
        bytes
    }

    fn read(&self, lane: &Lane, memory: &Arc<Memory>) -> Result<Reading, Fault> {
        lane.read(&self.file(), 50..SIZE, memory, 10)
    }

    fn is_read(&self, memory: &Memory) -> bool {
        self.found(memory)[10..] == self.bytes[50..]
    }
}

/// Room for the bytes from 50 on, at 10.
const ROOM: usize = SIZE as usize - 40;

fn nowhere() -> PathBuf {
    Path::new("/nonexistent").join(LIBRARY)
}

#[test]
fn a_read_behind_a_parked_stream_is_not_done() {
    let _knobs = Knobs::turn();
    for cufile in [library(), nowhere()] {
        let lab = Lab::new(&cufile);
        let (lane, memory) = (
            lab.direct.lane().expect("a stream"),
            lab.direct.memory(ROOM),
        );
        let memory = memory.expect("memory");
        lab.park(lane.stream());
        let reading = lab.read(&lane, &memory).expect("it is begun");
        for _ in 0..20 {
            assert_eq!(reading.is_done(), Ok(false));
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(lane.in_flight(), 1);
        assert!(!lab.is_read(&memory));
        lab.set(1);
        assert_eq!(reading.wait(), Ok(()));
        for _ in 0..3 {
            assert_eq!(reading.is_done(), Ok(true));
            assert_eq!(reading.wait(), Ok(()));
        }
        assert_eq!(lane.in_flight(), 0);
        assert!(lab.is_read(&memory));
    }
}

#[test]
fn a_hundred_starts_have_no_race() {
    let _knobs = Knobs::turn();
    let lab = Lab::new(&library());
    let lane = lab.direct.lane().expect("a stream");
    for round in 0..100 {
        let memory = lab.direct.memory(ROOM).expect("memory");
        lab.park(lane.stream());
        let readings: Vec<_> = (0..3)
            .map(|_| lab.read(&lane, &memory).expect("it is begun"))
            .collect();
        thread::scope(|scope| {
            for reading in &readings[..2] {
                scope.spawn(|| while !reading.is_done().expect("no fault") {});
            }
            scope.spawn(|| readings[2].wait().expect("no fault"));
            if round % 2 == 0 {
                thread::yield_now();
            }
            lab.set(1);
        });
        assert!(lab.is_read(&memory));
    }
    assert_eq!(lane.in_flight(), 0);
}

#[test]
fn a_read_that_nobody_waits_for_ends_before_what_it_uses() {
    let knobs = Knobs::turn();
    let lab = Lab::new(&library());
    let log = lab.folder.path().join("log");
    knobs.set("LOG", &log);
    let lane = lab.direct.lane().expect("a stream");
    let memory = lab.direct.memory(ROOM).expect("memory");
    lab.park(lane.stream());
    // Nobody asks, and nobody but the read has the memory, and the file.
    drop(lab.read(&lane, &memory).expect("it is begun"));
    drop(memory);
    let handle = lane.stream().as_raw() as usize;
    let lines = || std::fs::read_to_string(&log).expect("a log");
    assert!(!lines().contains("cuFileHandleDeregister"));
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(20));
            lab.set(1);
        });
        drop(lane);
    });
    let all = lines();
    let own = all
        .lines()
        .filter(|line| line.ends_with(&format!(" {handle}")));
    let own: Vec<_> = own.filter_map(|line| line.split(' ').next()).collect();
    let expected = [
        "cuFileStreamRegister",
        "cuFileReadAsync",
        "cuFileStreamDeregister",
        "cuStreamDestroy",
    ];
    assert_eq!(own, expected, "{all}");
    assert!(all.contains("cuFileHandleDeregister"));
}

#[test]
fn a_reading_outlives_its_lane() {
    let _knobs = Knobs::turn();
    let lab = Lab::new(&library());
    let lane = lab.direct.lane().expect("a stream");
    let memory = lab.direct.memory(ROOM).expect("memory");
    lab.park(lane.stream());
    let reading = lab.read(&lane, &memory).expect("it is begun");
    drop(lane);
    assert_eq!(reading.is_done(), Ok(false));
    lab.set(1);
    assert_eq!(reading.wait(), Ok(()));
    assert!(lab.is_read(&memory));
}

#[derive(Debug, Default)]
struct Told {
    ready: AtomicU32,
    failed: AtomicU32,
}

#[derive(Debug)]
struct Target(Arc<Told>);

impl Ready for Target {
    fn ready(&self) {
        self.0.ready.fetch_add(1, Ordering::Relaxed);
    }

    fn failed(&self, _fault: &Fault) {
        self.0.failed.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn one_is_told_of_the_end() {
    let knobs = Knobs::turn();
    let lab = Lab::new(&library());
    let lane = lab.direct.lane().expect("a stream");
    let memory = lab.direct.memory(ROOM).expect("memory");
    for (short, ready, failed) in [("0", 1, 0), ("1", 0, 1)] {
        knobs.set("SHORT", short);
        let told = Arc::new(Told::default());
        lab.park(lane.stream());
        let reading = lab.read(&lane, &memory).expect("it is begun");
        let target = || Box::new(Target(Arc::clone(&told)));
        reading.tell(target()).expect("the first");
        assert!(reading.tell(target()).is_err());
        assert_eq!(told.ready.load(Ordering::Relaxed), 0);
        lab.set(1);
        assert_eq!(reading.wait().is_ok(), ready == 1);
        // The end is there before it is told.
        let entered = lab.driver.enter(lab.context()).expect("a context");
        entered.wait_idle(lane.stream()).expect("a stream");
        let found = (
            told.ready.load(Ordering::Relaxed),
            told.failed.load(Ordering::Relaxed),
        );
        assert_eq!(found, (ready, failed));
    }
}

fn kind<T>(result: Result<T, Fault>) -> (Kind, String) {
    match result {
        Ok(_) => panic!("no fault"),
        Err(fault) => (fault.kind(), fault.text().to_owned()),
    }
}

#[test]
fn faults_are_told() {
    let knobs = Knobs::turn();
    let lab = Lab::new(&library());
    let lane = lab.direct.lane().expect("a stream");
    let memory = lab.direct.memory(ROOM).expect("memory");
    let path = lab.path().display().to_string();
    for (knob, value, told) in [
        ("SHORT", "1", ": 99949 bytes came, of 99950"),
        ("FAILS", "read", ": cuFileReadAsync: error -5030"),
    ] {
        knobs.set(knob, value);
        let reading = lab.read(&lane, &memory).expect("it is begun");
        let (found, text) = kind(reading.wait());
        assert_eq!((found, text), (Kind::Unavailable, format!("{path}{told}")));
        assert_eq!(kind(reading.is_done()).0, Kind::Unavailable);
        knobs.clear();
    }
    for (name, told) in [
        (
            "cuFileReadAsync",
            ": cuFileReadAsync: CUfileOpError 5030 (CUresult 0)",
        ),
        (
            "cuLaunchHostFunc",
            ": cuLaunchHostFunc: CUDA_ERROR_FAKE (719)",
        ),
        (
            "cuCtxGetCurrent",
            ": cuCtxGetCurrent: CUDA_ERROR_FAKE (719)",
        ),
        (
            "cuStreamIsCapturing",
            ": cuStreamIsCapturing: CUDA_ERROR_FAKE (719)",
        ),
    ] {
        knobs.set("FAILS", name);
        let (found, text) = kind(lab.read(&lane, &memory));
        assert_eq!((found, text), (Kind::Unavailable, format!("{path}{told}")));
        assert_eq!(lane.in_flight(), 0);
        knobs.clear();
    }
    knobs.set("CAPTURES", "1");
    let told = format!("{path}: its stream is captured for a graph");
    assert_eq!(kind(lab.read(&lane, &memory)), (Kind::Misuse, told));
    knobs.clear();
    lab.park(lane.stream());
    let reading = lab.read(&lane, &memory).expect("it is begun");
    knobs.set("FAILS", "cuStreamQuery,cuStreamSynchronize");
    assert_eq!(kind(reading.is_done()).0, Kind::Unavailable);
    assert_eq!(kind(reading.wait()).0, Kind::Unavailable);
    knobs.clear();
    lab.set(1);
    assert_eq!(reading.wait(), Ok(()));
    // A file that ends before its range.
    let (file, end) = (lab.file(), SIZE + 10);
    let reading = lane.read(&file, SIZE - 10..end, &memory, 0);
    let (found, text) = kind(reading.expect("it is begun").wait());
    let told = format!("{path}: 10 bytes came, of 20");
    assert_eq!((found, text), (Kind::Unavailable, told));
    let ordinary = Lab::new(&nowhere());
    let lane = ordinary.direct.lane().expect("a stream");
    let read = lane.read(&ordinary.file(), SIZE - 10..end, &memory, 0);
    assert_eq!(kind(read).0, Kind::Unavailable);
}

#[test]
fn a_read_that_fails_halfway_keeps_what_it_uses() {
    let knobs = Knobs::turn();
    for cufile in [library(), nowhere()] {
        let lab = Lab::new(&cufile);
        let log = lab.folder.path().join("log");
        let lane = lab.direct.lane().expect("a stream");
        let memory = lab.direct.memory(ROOM).expect("memory");
        lab.park(lane.stream());
        knobs.set("FAILS", "cuLaunchHostFunc,cuStreamSynchronize");
        assert_eq!(kind(lab.read(&lane, &memory)).0, Kind::Unavailable);
        knobs.clear();
        knobs.set("LOG", &log);
        drop(memory);
        assert_eq!(lane.in_flight(), 1);
        assert!(!log.exists(), "nothing is freed");
        lab.set(1);
        drop(lane);
        let calls = std::fs::read_to_string(&log).expect("a log");
        assert!(calls.contains("cuMemFree"), "{calls}");
        knobs.clear();
    }
}

#[test]
fn a_lane_that_cannot_wait_frees_nothing() {
    let knobs = Knobs::turn();
    let lab = Lab::new(&library());
    let log = lab.folder.path().join("log");
    // The test leaves memory behind: others have as much as they take without one byte.
    let lane = lab.direct.lane().expect("a stream");
    let memory = lab.direct.memory(1).expect("memory");
    lab.park(lane.stream());
    let reading = lane.read(&lab.file(), 0..1, &memory, 0);
    drop(reading.expect("it is begun"));
    let weak = Arc::downgrade(&memory);
    drop(memory);
    knobs.set("LOG", &log);
    knobs.set("FAILS", "cuStreamSynchronize");
    drop(lane);
    knobs.clear();
    lab.set(1);
    let calls = std::fs::read_to_string(&log).expect("a log");
    assert!(!calls.contains("cuMemFree"), "{calls}");
    assert!(!calls.contains("cuFileHandleDeregister"), "{calls}");
    assert!(weak.upgrade().is_some_and(|memory| memory.length() == 1));
}

#[test]
fn memory_keeps_its_context_and_a_process_its_library() {
    let knobs = Knobs::turn();
    let folder = tempfile::tempdir().expect("a folder");
    let source = "struct status { int error, cuda; };
        struct status cuFileDriverOpen(void) { struct status none = {0, 0}; return none; }
        void cuFileHandleRegister(void) {}
        void cuFileHandleDeregister(void) {}
        void cuFileStreamRegister(void) {}
        void cuFileStreamDeregister(void) {}
        void cuFileReadAsync(void) {}";
    let other = compiled(folder.path(), source);
    let (driver, device) = driver();
    let direct = Direct::open(&driver, device, &other).expect("a context");
    assert_eq!(direct.why_not(), None);
    let memory = direct.memory(ROOM).expect("memory");
    let log = folder.path().join("log");
    knobs.set("LOG", &log);
    drop(direct);
    assert!(!log.exists(), "its memory is there");
    drop(memory);
    let calls = std::fs::read_to_string(&log).expect("a log");
    assert_eq!(calls, "cuMemFree\ncuDevicePrimaryCtxRelease\n");
    let loaded = std::fs::read_to_string("/proc/self/maps").expect("a list");
    let other = other.canonicalize().expect("a path");
    assert!(loaded.contains(&other.display().to_string()), "{loaded}");
}

#[test]
fn bounds_are_checked() {
    let _knobs = Knobs::turn();
    for cufile in [library(), nowhere()] {
        let lab = Lab::new(&cufile);
        let lane = lab.direct.lane().expect("a stream");
        let (memory, file) = (lab.direct.memory(100).expect("memory"), lab.file());
        let read = |range, at| kind(lane.read(&file, range, &memory, at)).0;
        assert_eq!(read(5..5, 0), Kind::Misuse);
        #[allow(clippy::reversed_empty_ranges)]
        let backwards = 6..5;
        assert_eq!(read(backwards, 0), Kind::Misuse);
        assert_eq!(read(0..101, 0), Kind::Misuse);
        assert_eq!(read(0..1, 100), Kind::Misuse);
        assert_eq!(read(0..1, usize::MAX), Kind::Misuse);
        assert_eq!(read(0..MOST_BYTES + 1, 0), Kind::TooLarge);
        assert_eq!(read(u64::MAX - 1..u64::MAX, 0), Kind::TooLarge);
        assert!(lane.read(&file, 0..100, &memory, 0).is_ok());
        let open = |path: &Path| kind(lab.direct.file(path)).0;
        assert_eq!(open(&lab.folder.path().join("none")), Kind::Missing);
        assert_eq!(open(lab.folder.path()), Kind::Unavailable);
        let pipe = lab.folder.path().join("pipe");
        let made = Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("a command").success());
        assert_eq!(open(&pipe), Kind::Unavailable);
    }
    let (knobs, lab) = (&_knobs, Lab::new(&library()));
    knobs.set("MEMORY", "1000");
    assert_eq!(kind(lab.direct.memory(1_001)).0, Kind::Unavailable);
    knobs.clear();
    knobs.set("FAILS", "cuStreamCreateWithPriority");
    assert_eq!(kind(lab.direct.lane()).0, Kind::Unavailable);
}

#[test]
fn without_its_library_reads_are_those_of_the_cpu() {
    let knobs = Knobs::turn();
    let read = |lab: &Lab| {
        let (lane, file) = (lab.direct.lane().expect("a stream"), lab.file());
        let memory = lab.direct.memory(ROOM).expect("memory");
        let reading = lane.read(&file, 50..SIZE, &memory, 10);
        assert_eq!(reading.expect("it is begun").wait(), Ok(()));
        assert!(lab.is_read(&memory));
        let told = (lane.why_not(), file.why_not());
        (told.0.map(str::to_owned), told.1.map(str::to_owned))
    };
    assert_eq!(read(&Lab::new(&library())), (None, None));
    let folder = tempfile::tempdir().expect("a folder");
    let source = "long cuFileDriverOpen(void) { return 0; }";
    let other = compiled(folder.path(), source);
    for (cufile, told) in [
        (nowhere(), "/nonexistent/libcufile.so.0 cannot be loaded: "),
        (
            other,
            " lacks cuFileHandleRegister, cuFileHandleDeregister, ",
        ),
    ] {
        let lab = Lab::new(&cufile);
        let why = lab.direct.why_not().expect("it is not there").to_owned();
        assert!(why.contains(told), "{why}");
        assert_eq!(read(&lab), (Some(why.clone()), Some(why)));
    }
    for (name, is_of_lane, is_of_file) in [
        ("cuFileDriverOpen", true, true),
        ("cuFileHandleRegister", false, true),
        ("cuFileStreamRegister", true, false),
    ] {
        knobs.set("FAILS", name);
        let lab = Lab::new(&library());
        let why = format!("{name}: CUfileOpError 5030 (CUresult 0)");
        let told = |is_told: bool| is_told.then(|| why.clone());
        assert_eq!(read(&lab), (told(is_of_lane), told(is_of_file)));
        knobs.clear();
    }
    knobs.set("FAILS", "cuDevicePrimaryCtxRetain");
    let (driver, device) = driver();
    let opened = Direct::open(&driver, device, &library());
    assert_eq!(kind(opened).0, Kind::Unsupported);
}
