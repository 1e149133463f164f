// SPDX-License-Identifier: MIT OR Apache-2.0
//! Features of requests: what is learned from them, the fields that are refused, and a process that
//! gives hostile ones.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use anyhow::{anyhow, ensure, Context as _, Result};
use bytemuck::{bytes_of, Zeroable};
use libzernel::request::{Begin, Features, Slot, Slots};
use libzernel::sys::abi;
use libzernel::{Timestamp, Zernel};
use rustix::fs::{memfd_create, MemfdFlags};
use rustix::io::Errno;

use super::predictions::predicted;
use super::{lab, longest_lease, new_key, slot, words, Client, Ends, Since};
use crate::abi::call;
use crate::check_eq;
use crate::child::Child;
use crate::common::{tune, Lab, SOON};
use crate::harness::Outcome;
use crate::permit::{ALICE, BOB};
use crate::sys::{self, Area};

/// Preparation times of small and large requests, in ms: further apart than a slow machine errs.
const SMALL: u64 = 4;
const LARGE: u64 = 40;

/// Requests until both are known: the bad predictions of the first few are forgotten then.
const LESSONS: u64 = 120;

/// The only feature of a request: its size.
fn sized(begin: Begin, ms: u64) -> Result<Begin> {
    let features = Features::new(&[ms as i64 * 1_000]).context("one feature")?;
    Ok(begin.features(features))
}

/// Requests of both sizes, whose preparation takes as long as they are large.
fn teach(slot: &Slot<'_>, begin: Begin, count: u64) -> Outcome {
    for n in 0..count {
        let ms = if n % 2 == 0 { SMALL } else { LARGE };
        let number = slot.begin(&sized(begin, ms)?)?.number;
        let ready = Timestamp::now() + Duration::from_millis(ms);
        std::thread::sleep(Duration::from_millis(ms));
        slot.ready_at(number, ready);
        slot.done(number);
    }
    Ok(())
}

/// A size that tells the preparation time is learnt, and told by the state of the module; the key's
/// quantile tells those without features, and all while another predictor is tuned.
pub(super) fn are_learnt() -> Outcome {
    let (lab, client) = lab()?;
    ensure!(lab.zernel.info()?.can.features, "no features");
    let slot = client.slot(0);
    let key = new_key();
    let begin = Begin::new(client.tsg).key(key);
    tune("predictor", "features")?;
    check_eq!(
        predicted(&slot, &sized(begin, LARGE)?)?,
        None,
        "nothing known"
    );
    teach(&slot, begin, LESSONS)?;
    // The next begin knows the newest one.
    predicted(&slot, &begin)?;
    let small = predicted(&slot, &sized(begin, SMALL)?)?.unwrap_or_default();
    let large = predicted(&slot, &sized(begin, LARGE)?)?.unwrap_or_default();
    println!("    # small {small:?}, large {large:?}");
    ensure!(small < Duration::from_millis(2 * SMALL), "small: {small:?}");
    let most = Duration::from_millis(LARGE * 5 / 4);
    let least = Duration::from_millis(LARGE / 2);
    ensure!(large > least && large < most, "large: {large:?}");
    // Without features, or with an exact expectation, they do not count.
    let plain = predicted(&slot, &begin)?;
    let exact = sized(begin, LARGE)?
        .expected(Duration::from_millis(7))
        .exact();
    check_eq!(predicted(&slot, &exact)?, Some(Duration::from_millis(7)));
    let line = format!("key {key} uid 0 confidence ");
    let state = fs::read_to_string("/sys/kernel/debug/zernel/state")?;
    let told = state.lines().find_map(|at| at.strip_prefix(&line));
    let told = told.with_context(|| format!("no '{line}' in the state"))?;
    let (confidence, follows) = told.split_once(" follows ").context("a field is missing")?;
    ensure!(confidence.parse::<u32>()? > 500, "confidence {told}");
    check_eq!(follows, "1", "predictions follow features");
    tune("predictor", "quantile")?;
    for ms in [SMALL, LARGE] {
        check_eq!(predicted(&slot, &sized(begin, ms)?)?, plain, "the quantile");
    }
    Ok(())
}

/// Options as a program would give them: one feature.
fn options() -> abi::zernel_request_options {
    abi::zernel_request_options {
        size: size_of::<abi::zernel_request_options>() as u32,
        features: 1,
        feature: [5, 0, 0, 0, 0, 0, 0, 0],
        ..Zeroable::zeroed()
    }
}

/// Each field that is refused has its errno, whichever predictor is tuned, and leaves the request that
/// the slot has as it is. A structure that is longer than the module's is taken if the rest is zero.
pub(super) fn refuse_bad_fields() -> Outcome {
    type Change = fn(&mut abi::zernel_request_options);
    const SIZE: u32 = size_of::<abi::zernel_request_options>() as u32;
    let bad: [(&str, Change, Errno); 16] = [
        ("size 0", |o| o.size = 0, Errno::INVAL),
        ("a word less", |o| o.size = SIZE - 8, Errno::INVAL),
        ("part of a word", |o| o.size = SIZE + 4, Errno::INVAL),
        ("above 4096", |o| o.size = 4_104, Errno::TOOBIG),
        ("the largest size", |o| o.size = u32::MAX, Errno::TOOBIG),
        (
            "a rest that is not zero",
            |o| o.size = SIZE + 8,
            Errno::TOOBIG,
        ),
        ("a burst alone", |o| o.burst_ns = 1, Errno::INVAL),
        ("flag 1", |o| o.flags = 2, Errno::INVAL),
        ("flag 31", |o| o.flags = 1 << 31, Errno::INVAL),
        ("9 features", |o| o.features = 9, Errno::INVAL),
        ("most features", |o| o.features = u32::MAX, Errno::INVAL),
        ("reserved", |o| o.reserved = 1, Errno::INVAL),
        ("reserved, all", |o| o.reserved = u32::MAX, Errno::INVAL),
        ("a second feature", |o| o.feature[1] = 1, Errno::INVAL),
        ("a last feature", |o| o.feature[7] = i64::MIN, Errno::INVAL),
        ("a feature of none", |o| o.features = 0, Errno::INVAL),
    ];
    let (lab, client) = lab()?;
    let file = Zernel::open()?;
    let slots = Slots::map(&file, 0..64)?;
    let slot = slot(&slots, 0);
    let since = Since::now(&lab.zernel)?;
    let key = new_key();
    let expected = Duration::from_secs(3_600);
    let begin = Begin::new(client.tsg).key(key).expected(expected);
    let mut area = Area::new()?;
    let at = Area::PAGE - 256;
    let mut raw = abi::zernel_request_begin {
        tsg: client.tsg.as_u64(),
        key,
        expected_ns: expected.as_nanos() as u64,
        options: area.address(at),
        ..Zeroable::zeroed()
    };
    let file = file.as_fd();
    let number = abi::LIBZERNEL_IOC_REQUEST_BEGIN;
    for predictor in ["features", "quantile"] {
        tune("predictor", predictor)?;
        slot.begin(&begin)?;
        let before = words(&slot);
        for (name, change, errno) in bad {
            let mut options = options();
            change(&mut options);
            area.put(at, &[0xff; 256]);
            area.put(at, bytes_of(&options));
            let (result, answer) = call(file, number, &raw);
            check_eq!(result.map(drop), Err(errno), "{name}, {predictor}");
            check_eq!(bytes_of(&answer), bytes_of(&raw), "{name}: the answer");
            check_eq!(words(&slot), before, "{name}: the slot");
            check_eq!(since.ends()?.in_flight, 1, "{name}: the request before");
        }
        // Memory that is not there, at once or behind the size.
        for offset in [Area::PAGE - 4, Area::PAGE - 72] {
            area.put(offset, &SIZE.to_ne_bytes());
            raw.options = area.address(offset);
            let (result, _) = call(file, number, &raw);
            check_eq!(result.map(drop), Err(Errno::FAULT), "at {offset}");
            check_eq!(words(&slot), before, "at {offset}: the slot");
        }
        raw.options = area.address(at);
        // Longer by zeroes, with an output field that has some content.
        area.put(at, &[0; 256]);
        let good = abi::zernel_request_options {
            size: 256,
            earliest_ns: 7,
            ..options()
        };
        area.put(at, bytes_of(&good));
        let (result, _) = call(file, number, &raw);
        check_eq!(result.map(drop), Ok(()), "a longer structure");
        check_eq!(
            area.get(at, 96),
            bytes_of(&good),
            "input and output are as before"
        );
        let last = slot.begin(&begin)?.number;
        slot.cancel(last)?;
    }
    since.expect(Ends {
        cancelled: 6,
        ..Ends::default()
    })
}

/// Requests by a process of a user, on a TSG of its own.
fn by(user: u32, run: impl FnOnce(&Slot<'_>, Begin) -> Outcome) -> Outcome {
    let child = Child::spawn(|| {
        sys::become_user(user, user, &[])?;
        let lab = Lab::open()?;
        let client = Client::new(&lab)?;
        run(&client.slot(0), Begin::new(client.tsg))
    })?;
    child.join_within(20 * SOON)
}

/// Hostile features reach no key but the caller's own: the predictions of another user's key of the
/// same number stay, and no trigger is later than the longest preparation that is told.
pub(super) fn gain_nothing() -> Outcome {
    longest_lease()?;
    tune("predictor", "features")?;
    let key = new_key();
    // Alice's predictions before and after, in memory that the processes share.
    let told = File::from(memfd_create("told", MemfdFlags::empty())?);
    let look = |slot: &Slot<'_>, begin: Begin, place: u64| -> Outcome {
        for (at, ms) in (0..).zip([SMALL, LARGE]) {
            let told_now = predicted(slot, &sized(begin.key(key), ms)?)?;
            let ns = told_now.unwrap_or_default().as_nanos() as u64;
            told.write_all_at(&ns.to_ne_bytes(), (place + at) * 8)?;
        }
        Ok(())
    };
    by(ALICE, |slot, begin| {
        teach(slot, begin.key(key), LESSONS)?;
        predicted(slot, &begin.key(key))?;
        look(slot, begin, 0)
    })?;
    by(BOB, |slot, begin| {
        let longest = Duration::from_nanos(1 << 34);
        let values = [0, 1, -1, i64::MIN, i64::MAX, 1 << 40, -(1 << 62)];
        for n in 0..2_000usize {
            let numbers: Vec<i64> = (0..n % 9)
                .map(|at| values[(n / 9 + at * (n % 5)) % values.len()])
                .collect();
            let features = Features::new(&numbers).context("eight at most")?;
            let begun = slot.begin(&begin.key(key).features(features))?;
            let ahead = begun.trigger_at.since(Timestamp::now());
            ensure!(ahead <= longest, "a trigger in {ahead:?}");
            ensure!(begun.predicted.unwrap_or_default() <= longest, "{begun:?}");
            slot.ready_at(begun.number, Timestamp::from_ns(values[n % 7] as u64));
            slot.done(begun.number);
        }
        Ok(())
    })?;
    by(ALICE, |slot, begin| look(slot, begin, 2))?;
    let mut bytes = [0; 32];
    told.read_exact_at(&mut bytes, 0)?;
    let told: [u64; 4] = bytemuck::cast(bytes);
    println!("    # {told:?} ns");
    ensure!(told[0] > 0 && told[1] > 0, "nothing was learnt: {told:?}");
    check_eq!(told[..2], told[2..], "before and after");
    Ok(())
}

/// A process that ends after one request teaches its key: no begin of its slot follows that would.
pub(super) fn are_learnt_at_the_end() -> Outcome {
    longest_lease()?;
    tune("predictor", "features")?;
    let key = new_key();
    for _ in 0..16 {
        by(ALICE, |slot, begin| {
            let number = slot.begin(&sized(begin.key(key), LARGE)?)?.number;
            slot.ready_at(number, Timestamp::now() + Duration::from_millis(LARGE));
            std::thread::sleep(Duration::from_millis(LARGE));
            slot.done(number);
            Ok(())
        })?;
    }
    let line = format!("key {key} uid {ALICE} confidence ");
    let state = fs::read_to_string("/sys/kernel/debug/zernel/state")?;
    let told = state.lines().find_map(|at| at.strip_prefix(&line));
    let told = told.with_context(|| format!("no '{line}' in the state"))?;
    ensure!(!told.starts_with("0 "), "nothing was learnt: {told}");
    Ok(())
}

/// The most keys of a user that learn from features, as Documentation/prediction.rst says.
const LEARNERS: u64 = 1_024;

/// Keys of a user that have learned from features, or begun to.
fn learners(user: u32) -> Result<usize> {
    let state = fs::read_to_string("/sys/kernel/debug/zernel/state")?;
    let of = format!(" uid {user} confidence ");
    Ok(state.lines().filter(|line| line.contains(&of)).count())
}

/// Requests of so many keys from this one on, with a feature each.
fn use_keys(user: u32, first: u64, count: u64) -> Outcome {
    by(user, |slot, begin| {
        for key in first..first + count {
            predicted(slot, &sized(begin.key(key), SMALL)?)?;
        }
        Ok(())
    })
}

/// A user has so many keys that learn from features: with each further one, one loses what it has
/// learned that was not used of late. Others have as many, and all of it is given back when features do not
/// count any more.
pub(super) fn are_bounded() -> Outcome {
    longest_lease()?;
    tune("predictor", "features")?;
    let first = new_key();
    check_eq!(learners(BOB)?, 0, "before");
    by(BOB, |slot, begin| teach(slot, begin.key(first), 40))?;
    // Both are known from now on, and one is used as others come.
    use_keys(BOB, first + 1, 1)?;
    for part in 0..8 {
        use_keys(BOB, first + 2 + part * LEARNERS / 4, LEARNERS / 4)?;
        use_keys(BOB, first, 2)?;
        ensure!(learners(BOB)? <= LEARNERS as usize, "beyond the bound");
    }
    check_eq!(learners(BOB)?, LEARNERS as usize, "the bound");
    check_eq!(knows(BOB, first)?, Some(true), "used all the time");
    check_eq!(knows(BOB, first + 7)?, None, "used once");
    by(BOB, |slot, begin| {
        // One of the first: it lost its place, gets another one, and learns anew.
        let begin = begin.key(first + 7);
        teach(slot, begin, LESSONS)?;
        // The next begin knows the newest one.
        predicted(slot, &sized(begin, SMALL)?)?;
        let small = predicted(slot, &sized(begin, SMALL)?)?.unwrap_or_default();
        ensure!(small < Duration::from_millis(2 * SMALL), "small: {small:?}");
        Ok(())
    })?;
    check_eq!(learners(BOB)?, LEARNERS as usize, "no more");
    use_keys(ALICE, first, 3)?;
    check_eq!(learners(ALICE)?, 3, "another user");
    tune("predictor", "quantile")?;
    for user in [ALICE, BOB] {
        check_eq!(learners(user)?, 0, "when they do not count");
    }
    use_keys(BOB, first, 3)?;
    check_eq!(learners(BOB)?, 0, "while they do not count");
    tune("predictor", "features")?;
    use_keys(BOB, first + LEARNERS, 3)?;
    check_eq!(learners(BOB)?, 3, "when they count again");
    Ok(())
}

/// True if a key has learned something, `None` if it has no place for that.
fn knows(user: u32, key: u64) -> Result<Option<bool>> {
    let state = fs::read_to_string("/sys/kernel/debug/zernel/state")?;
    let line = format!("key {key} uid {user} confidence ");
    let told = state.lines().find_map(|at| at.strip_prefix(&line));
    Ok(told.map(|told| !told.starts_with("0 ")))
}

/// A change of the features that count begins anew, for keys that are bound to a slot, too; one of the
/// memory does not.
pub(super) fn have_epochs() -> Outcome {
    let (_lab, client) = lab()?;
    let slot = client.slot(0);
    let key = new_key();
    let begin = Begin::new(client.tsg).key(key);
    tune("predictor", "features")?;
    for (tunable, on, off) in [
        ("features_measured", "1", "0"),
        ("predictor", "quantile", "features"),
    ] {
        teach(&slot, begin, 40)?;
        predicted(&slot, &sized(begin, SMALL)?)?;
        check_eq!(knows(0, key)?, Some(true), "{tunable}: learned");
        tune("features_memory", 64)?;
        tune("features_memory", 128)?;
        check_eq!(knows(0, key)?, Some(true), "another memory");
        tune(tunable, on)?;
        check_eq!(knows(0, key)?, None, "{tunable} {on}");
        tune(tunable, off)?;
        check_eq!(knows(0, key)?, None, "{tunable} {off}");
        let plain = predicted(&slot, &begin)?;
        for ms in [SMALL, LARGE] {
            check_eq!(predicted(&slot, &sized(begin, ms)?)?, plain, "{tunable}");
        }
    }
    Ok(())
}

/// Threads whose slots have one key teach it together, and each lesson counts: neither finds the regression
/// taken away by the other one.
pub(super) fn of_two_slots() -> Outcome {
    let (_lab, client) = lab()?;
    tune("predictor", "features")?;
    let begin = Begin::new(client.tsg).key(new_key());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|number| {
                let slot = client.slot(number);
                scope.spawn(move || teach(&slot, begin, LESSONS / 2))
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
    })?;
    for number in 0..2 {
        predicted(&client.slot(number), &begin)?;
    }
    for number in [0, 1] {
        let slot = client.slot(number);
        let small = predicted(&slot, &sized(begin, SMALL)?)?.unwrap_or_default();
        let large = predicted(&slot, &sized(begin, LARGE)?)?.unwrap_or_default();
        println!("    # slot {number}: small {small:?}, large {large:?}");
        ensure!(small < Duration::from_millis(2 * SMALL), "small: {small:?}");
        ensure!(large > Duration::from_millis(LARGE / 2), "large: {large:?}");
    }
    // Both hammer it with lessons, and a third thread changes what counts.
    let end = std::time::Instant::now() + Duration::from_secs(2);
    std::thread::scope(|scope| -> Outcome {
        let threads: Vec<_> = (0..2)
            .map(|number| {
                let slot = client.slot(number);
                scope.spawn(move || -> Outcome {
                    let mut n = 0;
                    while std::time::Instant::now() < end {
                        n += 1;
                        let begun = slot.begin(&sized(begin, n % 50)?)?;
                        slot.ready_at(begun.number, Timestamp::now());
                        slot.done_call(begun.number)?;
                    }
                    Ok(())
                })
            })
            .collect();
        while std::time::Instant::now() < end {
            for (name, value) in [("features_measured", "1"), ("predictor", "quantile")] {
                tune(name, value)?;
            }
            tune("features_measured", "0")?;
            tune("predictor", "features")?;
        }
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
    })
}
