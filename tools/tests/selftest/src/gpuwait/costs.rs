// SPDX-License-Identifier: GPL-2.0
//! The costs of waits, in instructions: on a machine on which one takes a nanosecond.

use std::hint::black_box;
use std::time::Instant;

use anyhow::Result;
use libzernel::sim::Item;
use libzernel::{Target, Timestamp, Tracking, Zernel};

use super::{synchronize, Probed, MS};
use crate::child::in_child;
use crate::common::Lab;
use crate::harness::Outcome;

const TIMES: u32 = 2_000;

/// Nanoseconds that it takes, of many that are the fewest.
fn cost(mut run: impl FnMut() -> Result<()>) -> Result<u64> {
    let mut least = u64::MAX;
    for _ in 0..10 {
        let begin = Instant::now();
        for _ in 0..TIMES / 10 {
            run()?;
        }
        least = least.min(begin.elapsed().as_nanos() as u64 / u64::from(TIMES / 10));
    }
    Ok(least)
}

/// Prints figures; what they depend on is too much for bounds.
pub fn costs() -> Outcome {
    in_child(|| {
        let lab = Lab::open()?;
        let (context, _) = lab.compute()?;
        let seq = context.submit(0, &[Item::work(MS)])?.last_seq;
        context.wait(0, seq, Timestamp::NEVER)?;
        let wait = || Ok(context.wait(0, seq, Timestamp::NEVER).map(drop)?);
        let call = || {
            synchronize(&mut || {
                black_box(0);
            });
            Ok(())
        };
        let zernel = Zernel::open()?;
        let plain = (cost(wait)?, cost(call)?);
        let probed = Probed::new()?;
        let untracked = cost(call)?;
        zernel.track(&Target::current_process(), Tracking::PLAIN)?;
        let tracked = (cost(wait)?, cost(call)?);
        drop(probed);
        zernel.untrack(&Target::current_process())?;
        println!(
            "    # wait of a provider, untracked {}, tracked {}; function {}, probed and untracked \
             {untracked}, and tracked {}",
            plain.0, tracked.0, plain.1, tracked.1
        );
        Ok(())
    })
}
