// SPDX-License-Identifier: GPL-2.0
//! Subscriptions that begin and end in every way while signals come.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::ensure;
use libzernel::prefetch::Ranges;
use libzernel::request::{Slots, Word};
use libzernel::{Target, Zernel};
use testkit::Repeat;

use super::{wait_subscriptions, Bell, Signaller};
use crate::child::Child;
use crate::harness::Outcome;

/// Longer than it takes.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(3_000);

pub(super) fn beside_signals() -> Outcome {
    static DONE: AtomicBool = AtomicBool::new(false);
    let child = Child::spawn(|| {
        let zernel = Zernel::open()?;
        let signaller = Signaller::own(&zernel)?;
        let (all, _all) = Bell::of(&zernel, &Target::current_process())?;
        let other = std::thread::spawn(|| {
            let result = come_and_go();
            DONE.store(true, Relaxed);
            result
        });
        let mut signals = 0;
        while !DONE.load(Relaxed) || signals == 0 {
            signaller.signal(1)?;
            signals += 1;
        }
        let seen = other.join().expect("a thread that ends")?;
        let rings = all.rings(signals)?;
        println!("    # {signals} signals, {seen} of them seen");
        ensure!(rings == signals, "{rings} of {signals}");
        Ok(())
    })?;
    child.join_within(PATIENCE)?;
    wait_subscriptions(&Zernel::open()?, 0)
}

/// Begins and ends subscriptions. Returns how many signals reached those that are counted.
fn come_and_go() -> anyhow::Result<u64> {
    let me = Target::current_process();
    let file = File::open("/proc/self/exe")?;
    let ranges = Ranges {
        offset: 4096,
        length: 1 << 20,
        span: 3 << 20,
    };
    let mut seen = 0;
    let mut repeat = Repeat::new(400, "times four subscriptions");
    for round in repeat.by_ref() {
        let zernel = Zernel::open()?;
        let slots = Slots::map(&zernel, 0..64)?;
        let slot = slots.slot((round % 64) as u32).expect("a slot");
        let (bell, rings) = Bell::of(&zernel, &me)?;
        let word = slot.subscribe(&me)?;
        let ahead = zernel.subscribe_read_ahead(&me, file.as_fd(), &ranges)?;
        let _twice = zernel.subscribe_eventfd(&me, bell.0.as_fd())?;
        if round % 3 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(round % 16));
        }
        seen += u64::from(slot.load(Word::Signals)) + bell.rings(0)?;
        match round % 3 {
            // By themselves, in this order.
            0 => {
                rings.unsubscribe()?;
                word.unsubscribe()?;
                ahead.unsubscribe()?;
            }
            // With the file.
            1 => {
                rings.keep();
                word.keep();
                ahead.keep();
            }
            _ => {}
        }
    }
    println!("    # {}", repeat.report());
    Ok(seen)
}
