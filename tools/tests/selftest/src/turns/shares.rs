// SPDX-License-Identifier: GPL-2.0
//! The enabled TSGs, and their shares.

use anyhow::{ensure, Result};
use libzernel::class::Attributes;
use libzernel::{Level, Target};

use super::{weight, Crowd, MS};
use crate::check_eq;
use crate::common::{slice_of, tune, Lab};
use crate::harness::Outcome;

/// The number of looks at the enabled ones.
const LOOKS: usize = 40;

/// One, and in a hand-over two; so the engine never idles.
pub(super) fn one_is_enabled() -> Outcome {
    let lab = Lab::open()?;
    for count in [2, 3, 8] {
        let crowd = Crowd::taking_turns(&lab, &vec![1024; count])?;
        let mut seen = vec![0; count];
        let mut most = 0;
        for _ in 0..LOOKS {
            let enabled = crowd.enabled()?;
            ensure!(
                (1..=2).contains(&enabled.len()),
                "of {count}, enabled: {enabled:?}"
            );
            most = most.max(enabled.len());
            for at in enabled {
                seen[at] += 1;
            }
        }
        println!("    # enabled in {LOOKS} looks: {seen:?}, {most} at most");
        // No look suspends the GPU now.
        let before = lab.sim.engine_stats(0, 0)?;
        crowd.wait_all_run(&(0..count).collect::<Vec<_>>(), 10 * MS)?;
        let after = lab.sim.engine_stats(0, 0)?;
        check_eq!(after.idle_ns - before.idle_ns, 0, "idle time");
    }
    Ok(())
}

/// A TSG without another to take turns with has the GPU, however short its slice is.
pub(super) fn one_alone() -> Outcome {
    let lab = Lab::open()?;
    let crowd = Crowd::new(&lab, 2)?;
    lab.zernel.set_class(&crowd.target(0), Level::BE)?;
    lab.wait_slice(crowd.context(0), slice_of(7))?;
    super::keep_busy(crowd.context(0))?;
    crowd.wait_all_run(&[0], 50 * MS)?;
    check_eq!(crowd.enabled()?, [0, 1]);
    // Another one that joins and leaves.
    lab.zernel.set_class(&crowd.target(1), Level::BE)?;
    super::keep_busy(crowd.context(1))?;
    crowd.wait_enabled(1)?;
    crowd.wait_all_run(&[0, 1], 20 * MS)?;
    lab.zernel.clear_class(&crowd.target(1))?;
    crowd.wait_enabled(2)
}

pub(super) fn equal() -> Outcome {
    let lab = Lab::open()?;
    for count in [2, 3, 5, 8] {
        let crowd = Crowd::taking_turns(&lab, &vec![1024; count])?;
        crowd.wait_shares(&vec![1; count])?;
    }
    Ok(())
}

pub(super) fn by_weight() -> Outcome {
    let lab = Lab::open()?;
    for weights in [&[3072, 1024][..], &[300, 100], &[6000, 2000, 2000]] {
        let crowd = Crowd::taking_turns(&lab, weights)?;
        let due: Vec<_> = weights.iter().map(|&w| u64::from(w)).collect();
        crowd.wait_shares(&due)?;
    }
    Ok(())
}

/// Credit knows weights, the other one does not.
pub(super) fn of_other_disciplines() -> Outcome {
    let lab = Lab::open()?;
    let crowd = Crowd::taking_turns(&lab, &[3072, 1024])?;
    for (discipline, due) in [("credit", [3, 1]), ("rr", [1, 1]), ("fair", [3, 1])] {
        tune("rotation", discipline)?;
        crowd.settle_turns()?;
        crowd.wait_shares(&due)?;
    }
    Ok(())
}

/// Of a target of any kind.
pub(super) fn weight_changes_at_once() -> Outcome {
    let lab = Lab::open()?;
    let crowd = Crowd::taking_turns(&lab, &[1024, 1024])?;
    let told = |at: usize| -> Result<u32> {
        Ok(lab.zernel.class(&crowd.target(at))?.weight.value.number())
    };
    crowd.wait_shares(&[1, 1])?;
    lab.zernel.set_class(
        &crowd.target(0),
        Attributes::from(Level::BE).weight(weight(3072)?),
    )?;
    check_eq!((told(0)?, told(1)?), (3072, 1024));
    crowd.wait_shares(&[3, 1])?;
    // That of the process, once the TSG has none of its own.
    let me = Target::current_process();
    lab.zernel
        .set_class(&me, Attributes::from(Level::BE).weight(weight(512)?))?;
    lab.zernel.clear_class(&crowd.target(0))?;
    check_eq!((told(0)?, told(1)?), (512, 1024));
    crowd.wait_shares(&[1, 2])
}
