// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program that changes the time slice of its own TSG: refused, or put right.

use anyhow::Result;
use libzernel::Level;

use crate::check::Check;
use crate::figure::Figures;
use crate::lab::Lab;
use crate::work::Answer;

use super::stage::PATIENCE;

/// The check.
pub const CHECK: Check = Check {
    name: "user",
    asks: "Is a program's own change of its slice refused, or put right?",
    seconds: 15,
    slices: &[],
    run,
};

/// A level with a slice that no driver gives by itself, and the slice that the program asks for.
const LEVEL: u8 = 3;
const ASKED_US: u32 = 700;

const SOURCE: &str = "Documentation/tunables.rst: user_control";

fn run(lab: &Lab<'_>, figures: &mut Figures) -> Result<()> {
    let context = lab.context(Level::new(LEVEL).expect("a level from 0 to 7"))?;
    let class = context.slice_us()?;
    lab.set("user_control", "deny")?;
    let refused = context.ask_slice(ASKED_US)? == Answer::Refused;
    figures.always("refused", refused.into(), 1, SOURCE);
    let kept = context.slice_us()? == class;
    figures.always("unchanged", kept.into(), 1, SOURCE);
    lab.set("user_control", "reapply")?;
    let done = context.ask_slice(ASKED_US)? == Answer::Done;
    figures.always("let_through", done.into(), 1, SOURCE);
    let back = lab.within(
        PATIENCE,
        || Ok((context.slice_us()? == class).then_some(())),
    )?;
    figures.always("put_right", back.is_some().into(), 1, SOURCE);
    Ok(())
}
