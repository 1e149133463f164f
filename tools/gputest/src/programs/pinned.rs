// SPDX-License-Identifier: MIT OR Apache-2.0
//! A page that is mapped and pinned twice: as zernel pins the page of the slots and the driver does,
//! too.

use anyhow::Result;

use crate::gpu::{look, Gpu};
use crate::report::Findings;
use crate::sys;
use crate::sys::memory::{Page, Words};

const FROM: usize = 0;
const TO: usize = 16;

pub fn run(gpu: &Gpu) -> Result<Findings> {
    let mut findings = Findings::default();
    let entered = gpu.enter()?;
    let stream = gpu.api.stream()?;
    let stream = stream.stream();
    let (first, second) = Page::twice()?;
    let one = Words::of(first, &gpu.driver, gpu.context())?;
    let two = Words::of(second, &gpu.driver, gpu.context())?;
    findings.value("addresses differ", one.address(0) != two.address(0));

    // Waits through the one, stores through the other.
    entered.wait_word(stream, one.address(FROM), 1)?;
    sys::write_word(&entered, stream, two.address(TO), 1)?;
    two.store(FROM, 1);
    look("the store to a page that is pinned twice", || {
        one.load(TO) == 1
    })?;
    findings.value("a store through either", "seen through the other");

    let again = gpu.driver.register(gpu.context(), first.address(), 4096);
    let refused = again.is_err();
    findings.expect("the same address is not registered twice", refused);
    drop(again);

    // The one is given back, the other stays.
    drop(one);
    entered.wait_word(stream, two.address(FROM), 2)?;
    sys::write_word(&entered, stream, two.address(TO), 2)?;
    first.words()[FROM].store(2, std::sync::atomic::Ordering::Release);
    look("the store to a page that is pinned once again", || {
        two.load(TO) == 2
    })?;
    findings.value("with one pin given back", "seen, too");
    entered.wait_idle(stream)?;
    Ok(findings)
}
