// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program with a probe of waits, as an administrator sets one, that waits all the time.

use anyhow::Result;
use libzernel::{Target, Tracking, Zernel};
use testkit::own::place_of;

use crate::troop::Troop;

/// The function that stands for a library's wait for the GPU.
#[inline(never)]
fn wait_for_gpu(number: u64) -> u64 {
    std::hint::black_box(number) + 1
}

/// Waits at full rate, in a tracked thread and in new ones.
pub fn waits(troop: &mut Troop) -> Result<()> {
    let user = troop.user();
    let (library, offset) = place_of(wait_for_gpu as *const () as usize)?;
    let zernel = Zernel::open()?;
    let probe = zernel.add_probe(&library, offset)?;
    troop.tenant(user, move |stage| {
        let _keeps = (zernel, probe);
        let own = Zernel::open()?;
        own.track(&Target::current_process(), Tracking::ML)?;
        stage.wait()?;
        loop {
            for number in 0..100 {
                wait_for_gpu(number);
            }
            // It may not have been made.
            let _ = std::thread::spawn(|| wait_for_gpu(0)).join();
        }
    })
}
