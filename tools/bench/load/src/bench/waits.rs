// SPDX-License-Identifier: MIT OR Apache-2.0
//! Costs of waits for the GPU: of one that a provider tells of, and of a call of a function with a
//! probe.

use std::hint::black_box;

use anyhow::Result;
use libzernel::sim::{Context, Item};
use libzernel::{Target, Timestamp, Tracking, Zernel};
use testkit::own::place_of;

use super::{Figure, Meter};

/// In the place of a library's call that waits for the GPU: like most of them it begins with a push,
/// which the kernel emulates; another instruction would take a second trap.
#[inline(never)]
fn function(wait: &mut dyn FnMut()) {
    wait();
    // So that the call above is not a jump.
    black_box(());
}

fn call(meter: &Meter, name: &'static str) -> Result<Figure> {
    meter.figure(name, || {
        function(&mut || {
            black_box(());
        });
        Ok(())
    })
}

/// A wait of `context` and a call of a function: before the function has a probe, with one, and when
/// the thread is tracked, too. Takes CAP_SYS_ADMIN.
pub(super) fn costs(meter: &Meter, zernel: &Zernel, context: &Context) -> Result<Vec<Figure>> {
    let seq = context.submit(0, &[Item::fence()])?.last_seq;
    let wait = |name| meter.figure(name, || context.wait(0, seq, Timestamp::NEVER));
    let mut figures = vec![
        wait("wait of a provider")?,
        call(meter, "call of a function")?,
    ];
    let (own, place) = place_of(function as *const () as usize)?;
    let probe = zernel.add_probe(&own, place)?;
    figures.push(call(meter, "call with a probe")?);
    zernel.track(&Target::current_thread(), Tracking::PLAIN)?;
    figures.push(wait("wait of a provider, tracked")?);
    figures.push(call(meter, "call with a probe, tracked")?);
    zernel.untrack(&Target::current_thread())?;
    zernel.remove_probe(probe)?;
    Ok(figures)
}
