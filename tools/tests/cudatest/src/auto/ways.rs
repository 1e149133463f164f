// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ways to the driver, and what a program gets in each.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{ensure, Context as _, Result};
use libzernel::request::Of;
use libzernel::{Level, Target, Zernel};
use object::read::elf::{Dyn as _, ElfFile64, FileHeader as _};
use object::{Object as _, ObjectSymbol as _};
use rustix::process::Signal;
use testkit::harness::Outcome;
use testkit::zernelctl::{outcome, Running};
use testkit::{check_eq, wait_until};

use super::lab::{added, alone, kept, serves, zernelctl, Way, LIBRARY, USUAL, WAYS};
use crate::lab::lease;

/// A request for each time that a program serves.
pub fn each_way() -> Outcome {
    lease("5000000")?;
    for way in WAYS {
        for kind in ["0", "1", "2", "3"] {
            let counts = added(|| serves(way, &["serve", "8", kind]).map(|_| ()))?;
            // The first launch of a graph's kernel is in a capture: it is no work, and may wait.
            let expected = if kind == "3" { (7, 7) } else { (8, 8) };
            check_eq!(kept(&counts), expected, "{way:?} {kind}: {counts:?}");
        }
    }
    Ok(())
}

pub fn look_up() -> Outcome {
    let work = ["look-up"];
    for way in [WAYS[2], WAYS[3]] {
        check_eq!(serves(way, &work)?, alone(way, &work)?.output);
    }
    // A driver that lacks forms, and the libraries of a program alone.
    let all = ["look-up-all"];
    let (without, with) = (alone(USUAL, &all)?.output, serves(USUAL, &all)?);
    let lines = |output: &str| output.lines().map(str::to_owned).collect::<Vec<_>>();
    check_eq!(lines(&with).len(), lines(&without).len(), "{with}");
    for (line, expected) in lines(&with).iter().zip(lines(&without)) {
        check_eq!(*line, expected);
    }
    ensure!(without.contains("2 cuLaunchKernel 1 1 1 1\n"), "{without}");
    ensure!(without.contains("1 cuLaunchKernel 1 0 0 0\n"), "{without}");
    ensure!(without.contains("0 cuLaunchKernel 0 0 0 0\n"), "{without}");
    ensure!(
        without.contains("2 cuCtxSynchronize_v2 0 0 0 0\n"),
        "{without}"
    );
    Ok(())
}

/// Names beside those of the driver.
const OTHERS: [&str; 8] = [
    "__read_chk",
    "__recv_chk",
    "__recvfrom_chk",
    "dlsym",
    "read",
    "recv",
    "recvfrom",
    "recvmsg",
];

/// Names in the file: functions that are seen, and `dlsym`.
pub fn the_file() -> Outcome {
    let data = fs::read(LIBRARY).context(LIBRARY)?;
    let file = ElfFile64::<object::Endianness>::parse(&*data)?;
    let shown = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition());
    let shown: BTreeSet<_> = shown.filter_map(|symbol| symbol.name().ok()).collect();
    let strange: Vec<_> = shown
        .iter()
        .filter(|name| !OTHERS.contains(name) && !name.starts_with("cu"))
        .collect();
    ensure!(strange.is_empty(), "it shows {strange:?}");
    for name in ["dlsym", "cuLaunchKernel_ptsz", "cuGetProcAddress_v2"] {
        ensure!(shown.contains(name), "it lacks {name}");
    }
    let needed = needed(&file)?;
    ensure!(needed.contains("libc.so.6"), "it needs {needed:?}");
    for name in &needed {
        let is_usual = ["libc.so", "libgcc_s.so", "ld-linux"]
            .iter()
            .any(|usual| name.starts_with(usual));
        ensure!(is_usual, "it needs {name}");
    }
    Ok(())
}

/// The libraries that a file needs.
fn needed(file: &ElfFile64<'_, object::Endianness>) -> Result<BTreeSet<String>> {
    let (endian, data) = (file.endian(), file.data());
    let sections = file.elf_header().sections(endian, data)?;
    let (entries, strings) = sections
        .dynamic(endian, data)?
        .context("it is no shared library")?;
    let strings = sections.strings(endian, data, strings)?;
    let mut found = BTreeSet::new();
    for entry in entries {
        if entry.tag(endian) == object::elf::DT_NEEDED {
            let name = entry.string(endian, strings)?;
            found.insert(String::from_utf8(name.to_vec())?);
        }
    }
    Ok(found)
}

/// Starts work that stays when it is over.
fn stay(way: Way, options: &[&str]) -> Result<Running> {
    let arguments = way.run(options, &["stay", "30", "1"]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let running = Running::start(&arguments)?;
    running.wait_text("served")?;
    Ok(running)
}

/// The requests of the only TSG of a process, and its level.
fn of_process(running: &Running) -> Result<(libzernel::request::RequestStats, Option<Level>)> {
    let zernel = Zernel::open()?;
    let process = Target::pidfd(running.pid())?;
    let own = zernel.tsgs_of(&process);
    let own: Vec<_> = own.collect::<libzernel::Result<_>>()?;
    let compute = own.iter().find(|tsg| tsg.compute);
    let tsg = compute.context("it has no compute TSG")?;
    Ok((zernel.request_stats(Of::Tsg(tsg.id))?, tsg.level))
}

pub fn requests() -> Outcome {
    lease("5000000")?;
    let running = stay(USUAL, &["--requests", "auto"])?;
    let (told, level) = of_process(&running)?;
    check_eq!(level, Some(Level::LC));
    // The other half of its rounds are for comparison.
    check_eq!(
        (told.begun - told.cancelled, told.expired),
        (15, 0),
        "{told:?}"
    );
    // The last one's word is seen at the end of its slot.
    ensure!(told.done >= 11, "{told:?}");
    // The GPU was there before the data, of the first one at least: it has no history.
    ensure!(told.early >= 1 && told.triggers >= told.early, "{told:?}");
    running.signal(Signal::KILL)?;
    running.end().map(|_| ())
}

pub fn classes_alone() -> Outcome {
    for options in [&[][..], &["--requests", "off"]] {
        let running = stay(USUAL, options)?;
        let (told, level) = of_process(&running)?;
        check_eq!(level, Some(Level::LC));
        check_eq!(told.begun, 0, "{options:?}");
        running.signal(Signal::KILL)?;
        running.end()?;
    }
    Ok(())
}

pub fn no_library() -> Outcome {
    let run = |options: &[&str]| {
        let arguments = USUAL.run(options, &["serve", "1"]);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        outcome(&arguments)
    };
    let none = ["--requests", "auto", "--auto-library", "/nonexistent.so"];
    let (code, output, errors) = run(&none)?;
    check_eq!((code, output.as_str()), (Some(1), ""));
    let sentence = "zernelctl: no library for --requests auto at /nonexistent.so: ";
    ensure!(errors.starts_with(sentence), "{errors}");
    for options in [
        &["--auto-library", LIBRARY][..],
        &["--requests", "off", "--auto-library", LIBRARY],
    ] {
        let (code, output, errors) = run(options)?;
        check_eq!((code, output.as_str()), (Some(2), ""), "{options:?}");
        ensure!(
            errors.contains("--auto-library is for --requests auto"),
            "{errors}"
        );
    }
    // A variable without a value is none.
    let arguments = USUAL.run(&["--requests", "auto"], &["serve", "1"]);
    let empty = zernelctl(&arguments, &[("ZERNEL_AUTO_LIBRARY", "")])?;
    check_eq!(
        (empty.code, empty.output.as_str(), empty.errors.as_str()),
        (Some(0), "served\n", "")
    );
    let (code, output, errors) = run(&["--requests", "auto", "--auto-library", LIBRARY])?;
    check_eq!(
        (code, output.as_str(), errors.as_str()),
        (Some(0), "served\n", "")
    );
    Ok(())
}

pub fn nothing() -> Outcome {
    for way in [WAYS[0], WAYS[2]] {
        let arguments = way.with_requests(&["nothing"]);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let running = Running::start(&arguments)?;
        running.wait_text("waiting")?;
        let folder = format!("/proc/{}", running.pid());
        let maps = fs::read_to_string(format!("{folder}/maps"))?;
        ensure!(maps.contains("libzernel-auto.so"), "{maps}");
        ensure!(!maps.contains("/dev/zernel"), "{maps}");
        for file in fs::read_dir(format!("{folder}/fd"))? {
            let file = fs::read_link(file?.path())?;
            ensure!(!file.starts_with("/dev/zernel"), "{}", file.display());
        }
        let tasks = fs::read_dir(format!("{folder}/task"))?.count();
        check_eq!(tasks, 1, "threads");
        running.signal(Signal::KILL)?;
        let (_, output) = running.end()?;
        check_eq!(output.as_str(), "waiting\n");
    }
    Ok(())
}

pub fn threads() -> Outcome {
    const EACH: u64 = 30;
    lease("5000000")?;
    let variables = [
        ("ZERNEL_AUTO", "lanes=16,sites=all"),
        ("CUDA_DEVICE_MAX_CONNECTIONS", "32"),
    ];
    for way in [USUAL, WAYS[5]] {
        let arguments = way.with_requests(&["threads", &EACH.to_string(), "16"]);
        let counts = added(|| {
            let outcome = zernelctl(&arguments, &variables)?;
            let went_well = outcome.code == Some(0) && outcome.errors.is_empty();
            ensure!(went_well, "{outcome:?}");
            Ok(())
        })?;
        // Calls of other threads that stall cancel some; of a site with many of those, more are
        // left out.
        ensure!(counts["begun"] > 2 * EACH, "{counts:?}");
        let over = counts["done"] + counts["cancelled"] + counts["closed"] + counts["gone"];
        check_eq!(over, counts["begun"], "{counts:?}");
    }
    Ok(())
}

pub fn two_threads() -> Outcome {
    lease("5000000")?;
    let counts = added(|| serves(USUAL, &["two", "60"]).map(|_| ()))?;
    check_eq!(kept(&counts), (60, 60), "{counts:?}");
    Ok(())
}

/// Data from a socket, of this thread or another one, begins a request.
pub fn sockets() -> Outcome {
    lease("5000000")?;
    for (variable, begun) in [
        ("sites=all,begin=socket", 20),
        ("lanes=4,begin=copy,sites=all", 20),
        ("", 10),
        ("begin=socket", 10),
    ] {
        for work in ["sockets", "socket"] {
            let arguments = USUAL.with_requests(&[work, "20"]);
            let counts = added(|| {
                let outcome = zernelctl(&arguments, &[("ZERNEL_AUTO", variable)])?;
                let expected = (
                    outcome.code,
                    outcome.output.as_str(),
                    outcome.errors.as_str(),
                );
                check_eq!(expected, (Some(0), "served\n", ""));
                Ok(())
            })?;
            check_eq!(
                kept(&counts),
                (begun, begun),
                "{variable} {work}: {counts:?}"
            );
            check_eq!(counts["expired"], 0, "{variable} {work}: {counts:?}");
        }
    }
    // The socket brings data before the copy does: without copies there are requests all the same.
    let arguments = USUAL.with_requests(&["socket", "20", "1"]);
    for (variable, begun) in [("begin=socket,sites=all", 20), ("begin=copy", 0)] {
        let counts = added(|| {
            let outcome = zernelctl(&arguments, &[("ZERNEL_AUTO", variable)])?;
            check_eq!(outcome.code, Some(0));
            Ok(())
        })?;
        check_eq!(kept(&counts).0, begun, "{variable}: {counts:?}");
    }
    Ok(())
}

pub fn contexts() -> Outcome {
    lease("5000000")?;
    for way in [WAYS[0], USUAL] {
        let counts = added(|| serves(way, &["contexts", "8"]).map(|_| ()))?;
        // Twice in two contexts, and two times twice in the primary one.
        check_eq!(kept(&counts), (64, 64), "{counts:?}");
    }
    Ok(())
}

pub fn exec() -> Outcome {
    lease("5000000")?;
    for way in [WAYS[0], USUAL] {
        let counts = added(|| {
            check_eq!(serves(way, &["exec", "20"])?.as_str(), "served\nserved\n");
            Ok(())
        })?;
        check_eq!(kept(&counts).0, 40, "{counts:?}");
    }
    Ok(())
}

pub fn forks() -> Outcome {
    lease("5000000")?;
    for way in [WAYS[0], USUAL] {
        let counts = added(|| serves(way, &["forks", "20"]).map(|_| ()))?;
        // The first copy after the first result has no launch of its own before the next one.
        let (begun, done) = kept(&counts);
        ensure!((20..=22).contains(&begun), "{counts:?}");
        check_eq!(done, begun, "{counts:?}");
    }
    // One that is linked has used nothing of CUDA before it forks, either.
    for way in [WAYS[0], USUAL] {
        let counts = added(|| serves(way, &["child", "20"]).map(|_| ()))?;
        check_eq!(kept(&counts).0, 20, "{counts:?}");
    }
    wait_until("nothing is left", || {
        Ok(Zernel::open()?.request_stats(Of::All)?.in_flight == 0)
    })
}
